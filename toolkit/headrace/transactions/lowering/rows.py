"""Rows: which names stand for them, and the statement that finds each."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from headrace.codegen.capture import CapturedFunction
from headrace.names import instead
from headrace.transactions.lowering.lowered import REJECTED, Row
from headrace.transactions.lowering.trees import located, returning
from headrace.transactions.nulls import is_column
from headrace.transactions.tables import Table


class Rows:
    """What is known of the function being lowered, and its rows."""

    def __init__(self, captured: CapturedFunction, given: list[str], emits: list[str], lists: Collection[str]):
        self._captured = replace(
            captured,
            constants=dict(captured.constants),
            helpers=dict(captured.helpers),
            objects=dict(captured.objects),
        )
        self._event = given[0]
        self._transaction = given[1] if len(given) == 2 else None
        self._emits, self._lists = emits, lists
        self._calls_emit = False
        self._rows: dict[str, Row] = {}
        self._aliases: dict[str, str] = {}
        """Names that stand for rows -> the table's."""
        self._open: set[str] = set()
        """Rows that every path to here has found, by keys that cannot change; lists without nulls, as `nulls_of` names them."""
        self._guards: set[int] = set()
        """Conditions that were put around loops: their ids."""
        self._assigned: set[str] = set()
        """Names of inlined functions: whether they have values is checked in those functions as they stand."""
        self._count = 0
        self._local = {n.id for n in ast.walk(captured.node) if isinstance(n, ast.Name)}

    # -- what the other classes supply

    def _expression(self, node: Any, before: list[ast.stmt]) -> Any:
        raise NotImplementedError

    def _is_ours(self, node: ast.Call) -> bool:
        raise NotImplementedError

    def _write_out(self, node: ast.Call, before: list[ast.stmt], is_used: bool = True) -> ast.expr:
        raise NotImplementedError

    def _error(self, text: str, node: ast.AST):
        return self._captured.error(text, node)

    def _fresh(self, prefix: str) -> str:
        while True:
            self._count += 1
            name = f"{prefix}_{self._count}"
            if name not in self._local:
                return name

    # -- rows

    def _table_of(self, node: ast.AST) -> Table | None:
        """The table, if a node is one of its rows, as in ``accounts[...]``."""
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            return self._captured.objects.get(node.value.id)
        return None

    def _note_aliases(self, root: ast.AST) -> None:
        """Find the names that stand for rows."""
        others: dict[str, ast.AST] = {}
        for node in ast.walk(root):
            if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
                targets = getattr(node, "target", None)
                for name in ast.walk(targets) if isinstance(targets, ast.AST) else ():
                    if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                        others[name.id] = name
                continue
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            tables = self._tables_given(node.value)
            if tables and isinstance(target, ast.Name) and (isinstance(node, ast.AnnAssign) or len(node.targets) == 1):
                for subscript in tables:
                    assert isinstance(subscript.value, ast.Name)
                    known = self._aliases.setdefault(target.id, subscript.value.id)
                    if self._captured.objects[known] is not self._captured.objects[subscript.value.id]:
                        raise self._error(f"{target.id!r} is a row of {known} elsewhere: use two names", target)
            else:
                for name in ast.walk(node):
                    if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                        others[name.id] = name
        for name in self._aliases.keys() & others.keys():
            raise self._error(f"{name!r} is a row of {self._aliases[name]} elsewhere: use two names", others[name])

    def _tables_given(self, value: ast.expr) -> list[ast.Subscript]:
        """The rows that an expression gives, if it gives nothing but rows."""
        if isinstance(value, ast.IfExp):
            both = [self._tables_given(value.body), self._tables_given(value.orelse)]
            return [*both[0], *both[1]] if all(both) else []
        return [value] if isinstance(value, ast.Subscript) and self._table_of(value) is not None else []

    def _row(self, name: str, table: Table) -> Row:
        return self._rows.setdefault(name, Row(name, table, len(self._rows)))

    def _find(self, name: str, subscript: ast.Subscript, before: list[ast.stmt]) -> str:
        """Write the statement that finds a row."""
        table = self._table_of(subscript)
        assert table is not None
        is_stable = name not in self._aliases and self._is_stable(subscript.slice)
        if is_stable and name in self._open:
            return name
        self._row(name, table)
        key = self._expression(subscript.slice, before)
        found: ast.stmt = ast.Assign([ast.Name(name, ast.Store())], key)
        is_there = self._is_there(key)
        if is_there is not None:
            # A null is in no table.
            found = ast.If(is_there, [found], [returning(REJECTED, subscript)])
        before.append(located(found, subscript))
        if is_stable:
            self._open.add(name)
        return name

    def _is_there(self, key: ast.expr) -> ast.expr | None:
        """The condition under which a column of the event, or one of several, is not null; None for other keys."""
        if is_column(key, self._event):
            return ast.Compare(copy.deepcopy(key), [ast.IsNot()], [ast.Constant(None)])
        if not isinstance(key, ast.IfExp):
            return None
        both = [self._is_there(each) for each in (key.body, key.orelse)]
        if both == [None, None]:
            return None
        return ast.IfExp(copy.deepcopy(key.test), *(each or ast.Constant(True) for each in both))

    def _is_stable(self, key: ast.expr) -> bool:
        """Whether a key is made of the event's columns and constants, and so is the same wherever it is written."""
        names = [node.id for node in ast.walk(key) if isinstance(node, ast.Name)]
        return all(name == self._event or name in self._captured.constants for name in names)

    def _named(self, node: ast.Attribute, before: list[ast.stmt]) -> ast.expr:
        """``row.column`` with its row found; any other attribute with its value lowered."""
        subscript = node.value
        table = self._table_of(subscript)
        if table is not None:
            assert isinstance(subscript, ast.Subscript)
            self._check_column(table, node)
            name = self._find(ast.unparse(subscript), subscript, before)
        elif isinstance(subscript, ast.Name) and subscript.id in self._aliases:
            name = subscript.id
            self._check_column(self._captured.objects[self._aliases[name]], node)
        elif isinstance(subscript, ast.Call) and self._is_ours(subscript):
            row = self._write_out(subscript, before)
            if isinstance(row, ast.Name) and row.id in self._aliases:
                self._check_column(self._captured.objects[self._aliases[row.id]], node)
            return ast.copy_location(ast.Attribute(row, node.attr, node.ctx), node)
        else:
            value = self._expression(node.value, before)
            return ast.copy_location(ast.Attribute(value, node.attr, node.ctx), node)
        return ast.copy_location(ast.Attribute(located(ast.Name(name, ast.Load()), node), node.attr, node.ctx), node)

    def _check_column(self, table: Table, node: ast.Attribute) -> None:
        if node.attr in table.columns:
            return
        text = ast.unparse(node)
        if node.attr == table.key:
            if isinstance(node.ctx, ast.Store):
                raise self._error(f"{text} is assigned: the key of a row cannot be changed", node)
            raise self._error(f"{text}: it is what the row was looked up by; use that", node)
        raise self._error(
            f"{text}: the table {table.name!r} has no column {node.attr!r};"
            f" {instead(node.attr, list(table.columns), 'its columns', '{}')}",
            node,
        )
