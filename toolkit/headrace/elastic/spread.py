"""How unevenly load was shared, over all configurations a run has had."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.metrics.by_worker import coefficient_of_variation, max_over_mean


class Spread:
    """How unevenly load was shared: each configuration by itself, weighted by the load during it.

    Loads are cumulative: taken as a whole, they would compare instances active for long with those that joined later.

    Examples
    --------
    >>> spread = Spread()
    >>> spread.close(np.array([10, 0]), [0])  # one instance alone, then two that share evenly
    >>> spread.with_present(np.array([15, 5]), [0, 1])
    (0.0, 1.0)
    """

    def __init__(self):
        self._until: np.ndarray | int = 0
        self._sums = np.zeros(3)  # load; load times coefficient of variation, times max/mean

    def _added(self, load: np.ndarray, members: Sequence[int] | np.ndarray) -> np.ndarray:
        share = np.maximum(load - self._until, 0)[np.asarray(members, np.int64)]
        total = float(share.sum())
        return total * np.array([1.0, coefficient_of_variation(share), max_over_mean(share)])

    def close(self, load: np.ndarray, members: Sequence[int] | np.ndarray) -> None:
        """End the configuration with these members; `load` is the workers' cumulative load at that moment."""
        self._sums += self._added(load, members)
        self._until = load

    def with_present(self, load: np.ndarray, members: Sequence[int] | np.ndarray) -> tuple[float, float]:
        """Coefficient of variation and max/mean so far, with the present configuration."""
        total, variation, ratio = self._sums + self._added(load, members)
        return (float(variation / total), float(ratio / total)) if total else (0.0, 1.0)
