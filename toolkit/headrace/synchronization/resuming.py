"""Passes over rows that are read again although they are processed, when a run goes on from a checkpoint.

An input is read from its beginning, so that rows have the same numbers as before. A checkpoint knows how many rows of each
input had been `read`, and which of these were not processed (`rest`): independent events are processed in any order, so the
processed rows need not be a prefix. Processed rows are counted and passed over.

Once the rows have been read again, their sum (`checkpoints.content_sum`) tells whether they are those read before; the run
ends if they are not.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from headrace.checkpoints.content_sum import content_sum
from headrace.errors import CheckpointError
from headrace.ingress.ordered_texts import OrderedTexts

_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Frontier:
    """Which rows of an input are processed.

    Parameters
    ----------
    read : int
        Rows 0 to read - 1 are processed, except those of `rest`.
    rest : int64[n, 2]
        First rows, and rows behind the last, rising.
    summed, total : int
        The first `summed` rows, at least `read` of them, add up to `total`.
    """

    read: int = 0
    rest: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    summed: int = 0
    total: int = 0

    @property
    def processed(self) -> int:
        """How many."""
        return self.read - int((self.rest[:, 1] - self.rest[:, 0]).sum())

    def processed_of(self, first: int, stop: int) -> np.ndarray:
        """bool[n]: which of rows `first` to `stop` - 1 are."""
        found = np.arange(first, stop) < self.read
        for begin, end in self.rest[(self.rest[:, 1] > first) & (self.rest[:, 0] < stop)].tolist():
            found[max(0, begin - first) : end - first] = False
        return found


class Reread:
    """Reads the rows of an input again.

    Parameters
    ----------
    before : Frontier
        That of the checkpoint; without a checkpoint, nothing is processed.
    texts : OrderedTexts or None
    columns : dict of str to str
        Columns that say what an event is, and their kinds. Its stream is left out: rows may be dealt out to streams anew.
    name : str
        Of the input, for messages.
    """

    def __init__(self, before: Frontier, texts: OrderedTexts | None, columns: Mapping[str, str], name: str):
        self.before, self._texts, self._columns, self._name = before, texts, columns, name
        self.met = 0, 0
        """Rows met, and what they add up to."""
        self.passed_over = 0

    def meet(self, ts: np.ndarray, columns: Mapping[str, tuple]) -> np.ndarray | None:
        """Look at the next rows. bool[n]: which are processed; None: none of them."""
        (first, total), count = self.met, len(ts)
        summed = {"\0ts": (ts, None)}
        for name, kind in self._columns.items():
            summed[name] = self._numbers(columns[name]) if kind == "string" else columns[name]
        end = self.before.summed
        if first < end <= first + count:
            if (total + content_sum(first, summed, 0, end - first)) & _MASK != self.before.total:
                raise CheckpointError(
                    f"{self._name}: its first {end:,} rows are not those that were read before the checkpoint; resume with the"
                    f" input that the run had, or start it without resume"
                )
        self.met = first + count, (total + content_sum(first, summed)) & _MASK
        if first >= self.before.read:
            return None
        return self.before.processed_of(first, first + count)

    def end(self) -> None:
        """No row will follow."""
        if self.met[0] < self.before.summed:
            raise CheckpointError(
                f"{self._name}: it has {self.met[0]:,} rows, and {self.before.summed:,} were read before the checkpoint; resume"
                f" with the input that the run had, or start it without resume"
            )

    def _numbers(self, column: tuple[np.ndarray, np.ndarray | None]) -> tuple[np.ndarray, np.ndarray | None]:
        """Numbers for strings: unlike ids, they do not depend on the run."""
        ids, valid = column
        there = slice(None) if valid is None else valid != 0
        different, inverse = np.unique(ids[there], return_inverse=True)
        if not len(different):
            return np.zeros(len(ids), np.int64), valid
        assert self._texts is not None
        (strings,) = self._texts.decode(different.astype(np.int64))
        numbers = np.zeros(len(ids), np.int64)
        sums = [zlib.crc32(text.encode("utf-8", "surrogatepass")) for text in strings.to_pylist()]
        numbers[there] = np.array(sums, np.int64)[inverse.reshape(-1)]
        return numbers, valid

    def frontier(self, read: int, waiting: np.ndarray) -> Frontier:
        """Which rows are processed now.

        Parameters
        ----------
        read : int
            Rows given to the mailboxes.
        waiting : int64[n]
            Those that are still there, rising.
        """
        before = self.before
        rest = _runs(waiting)
        if before.read > read:  # not all processed rows have been read again yet
            left = before.rest[before.rest[:, 1] > read].copy()
            left[:, 0] = np.maximum(left[:, 0], read)
            rest = np.concatenate([rest, left])
        summed, total = max(self.met, (before.summed, before.total))
        return Frontier(max(read, before.read), rest, summed, total)


def _runs(rows: np.ndarray) -> np.ndarray:
    """int64[n, 2]: rising rows, as runs."""
    if not len(rows):
        return np.zeros((0, 2), np.int64)
    begins = np.flatnonzero(np.diff(rows, prepend=rows[0] - 2) != 1)
    return np.stack([rows[begins], rows[np.append(begins[1:], len(rows)) - 1] + 1], axis=1)


__all__ = ["Frontier", "Reread"]
