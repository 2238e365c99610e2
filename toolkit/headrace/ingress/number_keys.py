"""Key tables for numbers, each of which is one word."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.ingress import columns, keys_kernel
from headrace.ingress.key_tables import KeyTable
from headrace.ingress.sorting import argsort
from headrace.memory.words import NAN_BITS


class IntTable(KeyTable):
    """Whole numbers. If the first ones lie close together, they determine the range that is looked up directly."""

    is_range_known = False

    def encode(self, array: pa.Array) -> np.ndarray:
        numbers = columns.integers(array, "key")
        if not self.is_range_known and numbers.size:
            self._choose_range(int(numbers.min()), int(numbers.max()))
        words = numbers.view(np.uint64)
        if not self.direct.size:
            return self.run(words.size, keys_kernel.encode_words, words)
        ids = np.empty(words.size, np.int32)
        if keys_kernel.find_direct(self.direct, self.base, words, ids):
            return ids
        return self.run(words.size, keys_kernel.encode_direct, words, ids=ids)

    def _choose_range(self, low: int, high: int) -> None:
        self.is_range_known = True
        room = keys_kernel.DIRECT_SIZE - 1 - (high - low)
        if room < 0:
            return
        base = 0 if 0 <= low and high < keys_kernel.DIRECT_SIZE else low - room // 2
        self.direct, self.base = np.zeros(keys_kernel.DIRECT_SIZE, np.int32), np.uint64(base % 2**64)

    def decode(self, ids: np.ndarray, kind: pa.DataType) -> pa.Array:
        return self.column(self.values(ids), kind)

    @staticmethod
    def column(values: np.ndarray, kind: pa.DataType) -> pa.Array:
        """Return numbers as a key column of this type."""
        if pa.types.is_boolean(kind):
            return pa.array(values.astype(np.bool_))
        if pa.types.is_integer(kind):
            return columns.as_arrow(values.astype(kind.to_pandas_dtype(), copy=False), kind)
        return columns.as_arrow(values.astype(np.int32) if kind.bit_width == 32 else values, kind)

    def argsort(self, ids: np.ndarray) -> np.ndarray:
        return argsort(self.values(ids))


class FloatTable(KeyTable):
    """Floats, by their bits; all NaNs are one key, and -0.0 is 0.0."""

    def encode(self, array: pa.Array) -> np.ndarray:
        values = columns.floats(array).astype(np.float64) + 0.0  # -0.0 + 0.0 is 0.0
        bits = values.view(np.int64)
        return self.run(
            len(array), keys_kernel.encode_words, np.where(np.isnan(values), NAN_BITS, bits).view(np.uint64)
        )

    def decode(self, ids: np.ndarray, kind: pa.DataType) -> pa.Array:
        return pa.array(self.values(ids).view(np.float64)).cast(kind, safe=False)

    def argsort(self, ids: np.ndarray) -> np.ndarray:
        return argsort(self.values(ids).view(np.float64))  # NaN comes last


__all__ = ["FloatTable", "IntTable"]
