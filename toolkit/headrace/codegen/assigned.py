"""Finding the names in a user function that may be unbound where they are read.

Python raises `UnboundLocalError` there at run time; a compiled function would
go on with whatever the register held. So such a function is refused, with the
line of the read. A loop may run zero times, and a condition may be false.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from headrace.codegen.capture import CapturedFunction


def check_assigned(captured: CapturedFunction) -> None:
    """Raise `FunctionError` at the first read of a local that may be unbound, in a function or its helpers."""
    for helper in captured.helpers.values():
        check_assigned(helper)
    names = [node for node in ast.walk(captured.node) if isinstance(node, ast.Name)]
    stored = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    _Walk(captured, stored - {*captured.parameters, *captured.assigned}).block(captured.node.body, set())


class _Walk:
    """Walks statements with the set of bound names; None where the end of a block is not reached."""

    def __init__(self, captured: CapturedFunction, names: set[str]):
        self._captured, self._local = captured, names
        self._leaving: list[list[set[str]]] = []
        """For each enclosing loop: the names bound at each `break`, and in `_turns` at each `continue`."""
        self._turns: list[list[set[str]]] = []

    def block(self, statements: Iterable[ast.stmt], known: set[str] | None) -> set[str] | None:
        for statement in statements:
            if known is None:
                return None  # never reached
            known = self._statement(statement, known)
        return known

    def _statement(self, node: ast.stmt, known: set[str]) -> set[str] | None:
        if isinstance(node, ast.If):
            self._read(node.test, known)
            return _both(self.block(node.body, known), self.block(node.orelse, known))
        if isinstance(node, ast.For):
            self._read(node.iter, known)
            begins = known | stored_inside(node.target)
            return self._loop(node, begins, known, is_certain=_is_not_empty(node.iter))
        if isinstance(node, ast.While):
            self._read(node.test, known)
            is_endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
            return self._loop(node, known, None if is_endless else known, is_certain=False)
        if isinstance(node, ast.Return | ast.Raise):
            self._read(node, known)
            return None
        if isinstance(node, ast.Break):
            self._leaving[-1].append(known)
            return None
        if isinstance(node, ast.Continue):
            self._turns[-1].append(known)
            return None
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self._check(node.target, known)
        self._read(node, known)
        return known | stored_inside(node)

    def _loop(
        self, node: ast.For | ast.While, begins: set[str], skipped: set[str] | None, is_certain: bool
    ) -> set[str] | None:
        self._leaving.append([])
        self._turns.append([])
        ends = self.block(node.body, begins)
        for turn in self._turns.pop():
            ends = _both(ends, turn)
        after = (ends if is_certain else skipped) if skipped is not None else None
        if after is not None:
            after = self.block(node.orelse, after)
        for left in self._leaving.pop():
            after = _both(after, left)
        return after

    def _read(self, node: ast.AST, known: set[str]) -> None:
        inner = known | {
            name
            for part in ast.walk(node)
            if isinstance(part, ast.comprehension)
            for name in stored_inside(part.target)
        }
        for name in ast.walk(node):
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load):
                self._check(name, inner)

    def _check(self, name: ast.Name, known: set[str]) -> None:
        if name.id in self._local and name.id not in known:
            raise self._captured.error(
                f"{name.id!r} may have no value here: give it one before the condition or loop that does", name
            )


def stored_inside(node: ast.AST) -> set[str]:
    """Return the names that a statement binds, anywhere inside."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _both(one: set[str] | None, other: set[str] | None) -> set[str] | None:
    """Return the names bound on both paths; None for a path that does not lead here."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _is_not_empty(iterable: ast.expr) -> bool:
    """Whether a loop over this expression is known to run at least once."""
    if isinstance(iterable, ast.Tuple | ast.List):
        return bool(iterable.elts)
    if isinstance(iterable, ast.Call) and ast.unparse(iterable.func) == "range":
        bounds = [a.value for a in iterable.args if isinstance(a, ast.Constant) and isinstance(a.value, int)]
        return len(bounds) == len(iterable.args) and 0 not in bounds[2:] and len(range(*bounds)) > 0
    return False
