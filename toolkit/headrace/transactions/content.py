"""The content of tables as of one moment: copied at once, and made into columns on request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.codegen.kinds import Container, MapOf, SetOf, arrow_of, scalar
from headrace.egress.containers import as_column, stride_of
from headrace.errors import UnknownNameError
from headrace.ingress.columns import as_arrow
from headrace.ingress.keys import KeyDictionary
from headrace.names import instead
from headrace.transactions.layout import PRESENT
from headrace.transactions.table_data import value_of
from headrace.transactions.tables import Table

_LOW_BITS = 2**32 - 1


@dataclass(frozen=True, eq=False)
class Held:
    """The copied parts of a table, by slot.

    Attributes
    ----------
    rows : int64[n, stride]
    keys : int64[n] or int
        The keys, or the least key if they are a range of numbers.
    containers : mapping of str to (words, offsets)
        Column -> its content as `as_column` takes it; entries of sets and maps are unordered.
    """

    rows: np.ndarray
    keys: np.ndarray | int
    containers: Mapping[str, tuple[np.ndarray, np.ndarray]]


class HeldTable:
    """One table as of one moment.

    Parameters
    ----------
    table : Table
    held : Held
    words : mapping of str to int
        Column of single values -> number of its word in a row.
    texts : KeyDictionary, optional
        The strings, if there are any.
    """

    def __init__(self, table: Table, held: Held, words: Mapping[str, int], texts: KeyDictionary | None):
        self._table, self._held, self._words, self._texts = table, held, words, texts

    @cached_property
    def _arrow(self) -> pa.Table:
        table, held = self._table, self._held
        columns, fields = [], []
        for name, kind in table.columns.items():
            fields.append(pa.field(name, arrow_of(kind)))
            if isinstance(kind, str):
                columns.append(_single(held.rows[:, self._words[name]], kind, self._texts))
            else:
                words, offsets = held.containers[name]
                columns.append(as_column(_in_order(words, offsets, kind, self._texts), offsets, kind, self._texts))
        keys, order = self._keys()
        made = pa.table([keys, *columns], pa.schema([pa.field(table.key, keys.type), *fields]))
        if table.unknown == "insert":
            present = held.rows[:, PRESENT] != 0
            order = np.flatnonzero(present) if order is None else order[present[order]]
        return made if order is None else made.take(pa.array(order))

    def _keys(self) -> tuple[pa.Array, np.ndarray | None]:
        """The keys by slot, and the permutation that sorts them; None if they are sorted."""
        keys, count = self._held.keys, len(self._held.rows)
        if isinstance(keys, int):
            return as_arrow(np.arange(count, dtype=np.int64) + keys, pa.int64()), None
        if not self._table.is_text:
            is_sorted = (keys[1:] > keys[:-1]).all()
            return as_arrow(keys, pa.int64()), None if is_sorted else np.argsort(keys)
        assert self._texts is not None
        (strings,) = self._texts.decode(keys)
        return strings.cast(pa.string()), self._texts.argsort(keys)

    def __len__(self) -> int:
        if self._table.unknown != "insert":
            return len(self._held.rows)
        return int(np.count_nonzero(self._held.rows[:, PRESENT]))

    def __repr__(self) -> str:
        columns = ", ".join([self._table.key, *self._table.columns])
        return f"<{self._table.name}: {len(self):,} rows of {columns}; to_arrow(), to_pandas(), to_spark(spark)>"

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table, in key order: the key, then the columns."""
        return self._arrow

    def to_pandas(self) -> Any:
        """Return the rows as a pandas frame, in key order."""
        return self._arrow.to_pandas()

    def to_spark(self, spark: Any) -> Any:
        """Return the rows as a Spark DataFrame, in key order."""
        from headrace.spark.sink import to_dataframe

        return to_dataframe(spark, self._arrow)


class TablesAt(Mapping[str, HeldTable]):
    """All tables of a run as of one moment: ``tables["accounts"].to_arrow()``.

    Parameters
    ----------
    position : int or None
        Number of events executed up to that moment; None: all events.
    tables : mapping of str to HeldTable

    Attributes
    ----------
    position : int or None
    """

    def __init__(self, position: int | None, tables: Mapping[str, HeldTable]):
        self.position, self._tables = position, dict(tables)

    def __getitem__(self, name: str) -> HeldTable:
        if name not in self._tables:
            raise UnknownNameError(f"there is no table {name!r}: {instead(name, self._tables, 'the tables')}")
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __repr__(self) -> str:
        when = "at the end" if self.position is None else f"after {self.position:,} events"
        return f"<tables {when}: {', '.join(f'{name} ({len(held):,} rows)' for name, held in self._tables.items())}>"


def exact_sum(numbers: np.ndarray) -> int:
    """Return the exact sum of fewer than 2**31 int64 values, however large it is.

    Examples
    --------
    >>> exact_sum(np.array([2**63 - 1, 2**63 - 1, -5]))
    18446744073709551609
    """
    return (int((numbers >> 32).sum()) << 32) + int((numbers & _LOW_BITS).sum())


def _single(words: np.ndarray, kind: str, texts: KeyDictionary | None) -> pa.Array:
    if kind == "string":
        assert texts is not None
        (strings,) = texts.decode(words)
        return strings.cast(pa.string())
    known = scalar(kind)
    assert known is not None
    values = value_of(kind, words)
    return pa.array(values) if kind == "bool" else as_arrow(values.astype(known.dtype), known.arrow)


def _in_order(words: np.ndarray, offsets: np.ndarray, kind: Container, texts: KeyDictionary | None) -> np.ndarray:
    """Bring the entries of sets and maps into the order of their keys."""
    if not isinstance(kind, SetOf | MapOf) or words.size == 0:
        return words
    stride = stride_of(kind)
    entries = words.reshape(-1, stride)
    scalar_kind = kind.key if isinstance(kind, MapOf) else kind.kind
    known = scalar(scalar_kind)
    assert known is not None
    ranks = np.ascontiguousarray(entries[:, 0])
    if known.in_functions == "string":
        assert texts is not None
        ids, back = np.unique(ranks, return_inverse=True)
        order = np.empty(ids.size, np.int64)
        order[texts.argsort(ids)] = np.arange(ids.size)
        ranks = order[back]
    elif known.in_functions.startswith("float"):
        ranks = ranks.view(np.float64)  # NaN comes last
    owners = np.repeat(np.arange(offsets.size - 1), np.diff(offsets) // stride)
    return np.ascontiguousarray(entries[np.lexsort((ranks, owners))]).reshape(-1)
