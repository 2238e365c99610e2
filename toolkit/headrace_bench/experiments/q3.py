"""Q3, section 8.3 of STRETCH: the band join against a single-thread loop, with and without an index.

There are five ways to find the same pairs. 1T is the paper's optimized program on one thread: a compiled loop over plain arrays
that compares as the engine does (`bench.join_kernel`: the widest vectors that pay, four tuples in a pass). J+ compares all pairs,
with the built-in band and with a user's function. J+ with the index skips nearly all comparisons, so its rate is given both in
virtual comparisons (those that a join without an index makes for the same result) and in actual ones. ScaleJoin written for this
join alone (`bench.scalejoin`) has the engine's gate and sources, 1T's comparisons, and nothing else: J+ compared with it shows
the cost of generality, less the gain from J+ comparing faster than 1T.

Windows are given in tuples a side. How many tuples fit into a window of time, 5 minutes in the paper, depends on the rate.
The sustained rate is the one at which both agree: a rate of r per side fills the window with 300 r tuples, and with C
comparisons a second 2 r (300 r) = C, so r = sqrt(C / 600).

The sustained rate is drawn over the number of threads, with the deviation of its repetitions, as in Figure 8.
Latencies are compared with that of 1T, which is fed at half of its own rate.

Last come the gain and the cost of longer batches in a join of all pairs: an instance reads the window
once for a batch of tuples, whose results wait for the end of the batch.

Each window's whole result, warm-up included, is compared by count and by hash with the pairs found by binary
search. Clocks run in the steady state, when windows are full.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.elastic import words
from headrace.elastic.arrays import DEFAULT_BATCH_NS
from headrace.kernel import kernel
from headrace.memory.wrapped import wrapped_sum
from headrace.summary import counted
from headrace_bench.experiments.experiment import STRETCH_MACHINE, Experiment, Paper
from headrace_bench.experiments.figure import Figure, Line
from headrace_bench.experiments.scaling import ASSUMPTIONS, predict
from headrace_bench.join import band_join, columns_of, make_sides, near, plain_pairs, plain_rate, plain_waits
from headrace_bench.join_kernel import LEFT, RIGHT, WIDTH
from headrace_bench.resident import Resident, digest_one
from headrace_bench.rows import Row, median
from headrace_bench.scalejoin import run as run_adhoc
from headrace_bench.scalejoin import waits as adhoc_waits

PAPER = Paper(
    "STRETCH, section 8.3, Figure 8",
    STRETCH_MACHINE,
    (
        "On average an output tuple every 250,000 comparisons.",
        "The throughput of STRETCH and ScaleJoin with one thread is similar to 1T; the latency of 1T is lower.",
        "STRETCH's throughput grows linearly with the threads and can match that of ScaleJoin, "
        "despite a small overhead (in the order of 10 ms) in latency.",
    ),
)
WINDOW_S = 300
CHECKED = 5_000
"""Up to windows of this many tuples, 1T's pairs from the first tuple on are checked against those found by sorting."""
THREADS = (1, 2, 4, 8)
WAYS = ("all pairs, band", "all pairs, function", "index")
ADHOC = "ScaleJoin, ad hoc"
BATCHES = ({}, {"bound_ns": 10_000_000, "batch_ns": 2_000_000}, {"bound_ns": 50_000_000, "batch_ns": 10_000_000})
"""Options for all pairs: the defaults, and with more work in the gate and in a batch."""
DUCKDB_VIRTUAL = {1: 10.5, 2: 29.0}
"""G virtual comparisons/s of DuckDB's IEJoin for this band, on a quiet 2-core machine: the goal is ten times that."""


@kernel
def count_pairs(x, y, a, b, order, size, out):
    """Count and hash all matches less than `size` apart, by binary search in the right side; `order` sorts it by `a`."""
    a, b = a[order], b[order]
    for i in range(x.size):
        low = np.searchsorted(a, x[i] - WIDTH)
        high = np.searchsorted(a, x[i] + WIDTH, side="right")
        for p in range(low, high):
            if abs(np.float64(b[p]) - np.float64(y[i])) > WIDTH:
                continue
            j = order[p]
            left_ts, right_ts = 2 * i, 2 * j + 1
            if abs(left_ts - right_ts) < size:
                out[0] += 1
                if right_ts > left_ts:
                    out[1] = wrapped_sum(out[1], digest_one(RIGHT + j, LEFT + i, right_ts))
                else:
                    out[1] = wrapped_sum(out[1], digest_one(LEFT + i, RIGHT + j, left_ts))


class _Window:
    """The two sides for one window, their expected join, and the ways to compute it."""

    def __init__(self, window: int, arriving: int):
        self.window, self.arriving = window, arriving
        self.left, self.right, size = make_sides(window, arriving)
        self.columns = columns_of(self.left, self.right)
        self.size = size
        self.streams = {
            WAYS[0]: band_join(self.left, self.right, size),
            WAYS[1]: _function_join(self.left, self.right, size),
            WAYS[2]: band_join(self.left, self.right, size, index=True),
        }
        self.first: dict[str, Resident] = {}

    @functools.cached_property
    def whole(self) -> tuple[int, int]:
        """Number and digest of all pairs, from the first tuple on."""
        found = np.zeros(2, np.int64)
        _, x, y, _, a, b = self.columns
        count_pairs(x, y, a, b, np.argsort(a, kind="stable"), self.size, found)
        return int(found[0]), int(found[1]) & (2**64 - 1)

    @functools.cached_property
    def later(self) -> tuple[int, int]:
        """The same of what arrives when windows are full, by the plain loop."""
        return plain_pairs(self.columns, self.size, self.window)

    def case(self, way: str, threads: int, **options: int) -> Resident:
        """An operator that holds a full window, about to be fed; of all pairs, without having compared them."""
        held = {"warm": self.window} if way == "index" else {"stored": self.window}
        run = Resident(self.streams[way], [self.left, self.right], threads, like=self.first.get(way), **held, **options)
        self.first.setdefault(way, run)
        return run

    def rate(self, way: str, threads: int, **options: int) -> tuple[float, float]:
        """Tuples/s of both sides, and comparisons made for each."""
        run = self.case(way, threads, **options)
        seconds = run.run()
        fed = self.arriving
        if way == "index":
            fed += self.window
            assert (run.results, run.digest) == self.whole, f"{way}, {threads} threads: other pairs than by sorting"
        else:  # it begins with full windows
            assert (run.results, run.digest) == self.later, "other pairs than the plain loop's"
        return 2 * self.arriving / seconds, run.meter(words.COMPARISONS) / (2 * fed)

    def adhoc_rate(self, threads: int) -> float:
        """Tuples/s of both sides of ScaleJoin written ad hoc, with full windows."""
        seconds, *pairs = run_adhoc(self.columns, self.size, self.window, threads)
        assert tuple(pairs) == self.later, f"{ADHOC}, {threads} threads: other pairs than the plain loop's"
        return 2 * self.arriving / seconds

    def adhoc_latency_ms(self, threads: int, per_second: float) -> tuple[float, float]:
        """p50 and p99 of ScaleJoin written ad hoc, at a steady rate of both sides."""
        waits, pairs = adhoc_waits(self.columns, self.size, self.window, threads, max(1, int(per_second / 2)))
        assert pairs == self.later, f"{ADHOC}, {threads} threads: other pairs than the plain loop's"
        return tuple(np.percentile(waits / 1e6, (50, 99))) if waits.size else (math.nan, math.nan)

    def plain_latency_ms(self, per_second: float) -> tuple[float, float]:
        """p50 and p99 of 1T, at a steady rate of both sides."""
        waits, pairs = plain_waits(self.columns, self.size, self.window, max(1, int(per_second / 2)))
        assert pairs == self.later, "1T at a rate: other pairs than at full speed"
        return tuple(np.percentile(waits / 1e6, (50, 99))) if waits.size else (math.nan, math.nan)

    def latency_ms(self, way: str, threads: int, per_second: float, **options: int) -> tuple[float, float]:
        """p50 and p99 at a steady rate of both sides."""
        run = self.case(way, threads, **options)
        run.run(per_second=max(1, int(per_second / 2)))
        waits = np.concatenate(run.latencies[-max(1, len(run.latencies) // 2) :]) / 1e6
        return tuple(np.percentile(waits, (50, 99))) if waits.size else (math.nan, math.nan)


def _function_join(left: pa.Table, right: pa.Table, size: int):
    return hr.stream(left, event_time="ts").join(hr.stream(right, event_time="ts"), size, where=near)


def measure(full: bool, tiny: bool = False) -> Experiment:
    """Comparisons/s and sustainable rates over windows and threads; latency at half of them."""
    windows, work, repetitions, threads = (256, 5_000, 100_000, 1_000_000), 1e9, 3, THREADS
    if full:
        work, repetitions = 20e9, 5
    if tiny:
        windows, work, repetitions, threads = (300,), 2e5, 1, (1, 2)
    middle = windows[-2] if len(windows) > 1 else windows[0]
    rates: dict[tuple[str, int, int], float] = {}
    made: dict[tuple[int, int], float] = {}
    plain: dict[int, float] = {}
    delays: dict[tuple[str, int], tuple[float, float]] = {}
    batched: list[Batched] = []
    spread: dict[tuple[str, int], list[float]] = {}
    for window in windows:
        # The index takes hundreds of thousands of tuples a second at any window; comparing all pairs takes time.
        arriving = {way: int(min(2e6, max(2_000, work / window / 2))) for way in WAYS}
        arriving["index"] = 500 if tiny else (2_000_000 if full else 200_000)
        cases = {way: _Window(window, arriving[way]) for way in dict.fromkeys(WAYS)}
        one, indexed = cases[WAYS[0]], cases["index"]
        plain[window] = plain_rate(one.columns, one.size, window, repetitions)
        if window <= CHECKED:
            assert plain_pairs(indexed.columns, indexed.size, 0) == indexed.whole, "1T: other pairs than by sorting"
        counts = threads if window == middle else threads[:2]
        samples: dict[tuple[str, int], list[float]] = {}
        for _ in range(repetitions):
            for way in WAYS:
                for n in counts:
                    rate, compared = cases[way].rate(way, n)
                    samples.setdefault((way, n), []).append(rate)
                    if way == "index":
                        made[window, n] = compared
            for n in counts:
                samples.setdefault((ADHOC, n), []).append(one.adhoc_rate(n))
        for (way, n), values in samples.items():
            rates[way, n, window] = median(values)
        if window == middle:
            spread = samples
            delays["1T", 1] = one.plain_latency_ms(min(100_000.0, plain[window] / window / 2))
            for way in (WAYS[0], "index"):
                for n in counts:
                    delays[way, n] = cases[way].latency_ms(way, n, min(100_000.0, rates[way, n, window] / 2))
            for n in counts:
                delays[ADHOC, n] = one.adhoc_latency_ms(n, rates[ADHOC, n, window] / 2)
        if window in windows[-2:]:
            batched += [_batched(one, n, repetitions) for n in counts[:2]]
    return _experiment(windows, middle, threads, plain, rates, made, delays, batched, spread)


@dataclass(frozen=True)
class Batched:
    """For each of `BATCHES`, G comparisons/s of `threads` threads, and latency (p50, p99) in ms at half load."""

    window: int
    threads: int
    speed: list[float]
    half: list[tuple[float, float]]


def _batched(case: _Window, threads: int, repetitions: int) -> Batched:
    """Measure throughput, and latency at half of the rate that default batches reach: at full speed, latency would only be
    how far ahead the sources are."""
    way, found = WAYS[0], Batched(case.window, threads, [], [])
    rates = [
        median([case.rate(way, threads, **options)[0] for _ in range(repetitions)]) for options in BATCHES
    ]
    for options, rate in zip(BATCHES, rates, strict=True):
        found.speed.append(rate * case.window / 1e9)
        found.half.append(case.latency_ms(way, threads, min(100_000.0, rates[0] / 2), **options))
    return found


def _experiment(windows, middle, threads, plain, rates, made, delays, batched, spread) -> Experiment:
    finished = Experiment(
        "q3",
        "A band join: what does sharing cost, and what does an index save?",
        "Tuples that arrive at either side are compared with the other side's window: |x - a| <= 10 and |y - b| <= 10, uniform "
        "in [1, 10000], one result in 250,000 pairs. 1T is a compiled loop on one thread over plain arrays, with vectors as "
        "wide and as many tuples in a pass as the engine's; the ratio to it is what the engine costs. 'All pairs' makes the "
        "same comparisons in the engine, with the built-in band or a user's function. 'Index' finds the same pairs by cells "
        "of the bands; it is given in virtual comparisons, which include those that it need not make. ScaleJoin written ad hoc "
        "has the engine's gate and 1T's comparisons, for this one join and a fixed number of threads: a ratio to it below 1 is "
        "the cost of generality, one above 1 means that the engine's kernel compares faster than 1T's. Latency of ScaleJoin and "
        "1T ends when a pair has been compared, that of the engine when the result was taken. Longer batches are those of "
        "start(bound_ns=, batch_ns=); their latency is taken at half of the rate that default batches sustain.",
        PAPER,
        assumptions=list(ASSUMPTIONS),
    )
    for window in windows:
        one = plain[window] / 1e9
        finished.rows.append(Row("q3", f"window of {window:,}, 1T", one, "G comparisons/s"))
        for way in (*WAYS, ADHOC):
            for n in threads:
                if (way, n, window) not in rates:
                    continue
                case = f"window of {window:,}, {way}, {counted(n, 'thread')}"
                value = rates[way, n, window] * window / 1e9
                goal = 10 * DUCKDB_VIRTUAL[n] if way == "index" and window == windows[-1] and n in DUCKDB_VIRTUAL else None
                unit = "G virtual comparisons/s" if way == "index" else "G comparisons/s"
                finished.rows.append(Row("q3", case, value, unit, goal=goal, baseline=one, baseline_name="1T"))
        for n in threads:
            if (ADHOC, n, window) in rates:
                ratio = rates[WAYS[0], n, window] / rates[ADHOC, n, window]
                case = f"window of {window:,}, {counted(n, 'thread')}: {WAYS[0]} over {ADHOC}"
                finished.rows.append(Row("q3", case, ratio, "x", "higher"))
        finished.rows.append(
            Row("q3", f"window of {window:,}, index, comparisons made for each tuple", made[window, 1], "comparisons", "lower",
                baseline=float(window), baseline_name="all pairs")
        )  # fmt: skip
    for way in WAYS:
        for n in threads[:2]:
            case = f"5 minutes, {way}, {counted(n, 'thread')}, sustainable"
            value, one = (
                sustained(compared)
                for compared in (rates[way, n, windows[-1]] * windows[-1], plain[windows[-1]])
            )
            finished.rows.append(Row("q3", case, value, "tuples/s a side", baseline=one, baseline_name="1T"))
    for (way, n), (p50, p99) in delays.items():
        case = f"window of {middle:,}, {way}, {counted(n, 'thread')}, half of its rate"
        finished.rows.append(Row("q3", f"{case}, p50", p50, "ms", "lower"))
        finished.rows.append(Row("q3", f"{case}, p99", p99, "ms", "lower"))
    for each in batched:
        finished.rows += _batched_rows(each)
    _predict(finished, windows, middle, rates)
    _draw(finished, windows, middle, threads, plain, rates, delays)
    finished.figures.insert(1, _sustained_figure(middle, threads, plain[middle], spread))
    finished.figures += _batched_figures(batched)
    return finished


def sustained(comparisons_per_s: float) -> float:
    """Tuples per second of each side that cause `comparisons_per_s` with windows of `WINDOW_S`.

    >>> round(sustained(6e9))  # 3,162 a second of each side, each compared with 948,683
    3162
    """
    return math.sqrt(comparisons_per_s / (2 * WINDOW_S))


def _sustained_figure(middle, threads, plain, spread) -> Figure:
    """First plot of Figure 8: the rate that so many threads sustain, and its standard deviation."""
    lines = [Line("1T", [1], [sustained(plain)])]
    for way in (*WAYS[:2], ADHOC):  # the index compares few: its rate hardly depends on the window
        found = [[sustained(rate * middle) for rate in spread[way, n]] for n in threads]
        lines.append(Line(way, threads, [float(np.median(each)) for each in found],
                          deviation=[float(np.std(each)) for each in found]))  # fmt: skip
    note = f"From the comparisons a second with windows of {middle:,} tuples; bars are the standard deviation of the repetitions."
    return Figure(f"Sustainable rate over threads, WS {WINDOW_S} s", "threads", "tuples/s a side", lines, log_y=True, note=note)


def _batch_ms(options: dict[str, int]) -> float:
    return options.get("batch_ns", DEFAULT_BATCH_NS) / 1e6


def _batched_rows(of: Batched) -> list[Row]:
    rows = []
    for k, options in enumerate(BATCHES):
        case = f"window of {of.window:,}, {WAYS[0]}, {counted(of.threads, 'thread')}, batches of {_batch_ms(options):g} ms"
        rows.append(Row("q3", case, of.speed[k], "G comparisons/s", baseline=of.speed[0], baseline_name="as it is"))
        for value, first, quantile in zip(of.half[k], of.half[0], ("p50", "p99"), strict=True):
            name = f"{case}, half of the rate, {quantile}"
            rows.append(Row("q3", name, value, "ms", "lower", baseline=first, baseline_name="as it is"))
    return rows


def _batched_figures(batched: list[Batched]) -> list[Figure]:
    x = [_batch_ms(options) for options in BATCHES]
    names = [f"window of {of.window:,}, {counted(of.threads, 'thread')}" for of in batched]
    latencies = [
        Line(f"{name}, {quantile}", x, [pair[k] for pair in of.half])
        for name, of in zip(names, batched, strict=True)
        for k, quantile in enumerate(("p50", "p99"))
    ]
    label = "longest batch (ms)"
    return [
        Figure(
            "Throughput over the length of a batch", label, "G comparisons/s",
            [Line(name, x, of.speed) for name, of in zip(names, batched, strict=True)], log_x=True,
            note="What a thread reads of a window it reads once for some tuples of a batch.",
        ),
        Figure("Latency over the length of a batch", label, "ms", latencies, log_x=True, log_y=True),
    ]  # fmt: skip


def _predict(finished: Experiment, windows, middle, rates) -> None:
    """Compare two threads' measured rate with the one predicted from one thread's costs."""
    way = WAYS[0]
    scan_ns = 1e9 / rates[way, 1, windows[0]]  # hardly any comparisons: what reading and storing a tuple costs
    model = predict(scan_ns if middle != windows[0] else 0.0, 1e9 / rates[way, 1, middle])
    measured = rates[way, 2, middle]
    error = abs(model(2) / measured - 1)
    case = f"window of {middle:,}, {way}, 2 threads: prediction's error"
    finished.rows.append(Row("q3", case, error, "fraction", "lower"))
    far = [2, 4, 8, 16, 36, 72]
    line = Line(f"{way}, from 1 thread's costs", far, [model(n) * middle / 1e9 for n in far], predicted=True)
    known = [(n, rates[way, n, middle]) for n in THREADS if (way, n, middle) in rates]
    finished.figures.append(
        Figure(
            f"Beyond this machine, window of {middle:,}",
            "threads",
            "G comparisons/s",
            [line, Line("measured", [n for n, _ in known], [rate * middle / 1e9 for _, rate in known])],
            log_x=True,
            log_y=True,
            note="A prediction: as many cores as threads. Measured ones beyond 2 threads share 2 cores.",
        )
    )


def _over_threads(delays: dict[tuple[str, int], tuple[float, float]], way: str, quantile: int) -> tuple[list[int], list[float]]:
    """Numbers of threads for which a latency was measured, and these latencies."""
    found = {n: pair[quantile] for (of, n), pair in delays.items() if of == way}
    return list(found), list(found.values())


def _draw(finished: Experiment, windows, middle, threads, plain, rates, delays) -> None:
    by_window = [Line("1T", windows, [plain[w] / w for w in windows])]
    by_window += [
        Line(f"{way}, {n}", windows, [rates[way, n, w] for w in windows]) for way in WAYS for n in threads[:2]
    ]
    finished.figures.insert(
        0,
        Figure(
            "Sustained rate over the window, 1 and 2 threads", "tuples in a side's window", "tuples/s, both sides",
            by_window, log_x=True, log_y=True, note="Where windows are small, comparing all pairs costs less than an index.",
        ),
    )  # fmt: skip
    finished.figures.insert(
        1,
        Figure(
            f"Throughput over threads, window of {middle:,}", "threads", "G comparisons/s",
            [Line(way, threads, [rates[way, n, middle] * middle / 1e9 for n in threads]) for way in (*WAYS, ADHOC)],
            log_y=True,
            note="Of the index in virtual comparisons: those that it did not need to make count too.",
        ),
    )  # fmt: skip
    ways = list(dict.fromkeys(way for way, _ in delays))
    finished.figures.insert(
        2,
        Figure(
            f"Latency at half of the rate, window of {middle:,}", "threads", "ms",
            [Line(f"{way}, {name}", *_over_threads(delays, way, k))
             for way in ways for k, name in enumerate(("p50", "p99"))],
            log_y=True, note="From the later tuple of a pair to its result, of 1T and ScaleJoin until it is compared.",
        ),
    )  # fmt: skip
