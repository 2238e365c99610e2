"""Key tables for several columns: a key is the tuple of ids from the columns' own tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.ingress import keys_kernel
from headrace.ingress.key_tables import KeyTable
from headrace.ingress.keys_kernel import FREE
from headrace.ingress.sorting import argsort, ranks


class TupleTable(KeyTable):
    """Tuples of inner ids."""

    def __init__(self, bucket_bits: int, limit: int, inner: Sequence[KeyTable]):
        super().__init__(bucket_bits, limit)
        self.inner = inner
        self.parts = np.zeros((self.stored.size, len(inner)), np.int32)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.parts.nbytes + sum(table.nbytes for table in set(self.inner))

    def grow_ids(self, count: int) -> None:
        super().grow_ids(count)
        wider = np.zeros((count, self.parts.shape[1]), np.int32)
        wider[: self.parts.shape[0]] = self.parts
        self.parts = wider

    def encode_parts(self, row_parts: np.ndarray) -> np.ndarray:
        row_hashes, row_homes = np.empty(row_parts.shape[0], np.uint64), np.empty(row_parts.shape[0], np.uint64)
        with np.errstate(over="ignore"):
            keys_kernel.seed_parts(row_parts, self.seed, row_homes)
            for column, table in enumerate(self.inner):
                keys_kernel.hash_parts(table.hashes, row_parts[:, column], row_hashes, column + 1)

        def encode(arrays, row_parts, row_hashes, row_homes, ids, position):
            # `parts` grows with the ids, so it is looked up for each call.
            return keys_kernel.encode_parts(arrays, self.parts, row_parts, row_hashes, row_homes, ids, position)

        return self.run(row_parts.shape[0], encode, row_parts, row_hashes, row_homes)

    def free(self, ids: np.ndarray) -> None:
        super().free(ids)
        for table in set(self.inner):
            marks = np.zeros(table.last.size, np.uint8)
            for column, owner in enumerate(self.inner):
                if owner is table:
                    keys_kernel.mark_parts(self.parts, self.uses, column, marks)
            table.free(np.flatnonzero((marks == 0) & (table.last != FREE)).astype(np.int32))

    def argsort(self, ids: np.ndarray) -> np.ndarray:
        parts = self.parts[ids]
        if len(set(self.inner)) == 1:  # as for the two words of a pair: each distinct word is sorted once
            return argsort(*ranks(parts.ravel(), self.inner[0].argsort).reshape(parts.shape).T)
        return argsort(*(ranks(parts[:, column], table.argsort) for column, table in enumerate(self.inner)))


__all__ = ["TupleTable"]
