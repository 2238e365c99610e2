"""Numbers about a run: what they mean, and how they are read without disturbing it.

Each is written by one thread and may be read by any: a reader sees a value that
was true a moment ago. What belongs together (`Balance`) is read in an order that
makes the numbers comparable all the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.kernel import kernel

if TYPE_CHECKING:
    import pandas as pd

_PARTS = 16
_BINS = 64 * _PARTS


@kernel
def _count(durations, counts):
    """Add durations to their bins; return the largest, at least 1, or 0 if there is none."""
    largest, start = 0, 0
    while start < durations.size:
        # Results of one window became ready together: one logarithm for all.
        duration, end = durations[start], start + 1
        while end < durations.size and durations[end] == duration:
            end += 1
        counts[int(math.log2(max(duration, 1)) * _PARTS)] += end - start
        largest = max(largest, duration, 1)
        start = end
    return largest


class LatencyHistogram:
    """Counts durations in bins of 1/16 of a power of two: quantiles within 4.4 %, the maximum exact.

    Parameters
    ----------
    counts : int64[1024], optional
        To begin with, as `counts` gives them: the difference of two is the histogram of what came between.
    """

    def __init__(self, counts: np.ndarray | None = None):
        self._counts = np.zeros(_BINS, np.int64) if counts is None else np.array(counts, np.int64)
        self._max = 0
        if counts is not None and self._counts.any():  # of an interval it is known within its bin
            self._max = int(2 ** ((np.flatnonzero(self._counts)[-1] + 1) / _PARTS))

    def add(self, nanoseconds: np.ndarray) -> None:
        """Count an array of durations."""
        self._max = max(self._max, int(_count(np.asarray(nanoseconds, np.int64), self._counts)))

    @property
    def count(self) -> int:
        return int(self._counts.sum())

    def counts(self) -> np.ndarray:
        """int64[1024], a copy."""
        return self._counts.copy()

    def quantile_ms(self, q: float) -> float:
        """Milliseconds; NaN without observations."""
        return self._quantiles_ms(q)[0]

    def _quantiles_ms(self, *quantiles: float) -> list[float]:
        sums = np.cumsum(self._counts)
        if sums[-1] <= 0:
            return [float("nan")] * len(quantiles)
        places = np.searchsorted(sums, np.array(quantiles) * sums[-1])
        return [min(2 ** ((int(place) + 0.5) / _PARTS), self._max) / 1e6 for place in places]

    @property
    def max_ms(self) -> float:
        return self._max / 1e6 if self._max else float("nan")

    def summary(self) -> dict[str, float]:
        """p50, p99 and max in milliseconds."""
        p50, p99 = self._quantiles_ms(0.5, 0.99)
        return {"p50": p50, "p99": p99, "max": self.max_ms}


def coefficient_of_variation(loads: np.ndarray) -> float:
    """Standard deviation over mean of the instances' loads, a fraction; 0 for one instance or no load."""
    loads = np.asarray(loads, np.float64)
    mean = loads.mean() if loads.size else 0.0
    return float(loads.std() / mean) if mean > 0 else 0.0


def max_over_mean(loads: np.ndarray) -> float:
    """Largest over mean of the instances' loads; 1 for one instance or no load."""
    loads = np.asarray(loads, np.float64)
    mean = loads.mean() if loads.size else 0.0
    return float(loads.max() / mean) if mean > 0 else 1.0


@dataclass(frozen=True)
class Balance:
    """The books of one operator: every row that came is somewhere, and in one place only.

    ``arrived + gained = processed + in flight + dropped + set aside + filtered``.

    Each number is counted where it happens, by another thread, so the books can be wrong: a row that is nowhere
    makes `faults`, while the run goes on (the gate holds fewer tuples than have not been processed) or at its end
    at the latest (something is still in flight); one that is counted twice makes a number negative.

    Parameters
    ----------
    arrived : int
        Rows that its sources, or the operators before it, have given.
    gained : int
        Rows that a flat_map before it made in addition.
    processed : int
        Tuples that every active instance has passed.
    waiting : int
        Rows on their way to the gate: held for disorder, queued, or being encoded.
    in_gate : int
        Tuples added that some active instance has yet to pass.
    dropped, set_aside : int
        Late rows.
    filtered : int
        Rows that a filter before it took out.
    faults : tuple of str
        What does not add up, each in a sentence.

    Examples
    --------
    >>> books = Balance(arrived=10, gained=0, processed=6, waiting=1, in_gate=1, dropped=2, set_aside=0, filtered=0)
    >>> bool(books), str(books)
    (True, '10 arrived = 6 processed + 2 in flight + 2 dropped')
    """

    arrived: int
    gained: int
    processed: int
    waiting: int
    in_gate: int
    dropped: int
    set_aside: int
    filtered: int
    faults: tuple[str, ...] = ()

    @property
    def in_flight(self) -> int:
        """Rows that arrived and are not processed yet."""
        return self.waiting + self.in_gate

    @property
    def holds(self) -> bool:
        """Whether nothing is lost and nothing is there twice."""
        left = self.processed + self.in_flight + self.dropped + self.set_aside + self.filtered
        return not self.faults and self.arrived + self.gained == left

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        came = f"{self.arrived:,} arrived" + (f" + {self.gained:,} gained" if self.gained else "")
        parts = [f"{self.processed:,} processed", f"{self.in_flight:,} in flight"]
        for number, word in ((self.dropped, "dropped"), (self.set_aside, "set aside"), (self.filtered, "filtered")):
            if number:
                parts.append(f"{number:,} {word}")
        return f"{came} = {' + '.join(parts)}" + "".join(f"; {fault}" for fault in self.faults)


@dataclass
class OperatorMetrics:
    """A snapshot of one operator.

    Lists are by worker, one entry for each of `max_threads`, whether it is active or not. Counts are since the
    start of the run; `headrace.history` has them by interval.
    """

    name: str
    threads: int
    max_threads: int
    added: int
    """Tuples that entered its gate."""
    processed: int
    """Tuples that every active instance has passed."""
    results: int
    updates: int
    """(key, window) updates, of all instances; of a join: stored tuples gone over."""
    comparisons: int
    """Pairs a join has looked at."""
    watermark: int
    depth_tuples: int
    """Tuples added that the slowest active instance has yet to pass."""
    live_keys: int
    state_bytes: int
    """Memory of the window instances; of a join: of the tuples it stores. An estimate."""
    busy_share: list[float]
    load: list[int]
    imbalance_cv: float
    """Coefficient of variation of the active instances' loads, a fraction: of each configuration by itself, weighted
    by the load that came in its time."""
    imbalance_max_mean: float
    latency_ms: dict[str, float]
    """p50, p99, max: emission of a result minus arrival of the tuple that made it ready."""
    filtered: int = 0
    """Rows that filters before it took out."""
    null_keys: int = 0
    """Null keys ignored by policy; their tuples were added all the same."""
    duplication: float = 1.0
    """Copies made of each tuple, for the instances that own one of its keys; 1 under VSN: all read the same one."""
    transferred_bytes: int = 0
    transferred_ns: int = 0
    """State moved between instances by reconfigurations so far; 0 under VSN."""
    seconds: float = 0.0
    """Since the first tuple of the run."""
    members: list[int] = field(default_factory=list)
    """Workers that are active."""
    busy_ns: list[int] = field(default_factory=list)
    idle_ns: list[int] = field(default_factory=list)
    blocked_ns: list[int] = field(default_factory=list)
    """How each worker spent the time it was active, what it does just now included: working, waiting for input,
    and waiting for room in its output ring or at the barrier of a reconfiguration."""
    idle_share: list[float] = field(default_factory=list)
    blocked_share: list[float] = field(default_factory=list)
    """Of the time a worker was active; with `busy_share` they sum to 1, or are 0 if it never was."""
    bucket_load: Sequence[int] = ()
    """Load of each of the mapping's 1,024 buckets, by sampling (`headrace.operators.loads`); in sum never more
    than `load`, and less by half a millisecond's work of each instance at most."""
    depth_ms: float = 0.0
    """Work that these `depth_tuples` are for the slowest active instance, at its recent speed."""
    watermark_gap: dict[str, int] = field(default_factory=dict)
    """By source, how far its time is behind the furthest source's, in the stream's unit. A source that ended is
    at 0; one that has not begun counts from the first event time of the others."""
    holds_back: str | None = None
    """The source that the others wait for; None if there is one source, or none is behind."""
    live_windows: int = 0
    """Window instances that exist (from 16,384 places on an estimate); of a join: the tuples it stores."""
    latest_latency_ms: dict[str, float] = field(default_factory=dict)
    """The papers' latency: emission minus arrival of the latest tuple in the result. Given for joins and
    `forward`, where that is the tuple that made the result ready. For windows it is not: each update would have
    to write the time of arrival beside the value, 8 bytes more for each key and window, where a whole count is 4."""
    lost_wakeups: int = 0
    """Sleeps, of its sources for room and of its collector for results, that only the time-out ended although the
    wake-up was due. 0; anything else is a mistake in the engine, and costs time only."""
    balance: Balance | None = None
    """Whether added = processed + in flight + dropped + set aside, and all its numbers."""

    @property
    def in_flight(self) -> int:
        return self.added - self.processed

    @property
    def input_per_s(self) -> float:
        """Tuples added per second, since the first."""
        return _rate(self.added, self.seconds)

    @property
    def output_per_s(self) -> float:
        """Results per second, since the first tuple."""
        return _rate(self.results, self.seconds)

    @property
    def comparisons_per_s(self) -> float:
        """Of a join, since the first tuple."""
        return _rate(self.comparisons, self.seconds)


@dataclass
class Metrics:
    """A snapshot of a run.

    `tuples_in` rows came from the sources; `dropped` and `set_aside` of them
    were late; the others were filtered or entered an operator.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> table = pa.table({"ts": range(1000), "k": ["a", "b"] * 500})
    >>> with hr.stream(table, event_time="ts").key_by("k").window(10).aggregate("n", n=hr.count()).start() as run:
    ...     done = run.wait()
    ...     metrics = run.metrics()
    >>> metrics.tuples_in, str(metrics.operators["n"].balance)
    (1000, '1,000 arrived = 1,000 processed + 0 in flight')
    """

    state: str
    seconds: float
    tuples_in: int
    tuples_out: int
    dropped: int = 0
    set_aside: int = 0
    operators: dict[str, OperatorMetrics] = field(default_factory=dict)
    rate: float | None = None
    """Tuples per second and source that are played now; None at full speed."""
    at_ns: int = 0
    """Monotonic time of the snapshot."""
    waiting: int = 0
    """Of `tuples_in`: read, and not yet taken by an operator, filtered, or late."""

    @property
    def input_per_s(self) -> float:
        """Rows from the sources that were taken per second, since the first."""
        return _rate(self.tuples_in - self.waiting, self.seconds)

    @property
    def output_per_s(self) -> float:
        """Results of the query per second, since the first tuple."""
        return _rate(self.tuples_out, self.seconds)

    @property
    def holds(self) -> bool:
        """Whether the books of every operator balance."""
        return all(operator.balance is None or operator.balance.holds for operator in self.operators.values())

    def to_dict(self) -> dict:
        """Plain numbers and lists, for JSON."""
        return _plain(self)

    def to_pandas(self) -> pd.DataFrame:
        """One row for each operator, what it has once as columns; balance in words."""
        import pandas as pd

        rows = []
        for operator in self.operators.values():
            row: dict[str, Any] = {"operator": operator.name}
            for name in (f.name for f in fields(operator)):
                value = getattr(operator, name)
                if name in ("latency_ms", "latest_latency_ms"):
                    row |= {f"{name[:-3]}_{part}_ms": value.get(part, float("nan")) for part in ("p50", "p99", "max")}
                elif name == "watermark_gap":
                    row |= {f"gap_{source}": gap for source, gap in value.items()}
                elif name == "balance":
                    row |= {"balance": str(value), "balance_holds": value is None or value.holds}
                elif isinstance(value, (int, float, str)) or value is None:
                    row[name] = value
            row.pop("name")
            for name in ("in_flight", "input_per_s", "output_per_s", "comparisons_per_s"):
                row[name] = getattr(operator, name)
            rows.append(row)
        return pd.DataFrame(rows)


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


def _plain(value: Any) -> Any:
    if isinstance(value, Balance):
        own = {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
        return own | {"in_flight": value.in_flight, "holds": value.holds}
    if isinstance(value, (Metrics, OperatorMetrics)):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, str) or not isinstance(value, Sequence):
        return value
    return [_plain(part) for part in value]
