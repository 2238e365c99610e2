"""Rows of numbers that keep coming, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class Table:
    """Named columns of float64, appended to row by row; the first column is time and only grows.

    When `limit` rows are there, every second row of the older half goes: the last minutes stay
    fine, the first hours become coarse.
    """

    def __init__(self, columns: Sequence[str], limit: int = 6_000):
        self.columns = tuple(columns)
        self.limit = max(8, limit)
        self._rows = np.full((self.limit, len(self.columns)), np.nan)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, values: Sequence[float]) -> None:
        """Add one row."""
        if self._count == self.limit:
            half = self.limit // 2
            kept = np.concatenate([self._rows[:half:2], self._rows[half : self._count]])
            self._count = len(kept)
            self._rows[: self._count] = kept
        self._rows[self._count] = values
        self._count += 1

    def __getitem__(self, column: str) -> np.ndarray:
        """All values of one column, oldest first."""
        return self._rows[: self._count, self.columns.index(column)]

    @property
    def last(self) -> dict[str, float]:
        """The newest row; empty before there is one."""
        return self._row(self._count - 1)

    def row_at(self, at_s: float) -> dict[str, float]:
        """The newest row that is not later, else the first; empty before there is one."""
        return self._row(max(0, int(np.searchsorted(self._rows[: self._count, 0], at_s, "right")) - 1))

    def _row(self, index: int) -> dict[str, float]:
        if not self._count:
            return {}
        return dict(zip(self.columns, self._rows[index].tolist(), strict=True))

    def between(self, start: float, end: float, most: int | None = None) -> dict[str, np.ndarray]:
        """Columns of the rows in a span of time, one more on either side so that lines reach the edges.

        With more than `most` rows in it only the first of each slot is given; slots last a power of two of
        seconds and begin at 0, not at the span's edge: while the span moves, the rows chosen stay the same.
        """
        times = self._rows[: self._count, 0]
        first = max(0, int(np.searchsorted(times, start)) - 1)
        after = min(self._count, int(np.searchsorted(times, end, "right")) + 1)
        rows = self._rows[first:after]
        if most is not None and len(rows) > most:
            length = min(end, rows[-1, 0]) - max(start, rows[0, 0])
            slot = np.floor(rows[:, 0] / 2.0 ** np.ceil(np.log2(length / most)))
            is_first = np.empty(len(rows), bool)
            is_first[0] = is_first[-1] = True
            is_first[1:-1] = slot[1:-1] != slot[:-2]
            rows = rows[is_first]
        return dict(zip(self.columns, rows.T, strict=True))

    def mean(self, column: str, start: float, end: float) -> float:
        """Mean of a column over a span of time, NaN values left out; NaN if nothing is left."""
        times = self._rows[: self._count, 0]
        values = self[column][(times >= start) & (times <= end)]
        values = values[~np.isnan(values)]
        return float(values.mean()) if len(values) else float("nan")
