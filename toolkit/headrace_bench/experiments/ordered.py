"""Scaling Ordered Stream Processing on Shared-Memory Multicores, section 7: Figure 8 (7.1), 9 to 11 (7.2), 12 to 14 (7.3).

The figures are preceded by the engine's cost compared with a hand-written loop, and by the cost of a decision
(`headrace_bench.ordered`). Throughput is that of the workers alone, latency that of whole runs; both are taken from the 20th to
the 80th percentile of the rows and are medians of three runs. Except for the applications, the operators are the parametric ones
of section 7. Before anything is timed, all results are compared: with the reference on some rows, and with one another on all.

The paper's keys lie around the middle of their range, where two key ranges are balanced whatever the skew; ours lie off the
middle. Its light operators take tens of microseconds, as its tuples do; ours start at a tenth of a microsecond. Figures beyond
this machine's cores are predictions: the cost of a tuple on one and on two threads is split into a part that is divided among the
threads and a part that is not (`scaling.predict`), which is at least the time of the serial stages.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from headrace.ordering.arrays import REORDERS
from headrace.ordering.configuration import SCHEDULES
from headrace.ordering.options import DEFAULT_SCHEDULE
from headrace.summary import counted
from headrace_bench import ordered
from headrace_bench.experiments.experiment import Experiment, Paper
from headrace_bench.experiments.figure import Figure, Line
from headrace_bench.experiments.scaling import predict
from headrace_bench.machine import patience_for
from headrace_bench.marked import Markers, marked, middle
from headrace_bench.ordered_apps import THREADS, Measured, measure_apps
from headrace_bench.parametric import KEYS, Case, Shape, make_rows, rounds_of
from headrace_bench.pipelined import Pipelined
from headrace_bench.rows import Row, median, repeated

PAPER = Paper(
    "Scaling Ordered Stream Processing on Shared-Memory Multicores, section 7, Figures 8 to 14",
    "Intel Xeon E5-2698B v3, 16 cores; C++, Windows Server 2012 R2",
    (
        "CT scales almost linearly up to 16 cores for Q1, 12 for Q15 and 8 for Q2, Q3 and Q4; LP does as well for Q1 and Q15; "
        "ET and QST are behind both.",
        "LP has the lowest latencies, down to a few milliseconds, CT nearly the same; ET and QST have high ones.",
        "Hybrid and partitioned queues are alike where keys are; as they crowd, hybrid stays where it was and partitioned drops.",
        "A tuple's processing latency is near its cost with hybrid queues, and much higher with partitioned ones.",
        "The non-blocking reorder buffer scales better than the one with a lock for light operators, for a selectivity of 50, "
        "and in all five queries.",
    ),
)
ASSUMPTIONS = (
    "There are as many cores as threads, each as fast as one of this machine, and memory keeps up.",
    "Work that is not divided between two threads is not divided among more: serial stages, the reorder buffer, the queues, and "
    "what a schedule leaves undone; each schedule is predicted from its own rates of one and two threads.",
    "Partitioned and hybrid queues: a stage is as slow as its busiest worker, by the shares of ranges or buckets.",
)
FAR = (2, 4, 8, 12, 16)
PREDICTION = "a prediction: see the assumptions"
GAIN = 1.05
"""One more worker is worthwhile if the rate grows by this factor."""
SIGMAS = (0.05, 0.1, 0.2, 0.5, 1.0)
BUCKETS = 100
"""Buckets of hybrid queues, as in the paper; partitioned queues have one for each worker."""
QUEUED = {"hybrid": lambda threads: BUCKETS, "partitioned": lambda threads: threads}
"""Kind of queues -> number of key ranges for a number of threads."""
PARTS = math.lcm(*FAR)
"""Buckets whose tuples are counted: of each number of threads, each bucket is so many of these."""
PEAK = f"peak up to {FAR[-1]} threads"
WAITS = "Fig. 11: latency by queues"
Beside = dict[str, dict[str, list[float]]]
"""Title of a figure over the applications -> what is compared -> a value for each application."""
COST_NS = 1_000
"""Cost of a tuple in ns, where it is fixed."""
COSTS = (100, 1_000, 10_000, 100_000)
LATENCY_COSTS = (10_000, 100_000, 1_000_000, 10_000_000)
LIGHT_COSTS = (1_000, 10_000)
"""A tenth of the paper's cost, and the paper's."""
SELECTIVE_NS = 100_000
SELECTIVITIES = (0.5, 1, 5, 50)
LENGTHS = (1, 2, 4, 8)
SIZES = (2, 4, 16)
STATES = (1, 64, 1024)
ONE, KEYED, TWO = Shape(("flat_map",)), Shape(("partitioned",)), Shape(("flat_map", "partitioned"))
_MOST_RESULTS = 60_000


class Figures(NamedTuple):
    """What is kept of a run, whose rows and arrays may be hundreds of megabytes."""

    steady_per_second: float
    rows: int
    stage_ns: dict[str, int]
    bucket_tuples: dict[str, np.ndarray]


class _Experiment:
    """What is measured, and how much of it."""

    def __init__(self, full: bool, tiny: bool):
        self.tiny, self.full = tiny, full
        self.run_ns, self.repetitions = (1e5, 1) if tiny else ((1e9, 3) if full else (1e8, 3))
        self.most_threads = THREADS[-1] if tiny else 2 * (os.cpu_count() or 1)
        self.rows: list[Row] = []
        self.figures: list[Figure] = []
        self._patience = patience_for(self.repetitions)
        self.line_ns: list[float] = []
        """Nanoseconds of a cache line between cores, before each run of several threads."""
        self._checked: set[Shape] = set()

    def some(self, values: Sequence[Any]) -> Sequence[Any]:
        """All of a sweep's values, or only the first of it."""
        return values[:1] if self.tiny else values

    def row(self, case: str, value: float, unit: str, better: str = "higher", **given: Any) -> None:
        """One figure of the table."""
        self.rows.append(Row("ordered", case, value, unit, better, **given))

    def case(self, shape: Shape, cost_ns: float, selectivity: float = 1.0, sigma: float = 0.0, **given: Any) -> Case:
        """Rows whose tuples cost so much at each stage, as many as take a run's time; the pipeline is checked first."""
        if shape not in self._checked:
            shape.check(selectivity=2.5)
            self._checked.add(shape)
        tuples = 1 + (len(shape.kinds) - 1) * selectivity
        n = int(np.clip(self.run_ns / (cost_ns * tuples), 50, _MOST_RESULTS / max(1.0, selectivity)))
        table = make_rows(n, rounds_of(cost_ns, shape), selectivity, shape.size, sigma)
        return Case(shape, table, **given)

    def await_near(self, threads: int) -> None:
        """Wait until cores are near, before a run of several threads."""
        if threads > 1:
            self.line_ns.append(self._patience.await_near(threads))

    def medians(
        self, run_of: Callable[..., Pipelined], variants: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, tuple[float, list[Figures]]]:
        """Rows/s of each variant, in turns while cores are near, and its runs. Each has `run_of`'s arguments, `threads` one."""
        runs: dict[str, list[Figures]] = {name: [] for name in variants}
        for counts in repeated(self.repetitions):
            for name, given in variants.items():
                self.await_near(given["threads"])
                run = run_of(**given)
                if counts:
                    runs[name].append(Figures(run.steady_per_second, run.rows, run.stage_ns, run.bucket_tuples))
        return {name: (median([run.steady_per_second for run in found]), found) for name, found in runs.items()}

    def latency(self, stream: Any, rows: int, threads: int, **options: Any) -> Markers:
        """Median latencies of whole runs, each while cores are near."""
        found = []
        for _ in range(self.repetitions):
            self.await_near(threads)
            found.append(marked(stream, rows, threads=threads, **options))
        return middle(found)

    def draw(self, title: str, x_label: str, y_label: str, lines: Iterable[Line], **given: Any) -> None:
        """One figure of the report."""
        self.figures.append(Figure(title, x_label, y_label, list(lines), **given))


def measure(full: bool, tiny: bool = False) -> Experiment:
    """Measure Figures 8 to 14, and the costs that precede them."""
    of = _Experiment(full, tiny)
    of.rows += ordered.measure(full, tiny)
    _decisions(of)
    applications(of, measure_apps(full, tiny))
    load_imbalance(of)
    latency_over_cost(of)
    light_operators(of)
    reordering(of)
    sizes(of)
    _distance(of)
    return Experiment(
        "ordered",
        "Many workers, one order: what does order cost, and which worker should take which stage?",
        "A chain of stages keeps the order of its input, whichever worker takes which stage. Measured are the paper's schedules, "
        "partitioning and reorder schemes on the six applications, and on parametric operators: matrix work of a given cost, a "
        f"given selectivity, tuples and states of a given size. Up to {of.most_threads} threads were measured, on "
        f"{os.cpu_count()} cores; 2 threads unless stated otherwise.",
        PAPER, of.rows, of.figures, list(ASSUMPTIONS),
    )  # fmt: skip


def _distance(of: _Experiment) -> None:
    """How near the cores were: patience has an end (`machine.Patience`)."""
    lines = [ns for ns in of.line_ns if not math.isnan(ns)]
    if lines:
        of.row("a cache line between cores, before runs of several threads, percentile 90", float(np.percentile(lines, 90)), "ns",
               "lower", note=f"median {median(lines):.3g} ns")  # fmt: skip


def climb(rate_of: Callable[[int], float], most: int) -> tuple[int, dict[int, float]]:
    """Add workers until one more gains too little. Returns the break-even number of workers, and the rates measured.

    Examples
    --------
    >>> climb({1: 1.0, 2: 1.9, 3: 1.91, 4: 9.0}.__getitem__, 4)
    (2, {1: 1.0, 2: 1.9, 3: 1.91})
    """
    rates = {1: rate_of(1)}
    for workers in range(2, most + 1):
        rates[workers] = rate_of(workers)
        if rates[workers] < GAIN * rates[workers - 1]:
            return workers - 1, rates
    return most, rates


def model_of(one: float, two: float, serial_share: float = 0.0) -> Callable[[int], float]:
    """Predict rows/s of n workers from the rates of one and two; at least the serial share of one's time is not divided.

    Examples
    --------
    >>> round(model_of(1e6, 2e6)(16)), round(model_of(1e6, 1e6)(16)), round(model_of(1e6, 2e6, 0.5)(10**9))
    (16000000, 1000000, 2000000)
    """
    whole = 1e9 / one
    return predict(min(whole, max(serial_share * whole, 2e9 / two - whole, 0.0)), whole)


def _decisions(of: _Experiment) -> None:
    """What one decision costs, as a figure."""
    found = {row.case: row.value for row in of.rows}
    lines = [
        Line(name, list(range(1, len(SCHEDULES) + 1)), [found[f"one decision{what}, {schedule}"] for schedule in SCHEDULES])
        for name, what in (("with the clock", ""), ("without reading the clock", ", without reading the clock"))
    ]
    of.draw("One decision", "schedule", "ns", lines, x_names=list(SCHEDULES))


# -- Figures 8, 11 and 14: the applications


def applications(of: _Experiment, measured: Iterable[Measured]) -> None:
    """Figures 8, 11 and 14: schedules over threads, then queues and reorder schemes."""
    names: list[str] = []
    beside: Beside = defaultdict(dict)
    for one in measured:
        names.append(one.case.name)
        of.rows += one.rows
        _schedules(of, one)
        _schemes(of, one, beside)
    _draw_schemes(of, names, beside)


def _draw_schemes(of: _Experiment, names: Sequence[str], beside: Beside) -> None:
    """Figures 11 and 14 over the applications; predictions as lines of their own."""
    note = f"Measured on {counted(THREADS[-1], 'thread')}; the peak of up to {FAR[-1]} threads is a prediction."
    for title, y_label, of_what in (
        ("Fig. 11: queues of partitioned stages", "M rows/s", note),
        (WAITS, "mean processing latency, ms", f"At a quarter of the rate of {DEFAULT_SCHEDULE} on the workers alone."),
        ("Fig. 14: reorder schemes", "M rows/s", note),
    ):
        lines = [Line(name, list(range(1, len(names) + 1)), values, PEAK in name) for name, values in beside[title].items()]
        of.draw(f"{title}, {DEFAULT_SCHEDULE}", "application", y_label, lines, x_names=names, note=of_what)


def _schedules(of: _Experiment, one: Measured) -> None:
    """Figure 8: throughput and latency; the break-even number of workers; the prediction for each schedule."""
    name = one.case.name

    def rate_of(threads: int) -> float:
        known = one.rates.get((DEFAULT_SCHEDULE, threads))
        return known or of.medians(one.case.run, {"": {"threads": threads}})[""][0]

    best, climbed = climb(rate_of, of.most_threads)
    lines = []
    for schedule in SCHEDULES:
        rates = {t: one.rates[schedule, t] for t in THREADS} | (climbed if schedule == DEFAULT_SCHEDULE else {})
        lines.append(Line(schedule, list(rates), [rate / 1e6 for rate in rates.values()]))
    for threads in list(climbed)[len(THREADS) :]:
        of.row(f"Fig. 8a, {name}, {DEFAULT_SCHEDULE}, {counted(threads, 'thread')}", climbed[threads] / 1e6, "M rows/s")
    of.row(f"Fig. 8a, {name}, {DEFAULT_SCHEDULE}, break-even number of workers", best, "workers",
           note=f"one more brings less than {GAIN - 1:.0%}" if best < of.most_threads else "no more were tried")  # fmt: skip
    for schedule in SCHEDULES:
        capacity = model_of(one.rates[schedule, 1], one.rates[schedule, 2], one.serial_share)
        lines.append(Line(schedule, FAR, [capacity(n) / 1e6 for n in FAR], predicted=True))
        where = f"Fig. 8a, {name}, {schedule}"
        of.row(f"{where}, {FAR[-1]} threads, predicted", capacity(FAR[-1]) / 1e6, "M rows/s", note=PREDICTION)
        far = climb(capacity, FAR[-1])[0]
        of.row(f"{where}, break-even number of workers, predicted", far, "workers", note=PREDICTION)
    serial = f"Serial stages take {one.serial_share:.0%} of one thread's work. " if one.serial_share else "No stage is serial. "
    of.draw(f"Fig. 8a: {name}, throughput", "threads", "M rows/s", lines, note=serial + "Dashed: a prediction.")
    waits = [Line(s, THREADS, [one.waits[s, t].mean_ms for t in THREADS]) for s in SCHEDULES]
    of.draw(f"Fig. 8b: {name}, processing latency at half load", "threads", "mean, ms", waits, log_y=True)


def _schemes(of: _Experiment, one: Measured, beside: Beside) -> None:
    """Figures 11 and 14, on one thread and on two; the prediction for each kind of queues, each reorder scheme."""
    case, threads = one.case, THREADS[-1]
    options = {q: lambda n, q=q: {"threads": n, "buckets": QUEUED[q](n), "queues": q} for q in QUEUED}
    options |= {r: lambda n, r=r: {"threads": n, "reorder": r} for r in REORDERS}
    found = of.medians(case.run, {f"{name}, {n}": of_threads(n) for name, of_threads in options.items() for n in THREADS})
    parts = case.run(1, queues="partitioned", buckets=PARTS).bucket_tuples
    for title, names in (("Fig. 11: queues of partitioned stages", QUEUED), ("Fig. 14: reorder schemes", REORDERS)):
        figure, first = title.partition(":")[0], next(iter(names))
        peaks: dict[str, float] = {}
        for name in names:
            rates = {n: found[f"{name}, {n}"][0] for n in THREADS}
            capacity = model_of(rates[1], rates[threads], one.serial_share)
            alone = found[f"{name}, 1"][1][-1]
            if name == "partitioned":
                capacity = bounded(capacity, alone, lambda n: {stage: largest_part(tuples, n) for stage, tuples in parts.items()})
            elif name == "hybrid":
                shares = {stage: largest_part(tuples, len(tuples)) for stage, tuples in alone.bucket_tuples.items()}
                capacity = bounded(capacity, alone, lambda _, shares=shares: shares)
            peaks[name] = max(map(capacity, FAR))
            for line, rate in ((name, rates[threads]), (f"{name}, {PEAK}", peaks[name])):
                beside[title].setdefault(line, []).append(rate / 1e6)
            of.row(f"{figure}, {case.name}, {name}, 1 thread", rates[1] / 1e6, "M rows/s")
            of.row(f"{figure}, {case.name}, {name}", rates[threads] / 1e6, "M rows/s",
                   baseline=found[f"{first}, {threads}"][0] / 1e6, baseline_name=first)  # fmt: skip
            of.row(f"{figure}, {case.name}, {name}, {PEAK}, predicted", peaks[name] / 1e6, "M rows/s",
                   baseline=peaks[first] / 1e6, baseline_name=first, note=PREDICTION)  # fmt: skip
    for queues in QUEUED:
        stream = case.stream_of(case.table, buckets=QUEUED[queues](threads))
        rate = one.rates[DEFAULT_SCHEDULE, threads] / 4
        wait = of.latency(stream, case.table.num_rows, threads, queues=queues, rate=rate)
        beside[WAITS].setdefault(queues, []).append(wait.mean_ms)
        of.row(f"Fig. 11, {case.name}, {queues}, processing latency", wait.mean_ms, "ms", "lower",
               note=f"mean, at {rate / 1e6:.3g} M rows/s")  # fmt: skip


def largest_part(tuples: np.ndarray, count: int) -> float:
    """The share of the tuples that are in the fullest of `count` buckets; `tuples` are those of a multiple of so many.

    The hash of a key decides which part of all its values a bucket covers (`buffer_kernel.bucket_of`), so a bucket of few is
    as many buckets of many, one after another.

    Examples
    --------
    >>> [largest_part(np.array([5, 1, 1, 1]), count) for count in (1, 2, 4)]
    [1.0, 0.75, 0.625]
    """
    return float(tuples.reshape(count, -1).sum(axis=1).max() / max(1, tuples.sum()))


def bounded(
    capacity: Callable[[int], float], alone: Figures, shares_of: Callable[[int], Mapping[str, float]]
) -> Callable[[int], float]:
    """Bound a prediction by the busiest bucket of each stage: only one worker at a time is there.

    Parameters
    ----------
    capacity : function
        Of the number of threads.
    alone : Figures
        Of a run on one thread.
    shares_of : function
        Of the number of threads: stage -> share of its tuples that are in one bucket.

    Examples
    --------
    >>> alone = Figures(1e6, 100, {"a": 40_000, "b": 60_000}, {})
    >>> capacity = bounded(lambda threads: threads * 1e6, alone, lambda threads: {"b": 0.5})
    >>> [round(capacity(threads)) for threads in (1, 2, 16)]
    [1000000, 2000000, 3333333]
    """
    row_ns = {stage: ns / alone.rows for stage, ns in alone.stage_ns.items()}
    return lambda n: min([capacity(n), *(1e9 / max(1e-9, share * row_ns[stage]) for stage, share in shares_of(n).items())])


# -- Figures 9 and 10: queues of a partitioned stage


def ranges_of(count: int) -> list[int]:
    """Boundaries of `count` key ranges of equal width, by which the paper partitions.

    Examples
    --------
    >>> ranges_of(4)
    [250, 500, 750]
    """
    return [KEYS * i // count for i in range(1, count)]


def _partitioning(count: int) -> dict[str, Any]:
    """Arguments of a partitioned stage with so many ranges."""
    return {"ranges": ranges_of(count)} if count > 1 else {"buckets": 1}


def largest_share(keys: np.ndarray, count: int) -> float:
    """The share of the tuples that are in the range with the most.

    Examples
    --------
    >>> largest_share(np.array([0, 10, 600, 700]), 4), largest_share(np.array([0, 10, 600, 700]), 2)
    (0.5, 0.5)
    """
    return float(np.bincount(np.searchsorted(ranges_of(count), keys, side="right")).max() / len(keys))


def load_imbalance(of: _Experiment) -> None:
    """Figure 9: speedup over the skew of the keys; for 16 workers, a prediction from the shares of the ranges."""
    lines: dict[str, list[float]] = {}
    far: dict[str, list[float]] = {}
    sigmas = of.some(SIGMAS)
    threads = THREADS[-1]
    for sigma in sigmas:
        case = of.case(KEYED, COST_NS, sigma=sigma)
        variants = {
            queues: {"given": _partitioning(ranges(threads)), "threads": threads, "queues": queues}
            for queues, ranges in QUEUED.items()
        }
        one = of.medians(case.run, {"one": {"given": _partitioning(1), "threads": 1}} | variants)
        alone = one["one"][0]
        keys = case.table["key"].to_numpy()
        for queues, ranges in QUEUED.items():
            lines.setdefault(queues, []).append(one[queues][0] / alone)
            workers = FAR[-1]
            speedup = 1 / max(1 / workers, largest_share(keys, ranges(workers)))
            note = f"the largest range has {largest_share(keys, ranges(threads)):.0%}"
            far.setdefault(queues, []).append(speedup)
            of.row(f"Fig. 9, sigma {sigma:g}, {queues}", one[queues][0] / 1e6, "M tuples/s", baseline=alone / 1e6,
                   baseline_name="1 thread", note=note)  # fmt: skip
            of.row(f"Fig. 9, sigma {sigma:g}, {queues}, {workers} threads, predicted", speedup * alone / 1e6, "M tuples/s",
                   baseline=alone / 1e6, baseline_name="1 thread", note=PREDICTION)  # fmt: skip
    note = "Sigma is of the keys, in parts of their range, around 0.3 of it. The smaller, the more they crowd."
    drawn = [Line(name, sigmas, values) for name, values in lines.items()]
    drawn += [Line(f"{name}, {FAR[-1]} threads", sigmas, values, predicted=True) for name, values in far.items()]
    of.draw("Fig. 9: load imbalance", "sigma", "times one thread", drawn, log_x=True, note=note)


def latency_over_cost(of: _Experiment) -> None:
    """Figure 10: processing latency of a partitioned stage at full speed."""
    costs = of.some(LATENCY_COSTS)
    threads = THREADS[-1]
    lines: dict[str, list[float]] = {}
    for cost_ns in costs:
        case = of.case(KEYED, cost_ns)
        for queues, ranges in QUEUED.items():
            stream = KEYED.over(case.table, **_partitioning(ranges(threads)))
            wait = of.latency(stream, case.table.num_rows, threads, queues=queues, batch=1, capacity=64).mean_ms
            lines.setdefault(queues, []).append(wait * 1e3)
            of.row(f"Fig. 10, {cost_ns / 1e3:g} µs a tuple, {queues}", wait * 1e3, "µs", "lower", baseline=cost_ns / 1e3,
                   baseline_name="the tuple's cost", note="mean processing latency, to the collector")  # fmt: skip
    x = [cost_ns / 1e3 for cost_ns in costs]
    drawn = [Line(name, x, values) for name, values in lines.items()]
    note = "From the claim of a tuple to its result at the collector; uniform keys, at full speed, micro-batches of 1."
    of.draw("Fig. 10: latency over cost", "µs a tuple", "mean processing latency, µs", drawn, log_x=True, log_y=True, note=note)


# -- Figures 12 and 13: reorder schemes


def _over_threads(of: _Experiment, figure: str, what: str, case: Case) -> None:
    """Speedup, and what a tuple costs at the first stage, over workers."""
    names = [(reorder, threads) for reorder in REORDERS for threads in range(1, of.most_threads + 1)]
    found = of.medians(case.run, {f"{r}, {n}": {"threads": n, "reorder": r, "batch": 1} for r, n in names})
    alone = found[f"{next(iter(REORDERS))}, 1"][0]
    counts = list(range(1, of.most_threads + 1))
    speedups, costs = [], []
    for reorder in REORDERS:
        rates = [found[f"{reorder}, {n}"][0] for n in counts]
        spent = [median([next(iter(r.stage_ns.values())) / r.rows / 1e3 for r in found[f"{reorder}, {n}"][1]]) for n in counts]
        speedups.append(Line(reorder, counts, [rate / alone for rate in rates]))
        costs.append(Line(reorder, counts, spent))
        for n, rate, cost in zip(counts, rates, spent, strict=True):
            of.row(f"{figure}, {what}, {reorder}, {counted(n, 'thread')}", rate / 1e3, "K tuples/s", baseline=alone / 1e3,
                   baseline_name="1 thread", note=f"{cost:.4g} µs a tuple at the first stage")  # fmt: skip
        capacity = model_of(rates[0], rates[1])
        speedups.append(Line(reorder, FAR, [capacity(n) / alone for n in FAR], predicted=True))
        of.row(f"{figure}, {what}, {reorder}, {FAR[-1]} threads, predicted", capacity(FAR[-1]) / 1e3, "K tuples/s",
               baseline=alone / 1e3, baseline_name="1 thread", note=PREDICTION)  # fmt: skip
    note = "Micro-batches of 1. Dashed: a prediction."
    of.draw(f"{figure}a: {what}, speedup", "threads", "times one thread", speedups, note=note)
    of.draw(f"{figure}b: {what}, cost at the first stage", "threads", "µs a tuple", costs,
            note="Waiting for others is part of it; of more threads than cores, so is waiting for a core.")  # fmt: skip


def light_operators(of: _Experiment) -> None:
    """Figures 12 and 13 as in the paper: reorder schemes over the number of workers."""
    for light in of.some(LIGHT_COSTS):
        _over_threads(of, "Fig. 12", f"{light / 1e3:g} µs a tuple", of.case(ONE, light))
    selectivity = of.some(SELECTIVITIES)[-1]
    _over_threads(of, "Fig. 13", f"selectivity {selectivity:g}", of.case(TWO, SELECTIVE_NS, selectivity))


def reordering(of: _Experiment) -> None:
    """The effect of the reorder scheme over cost, length of the pipeline and selectivity, with micro-batches of 1 and 64."""

    def sweep(title: str, x_label: str, values: Sequence[float], case_of: Callable[[Any], Case], log_x: bool = True) -> None:
        lines: dict[str, list[float]] = {}
        for value in values:
            case = case_of(value)
            variants = {
                f"{r}, batch {b}": {"threads": THREADS[-1], "reorder": r, "batch": b} for r in REORDERS for b in (1, 64)
            }
            found = of.medians(case.run, variants | {"one": {"threads": 1, "batch": 64}})
            alone = found.pop("one")[0]
            for name, (rate, _) in found.items():
                lines.setdefault(name, []).append(rate / alone)
                of.row(f"reorder schemes, {x_label} {value:g}, {name}", rate / 1e3, "K tuples/s", baseline=alone / 1e3,
                       baseline_name="1 thread, batch 64")  # fmt: skip
        drawn = [Line(name, list(values), ratios) for name, ratios in lines.items()]
        of.draw(title, x_label, "times one thread", drawn, log_x=log_x)

    sweep("Reorder schemes over cost", "µs a tuple", [c / 1e3 for c in of.some(COSTS)], lambda us: of.case(ONE, us * 1e3))
    sweep("Reorder schemes over length", "stages", of.some(LENGTHS), lambda n: of.case(Shape(("flat_map",) * n), COST_NS))
    sweep("Reorder schemes over selectivity", "outputs a tuple", of.some(SELECTIVITIES), lambda s: of.case(TWO, COST_NS * 10, s))


def sizes(of: _Experiment) -> None:
    """The effect of the sizes of a tuple and a state on the parametric operators, at one cost of the matrix work."""
    for title, x_label, shapes in (
        ("Size of a tuple", "numbers of a tuple", {n: Shape(("partitioned",), size=n) for n in of.some(SIZES)}),
        ("Size of a state", "numbers of a key's state", {n: Shape(("partitioned",), state=n) for n in of.some(STATES)}),
    ):
        lines: dict[str, list[float]] = {}
        for value, shape in shapes.items():
            case = of.case(shape, COST_NS)
            found = of.medians(case.run, {counted(n, "thread"): {"threads": n} for n in THREADS})
            for name, (rate, _) in found.items():
                lines.setdefault(name, []).append(rate / 1e6)
                of.row(f"parametric, {x_label} {value}, {name}", rate / 1e6, "M tuples/s")
        drawn = [Line(name, list(shapes), rates) for name, rates in lines.items()]
        note = f"One partitioned stage, {COST_NS / 1e3:g} µs of matrix work a tuple, whatever the size."
        of.draw(f"Section 7: {title[0].lower()}{title[1:]}", x_label, "M tuples/s", drawn, log_x=True, note=note)
