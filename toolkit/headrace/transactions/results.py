"""Rows of a transactional operator: one for each event, in the order of the input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.codegen.kinds import Kind
from headrace.egress.gather import Gatherer
from headrace.egress.records import Ordered, Records
from headrace.expressions.rows import cast
from headrace.ingress.columns import as_arrow
from headrace.ingress.keys import KeyDictionary
from headrace.ingress.sorting import argsort, compile_kernels
from headrace.ingress.store import Store
from headrace.ingress.times import restore_times

RING_MASK = "row_mask"


def ring_field(name: str) -> str:
    """The field of the bundle that is a column of the results."""
    return f"ring_{name}"


class TransactionResults:
    """Time, carried columns, emitted ones, whether the event was rejected.

    `primary` is the event's position, `a` its reference, `b` its time. Of the values the first is the mask: bit 0
    rejected, bit 1 emitted, bit 2 + i a value for column i.
    """

    reads_b_and_c = True

    def __init__(
        self,
        schema: pa.Schema,
        stores: Sequence[Store],
        carry: Sequence[str],
        emits: Mapping[str, Kind],
        texts: KeyDictionary | None,
    ):
        self.schema = schema
        self._payload, self._carry, self._emits, self._texts = Gatherer(stores), list(carry), emits, texts
        self.rejected = 0
        """How many of the rows so far."""

    def compile(self) -> None:
        self._payload.compile()
        compile_kernels()
        if self._texts is not None:
            self._texts.compile_results()

    def finish(self, records: Records) -> pa.RecordBatch:
        ordered = Ordered(records, argsort(records.primary))
        arrays = [restore_times(ordered.b, self.schema.field(0).type)]
        if self._carry:
            arrays += self._payload.take(ordered.a, self._carry)
        mask = ordered.values[0]
        for number in range(len(self._emits)):
            kind = self.schema.field(len(arrays)).type
            arrays.append(self._column(ordered.values[1 + number], (mask >> (number + 2)) & 1, kind))
        rejected = (mask & 1).astype(np.bool_)
        self.rejected += int(np.count_nonzero(rejected))
        arrays.append(pa.array(rejected))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _column(self, values: np.ndarray, given: np.ndarray, kind: pa.DataType) -> pa.Array:
        absent = None if given.all() else given == 0
        if pa.types.is_string(kind):
            assert self._texts is not None
            if absent is not None:
                values = np.where(absent, 0, values)
            (strings,) = self._texts.decode(values)
            column = cast(strings, kind)
            return column if absent is None else pc.if_else(pa.array(absent), pa.scalar(None, kind), column)
        if pa.types.is_boolean(kind):
            return pa.array(values != 0, kind, mask=absent)
        if absent is None:
            return as_arrow(values, kind)
        if pa.types.is_temporal(kind):
            return pa.array(values, mask=absent).view(kind) if kind.bit_width == 64 else pa.array(values, kind, mask=absent)
        return pa.array(values, kind, mask=absent)
