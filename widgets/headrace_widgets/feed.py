"""Converting a run's counters to rows that can be drawn.

The feed reads `run.history` where the run keeps one, so that a dashboard that is
opened late shows the time before; otherwise it takes its own snapshots. Counters only
grow: a rate is a difference between two samples, and the difference between two
histograms has the durations between them.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.metrics.measures import WATERMARK, Measure
from headrace.metrics.snapshot import Metrics
from headrace_widgets.columns import OperatorColumns
from headrace_widgets.heat import Heat
from headrace_widgets.table import Table

SPAN_S = 0.5
"""Rates and quantiles are over about this long: over a shorter time they would show batches instead of the stream."""
OF_EVERY_ENGINE = ("t", "threads", "depth_tuples", "rate", "behind", "lag_s", "delay_s")
"""Columns besides those of the measures: seconds since the first tuple, active threads, tuples in the operator; the total
rate at which tuples of its sources are due; the run's backlog, due tuples that are not admitted yet (NaN where event times
are played); the lag, how long the oldest of them has been due; and the delay of results: the 99th percentile of the latency
plus the lag."""
_LATENCY = "latency_p99_ms"


@dataclass(frozen=True)
class Snapshot:
    """A run's counters at one moment, where the run keeps no history."""

    at_ns: int
    metrics: Metrics


def check_is_run(run: Any) -> None:
    """Raise ValueError unless it can be watched; a query cannot, before it is started."""
    if not hasattr(run, "metrics"):
        raise ValueError(f"a {type(run).__name__} is not a run: give what start() returns, as in query.start(rate=10_000)")


class Feed:
    """A table of numbers for each operator of a run.

    Parameters
    ----------
    run : Run
    is_wanted : function of Measure, optional
        Whether a measure is to have columns, so that one that is not shown costs nothing.
    limit : int
        Rows kept for each operator; see `Table`.

    Attributes
    ----------
    columns : dict of operator name to OperatorColumns
        The columns of its measures.
    tables : dict of operator name to Table
        Columns `OF_EVERY_ENGINE`, then those of the measures.
    heat : dict of operator name to dict of measure's name to Heat
        Heat maps of its histograms.
    metrics : Metrics or None
        The newest snapshot.
    """

    def __init__(self, run: Any, is_wanted: Callable[[Measure], bool] | None = None, limit: int = 6_000):
        self._run = run
        self.columns = {
            name: OperatorColumns(operator, is_wanted) for name, operator in run.metrics().operators.items()
        }
        self.tables = {
            name: Table([*OF_EVERY_ENGINE, *columns.names], limit) for name, columns in self.columns.items()
        }
        self.heat = {
            name: {one: Heat() for one, measure in columns.measures.items() if measure.kind == "histogram" and one in columns.of}
            for name, columns in self.columns.items()
        }
        self.metrics: Metrics | None = None
        self.origin_ns: int | None = None
        self.watermarks_rose = True
        self._recent: deque[Any] = deque()
        self._seen_ns = 0

    def poll(self) -> bool:
        """Take new samples; returns whether there were any."""
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
            if not any(operator.values["added"] for operator in metrics.operators.values()):
                return
            self.origin_ns = sample.at_ns - round(metrics.seconds * 1e9)
        before = self._before(sample.at_ns)
        self._recent.append(sample)
        if before is None:
            return  # a rate needs two samples
        for name in metrics.operators:
            self._append(name, sample, before)

    def _check_watermarks(self, metrics: Metrics) -> None:
        if self.metrics is None:
            return
        for name, operator in metrics.operators.items():
            before = self.metrics.operators.get(name)
            if before is None or WATERMARK.name not in operator.values:
                continue
            if operator.values[WATERMARK.name] < before.values[WATERMARK.name]:
                self.watermarks_rose = False

    def _before(self, at_ns: int) -> Any:
        """Return the sample that differences are taken from: the newest that is at least `SPAN_S` older."""
        recent = self._recent
        while len(recent) > 1 and at_ns - recent[1].at_ns >= SPAN_S * 1e9:
            recent.popleft()
        return recent[0] if recent and recent[0].at_ns < at_ns else None

    def _append(self, name: str, sample: Any, before: Any) -> None:
        now, then = sample.metrics.operators[name], before.metrics.operators[name]
        seconds = (sample.at_ns - before.at_ns) / 1e9
        metrics, columns, lag_s = sample.metrics, self.columns[name], sample.metrics.lag_s
        behind = metrics.behind if metrics.counts_due else math.nan
        row = columns.row(now, then, seconds)
        latency_s = row[columns.names.index(_LATENCY)] / 1e3 if _LATENCY in columns.names else math.nan
        at = [self.seconds_of(sample.at_ns), now.threads, now.depth_tuples]
        self.tables[name].append([*at, due_rate(metrics, name), behind, lag_s, lag_s + latency_s, *row])
        for histogram, heat in self.heat[name].items():
            if (counts := now.counts(histogram)) is not None:
                heat.add(at[0], counts)

    @property
    def newest_s(self) -> float:
        """Seconds from the first tuple to the newest sample."""
        return self.seconds_of(self._seen_ns) if self._seen_ns else 0.0

    def seconds_of(self, at_ns: int) -> float:
        """Convert a monotonic time to seconds since the first tuple."""
        return (at_ns - (self.origin_ns or at_ns)) / 1e9


def due_rate(metrics: Metrics, operator: str) -> float:
    """Return the tuples per second that are due from all sources of an operator together.

    NaN at full speed, and where event times are played: the number of tuples is not known before they come.
    """
    rates = [source.rate for source in metrics.sources if source.operator == operator]
    if not metrics.sources:
        rates = [metrics.rate]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else math.nan
