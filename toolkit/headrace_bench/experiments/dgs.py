"""Stream Processing with Dependency-Guided Synchronization, section 4 and appendices A and D: Figures 4, 6, 8 and 10.

The parts are the event window compared with loops (`headrace_bench.dgs`), page views and frauds compared with loops and with
threads that synchronize by hand (`dgs_apps`), the same at given rates (`dgs_rates`), latency and plans (`dgs_latency`), the two
case studies (`dgs_studies`), and the effort that plans cost a program's author (`dgs_effort`). Before anything is timed, all
results are compared: with the reference on some rows, and with one another on all. The paper's Figures 4 and 8 show other systems
and its own. Ours are in one plot; `headrace bench peers` compares Flink with ours. Figures beyond this machine's cores are
predictions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from headrace_bench import dgs, dgs_apps, dgs_effort, dgs_latency, dgs_rates, dgs_studies
from headrace_bench.experiments.experiment import Experiment, Paper
from headrace_bench.experiments.figure import Figure, Line
from headrace_bench.rows import Row

PAPER = Paper(
    "Stream Processing with Dependency-Guided Synchronization, section 4 (Figures 4, 6 and 8, Table 1), appendix A, "
    "appendix D (Figure 10)",
    "AWS EC2, one m6g medium (1 core at 2.5 GHz, 4 GB) for each node; Erlang; Flink, Timely Dataflow",
    (
        "Event window, 12 nodes, 10,000 values of a stream between barriers: Flink does 10 times what one node does, Timely and "
        "Flumina 8 times.",
        "Page views of two hot pages, 12 nodes: Flink's keyed join 2 times, Timely's 1, Flumina 8; synchronized by hand Flink "
        "does 9 times, Timely 2.",
        "Frauds, 12 nodes: Flink 1 time, since it has the sequential version only, Timely 6, Flumina 8; Flink by hand 9 times.",
        "Latency grows linearly with the number of workers, and is the higher the fewer values there are for a barrier; with "
        "100 of them more than 22 workers are too many.",
        "From 10 to 1,000 heartbeats a barrier latency is stable; with too few, events are released in large batches only.",
        "Outliers: 8 nodes do 7.3 times what one does, 7.7 in the program written by hand; fork and join are 50 lines beside "
        "some 700. Smart homes: 60 lines beside some 200, and 362 MB moved for 29 GB processed.",
    ),
)
ASSUMPTIONS = (
    "There are as many cores as leaves, each as fast as one of this machine alone, and memory keeps up.",
    "An event costs on each leaf what it costs on a single one. Every barrier joins and forks, which costs at each level of the "
    "tree what it costs on two leaves with a barrier for each 100 values. (Where barriers are that frequent, the state in fact "
    "stays joined at most of them, which costs less.)",
    "For plan against plan, the costs are those of the rows that name them, measured with eight streams.",
    "One thread puts results in order and builds rows of them, and keeps up. Page views, each of which has a result, demand the "
    "most of it, and their prediction is too high from the point where it does not.",
    "Each leaf has an input of its own, with a thread that brings its events.",
)
LATENCY = "From an event's way into its mailbox to its result at the collector."
IN_TABLE = "What came through, and the 10th percentile, is in the table."
BESIDE = {
    "plan, in any order": (2, dgs_apps.ANY_ORDER), "by hand, in any order": (2, dgs_apps.BY_HAND),
    "loop, presorted": (1, "one loop, presorted"), "loop that merges": (1, "one loop that merges"),
}  # fmt: skip
"""Name of what Figures 4 and 8 compare plans with -> its number of threads, and its case."""


def measure(full: bool, tiny: bool = False) -> Experiment:
    """Rows of all parts, and the figures that show them."""
    sizes = (full, tiny)
    window, apps = dgs.measure(*sizes), dgs_apps.measure(*sizes)
    rows = [
        *window, *dgs.beyond(window), *apps, *dgs_apps.beyond(apps, dgs.joined_ns(window)), *dgs_rates.measure(*sizes),
        *dgs_latency.measure(*sizes), *dgs_studies.measure(*sizes), *dgs_effort.measure(*sizes),
    ]  # fmt: skip
    return Experiment(
        "dgs",
        "Few events depend on each other: what does a synchronization plan bring, and what does it cost?",
        "Programs of the paper on synchronization plans of one and two leaves, each with a thread, beside one loop over events "
        "that are already in order, and beside threads that synchronize by hand. A value, a view or a transaction is trivial, or "
        "takes the time given. Results come in the order of events unless stated otherwise, and equal those of the loop.",
        PAPER, rows, figures_of(rows), list(ASSUMPTIONS),
    )  # fmt: skip


def figures_of(rows: Sequence[Row]) -> list[Figure]:
    """The experiment's rows as plots; a plot whose rows were not measured is left out."""
    found = {row.case: row for row in rows}
    return [
        *_over_leaves(found), *_over_barriers(found), *_over_rates(found), *_latencies(found), *_optimizers(found),
        *_plans(found), *_studies(found),
    ]  # fmt: skip


def _matches(found: Iterable[str], pattern: str) -> list[re.Match[str]]:
    """Cases whose whole name matches the pattern."""
    return [match for case in found if (match := re.fullmatch(pattern, case))]


def _line(name: str, points: dict[Any, float], **given: Any) -> Line:
    return Line(name, list(points), list(points.values()), **given)


def _curves(points: Iterable[tuple[str, float, float]]) -> list[Line]:
    """One line for each name, through its points (name, x, y) from left to right."""
    lines: dict[str, dict[float, float]] = {}
    for name, x, y in points:
        lines.setdefault(name, {})[x] = y
    return [_line(name, dict(sorted(each.items()))) for name, each in lines.items()]


# -- Figures 4 and 8: throughput over leaves


def _over_leaves(found: dict[str, Row]) -> list[Figure]:
    """One figure for each application and cost: leaves, simpler alternatives, and a prediction."""
    figures = []
    window = f"{dgs.BETWEEN[0]:,} values a barrier"  # of the event window; other ratios have their own figure
    for match in _matches(found, rf"(({window}|{'|'.join(dgs_apps.PROGRAMS)}), \d+ ns): {dgs.LEAVES[2]}"):
        rates = {case.removeprefix(f"{match[1]}: "): row.value for case, row in found.items() if case.startswith(f"{match[1]}: ")}
        lines = [_line("plan", {leaves: rates[label] for leaves, label in dgs.LEAVES.items()})]
        lines += [Line(label, [threads], [rates[case]]) for label, (threads, case) in BESIDE.items() if case in rates]
        ahead = {leaves: rates[f"{leaves} leaves, predicted"] for leaves in (2, *dgs.BEYOND)}
        lines.append(_line("plan", ahead, predicted=True))
        title = f"Fig. 4 and 8: {match[1].replace(window, 'event window')} an event"
        note = f"{dgs.BETWEEN[0]:,} events for each that they depend on. Dashed: a prediction."
        figures.append(Figure(title, "threads, one a leaf", "M events/s", lines, log_x=True, log_y=True, note=note))
    return figures


def _over_barriers(found: dict[str, Row]) -> list[Figure]:
    """Throughput over the number of values a barrier, relative to the loop over events already in order."""
    points = [
        (f"{match[3]}, {match[2]}", float(match[1].replace(",", "")), found[match[0]].ratio or math.nan)
        for match in _matches(found, r"([\d,]+) values a barrier, (\d+ ns): (1 leaf|2 leaves)")
    ]
    return [Figure("Event window: values a barrier", "values between two barriers", "times the presorted loop", _curves(points),
                   log_x=True, note="What a value costs is said; one that costs nothing is added, and that is all.")]  # fmt: skip


# -- Figure 6: latency as the rate rises


def _over_rates(found: dict[str, Row]) -> list[Figure]:
    figures = []
    for name in dgs_apps.PROGRAMS:
        form = rf"({name}, [\d,]+ ns, offered [\d.]+ of one leaf's rate: (1 leaf|2 leaves)), latency, (p50|p90)"
        points = [
            (f"{match[2]}, {match[3]}", found[match[1]].baseline or math.nan, found[match[0]].value)
            for match in _matches(found, form)
        ]
        title = f"Fig. 6: {name}, {dgs_rates.COST_NS / 1e3:g} µs an event"
        note = f"Up to {max(dgs_rates.SHARES):g} times what one leaf can do: then events wait in mailboxes. {LATENCY} {IN_TABLE}"
        figures.append(Figure(title, "M events/s that are offered", "ms", _curves(points), log_y=True, note=note))
    return figures


# -- Figure 10: latency over leaves and over heartbeats; Appendix B


def _latencies(found: dict[str, Row]) -> list[Figure]:
    deep = [
        (f"{match[2]}, {match[1]}", float(match[3]), found[match[0]].value)
        for match in _matches(found, r"latency, ([\d,]+) values a barrier, (\w+) plan of (\d+) leaves, depth \d+, p50")
    ]
    beats = _matches(found, r"latency, ([\d,]+) heartbeats a barrier, (p\d+)")
    names = list(dict.fromkeys(match[1] for match in beats))
    lines = _curves((match[2], names.index(match[1]) + 1, found[match[0]].value) for match in beats)
    pace = f"{dgs_latency.PER_SECOND:,} values a second on two threads."
    return [
        Figure("Fig. 10a: latency over leaves", "leaves", "p50, ms", _curves(deep), log_x=True, log_y=True,
               note=f"{pace} Numbers are values a barrier. A chain is as deep as it has leaves. {LATENCY}"),
        Figure("Fig. 10b: latency over heartbeats", "heartbeats a barrier", "ms", lines, log_y=True, x_names=names,
               note=f"{pace} 1,000 values a barrier, two leaves."),
    ]  # fmt: skip


def _optimizers(found: dict[str, Row]) -> list[Figure]:
    """An optimizer for latency beside the one for throughput."""
    made = _matches(found, r"latency, ([\d]+ k values/s), optimizer for (\w+): (\d+ lea\w+), (p\d+)")
    names = list(dict.fromkeys(match[1] for match in made))
    lines = _curves((f"for {match[2]}, {match[4]}", names.index(match[1]) + 1, found[match[0]].value) for match in made)
    leaves = ", ".join(dict.fromkeys(f"for {match[2]} at {match[1]} {match[3]}" for match in made))
    return [Figure("Two optimizers: latency", "rate", "ms", lines, log_y=True, x_names=names, note=f"They choose: {leaves}.")]


# -- plan against plan


def _plans(found: dict[str, Row]) -> list[Figure]:
    made = _matches(found, r"8 streams, ([\d,]+) values a barrier: plan by (\w+), \d+ lea\w+")
    names = list(dict.fromkeys(match[2] for match in made))
    lines = _curves((f"{match[1]} values a barrier", names.index(match[2]) + 1, found[match[0]].value) for match in made)
    return [Figure("Plan against plan, 8 streams on two threads", "plan by", "M events/s", lines, x_names=names,
                   note="A value is added, which is all. What the model says beforehand is in the table.")]  # fmt: skip


# -- Appendix A


def _studies(found: dict[str, Row]) -> list[Figure]:
    rates = _curves(
        (match[1], float(match[2]), found[match[0]].value) for match in _matches(found, r"(outlier|smarthome): (\d) lea\w+")
    )
    waits = _matches(found, r"smarthome: latency at half of that speed, (p\d+)")
    names = [match[1] for match in waits]
    latency = Line("smarthome, 2 leaves", list(range(1, len(names) + 1)), [found[match[0]].value for match in waits])
    speed = found["smarthome: replay speed, 2 leaves"].value
    return [
        Figure("Appendix A: the case studies", "threads, one a leaf", "M events/s", rates, note="From tables to tables."),
        Figure("A.2: latency of predictions", "quantile", "ms", [latency], x_names=names,
               note=f"Readings come {speed / 2:,.0f} times as fast as the houses made them, half of what two leaves can do."),
    ]  # fmt: skip
