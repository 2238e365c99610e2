"""Expressions: rewritten so that statements in front find the rows in them."""

from __future__ import annotations

import ast
import copy
from typing import Any

from headrace.transactions.lowering.rows import Rows
from headrace.transactions.lowering.trees import located, written_place
from headrace.transactions.nulls import nulls_of


class Expressions(Rows):
    """Lowering of expressions."""

    # -- what the other classes supply

    def _of_transaction(self, node: ast.expr, is_statement: bool = True) -> list[ast.stmt] | None:
        raise NotImplementedError

    def _expression(self, node: Any, before: list[ast.stmt]) -> Any:
        """The expression, with its rows found by statements in front."""
        if not isinstance(node, ast.expr):
            return node
        if isinstance(node, ast.Attribute):
            if self._is_transaction(node.value):
                raise self._error(f"{ast.unparse(node)}: write t.reject() or t.emit(...) as a statement of its own", node)
            return self._named(node, before)
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Compare) and (lists := self._asks_for_null(node)) is not None:
            return lists
        if isinstance(node, ast.Compare) and len(node.ops) > 1 and any(map(self._touches, node.comparators[1:])):
            return self._chain(node, before)
        if self._table_of(node) is not None:
            text = ast.unparse(node)
            raise self._error(f"{text} is a row: use its columns, as in {text}.{self._some_column(node)}", node)
        if isinstance(node, ast.BoolOp | ast.IfExp) and self._finds_late(node):
            return self._choice(node, before)
        if isinstance(node, ast.IfExp) and self._touches(node.test):
            parts = [self._condition(node.test, before), *(self._expression(each, before) for each in (node.body, node.orelse))]
            return ast.copy_location(ast.IfExp(*parts), node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and self._touches(node):
            return self._condition(node, before)
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) and self._touches(node):
            raise self._error(f"{ast.unparse(node)}: rows are found in statements only; write a for loop", node)
        if isinstance(node, ast.Call):
            if self._of_transaction(node, is_statement=False) is not None:
                raise self._error(f"{ast.unparse(node)} gives nothing: call it as a statement of its own", node)
            if self._is_ours(node):
                given = self._write_out(node, before)
                if isinstance(given, ast.Name) and given.id in self._aliases:
                    table, text = self._captured.objects[self._aliases[given.id]], ast.unparse(node)
                    column = next(iter(table.columns), "column")
                    raise self._error(f"{text} is a row of {table.name}: use its columns, as in {text}.{column}", node)
                return given
        changed = copy.copy(node)
        places = [(name, value) for name, value in ast.iter_fields(node) if isinstance(value, ast.expr | list)]
        parts = self._in_order([each for _, value in places for each in (value if isinstance(value, list) else [value])], before)
        for name, value in places:
            count = len(value) if isinstance(value, list) else 1
            setattr(changed, name, parts[:count] if isinstance(value, list) else parts[0])
            parts = parts[count:]
        return changed

    def _part(self, node: Any, before: list[ast.stmt]) -> Any:
        if isinstance(node, ast.keyword):
            return ast.copy_location(ast.keyword(node.arg, self._expression(node.value, before)), node)
        return self._expression(node, before)

    def _condition(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """As `_expression`, where only the truth value is needed: that of a list is whether it has elements."""
        if isinstance(node, ast.BoolOp) and self._touches(node):
            if self._finds_late(node):
                return self._choice(node, before, of_truth=True)
            values = [self._condition(each, before) for each in node.values]  # the first one alone finds rows
            return ast.copy_location(ast.BoolOp(node.op, values), node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ast.copy_location(ast.UnaryOp(node.op, self._condition(node.operand, before)), node)
        return self._expression(node, before)

    def _truth(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """The truth of what may be a list or string, as a value that can be kept."""
        test = self._condition(node, before)
        if isinstance(test, ast.Compare) or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            return test
        return located(ast.IfExp(test, ast.Constant(True), ast.Constant(False)), node)

    def _asks_for_null(self, node: ast.Compare) -> ast.expr | None:
        """``None in e.keys``: the number of null elements is a field of its own."""
        place, op = node.comparators[0], node.ops[0]
        is_none = isinstance(node.left, ast.Constant) and node.left.value is None
        if len(node.ops) > 1 or not is_none or not isinstance(op, ast.In | ast.NotIn):
            return None
        if not (isinstance(place, ast.Attribute) and isinstance(place.value, ast.Name) and place.value.id == self._event):
            raise self._error(f"{ast.unparse(node)}: only a list column of the event can be asked for nulls", node)
        count = ast.Attribute(place.value, nulls_of(place.attr), ast.Load())
        test = ast.NotEq() if isinstance(op, ast.In) else ast.Eq()
        return located(ast.Compare(ast.copy_location(count, place), [test], [ast.Constant(0)]), node)

    def _name(self, node: ast.Name) -> ast.Name:
        name = node.id
        if name in self._captured.objects:
            table = self._captured.objects[name]
            raise self._error(f"{name!r} is the table {table.name!r}: use its rows, as in {name}[e.{table.key}]", node)
        if name in self._aliases:
            column = next(iter(self._captured.objects[self._aliases[name]].columns), "column")
            raise self._error(f"{name!r} is a row: use its columns, as in {name}.{column}", node)
        if name == self._transaction:
            raise self._error(f"{name!r} can only be used as {name}.reject() and {name}.emit(...)", node)
        return node

    def _some_column(self, node: ast.expr) -> str:
        table = self._table_of(node)
        assert table is not None
        return next(iter(table.columns), "column")

    def _touches(self, node: ast.AST) -> bool:
        """Whether evaluating it finds a row."""
        return any(
            self._table_of(each) is not None or (isinstance(each, ast.Call) and self._is_ours(each)) for each in ast.walk(node)
        )

    def _finds_late(self, node: ast.BoolOp | ast.IfExp) -> bool:
        """Whether a row is found only if the first part decides so."""
        late = node.values[1:] if isinstance(node, ast.BoolOp) else [node.body, node.orelse]
        return any(map(self._touches, late))

    def _choice(self, node: ast.BoolOp | ast.IfExp, before: list[ast.stmt], of_truth: bool = False) -> ast.expr:
        """Write ``a and b``, or ``a if c else b``, as statements; `of_truth`: only its truth value is needed."""
        name = self._fresh("choice")

        def assigned(value: ast.expr) -> list[ast.stmt]:
            known, inner = set(self._open), []
            lowered = self._expression(value, inner)
            self._open = known
            return [*inner, located(ast.Assign([ast.Name(name, ast.Store())], lowered), value)]

        if isinstance(node, ast.IfExp):
            test = self._condition(node.test, before)
            before.append(located(ast.If(test, assigned(node.body), assigned(node.orelse)), node))
        else:
            known = set(self._open)
            block = before
            for value in node.values:
                # A name for each part: the value of an earlier part depends on no later one.
                part = self._fresh("part")
                lowered = self._truth(value, block) if of_truth else self._expression(value, block)
                block.append(located(ast.Assign([ast.Name(part, ast.Store())], lowered), node))
                block.append(located(ast.Assign([ast.Name(name, ast.Store())], ast.Name(part, ast.Load())), node))
                if value is node.values[0]:
                    known = set(self._open)
                if value is not node.values[-1]:
                    test: ast.expr = ast.Name(part, ast.Load())
                    if isinstance(node.op, ast.Or):
                        test = ast.UnaryOp(ast.Not(), test)
                    branch = located(ast.If(test, [], []), node)
                    block.append(branch)
                    block = branch.body
            self._open = known
        return located(ast.Name(name, ast.Load()), node)

    def _chain(self, node: ast.Compare, before: list[ast.stmt]) -> ast.expr:
        """Write ``a < b < c``, which evaluates `c` only if the first holds, as ``a < b and b < c``."""
        first, between = self._in_order([node.left, node.comparators[0]], before)
        name = self._fresh("between")
        before.append(located(ast.Assign([ast.Name(name, ast.Store())], between), node))
        place = ast.Name(name, ast.Load())
        pair = located(ast.Compare(first, node.ops[:1], [place]), node)
        rest = located(ast.Compare(place, node.ops[1:], node.comparators[1:]), node)
        return self._expression(located(ast.BoolOp(ast.And(), [pair, rest]), node), before)

    def _in_order(self, parts: list[Any], before: list[ast.stmt]) -> list[Any]:
        """Lower expressions in order; what an earlier one reads is kept if an inlined function in a later one changes it."""
        result: list[Any] = []
        for part in parts:
            start, number = len(before), self._count
            lowered = self._part(part, before)
            if self._count != number and any(map(self._changes_rows, before[start:])):
                for place, each in enumerate(result):
                    value = each.value if isinstance(each, ast.keyword) else each
                    if isinstance(value, ast.expr) and self._reads_rows(value):
                        name = self._fresh("first")
                        before.insert(start, located(ast.Assign([ast.Name(name, ast.Store())], value), value))
                        start += 1
                        read = located(ast.Name(name, ast.Load()), value)
                        result[place] = located(ast.keyword(each.arg, read), value) if isinstance(each, ast.keyword) else read
            result.append(lowered)
        return result

    def _changes_rows(self, statement: ast.stmt) -> bool:
        return any(self._is_of_row(written_place(each)) for each in ast.walk(statement))

    def _reads_rows(self, value: ast.expr) -> bool:
        return any(self._is_of_row(each) for each in ast.walk(value))

    def _is_of_row(self, node: ast.AST | None) -> bool:
        return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self._rows

    def _is_transaction(self, node: ast.AST) -> bool:
        return self._transaction is not None and isinstance(node, ast.Name) and node.id == self._transaction
