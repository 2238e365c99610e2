"""From a run's counters to columns that can be drawn.

The feed reads `run.history` where the run keeps one, so that a dashboard that is
opened late shows what was before; else it takes its own snapshots. Counters only
grow: a rate is a difference between two samples, and the difference between two
latency histograms is the latency of the results between them.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.counters import LatencyHistogram, Metrics, OperatorMetrics
from headrace_widgets.table import Table

SPAN_S = 0.5
"""Rates and quantiles are of about so long: shorter, and they show the batches instead of the stream."""
MOST_THREADS_DRAWN = 16
MEASURES = ("t", "input_rate", "throughput", "p50", "p99", "threads", "cv", "max_mean", "depth", "rate")
SAID = ("results_rate", "depth_ms")
"""Not drawn, only said in words."""


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
        Columns `MEASURES` (t in seconds since the first tuple, rates in tuples per second, latency in
        milliseconds, cv a fraction), load_i (updates per second) of each thread, gap_NAME of each source: what is
        drawn over time stands together. Then `SAID` (depth_ms in milliseconds), and busy_i, idle_i, blocked_i
        (shares of its time) of each thread.
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
        if was_over:
            return
        if self.origin_ns is None:
            if not any(operator.added for operator in metrics.operators.values()):
                return
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
        load = [a - b for a, b in zip(now.load, then.load, strict=True)]
        # Who came or left meanwhile had less time than the others: that is no imbalance.
        uneven = (np.nan, np.nan)
        if now.members == then.members:
            uneven = unevenness([load[i] for i in now.members])
        rate = sample.metrics.rate
        self.tables[name].append(
            [
                self.seconds_of(sample.at_ns),
                (now.added - then.added) / seconds,
                (now.processed - then.processed) / seconds,
                *self._latency(name, sample, before),
                now.threads,
                *uneven,
                now.depth_tuples,
                np.nan if rate is None else rate,
                *[updates / seconds for updates in load[:threads]],
                *[now.watermark_gap.get(source, np.nan) for source in self.sources[name]],
                (now.results - then.results) / seconds,
                now.depth_ms,
                *shares_between(now, then, threads),
            ]
        )

    def _latency(self, name: str, sample: Any, before: Any) -> tuple[float, float]:
        """Median and 99th percentile of the newest results: where none came, those of the ones before."""
        now, then = sample.metrics.operators[name], before.metrics.operators[name]
        if now.results != then.results:
            p50, p99 = latency_between(sample, before, name)
            if p50 == p50:
                return p50, p99
        table = self.tables[name]
        return table.newest("p50"), table.newest("p99")

    def _open(self, name: str, operator: OperatorMetrics) -> None:
        threads = range(min(len(operator.load), MOST_THREADS_DRAWN))
        loads = [f"load_{i}" for i in threads]
        shares = [f"{kind}_{i}" for kind in ("busy", "idle", "blocked") for i in threads]
        self._threads[name] = len(threads)
        self.sources[name] = tuple(operator.watermark_gap)
        gaps = [f"gap_{source}" for source in self.sources[name]]
        self.tables[name] = Table([*MEASURES, *loads, *gaps, *SAID, *shares], self._limit)

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


# Of a handful of threads: plain Python, where NumPy spends most of its time on being called.


def unevenness(loads: Sequence[float]) -> tuple[float, float]:
    """Coefficient of variation of the active threads' loads, and the largest over the mean; (0, 1) without load."""
    mean = sum(loads) / max(len(loads), 1)
    if not mean > 0:
        return 0.0, 1.0
    variance = sum([(load - mean) ** 2 for load in loads]) / len(loads)
    return math.sqrt(variance) / mean, max(loads) / mean


def shares_between(now: OperatorMetrics, then: OperatorMetrics, threads: int) -> list[float]:
    """Busy shares of what each thread did between two snapshots, then idle shares, then blocked ones."""
    shares = [0.0] * (3 * threads)
    for i in range(threads):
        busy = max(now.busy_ns[i] - then.busy_ns[i], 0)
        idle = max(now.idle_ns[i] - then.idle_ns[i], 0)
        blocked = max(now.blocked_ns[i] - then.blocked_ns[i], 0)
        whole = max(busy + idle + blocked, 1)
        shares[i::threads] = busy / whole, idle / whole, blocked / whole
    return shares


def latency_between(sample: Any, before: Any, name: str) -> tuple[float, float]:
    """Median and 99th percentile in milliseconds of the results between two samples; NaN without results."""
    if name not in sample.latencies or name not in before.latencies:
        return np.nan, np.nan
    between = LatencyHistogram(sample.latencies[name] - before.latencies[name]).summary()
    return between["p50"], between["p99"]
