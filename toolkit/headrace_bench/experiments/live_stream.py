"""Plays a stream as if it came live, for the experiments with controllers: event time follows the clock.

A changing rate is encoded in the event times; the tuples are then played at these times (`rates.recorded`), so a
window holds the tuples that came within the last WS of wall-clock time, as in the paper. Latency is counted from the moment
when the later tuple of a match was due, so waiting outside a full gate counts, too.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.control.quality import quality
from headrace.controllers import DecisionLog, Quality
from headrace_bench.experiments.figure import Line

if TYPE_CHECKING:
    import pandas as pd

WIDTH = 10
CHECKED = 8_000
"""Rows of each side that are also joined by a plain loop."""
_MEASURED_S = 1.5
_FEWEST = 10
"""Least number of samples with full windows from which a rate is taken."""


def due_times(phases: Sequence[tuple[float, float]]) -> np.ndarray:
    """Event times, in microseconds, of tuples in successive phases of constant rate.

    Parameters
    ----------
    phases : sequence of (seconds, tuples per second)

    >>> due_times([(1.0, 2.0), (0.5, 4.0)]).tolist()
    [0, 500000, 1000000, 1250000]
    """
    seconds = np.concatenate(([0.0], np.cumsum([length for length, _ in phases])))
    counts = np.concatenate(([0.0], np.cumsum([length * rate for length, rate in phases])))
    numbers = np.arange(round(float(counts[-1])))
    return np.round(np.interp(numbers, counts, seconds) * 1e6).astype(np.int64)


def band_sides(phases: Sequence[tuple[float, float]]) -> tuple[pa.Table, pa.Table]:
    """Make the two sides of section 8.3's join, each at the rates of the given phases."""
    from headrace_datasets import joins

    times = due_times(phases)
    sides = []
    for side in ("left", "right"):
        table = joins(n=len(times), side=side).to_arrow()
        sides.append(table.set_column(0, "ts", pa.array(times).cast(table.schema.field("ts").type)))
    return sides[0], sides[1]


def band_join(left: pa.Table, right: pa.Table, size_s: float, index: bool = False) -> hr.Stream:
    """The join of section 8.3; without an index every pair within `size_s` is compared, as in the paper."""
    where = hr.band("x", "a", WIDTH) & hr.band("y", "b", WIDTH)
    size = f"{round(size_s * 1e3)}ms"
    return hr.stream(left, event_time="ts").join(hr.stream(right, event_time="ts"), size, where=where, index=index)


Match = tuple[int, int, float]
"""Time, x and c of a match."""


def plain_band_join(left: pa.Table, right: pa.Table, size_s: float) -> list[Match]:
    """The sorted matches, found by comparing each left row with all right ones."""
    columns = {name: table[name].to_numpy() for table in (left, right) for name in table.column_names if name != "ts"}
    at, other_at = (table["ts"].to_numpy().astype(np.int64) for table in (left, right))
    matches = []
    for i in range(left.num_rows):
        near = np.abs(columns["a"] - columns["x"][i]) <= WIDTH
        near &= np.abs(columns["b"].astype(np.float64) - np.float64(columns["y"][i])) <= WIDTH
        near &= np.abs(other_at - at[i]) < round(size_s * 1e3) * 1_000
        matches += [
            (int(max(at[i], other_at[j])) + 1, int(columns["x"][i]), float(columns["c"][j]))
            for j in np.flatnonzero(near).tolist()
        ]
    return sorted(matches)


def check_band_join(left: pa.Table, right: pa.Table, size_s: float, max_threads: int) -> None:
    """Compare the join of the first rows, run with reconfigurations, with the plain loop."""
    left, right = left.slice(0, CHECKED), right.slice(0, CHECKED)
    changes = [(left.num_rows, max_threads), (3 * left.num_rows // 2, 1)] if max_threads > 1 else []
    found = band_join(left, right, size_s).to_arrow(threads=1, max_threads=max_threads, reconfigure=changes)
    got = zip(found["ts"].cast(pa.int64()).to_pylist(), found["x"].to_pylist(), found["c"].to_pylist(), strict=True)
    assert sorted(got) == plain_band_join(left, right, size_s), "the join found other pairs than a plain loop"


def expected_band_join(left: pa.Table, right: pa.Table, size_s: float) -> tuple[int, int]:
    """Number of matches and checksum by the plain loop, or by the indexed join if the loop would take long."""
    if left.num_rows <= CHECKED:
        times = np.array([match[0] for match in plain_band_join(left, right, size_s)], np.int64)
        return times.size, checksum(times)
    kept = Timekeeper()
    with band_join(left, right, size_s, index=True).start(threads=1, sink=kept) as run:
        run.wait()
    return kept.times.size, checksum(kept.times)


def checksum(times: np.ndarray) -> int:
    """Checksum of the results' times."""
    return int(times.sum() & (2**63 - 1))


def sustainable_comparisons(size_s: float, threads: int, guess: float) -> float:
    """Comparisons a second of the band join at full speed, once windows are full.

    Parameters
    ----------
    size_s : float
        WS.
    threads : int
    guess : float
        Expected comparisons per second: windows hold the tuples that come at the rate which these sustain.
    """
    rate = rate_for(guess, size_s)
    left, right = band_sides([(size_s + _MEASURED_S, rate)])
    with band_join(left, right, size_s).start(threads=threads, sink=hr.discard(), sample_every=0.02) as run:
        run.wait()
        history, metrics = run.history.to_pandas(), run.metrics()
    full = history[history["processed"] >= 2 * rate * size_s]
    if len(full) < _FEWEST:  # the run was short, or the machine stood still: only the whole run's mean is left
        return metrics.operators[run.operators[0]].comparisons / metrics.seconds
    compared = full["comparisons_per_s"] * full["seconds"].diff()
    return float(compared[1:].sum() / (full["seconds"].iloc[-1] - full["seconds"].iloc[0]))


def capacity_of(size_s: float, threads: int, guess: float, known: float | None) -> float:
    """Measure the comparisons per second that `threads` sustain; return the known value instead, if given.

    Parameters
    ----------
    guess : float
        Expected comparisons per second of one thread.
    known : float, optional
        Known comparisons per second of one thread, used instead of the measurement.
    """
    measured = sustainable_comparisons(size_s, threads, guess * threads)
    return measured if known is None else known * threads


def rate_for(comparisons_per_s: float, size_s: float) -> float:
    """Tuples per second of each side that cause `comparisons_per_s` once windows are full.

    Each of the 2 r tuples is compared with the r WS of the other side: 2 r^2 WS.
    """
    return math.sqrt(comparisons_per_s / (2 * size_s))


class Timekeeper:
    """A sink that records each result's event time, and when it arrived."""

    def __init__(self):
        self.ts: list[np.ndarray] = []
        self.at_ns: list[int] = []

    def __call__(self, batch: pa.RecordBatch) -> None:
        self.at_ns.append(time.monotonic_ns())
        self.ts.append(batch.column("ts").cast(pa.int64()).to_numpy())

    @property
    def times(self) -> np.ndarray:
        """Event times of all results, int64[results]."""
        return np.concatenate(self.ts) if self.ts else np.zeros(0, np.int64)


def latencies_over(
    due_s: np.ndarray, latency_ms: np.ndarray, until_s: float, every_s: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Middles of intervals; mean and p99 latency of the results due in each, NaN if there are none. `due_s` is sorted."""
    edges = np.arange(0, until_s + every_s, every_s)
    parts = [latency_ms[a:b] for a, b in itertools.pairwise(np.searchsorted(due_s, edges))]
    means = np.array([part.mean() if part.size else math.nan for part in parts])
    slow = np.array([np.percentile(part, 99) if part.size else math.nan for part in parts])
    return (edges[:-1] + edges[1:]) / 2, means, slow


@dataclass
class Played:
    """The outcome of a run over a live stream. Seconds are since its first tuple.

    Parameters
    ----------
    history : DataFrame
        As by `run.history`.
    due_s, latency_ms : float64[results]
        When the later tuple of a match was due, and how long after that the match was emitted.
    threads_s, threads : list of float, list of int
        When each number of threads came into force, and that number.
    change_ms : list of float
        How long the reconfigurations took.
    quality : Quality
        Quality of the control.
    decisions : DecisionLog
    checksum : int
        Checksum of the results' times.
    """

    history: pd.DataFrame
    due_s: np.ndarray
    latency_ms: np.ndarray
    threads_s: list[float]
    threads: list[int]
    change_ms: list[float]
    quality: Quality
    decisions: DecisionLog
    checksum: int

    def latencies(self, every_s: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Middles of intervals; mean and p99 latency of the results due in each, NaN if there are none."""
        return latencies_over(self.due_s, self.latency_ms, self.history["seconds"].max(), every_s)

    def within(self, target_ms: float, every_s: float) -> float:
        """Share of the intervals with results in which 99 % of these came within `target_ms`."""
        slow = self.latencies(every_s)[2]
        slow = slow[np.isfinite(slow)]
        return float((slow <= target_ms).mean()) if slow.size else math.nan

    @property
    def outcome(self) -> tuple[int, int]:
        """Number of results and checksum: the same for every plan."""
        return self.due_s.size, self.checksum

    @property
    def mean_threads(self) -> float:
        """Mean number of threads over the whole run."""
        end = float(self.history["seconds"].iloc[-1])
        return float(np.diff([*self.threads_s, end]) @ np.array(self.threads)) / end

    def threads_line(self, name: str, since_s: float = 0.0) -> Line:
        """Number of threads over time, up to the end of the run."""
        end = float(self.history["seconds"].iloc[-1])
        x = [*self.threads_s, end]
        return curve(name, [s - since_s for s in x], [*self.threads, self.threads[-1]], steps=True)


def curve(name: str, x: Iterable[float], y: Iterable[float], steps: bool = False) -> Line:
    """Make a line from arrays or columns."""
    return Line(name, [float(value) for value in x], [float(value) for value in y], steps=steps)


def play(
    stream: hr.Stream,
    controller: Any,
    threads: int,
    max_threads: int,
    band: tuple[float, float],
    every_s: float = 0.1,
    begin_us: int = 0,
) -> Played:
    """Play a stream at its event times, under a controller or without one (None).

    Parameters
    ----------
    stream : Stream
        A join: a result's event time is that of the later tuple plus one unit.
    band : (float, float)
        Bounds of the load that the controller aims for; its quality is judged by them.
    every_s : float
        Time between two samples of the history, and between two decisions of the controller.
    begin_us : int
        Event time of the first tuple, in microseconds.
    """
    kept = Timekeeper()
    options = {"threads": threads, "max_threads": max_threads, "sink": kept, "sample_every": every_s}
    name = stream.operators[-1]
    with stream.start(rate=hr.rates.recorded(), controller={name: controller}, control_every=every_s, **options) as run:
        run.wait()
        control = run[name].control_loop
        history, origin_ns = run.history.to_pandas(), run.history.origin_ns
        changes = [c for c in run[name].changes if c.outcome == "done"]
        decisions = run.decisions
    ts = kept.times
    at_ns = np.repeat(np.array(kept.at_ns, np.int64), [len(part) for part in kept.ts])
    due_us = ts - 1 - begin_us
    observations = [o for o in control.observations if o.processed > 0 or o.pending > 0]
    return Played(
        history,
        due_us / 1e6,
        (at_ns - origin_ns) / 1e6 - due_us / 1e3,
        [0.0, *((c.completed_ns - origin_ns) / 1e9 for c in changes)],
        [threads, *(c.to_threads for c in changes)],
        [c.ms for c in changes],
        quality(observations, sum(band) / 2, band),
        decisions,
        checksum(ts),
    )
