"""Rows of a custom operator: what its functions emitted, in order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.egress.collector import Ordered, Records
from headrace.egress.key_order import key_ranks
from headrace.elastic.results import KeyedResults
from headrace.ingress.columns import as_arrow
from headrace.ingress.sorting import argsort


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
