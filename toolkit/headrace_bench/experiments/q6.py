"""Trades that come in bursts: STRETCH, section 8.6 (Q6), Figure 13.

The hedge self-join of `headrace.apps.hedge`, WS 30 s, on the trades from the opening of a made-up day whose rate
has the shape of a real one (`headrace_datasets.trades`), played at their own times. The rate is scaled so that the
busiest second needs more than one thread: comparisons grow with its square. The proactive controller steers.

The experiment is repeated with a join whose work is sleeping (`time_work`), at a rate whose busiest second needs twenty threads.

Each is drawn as a whole, and then once more around the second with the most trades: the zoomed-in view of Figure 13. Figure 13d
has two boxes of latency, of the whole experiment and of that view; here there is a third one, of the stretch with the longest
latency, which need not be where the rate is highest, since work depends on what windows hold.

Hedges of the first rows are compared with the reference, those of the whole run with a run at full speed.
"""

from __future__ import annotations

import os
import time

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.apps import hedge
from headrace.controllers import ProactiveJoin
from headrace.reference import apps as reference
from headrace_bench.experiments import time_work
from headrace_bench.experiments.experiment import STRETCH_MACHINE, Experiment, Paper
from headrace_bench.experiments.figure import Figure, box_of, part_of
from headrace_bench.experiments.live_stream import Played, Timekeeper, checksum, curve, play
from headrace_bench.rows import Row

SIZE_S = 30
PEAK = 8_000.0
PEAK_LOAD = 1.5
"""Load in the busiest second, as a multiple of what one thread can do."""
TIMED_NS, TIMED_THREADS, TIMED_LOAD = 1_000, 32, 20.0
"""For time work: the time of a comparison, the most threads, and how many the busiest second needs."""
CHECKED = 1_500
"""Rows that are also joined by the reference."""
UPPER, LOWER = 0.80, 0.70
NEAR = "around the highest rate"

PAPER = Paper(
    "STRETCH, section 8.6, Figure 13",
    STRETCH_MACHINE,
    (
        "Six hours of trades at NYSE and NASDAQ, the 10 biggest companies; the rate oscillates between 0 and 8 000 t/s, "
        "WS 30 seconds.",
        "The predicate can be run by a small number of threads most of the time.",
        "The highest peak is ~7 600 t/s.",
        "Latency on average 21 ms around the highest peak, and 1 ms for the whole experiment.",
    ),
)


def from_opening(seconds: float, peak: float) -> pa.Table:
    """Trades of the first seconds of the day, scaled so that the day's highest rate would be `peak`."""
    from headrace_datasets import trades

    rows = round(0.2 * peak * seconds)
    while True:
        table = trades(n=rows, peak=peak).to_arrow()
        times = _times_us(table)
        if times[-1] - times[0] >= seconds * 1e6:
            return table.slice(0, int(np.searchsorted(times, times[0] + seconds * 1e6)))
        rows *= 2


def demand(times_us: np.ndarray) -> np.ndarray:
    """Comparisons caused by each second's trades: each trade is compared twice with the trades of the last WS.

    >>> demand(np.array([0, 1, 2, 1_000_000, 1_000_001])).tolist()
    [6, 14]
    """
    before = np.arange(times_us.size) - np.searchsorted(times_us, times_us - SIZE_S * 1_000_000, side="right")
    of_second = (times_us - times_us[0]) // 1_000_000
    return np.bincount(of_second, weights=2 * before).astype(np.int64)


def measure(full: bool, tiny: bool = False) -> Experiment:
    """Latency and threads over the whole run and in its worst 30 s."""
    seconds, rows = (3_600.0, 60_000) if full else (45.0, 30_000)
    if tiny:
        seconds, rows = 2.0, 2_000
    cores = os.cpu_count() or 1
    sample = from_opening(seconds if tiny else SIZE_S, PEAK if tiny else 5 * PEAK).slice(0, rows)
    _check(sample, cores)
    capacity = sustainable(sample)
    guessed = from_opening(seconds, PEAK)
    peak = PEAK if tiny else PEAK * float(np.sqrt(PEAK_LOAD * capacity / demand(_times_us(guessed)).max()))
    table = from_opening(seconds, peak)
    played, rates, work = _played(table, build(table), ProactiveJoin(UPPER, LOWER), cores, cores)
    timed_peak = PEAK * float(np.sqrt(TIMED_LOAD * 1e9 / TIMED_NS / demand(_times_us(guessed)).max()))
    timed_table = from_opening(seconds, timed_peak)
    controller = time_work.TimedProactive(UPPER, LOWER, ns=TIMED_NS)
    timed, timed_rates, timed_work = _played(timed_table, timed_build(timed_table), controller, TIMED_THREADS, cores)
    text = (
        f"Can the threads follow the bursts of a real stream? {table.num_rows:,} trades, {seconds:g} s from the opening, "
        f"each fed to both sides, WS {SIZE_S} s. The busiest second has {rates.max():,} trades (the paper's ~7,600): the "
        f"day's rate is scaled by {peak / PEAK:.2g} so that the most demanding second makes {PEAK_LOAD:.0%} of the "
        f"{capacity / 1e9:.2g} G comparisons/s that one thread was measured to make. At most {cores} threads, as many as "
        "there are cores; the sources' threads and the collector share these. Latency counts from the moment a trade "
        "was due. Figures over time are for each second. "
        f"'Time work' is the same stream at {timed_peak / PEAK:.2g} of the day's rate, with comparisons that sleep "
        f"for {TIMED_NS:,} ns each and at most {TIMED_THREADS} threads, each as if it had a core: the busiest second needs "
        f"{TIMED_LOAD:g} of them."
    )
    finished = Experiment("q6", "Trades that come in bursts", text, PAPER, _rows(played, seconds, cores))
    finished.figures = _figures(played, rates, work, seconds)
    finished.rows += time_work.marked_rows(_rows(timed, seconds, TIMED_THREADS))
    finished.figures += [time_work.marked(each) for each in _figures(timed, timed_rates, timed_work, seconds)]
    return finished


def _played(
    table: pa.Table, stream: hr.Stream, controller: ProactiveJoin, max_threads: int, cores: int
) -> tuple[Played, np.ndarray, np.ndarray]:
    """The run at the trades' own times, and the trades and comparisons of each second."""
    expected = Timekeeper()
    with build(table).start(threads=cores, sink=expected) as run:
        run.wait()
    times = _times_us(table)
    played = play(stream, controller, 1, max_threads, (LOWER, UPPER), begin_us=int(times[0]))
    assert played.outcome == (expected.times.size, checksum(expected.times)), "other hedges than at full speed"
    return played, np.bincount((times - times[0]) // 1_000_000), demand(times)


def build(table: pa.Table) -> hr.Stream:
    """The application's query."""
    return hedge.build(hr.stream(table, event_time="ts"), f"{SIZE_S}s")


def timed_build(table: pa.Table) -> hr.Stream:
    """The same query, with comparisons that take `TIMED_NS` each."""
    trades = hedge.prepared(hr.stream(table, event_time="ts"))
    spec = time_work.TimedJoin(SIZE_S * 1_000_000, hedge.may_hedge, (), ("l_", "r_"), index=False, ns=TIMED_NS)
    return hedge.decided(trades.through(spec, trades))


def sustainable(table: pa.Table) -> float:
    """Comparisons a second of one thread at full speed."""
    with build(table).start(threads=1, sink=hr.discard()) as run:
        begin = time.perf_counter()
        run.wait()
        seconds = time.perf_counter() - begin
    return float(demand(_times_us(table)).sum()) / seconds


def _check(table: pa.Table, max_threads: int) -> None:
    # One trade in 500 is of the stock that moves against the others: keep rows of it, and some of the others.
    rare = np.flatnonzero(table["id"].to_numpy() == 10)[: CHECKED // 10]
    rest = np.arange(min(table.num_rows, CHECKED))
    few = table.take(np.union1d(rare, rest))
    found = build(few).to_arrow(threads=1, max_threads=max_threads, reconfigure=[(few.num_rows, max_threads)])
    wanted = reference.hedge([list(zip(_times_us(few).tolist(), few.to_pylist(), strict=True))], f"{SIZE_S}s", "us")
    assert wanted, "no hedge among the first rows: nothing was checked"
    columns = ("l_id", "l_price", "r_id", "r_price")
    got = list(zip(_times_us(found).tolist(), *(found[c].to_pylist() for c in columns), strict=True))
    assert got == [(row["ts"], *(row[c] for c in columns)) for row in wanted], "other hedges than the reference"


def _times_us(table: pa.Table) -> np.ndarray:
    return table["ts"].cast(pa.int64()).to_numpy()


def _rows(played: Played, seconds: float, cores: int) -> list[Row]:
    stretch_s = stretch_of(seconds)
    worst_s, worst = worst_stretch(played.due_s, played.latency_ms, stretch_s)
    rows = [
        Row("q6", "latency, mean of the whole run", float(played.latency_ms.mean()), "ms", "lower"),
        Row("q6", f"latency, mean of the worst {stretch_s:g} s", worst, "ms", "lower", note=f"from second {worst_s:g}"),
        Row("q6", "latency, p99 of the whole run", float(np.percentile(played.latency_ms, 99)), "ms", "lower"),
        Row("q6", "threads, mean", played.mean_threads, "threads", "lower", None, float(cores), "always the most"),
        Row("q6", "reconfigurations", len(played.change_ms), "changes"),
        Row("q6", "hedges", played.due_s.size, "results"),
    ]
    if played.change_ms:
        rows.append(Row("q6", "slowest reconfiguration", max(played.change_ms), "ms", "lower", 40.0))
    return rows


def stretch_of(seconds: float) -> float:
    """Length of the worst stretch of a run of so many seconds."""
    return min(SIZE_S, seconds / 2)


def worst_stretch(due_s: np.ndarray, latency_ms: np.ndarray, length_s: float) -> tuple[float, float]:
    """The start, in whole seconds, of the stretch of `length_s` with the highest mean latency, and that mean.

    >>> worst_stretch(np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 5.0, 3.0, 1.0]), 2.0)
    (1.0, 4.0)
    """
    starts = np.arange(0.0, max(1.0, np.ceil(due_s.max() + 1 - length_s)))
    sums = np.concatenate(([0.0], np.cumsum(latency_ms)))
    first, last = np.searchsorted(due_s, starts), np.searchsorted(due_s, starts + length_s)
    means = (sums[last] - sums[first]) / np.maximum(last - first, 1)
    return float(starts[np.argmax(means)]), float(means.max())


def view_of(rates: np.ndarray) -> tuple[int, int]:
    """The beginning and end of the zoomed-in view: a quarter of the run, at most `SIZE_S`, around the second with most trades.

    >>> view_of(np.array([1, 1, 1, 1, 9, 1, 1, 1])), view_of(np.array([9, 1, 1, 1, 1, 1, 1, 1])), view_of(np.array([1, 2]))
    ((3, 5), (0, 2), (0, 2))
    """
    length = min(SIZE_S, max(2, round(rates.size / 4)))
    begin = max(0, min(int(rates.argmax()) - length // 2, rates.size - length))
    return begin, begin + length


def boxes(at_s: np.ndarray, means: np.ndarray, parts: dict[str, tuple[float, float]]) -> Figure:
    """The spread of each second's mean latency, in the whole run and in parts of it.

    >>> drawn = boxes(np.array([0.5, 1.5, 2.5]), np.array([1.0, 5.0, 9.0]), {"worst 2 s": (1.0, 3.0)})
    >>> [(box.name, box.mean) for box in drawn.boxes]
    [('whole run', 5.0), ('worst 2 s', 7.0)]
    """
    found = [box_of("whole run", means)]
    for name, (begin, end) in parts.items():
        values = means[(at_s >= begin) & (at_s < end)]
        found += [box_of(name, values)] if np.isfinite(values).any() else []
    note = "Whiskers from the 1st to the 99th percentile, a diamond at the mean."
    return Figure("Latency, spread", "part of the run", "means of 1 s (ms)", [], log_y=True, note=note, boxes=found)


def _figures(played: Played, rates: np.ndarray, work: np.ndarray, seconds: float) -> list[Figure]:
    history = played.history
    x, means, slow = played.latencies(1.0)
    stretch_s = stretch_of(seconds)
    worst_s, _ = worst_stretch(played.due_s, played.latency_ms, stretch_s)
    begin, end = view_of(rates)
    whole = [
        Figure("Input rate", "seconds", "trades/s", [curve("trades", range(rates.size), rates, steps=True)]),
        Figure("Threads", "seconds", "threads", [played.threads_line("active")]),
        Figure(
            "Throughput",
            "seconds",
            "G comparisons/s",
            [
                curve("compared", history["seconds"], history["comparisons_per_s"] / 1e9),
                curve("asked for", range(work.size), work / 1e9, steps=True),
            ],
        ),
        Figure("Latency", "seconds", "ms", [curve("mean", x, means), curve("p99", x, slow)], log_y=True),
    ]
    parts = {NEAR: (begin, end), f"worst {stretch_s:g} s": (worst_s, worst_s + stretch_s)}
    zoomed = [part_of(figure, begin, end, f"{figure.title} {NEAR}") for figure in whole]
    return [*whole, boxes(x, means, parts), *zoomed]
