"""Many reconfigurations: STRETCH, section 8.5 (Q5), Figures 11 and 12.

The join of section 8.3, every pair compared, on a live stream whose rate changes abruptly from phase to phase, at
random. The proactive controller keeps predicted work within 70 to 80 % of what the threads can do.

Several seeds draw the phases. Every seed's run is shown over time, as in Figures 16 to 19 of Appendix F, and the latencies of
all runs as boxes. One thread's capacity is measured before each run.

The experiment is repeated with a join whose work is sleeping (`time_work`), so that tens of threads come and go on few cores.

What is scaled      The paper: WS 1 minute, phases of 100 to 300 s, 20 minutes, 500 to 8,000 t/s, up to 72 threads; four runs.
                    Here phases are as long in terms of WS, the lowest rate is a sixteenth of the highest, and the
                    highest makes work for 85 % of all cores' threads, one per core and each as fast as one alone. There are
                    two runs. Full size has the paper's times, and four runs.

Before each run, matches on the first rows are compared with a plain loop. The whole run's matches are compared with
those of the indexed join, which finds them another way.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace

import numpy as np

import headrace as hr
from headrace.controllers import ProactiveJoin
from headrace_bench.experiments import time_work
from headrace_bench.experiments.experiment import STRETCH_MACHINE, Experiment, Paper
from headrace_bench.experiments.figure import Figure, Line, box_of
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
"""Load at the highest rate, as a share of what all threads could do if each did as much as one alone."""
RATIO = 16
SHORTEST, LONGEST, TOTAL = 100 / 60, 300 / 60, 20.0
"""Shortest and longest phase, and the length of all phases, in windows."""
TARGET_MS = 50.0
TIMED_NS, TIMED_THREADS, TIMED_SEED = 1_000, 32, 7
"""For time work: the time of a comparison, the most threads, and the seed of the phases."""
SEEDS = (7, 8, 9, 10)
FEWER = 2
"""Number of seeds in a run that is not full."""

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


@dataclass(frozen=True)
class Seeded:
    """The results of one seed: its phases, the capacity of one thread measured before, and the run."""

    seed: int
    phases: Phases
    capacity: float
    played: Played


def measure(full: bool, tiny: bool = False) -> Experiment:
    """Latency, threads and quality of the control."""
    cores = os.cpu_count() or 1
    size_s, guess, known, every_s, timed_threads = 2.0, 5e9, None, 0.1, TIMED_THREADS
    if full:
        size_s, every_s = 60.0, 1.0
    if tiny:
        size_s, guess, known, timed_threads = 0.15, 1e8, 1e8, 4  # on a busy machine, a measured capacity may be anything
    runs = [_run(seed, size_s, guess, known, cores) for seed in (SEEDS if full else SEEDS[:FEWER])]
    timed = _run_timed(size_s, timed_threads, cores)
    shown = runs[0]
    played, phases, capacity = shown.played, shown.phases, shown.capacity
    highest = rate_for(HIGHEST_LOAD * capacity * cores, size_s)
    text = (
        f"Can the threads follow a rate that changes abruptly? {sum(s for s, _ in phases):.0f} s in {len(phases)} "
        f"phases of {2 * highest / RATIO:,.0f} to {2 * highest:,.0f} tuples/s of both sides, WS {size_s:g} s, all "
        f"pairs compared, the proactive controller at {LOWER:.0%} to {UPPER:.0%}, at most {cores} threads, as many as "
        "there are cores: the sources' threads and the collector share these. One thread was measured to make "
        f"{capacity / 1e9:.2g} G comparisons/s, from which the bounds of the throughput are derived. "
        "Latency counts from the moment a tuple was due. With few threads there often is no number of them for "
        "which the load lies between the bounds; a load below them with one thread, or above them with all, counts as "
        "within. "
        f"There were {len(runs)} runs, each with the phases of another seed; the first plots are of seed {shown.seed}. "
        f"In 'time work' each comparison sleeps for {TIMED_NS:,} ns, on at most {timed_threads} threads, each "
        "as if it had a core: it shows the shapes of the paper's figures, not its numbers. "
        f"{'' if math.isfinite(played.quality.settling_s) else 'In a phase the load never settled: no settling time.'}"
    )
    finished = Experiment("q5", "Many reconfigurations", text, PAPER, _rows(played, every_s, cores))
    finished.rows += [row for each in runs[1:] for row in _seed_rows(each, every_s)]
    finished.figures = _figures(shown, every_s, size_s, cores) + [_boxes(runs, every_s)]
    for each in runs[1:]:  # Appendix F
        finished.figures += [
            replace(figure, title=f"{figure.title}, seed {each.seed}") for figure in _figures(each, every_s, size_s, cores)
        ]
    finished.rows += time_work.marked_rows(_rows(timed.played, every_s, timed_threads))
    finished.figures += [time_work.marked(each) for each in _figures(timed, every_s, size_s, timed_threads)]
    return finished


def _run(seed: int, size_s: float, guess: float, known: float | None, cores: int) -> Seeded:
    capacity = capacity_of(size_s, 1, guess, known)
    phases = _phases(seed, size_s, HIGHEST_LOAD * capacity * cores)
    left, right = band_sides(phases)
    check_band_join(left, right, size_s, cores)
    stream = band_join(left, right, size_s)
    played = play(stream, ProactiveJoin(UPPER, LOWER), 1, cores, (LOWER, UPPER), every_s=0.1)
    assert played.outcome == expected_band_join(left, right, size_s), "other matches than of the indexed join"
    return Seeded(seed, phases, capacity, played)


def _run_timed(size_s: float, threads: int, cores: int) -> Seeded:
    """The same with comparisons that sleep: so a thread's capacity does not depend on the machine."""
    capacity = 1e9 / TIMED_NS
    phases = _phases(TIMED_SEED, size_s, HIGHEST_LOAD * capacity * threads)
    left, right = band_sides(phases)
    check_band_join(left, right, size_s, cores)
    stream = time_work.timed_band_join(left, right, size_s, TIMED_NS)
    controller = time_work.TimedProactive(UPPER, LOWER, ns=TIMED_NS)
    played = play(stream, controller, 1, threads, (LOWER, UPPER), every_s=0.1)
    assert played.outcome == expected_band_join(left, right, size_s), "other matches than of the indexed join"
    return Seeded(TIMED_SEED, phases, capacity, played)


def _phases(seed: int, size_s: float, comparisons_per_s: float) -> Phases:
    """Phases whose highest rate makes so many comparisons a second."""
    highest = rate_for(comparisons_per_s, size_s)
    lengths = {"shortest_s": SHORTEST * size_s, "longest_s": LONGEST * size_s, "total_s": TOTAL * size_s}
    drawn = hr.rates.abrupt(highest / RATIO, highest, **lengths, seed=seed)
    assert isinstance(drawn, hr.rates.Phases)
    return list(drawn.phases)


def desired_threads(rate: float, size_s: float, capacity: float, most: int) -> int:
    """The fewest threads, at most `most`, whose load is within the upper bound once windows are full at a side's rate."""
    comparisons_per_s = 2 * rate**2 * size_s
    return max(1, min(most, math.ceil(comparisons_per_s / (UPPER * capacity))))


def desired_line(phases: Phases, size_s: float, capacity: float, most: int) -> Line:
    """The desired threads over time, with gaps while the window still holds tuples of the previous rate, as in Figure 12."""
    x, y, start = [], [], 0.0
    for number, (length, rate) in enumerate(phases):
        full_at, threads = start if number == 0 else start + min(size_s, length), desired_threads(rate, size_s, capacity, most)
        start += length
        x += [full_at, start, start]
        y += [threads, threads, math.nan]  # a gap
    return curve("desired", x, y)


def _seed_rows(run: Seeded, every_s: float) -> list[Row]:
    means = run.played.latencies(every_s)[1]
    within = 100 * run.played.within(TARGET_MS, every_s)
    return [
        Row("q5", f"seed {run.seed}: reconfigurations", len(run.played.change_ms), "changes"),
        Row("q5", f"seed {run.seed}: time with 99 % of the results within {TARGET_MS:g} ms", within, "%"),
        Row("q5", f"seed {run.seed}: latency, median of the means of {every_s:g} s", float(np.nanmedian(means)), "ms", "lower"),
        Row("q5", f"seed {run.seed}: threads, mean", run.played.mean_threads, "threads", "lower"),
    ]


def _boxes(runs: list[Seeded], every_s: float) -> Figure:
    boxes = [box_of(f"seed {run.seed}", run.played.latencies(every_s)[1]) for run in runs]
    note = "Whiskers from the 1st to the 99th percentile, a diamond at the mean."
    return Figure("Latency, all runs", "run", f"means of {every_s:g} s (ms)", [], log_y=True, note=note, boxes=boxes)


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


def _figures(run: Seeded, every_s: float, size_s: float, cores: int) -> list[Figure]:
    played, phases, capacity = run.played, run.phases, run.capacity
    desired = desired_line(phases, size_s, capacity, cores)
    # In a unit whose numbers are not much less than those of threads, with which they share a plot.
    per, unit = (1e9, "G") if capacity * cores >= 1e9 else (1e6, "M")
    history, seconds = played.history, float(played.history["seconds"].iloc[-1])
    starts = np.concatenate(([0.0], np.cumsum([length for length, _ in phases])))
    rates = [2 * rate for _, rate in phases]
    bounds = [
        curve(
            f"{share:.0%} of the threads' capacity",
            [*played.threads_s, seconds],
            [n * share * capacity / per for n in (*played.threads, played.threads[-1])],
            steps=True,
        )
        for share in (LOWER, UPPER)
    ]
    compared = curve("compared", history["seconds"], history["comparisons_per_s"] / per)
    x, means, slow = played.latencies(every_s)
    rises = np.diff(rates, prepend=rates[0])
    rise_s = float(starts[int(np.argmax(rises))])
    figures = [
        Figure("Input rate", "seconds", "tuples/s, both sides", [curve("due", starts, [*rates, rates[-1]], steps=True)]),
        Figure("Threads", "seconds", "threads", [played.threads_line("active"), desired]),
        Figure("Throughput", "seconds", f"{unit} comparisons/s", [compared, *bounds]),
        Figure(
            "Latency", "seconds", f"latency of each {every_s:g} s (ms)", [curve("mean", x, means), curve("p99", x, slow)],
            log_y=True,
        ),
    ]
    near = ((x >= rise_s - size_s) & (x <= rise_s + 3 * size_s)).nonzero()[0]
    if near.size:
        work = np.interp(x[near], history["seconds"], history["comparisons_per_s"] / per)
        at = np.searchsorted(played.threads_s, x[near], side="right") - 1
        lines = [
            curve(f"{unit} comparisons/s", x[near] - rise_s, work),
            curve("threads", x[near] - rise_s, [played.threads[i] for i in at], steps=True),
            curve("desired threads", x[near] - rise_s, _at(desired, x[near])),
        ]
        # Figure 12 draws the desired threads only where the window holds no tuples from before the change.
        note = f"The window holds what came at the new rate {size_s:g} s after it changed."
        title = "The largest rise of the rate"
        figures.append(Figure(title, "seconds after the change", f"threads, {unit} comparisons/s", lines, note=note))
    return figures


def _at(line: Line, times: np.ndarray) -> list[float]:
    """Values of a step function at these times."""
    places = np.searchsorted(np.asarray(line.x), times, side="right") - 1
    return [line.y[place] for place in places.tolist()]
