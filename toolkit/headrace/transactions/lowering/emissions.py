"""What a function tells its transaction: that it is rejected, and what it emits for its event."""

from __future__ import annotations

import ast

from headrace.names import instead
from headrace.transactions.lowering.expressions import Expressions
from headrace.transactions.lowering.lowered import EMITTED, MASK, REJECTED
from headrace.transactions.lowering.trees import emitted, is_none, located, may_be_none, returning


class Emissions(Expressions):
    """Lowering of ``t.reject()`` and ``t.emit(...)``."""

    def _is_rejecting(self, node: ast.expr) -> bool:
        """Whether it is ``t.reject()``."""
        called = node.func if isinstance(node, ast.Call) else None
        return isinstance(called, ast.Attribute) and called.attr == "reject" and self._is_transaction(called.value)

    def _of_transaction(self, node: ast.expr, is_statement: bool = True) -> list[ast.stmt] | None:
        """What ``t.reject()`` and ``t.emit(...)`` become; None for anything else."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and self._is_transaction(node.func.value)):
            return None
        said = node.func.attr
        if said not in ("reject", "emit"):
            raise self._error(f"{ast.unparse(node)}: a transaction has reject() and emit(...)", node)
        if not is_statement:
            return []
        if said == "reject":
            if node.args or node.keywords:
                raise self._error(f"{ast.unparse(node)}: reject() takes nothing", node)
            return [returning(REJECTED, node)]
        return self._emit(node)

    def _emit(self, node: ast.Call) -> list[ast.stmt]:
        if node.args or any(keyword.arg is None for keyword in node.keywords):
            raise self._error(f"{ast.unparse(node)}: give each column by name, as in t.emit(balance=...)", node)
        self._calls_emit = True
        before: list[ast.stmt] = []
        given: list[tuple[str, ast.expr]] = []
        for keyword in node.keywords:
            column = keyword.arg
            assert column is not None
            if column not in self._emits:
                there = instead(column, self._emits, "emits= names", "{}") if self._emits else "name it and its kind"
                fix = "" if self._emits else f', as in transact({self._captured.name}, emits={{"{column}": "int64"}})'
                raise self._error(f"t.emit({column}=...): there is no such column; {there}{fix}", keyword.value)
            given.append((column, keyword.value))
        so_far = ast.Attribute(ast.Name(EMITTED, ast.Load()), MASK, ast.Load())
        again = ast.Raise(
            ast.Call(ast.Name("ValueError", ast.Load()), [ast.Constant("emit was called before: an event has one row")], []), None
        )
        self._captured.constants.setdefault("ValueError", ast.Name("ValueError", ast.Load()))
        check = ast.If(ast.Compare(so_far, [ast.NotEq()], [ast.Constant(0)]), [again], [])
        statements = [located(check, node)]
        if any(map(may_be_none, (value for _, value in given))):
            # In the order written, one after another.
            statements.append(emitted(MASK, ast.Constant(1), node))
            for column, value in given:
                statements += self._emit_one(column, value, node)
            return statements
        values = self._in_order([value for _, value in given], before)
        mask = 1
        for (column, _), value in zip(given, values, strict=True):
            mask |= 2 << self._emits.index(column)
            statements.append(emitted(column, value, node))
        return [*before, *statements, emitted(MASK, ast.Constant(mask), node)]

    def _emit_one(self, column: str, value: ast.expr, node: ast.AST) -> list[ast.stmt]:
        """Give one column, which may be None on one side of a condition."""
        before: list[ast.stmt] = []
        if is_none(value):
            return []
        if isinstance(value, ast.IfExp) and may_be_none(value):
            test = self._condition(value.test, before)
            known = set(self._open)
            branches = []
            for part in (value.body, value.orelse):
                branches.append(self._emit_one(column, part, node))
                self._open = set(known)
            return [*before, located(ast.If(test, branches[0] or [ast.Pass()], branches[1]), node)]
        given = self._expression(value, before)
        so_far = ast.Attribute(ast.Name(EMITTED, ast.Load()), MASK, ast.Load())
        mask = ast.BinOp(so_far, ast.BitOr(), ast.Constant(2 << self._emits.index(column)))
        return [*before, emitted(column, given, node), emitted(MASK, mask, node)]
