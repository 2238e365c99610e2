"""From drained records to ordered result rows, for each kind of operator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.egress.collector import Ordered, Records
from headrace.egress.gather import Gatherer
from headrace.gates.store import Store
from headrace.ingress.columns import as_arrow
from headrace.ingress.keys import KeyDictionary
from headrace.ingress.sorting import argsort, compile_few
from headrace.ingress.times import restore_times
from headrace.operators.aggregate_shape import AggregateColumn

FEW_TIMES = 16
"""Right boundaries in one release for which going through the records once each beats sorting by them."""


_DENSE = 16


def key_ranks(dictionary: KeyDictionary | None, ids: np.ndarray) -> np.ndarray:
    """Position of each id's key value in the order of values."""
    if dictionary is None:
        return np.zeros(len(ids), np.int64)
    # Ids are dense, so where there are many of them a table with a place for each beats sorting them.
    size = int(ids.max(initial=-1)) + 1
    if size > _DENSE * len(ids):
        unique, inverse = np.unique(ids, return_inverse=True)
        ranks = np.empty(len(unique), np.int64)
        ranks[dictionary.argsort(unique.astype(np.int32))] = np.arange(len(unique))
        return ranks[inverse]
    occurs = np.zeros(size, np.bool_)
    occurs[ids] = True
    unique = np.flatnonzero(occurs)
    ranks = np.empty(size, np.int64)
    ranks[unique[dictionary.argsort(unique.astype(np.int32))]] = np.arange(len(unique))
    return ranks[ids]


class KeyedResults:
    """What aggregates and custom operators share: time and key columns, order by (ts, key)."""

    reads_b_and_c = False

    def __init__(self, schema: pa.Schema, dictionary: KeyDictionary | None, key_count: int):
        self.schema = schema
        self._dictionary = dictionary
        self._key_count = key_count

    def compile(self) -> None:
        compile_few()
        if self._dictionary is not None:
            self._dictionary.compile_results()

    def head_columns(self, records: Ordered, times: np.ndarray | None = None) -> list[pa.Array]:
        """Return the time and key columns; the time is `primary` unless given."""
        times = records.primary if times is None else times
        arrays = [restore_times(times, self.schema.field(0).type)]
        if self._dictionary is not None and self._key_count:
            decoded = self._dictionary.decode(records.a.astype(np.int32))
            for i, array in enumerate(decoded):
                kind = self.schema.field(1 + i).type
                arrays.append(array if array.type.equals(kind) else array.cast(kind))
        return arrays

    def order(self, records: Records) -> np.ndarray:
        if self._dictionary is None:
            return argsort(records.primary)
        ids, times = records.a.astype(np.int32), records.primary
        if not len(times) or times.min() == times.max():
            return self._dictionary.argsort(ids)  # the rule: one window ended
        distinct = np.unique(times)
        if len(distinct) > FEW_TIMES:
            return argsort(times, key_ranks(self._dictionary, ids))
        parts = [np.flatnonzero(times == time) for time in distinct]
        return np.concatenate([part[self._dictionary.argsort(ids[part])] for part in parts])


class AggregateResults(KeyedResults):
    """Rows (ts, keys, aggregates).

    Parameters
    ----------
    outputs : sequence of (AggregateColumn, value index, count index)
        Where each aggregate's value and number of non-null values are among
        the records' value columns.
    texts : sequence of KeyDictionary or None
        For each aggregate of a text column: its values are ids of strings.
    """

    def __init__(
        self,
        schema: pa.Schema,
        dictionary: KeyDictionary | None,
        key_count: int,
        outputs: Sequence[tuple[AggregateColumn, int, int | None]],
        texts: Sequence[KeyDictionary | None] = (),
    ):
        super().__init__(schema, dictionary, key_count)
        self._outputs = outputs
        self._texts = texts or [None] * len(outputs)

    def build(self, records: Ordered) -> pa.RecordBatch:
        arrays = self.head_columns(records)
        for (aggregate, value, nonnull), texts in zip(self._outputs, self._texts, strict=True):
            kind = self.schema.field(len(arrays)).type
            arrays.append(self._column(aggregate, records, value, nonnull, kind, texts))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _column(self, aggregate, records, value, nonnull, kind, texts) -> pa.Array:
        values = records.values[value]
        if aggregate.kind in ("count", "count_distinct"):
            return as_arrow(values, pa.int64())
        counts = records.values[nonnull]
        empty = counts == 0
        if texts is not None:
            present = ~empty
            (strings,) = texts.decode(values[present])
            strings = strings if strings.type.equals(kind) else strings.cast(kind)
            return strings.take(pa.array(np.cumsum(present) - 1, mask=empty))
        if aggregate.kind == "mean":
            with np.errstate(divide="ignore", invalid="ignore"):
                values = values / counts
        if aggregate.ignore_nan and values.dtype.kind == "f":
            empty = empty | np.isnan(values)  # NaN is left only where there was nothing else
        is_whole = not empty.any()
        if is_whole and kind.equals(pa.from_numpy_dtype(values.dtype)):
            return as_arrow(values, kind)
        array = pa.array(values, mask=None if is_whole else empty)
        if pa.types.is_timestamp(kind):
            array = restore_times(values, kind)
            return array if is_whole else pa.array(array.to_pylist(), kind, mask=empty)
        return array if array.type.equals(kind) else array.cast(kind)


class CustomResults(KeyedResults):
    """Rows (ts, keys, what was emitted), by (ts, cause, key, emission).

    `a` is the key, `b` the cause (what `output` emits comes last), `c` numbers
    the emissions of an instance; the first value column is the boundary.
    """

    reads_b_and_c = True

    def order(self, records: Records) -> np.ndarray:
        return argsort(records.values[0], records.b, key_ranks(self._dictionary, records.a), records.c)

    def build(self, records: Ordered) -> pa.RecordBatch:
        arrays = self.head_columns(records, records.values[0])
        for values in records.values[1:]:
            kind = self.schema.field(len(arrays)).type
            if kind.equals(pa.from_numpy_dtype(values.dtype)):
                arrays.append(as_arrow(values, kind))
            else:
                arrays.append(pa.array(values.view(np.bool_) if pa.types.is_boolean(kind) else values, kind))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


class ForwardResults:
    """Rows of the input, in merged order. `primary` is the position, `a` the reference."""

    reads_b_and_c = False

    def __init__(self, schema: pa.Schema, stores: Sequence[Store]):
        self.schema = schema
        self._payload = Gatherer(stores)

    def compile(self) -> None:
        self._payload.compile()
        compile_few()

    def order(self, records: Records) -> np.ndarray:
        return argsort(records.primary)

    def build(self, records: Ordered) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(self._payload.take(records.a, self.schema.names), schema=self.schema)


class JoinResults:
    """Rows (ts, left columns, right columns).

    `primary` is the position of the later tuple, `a` its reference, `b` the
    reference of the earlier one and `c` its event time; the first value column
    is the event time of the later one, the second one says which side it is.
    """

    reads_b_and_c = True

    def __init__(
        self,
        schema: pa.Schema,
        stores: Sequence[Store],
        columns: tuple[list[str], list[str]],
    ):
        self.schema = schema
        self._payload = Gatherer(stores)
        self._columns = columns

    def compile(self) -> None:
        self._payload.compile()
        compile_few()

    def order(self, records: Records) -> np.ndarray:
        return argsort(records.primary, records.c, records.b)

    def build(self, records: Ordered) -> pa.RecordBatch:
        later_ts, later_is_right = records.values[0], records.values[1] != 0
        left = np.where(later_is_right, records.b, records.a)
        right = np.where(later_is_right, records.a, records.b)
        arrays = [restore_times(later_ts + 1, self.schema.field(0).type)]
        for refs, names in ((left, self._columns[0]), (right, self._columns[1])):
            if names:
                arrays += self._payload.take(refs, names)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
