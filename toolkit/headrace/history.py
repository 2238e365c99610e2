"""What a run's counters said over time: for reports and dashboards.

Counters only grow, so a rate is a difference between two samples. Latency is
kept as a histogram, and the difference of two histograms is the latency of the
results between them.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.counters import LatencyHistogram, Metrics

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_EVERY_S = 0.05
DEFAULT_LIMIT = 2_000


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
)
"""Of `Sampler.to_pandas`, before the loads of the instances."""


@dataclass(frozen=True)
class Sample:
    """The counters of a run at one moment."""

    at_ns: int
    metrics: Metrics
    latencies: dict[str, np.ndarray]


class Sampler:
    """Collects snapshots of a run.

    Parameters
    ----------
    run : Run
    every_s : float
        Time between samples when `follow` takes them.
    limit : int
        The most that are kept: when there are more, every second one is dropped and `every_s`
        doubles, so that a long run has a coarse history and not a long one.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> table = pa.table({"ts": range(1000), "k": ["a", "b"] * 500})
    >>> with hr.stream(table, event_time="ts").key_by("k").window(10).aggregate(n=hr.count()).start() as run:
    ...     sampler = Sampler(run)
    ...     sampler.follow()
    >>> int(sampler.to_pandas()["processed"].iloc[-1])
    1000
    """

    def __init__(self, run: Any, every_s: float = DEFAULT_EVERY_S, limit: int = DEFAULT_LIMIT):
        self.run, self.every_s, self.limit = run, every_s, max(2, limit)
        self.samples: list[Sample] = []
        self.origin_ns = time.monotonic_ns()
        """Monotonic time at which the first tuple was added, where times in `to_pandas` begin."""

    def __len__(self) -> int:
        return len(self.samples)

    def sample(self) -> Metrics:
        """Take one snapshot now."""
        latencies = self._latencies()
        metrics = self.run.metrics()
        now = time.monotonic_ns()
        if metrics.state == "running":
            self.origin_ns = now - round(metrics.seconds * 1e9)
        else:
            now = self.origin_ns + round(metrics.seconds * 1e9)
        self.samples.append(Sample(now, metrics, latencies))
        if len(self.samples) > self.limit:
            del self.samples[1:-1:2]
            self.every_s *= 2
        return metrics

    def _latencies(self) -> dict[str, np.ndarray]:
        # The engine's runs keep a histogram for each operator; other runs may have none.
        operators = getattr(self.run, "_operators", {})
        return {
            name: operator.collector.latency._counts.copy()
            for name, operator in operators.items()
            if operator.collector is not None
        }

    def follow(self, on_sample: Any = None) -> None:
        """Take samples until the run has ended; `on_sample(metrics)` is called after each.

        Raises
        ------
        HeadraceError
            What made the run fail.
        """
        is_over = False
        while not is_over:
            is_over = self.run.wait(self.every_s)
            metrics = self.sample()
            if on_sample is not None and not is_over:
                on_sample(metrics)

    def seconds_of(self, at_ns: int) -> float:
        """A monotonic time, such as a change's `completed_ns`, in seconds since the first tuple."""
        return (at_ns - self.origin_ns) / 1e9

    def to_pandas(self, operator: str | None = None) -> pd.DataFrame:
        """Give the history of one operator, by default the first: one row for each sample.

        Returns
        -------
        DataFrame
            seconds since the first tuple; tuples_in, tuples_out, added, processed, depth_tuples, so far;
            threads; tuples_per_s, latency_p50_ms, latency_p99_ms and load_0, load_1, ... (updates per
            second of each instance) since the sample before. Latency is NaN where nothing came out.
        """
        import pandas as pd

        rows, before = [], None
        for sample in self.samples:
            name = operator or next(iter(sample.metrics.operators), None)
            if name is None or not sample.metrics.operators[name].added:
                continue
            row = self._row(sample, before, name)
            if row is not None:
                rows.append(row)
                before = sample
        return pd.DataFrame(rows, columns=None if rows else list(COLUMNS))

    def _row(self, sample: Sample, before: Sample | None, name: str) -> dict[str, float] | None:
        now, then = sample.metrics.operators[name], None
        start_ns = self.origin_ns
        if before is not None:
            then, start_ns = before.metrics.operators[name], before.at_ns
        interval_s = (sample.at_ns - start_ns) / 1e9
        if interval_s <= 0:
            return None
        counts = sample.latencies.get(name)
        if counts is not None and before is not None:
            counts = counts - before.latencies[name]
        loads = np.array(now.load) - (np.array(then.load) if then else 0)
        values = (
            self.seconds_of(sample.at_ns),
            sample.metrics.tuples_in,
            sample.metrics.tuples_out,
            now.added,
            now.processed,
            now.depth_tuples,
            now.threads,
            (now.processed - (then.processed if then else 0)) / interval_s,
            _quantile_ms(counts, 0.5),
            _quantile_ms(counts, 0.99),
        )
        return dict(zip(COLUMNS, values, strict=True)) | {
            f"load_{i}": load / interval_s for i, load in enumerate(loads)
        }


def _quantile_ms(counts: np.ndarray | None, q: float) -> float:
    if counts is None:
        return math.nan
    histogram = LatencyHistogram()
    histogram._counts = counts
    histogram._max = 2**62  # of an interval it is not known
    return histogram.quantile_ms(q)
