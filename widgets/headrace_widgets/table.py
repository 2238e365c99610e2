"""A table of numbers for an unbounded sequence of rows, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

_TICKS = 1024
"""Ticks in a second: slots are computed from times rounded down to ticks."""


class Table:
    """Named columns of float64, appended to row by row; the first column is time and only grows.

    When `limit` rows are reached, every second row of the older half is dropped: the last minutes stay
    fine, the first hours become coarse.
    """

    def __init__(self, columns: Sequence[str], limit: int = 6_000):
        self.columns = tuple(columns)
        self.limit = max(8, limit)
        self._places = {column: place for place, column in enumerate(self.columns)}
        # Each column is contiguous: plots read a few columns over hundreds of rows.
        self._values = np.full((len(self.columns), self.limit), np.nan)
        # For each row, in seconds, the longest slot of which it is the first row: computed once, read at every drawing.
        self._first_of = np.full(self.limit, np.inf)
        self._count = 0
        self._last_s = 0.0

    def __len__(self) -> int:
        return self._count

    def append(self, values: Sequence[float]) -> None:
        """Add one row."""
        if self._count == self.limit:
            half = self.limit // 2
            kept = np.concatenate([self._values[:, :half:2], self._values[:, half:]], axis=1)
            self._count = kept.shape[1]
            self._values[:, : self._count] = kept
            ticks = (self._times * _TICKS).astype(np.int64)
            self._first_of[1 : self._count] = np.ldexp(1 / _TICKS, np.frexp(ticks[1:] ^ ticks[:-1])[1] - 1)
        if self._count:
            ticks = int(self._last_s * _TICKS) ^ int(values[0] * _TICKS)
            self._first_of[self._count] = math.ldexp(1 / _TICKS, ticks.bit_length() - 1)
        self._last_s = float(values[0])
        self._values[:, self._count] = values
        self._count += 1

    def __getitem__(self, column: str) -> np.ndarray:
        """Return all values of one column, oldest first."""
        return self._values[self._places[column], : self._count]

    def newest(self, column: str) -> float:
        """Return the newest value of one column; NaN before there is one."""
        return float(self[column][-1]) if self._count else np.nan

    @property
    def last(self) -> dict[str, float]:
        """The newest row; empty before there is one."""
        return self._row(self._count - 1)

    def row_at(self, at_s: float) -> dict[str, float]:
        """Return the newest row that is not later than a time, else the first; empty before there is one."""
        return self._row(self._index_at(at_s))

    def values_at(self, at_s: float, places: slice | np.ndarray) -> np.ndarray:
        """Return some values of that row, by the places of their columns; NaN before there is one."""
        return self._values[places, self._index_at(at_s)]

    def _index_at(self, at_s: float) -> int:
        return max(0, int(self._times.searchsorted(at_s, "right")) - 1)

    def _row(self, index: int) -> dict[str, float]:
        if not self._count:
            return {}
        return dict(zip(self.columns, self._values[:, index].tolist(), strict=True))

    @property
    def _times(self) -> np.ndarray:
        return self._values[0, : self._count]

    def places(self, columns: Sequence[str]) -> slice | np.ndarray:
        """Return the places of these columns, for `values_at` and `block`: adjacent columns are found at less cost."""
        places = [self._places[column] for column in columns]
        first = places[0] if places else 0
        if places == list(range(first, first + len(places))):
            return slice(first, first + len(places))
        return np.array(places, np.intp)

    def block(
        self, places: slice | np.ndarray, start: float, end: float, most: int | None = None
    ) -> np.ndarray:
        """Return float64[columns, rows]: columns for a span of time, with one more row on either side so lines reach the edges.

        With more than `most` rows only the first row of each slot is returned; slots last a power of two of
        seconds and begin at 0, not at the span's edge, so the chosen rows stay the same while the span moves.
        """
        times = self._times
        first = max(0, int(times.searchsorted(start)) - 1)
        after = min(self._count, int(times.searchsorted(end, "right")) + 1)
        block, times = self._values[places, first:after], times[first:after]
        if most is not None and len(times) > most:
            length = min(end, times[-1]) - max(start, times[0])
            is_first = self._first_of[first:after] >= 2.0 ** math.ceil(math.log2(length / most))
            is_first[0] = is_first[-1] = True
            block = block.compress(is_first, axis=1)
        return block

    def between(self, start: float, end: float, most: int | None = None) -> dict[str, np.ndarray]:
        """Return all columns of `block`, by name."""
        return dict(zip(self.columns, self.block(slice(None), start, end, most), strict=True))

    def mean(self, column: str, start: float, end: float) -> float:
        """Return the mean of a column over a span of time, without NaN values; NaN if nothing is left."""
        times = self._times
        values = self[column][(times >= start) & (times <= end)]
        values = values[~np.isnan(values)]
        return float(values.mean()) if len(values) else float("nan")
