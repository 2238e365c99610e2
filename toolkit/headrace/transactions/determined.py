"""Which rows an event will touch, found from its function's text before anything is read: the determined sets.

TStream's second requirement (F2): the keys of a transaction are functions of the event alone. From the lowered function
a second one is taken that does nothing but name them: what is read from a row falls away, and with it everything that
depends on it. A condition on the event stays a condition; of one on what was read both branches count.

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
from headrace.errors import FunctionError
from headrace.transactions.lowering import EMITTED, Lowered


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
    body = _Slice(lowered, found, with_status).block(lowered.captured.node.body)
    node = copy.copy(lowered.captured.node)
    node.body = _needed(body, set(lowered.rows)) or [ast.copy_location(ast.Pass(), node)]
    return replace(lowered.captured, node=ast.fix_missing_locations(node))


def depends_on_reads(lowered: Lowered) -> FunctionError | None:
    """Return what is wrong if some key depends on what was read; None if none does."""
    try:
        name_keys(lowered)
    except FunctionError as error:
        return error
    return None


class Reads:
    """Which names depend on what was read, in a whole function: the order of its statements is not looked at."""

    def __init__(self, lowered: Lowered):
        self._rows = lowered.rows
        self.names: set[str] = set()
        self.why: dict[str, ast.AST] = {}
        """Name -> what was read."""
        known = -1
        while known != len(self.names):
            known = len(self.names)
            self._block(lowered.captured.node.body, None)

    def of(self, node: ast.AST | None) -> ast.AST | None:
        """What an expression has from a row; None if it depends on the event alone."""
        for each in ast.walk(node) if node is not None else ():
            if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
                if each.value.id in self._rows or each.value.id == EMITTED:
                    return each
            elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.id in self.names:
                return self.why[each.id]
        return None

    def leaves_early(self, node: ast.For | ast.While) -> ast.AST | None:
        """What was read that decides how often a loop turns."""
        test = self.of(node.test if isinstance(node, ast.While) else node.iter)
        return test or self._break_under(node.body, None)

    def _break_under(self, statements: list[ast.stmt], under: ast.AST | None) -> ast.AST | None:
        for node in statements:
            if isinstance(node, ast.Break | ast.Continue) and under is not None:
                return under
            if isinstance(node, ast.If):
                inner = under or self.of(node.test)
                found = self._break_under(node.body, inner) or self._break_under(node.orelse, inner)
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
                    self._give(node.target, under or self.of(node.iter))
                self._block(node.body, inner)
                self._block(node.orelse, inner)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if not (isinstance(target, ast.Name) and target.id in self._rows):
                        self._give(target, under or self.of(node.value))
            elif isinstance(node, ast.AugAssign):
                self._give(node.target, under or self.of(node.value))

    def _give(self, target: ast.expr, why: ast.AST | None) -> None:
        for each in ast.walk(target) if why is not None else ():
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                self.names.add(each.id)
                self.why.setdefault(each.id, why)


class _Slice:
    """Takes from a function's statements what names keys."""

    def __init__(self, lowered: Lowered, reads: Reads, with_status: bool):
        self._captured, self._rows, self._reads = lowered.captured, lowered.rows, reads
        self._with_status = with_status

    def block(self, statements: list[ast.stmt], is_certain: bool = True) -> list[ast.stmt]:
        """`is_certain`: the event alone decides whether these are reached."""
        result: list[ast.stmt] = []
        for node in statements:
            result += self._statement(node, is_certain)
        return result

    def _statement(self, node: ast.stmt, is_certain: bool) -> list[ast.stmt]:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in self._rows:
            return [self._key(node, node.targets[0].id)]
        if isinstance(node, ast.Assign | ast.AugAssign):
            stored = _stored(node)
            keeps = stored and self._reads.of(node.value) is None and not stored & self._reads.names
            return [copy.deepcopy(node)] if keeps else []
        if isinstance(node, ast.If):
            read = self._reads.of(node.test)
            body = self.block(node.body, is_certain and read is None)
            orelse = self.block(node.orelse, is_certain and read is None)
            if read is not None:
                return [*body, *orelse]
            if not body and not orelse:
                return []
            return [ast.copy_location(ast.If(node.test, body or [ast.copy_location(ast.Pass(), node)], orelse), node)]
        if isinstance(node, ast.For | ast.While):
            return self._loop(node, is_certain)
        if isinstance(node, ast.Return):
            return [ast.copy_location(ast.Return(node.value if self._with_status else None), node)] if is_certain else []
        if isinstance(node, ast.Break | ast.Continue):
            return [node] if is_certain else []
        return []

    def _loop(self, node: ast.For | ast.While, is_certain: bool) -> list[ast.stmt]:
        orelse = self.block(node.orelse, is_certain)
        if isinstance(node, ast.For) and self._reads.of(node.iter) is None:
            body = self.block(node.body, True)
            return [ast.copy_location(ast.For(node.target, node.iter, body, orelse), node)] if body else orelse
        if self._reads.leaves_early(node) is not None:
            # How often it turns is not known; what its keys depend on does not change from turn to turn.
            return [*self.block([n for n in node.body if not isinstance(n, ast.Break)], False), *orelse]
        assert isinstance(node, ast.While)
        body = self.block(node.body, True)
        return [ast.copy_location(ast.While(node.test, body or [ast.copy_location(ast.Pass(), node)], orelse), node)]

    def _key(self, node: ast.Assign, name: str) -> ast.stmt:
        read = self._reads.of(node.value)
        if read is not None:
            line = getattr(read, "lineno", 0)
            raise self._captured.error(
                f"the key of {name} depends on what the transaction reads ({ast.unparse(read)}, line {line}): the rows of a"
                f' transaction must be known from its event alone; start(scheme="speculative") does without',
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
            if isinstance(node, ast.Assign | ast.AugAssign):
                stored = _stored(node)
                if stored & (wanted | rows):
                    wanted |= _loaded(node.value) | (stored - rows if isinstance(node, ast.AugAssign) else set())
            elif isinstance(node, ast.If | ast.While):
                wanted |= _loaded(node.test)
            elif isinstance(node, ast.For):
                wanted |= _loaded(node.iter)
    return _without_others(statements, wanted | rows)


def _stored(node: ast.Assign | ast.AugAssign) -> set[str]:
    """Names that an assignment gives a value."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _loaded(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _without_others(statements: list[ast.stmt], wanted: set[str]) -> list[ast.stmt]:
    result: list[ast.stmt] = []
    for node in statements:
        if isinstance(node, ast.Assign | ast.AugAssign):
            if not _stored(node) & wanted:
                continue
        elif isinstance(node, ast.If | ast.For | ast.While):
            node.body = _without_others(node.body, wanted) or [ast.copy_location(ast.Pass(), node)]
            node.orelse = _without_others(node.orelse, wanted)
        result.append(node)
    return result
