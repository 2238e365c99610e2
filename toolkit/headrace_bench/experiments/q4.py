"""What a reconfiguration takes: STRETCH, section 8.4 (Q4), Table IV and Figures 9 and 10.

The join is that of section 8.3, every pair compared (`index=False`).

Figure 9    Windows are full and the input is encoded in the store. While the stream runs, the number of threads goes from
            each value to the one that the controller's rule gives, and back: provisioning under overload,
            decommissioning at 30 % of what the threads sustain. Times run from the call until the last thread runs in
            the new epoch (or has left). The imbalance is that of the threads' comparisons since the previous change.
            Every run's matches must be those of a plain loop.
Figure 10   A live stream under the controller. The load is 70 % of what the threads sustain until the windows are full,
            then 120 % (of one thread) or 30 % (of one thread per core). Each run is compared with one whose number of
            threads is fixed, and with ScaleJoin written for this join alone (`bench.scalejoin`) on as many threads.

Both are repeated with an operator whose work is sleeping (`time_work`), so that 32 threads have work on few cores:
throughput over threads, moves from each number of threads, and a change of load with 8 or 32 threads.

Why the imbalance misses its 2 %: a thread compares with the stored tuples of its buckets, and tuple number n of a source is in
bucket n % 1,024. Of a window of 2,000 tuples (time work), 976 buckets have two and 48 neighbouring ones have one. A thread owns
neighbouring buckets (`Mapping.even`), so at any moment the imbalance is 2.4 % with 2 threads, 4.2 % with 4, 6.4 % with 8 and
9.8 % with 32; over an interval in which windows move on, it is less. Of a window of 20,000 tuples, 544 buckets have one more than
the others: 1.3 % to 2.9 %. The larger the windows, the less that matters.

Load is work: comparisons a second over what the threads can do. With full windows it grows with the square of the rate.
"""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.controllers import Threshold
from headrace.elastic import words
from headrace.memory.cells import read_cells
from headrace.metrics.by_worker import coefficient_of_variation
from headrace_bench import reconfigure, scalejoin
from headrace_bench.experiments import time_work
from headrace_bench.experiments.experiment import STRETCH_MACHINE, Experiment, Paper
from headrace_bench.experiments.figure import Figure, Line
from headrace_bench.experiments.live_stream import (
    Played,
    band_join,
    band_sides,
    capacity_of,
    check_band_join,
    curve,
    latencies_over,
    play,
    rate_for,
)
from headrace_bench.join import columns_of
from headrace_bench.rows import Row, median

STARTS = (1, 2, 4, 8, 16, 32)
MAX_THREADS = 32
UPPER, TARGET, LOWER = 0.90, 0.70, 0.45
BEFORE, MORE, LESS = 0.70, 1.20, 0.30
FULL = 1.2
"""Number of windows (WS) after which the load changes."""
MAX_RUNS = 40
TIMED_WINDOW, TIMED_NS = 2_000, 1_000
"""For time work: tuples of a side's window, and the time of a comparison."""

PAPER = Paper(
    "STRETCH, section 8.4, Table IV, Figures 9 and 10",
    STRETCH_MACHINE,
    (
        "Upper, target and lower threshold of CPU consumption: 90%, 70% and 45%.",
        "Starting threads 1, 5, 9, 18, 30, 40; after provisioning 2, 9, 16, 31, 52, 69.",
        "Starting threads 5, 9, 18, 30, 40, 60, 70; after decommissioning 2, 3, 7, 12, 17, 25, 30.",
        "Approximately 12 ms from 30 to 52 threads; always lower than 40 ms.",
        "At most 2% of load imbalance among threads.",
        "From 18 threads: higher rates are sustained without affecting the latency.",
    ),
)


@dataclass
class Moves:
    """Reconfigurations from one number of threads to another.

    Parameters
    ----------
    before, after : int
        Threads.
    ms : list of float
        Time of each, from the call to completion.
    imbalance : list of float
        Coefficient of variation of the threads' comparisons before each, as a fraction.
    """

    before: int
    after: int
    ms: list[float] = field(default_factory=list)
    imbalance: list[float] = field(default_factory=list)


def after_provisioning(threads: int) -> int:
    """Fewest threads for which 120 % of what `threads` sustain is at most the target: Table IV's numbers.

    >>> [after_provisioning(n) for n in (1, 5, 9, 18, 30, 40)]
    [2, 9, 16, 31, 52, 69]
    """
    return math.ceil(round(threads * MORE / TARGET, 9))


def after_decommissioning(threads: int) -> int:
    """Fewest threads for which 30 % of what `threads` sustain is at most the target; Table IV has one fewer in most rows.

    >>> [after_decommissioning(n) for n in (2, 4, 8, 16, 32)]
    [1, 2, 4, 7, 14]
    """
    return math.ceil(round(threads * LESS / TARGET, 9))


def back_and_forth(case, moves: Moves, count: int, per_second: int, gap_s: float) -> None:
    """Alternate between both numbers of threads until there are `count` moves; with `per_second` 0, saturated."""
    for _ in range(MAX_RUNS):
        run = case.resident(moves.before, MAX_THREADS)
        meter = run.operator.arrays.meter
        run.start(per_second=per_second)
        while not run.drained.is_set() and len(moves.ms) < count:
            since = read_cells(meter, 1)[: moves.before, words.COMPARISONS]
            time.sleep(gap_s)
            imbalance = coefficient_of_variation(read_cells(meter, 1)[: moves.before, words.COMPARISONS] - since)
            change = run.reconfigure(moves.after)
            if change.outcome != "done":
                break
            moves.ms.append(change.ms)
            moves.imbalance.append(imbalance)
            if run.reconfigure(moves.before).outcome != "done":
                break
        run.wait()
        case.check(run)
        if len(moves.ms) >= count:
            return


def sustained(case, threads: int) -> float:
    """Tuples per second of each source that `threads` threads process at full speed."""
    run = case.resident(threads, MAX_THREADS)
    seconds = run.run()
    case.check(run)
    return (len(run.ts[0]) - case.stored) / seconds


def measure_moves(
    starts: tuple[int, ...], pairs: int, window: int, count: int, gap_s: float
) -> tuple[list[Moves], list[Moves]]:
    """Provisioning and decommissioning from each number of threads."""
    case = reconfigure.band_join(pairs, window)
    up, down = [], []
    for threads in starts:
        if after_provisioning(threads) <= MAX_THREADS:
            up.append(Moves(threads, after_provisioning(threads)))
            back_and_forth(case, up[-1], count, 0, gap_s)
        if after_decommissioning(threads) < threads:
            down.append(Moves(threads, after_decommissioning(threads)))
            back_and_forth(case, down[-1], count, max(1, int(LESS * sustained(case, threads))), gap_s)
    return up, down


@dataclass
class Step:
    """A live stream whose load changes once.

    Parameters
    ----------
    name : str
    rates : (float, float)
        Tuples a second of each side, before and after.
    at_s : float
        When the rate changes.
    played : Played
        The run's outcome.
    alone : scalejoin.Played, optional
        If the number of threads is fixed, ScaleJoin's run on as many.
    """

    name: str
    rates: tuple[float, float]
    at_s: float
    played: Played
    alone: scalejoin.Played | None = None

    def alone_latencies(self, every_s: float) -> tuple[np.ndarray, np.ndarray]:
        """Middles of intervals, and ScaleJoin's mean latency in each."""
        assert self.alone is not None
        until_s = float(self.played.history["seconds"].iloc[-1])
        return latencies_over(self.alone.due_s, self.alone.latency_ms, until_s, every_s)[:2]


def measure_timed_moves(starts: tuple[int, ...], each_s: float, count: int, gap_s: float) -> tuple[list[Moves], list[Moves]]:
    """As `measure_moves`, with work that is sleeping. Provisioning is at the load's upper bound, so that no backlog builds up.

    A saturated run would have all of its input, `each_s` of work, in the gate before the first request.
    """
    up, down = [], []
    for threads in starts:
        per_second = threads * 1e9 / TIMED_NS / TIMED_WINDOW / 2  # of each side
        case = time_work.timed_case(max(16, round(each_s * per_second)), TIMED_WINDOW, TIMED_NS)
        if after_provisioning(threads) <= MAX_THREADS:
            up.append(Moves(threads, after_provisioning(threads)))
            back_and_forth(case, up[-1], count, max(1, int(UPPER * per_second)), gap_s)
        if after_decommissioning(threads) < threads:
            down.append(Moves(threads, after_decommissioning(threads)))
            back_and_forth(case, down[-1], count, max(1, int(LESS * per_second)), gap_s)
    return up, down


def measure_steps(
    size_s: float,
    after_s: float,
    loads: Sequence[tuple[int, float]],
    capacity: Callable[[int], float],
    max_threads: int,
    query: Callable[..., hr.Stream] = band_join,
    controller: Callable[..., Threshold] = Threshold,
    mark: str = "",
) -> list[Step]:
    """Play changes of the load, each with the controller and without.

    Parameters
    ----------
    size_s, after_s : float
        WS, and how long the stream lasts after the change; before it, 1.2 WS as in the paper.
    loads : sequence of (threads, load)
        Initial threads, and the load after the change as a fraction of what these sustain.
    capacity : function of a number of threads
        Comparisons a second that they sustain.
    max_threads : int
    query : function of both sides and WS
    controller : function of the three bounds
    mark : str
        Prefix of the names.
    """
    steps, before_s = [], FULL * size_s
    for threads, load in loads:
        most = capacity(threads)
        rates = rate_for(BEFORE * most, size_s), rate_for(load * most, size_s)
        left, right = band_sides([(before_s, rates[0]), (after_s, rates[1])])
        check_band_join(left, right, size_s, max_threads)
        name = f"{mark}{BEFORE:.0%} to {load:.0%}"
        steered, fixed = (
            play(query(left, right, size_s), plan, threads, max_threads, (LOWER, UPPER))
            for plan in (controller(UPPER, TARGET, LOWER), None)
        )
        assert steered.outcome == fixed.outcome, "other results under the controller"
        alone = None if mark else _scalejoin(left, right, size_s, threads, fixed.outcome[0])
        steps += [Step(name, rates, before_s, steered), Step(f"{name}, threads fixed", rates, before_s, fixed, alone)]
    return steps


def _scalejoin(left: pa.Table, right: pa.Table, size_s: float, threads: int, results: int) -> scalejoin.Played:
    """Play the stream to ScaleJoin on so many threads."""
    sides = [table.set_column(0, "ts", table["ts"].cast(pa.int64())) for table in (left, right)]
    played = scalejoin.played(columns_of(*sides), round(size_s * 1e3) * 1_000, threads)
    assert played.pairs[0] == results, "ScaleJoin found other pairs"
    return played


def measure(full: bool, tiny: bool = False) -> Experiment:
    """Times and imbalance for each number of threads."""
    cores = os.cpu_count() or 1
    starts, pairs, window, count, gap_s = STARTS, 200_000, 20_000, 10, 0.05
    size_s, after_s, guess, known = 2.0, 5.0, 5e9, None
    counts, each_s, timed_count = STARTS, 1.0, 5
    if full:
        pairs, count, gap_s = 2_000_000, 50, 0.25
        size_s, after_s = 300.0, 300.0
    if tiny:
        starts, pairs, window, count, gap_s = (1, 2), 20_000, 500, 2, 0.003
        counts, each_s, timed_count = (1, 8), 0.2, 1
        size_s, after_s, guess, known = 0.2, 0.5, 1e8, 1e8  # on a busy machine, a measured capacity may be anything
    every_s = max(0.1, size_s / 100)
    up, down = measure_moves(starts, pairs, window, count, gap_s)
    steps = measure_steps(
        size_s, after_s, ((1, MORE), (cores, LESS)), lambda n: capacity_of(size_s, n, guess, known), cores
    )
    scaled = time_work.measure_scaling(counts, each_s, TIMED_WINDOW, TIMED_NS)
    timed_up, timed_down = measure_timed_moves(counts, each_s, timed_count, min(gap_s, 0.05))
    timed_steps = measure_steps(
        size_s, after_s, ((8, MORE), (MAX_THREADS, LESS)), lambda n: n * 1e9 / TIMED_NS, MAX_THREADS,
        functools.partial(time_work.timed_band_join, ns=TIMED_NS), functools.partial(time_work.TimedThreshold, ns=TIMED_NS),
        f"{time_work.MARK}, ",
    )  # fmt: skip
    text = (
        f"How long does it take to change the number of threads of a running join? {MAX_THREADS} pooled threads, "
        f"{cores} cores, {window:,} tuples a window, all pairs compared; {count} reconfigurations of each kind, each while "
        "the stream goes on. Provisioning under overload, decommissioning at a load of 30 %. Numbers of "
        "threads follow the rule of the paper's text: the fewest that keep the load at the target of 70 % or below. "
        f"Above {cores} threads this measures the barrier with threads that take turns on the cores: the last one has "
        "to get its turn before the epoch can begin, so the scheduler's time slices are included, and another thread does "
        "not add work done. Imbalance is the coefficient of variation of the threads' comparisons since the previous change. "
        f"Then the load of a live stream changes (WS {size_s:g} s): to 120 % of what 1 thread sustains, or to 30 % of "
        f"what {cores} sustain, and the controller decides. Load is comparisons a second with full windows, so after "
        "the change it grows until the windows hold what came at the new rate. Latency counts from the moment a tuple "
        "was due, whether or not there was room for it; for ScaleJoin, written ad hoc, until a pair has been compared. "
        f"In 'time work' each comparison sleeps for {TIMED_NS:,} ns, so {MAX_THREADS} threads do "
        "what as many cores would, except for what cores share: it shows the shapes of the paper's figures, not its numbers. "
        f"Threads are added to it at {UPPER:.0%} of what they sustain, and only the run with fixed threads stands beside it: "
        "ScaleJoin would sleep as long."
    )
    finished = Experiment("q4", "What a reconfiguration takes", text, PAPER)
    kinds = {"provisioning": up, "decommissioning": down}
    timed_kinds = {f"{time_work.MARK}, {kind}": moves for kind, moves in zip(kinds, (timed_up, timed_down), strict=True)}
    for kind, moves in (kinds | timed_kinds).items():
        for move in moves:
            case = f"{kind}, {move.before} to {move.after} threads"
            turns = "threads take turns on the cores" if max(move.before, move.after) > cores else ""
            note = time_work.NOTE if kind in timed_kinds else turns
            middle, most = median(move.ms), max(move.ms)
            finished.rows.append(Row("q4", f"{case}, p50 of {len(move.ms)}", middle, "ms", "lower", note=note))
            finished.rows.append(Row("q4", f"{case}, max", most, "ms", "lower", 40.0, note=note))
            uneven = 100 * median(move.imbalance)
            finished.rows.append(Row("q4", f"{case}, imbalance before", uneven, "%", "lower", 2.0, note=note))
    for step in (*steps, *timed_steps):
        finished.rows += _rows(step, every_s)
    turns = f"Above {cores} threads they take turns on the cores."
    finished.figures = _of_moves(kinds, turns) + _of_steps(steps, every_s)
    rows, figure = time_work.rows_and_figure(scaled, TIMED_WINDOW, TIMED_NS)
    finished.rows += rows
    of_time = [figure, *_of_moves(timed_kinds, time_work.NOTE), *_of_steps(timed_steps, every_s)]
    finished.figures += [time_work.marked(each) for each in of_time]
    return finished


def _rows(step: Step, every_s: float) -> list[Row]:
    played, case = step.played, f"load {step.name}"
    x, means, _ = played.latencies(every_s)
    before, after = np.nanmedian(means[x < step.at_s]), np.nanmax(means[x >= step.at_s])
    at_change = played.threads[int(np.searchsorted(played.threads_s, step.at_s)) - 1]
    rows = [
        Row("q4", f"{case}, mean latency before", float(before), "ms", "lower"),
        Row("q4", f"{case}, worst mean latency after", float(after), "ms", "lower", note=f"of {every_s:g} s"),
        Row("q4", f"{case}, threads at the end", played.threads[-1], "threads", note=f"{at_change} before"),
    ]
    if step.alone is not None:
        x, means = step.alone_latencies(every_s)
        before, after = np.nanmedian(means[x < step.at_s]), np.nanmax(means[x >= step.at_s])
        rows.append(Row("q4", f"{case}, ScaleJoin, ad hoc, mean latency before", float(before), "ms", "lower"))
        rows.append(Row("q4", f"{case}, ScaleJoin, ad hoc, worst mean latency after", float(after), "ms", "lower"))
    changed = [s - step.at_s for s in played.threads_s if s >= step.at_s]
    if changed:
        rows.append(Row("q4", f"{case}, from the change to other threads", changed[0], "s", "lower"))
        rows.append(Row("q4", f"{case}, slowest reconfiguration", max(played.change_ms), "ms", "lower", 40.0))
    return rows


def _of_moves(kinds: dict[str, list[Moves]], note: str) -> list[Figure]:
    times, uneven = [], []
    for kind, moves in kinds.items():
        x = [move.before for move in moves]
        times.append(Line(f"{kind}, p50", x, [median(move.ms) for move in moves]))
        times.append(Line(f"{kind}, max", x, [max(move.ms) for move in moves]))
        uneven.append(Line(kind, x, [100 * median(move.imbalance) for move in moves]))
    return [
        Figure("Reconfiguration times", "threads before", "ms", times, log_x=True, log_y=True, note=note),
        Figure("Imbalance before", "threads before", "coefficient of variation (%)", uneven, log_x=True, note=note),
    ]


def _of_steps(steps: list[Step], every_s: float) -> list[Figure]:
    rates, compared, latencies, threads = [], [], [], []
    for step in steps:
        history, name, end = step.played.history, step.name, float(step.played.history["seconds"].iloc[-1])
        if "fixed" not in name:
            per_s = [2 * rate for rate in (*step.rates, step.rates[1])]
            rates.append(curve(name, [-step.at_s, 0.0, end - step.at_s], per_s, steps=True))
        compared.append(curve(name, history["seconds"] - step.at_s, history["comparisons_per_s"] / 1e9))
        x, means, _ = step.played.latencies(every_s)
        latencies.append(curve(name, x - step.at_s, means))
        if step.alone is not None:
            x, means = step.alone_latencies(every_s)
            latencies.append(curve(f"{name}, ScaleJoin", x - step.at_s, means))
            seen_s, made = step.alone.seen_s, np.diff(step.alone.compared)
            compared.append(curve(f"{name}, ScaleJoin", seen_s[1:] - step.at_s, made / np.diff(seen_s) / 1e9))
        threads.append(step.played.threads_line(name, step.at_s))
    x_label = "seconds after the change of the rate"
    return [
        Figure("Input rate", x_label, "tuples/s, both sides", rates),
        Figure("Throughput", x_label, "G comparisons/s", compared),
        Figure("Latency", x_label, f"mean of {every_s:g} s (ms)", latencies, log_y=True),
        Figure("Threads", x_label, "threads", threads),
    ]
