"""Declarations of tables that functions of transactions read and write.

A `Table` never changes. Each run begins from it, in its own memory (`memory`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from headrace.arguments import is_whole_number
from headrace.codegen.kinds import (
    SCALAR_NAMES,
    Array,
    Container,
    Kind,
    ListOf,
    MapOf,
    Record,
    SetOf,
    kinds_are,
    scalar,
)
from headrace.codegen.text import is_attribute, python_name
from headrace.errors import NotSupportedError, ParameterError
from headrace.ingress.columns import is_text
from headrace.names import explains_arguments, instead
from headrace.reference.containers import first_value
from headrace.reference.transactions import UNKNOWN, Rejected, Row
from headrace.transactions import table_data
from headrace.transactions.table_data import Rows, word_of

MOST_ROWS = 2**31 - 1
MAX_ROWS = 1 << 20
"""Default of the most rows of a table whose unknown keys are inserted."""
KINDS_TEXT = f"{', '.join(SCALAR_NAMES)}, hr.list_of(...), hr.set_of(...), hr.map_of(...), hr.array(...)"

Given = MutableMapping[Any, MutableMapping[str, Any]]
"""Rows for plain Python: key -> column -> value."""
_reading: ContextVar[Mapping[Table, Given] | None] = ContextVar("reading", default=None)


@dataclass(frozen=True)
class Column:
    """A column of a table; see `column`."""

    kind: Kind
    least: int | float | None = None


def column(kind: Any, *, least: float | None = None) -> Column:
    """Declare a column of a table, with a constraint.

    Parameters
    ----------
    kind : str or container
        "int64", "int32", "float64", "float32", "bool", "string"; `hr.list_of`, `hr.set_of`, `hr.map_of`, `hr.array`.
    least : number, optional
        The least value it may have: a transaction that sets a lower one is rejected.

    Examples
    --------
    >>> column("int64", least=0)
    Column(kind='int64', least=0)
    """
    return _column("column", kind, least)


def _column(where: str, kind: Any, least: Any = None) -> Column:
    if isinstance(kind, pa.DataType):
        kind = "string" if is_text(kind) else str(kind)
    if isinstance(kind, str) and kind not in SCALAR_NAMES:
        if scalar(kind) is None:
            raise ParameterError(f"{where}: {kind!r} is not a kind; {kinds_are(kind, KINDS_TEXT)}")
        raise ParameterError(
            f"{where}: {kind!r} cannot be a column of a table: use int64, in its unit; the kinds are {KINDS_TEXT}"
        )
    if isinstance(kind, Record) or not isinstance(kind, str | Array | ListOf | SetOf | MapOf):
        raise ParameterError(f"{where}: {kind!r} is not a kind; {kinds_are(kind, KINDS_TEXT)}")
    if least is None:
        return Column(kind)
    if not isinstance(kind, str) or kind in ("bool", "string"):
        raise ParameterError(
            f"{where}: least={least!r} of {kind!r}: only columns of numbers have a least value; leave least= out"
        )
    word_of(f"{where}: least", kind, least)
    return Column(kind, least)


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Rows of typed columns by key; `table` makes one.

    Attributes
    ----------
    name, key : str
        Names of the table, and of its key column.
    is_text : bool
        Keys are strings; else they are int64.
    columns : mapping of str to kind
    least : mapping of str to number
        The least values of columns with that constraint.
    unknown : {"reject", "error", "insert"}
    conserve : str or None
        A column whose sum never changes.
    rows : Rows
        The rows at first.
    capacity : int
        Most rows.
    """

    name: str
    key: str
    is_text: bool
    columns: Mapping[str, Kind]
    least: Mapping[str, int | float]
    unknown: str
    conserve: str | None
    rows: Rows
    capacity: int

    @property
    def scalars(self) -> list[str]:
        """Columns of single values, in order."""
        return [name for name, kind in self.columns.items() if isinstance(kind, str)]

    @property
    def containers(self) -> dict[str, Container]:
        """Columns of lists, sets, maps and arrays, in order."""
        return {name: kind for name, kind in self.columns.items() if not isinstance(kind, str | Record)}

    def __len__(self) -> int:
        return self.rows.count

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {kind}" for name, kind in self.columns.items())
        key = "string" if self.is_text else "int64"
        return f"<Table {self.name!r}: {self.rows.count:,} rows at first, key {self.key}: {key}; {columns}>"

    def __getitem__(self, key: Any) -> Any:
        rows = (_reading.get() or {}).get(self)
        if rows is None:
            raise NotSupportedError(
                f"{self.name}[{key!r}]: a table is read and written by functions of .transact(...), while they run;"
                f" run.tables[{self.name!r}] is its content after a run, run.snapshot()[{self.name!r}] before"
            )
        if key is None or (key not in rows and self.unknown == "reject"):
            raise Rejected
        if key not in rows:
            if self.unknown == "error":
                raise KeyError(f"{self.name} has no key {key!r}: put it in, or make the table with unknown='reject' or 'insert'")
            rows[key] = {name: first_value(kind) for name, kind in self.columns.items()}
        return Row(self, rows[key])

    def __iter__(self) -> Iterator[Any]:
        raise NotSupportedError(
            f"{self.name}: a table cannot be looped over; hr.table(...) describes it, and its content is"
            f" run.tables[{self.name!r}].to_arrow()"
        )

    __contains__ = None  # type: ignore[assignment]


@contextmanager
def reading(rows: Mapping[Table, Given]) -> Iterator[None]:
    """Let plain Python read and write tables: inside this context ``table[key]`` is a row of `rows`.

    An unknown key follows the table's policy: it raises `Rejected` or `KeyError`, or is inserted.
    A value below a column's least one raises `Rejected`. The caller undoes the changes made before that.

    Parameters
    ----------
    rows : mapping of Table to mapping
        Key -> column -> value; containers are those of `headrace.reference.containers`.

    Examples
    --------
    >>> accounts = table("accounts", columns={"balance": "int64"}, rows=10)
    >>> rows = {3: {"balance": 5}}
    >>> with reading({accounts: rows}):
    ...     accounts[3].balance += 1
    >>> rows
    {3: {'balance': 6}}
    """
    token = _reading.set(rows)
    try:
        yield
    finally:
        _reading.reset(token)


@explains_arguments(index="key", id="key", schema="columns", kinds="columns", init="first", default="first", frame="data")
def table(
    name: str,
    *,
    key: str = "id",
    columns: Mapping[str, Any] | None = None,
    rows: int | None = None,
    data: Any = None,
    first: Mapping[str, Any] | None = None,
    unknown: str = "reject",
    conserve: str | None = None,
    max_rows: int | None = None,
) -> Table:
    """Declare a table that functions of ``.transact(...)`` read and write, as in ``accounts[e.source].balance``.

    Parameters
    ----------
    name : str
        Name of the table in ``run.tables``: a Python name.
    key : str
        Name of the key column: int64 (any whole number is widened) or string.
    columns : dict, optional
        Name -> kind: "int64", "int32", "float64", "float32", "bool", "string"; a container (`hr.list_of`, `hr.set_of`,
        `hr.map_of`, `hr.array`), empty at first; or `hr.column` with a constraint. Only these columns are read from `data`;
        by default, all.
    rows : int, optional
        Number of rows, with the keys 0, 1, 2 and so on. Give either this or `data`.
    data : Spark DataFrame, Arrow table, pandas frame, path of a Parquet file, ..., optional
        The rows, in any order; read here, once. Keys must be distinct and not null, and values must not be null.
    first : dict, optional
        Column -> its value in each row at first; by default zero or the empty string.
    unknown : {"reject", "error", "insert"}
        What an unknown key does: reject the transaction, end the run, or insert a row of zeros and empty
        strings. A null key always rejects.
    conserve : str, optional
        An int64 column whose sum no transaction should change. The run adds it up, and goes on in any case:
        ``run.metrics().holds`` says whether the sum is that of the start, and the operator's `balance` what is missing.
    max_rows : int, optional
        With ``unknown="insert"``, the most rows: by default 1,048,576, or twice those at first.

    Returns
    -------
    Table
        For functions to use by a variable. Each run begins from these rows again.

    Raises
    ------
    ParameterError, SchemaError, KeyNullError
        Something is invalid; the text names the parameter or column, the value and the remedy.

    Examples
    --------
    >>> table("accounts", columns={"balance": column("int64", least=0)}, rows=10_000, conserve="balance")
    <Table 'accounts': 10,000 rows at first, key id: int64; balance: int64>
    >>> stock = pa.table({"item": ["tea", "salt"], "price": [3, 1], "quantity": [10, 20]})
    >>> table("stock", data=stock, key="item")
    <Table 'stock': 2 rows at first, key item: string; price: int64, quantity: int64>
    """
    where = f"table {name!r}"
    if not isinstance(name, str) or not is_attribute(name):
        raise ParameterError(f"table: name={name!r} is not a Python name; give one such as 'accounts'")
    if not isinstance(key, str) or not key:
        raise ParameterError(f"{where}: key={key!r}: give the name of the key's column")
    if unknown not in UNKNOWN:
        raise ParameterError(f"{where}: unknown={unknown!r}: {instead(unknown, UNKNOWN, 'the policies')}")
    if (rows is None) == (data is None):
        both = "both are given" if rows is not None else "neither is given"
        raise ParameterError(f"{where}: give rows=, the number of rows, or data=, a table of them; {both}")
    given = None if columns is None else _columns(where, key, columns)
    if data is None:
        if not given:
            raise ParameterError(f'{where}: give columns=, a dict of names and kinds, as in {{"balance": "int64"}}')
        count = _whole(where, "rows", rows, 0)
        values = {name: word_of(f"{where}: first: {name}", kind, value)
                  for name, kind, value in _first(where, first, {name: one.kind for name, one in given.items()})}
        content = Rows(count, None, values)
    else:
        kinds = None if given is None else {name: one.kind for name, one in given.items()}
        content, kinds = table_data.read(where, data, key, kinds, lambda kinds: _first(where, first, kinds))
        given = given or {name: Column(kind) for name, kind in kinds.items()}
    capacity = content.count
    if unknown == "insert":
        least_rows = max(1, content.count)
        capacity = max(MAX_ROWS, 2 * content.count) if max_rows is None else _whole(where, "max_rows", max_rows, least_rows)
    elif max_rows is not None:
        raise ParameterError(
            f"{where}: max_rows={max_rows!r} goes with unknown='insert'; with unknown={unknown!r} no rows are added, leave it out"
        )
    _check_conserved(where, conserve, given)
    least = {name: one.least for name, one in given.items() if one.least is not None}
    table_data.check_least(where, content, {name: given[name].kind for name in least}, least)
    return Table(
        name, key, isinstance(content.keys, pa.Array), MappingProxyType({name: one.kind for name, one in given.items()}),
        MappingProxyType(least), unknown, conserve, content, capacity,
    )  # fmt: skip


def _columns(where: str, key: str, given: Any) -> dict[str, Column]:
    if not isinstance(given, Mapping):
        raise ParameterError(f'{where}: columns={given!r}: give a dict of names and kinds, as in {{"balance": "int64"}}')
    columns: dict[str, Column] = {}
    for called, kind in given.items():
        table_data.check_name(where, called)
        name = python_name(called)
        if name in columns:
            raise ParameterError(f"{where}: columns: {called!r} becomes {name!r} in Python, which is there; rename one")
        if name == python_name(key):
            raise ParameterError(f"{where}: column {called!r} is the key, which has a kind of its own; leave it out of columns=")
        columns[name] = kind if isinstance(kind, Column) else _column(f"{where}: columns: {name}", kind)
    return columns


def _first(where: str, first: Any, kinds: Mapping[str, Kind]) -> Iterator[tuple[str, str, Any]]:
    """(name, kind, value) of each entry of `first`."""
    if first is not None and not isinstance(first, Mapping):
        raise ParameterError(f'{where}: first={first!r}: give a dict of columns and values, as in {{"balance": 10}}')
    for called, value in (first or {}).items():
        name = python_name(called) if isinstance(called, str) else called
        if name not in kinds:
            raise ParameterError(f"{where}: first: there is no column {called!r}; {instead(name, kinds, 'the columns')}")
        kind = kinds[name]
        if not isinstance(kind, str):
            raise ParameterError(f"{where}: first: {name}={value!r}: {kind!r} is empty at first; leave it out")
        yield name, kind, value


def _whole(where: str, label: str, value: Any, least: int) -> int:
    if not is_whole_number(value):
        raise ParameterError(f"{where}: {label}={value!r}: give a whole number")
    if not least <= value <= MOST_ROWS:
        raise ParameterError(f"{where}: {label}={value}: give a number of rows from {least:,} to {MOST_ROWS:,}")
    return int(value)


def _check_conserved(where: str, conserve: Any, columns: Mapping[str, Column]) -> None:
    if conserve is None:
        return
    if conserve not in columns:
        there = instead(conserve, columns, "the columns")
        raise ParameterError(f"{where}: conserve={conserve!r}: there is no such column; {there}")
    if columns[conserve].kind != "int64":
        raise ParameterError(
            f"{where}: conserve={conserve!r} is of kind {columns[conserve].kind!r}: only the sum of an int64 column is exact;"
            f" make it int64 or leave conserve= out"
        )
