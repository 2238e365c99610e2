"""Determinism in the communication layer against determinism in the operator layer: after the Viper paper's section 4.

Two operators of Linear Road, `pos_rep` (stateless: position reports pass; selectivity 0.99) and `new_seg`
(stateful: a car is in another segment than before; 0.34), between injectors and as many sinks as instances.

readers     The paper's channel (section 3.3): one for each reader, into which senders route the tuples it owns. With one
            writer it is a queue; with two or more the reader's own thread merges (`headrace.gates.ReaderChannels`).
channel     A gate (`headrace.gates`, the merged log) that all instances share, and one that all sinks share: the tuple
            buffer TB of STRETCH. Tuples are not routed, and every reader passes over every tuple.
operators   A queue from each writer to each reader; before a reader with two or more queues there is a merge operator,
            with a thread and a queue of its own, as in engines without such a channel.

The sides differ only in where they merge. They share the stored columns and the owner of each tuple, computed
beforehand; the operators and the sinks' work, one kernel each (`viper_kernel`); the merge kernels, which are the
gate's; tuples handed over 128 at a time (in some cells also singly and by 16) and read at most 1,024 at a time; 8,192
tuples between two stages; times promised by position, not by extra tuples; sleeping on event counts, never spinning.
They have kernels of their own instead of `hr.operator`, because the engine's instances do more than the paper's
(windows, epochs, an output ordered by content), and the other side would have to do it too.

Every instance reads a shared gate in full and keeps the tuples it owns; a queue holds only the tuples that its reader
owns. So the shared gate pays for reading, the operator layer for threads and hops, channels of readers for neither. But
with one instance and many injectors, a merge operator is a second stage, on a core that is otherwise idle.
Processor time of a tuple of pos_rep in ns, by thread, on two cores (AMD EPYC, 29 November 2026; medians of 15 runs):

    injectors x instances                 injectors  instances  sinks  merge operators  all
    4 x 1      a channel for each reader          6         43      7                    55
               merge operators                    8         30      6               14   58
    1 x 6      a channel for each reader         15         45     38                    98
               shared gate                       12         51     33                    96
               merge operators                   16         47     13               41  118

At 4 x 1 the channel is cheaper and still slower: the one instance merges as well, and is busy for 43 of the 50 ns from tuple to
tuple, where the other core has little to do. With merge operators, its 30 ns overlap with their 14, and a tuple takes 46 ns.
Prefetching the log's cache lines in its readers made no difference that could be told from noise.

Every run's result is checked: each sink folds the tuples it gets into a hash that depends on their order, which must
be that of the plain sequential definition. There is one right order, since no two tuples have the same time.
"""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa

from headrace.summary import counted
from headrace_bench.experiments.experiment import Experiment, Paper
from headrace_bench.experiments.figure import Figure, Line
from headrace_bench.experiments.viper_energy import EnergyCounters
from headrace_bench.experiments.viper_kernel import BATCH
from headrace_bench.experiments.viper_roads import (
    OPERATORS,
    Results,
    Roads,
    define,
    expected,
    make_roads,
    share_roads,
)
from headrace_bench.experiments.viper_trial import SIDES, Outcome, run
from headrace_bench.machine import patience_for
from headrace_bench.rows import Row, median

COUNTS = (1, 2, 4, 6)
CELLS = tuple((injectors, instances) for injectors in COUNTS for instances in COUNTS)
"""The paper's 16 configurations."""
TINY = ((1, 1), (3, 2))
BATCHES = (1, 16)
"""Tuples that an injector hands over at once, besides `BATCH`: the paper's engine hands over one at a time."""
BATCHED = ((1, 1), (2, 2), (6, 6))
"""Cells in which `BATCHES` are measured, unless all are."""
NAMES = {"readers": "in a channel for each reader", "channel": "in a shared gate", "operators": "in the operator layer"}

PAPER = Paper(
    "Viper, section 4, Figure 4: Linear Road on Apache Storm 0.9.7, injectors and instances 1, 2, 4, 6",
    "2 x Intel Xeon E5-2687W at 3.4 GHz, 16 cores, 32 threads, 64 GB; Storm 0.9.7, Java 1.8",
    (
        "pos_rep, one injector: 650,000 t/s in the channel, below 600,000 t/s in the operator layer; latency grows to "
        "~800 ms and 600 ms, power is 60 W and around 100 W.",
        "pos_rep, more injectors: over 500,000 t/s in the channel, around 400,000 t/s in the operator layer; power "
        "grows to 90 W and up to 140 W.",
        "new_seg: the channel's throughput is approximately 100,000 t/s higher, its latency lower; its power does not "
        "exceed 100 W, that of the operator layer grows to more than 140 W.",
        "In all: throughput up to 70% higher, half of the energy.",
    ),
)

COMPARED = ("readers", "channel")
"""Sides that are compared with the operator layer."""

Cell = tuple[str, int, int]
"""Operator, injectors, instances."""

MEASURES = {
    "throughput": ("M tuples/s", "higher"),
    "latency p50": ("ms", "lower"),
    "latency p99": ("ms", "lower"),
    "CPU time per tuple": ("ns", "lower"),
    "energy per tuple": ("uJ", "lower"),
    "power": ("W", "lower"),
}
OF_COUNTERS = ("energy per tuple", "power")
"""Measures that need a machine with energy counters; the paper's axis is power."""
Batched = dict[tuple[str, int, int, int], dict[str, dict[str, float]]]
"""Operator, injectors, instances, tuples at once -> the result of `measure_cell`."""


def measure(full: bool, tiny: bool = False) -> Experiment:
    """Throughput, latency and cost of all sides for each number of injectors and instances."""
    n, repetitions, cells, batched_cells = (4_000_000, 7, CELLS, CELLS) if full else (500_000, 5, CELLS, BATCHED)
    if tiny:
        n, repetitions, cells, batched_cells = 20_000, 1, TINY, TINY
    table = make_roads(n)
    figures: dict[Cell, dict[str, dict[str, float]]] = {}
    batched: Batched = {}
    shares = []
    for name, operator in OPERATORS.items():
        results = define(table, operator)
        shares.append(f"{name} {len(results[0]) / n:.2f}")
        for injectors, instances in cells:
            roads = share_roads(table, injectors, instances)
            figures[name, injectors, instances] = measure_cell(roads, operator, results, repetitions)
            if (injectors, instances) in batched_cells:
                for batch in BATCHES:
                    found = measure_cell(roads, operator, results, repetitions, batch)
                    batched[name, injectors, instances, batch] = found
    return _experiment(table, figures, ", ".join(shares), batched)


def measure_cell(
    roads: Roads, operator: int, results: Results, repetitions: int, batch: int = BATCH
) -> dict[str, dict[str, float]]:
    """Measure all sides of one cell. Returns measure -> side -> median.

    Raises
    ------
    AssertionError
        If a sink of one of the runs got a sequence other than the definition's.
    """
    truth = expected(results, roads.instances)
    total = sum(map(len, roads.ts))

    def checked(side: str, per_second: int = 0) -> Outcome:
        outcome = run(side, roads, operator, per_second, truth[:, 1] if per_second else None, batch)
        assert np.array_equal(outcome.ended, truth), (
            f"{side}, {roads.injectors} injectors, {roads.instances} instances: another sequence than the definition"
        )
        return outcome

    for side in SIDES:
        checked(side)
    patience, fast = patience_for(repetitions), []
    for number in range(repetitions):
        patience.await_near()
        fast.append({side: checked(side) for side in in_turns(number)})
    rates = {side: median([total / each[side].seconds for each in fast]) for side in SIDES}
    half = int(min(rates.values()) / 2)
    paced = [{side: checked(side, half) for side in in_turns(number)} for number in range((repetitions + 1) // 2)]
    found: dict[str, dict[str, float]] = {measure: {} for measure in MEASURES}
    for side in SIDES:
        waits = [np.percentile(each[side].waits_us, (50, 99)) / 1e3 for each in paced]
        found["throughput"][side] = rates[side] / 1e6
        found["latency p50"][side] = median([wait[0] for wait in waits])
        found["latency p99"][side] = median([wait[1] for wait in waits])
        found["CPU time per tuple"][side] = median([each[side].cpu_s for each in fast]) / total * 1e9
        found["energy per tuple"][side] = median([each[side].joules for each in fast]) / total * 1e6
        found["power"][side] = median([each[side].joules / each[side].seconds for each in fast])
    return found


def in_turns(number: int) -> list[str]:
    """The sides in the order of a round, of which each begins one in three.

    >>> [in_turns(number)[0] for number in range(4)]
    ['readers', 'channel', 'operators', 'readers']
    """
    sides, first = list(SIDES), number % len(SIDES)
    return sides[first:] + sides[:first]


def _experiment(
    table: pa.Table, figures: dict[Cell, dict[str, dict[str, float]]], shares: str, batched: Batched | None = None
) -> Experiment:
    powered = EnergyCounters().available
    energy = (
        "Energy and power are what the processor's RAPL counters say, the whole machine's, at full speed."
        if powered
        else "This machine shows no energy counters (/sys/class/powercap): CPU time stands for energy."
    )
    text = (
        "Does it pay to merge in the channel that hands tuples over, instead of in merge operators? Viper has a channel for "
        "each reader: the sender routes, and the reader merges. Beside it stands a gate that all instances share, STRETCH's "
        f"tuple buffer, where each instance passes over every tuple. {table.num_rows:,} tuples of Linear "
        f"Road (selectivity: {shares}), {os.cpu_count()} cores. Throughput is the most that goes through; latency, from "
        "injection to the sink, is taken at half of the slowest side's throughput, the same rate for all; CPU time is "
        f"that of all threads. {energy} Ratios compare with the operator layer at the same number of "
        "injectors and instances; with one of each there is nothing to merge, and channels of readers are plain queues, too."
    )
    finished = Experiment("viper", "Determinism in the communication layer or in the operator layer", text, PAPER)
    for (name, injectors, instances), found in figures.items():
        merges = injectors > 1 or instances > 1
        for measure, (unit, better) in MEASURES.items():
            if measure in OF_COUNTERS and not powered:
                continue
            theirs = found[measure]["operators"]
            for side in COMPARED:
                goal = 1.0 if merges and side == "readers" and not measure.startswith("latency p99") else None
                case = f"{name}, {injectors}x{instances} injectors x instances, {NAMES[side]}, {measure}"
                baseline_name = "merge operators" if merges else "queues"
                ours = found[measure][side]
                finished.rows.append(Row("viper", case, ours, unit, better, goal, theirs, baseline_name, goal is not None))
    for side in COMPARED:
        several = [found["throughput"] for (_, _, instances), found in figures.items() if instances > 1]
        gain = median([each[side] / each["operators"] for each in several]) if several else float("nan")
        goal = 1.1 if side == "readers" else None
        case = f"throughput {NAMES[side]} over that in the operator layer, median of cells with two and more instances"
        finished.rows.append(Row("viper", case, gain, "x", "higher", goal))
    for (name, injectors, instances, batch), found in (batched or {}).items():
        for side in COMPARED:
            case = f"{name}, {injectors}x{instances} injectors x instances, {counted(batch, 'tuple')} at once, {NAMES[side]}"
            theirs = found["throughput"]["operators"]
            unit, better = MEASURES["throughput"]
            ours = found["throughput"][side]
            finished.rows.append(Row("viper", f"{case}, throughput", ours, unit, better, None, theirs, "merge operators"))
    shown = ["throughput", "latency p50", *(OF_COUNTERS if powered else ["CPU time per tuple"])]
    for name in OPERATORS:
        cells = {(i, k): found for (operator, i, k), found in figures.items() if operator == name}
        finished.figures += [_figure(name, side, measure, cells) for measure in shown for side in SIDES]
    finished.figures += _batched_figures(figures, batched or {})
    return finished


def _batched_figures(figures: dict[Cell, dict[str, dict[str, float]]], batched: Batched) -> list[Figure]:
    """Throughput of each side over the number of tuples handed over at once, for each operator and cell."""
    drawn = []
    for name, injectors, instances in dict.fromkeys(key[:3] for key in batched):
        by_batch = {batch: batched[name, injectors, instances, batch] for batch in BATCHES}
        by_batch[BATCH] = figures[name, injectors, instances]
        lines = [
            Line(NAMES[side], list(by_batch), [found["throughput"][side] for found in by_batch.values()]) for side in SIDES
        ]
        title = f"{name}, {injectors} x {instances}: throughput over tuples at once"
        drawn.append(Figure(title, "tuples handed over at once", "M tuples/s", lines, log_x=True, log_y=True))
    return drawn


def _figure(name: str, side: str, measure: str, cells: dict[tuple[int, int], dict[str, dict[str, float]]]) -> Figure:
    lines = []
    for injectors in sorted({i for i, _ in cells}):
        x = sorted(k for i, k in cells if i == injectors)
        y = [cells[injectors, k][measure][side] for k in x]
        lines.append(Line(counted(injectors, "injector"), x, y))
    y_max = 1.05 * max(value for found in cells.values() for value in found[measure].values())
    unit = MEASURES[measure][0]
    return Figure(f"{name}, {NAMES[side]}: {measure}", "instances", f"{measure} ({unit})", lines, y_max=y_max)
