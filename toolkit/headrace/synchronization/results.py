"""From result records to the rows of a program: in the order of the events that caused them, or as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
        self._optional = [list(emits).index(name) for name in optional]

    def compile(self) -> None:
        if self._texts is not None:
            self._texts.compile_results()

    def finish(self, records: Records) -> pa.RecordBatch:
        # Of either order the rows are copied: what is released is written over.
        order = np.lexsort((records.b, records.a, records.primary)) if self._is_ordered else np.arange(len(records))
        arrays = [restore_times(records.primary.take(order), self.schema.field(0).type)]
        count = len(self._are_floats)
        for field, words, is_float in zip(list(self.schema)[1:], records.values[:count], self._are_floats, strict=True):
            arrays.append(emitted_column(words.take(order), field.type, is_float, self._texts))
        for at, flags in zip(self._optional, records.values[count:], strict=True):
            column = arrays[1 + at]
            arrays[1 + at] = pc.if_else(pa.array(flags.take(order) != 0), pa.scalar(None, column.type), column)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


__all__ = ["ProgramResults"]
