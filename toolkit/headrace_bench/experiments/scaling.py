"""Predicts throughput with more threads than this machine has cores, by the cost model of the elasticity room.

Each thread reads every tuple and does its share of the work. If reading a tuple costs `scan` ns and all work on a
tuple costs `whole` ns on one thread, n threads take scan + (whole - scan) / n (`headrace.control.cost_model`).
"""

from __future__ import annotations

from collections.abc import Callable

ASSUMPTIONS = (
    "There are as many cores as threads, and each is as fast as one of this machine alone.",
    "Memory bandwidth grows with the cores: state that does not fit a core's own caches makes this optimistic.",
    "Work is divided evenly, and no reconfiguration is under way: each would cost a barrier, as q4 measures it.",
    "One thread feeds, which takes less time for a tuple than reading does.",
    "One thread orders the results and keeps up: where it already is the limit, as in pair count, which has a result or "
    "two for each key of a tweet, more threads bring nothing, and the prediction is far too high.",
)


def predict(scan_ns: float, whole_ns: float) -> Callable[[int], float]:
    """Predict tuples per second as a function of the number of threads.

    Parameters
    ----------
    scan_ns : float
        Time that a thread spends on a tuple for which it has no further work, ns.
    whole_ns : float
        Total time that one thread spends on a tuple, ns.

    Examples
    --------
    >>> capacity = predict(10.0, 100.0)
    >>> round(capacity(1)), round(capacity(2)), round(capacity(10**6))
    (10000000, 18181818, 99999100)
    """
    work_ns = max(0.0, whole_ns - scan_ns)
    return lambda threads: 1e9 / (scan_ns + work_ns / threads)
