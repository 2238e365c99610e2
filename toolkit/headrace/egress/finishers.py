"""From drained records to ordered result rows, for each kind of operator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.egress.collector import Ordered, Records
from headrace.egress.gather import Gatherer
from headrace.egress.key_order import arrange, key_ranks
from headrace.expressions.rows import cast, take
from headrace.gates.store import Store
from headrace.ingress.columns import as_arrow, from_values
from headrace.ingress.keys import KeyDictionary
from headrace.ingress.sorting import argsort, compile_kernels
from headrace.ingress.times import restore_times
from headrace.operators.aggregate_shape import AggregateColumn


class KeyedResults:
    """What aggregates and custom operators share: time and key columns, order by (ts, key)."""

    reads_b_and_c = False

    def __init__(self, schema: pa.Schema, dictionary: KeyDictionary | None, key_count: int):
        self.schema = schema
        self._dictionary = dictionary
        self._key_count = key_count

    def compile(self) -> None:
        compile_kernels()
        if self._dictionary is not None:
            self._dictionary.compile_results()

    def _in_order(self, records: Records) -> tuple[Ordered, list[pa.Array]]:
        """The records by (primary, key), and their time and key columns."""
        times, keys = records.primary, []
        if self._dictionary is None:
            order = argsort(times)
        else:
            order, keys = arrange(self._dictionary, records.a.astype(np.int32), times)
        ordered = Ordered(records, order)
        is_one_time = times.min() == times.max()
        times = np.full(len(times), times[0]) if is_one_time else ordered.primary
        return ordered, self._head_columns(times, keys)

    def _head_columns(self, times: np.ndarray, keys: Sequence[pa.Array]) -> list[pa.Array]:
        """The time and key columns in the types of the schema."""
        arrays = [restore_times(times, self.schema.field(0).type)]
        for array in keys[: self._key_count]:
            kind = self.schema.field(len(arrays)).type
            arrays.append(cast(array, kind))
        return arrays


class AggregateResults(KeyedResults):
    """Rows (ts, keys, aggregates).

    Parameters
    ----------
    outputs : sequence of (AggregateColumn, value index, count index, index of the high part)
        Where each aggregate's value, its number of non-null values and the high
        part of a sum in 128 bits are among the records' value columns.
    texts : sequence of KeyDictionary or None
        For each aggregate of a text column: its values are ids of strings.
    """

    def __init__(
        self,
        schema: pa.Schema,
        dictionary: KeyDictionary | None,
        key_count: int,
        outputs: Sequence[tuple[AggregateColumn, int, int | None, int | None]],
        texts: Sequence[KeyDictionary | None] = (),
    ):
        super().__init__(schema, dictionary, key_count)
        self._outputs = outputs
        self._texts = texts or [None] * len(outputs)

    def finish(self, records: Records) -> pa.RecordBatch:
        ordered, arrays = self._in_order(records)
        for (aggregate, value, nonnull, high), texts in zip(self._outputs, self._texts, strict=True):
            kind = self.schema.field(len(arrays)).type
            arrays.append(self._column(aggregate, ordered, value, nonnull, high, kind, texts))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _column(self, aggregate, records, value, nonnull, high, kind, texts) -> pa.Array:
        values = records.values[value]
        if aggregate.kind in ("count", "count_distinct"):
            return as_arrow(values, pa.int64())
        counts = records.values[nonnull]
        empty = counts == 0
        if texts is not None:
            present = ~empty
            (strings,) = texts.decode(values[present])
            return take(cast(strings, kind), pa.array(np.cumsum(present) - 1, mask=empty))
        if aggregate.kind == "mean":
            values = mean_of(values, None if high is None else records.values[high], counts)
        if aggregate.ignore_nan and values.dtype.kind == "f":
            empty = empty | np.isnan(values)  # NaN is left only where there was nothing else
        return from_values(values, kind, empty if empty.any() else None)


def mean_of(low: np.ndarray, high: np.ndarray | None, counts: np.ndarray) -> np.ndarray:
    """Return float64[n], sums divided by counts; anything where the count is 0.

    Parameters
    ----------
    low : float64[n] or int64[n]
        Sums; of integers what is left of them modulo 2**64.
    high : int64[n] or None
        Of integers: the sum is ``low + 2**64 * high``. It is divided exactly and rounded once.
    counts : int64[n]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        means = low / counts
    if high is not None:
        is_rounded = (high != 0) | (low > 2**53) | (low < -(2**53))
        for i in np.flatnonzero(is_rounded & (counts > 0)).tolist():
            means[i] = (int(low[i]) + (int(high[i]) << 64)) / int(counts[i])
    return means


class CustomResults(KeyedResults):
    """Rows (ts, keys, what was emitted), by (ts, cause, key, emission).

    `a` is the key, `b` the cause (what `output` emits comes last), `c` numbers
    the emissions of an instance; the first value column is the boundary.
    """

    reads_b_and_c = True

    def finish(self, records: Records) -> pa.RecordBatch:
        ranks = key_ranks(self._dictionary, records.a)
        ordered = Ordered(records, argsort(records.values[0], records.b, ranks, records.c))
        keys = [] if self._dictionary is None else self._dictionary.decode(ordered.a.astype(np.int32))
        arrays = self._head_columns(ordered.values[0], keys)
        for values in ordered.values[1:]:
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
        compile_kernels()

    def finish(self, records: Records) -> pa.RecordBatch:
        ordered = Ordered(records, argsort(records.primary))
        return pa.RecordBatch.from_arrays(self._payload.take(ordered.a, self.schema.names), schema=self.schema)


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
        compile_kernels()

    def finish(self, records: Records) -> pa.RecordBatch:
        ordered = Ordered(records, argsort(records.primary, records.c, records.b))
        later_ts, later_is_right = ordered.values[0], ordered.values[1] != 0
        left = np.where(later_is_right, ordered.b, ordered.a)
        right = np.where(later_is_right, ordered.a, ordered.b)
        arrays = [restore_times(later_ts + 1, self.schema.field(0).type)]
        for refs, names in ((left, self._columns[0]), (right, self._columns[1])):
            if names:
                arrays += self._payload.take(refs, names)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
