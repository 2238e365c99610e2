"""Statements: each with those in front that find its rows."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection

from headrace.transactions.lowering.called import Called
from headrace.transactions.lowering.lowered import DONE, REJECTED
from headrace.transactions.lowering.trees import located, returning
from headrace.transactions.nulls import is_column, lists_asked, nulls_of

_ELEMENTS_OF = {"zip", "enumerate", "reversed", "sorted"}
"""Functions over whose elements a loop may go."""


class Statements(Called):
    """Lowering of statements."""

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in statements:
            result += self._statement(statement)
        return result

    def _inner(self, statements: list[ast.stmt], whole: Collection[str] = ()) -> list[ast.stmt]:
        """A block that may not be reached: rows found in it are not known after it. `whole`: lists without nulls in it."""
        known = set(self._open)
        self._open |= {*whole}
        result = self._block(statements)
        self._open = known
        return result

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is not None:
            return method(node)
        before: list[ast.stmt] = []
        changed = copy.copy(node)
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(changed, name, self._expression(value, before))
        return [*before, changed]

    def _Expr(self, node: ast.Expr) -> list[ast.stmt]:
        if isinstance(node.value, ast.Constant):
            return []
        said = self._of_transaction(node.value)
        if said is not None:
            return said
        before: list[ast.stmt] = []
        if isinstance(node.value, ast.Call) and self._is_ours(node.value):
            self._write_out(node.value, before, is_used=False)
            return before
        value = self._expression(node.value, before)
        return [*before, ast.copy_location(ast.Expr(value), node)]

    def _Return(self, node: ast.Return) -> list[ast.stmt]:
        if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
            return [returning(DONE, node)]
        said = self._of_transaction(node.value)
        if said is None:
            raise self._error("returns a value, which is not used: call t.emit or t.reject, or assign to a row", node)
        return [*said, returning(DONE, node)]

    def _Assign(self, node: ast.Assign) -> list[ast.stmt]:
        before: list[ast.stmt] = []
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Name) and target.id in self._aliases:
            return self._alias(target, node.value)
        value = self._expression(node.value, before)
        targets = [self._expression(each, before) for each in node.targets]
        return [*before, ast.copy_location(ast.Assign(targets, value), node), *self._constraints(node.targets, targets)]

    def _AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        if node.value is None:
            return []
        return self._Assign(ast.copy_location(ast.Assign([node.target], node.value), node))

    def _AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        before: list[ast.stmt] = []
        target = self._expression(node.target, before)
        start = len(before)
        value = self._expression(node.value, before)
        changed: ast.stmt = ast.copy_location(ast.AugAssign(target, node.op, value), node)
        if any(map(self._changes_rows, before[start:])):
            # The target's value before the inlined function in front changes it.
            name = self._fresh("first")
            now = copy.copy(target)
            now.ctx = ast.Load()
            before.insert(start, located(ast.Assign([ast.Name(name, ast.Store())], now), node))
            changed = located(ast.Assign([target], ast.BinOp(ast.Name(name, ast.Load()), node.op, value)), node)
        return [*before, changed, *self._constraints([node.target], [target])]

    def _alias(self, target: ast.Name, value: ast.expr) -> list[ast.stmt]:
        """``r = accounts[...]``, or one of two rows under a condition."""
        before: list[ast.stmt] = []
        if isinstance(value, ast.IfExp):
            test = self._condition(value.test, before)
            branches = [self._alias(target, value.body), self._alias(target, value.orelse)]
            return [*before, ast.copy_location(ast.If(test, *branches), value)]
        assert isinstance(value, ast.Subscript)
        self._find(target.id, value, before)
        return before

    def _constraints(self, written: list[ast.expr], lowered: list[ast.expr]) -> list[ast.stmt]:
        """Statements that reject a transaction which gives a column less than is allowed."""
        checks: list[ast.stmt] = []
        for each in [part for target in lowered for part in ast.walk(target)]:
            if not (isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id in self._rows):
                continue
            least = self._rows[each.value.id].table.least.get(each.attr)
            if least is not None:
                place = ast.Attribute(ast.Name(each.value.id, ast.Load()), each.attr, ast.Load())
                test = ast.Compare(place, [ast.Lt()], [ast.Constant(least)])
                checks.append(located(ast.If(test, [returning(REJECTED, each)], []), written[0]))
        return checks

    def _If(self, node: ast.If) -> list[ast.stmt]:
        before: list[ast.stmt] = []
        if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) and not node.orelse:
            if self._finds_late(node.test):
                # Nested conditions: a condition on the event still guards the rest.
                first, *rest = node.test.values
                test = rest[0] if len(rest) == 1 else ast.copy_location(ast.BoolOp(ast.And(), rest), node.test)
                inner = ast.copy_location(ast.If(test, node.body, []), node)
                return self._If(ast.copy_location(ast.If(first, [inner], []), node))
        test = self._condition(node.test, before)
        whole = lists_asked(test)
        body, orelse = self._inner(node.body), self._inner(node.orelse, whole)
        if body and isinstance(body[-1], ast.Return) and not orelse:
            self._open |= whole
        return [*before, ast.copy_location(ast.If(test, body or [located(ast.Pass(), node)], orelse), node)]

    def _While(self, node: ast.While) -> list[ast.stmt]:
        known = set(self._open)
        if not self._touches(node.test):
            test = self._condition(node.test, [])
            body = self._inner(node.body)
            self._open = known
            return [ast.copy_location(ast.While(test, body, self._inner(node.orelse)), node)]
        if node.orelse:
            raise self._error("while ... else with a row in its condition: write the condition as an if inside", node)
        # The condition is put around the loop's body, so that a condition on the event still guards the rest.
        turn = ast.copy_location(ast.If(node.test, [*node.body, located(ast.Continue(), node)], []), node)
        body = [*self._If(turn), located(ast.Break(), node)]
        self._open = known
        return [ast.copy_location(ast.While(located(ast.Constant(True), node), body, []), node)]

    def _For(self, node: ast.For) -> list[ast.stmt]:
        before: list[ast.stmt] = []
        if any(isinstance(each, ast.Attribute | ast.Subscript) for each in ast.walk(node.target)):
            raise self._error(f"for {ast.unparse(node.target)} in ...: give what is looped over a name of its own", node)
        iterable = self._expression(node.iter, before)
        nulls = [name for each in self._looped_over(node.iter) if (name := nulls_of(each)) not in self._open]
        self._open |= {*nulls}
        body = self._inner(node.body)
        loop: ast.stmt = ast.copy_location(ast.For(node.target, iterable, body, self._inner(node.orelse)), node)
        for name in nulls:
            count = ast.Attribute(ast.Name(self._event, ast.Load()), name, ast.Load())
            is_whole = ast.Compare(count, [ast.Eq()], [ast.Constant(0)])
            loop = located(ast.If(is_whole, [loop], [returning(REJECTED, node)]), node)
            self._guards.add(id(loop))
        return [*before, loop]

    def _looped_over(self, iterable: ast.expr) -> list[str]:
        """The list columns whose elements a loop takes."""
        if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) and iterable.func.id in _ELEMENTS_OF:
            return list(dict.fromkeys(name for each in iterable.args for name in self._looped_over(each)))
        if is_column(iterable, self._event) and iterable.attr in self._lists:  # type: ignore[attr-defined]
            return [iterable.attr]  # type: ignore[attr-defined]
        return []
