"""A transaction's function, brought into a form in which each row it touches is found by a statement of its own.

``accounts[e.source].balance -= e.amount`` becomes ::

    accounts[e.source] = e.source          # the name `accounts[e.source]`: from here on that row
    accounts[e.source].balance -= e.amount

where the first line's target is a single name, which happens to read like what the user wrote, so that messages do,
too. ``t.reject()`` becomes ``return 1``, the end ``return 0``, ``t.emit(balance=x)`` assignments to fields of
`EMITTED`, and functions that use tables are written out where they are called. What is evaluated only under a
condition (the second part of ``and``) becomes a statement under that condition: a row that Python would not look up
is not looked up. A null names no row: it rejects where one is found by it, also under the name of a local that is but
another name of the column. A loop over a list column with null elements rejects where it begins: which are null is not
known in a kernel, only how many.

The result is read twice: by `headrace.codegen`, which makes a kernel of it, and by `determined`, which takes from it
what the keys depend on.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.codegen.capture import CapturedFunction, capture
from headrace.codegen.kinds import Array, MapOf, Record
from headrace.names import instead
from headrace.transactions.branches import part_rows
from headrace.transactions.nulls import is_column, lists_asked, nulls_of, with_columns_named
from headrace.transactions.tables import Table

EMITTED = "<emitted>"
"""The name that stands for what the function gives its event; no Python name."""
MASK = "<mask>"
"""Its field that says which values are given: bit 0 that `emit` was called, bit 1 + i the i-th."""
DONE, REJECTED = 0, 1
"""What a lowered function returns."""
_CHANGES = {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "add", "discard", "setdefault", "update"}
"""Methods that change a container."""
_ELEMENTS_OF = {"zip", "enumerate", "reversed", "sorted"}
"""Functions over whose elements a loop may go."""


@dataclass
class Row:
    """A row that the function touches, under one name.

    Parameters
    ----------
    name : str
        In the lowered text: the user's own, or what was written, as ``accounts[e.source]``.
    table : Table
    number : int
        Of the rows of the function, from 0.
    """

    name: str
    table: Table
    number: int
    is_written: bool = False


@dataclass
class Lowered:
    """A transaction's function in the form described above.

    Attributes
    ----------
    captured : CapturedFunction
        With the new body.
    rows : dict of str to Row
    calls_emit : bool
        It may give its event a row's values.
    must_undo : bool
        It may be rejected after it wrote.
    """

    captured: CapturedFunction
    rows: dict[str, Row] = field(default_factory=dict)
    calls_emit: bool = False
    must_undo: bool = False


def lower(function: Any, emits: Collection[str], lists: Collection[str] = ()) -> Lowered:
    """Lower a function ``f(e, t)``.

    Parameters
    ----------
    function : callable
    emits : collection of str
        Columns that it may emit.
    lists : collection of str
        The event's columns that are lists.

    Raises
    ------
    FunctionError
        With the line of what cannot be part of a transaction.
    """
    captured = capture(function, accepts=(Table,))
    given = [name for name in captured.parameters if name not in captured.defaults]
    if not 1 <= len(given) <= 2:
        raise captured.error(f"takes {len(given)} parameters: it is called with (e, t), the event and the transaction")
    return _Lowering(captured, given, list(emits), lists).lowered()


class _Lowering:
    """Lowers one function, with what is written out in it."""

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
        """Rows that are found on every way to here, by keys that cannot change; lists that have no null, by `nulls_of`."""
        self._guards: set[int] = set()
        """Conditions that were put around loops: their ids."""
        self._count = 0
        self._local = {n.id for n in ast.walk(captured.node) if isinstance(n, ast.Name)}

    def lowered(self) -> Lowered:
        captured = self._captured
        statements = with_columns_named(captured.node.body, self._event, self._captured.constants)
        self._note_aliases(ast.Module(statements, []))
        body = self._block(statements)
        body.append(_return(DONE, captured.node.body[-1]))
        node = copy.copy(captured.node)
        node.body = body
        ast.fix_missing_locations(node)
        for other, name in part_rows(body, self._rows.keys() - self._aliases.keys()).items():
            self._row(other, self._rows[name].table)
        result = Lowered(replace(captured, node=node), self._rows, self._calls_emit)
        self._note_writes(node)
        self._check_undo(result)
        return result

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
            found = ast.If(is_there, [found], [_return(REJECTED, subscript)])
        before.append(_located(found, subscript))
        if is_stable:
            self._open.add(name)
        return name

    def _is_there(self, key: ast.expr) -> ast.expr | None:
        """The condition under which a column of the event, or one of several, is no null; None for other keys."""
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
        """``row.column`` with the row found, or as it stands if it is something else."""
        subscript = node.value
        table = self._table_of(subscript)
        if table is not None:
            assert isinstance(subscript, ast.Subscript)
            self._check_column(table, node)
            name = self._find(ast.unparse(subscript), subscript, before)
        elif isinstance(subscript, ast.Name) and subscript.id in self._aliases:
            name = subscript.id
            self._check_column(self._captured.objects[self._aliases[name]], node)
        else:
            value = self._expression(node.value, before)
            return ast.copy_location(ast.Attribute(value, node.attr, node.ctx), node)
        return ast.copy_location(ast.Attribute(_located(ast.Name(name, ast.Load()), node), node.attr, node.ctx), node)

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

    # -- statements

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in statements:
            result += self._statement(statement)
        return result

    def _inner(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """A block that may not be reached: rows found in it are not known behind it."""
        known = set(self._open)
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
            self._write_out(node.value, before)
            return before
        value = self._expression(node.value, before)
        return [*before, ast.copy_location(ast.Expr(value), node)]

    def _Return(self, node: ast.Return) -> list[ast.stmt]:
        if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
            return [_return(DONE, node)]
        said = self._of_transaction(node.value)
        if said is None:
            raise self._error("returns a value, which is not used: call t.emit, or assign to a row", node)
        return [*said, _return(DONE, node)]

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
            # What it was before the function that is written out in front.
            name = self._fresh("first")
            now = copy.copy(target)
            now.ctx = ast.Load()
            before.insert(start, _located(ast.Assign([ast.Name(name, ast.Store())], now), node))
            changed = _located(ast.Assign([target], ast.BinOp(ast.Name(name, ast.Load()), node.op, value)), node)
        return [*before, changed, *self._constraints([node.target], [target])]

    def _alias(self, target: ast.Name, value: ast.expr) -> list[ast.stmt]:
        """``r = accounts[...]``, also one of two under a condition."""
        before: list[ast.stmt] = []
        if isinstance(value, ast.IfExp):
            test = self._condition(value.test, before)
            branches = [self._alias(target, value.body), self._alias(target, value.orelse)]
            return [*before, ast.copy_location(ast.If(test, *branches), value)]
        assert isinstance(value, ast.Subscript)
        self._find(target.id, value, before)
        return before

    def _constraints(self, written: list[ast.expr], lowered: list[ast.expr]) -> list[ast.stmt]:
        """What rejects a transaction that gives a column less than is allowed."""
        checks: list[ast.stmt] = []
        for each in [part for target in lowered for part in ast.walk(target)]:
            if not (isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id in self._rows):
                continue
            least = self._rows[each.value.id].table.least.get(each.attr)
            if least is not None:
                place = ast.Attribute(ast.Name(each.value.id, ast.Load()), each.attr, ast.Load())
                test = ast.Compare(place, [ast.Lt()], [ast.Constant(least)])
                checks.append(_located(ast.If(test, [_return(REJECTED, each)], []), written[0]))
        return checks

    def _If(self, node: ast.If) -> list[ast.stmt]:
        before: list[ast.stmt] = []
        if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) and not node.orelse:
            if self._finds_late(node.test):
                # One condition in the other: what the event says still guards what is done.
                first, *rest = node.test.values
                test = rest[0] if len(rest) == 1 else ast.copy_location(ast.BoolOp(ast.And(), rest), node.test)
                inner = ast.copy_location(ast.If(test, node.body, []), node)
                return self._If(ast.copy_location(ast.If(first, [inner], []), node))
        test = self._condition(node.test, before)
        body, orelse = self._inner(node.body), self._inner(node.orelse)
        if body and isinstance(body[-1], ast.Return) and not orelse:
            self._open |= lists_asked(test)
        return [*before, ast.copy_location(ast.If(test, body or [_located(ast.Pass(), node)], orelse), node)]

    def _While(self, node: ast.While) -> list[ast.stmt]:
        known = set(self._open)
        before: list[ast.stmt] = []
        test = self._condition(node.test, before)
        body = self._inner(node.body)
        self._open = known
        if not before:
            return [ast.copy_location(ast.While(test, body, self._inner(node.orelse)), node)]
        if node.orelse:
            raise self._error("while ... else with a row in its condition: write the condition as an if inside", node)
        leave = _located(ast.If(_located(ast.UnaryOp(ast.Not(), test), node), [_located(ast.Break(), node)], []), node)
        return [ast.copy_location(ast.While(_located(ast.Constant(True), node), [*before, leave, *body], []), node)]

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
            loop = _located(ast.If(is_whole, [loop], [_return(REJECTED, node)]), node)
            self._guards.add(id(loop))
        return [*before, loop]

    def _looped_over(self, iterable: ast.expr) -> list[str]:
        """The list columns whose elements a loop takes."""
        if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) and iterable.func.id in _ELEMENTS_OF:
            return list(dict.fromkeys(name for each in iterable.args for name in self._looped_over(each)))
        if is_column(iterable, self._event) and iterable.attr in self._lists:  # type: ignore[attr-defined]
            return [iterable.attr]  # type: ignore[attr-defined]
        return []

    # -- expressions

    def _expression(self, node: Any, before: list[ast.stmt]) -> Any:
        """The same with rows found by statements in front."""
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
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) and self._touches(node):
            raise self._error(f"{ast.unparse(node)}: rows are found in statements only; write a for loop", node)
        if isinstance(node, ast.Call):
            if self._of_transaction(node, is_statement=False) is not None:
                raise self._error(f"{ast.unparse(node)} gives nothing: call it as a statement of its own", node)
            if self._is_ours(node):
                return self._write_out(node, before)
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
        return self._expression(node, before)

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
        return _located(ast.Compare(ast.copy_location(count, place), [test], [ast.Constant(0)]), node)

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
        """Whether a row is found only if what comes first says so."""
        late = node.values[1:] if isinstance(node, ast.BoolOp) else [node.body, node.orelse]
        return any(map(self._touches, late))

    def _choice(self, node: ast.BoolOp | ast.IfExp, before: list[ast.stmt]) -> ast.expr:
        """Write ``a and b``, or ``a if c else b``, as statements."""
        name = self._fresh("choice")

        def assigned(value: ast.expr) -> list[ast.stmt]:
            known, inner = set(self._open), []
            lowered = self._expression(value, inner)
            self._open = known
            return [*inner, _located(ast.Assign([ast.Name(name, ast.Store())], lowered), value)]

        if isinstance(node, ast.IfExp):
            test = self._condition(node.test, before)
            before.append(_located(ast.If(test, assigned(node.body), assigned(node.orelse)), node))
        else:
            known = set(self._open)
            block = before
            for value in node.values:
                # A name for each part: what an earlier one says depends on no later one.
                part = self._fresh("part")
                lowered = self._expression(value, block)
                block.append(_located(ast.Assign([ast.Name(part, ast.Store())], lowered), node))
                block.append(_located(ast.Assign([ast.Name(name, ast.Store())], ast.Name(part, ast.Load())), node))
                if value is node.values[0]:
                    known = set(self._open)
                if value is not node.values[-1]:
                    test: ast.expr = ast.Name(part, ast.Load())
                    if isinstance(node.op, ast.Or):
                        test = ast.UnaryOp(ast.Not(), test)
                    branch = _located(ast.If(test, [], []), node)
                    block.append(branch)
                    block = branch.body
            self._open = known
        return _located(ast.Name(name, ast.Load()), node)

    def _chain(self, node: ast.Compare, before: list[ast.stmt]) -> ast.expr:
        """Write ``a < b < c``, which evaluates `c` only if the first holds, as ``a < b and b < c``."""
        first, between = self._in_order([node.left, node.comparators[0]], before)
        name = self._fresh("between")
        before.append(_located(ast.Assign([ast.Name(name, ast.Store())], between), node))
        place = ast.Name(name, ast.Load())
        pair = _located(ast.Compare(first, node.ops[:1], [place]), node)
        rest = _located(ast.Compare(place, node.ops[1:], node.comparators[1:]), node)
        return self._expression(_located(ast.BoolOp(ast.And(), [pair, rest]), node), before)

    def _in_order(self, parts: list[Any], before: list[ast.stmt]) -> list[Any]:
        """Expressions of which one may change, by a function that is written out in front, what an earlier one reads."""
        result: list[Any] = []
        for part in parts:
            start, number = len(before), self._count
            lowered = self._part(part, before)
            if self._count != number and any(map(self._changes_rows, before[start:])):
                for place, each in enumerate(result):
                    value = each.value if isinstance(each, ast.keyword) else each
                    if isinstance(value, ast.expr) and self._reads_rows(value):
                        name = self._fresh("first")
                        before.insert(start, _located(ast.Assign([ast.Name(name, ast.Store())], value), value))
                        start += 1
                        read = _located(ast.Name(name, ast.Load()), value)
                        result[place] = _located(ast.keyword(each.arg, read), value) if isinstance(each, ast.keyword) else read
            result.append(lowered)
        return result

    def _changes_rows(self, statement: ast.stmt) -> bool:
        return any(self._is_of_row(written_place(each)) for each in ast.walk(statement))

    def _reads_rows(self, value: ast.expr) -> bool:
        return any(self._is_of_row(each) for each in ast.walk(value))

    def _is_of_row(self, node: ast.AST | None) -> bool:
        return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self._rows

    # -- what a transaction says

    def _is_transaction(self, node: ast.AST) -> bool:
        return self._transaction is not None and isinstance(node, ast.Name) and node.id == self._transaction

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
            return [_return(REJECTED, node)]
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
                raise self._error(
                    f"t.emit({column}=...): there is no such column;"
                    f" {instead(column, self._emits, 'emits= names', '{}')}",
                    keyword.value,
                )
            given.append((column, keyword.value))
        so_far = ast.Attribute(ast.Name(EMITTED, ast.Load()), MASK, ast.Load())
        again = ast.Raise(
            ast.Call(ast.Name("ValueError", ast.Load()), [ast.Constant("emit was called before: an event has one row")], []), None
        )
        self._captured.constants.setdefault("ValueError", ast.Name("ValueError", ast.Load()))
        check = ast.If(ast.Compare(so_far, [ast.NotEq()], [ast.Constant(0)]), [again], [])
        statements = [_located(check, node)]
        if any(map(_may_be_none, (value for _, value in given))):
            # In the order written, one after another.
            statements.append(_emitted(MASK, ast.Constant(1), node))
            for column, value in given:
                statements += self._emit_one(column, value, node)
            return statements
        values = self._in_order([value for _, value in given], before)
        mask = 1
        for (column, _), value in zip(given, values, strict=True):
            mask |= 2 << self._emits.index(column)
            statements.append(_emitted(column, value, node))
        return [*before, *statements, _emitted(MASK, ast.Constant(mask), node)]

    def _emit_one(self, column: str, value: ast.expr, node: ast.AST) -> list[ast.stmt]:
        """Give one column, which may be None on one side of a condition."""
        before: list[ast.stmt] = []
        if _is_none(value):
            return []
        if isinstance(value, ast.IfExp) and _may_be_none(value):
            test = self._condition(value.test, before)
            known = set(self._open)
            branches = []
            for part in (value.body, value.orelse):
                branches.append(self._emit_one(column, part, node))
                self._open = set(known)
            return [*before, _located(ast.If(test, branches[0] or [ast.Pass()], branches[1]), node)]
        given = self._expression(value, before)
        so_far = ast.Attribute(ast.Name(EMITTED, ast.Load()), MASK, ast.Load())
        mask = ast.BinOp(so_far, ast.BitOr(), ast.Constant(2 << self._emits.index(column)))
        return [*before, _emitted(column, given, node), _emitted(MASK, mask, node)]

    # -- functions that are called

    def _is_ours(self, node: ast.Call) -> bool:
        """Whether it calls a function that uses tables, rows or the transaction: it is written out."""
        if not (isinstance(node.func, ast.Name) and node.func.id in self._captured.helpers):
            return False
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        return _uses_tables(self._captured.helpers[node.func.id]) or any(
            self._is_transaction(each) or self._table_of(each) is not None
            or (isinstance(each, ast.Name) and each.id in self._aliases)
            for each in given
        )  # fmt: skip

    def _write_out(self, node: ast.Call, before: list[ast.stmt]) -> ast.expr:
        """Write a called function's statements in front; returns what it returns."""
        assert isinstance(node.func, ast.Name)
        helper = self._captured.helpers[node.func.id]
        self._count += 1
        prefix = f"{re.sub(r'[^A-Za-z0-9_]', '', helper.name)}_{self._count}_"
        given = dict(zip(helper.parameters, node.args, strict=False))
        named = {str(keyword.arg): keyword.value for keyword in node.keywords}
        is_twice = bool(given.keys() & named.keys())
        given |= named
        missing = [p for p in helper.parameters if p not in given and p not in helper.defaults]
        if missing or is_twice or len(node.args) > len(helper.parameters) or given.keys() - set(helper.parameters):
            raise self._error(f"{ast.unparse(node)}: give {helper.name} {', '.join(helper.parameters)}", node)
        body = copy.deepcopy(helper.node.body)
        returns = [each for statement in body for each in ast.walk(statement) if isinstance(each, ast.Return)]
        last = body.pop() if body and isinstance(body[-1], ast.Return) else None
        if any(each is not last for each in returns):
            raise self._error(
                f"{ast.unparse(node)}: {helper.name} uses tables, so it may return at its end only; write if and else", node
            )
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
        if last is not None and last.value is not None:
            body.append(ast.Assign([ast.Name("", ast.Store())], last.value))  # its name is the prefix alone
        body = [_Renamed(prefix, same).visit(each) for each in body]
        body = with_columns_named(body, self._event, self._captured.constants)
        block = ast.Module([*assigned, *body], [])
        for each in ast.walk(block):
            if "lineno" in each._attributes:
                ast.copy_location(each, node)  # an error names the line of the call
        self._note_aliases(ast.Module(body, []))
        before += self._block(list(block.body))
        if last is None or last.value is None:
            return _located(ast.Constant(0), node)
        return _located(ast.Name(prefix, ast.Load()), node)

    # -- what it writes

    def _note_writes(self, root: ast.AST) -> None:
        for node in ast.walk(root):
            place = written_place(node)
            if isinstance(place, ast.Attribute) and isinstance(place.value, ast.Name) and place.value.id in self._rows:
                self._rows[place.value.id].is_written = True
        for row in self._rows.values():
            if row.table.unknown == "insert":
                row.is_written = True  # it may come to be
            # A map makes an array or record of zeros where one is read first.
            for node in ast.walk(root):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == row.name:
                    kind = row.table.columns[node.attr]
                    if isinstance(kind, MapOf) and isinstance(kind.value, Array | Record):
                        row.is_written = True

    def _check_undo(self, lowered: Lowered) -> None:
        """Find out whether a write may have to be undone, and refuse where it cannot be."""
        self._flow(lowered.captured.node.body, _Written(), lowered, [])

    def _flow(
        self, statements: list[ast.stmt], so_far: _Written, lowered: Lowered, leaving: list[_Written]
    ) -> _Written | None:
        """What was written at the end of a block, None if that is not reached; `leaving`: where a loop's turn ends early."""
        now: _Written | None = so_far
        for node in statements:
            if now is None:
                return None
            if isinstance(node, ast.If):
                if id(node) in self._guards and now.container is not None:
                    # It could not be put back: such an event ends the run, as other uses of the list do.
                    node.test, node.orelse = _located(ast.Constant(True), node), []
                now = _either(self._flow(node.body, now, lowered, leaving), self._flow(node.orelse, now, lowered, leaving))
            elif isinstance(node, ast.For | ast.While):
                own: list[_Written] = []
                for _ in range(2):  # what is written in one turn may be followed by what rejects in the next
                    for end in (self._flow(node.body, now, lowered, own), *own):
                        now = _either(now, end) or now
                now = _either(now, self._flow(node.orelse, now, lowered, leaving))
            elif isinstance(node, ast.Break | ast.Continue):
                leaving.append(now)
                return None
            elif isinstance(node, ast.Return | ast.Raise):
                if isinstance(node, ast.Return) and isinstance(node.value, ast.Constant) and node.value.value == REJECTED:
                    self._rejected(node, now, lowered)
                return None
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in self._rows:
                unknown = self._rows[node.targets[0].id].table.unknown
                if unknown == "reject":
                    self._rejected(node, now, lowered)
                elif unknown == "insert":
                    now = _Written(now.container, True)  # the row may come to be
            else:
                for each in ast.walk(node):
                    place = written_place(each)
                    if isinstance(place, ast.Attribute) and isinstance(place.value, ast.Name) and place.value.id in self._rows:
                        kind = self._rows[place.value.id].table.columns[place.attr]
                        is_single = isinstance(kind, str)
                        now = _Written(now.container or (None if is_single else each), now.single or is_single)
        return now

    def _rejected(self, node: ast.AST, now: _Written, lowered: Lowered) -> None:
        if now.container is not None:
            text = ast.unparse(now.container)
            raise self._error(
                f"{text}: a list, set, map or array cannot be put back if the transaction is rejected afterwards"
                f" (line {getattr(node, 'lineno', 0)}): change it last",
                now.container,
            )
        lowered.must_undo |= now.single


@dataclass(frozen=True)
class _Written:
    """What a transaction may have written so far: the first change of a container, and whether any single value."""

    container: ast.AST | None = None
    single: bool = False


def _either(one: _Written | None, other: _Written | None) -> _Written | None:
    """After one of two ways, of which None leads nowhere."""
    if one is None or other is None:
        return other if one is None else one
    return _Written(one.container or other.container, one.single or other.single)


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


def written_place(node: ast.AST) -> ast.expr | None:
    """The attribute that a node writes to: by assignment, to an element, or by a method."""
    place: ast.AST | None = None
    if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
        place = node
    elif isinstance(node, ast.AugAssign):
        place = node.target
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
        place = node.func.value
    while isinstance(place, ast.Subscript) or (isinstance(place, ast.Attribute) and not isinstance(place.value, ast.Name)):
        place = place.value
    return place if isinstance(place, ast.expr) else None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _may_be_none(node: ast.expr) -> bool:
    """Whether a value is written as None, or as None under a condition."""
    return _is_none(node) or (isinstance(node, ast.IfExp) and (_may_be_none(node.body) or _may_be_none(node.orelse)))


def _emitted(column: str, value: ast.expr, node: ast.AST) -> ast.stmt:
    return _located(ast.Assign([ast.Attribute(ast.Name(EMITTED, ast.Load()), column, ast.Store())], value), node)


def _return(value: int, node: ast.AST) -> ast.stmt:
    return _located(ast.Return(ast.Constant(value)), node)


def _located(made: Any, node: ast.AST) -> Any:
    """Give what was made, where it has no place yet, the place of a node."""
    for each in ast.walk(made):
        if "lineno" in each._attributes and not hasattr(each, "lineno"):
            ast.copy_location(each, node)
    return made
