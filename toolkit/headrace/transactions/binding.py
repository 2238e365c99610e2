"""What the functions of a transaction read and write, as the kernels have it, and their rewritten text.

Each function is written twice: as itself (``user_0``), and as what only names its keys (``keys_0``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.codegen.bindings import Binding, FieldBinding, Memory, Opened, Texts, Unreadable
from headrace.codegen.functions import GeneratedFunction, specialise
from headrace.codegen.kinds import Kind, scalar
from headrace.codegen.text import attributes
from headrace.errors import FunctionError
from headrace.ingress.columns import is_list, is_scalar, is_text, plain_type, value_dtype
from headrace.ingress.lists import element_dtype
from headrace.memory.arena import HEAD
from headrace.transactions import layout
from headrace.transactions.determined import name_keys
from headrace.transactions.lowering import EMITTED, MASK, Lowered, lower, nulls_of
from headrace.transactions.tables import Table

KERNEL_WORDS = ("me", "c", "s", "l", "i", "ts")
"""Parameters of every function, before the columns that it reads."""
NO_TEXT = ""
"""The first literal, so its id is 0."""
TEXT_FIELDS = ("text_prefixes", "text_addresses", "text_lengths", "text_points")
LITERALS = "text_literals"
TEMPORARIES = 32
"""Containers that a function may make in passing."""
PARTS = {"scalar": ("c", "n"), "list": ("c", "n", "z", "h")}
"""What a column is passed as: its value and whether it is valid; of a list its address, its size, its null elements."""


@dataclass(frozen=True)
class Readable:
    """A column that a function may read."""

    column: str
    dtype: str
    """As the store holds it; of a list, its elements."""
    kind: str
    """int64, float64, bool or string, as functions see it, or "list"."""

    @property
    def parts(self) -> tuple[str, ...]:
        return PARTS["list" if self.kind == "list" else "scalar"]


@dataclass
class Bound:
    """Functions, rewritten for the kernels of one operator."""

    lowered: list[Lowered]
    tables: list[Table]
    """In the order in which functions name them."""
    readable: dict[str, Readable]
    """What some function reads, by attribute."""
    functions: list[GeneratedFunction]
    keys: list[GeneratedFunction | None]
    """None where the keys depend on what is read."""
    undetermined: FunctionError | None
    """Why, of the first such function."""
    literals: list[str] = field(default_factory=list)
    has_texts: bool = False

    @property
    def generated(self) -> list[GeneratedFunction]:
        return [*self.functions, *(function for function in self.keys if function is not None)]


def bind(
    functions: Sequence[Callable], emits: Mapping[str, Kind], schema: pa.Schema, event_time: str
) -> Bound:
    """Lower and rewrite the functions of an operator.

    Raises
    ------
    FunctionError
        With the line of what cannot be compiled.
    """
    lowered = [lower(function, list(emits)) for function in functions]
    tables = list({id(row.table): row.table for each in lowered for row in each.rows.values()}.values())
    readable, fields = event_fields(schema, event_time)
    texts = Texts(*(f"s.{name}" for name in TEXT_FIELDS), literal=f"s.{LITERALS}[{{number}}]", literals=[NO_TEXT])
    writing = _Writing(tables, emits, fields, texts)
    undetermined: FunctionError | None = None

    def written(names: list[str]) -> tuple[list[GeneratedFunction], list[GeneratedFunction | None]]:
        nonlocal undetermined
        parameters = (*KERNEL_WORDS, *(f"{part}_{name}" for name in names for part in readable[name].parts))
        runs, keys = [], []
        for number, each in enumerate(lowered):
            runs.append(writing.run(number, each, parameters))
            try:
                keys.append(writing.keys(number, each, parameters))
            except FunctionError as error:
                if "speculative" not in str(error):
                    raise
                undetermined = undetermined or error
                keys.append(None)
        return runs, keys

    # What they read is known once they are rewritten; the second time only that is passed.
    runs, keys = written(list(readable))
    read = {name for function in [*runs, *filter(None, keys)] for name in function.reads.get("e", ())}
    names = [name for name in readable if name in read or nulls_of(name) in read]
    runs, keys = written(names)
    kinds = [readable[name].kind for name in names] + [kind for kind in emits.values() if isinstance(kind, str)]
    has_texts = len(texts.literals) > 1 or "string" in kinds or any(table.is_text for table in tables)
    used = {name: readable[name] for name in names}
    return Bound(lowered, tables, used, runs, keys, undetermined, texts.literals if has_texts else [], has_texts)


class _Writing:
    """Rewrites the functions of one operator."""

    def __init__(self, tables: list[Table], emits: Mapping[str, Kind], fields: dict[str, Binding], texts: Texts):
        self._tables, self._emits, self._fields, self._texts = tables, emits, fields, texts

    def run(self, number: int, lowered: Lowered, parameters: tuple[str, ...]) -> GeneratedFunction:
        """The function itself: 0 if it is done, 1 if it was rejected."""
        out: dict[str, Binding] = {MASK: FieldBinding("s.event_mask[i]", "s.event_mask[i]")}
        for name, kind in self._emits.items():
            cell = f"s.event_{name}[i]"
            out[name] = FieldBinding(cell, cell, kind if isinstance(kind, str) else None)
        bindings: dict[str, Any] = {"e": self._fields, "state emitted": out}
        rows: dict[str, Opened] = {}
        for row in lowered.rows.values():
            table, role = self._tables.index(row.table), f"state {row.number} {row.table.name}"
            bindings[role] = self._columns(table, row.number)
            slot, at = f"row_{row.number}", f"at_{row.number}"
            text = f"{slot} = find_{table}(s, {{key}})\n{self._unknown(row.table, slot)}"
            text += f"{at} = place_{table}(s, {slot})\n"
            if row.is_written and lowered.must_undo:
                text += f"keep_row(me, s, l, {at}, {layout.stride(row.table)})\n"
            if row.table.unknown == "insert":
                text += f"s.table_rows[{at}] = 1\n"
            rows[row.name] = Opened(role, text, "string" if row.table.is_text else "number")
        named = {EMITTED: "state emitted"}
        return self._specialised(f"user_{number}", lowered.captured, parameters, bindings, rows, named, "any")

    @staticmethod
    def _unknown(table: Table, slot: str) -> str:
        if table.unknown == "error":
            return f"if {slot} < 0:\n    raise KeyError('the table {table.name} has no such key')\n"
        return f"if {slot} < 0:\n    return 1\n"

    def keys(self, number: int, lowered: Lowered, parameters: tuple[str, ...]) -> GeneratedFunction:
        """What only names the function's keys."""
        rows = {
            row.name: Opened(
                f"state {row.number} {row.table.name}",
                f"note_{self._tables.index(row.table)}(me, c, s, l, {{key}}, {int(row.is_written)})",
                "string" if row.table.is_text else "number",
            )
            for row in lowered.rows.values()
        }
        bindings: dict[str, Any] = {"e": self._fields} | {row.role: {} for row in rows.values()}
        return self._specialised(f"keys_{number}", name_keys(lowered), parameters, bindings, rows, {}, None)

    def _specialised(self, name, captured, parameters, bindings, rows, named, returns) -> GeneratedFunction:
        given = [p for p in captured.parameters if p not in captured.defaults]
        if len(given) == 2:
            bindings = bindings | {"t": Unreadable("it can only be used as t.reject() and t.emit(...)")}
        return specialise(
            captured,
            name=name,
            arguments=("e", "t")[: len(given)],
            bindings=bindings,
            parameters=parameters,
            poll="stopped(c)",
            returns=returns,
            debug=True,  # an integer that leaves its range ends the run: no result is silently wrong
            texts=self._texts,
            memory=_MEMORY,
            rows=rows,
            named=named,
        )

    def _columns(self, table: int, row: int) -> dict[str, Binding]:
        """The columns of a row, at its place in the memory of all tables."""
        found: dict[str, Binding] = {}
        for name, kind in self._tables[table].columns.items():
            if not isinstance(kind, str):
                found[name] = layout.container(self._tables[table], table, name, f"row_{row}")
                continue
            known = scalar(kind)
            assert known is not None
            memory = "table_reals" if known.in_functions.startswith("float") else "table_rows"
            cell = f"s.{memory}[at_{row} + {layout.word(self._tables[table], name)}]"
            found[name] = FieldBinding(f"{cell} != 0" if kind == "bool" else cell, cell, kind)
        return found


_MEMORY = Memory(
    arena="s.table_arena",
    free="s.table_arena_free",
    temporaries="s.temporaries",
    temporary_at=f"(me * {TEMPORARIES} + {{number}}) * {HEAD}",
    temporary_lists=layout.OWN,
    staged="0",
    most=TEMPORARIES,
)


def event_fields(schema: pa.Schema, event_time: str) -> tuple[dict[str, Readable], dict[str, Binding]]:
    """What ``e`` has: columns that may be read, and the binding of every name."""
    readable: dict[str, Readable] = {}
    fields: dict[str, Binding] = {}
    for name, column in attributes(schema.names).items():
        kind = plain_type(schema.field(column).type)
        if column == event_time:
            fields[name] = FieldBinding("ts")
        elif is_list(kind) and is_scalar(plain_type(kind.value_type)):
            dtype = element_dtype(kind).name
            readable[name] = Readable(column, dtype, "list")
            view = {"float64": "list_f64"}.get(dtype, "list_i64")
            fields[name] = FieldBinding(f"whole_list({view}(c_{name}, z_{name}), h_{name})", valid=f"n_{name}")
            fields[nulls_of(name)] = FieldBinding(f"h_{name}", valid=f"n_{name}")
        elif is_text(kind):
            readable[name] = Readable(column, "int64", "string")
            fields[name] = FieldBinding(f"c_{name}", kind="string", valid=f"n_{name}")
        elif is_scalar(kind):
            dtype = value_dtype(kind).name
            readable[name] = Readable(column, dtype, "bool" if dtype == "uint8" else dtype)
            fields[name] = FieldBinding(f"c_{name}", valid=f"n_{name}")
        else:
            fields[name] = Unreadable(
                f"a column of type {kind}, which a compiled function cannot read; cast it to int64 or float64 before"
            )
    fields["ts"] = FieldBinding("ts")
    readable.pop("ts", None)
    return readable, fields

