"""What the functions of a transaction read and write, as the kernels have it, and their rewritten text.

Each function is written as itself (``user_0``) and as one that only names its keys (``keys_0``). Where all functions can be
split, also as operations: ``name_0`` notes them, ``unit_3`` performs one of site 3, ``post_0`` does the rest; for an
operation that adds, ``addends_3`` computes what it adds.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.codegen.bindings import (
    Binding,
    FieldBinding,
    Opened,
    Texts,
    Unreadable,
    memory_of_workers,
    texts_in,
)
from headrace.codegen.capture import CapturedFunction
from headrace.codegen.functions import GeneratedFunction, specialise
from headrace.codegen.kinds import Kind, scalar
from headrace.egress.containers import holds_text
from headrace.errors import FunctionError
from headrace.transactions import layout
from headrace.transactions.adding import ADDED, added_columns, addends
from headrace.transactions.determined import name_keys
from headrace.transactions.event_columns import Readable, event_fields
from headrace.transactions.lowering.function import lower
from headrace.transactions.lowering.lowered import EMITTED, MASK, Lowered, Row
from headrace.transactions.nulls import nulls_of
from headrace.transactions.overwriting import overwrites
from headrace.transactions.splitting import KEPT, TURN, Site, Split, sites_of, split
from headrace.transactions.tables import Table
from headrace.transactions.words import MOST_SITES

KERNEL_WORDS = ("me", "c", "s", "i", "ts")
"""Parameters of every function, before its own ones and the columns that it reads."""
PRIVATE = ("l",)
"""Parameter of a function that runs whole: the executor's words."""
TURNS = "turn_"
"""Parameters of a function that names operations in a loop, with the row's number: the turn, which begins at 0."""
NOTED, NOTED_END = "noted", "noted_end"
"""Parameters of a function that names operations: where the next operation goes, and where the room ends."""
NEXT_OPERATION = "next_operation"
"""Parameter of a function that follows operations: its first one; the others come in the order in which they were noted."""


@dataclass
class Operations:
    """Functions rewritten as operations.

    Attributes
    ----------
    names, posts : list of GeneratedFunction
        By function.
    units : dict of int to GeneratedFunction
        By site, counted over all functions.
    sites : list of (int, Site)
        With the number of their function.
    overwriting : list
        By site, as of `overwriting.overwrites`.
    adding : dict of int to list of str
        By site, the columns of those that add, as of `adding.added_columns`.
    addends : dict of int to GeneratedFunction
        By site, the function that computes what they add.
    """

    names: list[GeneratedFunction]
    posts: list[GeneratedFunction]
    units: dict[int, GeneratedFunction]
    sites: list[tuple[int, Site]]
    overwriting: list[list[str] | None]
    adding: dict[int, list[str]] = field(default_factory=dict)
    addends: dict[int, GeneratedFunction] = field(default_factory=dict)

    @property
    def whole(self) -> set[int]:
        """Functions that are one operation as a whole."""
        return {number for number, site in self.sites if not site.is_unit}


@dataclass
class Bound:
    """Functions, rewritten for the kernels of one operator."""

    lowered: list[Lowered]
    splits: list[Split]
    tables: list[Table]
    """In the order in which functions name them."""
    readable: dict[str, Readable]
    """What some function reads, by attribute."""
    functions: list[GeneratedFunction]
    speculative: list[GeneratedFunction]
    """The same as `functions`, on versions of rows."""
    keys: list[GeneratedFunction]
    """Empty where some key depends on what is read: `undetermined`."""
    operations: Operations | None
    """None where some function cannot be taken apart: `splits` says why."""
    literals: list[str] = field(default_factory=list)
    has_texts: bool = False
    undetermined: FunctionError | None = None
    """At the line of a key that depends on what is read."""

    @property
    def generated(self) -> list[GeneratedFunction]:
        """All generated functions, for the compiler's errors."""
        taken = self.operations
        parts = [] if taken is None else [*taken.names, *taken.posts, *taken.units.values(), *taken.addends.values()]
        return [*self.functions, *self.speculative, *self.keys, *parts]


def bind(
    functions: Sequence[Callable], emits: Mapping[str, Kind], schema: pa.Schema, event_time: str
) -> Bound:
    """Lower and rewrite the functions of an operator.

    Raises
    ------
    FunctionError
        With the line of what cannot be compiled.
    """
    readable, fields = event_fields(schema, event_time)
    lists = [name for name, column in readable.items() if column.is_list]
    lowered = [lower(function, list(emits), lists) for function in functions]
    tables = list({id(row.table): row.table for each in lowered for row in each.rows.values()}.values())
    for each in lowered:
        _check_keys(each, readable)
    texts = texts_in("s")
    writing = _Writing(tables, emits, readable, fields, texts)
    undetermined = _undetermined(lowered)
    splits = [split(each) for each in lowered]

    def written(names: list[str]) -> tuple[list[GeneratedFunction], list[GeneratedFunction], Operations | None, tuple[str, ...]]:
        columns = tuple(f"{part}_{name}" for name in names for part in readable[name].parts)
        runs = [writing.run(number, each, columns) for number, each in enumerate(lowered)]
        keys = [writing.keys(number, each, columns) for number, each in enumerate(lowered) if undetermined is None]
        taken = None
        if undetermined is None and not any(each.reason for each in splits):
            try:
                taken = writing.operations(splits, columns)
            except FunctionError as error:  # in a part: an error in the whole function was raised above
                splits[:] = [Split(error.args[0]) for _ in splits]
        return runs, keys, taken, columns

    # Which columns the functions read is known once they are rewritten; the second time only those are passed.
    runs, keys, taken, _ = written(list(readable))
    parts = [] if taken is None else [*taken.names, *taken.posts, *taken.units.values()]
    read = {name for function in [*runs, *keys, *parts] for name in function.reads.get("e", ())}
    names = [name for name in readable if name in read or nulls_of(name) in read]
    runs, keys, taken, columns = written(names)
    speculative = [writing.run(number, each, columns, speculates=True) for number, each in enumerate(lowered)]
    kept = [*emits.values(), *(kind for table in tables for kind in table.columns.values())]
    has_texts = len(texts.literals) > 1 or any(readable[name].holds_text for name in names)
    has_texts = has_texts or any(table.is_text for table in tables) or any(map(holds_text, kept))
    used = {name: readable[name] for name in names}
    literals = texts.literals if has_texts else []
    return Bound(lowered, splits, tables, used, runs, speculative, keys, taken, literals, has_texts, undetermined)


def _undetermined(lowered: Sequence[Lowered]) -> FunctionError | None:
    for each in lowered:
        try:
            name_keys(each)
        except FunctionError as error:
            return error
    return None


def _check_keys(lowered: Lowered, readable: Mapping[str, Readable]) -> None:
    """Raise `FunctionError` for a key that is a column of a wrong type."""
    event = lowered.captured.parameters[0]
    for node in ast.walk(lowered.captured.node):
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in lowered.rows):
            continue
        name, key = node.targets[0].id, node.value
        if isinstance(key, ast.Constant) and key.value is None:
            raise lowered.captured.error(f"{name}: a null is in no table", node)
        if not (isinstance(key, ast.Attribute) and isinstance(key.value, ast.Name) and key.value.id == event):
            continue
        kind = readable[key.attr].kind if key.attr in readable else ""
        table = lowered.rows[name].table
        wanted = "string" if table.is_text else "int64"
        fixes = dict.fromkeys(("list", "texts"), "loop over it") | dict.fromkeys(("float64", "bool"), "cast it to int64 before")
        fix = fixes.get(kind)
        if fix is not None:
            what = "a list" if kind in ("list", "texts") else f"of type {kind}"
            raise lowered.captured.error(
                f"{name}: {ast.unparse(key)} is {what}, and the keys of {table.name} are {wanted}: {fix}", node
            )


def mask_field(number: int) -> str:
    """The array that says what a function has emitted for an event."""
    return f"event_mask_{number}"


def event_field(column: str) -> str:
    """The array of values emitted for a column, by event."""
    return f"emitted_{column}"


def kept_field(site: int, number: int) -> str:
    """The array of what operations of a site save: the EventBlotter of TStream, section IV-B."""
    return f"kept_{site}_{number}"


def added_field(site: int, number: int) -> str:
    """The array of what operations of a site add to one of their columns, with those of the slice that they stand for."""
    return f"added_{site}_{number}"


def memory_of(kind: str) -> str:
    """The type in which values of a kind are kept: "float64" or "int64"."""
    known = scalar(kind)
    assert known is not None
    return "float64" if known.in_functions.startswith("float") else "int64"


class _Writing:
    """Rewrites the functions of one operator."""

    def __init__(
        self, tables: list[Table], emits: Mapping[str, Kind], readable: Mapping[str, Readable], fields: dict[str, Binding],
        texts: Texts,
    ):  # fmt: skip
        self._tables, self._emits, self._readable, self._fields, self._texts = tables, emits, readable, fields, texts

    # -- whole

    def run(self, number: int, lowered: Lowered, columns: tuple[str, ...], speculates: bool = False) -> GeneratedFunction:
        """The function itself: 0 if done, 1 if rejected. A speculative one works on versions of rows, and may end early."""
        bindings: dict[str, Any] = {"e": self._fields, "state emitted": self._emitted(number)}
        rows: dict[str, Opened] = {}
        for row in lowered.rows.values():
            table, role = self._tables.index(row.table), self._role(row)
            bindings[role] = self._columns(table, row.number)
            slot, at = f"row_{row.number}", f"at_{row.number}"
            text = self._found(row)
            if speculates:
                # Two names may stand for one row: if either is written, both mean the copy.
                is_copied = any(each.is_written for each in lowered.rows.values() if each.table is row.table)
                text += f"{at} = touch_{table}(me, c, s, i, {slot}, {is_copied})\nif {at} < 0:\n    return 1\n"
            else:
                text += f"{at} = version_{table}(me, c, s, l, {slot})\n"
            if row.is_written and lowered.must_undo:
                text += f"keep_row(me, s, l, {at}, {layout.stride(row.table)})\n"
            rows[row.name] = Opened(role, text + self._present(row), _kind_of_key(row))
        named = {EMITTED: "state emitted"}
        poll = "is_doomed(me, c, i)" if speculates else "stopped(c)"
        given = (*PRIVATE, *columns)
        return self._specialised(f"user_{number}", lowered.captured, given, bindings, rows, named, "any", poll)

    def keys(self, number: int, lowered: Lowered, columns: tuple[str, ...]) -> GeneratedFunction:
        """The function that only names the function's keys."""
        rows = {
            row.name: Opened(
                self._role(row),
                f"note_{self._tables.index(row.table)}(me, c, s, {{key}}, {int(row.is_written)})",
                _kind_of_key(row),
            )
            for row in lowered.rows.values()
        }
        bindings: dict[str, Any] = {"e": self._fields} | {row.role: {} for row in rows.values()}
        return self._specialised(f"keys_{number}", name_keys(lowered), columns, bindings, rows, {}, None)

    # -- operations

    def operations(self, splits: Sequence[Split], columns: tuple[str, ...]) -> Operations:
        """The functions as operations."""
        sites = list(sites_of(splits))
        if len(sites) > MOST_SITES:
            raise FunctionError(f"they find rows at {len(sites)} places, more than {MOST_SITES}")
        names, posts = [], []
        overwriting = [self._overwrites(one, splits[number]) for number, one in sites]
        noted = [self._noted(number, site, one, overwriting[site]) for site, (number, one) in enumerate(sites)]
        units = {
            site: self._unit(site, one, splits[number], columns)
            for site, (number, one) in enumerate(sites)
            if one.is_unit
        }
        for number, each in enumerate(splits):
            own = [(site, one) for site, (of, one) in enumerate(sites) if of == number]
            assert each.name is not None and each.post is not None
            rows = {one.row.name: Opened(self._role(one.row), noted[site], _kind_of_key(one.row)) for site, one in own}
            turns = tuple(f"{TURNS}{one.row.number}" for _, one in own if one.loops)
            bindings: dict[str, Any] = {"e": self._fields} | {row.role: {} for row in rows.values()}
            given = (*turns, NOTED, NOTED_END, *columns)
            names.append(self._specialised(f"name_{number}", each.name, given, bindings, rows, {}, "any"))
            rows = {one.row.name: Opened(self._role(one.row), _next_operation(one.row), _kind_of_key(one.row)) for _, one in own}
            bindings = {"e": self._fields, "state emitted": self._emitted(number)}
            bindings |= {self._role(one.row): self._kept(site, one, f"operation_{one.row.number}") for site, one in own}
            named = {EMITTED: "state emitted"}
            given = (NEXT_OPERATION, *columns)
            posts.append(self._specialised(f"post_{number}", each.post, given, bindings, rows, named, "any"))
        adding = {}
        for site, (number, one) in enumerate(sites):
            lowered = splits[number].lowered
            assert lowered is not None
            if (added := added_columns(one, lowered.captured.parameters[0])) is not None:
                adding[site] = added
        worked_out = {site: self._addends(site, sites[site][1], splits[sites[site][0]], columns) for site in adding}
        return Operations(names, posts, units, sites, overwriting, adding, worked_out)

    def _addends(self, site: int, one: Site, of: Split, columns: tuple[str, ...]) -> GeneratedFunction:
        """The function that computes what an operation adds, before the operation is run."""
        assert of.lowered is not None
        added = added_columns(one, of.lowered.captured.parameters[0])
        assert added is not None
        cells = [f"s.{added_field(site, number)}[o]" for number in range(len(added))]
        kept: dict[str, Binding] = {f"{ADDED}@{number}": FieldBinding(cell, cell, "int64") for number, cell in enumerate(cells)}
        node = copy.copy(of.lowered.captured.node)
        node.body = addends(one, added)
        captured = dataclasses.replace(of.lowered.captured, node=ast.fix_missing_locations(node))
        bindings: dict[str, Any] = {"e": self._fields, TURN: "turn", "state kept": kept}
        named = {KEPT: "state kept", TURN: TURN}
        return self._specialised(f"addends_{site}", captured, ("o", "turn", *columns), bindings, {}, named, None)

    def _overwrites(self, one: Site, of: Split) -> list[str] | None:
        assert of.lowered is not None
        return overwrites(one, of.lowered.captured.parameters[0], self._readable)

    def _unit(self, site: int, one: Site, of: Split, columns: tuple[str, ...]) -> GeneratedFunction:
        """What one operation does, in its row's chain."""
        assert of.lowered is not None
        row, table = one.row, self._tables.index(one.row.table)
        text = f"row_{row.number} = slot\nat_{row.number} = place_{table}(s, slot)\n{self._present(row)}"
        rows = {row.name: Opened(self._role(row), text, _kind_of_key(row))}
        bindings: dict[str, Any] = {
            "e": self._fields, self._role(row): self._columns(table, row.number), TURN: "turn",
            "state kept": self._kept(site, one, "o"),
        }  # fmt: skip
        captured = of.lowered.captured
        node = copy.copy(captured.node)
        node.body = one.body
        unit = dataclasses.replace(captured, node=ast.fix_missing_locations(node))
        named = {KEPT: "state kept", TURN: TURN}
        return self._specialised(f"unit_{site}", unit, ("o", "slot", "turn", *columns), bindings, rows, named, None)

    def _noted(self, number: int, site: int, one: Site, nullable: list[str] | None) -> str:
        record = f"s.table_first[{self._tables.index(one.row.table)}] + row_{one.row.number}"
        turn = f"{TURNS}{one.row.number}" if one.loops else "0"
        is_there = "False" if nullable is None else " and ".join(f"n_{name}" for name in nullable) or "True"
        text = f"{NOTED} = note_operation(c, me, {NOTED}, {NOTED_END}, {record}, i << EVENT_SHIFT | {turn} << TURN_SHIFT"
        text += f" | {site}, {is_there})\n"
        if one.loops:
            text += f"{turn} = {turn} + 1\n"
        if not one.is_unit:
            text += f"s.fate_{number}[i] = IN_CHAIN\n"
        return self._found(one.row) + text

    @staticmethod
    def _kept(site: int, one: Site, at: str) -> dict[str, Binding]:
        found: dict[str, Binding] = {}
        for column, number in one.saved:
            kind, cell = one.row.table.columns[column], f"s.{kept_field(site, number)}[{at}]"
            read = f"{cell} != 0" if kind == "bool" else cell
            found[f"{column}@{number}"] = FieldBinding(read, cell, "string" if kind == "string" else None)
        return found

    # -- rows

    @staticmethod
    def _role(row: Row) -> str:
        return f"state {row.number} {row.table.name}"

    def _found(self, row: Row) -> str:
        """Statements that find the slot of a key, or leave."""
        slot, table = f"row_{row.number}", self._tables.index(row.table)
        text = f"{slot} = find_{table}(s, {{key}})\nif {slot} < 0:\n"
        if row.table.unknown == "error":
            return text + f"    raise KeyError('the table {row.table.name} has no such key')\n"
        if row.table.unknown == "insert":
            text += f"    if {slot} == FULL:\n        raise MemoryError('max_rows of {row.table.name}')\n"
        return text + "    return 1\n"

    @staticmethod
    def _present(row: Row) -> str:
        return f"s.table_rows[at_{row.number}] = 1\n" if row.table.unknown == "insert" else ""

    def _emitted(self, number: int) -> dict[str, Binding]:
        out: dict[str, Binding] = {MASK: FieldBinding(f"s.{mask_field(number)}[i]", f"s.{mask_field(number)}[i]")}
        for name, kind in self._emits.items():
            cell = f"s.{event_field(name)}[i]"
            out[name] = FieldBinding(cell, cell, kind if isinstance(kind, str) else None)
        return out

    def _columns(self, table: int, row: int) -> dict[str, Binding]:
        """The columns of a row, at its place in the memory of all tables."""
        found: dict[str, Binding] = {}
        for name, kind in self._tables[table].columns.items():
            if not isinstance(kind, str):
                found[name] = layout.container(self._tables[table], table, name, f"row_{row}")
                continue
            memory = "table_reals" if memory_of(kind) == "float64" else "table_rows"
            cell = f"s.{memory}[at_{row} + {layout.word(self._tables[table], name)}]"
            found[name] = FieldBinding(f"{cell} != 0" if kind == "bool" else cell, cell, kind)
        return found

    def _specialised(
        self, name: str, captured: CapturedFunction, columns: tuple[str, ...], bindings: dict[str, Any],
        rows: dict[str, Opened], named: dict[str, str], returns: str | None, poll: str = "stopped(c)",
    ) -> GeneratedFunction:  # fmt: skip
        given = [p for p in captured.parameters if p not in captured.defaults]
        if len(given) == 2:
            bindings = bindings | {"t": Unreadable("it can only be used as t.reject() and t.emit(...)")}
        return specialise(
            captured,
            name=name,
            arguments=("e", "t")[: len(given)],
            bindings=bindings,
            parameters=(*KERNEL_WORDS, *columns),
            poll=poll,
            returns=returns,
            debug=True,  # an integer that leaves its range ends the run: no result is silently wrong
            texts=self._texts,
            memory=_MEMORY,
            rows=rows,
            named=named,
        )


def _kind_of_key(row: Row) -> str:
    return "string" if row.table.is_text else "number"


def _next_operation(row: Row) -> str:
    return f"operation_{row.number} = {NEXT_OPERATION}\n{NEXT_OPERATION} = operation_{row.number} + 1\n"


_MEMORY = memory_of_workers(layout.OWN, "s.table_arena", "0")
