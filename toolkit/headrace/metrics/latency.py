"""Histograms of durations: small, of fixed size, and one can be subtracted from another."""

from __future__ import annotations

import math

import numpy as np

from headrace.kernel import kernel

PARTS = 16
"""Bins per power of two."""
BINS = 64 * PARTS
"""Number of bins of a histogram: the length of `LatencyHistogram.counts`."""


@kernel
def _count(durations, counts):
    """Add durations to their bins; return the largest (at least 1), or 0 if there are none."""
    largest, start = 0, 0
    while start < durations.size:
        # Results of one window became ready together: one logarithm for all.
        duration, end = durations[start], start + 1
        while end < durations.size and durations[end] == duration:
            end += 1
        counts[int(math.log2(max(duration, 1)) * PARTS)] += end - start
        largest = max(largest, duration, 1)
        start = end
    return largest


class LatencyHistogram:
    """Counts durations in bins of 1/16 of a power of two: quantiles within 4.4 %, the maximum exact.

    Parameters
    ----------
    counts : int64[1024], optional
        Counts at the start, as `counts` returns them: the difference of two is the histogram of what came between.
    largest_ns : int
        The largest duration among these, if it is known; else it is known within its bin.

    Examples
    --------
    >>> histogram = LatencyHistogram()
    >>> histogram.add(np.array([1_000_000, 3_000_000]))
    >>> histogram.count, histogram.max_ms, round(histogram.mean_ms, 1)
    (2, 3.0, 2.0)
    """

    def __init__(self, counts: np.ndarray | None = None, largest_ns: int = 0):
        self._counts = np.zeros(BINS, np.int64) if counts is None else np.array(counts, np.int64)
        self._max = largest_ns
        if not largest_ns and counts is not None and self._counts.any():
            self._max = int(2 ** ((np.flatnonzero(self._counts)[-1] + 1) / PARTS))

    def add(self, nanoseconds: np.ndarray) -> None:
        """Count an array of durations."""
        self._max = max(self._max, int(_count(np.asarray(nanoseconds, np.int64), self._counts)))

    @property
    def count(self) -> int:
        return int(self._counts.sum())

    def counts(self) -> np.ndarray:
        """Counts of the bins, int64[1024]; a copy."""
        return self._counts.copy()

    def quantile_ms(self, q: float) -> float:
        """Return a quantile in milliseconds; NaN without observations."""
        return self._quantiles_ms(q)[0]

    def _quantiles_ms(self, *quantiles: float) -> list[float]:
        sums = np.cumsum(self._counts)
        if sums[-1] <= 0:
            return [float("nan")] * len(quantiles)
        places = np.searchsorted(sums, np.array(quantiles) * sums[-1])
        return [min(2 ** ((int(place) + 0.5) / PARTS), self._max) / 1e6 for place in places]

    @property
    def mean_ms(self) -> float:
        """Mean in milliseconds, each duration taken as the middle of its bin; NaN without observations."""
        middles = 2 ** ((np.arange(BINS) + 0.5) / PARTS) / 1e6
        return float(self._counts @ middles / self.count) if self.count else float("nan")

    @property
    def largest_ns(self) -> int:
        """The largest duration; 0 without observations."""
        return self._max

    @property
    def max_ms(self) -> float:
        return self._max / 1e6 if self._max else float("nan")

    def summary(self) -> dict[str, float]:
        """Return p50, p99 and max in milliseconds."""
        p50, p99 = self._quantiles_ms(0.5, 0.99)
        return {"p50": p50, "p99": p99, "max": self.max_ms}
