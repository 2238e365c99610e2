"""Changes between two snapshots: the columns of a history, made from the engine's measures.

A counter only grows, so a rate is a difference; the difference of two histograms
is the histogram of the durations between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headrace.metrics.by_worker import shares_of
from headrace.metrics.latency import LatencyHistogram
from headrace.metrics.measures import QUANTILES, Measure
from headrace.metrics.snapshot import Metrics, OperatorMetrics


def difference(now: OperatorMetrics, then: OperatorMetrics | None, name: str) -> np.ndarray:
    """Return the growth of a counter by worker, source and so on; without `then`, since the start of the run."""
    return _numbers(now, name) - (0 if then is None else _numbers(then, name))


def _numbers(metrics: OperatorMetrics, name: str) -> np.ndarray:
    value = metrics.values[name]
    return np.array(list(value.values()) if isinstance(value, dict) else value)


def histogram_between(now: OperatorMetrics, then: OperatorMetrics | None, name: str) -> LatencyHistogram:
    """Return the histogram of the durations between two snapshots; it is empty where nothing can be counted."""
    after, before = now.counts(name), None if then is None else then.counts(name)
    return LatencyHistogram(after if after is None or before is None else after - before)


def parts_of(measures: Sequence[Measure], whole: str = "time") -> tuple[Measure, ...]:
    """Return the measures that are parts of a whole, in the order of declaration."""
    return tuple(measure for measure in measures if measure.part_of == whole)


def shares_between(now: OperatorMetrics, then: OperatorMetrics | None, whole: str = "time") -> np.ndarray:
    """Return float64[parts, workers]: the share of each part in a whole, between two snapshots.

    For "time" the parts are how a worker spent the time it was active: busy, idle, blocked. A column sums to 1, or to 0
    where there was nothing.
    """
    return shares_of(np.array([difference(now, then, part.name) for part in parts_of(now.measures, whole)]))


class Columns:
    """The columns of an operator's history that its measures make.

    Parameters
    ----------
    measures : sequence of Measure

    Attributes
    ----------
    names : tuple of str
        In order, before the columns of each source, stage and worker: first totals so far, then what the measures say of
        the interval or the moment, as declared; then plain counters, texts, and tuples that are due but not taken.

    Examples
    --------
    >>> from headrace.metrics.measures import NEEDED
    >>> Columns(NEEDED).names[-8:]
    ('input_per_s', 'output_per_s', 'dropped', 'set_aside', 'rate', 'balance_holds', 'behind', 'lag_s')
    """

    def __init__(self, measures: Sequence[Measure]):
        shown = [measure for measure in measures if measure.goes_to("column")]
        self._in_all = [measure for measure in shown if measure.by is None]
        self._by = [measure for measure in shown if measure.by not in (None, "bucket")]
        self._made: dict[tuple[str, int], tuple[str, ...]] = {}
        measured = [m for m in self._in_all if m.rate or m.kind in ("gauge", "histogram")]
        self.names = (
            *("seconds", "tuples_in", "tuples_out", "added", "processed", "depth_tuples", "threads"),
            *(column for measure in measured for column in measure.columns),
            *("dropped", "set_aside"),
            *(measure.name for measure in self._in_all if measure.kind == "counter" and not measure.rate),
            "rate",
            *(measure.name for measure in self._in_all if measure.kind == "text"),
            *("balance_holds", "behind", "lag_s"),
        )

    def measured(self, now: OperatorMetrics, then: OperatorMetrics | None, seconds: float) -> dict[str, Any]:
        """Return, by column, the values of which there is one in all: rates, totals, quantiles, gauges, texts.

        Parameters
        ----------
        now, then : OperatorMetrics
            At the end and at the beginning of the interval; without `then`, it begins with the run.
        seconds : float
            Its length.
        """
        found: dict[str, Any] = {}
        for measure in self._in_all:
            name = measure.name
            if measure.kind == "histogram":
                summary = histogram_between(now, then, name).summary()
                found |= zip(measure.columns, (summary[part] for part in QUANTILES), strict=True)
            elif measure.rate:
                found[measure.rate] = (now.values[name] - (0 if then is None else then.values[name])) / seconds
            elif measure.between is not None:
                found[name] = measure.between(now, then)
            else:
                found[name] = now.values[name]
        return found

    def row(
        self, run: Metrics, now: OperatorMetrics, then: OperatorMetrics | None, at_s: float, seconds: float
    ) -> dict[str, Any]:
        """Return the row of an interval, by column.

        Parameters
        ----------
        run, now : Metrics, OperatorMetrics
            At its end.
        then : OperatorMetrics or None
            At its beginning; None: the start of the run.
        at_s, seconds : float
            Its end since the first tuple, and its length.
        """
        row: dict[str, Any] = dict.fromkeys(self.names)
        row |= {
            "seconds": at_s,
            "tuples_in": run.tuples_in,
            "tuples_out": run.tuples_out,
            "added": now.values["added"],
            "processed": now.values["processed"],
            "depth_tuples": now.in_flight,
            "threads": now.threads,
            "dropped": run.dropped,
            "set_aside": run.set_aside,
            "rate": math.nan if run.rate is None else run.rate,
            "behind": run.behind,
            "lag_s": run.lag_s,
            "balance_holds": now.balance is None or now.balance.holds,
        }
        row |= self.measured(now, then, seconds)
        shares: dict[str, Iterator[Any]] = {}
        for measure in self._by:
            value = now.values[measure.name]
            if measure.part_of:
                if measure.part_of not in shares:
                    shares[measure.part_of] = iter(shares_between(now, then, measure.part_of).tolist())
                numbers = next(shares[measure.part_of])
            elif measure.kind == "counter":
                numbers = (difference(now, then, measure.name) / seconds).tolist()
            else:
                numbers = value.values() if isinstance(value, dict) else value
            row |= zip(self._names_by(measure, value), numbers, strict=True)
        return row

    def _names_by(self, measure: Measure, value: Any) -> tuple[str, ...]:
        if isinstance(value, dict):
            return measure.columns_by(value)
        key = measure.name, len(value)  # computed once: a history has a thousand rows with some seventy of these each
        if key not in self._made:
            self._made[key] = measure.columns_by(value)
        return self._made[key]
