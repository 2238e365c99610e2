"""Rows of an aggregate: from records of sums and counts to columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.egress.containers import MOST_ELEMENTS
from headrace.egress.records import Ordered, Records
from headrace.elastic.aggregate.shape import COUNTED, LISTS, Output
from headrace.elastic.results import KeyedResults
from headrace.errors import AggregateOverflowError, OutputError
from headrace.expressions.rows import cast, take
from headrace.ingress.columns import as_arrow, from_values
from headrace.ingress.keys import KeyDictionary
from headrace.ingress.times import time_text


class AggregateResults(KeyedResults):
    """Rows (ts, keys, aggregates).

    Parameters
    ----------
    outputs : sequence of Output
        One for each aggregate.
    texts : sequence of KeyDictionary or None
        For each aggregate: the dictionary of the strings whose ids its values are, or None if it is not of a text column.
    """

    def __init__(
        self,
        schema: pa.Schema,
        dictionary: KeyDictionary | None,
        key_count: int,
        outputs: Sequence[Output],
        texts: Sequence[KeyDictionary | None] = (),
    ):
        super().__init__(schema, dictionary, key_count)
        self._outputs = outputs
        self._texts = texts or [None] * len(outputs)

    def finish(self, records: Records) -> pa.RecordBatch:
        ordered, arrays = self._in_order(records)
        for output, texts in zip(self._outputs, self._texts, strict=True):
            make = _lists if output.aggregate.kind in LISTS else self._scalars
            arrays.append(make(output, ordered, self.schema.field(len(arrays)), texts))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _scalars(self, output: Output, records: Ordered, field: pa.Field, texts: KeyDictionary | None) -> pa.Array:
        """The column of an aggregate that gives one value."""
        aggregate, kind = output.aggregate, field.type
        values = records.values[output.value]
        if aggregate.kind in COUNTED:
            return as_arrow(values, pa.int64())
        assert output.known is not None
        counts = records.values[output.known]
        empty = counts == 0
        if texts is not None:
            present = ~empty
            (strings,) = texts.decode(values[present])
            return take(cast(strings, kind), pa.array(np.cumsum(present) - 1, mask=empty))
        high = None if output.high is None else records.values[output.high]
        if aggregate.kind == "sum" and high is not None and (outside := np.flatnonzero(high)).size:
            end = time_text(int(records.primary[outside[0]]), self.schema.field(0).type)
            raise AggregateOverflowError(
                f"{field.name}: a sum of the window that ends at {end} is outside of the range of int64; cast the column to"
                f" float64, or use smaller windows"
            )
        if aggregate.kind == "mean":
            step = time_step(kind)
            values = mean_of_times(values, high, counts, step) if step else mean_of(values, high, counts)
        if aggregate.ignore_nan and values.dtype.kind == "f":
            empty = empty | np.isnan(values)  # NaN remains only where there was no other value
        return from_values(values, kind, empty if empty.any() else None)


def _lists(output: Output, records: Ordered, field: pa.Field, texts: KeyDictionary | None) -> pa.Array:
    """The column of an aggregate that gives lists; null where `top` found nothing."""
    assert output.length is not None
    aggregate, kind = output.aggregate, field.type
    counts = records.values[output.length]
    words, offsets = records.words.take(records.values[output.value], counts)
    if offsets[-1] > MOST_ELEMENTS:
        raise OutputError(
            f"{field.name}: the lists of windows that end together have {offsets[-1]:,} elements, and a column of results at"
            f" most {MOST_ELEMENTS:,}; use smaller windows"
        )
    if texts is not None:
        (elements,) = texts.decode(words)
        elements = cast(elements, kind.value_type)
    else:
        elements = from_values(words.view(np.float64) if aggregate.dtype == "float64" else words, kind.value_type)
    empty = counts == 0
    mask = pa.array(empty) if aggregate.kind == "top" and empty.any() else None
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), elements, type=kind, mask=mask)


def time_step(kind: pa.DataType) -> int:
    """The step that all values of a time type are multiples of, in its unit (date64 holds days in ms); 0 for other types."""
    if pa.types.is_date64(kind):
        return 86_400_000
    return 1 if pa.types.is_temporal(kind) else 0


def mean_of_times(low: np.ndarray, high: np.ndarray, counts: np.ndarray, step: int) -> np.ndarray:
    """Return int64[n], the means of times that are multiples of `step`, rounded to one; undefined where the count is 0.

    Parameters
    ----------
    low, high, counts : int64[n]
        As for `mean_of`.
    """
    divisors = np.maximum(counts, 1) * step
    means = _quotient(low, divisors)
    for i in np.flatnonzero((high != 0) & (counts > 0)).tolist():
        means[i] = _quotient(int(low[i]) + (int(high[i]) << 64), int(divisors[i]))
    return means * step


def _quotient(total: Any, divisor: Any) -> Any:
    """Divide whole numbers and round, halves away from zero; the divisor is positive."""
    whole, rest = divmod(total, divisor)
    return whole + ((2 * rest > divisor) | ((2 * rest == divisor) & (total >= 0)))


def mean_of(low: np.ndarray, high: np.ndarray | None, counts: np.ndarray) -> np.ndarray:
    """Return float64[n], sums divided by counts; undefined where the count is 0.

    Parameters
    ----------
    low : float64[n] or int64[n]
        Sums; for integers, modulo 2**64.
    high : int64[n] or None
        For integers: the sum is ``low + 2**64 * high``. It is divided exactly and rounded once.
    counts : int64[n]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        means = low / counts
    if high is not None:
        is_rounded = (high != 0) | (low > 2**53) | (low < -(2**53))
        for i in np.flatnonzero(is_rounded & (counts > 0)).tolist():
            means[i] = (int(low[i]) + (int(high[i]) << 64)) / int(counts[i])
    return means
