"""From drained records to ordered result rows, for operators with keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.egress.key_order import arrange
from headrace.egress.records import Ordered, Records
from headrace.expressions.rows import cast
from headrace.ingress.keys import KeyDictionary
from headrace.ingress.sorting import argsort, compile_kernels
from headrace.ingress.times import restore_times


class KeyedResults:
    """Base for the results of aggregates and custom operators: time and key columns, in order of (ts, key)."""

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
        """The records in order of (primary, key), and their time and key columns."""
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
