"""Numbers by worker: how even they are, and what share each is of a whole."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

# Of a handful of workers, several times a second: plain Python, where NumPy spends most of its time on being called.


def coefficient_of_variation(loads: Sequence[float] | np.ndarray) -> float:
    """Standard deviation over mean of the instances' loads, a fraction; 0 for one instance or no load."""
    each = list(loads) if not isinstance(loads, np.ndarray) else loads.tolist()
    mean = sum(each) / len(each) if each else 0.0
    if not mean > 0:
        return 0.0
    return math.sqrt(sum([(load - mean) ** 2 for load in each]) / len(each)) / mean


def max_over_mean(loads: Sequence[float] | np.ndarray) -> float:
    """Largest over mean of the instances' loads; 1 for one instance or no load."""
    each = list(loads) if not isinstance(loads, np.ndarray) else loads.tolist()
    mean = sum(each) / len(each) if each else 0.0
    return max(each) / mean if mean > 0 else 1.0


def shares_of(spent: np.ndarray) -> np.ndarray:
    """Give the share of each part in the sum of all: float64[parts, workers]; a column sums to 1, or to 0."""
    spent = np.maximum(np.asarray(spent, np.float64), 0)
    return spent / np.maximum(spent.sum(axis=0), 1)
