"""Many reconfigurations: STRETCH, section 8.5 (Q5), Figures 11 and 12.

The join of section 8.3, every pair compared, on a live stream whose rate changes abruptly from phase to phase, at
random. The proactive controller keeps predicted work within 70 to 80 % of what the threads can do.

What is scaled      the paper: WS 1 minute, phases of 100 to 300 s, 20 minutes, 500 to 8,000 t/s, up to 72 threads.
                    Here phases are as long in terms of WS, the lowest rate is a sixteenth of the highest, and the
                    highest makes work for 85 % of as many threads as there are cores, each as fast as one alone.
                    Full size has the paper's times.

Matches are compared with a plain loop on the first rows before, and the whole run's with those of the indexed join,
which finds them another way.
"""

from __future__ import annotations

import math
import os

import numpy as np

import headrace as hr
from headrace.controllers import ProactiveJoin
from headrace_bench.experiments.experiment import STRETCH_MACHINE, Experiment, Paper
from headrace_bench.experiments.figure import Figure
from headrace_bench.experiments.live_stream import (
    Played,
    band_join,
    band_sides,
    capacity_of,
    check_band_join,
    curve,
    expected_band_join,
    play,
    rate_for,
)
from headrace_bench.rows import Row

UPPER, LOWER = 0.80, 0.70
HIGHEST_LOAD = 0.85
"""At the highest rate, of what all threads could do if each did as much as one alone."""
RATIO = 16
SHORTEST, LONGEST, TOTAL = 100 / 60, 300 / 60, 20.0
"""Lengths of a phase and of all, in windows."""
TARGET_MS = 50.0

PAPER = Paper(
    "STRETCH, section 8.5, Figures 11 and 12",
    STRETCH_MACHINE,
    (
        "20 minutes, phases of at least 100 and at most 300 seconds, a constant rate from [500, 8 000] t/s in each.",
        "Thresholds at [70%, 80%] of the capacity, WS one minute.",
        "A few spikes in the latency at abrupt changes of the rate; the average latency stays around 20 ms.",
        "Spikes are handled within 10 seconds.",
    ),
)

Phases = list[tuple[float, float]]


def measure(full: bool, tiny: bool = False) -> Experiment:
    """Latency, threads and quality of the control."""
    cores = os.cpu_count() or 1
    size_s, guess, known, every_s = 2.0, 5e9, None, 0.1
    if full:
        size_s, every_s = 60.0, 1.0
    if tiny:
        size_s, guess, known = 0.15, 1e8, 1e8  # a busy machine measures anything
    capacity = capacity_of(size_s, 1, guess, known)
    highest = rate_for(HIGHEST_LOAD * capacity * cores, size_s)
    lengths = {"shortest_s": SHORTEST * size_s, "longest_s": LONGEST * size_s, "total_s": TOTAL * size_s}
    drawn = hr.rates.abrupt(highest / RATIO, highest, **lengths)
    assert isinstance(drawn, hr.rates.Phases)
    phases = list(drawn.phases)
    left, right = band_sides(phases)
    check_band_join(left, right, size_s, cores)
    stream = band_join(left, right, size_s)
    played = play(stream, ProactiveJoin(UPPER, LOWER), 1, cores, (LOWER, UPPER), every_s=0.1)
    assert played.outcome == expected_band_join(left, right, size_s), "other matches than of the indexed join"
    text = (
        f"Can the threads follow a rate that changes abruptly? {sum(s for s, _ in phases):.0f} s in {len(phases)} "
        f"phases of {2 * highest / RATIO:,.0f} to {2 * highest:,.0f} tuples/s of both sides, WS {size_s:g} s, all "
        f"pairs compared, the proactive controller at {LOWER:.0%} to {UPPER:.0%}, at most {cores} threads, as many as "
        "there are cores: the sources' threads and the collector share these. One thread was measured to make "
        f"{capacity / 1e9:.2g} G comparisons/s; that is where the bounds of the throughput come from. "
        "Latency counts from the moment a tuple was due. With few threads there often is no number of them for "
        "which the load lies between the bounds; a load below them with one thread, or above them with all, counts as "
        "within. "
        f"{'' if math.isfinite(played.quality.settling_s) else 'In a phase the load never settled: no settling time.'}"
    )
    finished = Experiment("q5", "Many reconfigurations", text, PAPER, _rows(played, every_s, cores))
    finished.figures = _figures(played, phases, capacity, every_s, size_s)
    return finished


def _rows(played: Played, every_s: float, cores: int) -> list[Row]:
    quality = played.quality
    means = played.latencies(every_s)[1]
    rows = [
        Row("q5", "reconfigurations", len(played.change_ms), "changes"),
        Row("q5", f"time with 99 % of the results within {TARGET_MS:g} ms", 100 * played.within(TARGET_MS, every_s), "%"),
        Row("q5", "latency, mean of the results", float(played.latency_ms.mean()), "ms", "lower"),
        Row("q5", f"latency, median of the means of {every_s:g} s", float(np.nanmedian(means)), "ms", "lower"),
        Row("q5", f"latency, worst mean of {every_s:g} s", float(np.nanmax(means)), "ms", "lower"),
        Row("q5", "threads, mean", played.mean_threads, "threads", "lower", None, float(cores), "always the most"),
    ]
    if played.change_ms:
        rows.append(Row("q5", "slowest reconfiguration", max(played.change_ms), "ms", "lower", 40.0))
    of_control = {
        "stability: turns without a change of the rate": (quality.reversals, "turns", "lower"),
        "accuracy: distance from the middle of the bounds once settled": (100 * quality.accuracy, "%", "lower"),
        "settling time after a change of the rate": (quality.settling_s, "s", "lower"),
        "overshoot of the threads": (100 * quality.overshoot, "%", "lower"),
        "time with a load within the bounds": (100 * quality.in_band, "%", "higher"),
    }
    for case, (value, unit, better) in of_control.items():
        if math.isfinite(value):
            rows.append(Row("q5", f"control, {case}", value, unit, better))
    return rows


def _figures(played: Played, phases: Phases, capacity: float, every_s: float, size_s: float) -> list[Figure]:
    history, seconds = played.history, float(played.history["seconds"].iloc[-1])
    starts = np.concatenate(([0.0], np.cumsum([length for length, _ in phases])))
    rates = [2 * rate for _, rate in phases]
    bounds = [
        curve(
            f"{share:.0%} of the threads' capacity",
            [*played.threads_s, seconds],
            [n * share * capacity / 1e9 for n in (*played.threads, played.threads[-1])],
            steps=True,
        )
        for share in (LOWER, UPPER)
    ]
    compared = curve("compared", history["seconds"], history["comparisons_per_s"] / 1e9)
    x, means, slow = played.latencies(every_s)
    rises = np.diff(rates, prepend=rates[0])
    rise_s = float(starts[int(np.argmax(rises))])
    figures = [
        Figure("Input rate", "seconds", "tuples/s, both sides", [curve("due", starts, [*rates, rates[-1]], steps=True)]),
        Figure("Threads", "seconds", "threads", [played.threads_line("active")]),
        Figure("Throughput", "seconds", "G comparisons/s", [compared, *bounds]),
        Figure("Latency", "seconds", f"of {every_s:g} s (ms)", [curve("mean", x, means), curve("p99", x, slow)], log_y=True),
    ]
    near = ((x >= rise_s - size_s) & (x <= rise_s + 3 * size_s)).nonzero()[0]
    if near.size:
        work = np.interp(x[near], history["seconds"], history["comparisons_per_s"] / 1e9)
        at = np.searchsorted(played.threads_s, x[near], side="right") - 1
        lines = [
            curve("G comparisons/s", x[near] - rise_s, work),
            curve("threads", x[near] - rise_s, [played.threads[i] for i in at], steps=True),
        ]
        note = f"The window holds what came at the new rate {size_s:g} s after it changed."
        title = "The largest rise of the rate"
        figures.append(Figure(title, "seconds after the change", "threads, G comparisons/s", lines, note=note))
    return figures
