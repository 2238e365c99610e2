"""Durations over time: counts by size, for a heat map."""

from __future__ import annotations

import math

import numpy as np

from headrace.metrics.latency import BINS

SLOT_S = 0.5
"""Durations from this many seconds share a column of cells."""
_FINE = 8
"""Histogram bins in one cell: a bin is 1/16 of a power of two, so a cell is half of one."""
_CELLS = BINS // _FINE
EDGES_MS = 2.0 ** (np.arange(_CELLS + 1) / 2) / 1e6
"""float64[129]: the durations at which cells begin, and at which the last one ends."""
COLUMNS = ["left", "right", "bottom", "top", "shade", "count"]
_FAINTEST = 0.2


class Heat:
    """Rows of counts, one for each time slot in which something was counted.

    When `limit` rows are reached, rows of the older half are added in pairs: the last minutes stay fine.
    """

    def __init__(self, limit: int = 1_000):
        self._limit = max(8, limit)
        self._edges = np.zeros((2, self._limit))
        self._counts = np.zeros((self._limit, _CELLS), np.int64)
        self._rows = 0
        self._before = np.zeros(_CELLS, np.int64)

    def add(self, at_s: float, counts: np.ndarray) -> None:
        """Take the counts of a `LatencyHistogram`, int64[1024], which only grow."""
        now = np.add.reduce(counts.reshape(_CELLS, _FINE), axis=1)
        new, self._before = now - self._before, now
        if not new.any():
            return
        left = math.floor(at_s / SLOT_S) * SLOT_S
        if not self._rows or self._edges[0, self._rows - 1] < left:
            if self._rows == self._limit:
                self._make_room()
            self._edges[:, self._rows] = left, left + SLOT_S
            self._counts[self._rows] = 0
            self._rows += 1
        self._counts[self._rows - 1] += new

    def _make_room(self) -> None:
        half = self._limit // 4 * 2
        edges, counts = self._edges[:, : self._rows], self._counts[: self._rows]
        edges = np.concatenate([[edges[0, :half:2], edges[1, 1:half:2]], edges[:, half:]], axis=1)
        counts = np.concatenate([counts[:half:2] + counts[1:half:2], counts[half:]])
        self._rows = len(counts)
        self._edges[:, : self._rows], self._counts[: self._rows] = edges, counts

    def cells(self, start_s: float, end_s: float, most: int = 60) -> np.ndarray:
        """Return float64[6, cells]: the columns `COLUMNS` of the cells with counts, for at most this many slots.

        Left and right in seconds, bottom and top in milliseconds; the shade, up to 1, grows with the count's logarithm.
        """
        lefts, rights = self._edges[:, : self._rows]
        first, after = rights.searchsorted(start_s, "right"), lefts.searchsorted(end_s)
        if first >= after:
            return np.zeros((len(COLUMNS), 0))
        (left, right), counts = self._edges[:, first:after], self._counts[first:after]
        width = max(SLOT_S, 2.0 ** math.ceil(math.log2(max(end_s - start_s, SLOT_S) / most)))
        slots = np.floor(left / width)
        begins = np.flatnonzero(np.diff(slots, prepend=-1.0))
        counts = np.add.reduceat(counts, begins, axis=0)
        left = slots[begins] * width
        right = np.maximum(left + width, np.maximum.reduceat(right, begins))
        slot, size = counts.nonzero()
        count = counts[slot, size].astype(float)
        shade = _FAINTEST + (1 - _FAINTEST) * np.log1p(count) / math.log1p(count.max())
        return np.array([left[slot], right[slot], EDGES_MS[size], EDGES_MS[size + 1], shade, count])
