"""Called functions: those that use tables, rows or the transaction are inlined."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Mapping

from headrace.codegen.assigned import check_assigned, stored_inside
from headrace.codegen.capture import CapturedFunction
from headrace.transactions.lowering.emissions import Emissions
from headrace.transactions.lowering.returns import Gives, at_end
from headrace.transactions.lowering.trees import located
from headrace.transactions.lowering.tuples import one_by_one
from headrace.transactions.nulls import with_columns_named


class Called(Emissions):
    """Lowering of calls."""

    # -- what the other classes supply

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        raise NotImplementedError

    def _is_ours(self, node: ast.Call) -> bool:
        """Whether it calls a function that uses tables, rows or the transaction, and so is inlined."""
        if not (isinstance(node.func, ast.Name) and node.func.id in self._captured.helpers):
            return False
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        return _uses_tables(self._captured.helpers[node.func.id]) or any(
            self._is_transaction(each) or self._table_of(each) is not None
            or (isinstance(each, ast.Name) and each.id in self._aliases)
            for each in given
        )  # fmt: skip

    def _write_out(self, node: ast.Call, before: list[ast.stmt], is_used: bool = True) -> ast.expr:
        """Write a called function's statements in front. Returns its result, which must exist if it is used."""
        assert isinstance(node.func, ast.Name)
        helper = self._captured.helpers[node.func.id]
        check_assigned(helper)
        self._count += 1
        prefix = f"{re.sub(r'[^A-Za-z0-9_]', '', helper.name)}_{self._count}_"
        given = dict(zip(helper.parameters, node.args, strict=False))
        named = {str(keyword.arg): keyword.value for keyword in node.keywords}
        is_twice = bool(given.keys() & named.keys())
        given |= named
        missing = [p for p in helper.parameters if p not in given and p not in helper.defaults]
        if missing or is_twice or len(node.args) > len(helper.parameters) or given.keys() - set(helper.parameters):
            raise self._error(f"{ast.unparse(node)}: give {helper.name} {', '.join(helper.parameters)}", node)
        body = one_by_one(copy.deepcopy(helper.node.body), helper.objects)
        same: dict[str, ast.expr] = {}
        assigned: list[ast.stmt] = []
        stored = {n.id for each in body for n in ast.walk(each) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        for parameter in helper.parameters:
            value = given.get(parameter, helper.defaults.get(parameter))
            assert value is not None
            is_known = isinstance(value, ast.Name) and value.id in (self._event, self._transaction, *self._aliases)
            if is_known and parameter in stored:
                raise self._error(
                    f"{ast.unparse(node)}: {helper.name} assigns to {parameter!r}, which is {ast.unparse(value)!r} here:"
                    f" use another name in it",
                    node,
                )
            is_column = isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == self._event
            if is_known or (is_column and parameter not in stored):
                same[parameter] = value  # a column of the event may be null: it stays one where it is used
            elif (table := self._table_of(value)) is not None:
                assert isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name)
                if parameter in stored:
                    raise self._error(
                        f"{ast.unparse(node)}: {helper.name} assigns to {parameter!r}, which is a row here: use another name"
                        f" in it",
                        node,
                    )
                self._aliases[prefix + parameter] = value.value.id
                self._row(prefix + parameter, table)
                assigned.append(ast.Assign([ast.Name(prefix + parameter, ast.Store())], value))
            else:
                assigned.append(ast.Assign([ast.Name(prefix + parameter, ast.Store())], value))
        for name, value in helper.constants.items():
            self._captured.constants[f"{prefix}{name}"] = value
        for name, inner in helper.helpers.items():
            self._captured.helpers[f"{prefix}{name}"] = inner
        for name, table in helper.objects.items():
            self._captured.objects[f"{prefix}{name}"] = table
        body = [_Renamed(prefix, same).visit(each) for each in body]
        # No name of the function is the prefix alone, or has a digit after it.
        body, gives = at_end(body, prefix, f"{prefix}0", self._is_rejecting, is_used)
        if is_used and gives is not Gives.VALUE:
            raise self._error(f"{ast.unparse(node)}: {helper.name} gives {gives.value}, and that is used here", node)
        self._check_rows_given(body, prefix, helper, node)
        self._assigned |= {name for each in body for name in stored_inside(each)}
        given_back = ast.Expr(ast.Name(prefix, ast.Load()))  # with the body, since it may be only another name of a column
        *body, given_back = with_columns_named([*body, given_back], self._event, self._captured.constants)
        block = ast.Module([*assigned, *body], [])
        for each in (*ast.walk(block), *ast.walk(given_back)):
            if "lineno" in each._attributes:
                ast.copy_location(each, node)  # an error names the line of the call
        self._note_aliases(ast.Module(body, []))
        before += self._block(list(block.body))
        assert isinstance(given_back, ast.Expr)
        return located(given_back.value, node)

    def _check_rows_given(self, body: list[ast.stmt], result: str, helper: CapturedFunction, node: ast.Call) -> None:
        """Check that a function returns a row on all paths or on none, and always one of the same table."""
        assigned = [each for statement in body for each in ast.walk(statement) if isinstance(each, ast.Assign)]
        values = [each.value for each in assigned if isinstance(each.targets[0], ast.Name) and each.targets[0].id == result]
        rows = [self._tables_given(value) for value in values]
        if any(rows) and not all(rows):
            raise self._error(f"{ast.unparse(node)}: {helper.name} gives a row on some paths, and none on others", node)
        tables = {table.name: table for each in rows for row in each if (table := self._table_of(row)) is not None}
        if len(tables) > 1:
            raise self._error(f"{ast.unparse(node)}: {helper.name} gives rows of {' and '.join(sorted(tables))}", node)


class _Renamed(ast.NodeTransformer):
    """Gives names a prefix, or puts what they stand for in their place."""

    def __init__(self, prefix: str, same: Mapping[str, ast.expr]):
        self._prefix, self._same = prefix, same

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A name."""
        if node.id in self._same:
            return ast.copy_location(copy.deepcopy(self._same[node.id]), node)
        return ast.copy_location(ast.Name(self._prefix + node.id, node.ctx), node)


def _uses_tables(captured: CapturedFunction) -> bool:
    return bool(captured.objects) or any(map(_uses_tables, captured.helpers.values()))
