"""Finding names of containers that would mean something else in Python than in a compiled function.

``old = state.words`` gives the field's list a second name. In Python, ``state.words = []`` then gives the field a new list
and `old` keeps the previous one. Here a field is a place, which is emptied or copied into, and a name stands
for the place. So a function that reads such a name after its place was assigned anew is refused, with the line
of the read; so is a loop over a container whose place is assigned anew in its body, if the loop goes on. The same
holds for temporary lists with two names, one of which is assigned another list.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Mapping

from headrace.codegen.capture import CapturedFunction

Key = tuple[str, str]
"""A place: the role of a state and a field of it, or "" and the first name of a temporary list."""
Lost = dict[str, ast.AST]
"""Names that no longer stand for what is in their place -> the node that assigned to it."""


def check_held(
    captured: CapturedFunction,
    field_of: Callable[[ast.AST], Key | None],
    names: Mapping[str, Key],
    lists: Collection[str],
    roles: Mapping[str, str],
) -> None:
    """Raise `FunctionError` at the first read of a name whose place was assigned anew.

    Parameters
    ----------
    captured : CapturedFunction
    field_of : callable
        Returns the place of an expression, if it is a field that holds a container.
    names : mapping
        Names that stand for a container when the function begins -> its place.
    lists : collection of str
        Names that containers are assigned to.
    roles : mapping
        Names that stand for an object with fields -> role.
    """
    _Walk(captured, field_of, names, lists, roles).check()


class _Walk:
    """Walks statements with the names that are invalid on some path to each; None where the end of a block is not reached."""

    def __init__(
        self,
        captured: CapturedFunction,
        field_of: Callable[[ast.AST], Key | None],
        names: Mapping[str, Key],
        lists: Collection[str],
        roles: Mapping[str, str],
    ):
        self._captured, self._field_of, self._roles = captured, field_of, roles
        self._places = _named_places(captured.node, field_of, names, lists)
        self._leaving: list[list[Lost]] = []
        """For each enclosing loop: the names lost at each `break`, and in `_turns` at each `continue`."""
        self._turns: list[list[Lost]] = []

    def check(self) -> None:
        """Check the whole function."""
        self._block(self._captured.node.body, {})

    def _block(self, statements: Iterable[ast.stmt], lost: Lost | None) -> Lost | None:
        for statement in statements:
            if lost is None:
                return None  # never reached
            lost = self._statement(statement, lost)
        return lost

    def _statement(self, node: ast.stmt, lost: Lost) -> Lost | None:
        if isinstance(node, ast.If):
            lost = self._read(node.test, lost)
            return _either(self._block(node.body, lost), self._block(node.orelse, lost))
        if isinstance(node, ast.For):
            return self._loop(node, self._read(node.iter, lost))
        if isinstance(node, ast.While):
            return self._loop(node, lost)
        if isinstance(node, ast.Break):
            self._leaving[-1].append(lost)
            return None
        if isinstance(node, ast.Continue):
            self._turns[-1].append(lost)
            return None
        lost = self._read(node, lost)
        if isinstance(node, ast.Return | ast.Raise):
            return None
        if isinstance(node, ast.Assign):
            for target in node.targets:
                lost = self._given(target, node.value, lost)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            lost = self._given(node.target, node.value, lost)
        return lost

    def _loop(self, node: ast.For | ast.While, lost: Lost) -> Lost | None:
        over = self._loops_over(node.iter) if isinstance(node, ast.For) else None
        mark = f"loop {node.lineno} {node.col_offset}"  # cannot be a name: it has spaces
        if over is not None:
            self._places[mark] = over
        self._leaving.append([])
        self._turns.append([])
        begins = lost
        known = -1
        while known != len(begins):  # a name lost in one iteration is lost in the next
            known = len(begins)
            if isinstance(node, ast.While):
                begins = self._read(node.test, begins)
            ends = self._block(node.body, begins)
            for turn in self._turns[-1]:
                ends = _either(ends, turn)
            self._turns[-1].clear()
            if ends is not None and mark in ends:
                assert isinstance(node, ast.For)
                text = self._said(over)
                given = getattr(ends[mark], "lineno", 0)
                raise self._captured.error(
                    f"{ast.unparse(node.iter)}: {text} is replaced in line {given}, and the loop over it goes on:"
                    f" do so after the loop, or loop over a copy",
                    ends[mark],
                )
            begins = _either(begins, ends) or begins
        self._turns.pop()
        is_endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)
        after = None if is_endless else self._block(node.orelse, begins)
        for left in self._leaving.pop():
            after = _either(after, left)
        if after is not None:
            after = {name: what for name, what in after.items() if name != mark}
        self._places.pop(mark, None)
        return after

    def _loops_over(self, iterable: ast.expr) -> Key | None:
        """Return the place of the container that a loop goes over directly, not over a copy."""
        while isinstance(iterable, ast.Call):
            if isinstance(iterable.func, ast.Attribute) and iterable.func.attr in ("items", "keys", "values"):
                iterable = iterable.func.value
            elif isinstance(iterable.func, ast.Name) and iterable.func.id in ("enumerate", "reversed") and iterable.args:
                iterable = iterable.args[0]
            else:
                return None
        return self._place_of(iterable)

    def _place_of(self, node: ast.AST) -> Key | None:
        return self._places.get(node.id) if isinstance(node, ast.Name) else self._field_of(node)

    def _given(self, target: ast.expr, value: ast.expr, lost: Lost) -> Lost:
        """Update the names after a target is assigned."""
        if isinstance(target, ast.Tuple | ast.List):
            return lost  # a container is assigned to a single name or field
        field = self._field_of(target)
        if field is not None:
            return lost if self._place_of(value) == field else self._lose(field, target, lost, "")
        if not (isinstance(target, ast.Name) and target.id in self._places):
            return lost
        if self._place_of(value) is None:
            # A temporary list goes into the name's own place, for which other names may stand.
            lost = self._lose(self._places[target.id], target, lost, target.id)
        return {name: what for name, what in lost.items() if name != target.id}

    def _said(self, place: Key | None) -> str:
        assert place is not None
        role, name = place
        known = next((each for each, of in self._roles.items() if of == role), role)
        return f"{known}.{name}" if role else f"the list {name!r}"

    def _lose(self, place: Key, node: ast.AST, lost: Lost, but: str) -> Lost:
        return lost | {name: node for name, known in self._places.items() if known == place and name != but}

    def _read(self, node: ast.AST, lost: Lost) -> Lost:
        """Check the names that are read, and note the fields that helpers assign."""
        for name in ast.walk(node):
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load) and name.id in lost:
                text = self._said(self._places[name.id])
                raise self._captured.error(
                    f"{name.id!r} stands for {text}, which is replaced in line"
                    f" {getattr(lost[name.id], 'lineno', 0)}: use {name.id!r} before that line; of a list, make a copy",
                    name,
                )
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                for field in _given_by(self._captured.helpers.get(call.func.id), call, self._roles):
                    lost = self._lose(field, call, lost, "")
        return lost


def _named_places(
    root: ast.AST, field_of: Callable[[ast.AST], Key | None], names: Mapping[str, Key], lists: Collection[str]
) -> dict[str, Key]:
    """Return names of containers -> the place each stands for."""
    found = dict(names)
    given = [
        (node.targets[0] if isinstance(node, ast.Assign) else node.target, node.value)
        for node in ast.walk(root)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
    ]
    # A temporary list has the place of its first name; the same list may be assigned to other names.
    for target, value in given:
        if isinstance(target, ast.Name) and target.id in lists and not isinstance(value, ast.Name) and field_of(value) is None:
            found.setdefault(target.id, ("", target.id))
    known = -1
    while known != len(found):
        known = len(found)
        for target, value in given:
            if isinstance(target, ast.Name) and target.id not in names:
                place = found.get(value.id) if isinstance(value, ast.Name) else field_of(value)
                if place is not None:
                    found.setdefault(target.id, place)
    return found


def _given_by(helper: CapturedFunction | None, call: ast.Call, roles: Mapping[str, str]) -> set[Key]:
    """Return the fields of its arguments that a helper assigns."""
    if helper is None:
        return set()
    given = dict(zip(helper.parameters, call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    inner = {name: roles[value.id] for name, value in given.items() if isinstance(value, ast.Name) and value.id in roles}
    if not inner:
        return set()
    found: set[Key] = set()
    for node in ast.walk(helper.node):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            if node.value.id in inner:
                found.add((inner[node.value.id], node.attr))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found |= _given_by(helper.helpers.get(node.func.id), node, inner)
    return found


def _either(one: Lost | None, other: Lost | None) -> Lost | None:
    """Return the names invalid on either of two paths; None for a path that does not lead here."""
    if one is None or other is None:
        return other if one is None else one
    return other | one


__all__ = ["check_held"]
