"""What a run's counters said over time: for reports, dashboards and controllers.

Counters only grow, so a rate is a difference between two samples. Latency is
kept as a histogram, and the difference of two histograms is the latency of the
results between them.

Every run keeps a history, `run.history`, filled by one thread of its own; it
costs less than a thousandth of the run (`headrace bench metrics`).
"""

from __future__ import annotations

import bisect
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.counters import (
    LatencyHistogram,
    Metrics,
    OperatorMetrics,
    coefficient_of_variation,
    max_over_mean,
)

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_EVERY_S = 0.1
DEFAULT_LIMIT = 1_000

COLUMNS = (
    "seconds",
    "tuples_in",
    "tuples_out",
    "added",
    "processed",
    "depth_tuples",
    "threads",
    "tuples_per_s",
    "latency_p50_ms",
    "latency_p99_ms",
    "latency_max_ms",
    "input_per_s",
    "output_per_s",
    "updates_per_s",
    "comparisons_per_s",
    "imbalance_cv",
    "imbalance_max_mean",
    "depth_ms",
    "live_keys",
    "live_windows",
    "state_bytes",
    "dropped",
    "set_aside",
    "filtered",
    "null_keys",
    "lost_wakeups",
    "rate",
    "holds_back",
    "balance_holds",
)
"""Of `History.to_pandas`, before those of each source and each worker."""

_OF_EACH_WORKER = ("load", "busy", "idle", "blocked")


@dataclass(frozen=True)
class Sample:
    """The counters of a run at one moment."""

    at_ns: int
    metrics: Metrics
    latencies: dict[str, np.ndarray]
    """By operator: the counts of its `LatencyHistogram`."""


class History:
    """Samples of a run, oldest first, and never more than a limit.

    Parameters
    ----------
    take : callable
        Gives the run's metrics, and by operator the counts of its histogram of latency.
    every_s : float
        Time between samples.
    limit : int
        The most that are kept, some 20 kB for each operator: when there are more, every second one of the older
        half is dropped, so that a long run has a coarse beginning and its last minute is always fine.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> table = pa.table({"ts": range(1000), "k": ["a", "b"] * 500})
    >>> with hr.stream(table, event_time="ts").key_by("k").window(10).aggregate(n=hr.count()).start() as run:
    ...     done = run.wait()
    ...     frame = run.history.to_pandas()
    >>> int(frame["processed"].iloc[-1])
    1000
    """

    def __init__(
        self,
        take: Callable[[], tuple[Metrics, dict[str, np.ndarray]]],
        every_s: float = DEFAULT_EVERY_S,
        limit: int = DEFAULT_LIMIT,
    ):
        self._take = take
        self.every_s, self.limit = every_s, max(2, limit)
        self.failure: Exception | None = None
        """Why sampling came to an end before the run did; it never ends the run."""
        self._samples: list[Sample] = []
        self._is_complete = False
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def samples(self) -> list[Sample]:
        """All samples kept, a copy of the list."""
        with self._lock:
            return list(self._samples)

    @property
    def origin_ns(self) -> int:
        """Monotonic time at which the first tuple was added, where times in `to_pandas` begin."""
        with self._lock:
            last = self._samples[-1] if self._samples else None
        return last.at_ns - round(last.metrics.seconds * 1e9) if last else 0

    def since(self, at_ns: int) -> list[Sample]:
        """Give the samples taken after a monotonic time: after the last one seen, those that are new."""
        with self._lock:
            first = bisect.bisect_right(self._samples, at_ns, key=lambda sample: sample.at_ns)
            return self._samples[first:]

    def seconds_of(self, at_ns: int) -> float:
        """A monotonic time, such as a change's `completed_ns`, in seconds since the first tuple."""
        return (at_ns - self.origin_ns) / 1e9

    # -- taking samples

    def sample(self) -> Metrics:
        """Take one sample now."""
        with self._lock:
            return self._sample()

    def _sample(self) -> Metrics:
        metrics, latencies = self._take()
        if self._samples and self._samples[-1].at_ns >= metrics.at_ns:
            self._samples.pop()  # of the same moment: the end of the run
        self._samples.append(Sample(metrics.at_ns, metrics, latencies))
        if len(self._samples) > self.limit:
            del self._samples[1 : max(2, len(self._samples) // 2) : 2]
        return metrics

    def follow(self, over: threading.Event) -> None:
        """Take samples until the event is set, and a last one then. Body of the run's thread."""
        try:
            while not over.wait(self.every_s):
                self.sample()
            self.complete()
        except Exception as error:
            self.failure = error

    def complete(self) -> None:
        """Take the last sample of a run that is over, unless it was taken."""
        with self._lock:
            if not self._is_complete:
                self._is_complete = True
                self._sample()

    # -- what they say

    def to_pandas(self, operator: str | None = None) -> pd.DataFrame:
        """Give the history of one operator, by default the first: one row for each sample.

        Returns
        -------
        DataFrame
            seconds since the first tuple; so far: tuples_in, tuples_out, added, processed, dropped, set_aside,
            filtered, null_keys, lost_wakeups; at the time: depth_tuples, depth_ms, threads, live_keys, live_windows,
            state_bytes, rate (NaN: full speed), holds_back, balance_holds, gap_<source> (watermark gap);
            since the row before: tuples_per_s (processed), input_per_s (added), output_per_s, updates_per_s,
            comparisons_per_s, latency_p50_ms, _p99_ms, _max_ms (NaN where nothing came out), imbalance_cv (a
            fraction) and imbalance_max_mean of the active workers, and for each worker i load_i (per second),
            busy_i, idle_i and blocked_i (shares of the time it was active).
        """
        import pandas as pd

        rows, before = [], None
        origin_ns = self.origin_ns
        for sample in self.samples:
            name = operator or next(iter(sample.metrics.operators), None)
            if name is None or not sample.metrics.operators[name].added:
                continue
            interval_s = (sample.at_ns - (before.at_ns if before is not None else origin_ns)) / 1e9
            if interval_s > 0:
                rows.append({"seconds": (sample.at_ns - origin_ns) / 1e9} | _row(sample, before, name, interval_s))
                before = sample
        return pd.DataFrame(rows, columns=None if rows else list(COLUMNS))

    def bucket_loads(self, operator: str | None = None) -> pd.DataFrame:
        """Give the load of each of the 1,024 buckets between a sample and the one before.

        Returns
        -------
        DataFrame
            int64; the index is seconds since the first tuple, a column is a bucket.
        """
        import pandas as pd

        origin_ns, samples = self.origin_ns, self.samples
        names = [operator or next(iter(sample.metrics.operators)) for sample in samples]
        loads = [np.array(s.metrics.operators[n].bucket_load) for s, n in zip(samples, names, strict=True)]
        seconds = [(sample.at_ns - origin_ns) / 1e9 for sample in samples]
        table = np.diff(np.array(loads), axis=0, prepend=0) if loads else np.zeros((0, 0), np.int64)
        return pd.DataFrame(table, index=pd.Index(seconds, name="seconds"))


def shares_between(now: OperatorMetrics, then: OperatorMetrics | None) -> np.ndarray:
    """float64[3, workers]: busy, idle and blocked shares of each worker's active time between two snapshots.

    A column sums to 1, or to 0 where the worker was not active.
    """
    spent = np.array([now.busy_ns, now.idle_ns, now.blocked_ns], np.float64)
    if then is not None:
        spent -= np.array([then.busy_ns, then.idle_ns, then.blocked_ns], np.float64)
    spent = np.maximum(spent, 0)
    return spent / np.maximum(spent.sum(axis=0), 1)


def _row(sample: Sample, before: Sample | None, name: str, interval_s: float) -> dict[str, Any]:
    run, now = sample.metrics, sample.metrics.operators[name]
    then = before.metrics.operators[name] if before is not None else None
    counts = sample.latencies.get(name)
    if counts is not None and before is not None:
        counts = counts - before.latencies[name]
    latency = LatencyHistogram(counts).summary()
    load = np.array(now.load) - (np.array(then.load) if then else 0)
    active = load[now.members]

    def per_s(counter: str) -> float:
        return (getattr(now, counter) - (getattr(then, counter) if then else 0)) / interval_s

    values = (
        run.tuples_in,
        run.tuples_out,
        now.added,
        now.processed,
        now.depth_tuples,
        now.threads,
        per_s("processed"),
        latency["p50"],
        latency["p99"],
        latency["max"],
        per_s("added"),
        per_s("results"),
        per_s("updates"),
        per_s("comparisons"),
        coefficient_of_variation(active),
        max_over_mean(active),
        now.depth_ms,
        now.live_keys,
        now.live_windows,
        now.state_bytes,
        run.dropped,
        run.set_aside,
        now.filtered,
        now.null_keys,
        now.lost_wakeups,
        math.nan if run.rate is None else run.rate,
        now.holds_back,
        now.balance is None or now.balance.holds,
    )
    row: dict[str, Any] = dict(zip(COLUMNS[1:], values, strict=True))
    row |= {f"gap_{source}": gap for source, gap in now.watermark_gap.items()}
    each = (load / interval_s, *shares_between(now, then))
    for kind, numbers in zip(_OF_EACH_WORKER, each, strict=True):
        row |= {f"{kind}_{i}": number for i, number in enumerate(numbers.tolist())}
    return row
