"""The store of an instance that shares nothing, for its tuples of one source."""

from __future__ import annotations

import numpy as np

from headrace.ingress.store import CHUNK, Store, chunk_of, place_of


class PrivateStore(Store):
    """The rows of one source that one instance was sent, written by the router.

    Python opens, enlarges and frees chunks; the router fills them through the
    directory. Rows are numbered from 0, or as in the source if all are sent.
    """

    def __init__(self, columns, multi_key: bool, directory: np.ndarray):
        super().__init__(columns, multi_key, directory)
        self._origins: dict[int, np.ndarray] = {}

    def open(self, number: int, masked: np.ndarray) -> None:
        """Open chunk `number` for writing, with validity masks for these columns."""
        self._open(number)
        self._origins[number] = np.empty(CHUNK, np.int64)
        self.add_masks(masked)

    def origin_address(self, number: int) -> int:
        """The address where the router records the original of each row of a chunk."""
        return self._origins[number].ctypes.data

    def origin_of(self, row: int) -> int:
        """Return the number that a row has in the source."""
        return int(self._origins[chunk_of(row)][place_of(row)])

    def add_masks(self, masked: np.ndarray) -> None:
        """Give all chunks a validity mask for each of these columns."""
        for number, chunk in list(self.chunks.items()):
            missing = [i for i in range(len(self.names)) if masked[i] and chunk.validity[i] is None]
            for i in missing:
                chunk.validity[i] = np.ones(CHUNK, np.uint8)
            if missing:
                self._publish(number, chunk)

    def grow_keys(self, number: int, used: int, needed: int) -> None:
        """Make room for `needed` more keys in a chunk; readers of the old buffer keep it."""
        chunk = self.chunks[number]
        if used + needed <= chunk.keys.size:
            return
        grown = np.empty(max(used + needed, 2 * chunk.keys.size), np.int32)
        grown[:used] = chunk.keys[:used]
        chunk.retired.append(chunk.keys)
        chunk.keys = grown
        self._keys_hint = max(self._keys_hint, grown.size)
        self._publish(number, chunk)

    def free(self, rows: int, horizon: int) -> None:
        """Free the full chunks among the first `rows` rows whose last ts is below `horizon`."""
        self.rows = rows
        for number in range(self.first_chunk, chunk_of(rows)):
            chunk = self.chunks.get(number)
            if chunk is not None:
                chunk.last_ts = int(chunk.ts[-1])
        self.release(horizon)
        self._forget_origins()

    def follow(self, other: PrivateStore, rows: int, masked: np.ndarray) -> None:
        """Open the chunks that `other` has, to be filled by the transfer at the barrier."""
        numbers = sorted(other.chunks)
        for number in numbers:
            if number not in self.chunks:
                self.open(number, masked)
            if number < chunk_of(rows):
                # Its last time decides when it is freed, and the transfer leaves out times that are too old.
                self.chunks[number].ts[-1] = other.chunks[number].ts[-1]
        self.add_masks(masked)
        self.first_chunk = numbers[0] if numbers else chunk_of(rows)
        for number in [n for n in self.chunks if n < self.first_chunk]:
            del self.chunks[number]
        self._forget_origins()

    def _forget_origins(self) -> None:
        for number in [n for n in self._origins if n < self.first_chunk]:
            del self._origins[number]
