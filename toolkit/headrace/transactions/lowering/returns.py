"""Rewrites functions that return early so that all paths reach their end, as inlining needs.

``if c: return x`` with more behind it becomes ``if c: result = x`` with the rest under ``else``. So the event
still decides which rows are found, and by which keys. A loop that returns is left instead, and what follows it runs
only if it was not left so::

    for k in e.items:                      is_over = False
        if stock[k].n > 2:                 for k in e.items:
            return k                           if stock[k].n > 2:
    return -1                                      result = k
                                                   is_over = True
                                                   break
                                           if not is_over:
                                               result = -1
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from enum import Enum

from headrace.transactions.lowering.trees import is_none, located


class Gives(Enum):
    """What a function returns to its caller."""

    NOTHING = "nothing"
    VALUE = "a value"
    EITHER = "a value on some paths, and none on others"


def at_end(
    statements: list[ast.stmt], result: str, is_over: str, rejects: Callable[[ast.expr], bool], is_used: bool
) -> tuple[list[ast.stmt], Gives]:
    """Write the statements of a function without ``return``.

    Parameters
    ----------
    statements : list of ast.stmt
        Changed.
    result : str
        The name that gets what it returns.
    is_over : str
        The name of a flag that it has returned; used where conditions cannot express that.
    rejects : callable
        Whether an expression is the end of the transaction: ``t.reject()``.
    is_used : bool
        Whether the caller uses what it returns.

    Returns
    -------
    statements, Gives
    """
    ending = _Ending(result, is_over, rejects, is_used)
    is_through = ending.falls(statements)
    made = ending.block(statements, in_loop=False)
    returns = ending.values
    gives = Gives.VALUE if all(returns) and returns and not is_through else Gives.EITHER if any(returns) else Gives.NOTHING
    if any(_is_name(each, is_over, ast.Load) for statement in made for each in ast.walk(statement)):
        return [_assigned(is_over, ast.Constant(False), statements[0]), *made], gives
    return _Without(is_over).block(made), gives


class _Ending:
    def __init__(self, result: str, is_over: str, rejects: Callable[[ast.expr], bool], is_used: bool):
        self._result, self._is_over, self._rejects, self._is_used = result, is_over, rejects, is_used
        self.values: list[bool] = []
        """Of each `return`, whether it gives a value."""

    # -- where control goes

    def falls(self, statements: list[ast.stmt]) -> bool:
        """Whether the end of a block may be reached."""
        return not any(map(self._ends, statements))

    def _ends(self, node: ast.stmt) -> bool:
        """Whether nothing after a statement is executed."""
        if isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue):
            return True
        if isinstance(node, ast.Expr):
            return self._rejects(node.value)
        if isinstance(node, ast.If):
            return not self.falls(node.body) and not self.falls(node.orelse)
        if isinstance(node, ast.For | ast.While) and not _is_left(node.body):
            is_endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)
            return is_endless or not self.falls(node.orelse)
        return False

    # -- statements

    def block(self, statements: list[ast.stmt], in_loop: bool) -> list[ast.stmt]:
        """The same block; where the function would have returned, the block's end is reached, or the loop is left."""
        made: list[ast.stmt] = []
        for at, node in enumerate(statements):
            if isinstance(node, ast.Return):
                return [*made, *self._over(node, in_loop)]
            if _returns(node):
                assert isinstance(node, ast.If | ast.For | ast.While)
                return [*made, *self._parted(node, statements[at + 1 :], in_loop)]
            made.append(node)
            if self._ends(node):
                break  # what follows is never reached
        return made

    def _over(self, node: ast.Return, in_loop: bool) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        if node.value is not None and self._rejects(node.value):
            return [ast.copy_location(ast.Expr(node.value), node)]
        self.values.append(node.value is not None and not is_none(node.value))
        if isinstance(node.value, ast.Call) and not self._is_used:
            made.append(ast.copy_location(ast.Expr(node.value), node))  # the call may return nothing, too
        elif self.values[-1]:
            assert node.value is not None
            made.append(_assigned(self._result, node.value, node))
        made.append(_assigned(self._is_over, ast.Constant(True), node))
        return [*made, ast.copy_location(ast.Break(), node)] if in_loop else made

    def _parted(self, node: ast.If | ast.For | ast.While, rest: list[ast.stmt], in_loop: bool) -> list[ast.stmt]:
        """A statement in which the function may return, and the rest of its block."""
        if isinstance(node, ast.If):
            ways = self.falls(node.body), self.falls(node.orelse)
            if in_loop or not all(ways):
                if not in_loop:  # the rest goes into the branch that does not return
                    node.body += rest if ways[0] else []
                    node.orelse += rest if ways[1] else []
                    rest = []
                node.body, node.orelse = self.block(node.body, in_loop), self.block(node.orelse, in_loop)
                node.body = node.body or [ast.copy_location(ast.Pass(), node)]
                return [node, *(self.block(rest, in_loop) if any(ways) else [])]
            node.body, node.orelse = self.block(node.body, False), self.block(node.orelse, False)
            return [node, *self._unless_over(rest, node)]
        ends = self._ends(node)
        node.body, node.orelse = self.block(node.body, True), self.block(node.orelse, in_loop)
        if in_loop:  # the enclosing loop is left as well
            leave = ast.If(ast.Name(self._is_over, ast.Load()), [ast.Break()], [])
            return [node, located(leave, node), *self.block([] if ends else rest, True)]
        return [node, *self._unless_over([] if ends else rest, node)]

    def _unless_over(self, rest: list[ast.stmt], node: ast.stmt) -> list[ast.stmt]:
        made = self.block(rest, False)
        is_open = ast.UnaryOp(ast.Not(), ast.Name(self._is_over, ast.Load()))
        return [located(ast.If(is_open, made, []), node)] if made else []


class _Without:
    """Removes assignments to a name that is never read."""

    def __init__(self, name: str):
        self._name = name

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for node in statements:
            if isinstance(node, ast.Assign) and _is_name(node.targets[0], self._name, ast.Store):
                continue
            if isinstance(node, ast.If | ast.For | ast.While):
                node.body = self.block(node.body) or [ast.copy_location(ast.Pass(), node)]
                node.orelse = self.block(node.orelse)
            made.append(node)
        return made


def _assigned(name: str, value: ast.expr, node: ast.stmt) -> ast.stmt:
    return located(ast.Assign([ast.Name(name, ast.Store())], value), node)


def _is_name(node: ast.AST, name: str, context: type[ast.expr_context]) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, context)


def _returns(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Return) for each in ast.walk(node))


def _is_left(statements: list[ast.stmt]) -> bool:
    """Whether a loop's own ``break`` is in its body."""
    for node in statements:
        if isinstance(node, ast.Break):
            return True
        if isinstance(node, ast.If) and (_is_left(node.body) or _is_left(node.orelse)):
            return True
        if isinstance(node, ast.For | ast.While) and _is_left(node.orelse):
            return True
    return False


__all__ = ["Gives", "at_end"]
