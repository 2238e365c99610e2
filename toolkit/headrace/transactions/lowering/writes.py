"""What is written: which rows, and whether it may have to be undone."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from headrace.codegen.capture import CapturedFunction
from headrace.codegen.kinds import Array, Kind, MapOf, Record
from headrace.transactions.lowering.entries import Entries, Entry, without
from headrace.transactions.lowering.lowered import REJECTED, Lowered
from headrace.transactions.lowering.statements import Statements
from headrace.transactions.lowering.trees import located, written_place


class Writes(Statements):
    """What the function being lowered writes."""

    _entries: set[str]
    """Names that loops give to elements of containers of rows."""
    _read: Entries
    """Entries that reading creates."""

    def _container(self, node: ast.AST | None) -> Kind | None:
        """The kind of a row's column, if that is a container; else None."""
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self._rows):
            return None
        kind = self._rows[node.value.id].table.columns.get(node.attr)
        return None if isinstance(kind, str) else kind

    def _is_filled_by_reading(self, node: ast.AST | None) -> bool:
        """Whether it is a column of a row whose entries are created by their first read."""
        kind = self._container(node)
        return isinstance(kind, MapOf) and isinstance(kind.value, Array | Record)

    def _check_containers(self, root: ast.AST) -> None:
        """Refuse other names for a row's containers: changes under such a name would not be seen as changes of the row."""
        for node in ast.walk(root):
            if isinstance(node, ast.Assign) and self._container(node.value) is not None:
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        text = ast.unparse(node.value)
                        raise self._error(
                            f"{target.id!r} would be another name of {text}: give the row a name, as in r = table[...], and use"
                            f" r.{node.value.attr}",  # type: ignore[attr-defined]
                            node,
                        )
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self._captured.helpers:
                given = [*node.args, *(keyword.value for keyword in node.keywords)]
                held = next((each for each in given if self._container(each) is not None), None)
                helper = self._captured.helpers[node.func.id]
                reads = held is not None and self._is_filled_by_reading(held) and _takes_elements(helper)
                if held is not None and (reads or _changes_what_it_is_given(helper)):
                    raise self._error(
                        f"{ast.unparse(node)}: {node.func.id} {'reads elements of' if reads else 'changes'} {ast.unparse(held)}:"
                        f" give it the row, and the name of the column in it",
                        node,
                    )

    def _note_writes(self, root: ast.AST) -> None:
        for node in ast.walk(root):
            place = written_place(node)
            if isinstance(place, ast.Attribute) and isinstance(place.value, ast.Name) and place.value.id in self._rows:
                self._rows[place.value.id].is_written = True
        for row in self._rows.values():
            if row.table.unknown == "insert":
                row.is_written = True  # the row may be created
        for node in ast.walk(root):
            if self._is_filled_by_reading(node):
                self._rows[node.value.id].is_written = True  # type: ignore[attr-defined]

    def _check_undo(self, lowered: Lowered) -> None:
        """Find out whether a write may have to be undone, and refuse where it cannot be."""
        self._entries = {
            name.id
            for loop in ast.walk(lowered.captured.node)
            if isinstance(loop, ast.For) and any(self._container(each) is not None for each in ast.walk(loop.iter))
            for name in ast.walk(loop.target)
            if isinstance(name, ast.Name)
        }
        self._read = Entries(self._is_filled_by_reading, self._event)
        self._flow(lowered.captured.node.body, _Written(), lowered, [])

    def _flow(
        self, statements: list[ast.stmt], so_far: _Written, lowered: Lowered, leaving: list[_Written]
    ) -> _Written | None:
        """What was written by the end of a block, None if it is not reached; `leaving`: where a loop's turn ends early."""
        now: _Written | None = so_far
        for node in statements:
            if now is None:
                return None
            if isinstance(node, ast.If):
                if id(node) in self._guards and now.container is not None:
                    # The container could not be put back: such an event ends the run, as other uses of the list do.
                    node.test, node.orelse = located(ast.Constant(True), node), []
                now = self._reading(node.test, now)
                ways = now.knowing(self._read.says(node.test)), now.knowing(self._read.denies(node.test))
                now = _either(
                    self._flow(node.body, ways[0], lowered, leaving), self._flow(node.orelse, ways[1], lowered, leaving)
                )
            elif isinstance(node, ast.For | ast.While):
                own: list[_Written] = []
                now = self._reading(node.iter if isinstance(node, ast.For) else node.test, now)
                if isinstance(node, ast.For):
                    now = now.assigning(node.target)
                for _ in range(2):  # a write in one turn may be followed by a rejection in the next
                    for end in (self._flow(node.body, now, lowered, own), *own):
                        now = _either(now, end) or now
                now = _either(now, self._flow(node.orelse, now, lowered, leaving))
            elif isinstance(node, ast.Break | ast.Continue):
                leaving.append(now)
                return None
            elif isinstance(node, ast.Return | ast.Raise):
                if isinstance(node, ast.Return) and isinstance(node.value, ast.Constant) and node.value.value == REJECTED:
                    self._rejected(node, now, lowered)
                return None
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in self._rows:
                unknown = self._rows[node.targets[0].id].table.unknown
                if unknown == "reject":
                    self._rejected(node, now, lowered)
                elif unknown == "insert":
                    now = replace(now, single=True)  # the row may be created
                now = self._reading(node.value, now)
                if node.targets[0].id in self._aliases or not self._is_stable(node.value):  # it may be a different row
                    now = now.assigning(node)
            else:
                for each in ast.walk(node):
                    place = written_place(each)
                    if isinstance(place, ast.Attribute) and isinstance(place.value, ast.Name) and place.value.id in self._rows:
                        kind = self._rows[place.value.id].table.columns[place.attr]
                        is_single = isinstance(kind, str)
                        now = replace(
                            now, container=now.container or (None if is_single else each), single=now.single or is_single
                        )
                    elif self._is_entry(place, each):
                        now = replace(now, container=now.container or each)
                now = self._reading(node, now).assigning(node)
        return now

    def _reading(self, node: ast.AST, now: _Written) -> _Written:
        """What is written after the reads of a statement or an expression."""
        found = self._read.made(node, now.there) if now.container is None else None
        return now if found is None else replace(now, container=found)

    def _is_entry(self, place: ast.AST | None, node: ast.AST) -> bool:
        """Whether it changes an array or record in a map of a row, under the name that a loop gives it."""
        while isinstance(place, ast.Attribute | ast.Subscript):
            place = place.value
        is_name_alone = isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
        return isinstance(place, ast.Name) and place.id in self._entries and not is_name_alone

    def _rejected(self, node: ast.AST, now: _Written, lowered: Lowered) -> None:
        if now.container is not None:
            text, place = ast.unparse(now.container), now.container
            line = f"if the transaction is rejected afterwards (line {getattr(node, 'lineno', 0)})"
            if isinstance(place, ast.Subscript) and isinstance(place.ctx, ast.Load):
                raise self._error(
                    f"{text}: where the map has no such key, reading puts zeros in, which cannot be taken out {line}: ask"
                    f" before, as in if {ast.unparse(place.slice)} in {ast.unparse(place.value)}",
                    place,
                )
            advice = "change it last"
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):  # no call of `reject` is seen there
                name = self._rows[node.targets[0].id].table.name
                line += f", as where {name} has no key {ast.unparse(node.value)}"
                advice += ", or find that row before, under a name of its own"
            raise self._error(f"{text}: a list, set, map or array cannot be put back {line}: {advice}", place)
        lowered.must_undo |= now.single


def _changes_what_it_is_given(helper: CapturedFunction) -> bool:
    """Whether a function without tables, or one that it calls, changes a container."""
    changed = (
        written_place(node)
        for node in ast.walk(helper.node)
        if not (isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name))
    )
    return any(place is not None for place in changed) or any(map(_changes_what_it_is_given, helper.helpers.values()))


def _takes_elements(helper: CapturedFunction) -> bool:
    """Whether a function without tables, or one that it calls, reads elements of something."""
    return any(isinstance(node, ast.Subscript) for node in ast.walk(helper.node)) or any(
        map(_takes_elements, helper.helpers.values())
    )


@dataclass(frozen=True)
class _Written:
    """What a transaction may have written so far: the first change of a container, and whether any single value.

    `there` are entries that maps are known to have.
    """

    container: ast.AST | None = None
    single: bool = False
    there: frozenset[Entry] = frozenset()

    def knowing(self, more: frozenset[Entry]) -> _Written:
        """The same, where more entries are known to be there."""
        return replace(self, there=self.there | more)

    def assigning(self, node: ast.AST) -> _Written:
        """The same after a node's assignments: what was known of the names assigned no longer holds."""
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        return replace(self, there=without(self.there, names)) if names else self


def _either(one: _Written | None, other: _Written | None) -> _Written | None:
    """What is written after one of two paths; None: the path ends before."""
    if one is None or other is None:
        return other if one is None else one
    return _Written(one.container or other.container, one.single or other.single, one.there & other.there)
