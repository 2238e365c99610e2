"""Which rows an event will touch, found from its function's text before anything is read: the determined sets.

TStream's second requirement (F2): the keys of a transaction are functions of the event alone. From the lowered function
a second one is made that only names the keys: whatever is read from a row is left out, with everything that
depends on it. A condition on the event stays a condition; for one on what was read, both branches count.

=====================  =====================================================================
in the function        in what names its keys
=====================  =====================================================================
a row is found         its key is named; an error if the key depends on what was read
``x = ...``            stays, if a key or a condition that stays needs it
``if``, ``for``        stay, if they depend on the event alone; else both branches, one turn
``return``, ``break``  stay, unless what was read decides whether they are reached
=====================  =====================================================================

Source      TStream, section II-B (F2). Beyond it: keys under conditions and in loops over the event.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import replace

from headrace.codegen.capture import CapturedFunction
from headrace.transactions.lowering.lowered import EMITTED, Lowered
from headrace.transactions.lowering.trees import loaded, written_place

_NONE: frozenset[type[ast.stmt]] = frozenset()
_ALL = frozenset({ast.Return, ast.Break, ast.Continue})


def name_keys(lowered: Lowered, with_status: bool = False) -> CapturedFunction:
    """Return the function that only finds rows.

    Parameters
    ----------
    lowered : Lowered
    with_status : bool
        It returns what the function returns, where the event decides that.

    Raises
    ------
    FunctionError
        At the line of a key that depends on what was read.
    """
    found = Reads(lowered)
    body = _Slice(lowered, found, with_status).block(lowered.captured.node.body, _ALL)
    node = copy.copy(lowered.captured.node)
    node.body = _needed(body, set(lowered.rows)) or [ast.copy_location(ast.Pass(), node)]
    return replace(lowered.captured, node=ast.fix_missing_locations(node))


class Reads:
    """Which names depend on what was read, in a whole function, whatever the order of its statements."""

    def __init__(self, lowered: Lowered):
        self._rows = lowered.rows
        self.names: set[str] = set()
        self.why: dict[str, ast.AST] = {}
        """Name -> what was read."""
        self._settled = _settled(lowered.captured.node.body)
        known = -1
        while known != len(self.names):
            known = len(self.names)
            self._block(lowered.captured.node.body, None)

    def of(self, node: ast.AST | None) -> ast.AST | None:
        """What an expression takes from a row; None if it depends on the event alone."""
        for each in ast.walk(node) if node is not None else ():
            if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
                if each.value.id in self._rows or each.value.id == EMITTED:
                    return each
            elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.id in self.names:
                return self.why[each.id]
        return None

    def leaves_early(self, node: ast.For | ast.While) -> ast.AST | None:
        """The value read that decides how often a loop turns, or which of its turns end early; None if none does."""
        test = self.of(node.test if isinstance(node, ast.While) else node.iter)
        if test is None and isinstance(node, ast.While) and isinstance(node.test, ast.Constant):
            # Only `return` ends this loop: if what was read decides on it, the event alone cannot end the loop.
            if not any(isinstance(each, ast.Break) for each in ast.walk(node)):
                return self._leaves_under(node.body, None, (ast.Break, ast.Continue, ast.Return))
        return test or self._leaves_under(node.body, None, (ast.Break, ast.Continue))

    def skips(self, node: ast.For | ast.While) -> ast.AST | None:
        """The value read that decides whether a turn ends by `continue`; None if none does."""
        return self._leaves_under(node.body, None, (ast.Continue,))

    def _leaves_under(
        self, statements: list[ast.stmt], under: ast.AST | None, kinds: tuple[type[ast.stmt], ...]
    ) -> ast.AST | None:
        for node in statements:
            if isinstance(node, kinds) and under is not None:
                return under
            found = None
            if isinstance(node, ast.If):
                inner = under or self.of(node.test)
                found = self._leaves_under(node.body, inner, kinds) or self._leaves_under(node.orelse, inner, kinds)
            elif isinstance(node, ast.For | ast.While):
                # `break` in the `else` of a loop belongs to the loop around it.
                inner = under or self.leaves_early(node)
                found = self._leaves_under(node.orelse, inner, kinds)
                if ast.Return in kinds:
                    found = found or self._leaves_under(node.body, inner, (ast.Return,))
            if found is not None:
                return found
        return None

    def _block(self, statements: list[ast.stmt], under: ast.AST | None) -> None:
        for node in statements:
            if isinstance(node, ast.If):
                inner = under or self.of(node.test)
                self._block(node.body, inner)
                self._block(node.orelse, inner)
            elif isinstance(node, ast.For | ast.While):
                inner = under or self.leaves_early(node)
                if isinstance(node, ast.For):
                    self._give(node.target, inner, self.of(node.iter))
                self._block(node.body, inner)
                self._block(node.orelse, inner)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if not (isinstance(target, ast.Name) and target.id in self._rows):
                        self._give(target, under, self.of(node.value) or self.of(target))
            elif isinstance(node, ast.AugAssign):
                self._give(node.target, under, self.of(node.value))
            elif isinstance(node, ast.Expr):
                self._taint(_stored(node), under or self.of(node.value))

    def _give(self, target: ast.expr, under: ast.AST | None, value: ast.AST | None) -> None:
        """Note that a name gets a value that depends on `value`, and that `under` decides whether it gets it."""
        names = _stored_in(target)
        self._taint(names, value)
        self._taint(names - self._settled, under)

    def _taint(self, names: set[str], why: ast.AST | None) -> None:
        for name in names - self._rows.keys() - {EMITTED} if why is not None else ():
            self.names.add(name)
            self.why.setdefault(name, why)


class _Slice:
    """Keeps those of a function's statements that name keys."""

    def __init__(self, lowered: Lowered, reads: Reads, with_status: bool):
        self._captured, self._rows, self._reads = lowered.captured, lowered.rows, reads
        self._with_status = with_status

    def block(self, statements: list[ast.stmt], leaving: frozenset[type[ast.stmt]]) -> list[ast.stmt]:
        """`leaving`: those of `return`, `break` and `continue` that stay, since the event alone decides on them.

        Leaving one out is safe: more keys are named. Keeping one is not, if the transaction may go on where the event
        alone would have ended it.
        """
        result: list[ast.stmt] = []
        for node in statements:
            result += self._statement(node, leaving)
        return result

    def _statement(self, node: ast.stmt, leaving: frozenset[type[ast.stmt]]) -> list[ast.stmt]:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in self._rows:
            return [self._key(node, node.targets[0].id)]
        if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr):
            stored = _stored(node)
            keeps = stored and self._reads.of(node) is None and not stored & self._reads.names
            return [copy.deepcopy(node)] if keeps else []
        if isinstance(node, ast.If):
            read = self._reads.of(node.test)
            inner = leaving if read is None else _NONE
            body, orelse = self.block(node.body, inner), self.block(node.orelse, inner)
            if read is not None:
                return [*body, *orelse]
            if not body and not orelse:
                return []
            return [ast.copy_location(ast.If(node.test, body or [ast.copy_location(ast.Pass(), node)], orelse), node)]
        if isinstance(node, ast.For | ast.While):
            return self._loop(node, leaving)
        if isinstance(node, ast.Return) and ast.Return in leaving:
            return [ast.copy_location(ast.Return(node.value if self._with_status else None), node)]
        if isinstance(node, ast.Break | ast.Continue) and type(node) in leaving:
            return [node]
        return []

    def _loop(self, node: ast.For | ast.While, leaving: frozenset[type[ast.stmt]]) -> list[ast.stmt]:
        read = self._reads.leaves_early(node)
        after = leaving if read is None else _NONE
        orelse = self.block(node.orelse, after)
        if read is not None and (isinstance(node, ast.While) or self._reads.of(node.iter) is not None):
            # How often the loop turns is unknown; what its keys depend on does not change from turn to turn.
            return [*self.block(node.body, _NONE), *orelse]
        # If what was read may end the loop early, a `return` in it may not be reached, so it does not stay. If what was
        # read may skip the rest of a turn, a `break` may not be reached, so it does not stay either.
        inner = {ast.Continue} | (after & {ast.Return})
        if self._reads.skips(node) is None:
            inner.add(ast.Break)
        body = self.block(node.body, frozenset(inner))
        if isinstance(node, ast.While):
            return [ast.copy_location(ast.While(node.test, body or [ast.copy_location(ast.Pass(), node)], orelse), node)]
        return [ast.copy_location(ast.For(node.target, node.iter, body, orelse), node)] if body else orelse

    def _key(self, node: ast.Assign, name: str) -> ast.stmt:
        read = self._reads.of(node.value)
        if read is not None:
            line = getattr(read, "lineno", 0)
            raise self._captured.error(
                f"the key of {name} depends on what the transaction reads ({ast.unparse(read)}, line {line}): most"
                f' schemes must know the rows of a transaction from its event alone; start(scheme="speculative") does not, nor'
                f' does "serial" on one thread; or put the key into the event before',
                node,
            )
        return copy.deepcopy(node)


def _needed(statements: list[ast.stmt], rows: set[str]) -> list[ast.stmt]:
    """Leave out assignments that no key and no condition needs."""
    wanted: set[str] = set()
    size = -1
    while size != len(wanted):
        size = len(wanted)
        for node in [each for statement in statements for each in ast.walk(statement)]:
            if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr):
                stored = _stored(node)
                if stored & (wanted | rows):
                    wanted |= loaded(node) | (stored - rows if isinstance(node, ast.AugAssign) else set())
            elif isinstance(node, ast.If | ast.While):
                wanted |= loaded(node.test)
            elif isinstance(node, ast.For):
                wanted |= loaded(node.iter)
    return _without_others(statements, wanted | rows)


def _stored(node: ast.Assign | ast.AugAssign | ast.Expr) -> set[str]:
    """Names that a statement gives a value, or whose elements it changes."""
    if isinstance(node, ast.Expr):
        place = written_place(node.value)
        return {place.id} if isinstance(place, ast.Name) else set()
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return set().union(*map(_stored_in, targets))


def _stored_in(target: ast.expr) -> set[str]:
    """The names of a target, and those of which it is an element."""
    if isinstance(target, ast.Tuple | ast.List):
        return set().union(*map(_stored_in, target.elts))
    while isinstance(target, ast.Subscript | ast.Starred):
        target = target.value
    return {target.id} if isinstance(target, ast.Name) else set()


def _settled(statements: list[ast.stmt]) -> set[str]:
    """Names that are read only where they have just got their value, by a single assignment or by the enclosing loop.

    Elsewhere a value may come from an earlier turn or another branch. (That a name has one at all is checked by
    `headrace.codegen.assigned`.)
    """
    stores: dict[str, list[tuple[int, ...]]] = {}
    loads: dict[str, list[tuple[int, ...]]] = {}
    looped: set[str] = set()

    def store(names: set[str], inside: tuple[int, ...]) -> None:
        for name in names:
            stores.setdefault(name, []).append(inside)

    def walk(node: ast.AST, inside: tuple[int, ...]) -> None:
        own = inside
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            loads.setdefault(node.id, []).append(inside)
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.Expr):
            store(_stored(node), inside)
        elif isinstance(node, ast.For | ast.While):
            own = (*inside, id(node))
            if isinstance(node, ast.For):
                walk(node.iter, inside)
                store(_stored_in(node.target), own)
                looped.update(_stored_in(node.target))
            else:
                walk(node.test, own)
            for each in node.body:
                walk(each, own)
            for each in node.orelse:
                walk(each, inside)
            return
        elif isinstance(node, ast.comprehension):
            store({n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}, inside)
        for each in ast.iter_child_nodes(node):
            walk(each, own)

    for statement in statements:
        walk(statement, ())
    found: set[str] = set()
    for name, places in stores.items():
        if len(places) > 1 and (name not in looped or any(_within(a, b) for a in places for b in places if a is not b)):
            continue
        if all(sum(_within(load, place) for place in places) == 1 for load in loads.get(name, [])):
            found.add(name)
    return found


def _within(inner: tuple[int, ...], outer: tuple[int, ...]) -> bool:
    return inner[: len(outer)] == outer


def _without_others(statements: list[ast.stmt], wanted: set[str]) -> list[ast.stmt]:
    result: list[ast.stmt] = []
    for node in statements:
        if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr):
            if not _stored(node) & wanted:
                continue
        elif isinstance(node, ast.If | ast.For | ast.While):
            node.body = _without_others(node.body, wanted) or [ast.copy_location(ast.Pass(), node)]
            node.orelse = _without_others(node.orelse, wanted)
        result.append(node)
    return result
