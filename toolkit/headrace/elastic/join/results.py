"""Result rows of a join: columns of both tuples of a pair, in order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.egress.gather import Gatherer
from headrace.egress.records import Ordered, Records
from headrace.ingress.sorting import argsort, compile_kernels
from headrace.ingress.store import Store
from headrace.ingress.times import restore_times


class JoinResults:
    """Rows of (ts, left columns, right columns).

    `primary` is the position of the later tuple, and `a` its reference. `b` is the
    reference of the earlier tuple, and `c` its event time. The first value column is
    the event time of the later tuple, and the second one says which side it is on.
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
