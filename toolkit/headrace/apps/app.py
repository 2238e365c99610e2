"""The definition of an application: the inputs it needs, its windows and options, its query, its reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.errors import SchemaError
from headrace.ingress.columns import is_text, plain_type
from headrace.stream import Stream

EVENT_TIME = "ts"
"""The event time column of every application, of its inputs and of its output."""


def _is_time(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_integer(kind)


def is_text_kind(kind: pa.DataType) -> bool:
    return is_text(plain_type(kind))


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _is_list_of_integers(kind: pa.DataType) -> bool:
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return is_list and (pa.types.is_integer(kind.value_type) or pa.types.is_null(kind.value_type))


def read_whole(text: str, most: int) -> int | None:
    """Return the whole number from 1 to `most` that a text of the command line gives; None if it gives none."""
    # A longer number is above any limit, and int() has an error of its own for thousands of digits.
    if not (text.isascii() and text.isdecimal()) or len(text) > 19:
        return None
    number = int(text)
    return number if 1 <= number <= most else None


KINDS: dict[str, Callable[[pa.DataType], bool]] = {
    "timestamp or integer": _is_time,
    "text": is_text_kind,
    "integer": pa.types.is_integer,
    "float": pa.types.is_floating,
    "number": _is_number,
    "bool": pa.types.is_boolean,
    "integer or text": lambda kind: pa.types.is_integer(kind) or is_text_kind(kind),
    "timestamp or text": lambda kind: pa.types.is_timestamp(kind) or is_text_kind(kind),
    "list of integers": _is_list_of_integers,
}
"""What a column may be asked to be -> whether a type is that."""

WIDE = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "text": pa.string(),
    "list of integers": pa.list_(pa.int64()),
}
"""What a column of a transactional or ordered application is read as; all null, it may also have no type."""

TIME = (EVENT_TIME, "timestamp or integer")


@dataclass(frozen=True)
class Option:
    """An option of one application, such as ``--band``."""

    name: str
    default: Any
    read: Callable[[str], Any]
    """From the text on the command line; raises ValueError with what to give instead."""
    help: str


@dataclass(frozen=True)
class App:
    """An application of the command line.

    Parameters
    ----------
    name, help : str
    left : sequence of (column, kind), or None
        Columns that the input must have, which are all that is read of it; None: it must have `ts`, and all is read.
    build : function of streams
        Returns the query. Takes the windows and options of the application by name.
    reference : function of sources
        Returns its expected rows, by `headrace.reference`; takes the same names, and `unit`. With `tables`: the rows and
        the content of each table, without `unit`.
    size, advance : str, optional
        Defaults of the windows; None where it has none.
    right : sequence of (column, kind), optional
        Columns of the second input.
    has_right : bool or None
        Whether there is a second input; None: there may be.
    prepare : function of a table, optional
        Makes the input from the file's columns; the table is then held in memory.
    default_input : function, optional
        Returns the input when no file is named.
    tables : sequence of str
        For a transactional application: the tables that it reads and writes.
    not_speculative : str
        For a transactional application: why it cannot be run by speculation, where it cannot.
    stages : str
        For an ordered application: SL stateless, PS partitioned and SF stateful stages, as in the paper's Table 1.
    is_right_table : bool
        The second input is not a stream: it has no event time, and `build` takes it as a table.
    tags : sequence of str
        For an application of dependency-guided synchronization: the tags of the rows of `left`. The first argument of
        `build` is then a function that assigns these rows to streams: `hr.streams` with the number of streams, and the
        column that gives a row's stream.
    may_lack : sequence of str
        Optional columns of `left`.
    row_column : str
        For such an application: a further column for `build`, with the number of each row in the left input's file.
    """

    name: str
    help: str
    left: Sequence[tuple[str, str]] | None
    build: Callable[..., Stream]
    reference: Callable[..., Any]
    size: str | None = None
    advance: str | None = None
    right: Sequence[tuple[str, str]] | None = None
    has_right: bool | None = False
    options: Sequence[Option] = ()
    prepare: Callable[[pa.Table], pa.Table] | None = None
    default_input: Callable[[], pa.Table] | None = None
    is_self_join: bool = False
    tables: Sequence[str] = ()
    not_speculative: str = ""
    stages: str = ""
    is_right_table: bool = False
    tags: Sequence[str] = ()
    may_lack: Sequence[str] = ()
    row_column: str = ""

    @property
    def engine(self) -> str:
        """The engine that runs it: "elastic", "transactions", "ordering" or "synchronization"."""
        of = {"transactions": self.tables, "ordering": self.stages, "synchronization": self.tags}
        return next((engine for engine, what in of.items() if what), "elastic")

    def parameters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Complete the parameters given (None: not given) with the defaults.

        Examples
        --------
        >>> from headrace.apps import APPS
        >>> APPS["paircount"].parameters({"size": "1h", "distance": None})
        {'size': '1h', 'advance': '60s', 'distance': 3}
        """
        windows = {"size": self.size, "advance": self.advance}
        defaults = {name: value for name, value in windows.items() if value is not None}
        defaults |= {option.name: option.default for option in self.options}
        values = {name: value if given.get(name) is None else given[name] for name, value in defaults.items()}
        return {name: value for name, value in values.items() if value is not None}

    def needs(self, side: int) -> Sequence[tuple[str, str]]:
        """Return the columns that an input, 0 or 1, must have."""
        wanted = self.right if side else self.left
        return (TIME,) if wanted is None else wanted

    def columns(self, side: int, schema: pa.Schema | None = None) -> list[str] | None:
        """Return the columns to read of an input, with those optional ones that `schema` has; None: all."""
        wanted = self.right if side else self.left
        if wanted is None:
            return None
        return [name for name, _ in wanted if schema is None or name in schema.names or name not in self.may_lack]

    def read_as(self, field: pa.Field, side: int = 0) -> pa.DataType:
        """Return the kind as which a column of an input is read."""
        kinds = dict(self.needs(side))
        if self.engine != "elastic" and field.name != EVENT_TIME and field.name in kinds:
            return WIDE[kinds[field.name]]
        return pa.string() if pa.types.is_string_view(field.type) else field.type  # most Arrow functions do not take views

    def check(self, schema: pa.Schema, side: int, name: str) -> None:
        """Raise `SchemaError` for the first column of an input that is missing or of another kind."""
        needs = self.needs(side)
        listed = ", ".join(f"{column} ({kind})" for column, kind in needs)
        for column, kind in needs:
            found = schema.get_all_field_indices(column)
            if not found and column in self.may_lack:
                continue
            if len(found) != 1:
                problem = f"there are {len(found)} columns" if found else "there is no column"
                raise SchemaError(
                    f"input {name!r}: {problem} {column!r}; {self.name} needs {listed};"
                    f" the file has {', '.join(schema.names) or 'none'}"
                )
            present = schema.field(found[0]).type
            is_untyped = self.engine != "elastic" and column != EVENT_TIME and pa.types.is_null(present)
            if not KINDS[kind](present) and not is_untyped:
                raise SchemaError(
                    f"input {name!r}: column {column!r} is {present}; {self.name} needs {listed}; cast it"
                )


def sources(tables: Sequence[pa.Table], columns: Sequence[str] | None = None) -> list[list[tuple[int, dict]]]:
    """Convert tables to the form of the reference's sources: ``(ts, payload)``.

    Parameters
    ----------
    tables : sequence of pa.Table
        One for each source.
    columns : sequence of str, optional
        The payload; all but the event time by default.
    """
    return [_source(table, columns) for table in tables]


def _source(table: pa.Table, columns: Sequence[str] | None) -> list[tuple[int, dict]]:
    names = [n for n in (columns or table.column_names) if n != EVENT_TIME]
    ts = integers(table.column(EVENT_TIME)).to_pylist()
    values = zip(*(table.column(name).to_pylist() for name in names), strict=True) if names else [()] * len(ts)
    return [(at, dict(zip(names, row, strict=True))) for at, row in zip(ts, values, strict=True)]


def integers(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return event times as the integers that the engine uses: microseconds for timestamps."""
    if pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("us", times.type.tz))
    return times.cast(pa.int64())
