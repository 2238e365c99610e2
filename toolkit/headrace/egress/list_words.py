"""Lists that result records refer to: drained from the rings of `words_ring`, kept until their records are released."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.egress.rings import OutArrays
from headrace.egress.words_ring import INSTANCE_SHIFT, WORD_MASK, copy_lists, words_taken
from headrace.kernel import compile_now
from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cell

_LEAST_ROOM = 1 << 12
_KEPT_ROOM = 1 << 20
"""Words. Only more room than this is given back when little of it is used: fresh memory costs more than writing to it."""


class _Taken:
    """The words drained from one instance, from number `first` on, in memory that grows and shrinks with them."""

    def __init__(self):
        self._memory = np.empty(_LEAST_ROOM, np.int64)
        self._start = self._end = 0
        self.first = 0

    @property
    def words(self) -> np.ndarray:
        return self._memory[self._start : self._end]

    def add(self, words: np.ndarray) -> None:
        end = self._end + len(words)
        if end > len(self._memory):
            kept = self._end - self._start
            room = max(_LEAST_ROOM, 2 * (kept + len(words)))
            # If enough words were dropped, the present memory will do: at least half of it is then free.
            memory = self._memory if room <= len(self._memory) else np.empty(room, np.int64)
            memory[:kept] = self.words
            self._memory, self._start, self._end, end = memory, 0, kept, kept + len(words)
        self._memory[self._end : end] = words
        self._end = end

    def forget(self, before: int) -> None:
        """Drop words with a lower number, which are not needed again."""
        self._start += before - self.first
        self.first = before
        kept = self._end - self._start
        if kept == 0:
            self._start = self._end = 0
        if len(self._memory) > max(_KEPT_ROOM, 8 * kept):
            memory = np.empty(max(_LEAST_ROOM, 2 * kept), np.int64)
            memory[:kept] = self.words
            self._memory, self._start, self._end = memory, 0, kept


class ListWords:
    """Words of lists that records refer to, by instance.

    Parameters
    ----------
    out : OutArrays
    lists : sequence of (int, int)
        Pairs of a record's value columns: one that holds positions, and one that holds the counts.
    """

    def __init__(self, out: OutArrays, lists: Sequence[tuple[int, int]]):
        self._out, self._lists = out, lists
        self._taken = [_Taken() for _ in range(out.list_words.shape[0])]
        self._behind = [0] * len(self._taken)
        """By instance: the number of the first word after those of the records that came."""

    def drain(self, r: int) -> None:
        """Drain the words that an instance has written. Called after the records' HEAD is read, so they come with their words."""
        out, ring = self._out, self._out.list_words[r]
        tail, head = read_cell(out.list_tail, r * CELL), read_cell(out.list_head, r * CELL)  # P3
        while tail < head:
            at = tail & (len(ring) - 1)
            count = min(head - tail, len(ring) - at)
            self._taken[r].add(ring[at : at + count])  # P4
            tail += count
            words_taken(out, r, tail)

    def note(self, r: int, values: Sequence[np.ndarray]) -> None:
        """Note that records of an instance came, with these value columns; there is at least one."""
        ends = [int(values[position][-1] & WORD_MASK) + int(values[count][-1]) for position, count in self._lists]
        self._behind[r] = max(ends)

    def take(self, positions: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Copy lists into one array.

        Parameters
        ----------
        positions, counts : int64[n]

        Returns
        -------
        words, offsets : int64[], int64[n + 1]
            List i is ``words[offsets[i] : offsets[i + 1]]``.
        """
        offsets = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        words = np.empty(int(offsets[-1]), np.int64)
        parts = [taken.words for taken in self._taken]
        copy_lists(
            np.array([part.ctypes.data for part in parts], np.int64),
            np.array([part.size for part in parts], np.int64),
            np.array([taken.first for taken in self._taken], np.int64),
            np.ascontiguousarray(positions),
            offsets,
            words,
        )
        return words, offsets

    def forget(self, values: Sequence[np.ndarray]) -> None:
        """Free the words that no held record refers to; `values` are the value columns of the held records."""
        needed = list(self._behind)
        for position, _ in self._lists:
            numbers = values[position] & WORD_MASK
            whose = values[position] >> INSTANCE_SHIFT
            for r in range(len(needed)) if len(numbers) else ():
                own = numbers[whose == r]
                if own.size:
                    needed[r] = min(needed[r], int(own.min()))
        for taken, before in zip(self._taken, needed, strict=True):
            taken.forget(before)

    @staticmethod
    def compile() -> None:
        """Compile the kernels that are used while results come."""
        one, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
        compile_now(copy_lists, (one, one, one, one, two, one))
