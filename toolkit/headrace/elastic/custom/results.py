"""Result rows of a custom operator: what its functions emitted, in order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.egress.containers import as_column
from headrace.egress.key_order import key_ranks
from headrace.egress.records import Ordered, Records
from headrace.elastic.custom.shape import CustomShape, counts_field, out_field
from headrace.elastic.results import KeyedResults
from headrace.expressions.rows import cast
from headrace.ingress.columns import as_arrow
from headrace.ingress.keys import KeyDictionary
from headrace.ingress.sorting import argsort


class CustomResults(KeyedResults):
    """Rows of (ts, keys, emitted values), in order of (ts, cause, key, emission).

    `a` is the key, `b` the cause (what `output` emits comes last), `c` numbers
    the emissions of an instance; the first value column is the boundary. Strings
    are emitted by their ids in `texts`.
    """

    reads_b_and_c = True

    def __init__(
        self,
        schema: pa.Schema,
        dictionary: KeyDictionary | None,
        key_count: int,
        shape: CustomShape,
        texts: KeyDictionary | None = None,
    ):
        super().__init__(schema, dictionary, key_count)
        self._shape, self._texts = shape, texts

    def compile(self) -> None:
        super().compile()
        if self._texts is not None:
            self._texts.compile_results()

    def finish(self, records: Records) -> pa.RecordBatch:
        ranks = key_ranks(self._dictionary, records.a)
        ordered = Ordered(records, argsort(records.values[0], records.b, ranks, records.c))
        keys = [] if self._dictionary is None else self._dictionary.decode(ordered.a.astype(np.int32))
        arrays = self._head_columns(ordered.values[0], keys)
        columns = dict(zip(self._shape.results, range(len(self._shape.results)), strict=True))
        for name, emitted in self._shape.emits:
            values = ordered.values[columns[out_field(name)]]
            kind = self.schema.field(len(arrays)).type
            if not isinstance(emitted, str):
                words, offsets = ordered.words.take(values, ordered.values[columns[counts_field(name)]])
                arrays.append(as_column(words, offsets, emitted, self._texts))
                continue
            if self._texts is not None and pa.types.is_string(kind):
                (strings,) = self._texts.decode(values)
                arrays.append(cast(strings, kind))
            elif pa.types.is_temporal(kind):
                arrays.append(as_arrow(values, kind))
            elif kind.equals(pa.from_numpy_dtype(values.dtype)):
                arrays.append(as_arrow(values, kind))
            else:
                arrays.append(pa.array(values.view(np.bool_) if pa.types.is_boolean(kind) else values, kind))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
