"""Numbers about a run: what they mean, and how they are read without disturbing it.

Each is written by one thread and may be read by any: a reader sees a value that
was true a moment ago.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import numpy as np

_PARTS = 16
_BINS = 64 * _PARTS


class LatencyHistogram:
    """Counts durations in bins of 1/16 of a power of two: quantiles within 4.4 %, the maximum exact."""

    def __init__(self):
        self._counts = np.zeros(_BINS, np.int64)
        self._max = 0

    def add(self, nanoseconds: np.ndarray) -> None:
        """Count an array of durations."""
        if len(nanoseconds) == 0:
            return
        durations = np.maximum(nanoseconds, 1)
        bins = (np.log2(durations) * _PARTS).astype(np.int64)
        self._counts += np.bincount(bins, minlength=_BINS)[:_BINS]
        self._max = max(self._max, int(durations.max()))

    @property
    def count(self) -> int:
        return int(self._counts.sum())

    def quantile_ms(self, q: float) -> float:
        """Milliseconds; NaN without observations."""
        total = self._counts.sum()
        if total == 0:
            return float("nan")
        index = int(np.searchsorted(np.cumsum(self._counts), q * total))
        return min(2 ** ((index + 0.5) / _PARTS), self._max) / 1e6

    @property
    def max_ms(self) -> float:
        return self._max / 1e6 if self._max else float("nan")

    def summary(self) -> dict[str, float]:
        """p50, p99 and max in milliseconds."""
        return {"p50": self.quantile_ms(0.5), "p99": self.quantile_ms(0.99), "max": self.max_ms}


def coefficient_of_variation(loads: np.ndarray) -> float:
    """Standard deviation over mean of the instances' loads, a fraction; 0 for one instance or no load."""
    loads = np.asarray(loads, np.float64)
    mean = loads.mean() if loads.size else 0.0
    return float(loads.std() / mean) if mean > 0 else 0.0


@dataclass
class OperatorMetrics:
    """A snapshot of one operator.

    `added` tuples entered its gate; `processed` is what the slowest active
    instance has read; `updates` counts (key, window) updates and `comparisons`
    the join's pairs looked at, each summed over instances. `filtered` rows never
    entered; `null_keys` were ignored by policy.
    """

    name: str
    threads: int
    max_threads: int
    added: int
    processed: int
    results: int
    updates: int
    comparisons: int
    watermark: int
    depth_tuples: int
    live_keys: int
    state_bytes: int
    busy_share: list[float]
    load: list[int]
    imbalance_cv: float
    imbalance_max_mean: float
    latency_ms: dict[str, float]
    filtered: int = 0
    null_keys: int = 0
    duplication: float = 1.0
    """Copies made of each tuple, for the instances that own one of its keys; 1 under VSN: all read the same one."""
    transferred_bytes: int = 0
    transferred_ns: int = 0
    """State moved between instances by reconfigurations so far; 0 under VSN."""

    @property
    def in_flight(self) -> int:
        return self.added - self.processed


@dataclass
class Metrics:
    """A snapshot of a run.

    `tuples_in` rows came from the sources; `dropped` and `set_aside` of them
    were late; the others were filtered or entered an operator.
    """

    state: str
    seconds: float
    tuples_in: int
    tuples_out: int
    dropped: int = 0
    set_aside: int = 0
    operators: dict[str, OperatorMetrics] = field(default_factory=dict)

    def to_dict(self) -> dict:
        """Plain numbers and lists, for JSON."""
        return asdict(self)
