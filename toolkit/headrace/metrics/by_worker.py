"""Statistics of numbers by worker: how even they are, and the share of each in the whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

STATES = ("parked", "process", "wait", "room", "barrier")
"""Of a worker, by the number that its kernel gives them: it is not active; it processes tuples; waits for input, for room for
results, for other workers."""

# For a handful of workers, several times a second: plain Python, since NumPy would spend most of its time on call overhead.


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


def load_variation(now: Any, then: Any) -> float:
    """`coefficient_of_variation` of the loads between two `OperatorMetrics`, for `Measure.between`."""
    return coefficient_of_variation(_loads(now, then))


def load_peak(now: Any, then: Any) -> float:
    """`max_over_mean` of the same loads."""
    return max_over_mean(_loads(now, then))


def _loads(now: Any, then: Any) -> list[int]:
    """Return the growth of the active workers' loads; `then` is None at the beginning."""
    new, old = now.values["load"], [0] * now.max_threads if then is None else then.values["load"]
    return [new[worker] - old[worker] for worker in now.members]


def shares_of(spent: np.ndarray) -> np.ndarray:
    """Return the share of each part in the sum of all: float64[parts, workers]; a column sums to 1, or to 0."""
    spent = np.maximum(np.asarray(spent, np.float64), 0)
    return spent / np.maximum(spent.sum(axis=0), 1)
