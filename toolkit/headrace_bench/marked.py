"""Measures a whole run between the 20th and the 80th percentile of its rows, as in the paper on ordered pipelines.

A run counts its rows, and the latencies of its results in histograms; two samples' difference covers the time between them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

import headrace as hr
from headrace.metrics.latency import LatencyHistogram
from headrace_bench.pipelined import MARKERS
from headrace_bench.rows import median

_LOOK_S = 5e-3


@dataclass(frozen=True)
class Markers:
    """The measurements of a run.

    Parameters
    ----------
    per_second : float
        Rows.
    mean_ms, p50_ms, p99_ms : float
        Latency; processing latency runs from the first stage to the collector. NaN if there were no results.
    results : float
        Number of results of the whole run.
    """

    per_second: float
    mean_ms: float
    p50_ms: float
    p99_ms: float
    results: float


def marked(stream: Any, rows: int, waits: str = "processing", **options: Any) -> Markers:
    """Run an operator over its `rows` rows. A run that ends before it is sampled twice is measured as a whole.

    Parameters
    ----------
    stream : Stream
    rows : int
    waits : str
        Name of the measure whose histogram is used; every engine has "latency".
    **options
        As for `start`.
    """
    looks: list[tuple[float, int, np.ndarray]] = []

    def look() -> int:
        (operator,) = run.metrics().operators.values()
        looks.append((time.monotonic(), operator.processed, operator.values[waits]))
        return operator.processed

    with stream.start(sink=hr.discard(), **options) as run:
        while look() < MARKERS[1] * rows and run.state == "running":
            time.sleep(_LOOK_S)
        run.wait()
    metrics = run.metrics()
    (operator,) = metrics.operators.values()
    inside = [each for each in looks if MARKERS[0] * rows <= each[1]]
    rate, counts = operator.input_per_s, operator.values[waits]
    if len(inside) > 1 and inside[-1][1] > inside[0][1]:
        (begin, first, before), (end, last, after) = inside[0], inside[-1]
        rate = (last - first) / (end - begin)
        if (after - before).any():
            counts = after - before
    histogram = LatencyHistogram(counts)
    return Markers(rate, histogram.mean_ms, histogram.quantile_ms(0.5), histogram.quantile_ms(0.99), metrics.tuples_out)


def middle(runs: Sequence[Markers]) -> Markers:
    """The median over runs of each figure."""
    return Markers(*(median([getattr(run, each.name) for run in runs]) for each in fields(Markers)))


__all__ = ["Markers", "marked", "middle"]
