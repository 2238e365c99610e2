"""Key tables for strings, whose bytes lie in an arena that is compacted when many strings are gone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.ingress import columns, keys_kernel
from headrace.ingress.key_tables import SMALLEST_ARENA, KeyTable
from headrace.ingress.keys_kernel import ARENA_DEAD, ARENA_USED
from headrace.ingress.sorting import argsort, group_starts


class StringTable(KeyTable):
    """Strings and bytes; those of at most eight bytes are one word."""

    is_string = True

    def encode(self, array: pa.Array) -> np.ndarray:
        return self.encode_spans(*columns.string_spans(array))

    def encode_spans(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        return self.run(starts.size, keys_kernel.encode_strings, data, starts, ends)

    def free(self, ids: np.ndarray) -> None:
        super().free(ids)
        dead, used = int(self.counts[ARENA_DEAD]), int(self.counts[ARENA_USED])
        if 2 * dead > used and used > SMALLEST_ARENA:
            arena = np.zeros(max(2 * (used - dead), SMALLEST_ARENA), np.uint8)
            self.counts[ARENA_USED] = keys_kernel.compact_arena(self.arrays, arena)
            self.counts[ARENA_DEAD] = 0
            self.arena = arena

    def compile_results(self) -> None:
        nothing = np.empty(0, np.int32)
        self._gather(nothing, 0, np.empty(0, np.uint64))
        self.decode(nothing, pa.string())

    def decode(self, ids: np.ndarray, kind: pa.DataType) -> pa.Array:
        offsets = np.empty(ids.size + 1, np.int64)
        keys_kernel.measure_strings(self.lengths, ids, offsets)
        # Strings are written eight bytes at a time, so the last write goes beyond the end of its string.
        data = np.empty(int(offsets[-1]) + 8, np.uint8)
        keys_kernel.gather_strings(self.arrays, ids, offsets, data)
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
        narrow = (pa.types.is_string(kind) or pa.types.is_binary(kind)) and offsets[-1] < 2**31
        if narrow:
            bounds, layout = offsets.astype(np.int32), pa.string() if is_text else pa.binary()
        else:
            bounds, layout = offsets, pa.large_string() if is_text else pa.large_binary()
        out = pa.Array.from_buffers(layout, ids.size, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
        return out.cast(kind) if pa.types.is_string_view(kind) else out

    def argsort(self, ids: np.ndarray) -> np.ndarray:
        """Order by UTF-8 bytes, eight at a time behind what all begin with; only ids that are still tied are compared further."""
        if (ids[1:] == ids[:-1]).all():
            return np.arange(ids.size)
        at, words, longest = 0, np.empty(ids.size, np.uint64), int(self.lengths[ids].max())
        while (alike := self._gather(ids, at, words)) and at < longest:
            at += alike
        words.byteswap(inplace=True)
        order = argsort(words)
        words = words[order]
        is_new = words[1:] != words[:-1]
        if is_new.all():
            return order
        # group[i]: first position whose bytes so far equal those at i, in the present order.
        group = group_starts(is_new)
        while True:
            at += 8
            tied = _tied(group, ids[order])
            if tied.size == 0:
                return order
            chosen = ids[order[tied]]
            longest = int(self.lengths[chosen].max())
            more = np.empty(tied.size, np.uint64)
            if at < longest:
                self._gather(chosen, at, more)
                more.byteswap(inplace=True)
            else:
                # The bytes are equal except for NULs at the end: the shorter string is less.
                more[:] = self.lengths[chosen]
            within = argsort(more)
            within = within[argsort(group[tied][within])]
            order[tied] = order[tied][within]
            more, old = more[within], group[tied][within]
            is_new = (more[1:] != more[:-1]) | (old[1:] != old[:-1])
            group[tied] = tied[group_starts(is_new)]
            if at >= longest:
                return order

    def _gather(self, ids: np.ndarray, at: int, words: np.ndarray) -> int:
        return keys_kernel.gather_words(self.stored, self.lengths, self.arena, ids, at, words)


def _tied(group: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the positions in groups that hold more than one id."""
    differs = np.zeros(ids.size, np.bool_)
    differs[1:] = (group[1:] == group[:-1]) & (ids[1:] != ids[:-1])
    if not differs.any():
        return np.zeros(0, np.int64)
    is_open = np.zeros(ids.size, np.bool_)
    is_open[group[differs]] = True
    return np.flatnonzero(is_open[group])


__all__ = ["StringTable"]
