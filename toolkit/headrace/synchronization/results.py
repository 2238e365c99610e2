"""From result records to the rows of a program: in the order of the events that caused them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.codegen.kinds import Kind
from headrace.egress.collector import Records
from headrace.egress.emitted import emitted_column
from headrace.ingress.keys import KeyDictionary
from headrace.ingress.times import restore_times


class ProgramResults:
    """Time, then what was emitted.

    `primary` is the event's time, `a` its input and row, `b` numbers the outputs of one event; `c` is not written.

    Parameters
    ----------
    schema : pa.Schema
    emits : sequence of kind
    texts : KeyDictionary or None
    """

    reads_b_and_c = True

    def __init__(self, schema: pa.Schema, emits: list[Kind], texts: KeyDictionary | None):
        self.schema, self._texts = schema, texts
        self._are_floats = [str(kind).startswith("float") for kind in emits]

    def compile(self) -> None:
        if self._texts is not None:
            self._texts.compile_results()

    def finish(self, records: Records) -> pa.RecordBatch:
        order = np.lexsort((records.b, records.a, records.primary))
        arrays = [restore_times(records.primary.take(order), self.schema.field(0).type)]
        for field, words, is_float in zip(list(self.schema)[1:], records.values, self._are_floats, strict=True):
            arrays.append(emitted_column(words.take(order), field.type, is_float, self._texts))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


__all__ = ["ProgramResults"]
