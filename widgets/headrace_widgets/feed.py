"""From a run's counters to columns that can be drawn.

The feed reads `run.history` where the run keeps one, so that a dashboard that is
opened late shows what was before; else it takes its own snapshots. Counters only
grow: a rate is a difference between two samples, and the difference between two
latency histograms is the latency of the results between them.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.counters import (
    LatencyHistogram,
    Metrics,
    OperatorMetrics,
    coefficient_of_variation,
    max_over_mean,
)
from headrace_widgets.table import Table

SPAN_S = 0.5
"""Rates and quantiles are of about so long: shorter, and they show the batches instead of the stream."""
MOST_THREADS_DRAWN = 16
MEASURES = (
    "t", "input_rate", "throughput", "results_rate", "p50", "p99", "threads", "cv", "max_mean",
    "depth", "depth_ms", "rate",
)  # fmt: skip


@dataclass(frozen=True)
class Snapshot:
    """A run's counters at one moment, where the run keeps no history."""

    at_ns: int
    metrics: Metrics
    latencies: dict[str, np.ndarray] = field(default_factory=dict)


class Feed:
    """Columns of numbers for each operator of a run.

    Parameters
    ----------
    run : Run
    limit : int
        Rows kept for each operator; see `Table`.

    Attributes
    ----------
    tables : dict of operator name to Table
        Columns `MEASURES` (t in seconds since the first tuple, rates in tuples per second, latency and
        `depth_ms` in milliseconds, cv a fraction), then for each thread i: load_i (updates per second),
        busy_i, idle_i, blocked_i (shares of its time); then gap_NAME for each source.
    metrics : Metrics or None
        The newest snapshot.
    """

    def __init__(self, run: Any, limit: int = 6_000):
        self._run, self._limit = run, limit
        self.tables: dict[str, Table] = {}
        self.sources: dict[str, tuple[str, ...]] = {}
        self._threads: dict[str, int] = {}
        self.metrics: Metrics | None = None
        self.origin_ns: int | None = None
        self.watermarks_rose = True
        self._recent: deque[Any] = deque()
        self._seen_ns = 0
        for name, operator in run.metrics().operators.items():
            self._open(name, operator)

    def poll(self) -> bool:
        """Take what is new; whether there was anything."""
        samples = self._new_samples()
        for sample in samples:
            self._take(sample)
        return bool(samples)

    def _new_samples(self) -> list[Any]:
        history = getattr(self._run, "history", None)
        if history is not None and (len(history) or self._run.state != "running"):
            return history.since(self._seen_ns)
        return [Snapshot(time.monotonic_ns(), self._run.metrics())]

    def _take(self, sample: Any) -> None:
        metrics = sample.metrics
        was_over = self.metrics is not None and self.metrics.state != "running"
        self._check_watermarks(metrics)
        self.metrics, self._seen_ns = metrics, sample.at_ns
        if was_over or not any(operator.added for operator in metrics.operators.values()):
            return
        if self.origin_ns is None:
            self.origin_ns = sample.at_ns - round(metrics.seconds * 1e9)
        before = self._before(sample.at_ns)
        self._recent.append(sample)
        if before is None:
            return  # a rate needs two
        for name in metrics.operators:
            self._append(name, sample, before)

    def _check_watermarks(self, metrics: Metrics) -> None:
        if self.metrics is None:
            return
        for name, operator in metrics.operators.items():
            before = self.metrics.operators.get(name)
            if before is not None and operator.watermark < before.watermark:
                self.watermarks_rose = False

    def _before(self, at_ns: int) -> Any:
        """The sample that differences are taken to: the youngest that is at least `SPAN_S` old."""
        recent = self._recent
        while len(recent) > 1 and at_ns - recent[1].at_ns >= SPAN_S * 1e9:
            recent.popleft()
        return recent[0] if recent and recent[0].at_ns < at_ns else None

    def _append(self, name: str, sample: Any, before: Any) -> None:
        now: OperatorMetrics = sample.metrics.operators[name]
        then: OperatorMetrics = before.metrics.operators[name]
        seconds = (sample.at_ns - before.at_ns) / 1e9
        threads = self.threads_of(name)
        load = np.array(now.load, np.float64) - then.load
        active = load[now.members]
        # Who came or left meanwhile had less time than the others: that is no imbalance.
        uneven = (np.nan, np.nan)
        if now.members == then.members:
            uneven = coefficient_of_variation(active), max_over_mean(active)
        rate = sample.metrics.rate
        self.tables[name].append(
            [
                self.seconds_of(sample.at_ns),
                (now.added - then.added) / seconds,
                (now.processed - then.processed) / seconds,
                (now.results - then.results) / seconds,
                *self._latency(name, sample, before),
                now.threads,
                *uneven,
                now.depth_tuples,
                now.depth_ms,
                np.nan if rate is None else rate,
                *(load[:threads] / seconds),
                *shares_between(now, then, threads).ravel(),
                *(now.watermark_gap.get(source, np.nan) for source in self.sources[name]),
            ]
        )

    def _latency(self, name: str, sample: Any, before: Any) -> tuple[float, float]:
        """Median and 99th percentile of the newest results: where none came, those of the ones before."""
        p50, p99 = latency_between(sample, before, name)
        if p50 != p50:
            last = self.tables[name].last
            return last.get("p50", np.nan), last.get("p99", np.nan)
        return p50, p99

    def _open(self, name: str, operator: OperatorMetrics) -> None:
        threads = range(min(len(operator.load), MOST_THREADS_DRAWN))
        per_thread = [f"{kind}_{i}" for kind in ("load", "busy", "idle", "blocked") for i in threads]
        self._threads[name] = len(threads)
        self.sources[name] = tuple(operator.watermark_gap)
        gaps = [f"gap_{source}" for source in self.sources[name]]
        self.tables[name] = Table([*MEASURES, *per_thread, *gaps], self._limit)

    @property
    def newest_s(self) -> float:
        """Seconds from the first tuple to the newest sample."""
        return self.seconds_of(self._seen_ns) if self._seen_ns else 0.0

    def seconds_of(self, at_ns: int) -> float:
        """A monotonic time in seconds since the first tuple."""
        return (at_ns - (self.origin_ns or at_ns)) / 1e9

    def threads_of(self, name: str) -> int:
        """How many threads of an operator have columns."""
        return self._threads[name]


def shares_between(now: OperatorMetrics, then: OperatorMetrics, threads: int) -> np.ndarray:
    """float64[3, threads]: busy, idle and blocked shares of what each thread did between two snapshots."""
    spent = np.array([now.busy_ns, now.idle_ns, now.blocked_ns], np.float64)
    spent -= np.array([then.busy_ns, then.idle_ns, then.blocked_ns], np.float64)
    spent = np.maximum(spent[:, :threads], 0)
    return spent / np.maximum(spent.sum(axis=0), 1)


def latency_between(sample: Any, before: Any, name: str) -> tuple[float, float]:
    """Median and 99th percentile in milliseconds of the results between two samples; NaN without results."""
    if name not in sample.latencies or name not in before.latencies:
        return np.nan, np.nan
    between = LatencyHistogram(sample.latencies[name] - before.latencies[name]).summary()
    return between["p50"], between["p99"]
