"""What order costs, and what a second worker brings: the first part of `headrace bench ordered`.

A pipeline of four stages (`staged`) runs at three costs of a tuple, under each schedule, and is compared with a
hand-written loop and with the engine on one thread. Then come the effects of the reorder buffer, of micro-batches and of queues,
and the cost of choosing a stage once. All figures are of the workers alone (`pipelined`), from the 20th to the 80th percentile
of the rows, as in the paper and as with the applications. The results of every timed run are compared with the loop's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.memory.cells import publish_cell
from headrace.ordering import words
from headrace.ordering.arrays import QUEUE_KINDS, REORDERS
from headrace.ordering.configuration import SCHEDULES
from headrace.ordering.options import DEFAULT_SCHEDULE
from headrace.summary import counted
from headrace_bench import ordered_kernel
from headrace_bench.machine import patience_for
from headrace_bench.pipelined import Pipelined
from headrace_bench.rows import Row, median, repeated
from headrace_bench.staged import Case, pipeline_of

COSTS = {0: 0.65, 100: 1.7, 400: 1.9}
"""Nanoseconds of a tuple's steps -> the goal for the speedup of two threads over the loop."""
RUN_NS = 1e8
"""Duration of a run: a worker wakes some milliseconds after the start, which is to be over at the 20th percentile of the rows."""
MOST_ROWS = 1_000_000
BATCH = 64
BATCHES = (1, 8, 64)
SIGMAS = (0.0, 0.2, 0.05, 0.0005)
"""Spread of the keys, as a share of their range: uniform; a fifth; a twentieth; nearly all on one or two keys."""
QUEUES_COST_NS = 100
DECISION_NS = 50.0
WAITING = 300
"""Tuples before each stage, while decisions are timed: fewer than would stop QST."""
HAND = "hand-written loop"


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Parameters
    ----------
    run_ns : float
        The work of a run, counted as the steps of its tuples.
    most_rows, repetitions, decisions : int
    costs : tuple of int
        Keys of `COSTS`.
    """

    run_ns: float
    most_rows: int
    repetitions: int
    decisions: int
    costs: tuple[int, ...]

    @classmethod
    def of(cls, full: bool, tiny: bool) -> Sizes:
        """Small sizes, full ones, or tiny ones that only show that it runs."""
        if tiny:
            return cls(0.0, 3_000, 1, 1_000, (0,))
        return cls(RUN_NS, MOST_ROWS, 15 if full else 5, 1_000_000, tuple(COSTS))

    def case(self, cost_ns: int, sigma: float = 0.0) -> Case:
        """A case with as many rows as take `run_ns`, at most `most_rows`."""
        rows = self.run_ns / cost_ns if cost_ns else self.most_rows
        return Case(round(min(rows, self.most_rows)), cost_ns, sigma)


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """M tuples/s of the pipeline, nanoseconds of a decision."""
    sizes = Sizes.of(full, tiny)
    rows: list[Row] = []
    for cost_ns in sizes.costs:
        rows += _schedules(cost_ns, sizes)
    for cost_ns in sizes.costs[:2]:
        rows += _reordering(cost_ns, sizes)
    rows += _queues(sizes)
    return rows + _decisions(sizes)


def cost_name(cost_ns: int) -> str:
    """The name of a cost in the names of cases."""
    return f"{cost_ns} ns a tuple" if cost_ns else "trivial tuples"


def rates_of(case: Case, variants: Mapping[str, Mapping[str, Any]], repetitions: int) -> tuple[dict[str, float], float]:
    """M tuples/s of each variant and of the hand-written loop, run in turns while cores are near."""
    measured: dict[str, list[float]] = {name: [] for name in variants}
    by_hand, patience = [], patience_for(repetitions)
    for counts in repeated(repetitions):
        seconds, content = case.by_hand()
        assert content == case.content, "the hand-written loop makes something else every time"
        taken = {}
        for name, options in variants.items():
            patience.await_near(options.get("threads", 1))
            taken[name] = case.run(**options).steady_per_second
        if counts:
            by_hand.append(case.table.num_rows / seconds / 1e6)
            for name, rate in taken.items():
                measured[name].append(rate / 1e6)
    return {name: median(values) for name, values in measured.items()}, median(by_hand)


def _schedules(cost_ns: int, sizes: Sizes) -> list[Row]:
    case, label = sizes.case(cost_ns), cost_name(cost_ns)
    variants = {
        f"{schedule}, {threads}": {"threads": threads, "schedule": schedule, "batch": BATCH}
        for schedule in SCHEDULES for threads in (1, 2)
    }  # fmt: skip
    rates, hand = rates_of(case, variants, sizes.repetitions)
    rows = [Row("ordered", f"{label}, {HAND}", hand, "M tuples/s", note=f"total time per tuple: {1e3 / hand:.3g} ns")]
    for schedule in SCHEDULES:
        one, two = rates[f"{schedule}, 1"], rates[f"{schedule}, 2"]
        rows += [
            Row("ordered", f"{label}, {schedule}, 1 thread", one, "M tuples/s", baseline=hand, baseline_name=HAND),
            Row("ordered", f"{label}, {schedule}, 2 threads", two, "M tuples/s", goal=COSTS[cost_ns], goal_is_ratio=True,
                baseline=hand, baseline_name=HAND, note=f"{two / one:.3g}x of one thread"),
        ]  # fmt: skip
    return rows


def _reordering(cost_ns: int, sizes: Sizes) -> list[Row]:
    case = sizes.case(cost_ns)
    variants = {
        f"{reorder}, batch {batch}": {"threads": 2, "reorder": reorder, "batch": batch}
        for batch in BATCHES for reorder in REORDERS
    }  # fmt: skip
    rates, hand = rates_of(case, variants, sizes.repetitions)
    return [
        Row("ordered", f"{cost_name(cost_ns)}, 2 threads, reorder {name}", rate, "M tuples/s", baseline=hand, baseline_name=HAND)
        for name, rate in rates.items()
    ]


def _queues(sizes: Sizes) -> list[Row]:
    cost_ns = QUEUES_COST_NS if QUEUES_COST_NS in sizes.costs else 0
    rows = []
    for sigma in SIGMAS[:: len(SIGMAS) - 1] if len(sizes.costs) == 1 else SIGMAS:
        case = sizes.case(cost_ns, sigma)
        rates, hand = rates_of(case, {queues: {"threads": 2, "queues": queues} for queues in QUEUE_KINDS}, sizes.repetitions)
        skew = f"keys' sigma {sigma:g}" if sigma else "uniform keys"
        for queues, rate in rates.items():
            name = f"{cost_name(cost_ns)}, {skew}, 2 threads, queues {queues}"
            rows.append(Row("ordered", name, rate, "M tuples/s", baseline=hand, baseline_name=HAND))
    return rows


def decision_ns(schedule: str, times: int, is_timed: bool) -> tuple[float, int]:
    """Nanoseconds of a decision when every stage has work, and the stage that was chosen."""
    case = Case(1, 0)
    c = Pipelined(pipeline_of(case.table), case.table, schedule=schedule).section.arrays
    stages = len(c.form)
    for stage in range(stages):
        publish_cell(c.stage, stage * words.STAGE_CELLS * words.CELL + words.TAIL, WAITING)
        c.known[stage, words.COST] = 10 * words.COST_UNIT * (1 + stage)  # later stages cost more: no two are alike
    chosen = np.zeros(stages + 1, np.int64)
    ordered_kernel.decide(c, 1, is_timed, chosen)
    begin = time.perf_counter()
    ordered_kernel.decide(c, times, is_timed, chosen)
    seconds = time.perf_counter() - begin
    stage = int(chosen.argmax())
    assert chosen[stage] == times + 1 and stage < stages, f"{schedule} chose {chosen.tolist()} times"
    return seconds / times * 1e9, stage


def _decisions(sizes: Sizes) -> list[Row]:
    rows = []
    for schedule in SCHEDULES:
        for is_timed, what in ((True, "one decision"), (False, "one decision, without reading the clock")):
            found = [decision_ns(schedule, sizes.decisions, is_timed)[0] for _ in range(sizes.repetitions)]
            goal = DECISION_NS if is_timed else None
            rows.append(Row("ordered", f"{what}, {schedule}", median(found), "ns", "lower", goal))
    case, patience = sizes.case(0), patience_for(sizes.repetitions)
    for threads in (1, 2):
        runs = []
        for _ in range(sizes.repetitions):
            patience.await_near(threads)
            runs.append(case.run(threads=threads, batch=BATCH))
        beside = median([(run.busy_ns - sum(run.stage_ns.values())) / run.decisions for run in runs])
        each = median([run.rows / run.decisions for run in runs])
        name = f"workers' time beside the stages, a decision, {DEFAULT_SCHEDULE}, {counted(threads, 'thread')}"
        note = f"taking rows in and looking for work included; {each:.3g} tuples a decision"
        rows.append(Row("ordered", name, max(0.0, beside), "ns", "lower", note=note))
    return rows
