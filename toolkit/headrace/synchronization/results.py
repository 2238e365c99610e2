"""Turns result records into the rows of a program: in the order of the events that caused them, or as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.codegen.kinds import Kind
from headrace.egress.emitted import emitted_column
from headrace.egress.records import Records
from headrace.ingress.keys import KeyDictionary
from headrace.ingress.sorting import argsort
from headrace.ingress.times import restore_times
from headrace.kernel import compile_now
from headrace.synchronization.order_kernel import DIGIT, MOST_RUNS, put_in_order


class ProgramResults:
    """Time, then what was emitted.

    `primary` is the event's time, `a` its input and row, `b` numbers the outputs of one event; `c` is not written.

    Parameters
    ----------
    schema : pa.Schema
    emits : mapping of str to kind
    optional : sequence of str
        Those that may be null; their flags follow the values.
    texts : KeyDictionary or None
    is_ordered : bool
        Else rows are in the order in which they are released.
    """

    def __init__(
        self, schema: pa.Schema, emits: Mapping[str, Kind], optional: Sequence[str], texts: KeyDictionary | None,
        is_ordered: bool = True,
    ):  # fmt: skip
        self.schema, self._texts, self._is_ordered = schema, texts, is_ordered
        self.reads_b_and_c = is_ordered
        self._are_floats = [str(kind).startswith("float") for kind in emits.values()]
        self._scratch, self._counts = np.empty(1 << 12, np.int64), np.zeros(1 << DIGIT, np.int64)
        self._starts = np.zeros(MOST_RUNS, np.int64)
        self._optional = [list(emits).index(name) for name in optional]

    def compile(self) -> None:
        if self._texts is not None:
            self._texts.compile_results()
        few = np.zeros(1, np.int64)
        compile_now(put_in_order, (few, few, few, few, few, self._counts, self._starts))

    def _order(self, records: Records) -> np.ndarray:
        """The places of the records, in the order of events."""
        count = len(records)
        places = np.arange(count) if records.index is None else records.index.copy()
        if count > len(self._scratch):
            self._scratch = np.empty(2 * count, np.int64)
        primary, a, b, _, _ = records.given
        if put_in_order(primary, a, b, places, self._scratch[:count], self._counts, self._starts):
            return places
        order = argsort(records.primary, records.a, records.b)
        return order if records.index is None else records.index.take(order)

    def finish(self, records: Records) -> pa.RecordBatch:
        # Rows are copied, ordered or not: what is released is overwritten.
        is_copy = self._is_ordered
        ordered = records.at_places(self._order(records)) if self._is_ordered else records
        arrays = [restore_times(ordered.primary if is_copy else ordered.primary.copy(), self.schema.field(0).type)]
        count = len(self._are_floats)
        for field, words, is_float in zip(list(self.schema)[1:], ordered.values[:count], self._are_floats, strict=True):
            arrays.append(emitted_column(words, field.type, is_float, self._texts, is_copy))
        for at, flags in zip(self._optional, ordered.values[count:], strict=True):
            column = arrays[1 + at]
            arrays[1 + at] = pc.if_else(pa.array(flags != 0), pa.scalar(None, column.type), column)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


__all__ = ["ProgramResults"]
