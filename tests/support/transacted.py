"""The same plain functions run in three ways: in Python over the reference's tables, as lowered text, and in the engine.

A function names its tables; `in_python` runs a copy of the function that refers to other tables of the same names.
"""

import ast
import copy
import math
from types import CellType, FunctionType

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.codegen.text import python_name
from headrace.ingress.ordered_texts import OrderedTexts
from headrace.reference import transactions as reference
from headrace.reference.containers import first_value
from headrace.transactions.determined import name_keys
from headrace.transactions.lowering.function import lower
from headrace.transactions.lowering.lowered import EMITTED, MASK, REJECTED
from headrace.transactions.memory import TableMemory
from headrace.transactions.nulls import nulls_of
from headrace.transactions.tables import Table

SCHEMES = ("serial", "chains", "lock", "mvlk", "partition")


def plain(rows):
    """Rows with their values' types, so that 1, 1.0 and True differ, and NaN equals itself."""
    return [{name: (type(value).__name__, repr(value)) for name, value in row.items()} for row in rows]


# -- in Python


def referring(function, meant, made=None):
    """A copy of the function, and of what it calls, whose globals and closure name other objects."""
    made = {} if made is None else made

    def of(value):
        if isinstance(value, FunctionType) and value.__module__ == function.__module__:
            return referring(value, meant, made)
        return meant.get(value, value) if isinstance(value, Table) else value

    if function not in made:
        cells = tuple(CellType(of(cell.cell_contents)) for cell in function.__closure__ or ())
        names = {name: of(value) for name, value in function.__globals__.items() if name in function.__code__.co_names}
        names["__builtins__"] = function.__globals__["__builtins__"]
        made[function] = FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells)
    return made[function]


def tables_of(functions):
    """The tables that functions name, and those named by what they call."""
    found, seen, left = [], set(), list(functions)
    while left:
        function = left.pop()
        seen.add(function)
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        named = [function.__globals__.get(name) for name in function.__code__.co_names]
        for value in [*cells, *named]:
            if isinstance(value, Table) and value not in found:
                found.append(value)
            elif isinstance(value, FunctionType) and value not in seen and value.__module__ == function.__module__:
                left.append(value)
    return found


def twin(table, least=True):
    """The reference's table with the same rows."""
    texts = OrderedTexts(1 << 12)
    texts.set_types([pa.string()])
    rows = TableMemory([table], texts, executors=1, max_state=1 << 20).content(table).to_pylist()
    empty = {name: first_value(kind) for name, kind in table.columns.items() if not isinstance(kind, str)}
    assert not empty or all(not row[name] or not any(row[name]) for row in rows for name in empty)
    return reference.Table(
        table.name, table.columns,
        {row[table.key]: {name: row[name] for name in table.columns if name not in empty} for row in rows},
        key=table.key, unknown=table.unknown, least=table.least if least else {},
    )  # fmt: skip


def payloads(events, event_time="ts"):
    """Rows of an Arrow table in the form that the reference takes."""
    rows = [{python_name(name): value for name, value in row.items()} for row in events.to_pylist()]
    return [(row[event_time], row) for row in rows]


def in_python(functions, events, emits=(), carry=()):
    """Rows, and the content of each table at the end: what every scheme must produce."""
    tables = tables_of(functions)
    twins = {table: twin(table) for table in tables}
    meant = [referring(function, twins) for function in functions]
    rows = reference.transact([payloads(events)], meant, twins.values(), list(emits), carry)
    return rows, {table.name: twins[table].content() for table in tables}


# -- in the engine


def in_engine(functions, events, emits=(), carry=(), **options):
    """The same, from a run."""
    ledger = hr.stream(events, event_time="ts").transact(*functions, emits=emits or None, carry=list(carry))
    return in_a_run(ledger, functions, **options)


def in_a_run(ledger, functions, **options):
    """The same, for a ledger that runs several times: reading its functions may take longer than a run."""
    run = ledger.start(**{"threads": 1} | options)
    run.wait()
    rows = run.to_arrow().to_pylist()
    return rows, {table.name: run.tables[table.name].to_arrow().to_pylist() for table in tables_of(functions)}


def same(one, other):
    """Assert that rows and tables are equal, bit by bit."""
    assert plain(one[0]) == plain(other[0]), "other results"
    assert one[1].keys() == other[1].keys(), "other tables"
    for name, rows in one[1].items():
        assert plain(rows) == plain(other[1][name]), f"table {name} differs"


def agree(functions, events, emits=(), carry=(), schemes=("serial", "chains"), **options):
    """Run functions in Python and in the engine, and compare; returns the rows."""
    functions = functions if isinstance(functions, list) else [functions]
    expected = in_python(functions, events, emits, carry)
    ledger = hr.stream(events, event_time="ts").transact(*functions, emits=emits or None, carry=list(carry))
    for scheme in schemes:
        same(expected, in_a_run(ledger, functions, scheme=scheme, **options))
    return expected[0]


# -- lowered text


class _Traced(reference.Row):
    """A row that reports when it is written."""

    __slots__ = ("_written",)

    def __init__(self, table, values, written):
        super().__init__(table, values)
        object.__setattr__(self, "_written", written)

    def __setattr__(self, column, value):
        self._written()
        super().__setattr__(column, value)


class Event:
    """An event as lowered text sees it: the number of null elements of a list is a field."""

    def __init__(self, payload, ts):
        self.__dict__.update(payload, ts=ts)
        for name, value in payload.items():
            if isinstance(value, list):
                self.__dict__[nulls_of(name)] = sum(each is None for each in value)


class _Runnable(ast.NodeTransformer):
    """Turns names and fields that are not valid in Python into valid ones, and statements that find rows into calls of `find`."""

    def __init__(self, rows):
        self._rows, self._names = rows, {}

    def name(self, name):
        return name if name.isidentifier() else self._names.setdefault(name, f"name_{len(self._names)}")

    def visit_Name(self, node):
        return ast.copy_location(ast.Name(self.name(node.id), node.ctx), node)

    def visit_Attribute(self, node):
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == self.name(EMITTED):
            return ast.copy_location(ast.Subscript(node.value, ast.Constant(node.attr), node.ctx), node)
        if not node.attr.isidentifier():
            return ast.Call(ast.Name("getattr", ast.Load()), [node.value, ast.Constant(node.attr)], [])
        return node

    def visit_Assign(self, node):
        target = node.targets[0]
        if not (isinstance(target, ast.Name) and target.id in self._rows):
            return self.generic_visit(node)
        found = ast.Call(ast.Name("find", ast.Load()), [ast.Constant(target.id), self.visit(node.value)], [])
        return ast.copy_location(ast.Assign([ast.Name(self.name(target.id), ast.Store())], found), node)


def _function(captured, rows, names):
    """A captured function, compiled as Python."""
    runnable, modules = _Runnable(rows), {"np": np, "math": math}
    node = copy.deepcopy(captured.node)
    node.name, node.decorator_list = "made", []
    node.args.defaults = list(captured.defaults.values())
    names = {runnable.name(name): value for name, value in names.items()} | modules
    for name, value in captured.constants.items():
        names[runnable.name(name)] = eval(ast.unparse(value), dict(modules))
    for name, helper in captured.helpers.items():
        names[runnable.name(name)] = _function(helper, {}, {})
    exec(compile(ast.fix_missing_locations(ast.Module([runnable.visit(node)], [])), captured.file, "exec"), names)
    return names["made"]


class Lowered:
    """A lowered function, run as text: it must name all rows that it touches, and know if a rejection must undo writes.

    Parameters
    ----------
    function, emits, lists
    twins : mapping of Table to reference.Table
        Without constraints, which are in the text.
    """

    def __init__(self, function, emits, twins, lists=()):
        self.lowered, self.twins = lower(function, emits, lists), twins
        self.emitted, self.touched, self.noted = {}, {}, {}
        made = {EMITTED: self.emitted, "find": self._find}
        self.run = _function(self.lowered.captured, self.lowered.rows, made)
        self.name_keys = _function(name_keys(self.lowered), self.lowered.rows, {"find": self._note})
        self.takes = len(self.lowered.captured.parameters) - len(self.lowered.captured.defaults)

    def _find(self, name, key):
        row = self.lowered.rows[name]
        twin = self.twins[row.table]
        found = twin[key]
        place = (twin.name, key)
        self.touched.setdefault(place, False)
        if twin.unknown == "insert":
            self.touched[place] = True

        def written():
            assert row.is_written, f"{name} is written, and that is not known"
            self.touched[place] = True

        return _Traced(twin, found._Row__values, written)

    def _note(self, name, key):
        row = self.lowered.rows[name]
        place = (self.twins[row.table].name, key)
        self.noted[place] = self.noted.get(place, False) or row.is_written

    def __call__(self, payload, ts):
        """Run one event. False if it is rejected."""
        given = (Event(payload, ts), None)[: self.takes]
        self.touched.clear()
        self.noted.clear()
        self.name_keys(*given)
        for twin in self.twins.values():
            twin.begin()
        mask = self.emitted.get(MASK, 0)
        try:
            is_done = self.run(*given) != REJECTED
        except reference.Rejected:
            is_done = False
        for place, is_written in self.touched.items():
            assert place in self.noted, f"{place} is touched, and was not named"
            assert self.noted[place] or not is_written, f"{place} is written, and was named as read"
        if not is_done:
            assert self.lowered.must_undo or not any(self.touched.values()), "it wrote, and nothing would be put back"
            self.emitted[MASK] = mask
            for twin in self.twins.values():
                twin.undo()
        return is_done


def in_lowered(functions, events, emits=(), carry=()):
    """Rows and tables from the lowered text of each function."""
    twins = {table: twin(table, least=False) for table in tables_of(functions)}
    lists = [python_name(field.name) for field in events.schema if pa.types.is_list(field.type)]
    made = [Lowered(function, list(emits), twins, lists) for function in functions]
    rows = []
    for ts, payload in payloads(events):
        emitted: dict = {MASK: 0}
        is_rejected = False
        for each in made:
            each.emitted.clear()
            each.emitted.update(emitted)
            is_rejected |= not each(payload, ts)
            emitted = dict(each.emitted)
        given = {name: emitted.get(name) if emitted[MASK] & 2 << number else None for number, name in enumerate(emits)}
        rows.append({"ts": ts} | {name: payload[name] for name in carry} | given | {"rejected": is_rejected})
    return rows, {table.name: twins[table].content() for table in twins}


def agree_as_text(functions, events, emits=(), carry=()):
    """Run functions in Python and as lowered text, and compare; returns the rows."""
    functions = functions if isinstance(functions, list) else [functions]
    expected = in_python(functions, events, emits, carry)
    same(expected, in_lowered(functions, events, emits, carry))
    return expected[0]
