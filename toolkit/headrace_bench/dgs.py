"""Synchronization plans compared with one loop: a part of `headrace bench dgs` (`experiments.dgs`).

The event window of the DGS paper (section 4.1): values of two streams, summed between barriers. Two serial loops in the same
process do the same work: one over events that are already in order, one over the inputs, which it has to merge. The program
runs on one leaf, and on two with two threads, with mailboxes and collector, from encoded columns in stores (`planned`).
A value is only added, or first takes 30 ns of work, whose rounds are a column. Where it is only added, neither the program nor
the loops contain anything else. The fewest values between two barriers is one per stream, which measures the cost of a barrier
whose state stays joined.

What a barrier costs on two leaves, above what it costs on one, is the extra time of frequent barriers over rare ones on two
leaves, less that on one leaf, for each barrier. It is measured for the program as it is, whose state stays joined at most of
the frequent barriers, and for one that joins and forks at each of them (`TRIVIAL_FORKED`). Of the latter it is the cost of a
join and a fork with the wait for the other leaf; it is also measured where one thread runs both leaves, and nobody waits. For
more leaves than there are cores, throughput is predicted by the optimizers' model with the costs measured here. For two leaves
the prediction stands beside the measurement.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from headrace_bench.dgs_kernel import merging, presorted
from headrace_bench.event_window import STREAMS, TRIVIAL, TRIVIAL_FORKED, WINDOW, rounds_for
from headrace_bench.machine import patience_for
from headrace_bench.planned import Planned
from headrace_bench.rows import Row, median, repeated

COSTS_NS = (0, 30)
BETWEEN = (10_000, 100_000, 1_000, 100)
"""Values between two barriers; the goals are for the first."""
BEYOND = (4, 8, 16)
"""Numbers of leaves for which throughput is predicted: more than there are cores here."""
LEAVES = {1: "1 leaf", 2: "2 leaves"}
"""Measured numbers of leaves -> their names in cases."""
PRESORTED, MERGING, JOIN_NS = 0.8, 10.0, 200.0
"""Goals: speed of two leaves as a multiple of either loop's, and nanoseconds of a join and a fork."""
BARRIER = "one value a stream and barrier: time of a barrier, and of its values"
OFTEN = BETWEEN[-1]
"""With rarer barriers, what a barrier costs is less than the machine's own variation."""
STAYS = f"{OFTEN:,} values a barrier: a barrier on two leaves takes longer by"
JOIN = f"{OFTEN:,} values a barrier, each joins and forks: a barrier on two leaves takes longer by"
JOIN_ALONE = f"{OFTEN:,} values a barrier, each joins and forks: a barrier on two leaves of one thread takes longer by"
"""Cases that measure what a barrier costs."""


class Case:
    """Events: value i of a stream at time ``i * STREAMS + stream``, a barrier after every `between` values of all streams."""

    def __init__(self, between: int, barriers: int, rounds: int, program: Any = None):
        count = between * barriers // STREAMS
        rng = np.random.default_rng(1)
        self.rounds = rounds
        self.times = [np.arange(count) * STREAMS + stream for stream in range(STREAMS)]
        self.values = [rng.integers(0, 100, count) for _ in range(STREAMS)]
        self.barriers = np.arange(1, barriers + 1) * between - 1
        every = np.concatenate([*self.times, self.barriers])
        order = np.argsort(every, kind="stable")
        self.x = np.concatenate([*self.values, np.zeros(barriers, np.int64)])[order]
        self.is_barrier = (np.arange(every.size) >= count * STREAMS)[order]
        self.program: Any = program or (WINDOW if rounds else TRIVIAL)
        costs = {"rounds": np.full(count, rounds)} if rounds else {}
        self.inputs: dict[str, Any] = {
            "value": [pa.table({"ts": ts, "x": x} | costs) for ts, x in zip(self.times, self.values, strict=True)],
            "barrier": pa.table({"ts": self.barriers}),
        }
        self.events = every.size

    def presorted(self) -> tuple[float, np.ndarray]:
        """Run the loop over events in order: seconds, and the sums."""
        sums = np.zeros(self.barriers.size, np.int64)
        begin = time.perf_counter()
        presorted(self.is_barrier, self.x, self.rounds or None, sums)
        return time.perf_counter() - begin, sums

    def merging(self) -> tuple[float, np.ndarray]:
        """Run the loop that merges: seconds, and the sums."""
        sums = np.zeros(self.barriers.size, np.int64)
        first = np.cumsum([0, *map(len, self.times)])
        ts, x = np.concatenate(self.times), np.concatenate(self.values)
        begin = time.perf_counter()
        merging(ts, x, first, self.barriers, self.rounds or None, sums)
        return time.perf_counter() - begin, sums

    def planned(self, leaves: int, threads: int | None = None) -> tuple[Planned, np.ndarray]:
        """Run the program on a plan, by default with a thread for each leaf: the run, and the sums."""
        run = Planned(self.program, self.inputs, threads=threads or leaves, leaves=leaves, max_threads=threads or leaves).run()
        return run, np.array([row["sum"] for row in run.rows])


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """M events/s of each case, and nanoseconds of a barrier, of a join and of a fork."""
    repetitions = 1 if tiny else 11 if full else 7
    rows: list[Row] = []
    counts = (BETWEEN[0], OFTEN) if tiny else BETWEEN
    for cost in COSTS_NS[:1] if tiny else COSTS_NS:
        runs: dict[int, list[Runs]] = {}
        events = 40_000 if tiny else 8_000_000 if cost == 0 else 2_000_000
        for between in counts:
            case = Case(between, events // between, rounds_for(cost))
            is_goal = between == BETWEEN[0] and cost == 0
            found, runs[between] = _window(case, f"{between:,} values a barrier, {cost} ns", repetitions, is_goal)
            rows += found
        if cost == 0:
            rows += [extra(STAYS, runs), *_forked(events, max(counts), repetitions)]
    turns = _turns(Case(STREAMS, 100 if tiny else 100_000, 0), repetitions)
    return [*rows, *turns]


class Runs(NamedTuple):
    """One turn of a case: seconds on one leaf and on two, barriers, and how often the two were joined."""

    one: float
    two: float
    barriers: int
    joins: int


def extra(name: str, runs: Mapping[int, Sequence[Runs]], goal: float | None = None) -> Row:
    """Nanoseconds of a barrier on two leaves above those on one, from frequent and from rare barriers.

    Parameters
    ----------
    name : str
        Of the case.
    runs : mapping
        Values between two barriers -> turns of that case; all cases have the same number of values. The case `OFTEN` is
        compared with the one that has the fewest barriers.
    """
    frequent, rare = runs[OFTEN], runs[max(runs)]
    each = [
        1e9 * ((some.two - few.two) - (some.one - few.one)) / (some.barriers - few.barriers)
        for some, few in zip(frequent, rare, strict=True)
    ]
    note = f"{frequent[-1].joins:,} joins at {frequent[-1].barriers:,} barriers"
    return Row("dgs", name, max(0.0, median(each)), "ns", better="lower", goal=goal, note=note)


def _forked(events: int, rarest: int, repetitions: int) -> list[Row]:
    """What a barrier costs where each joins and forks: on a thread for each leaf, and on one for both."""
    cases = {between: Case(between, events // between, 0, TRIVIAL_FORKED) for between in (OFTEN, rarest)}
    runs: dict[int, dict[int, list[Runs]]] = {threads: {between: [] for between in cases} for threads in (2, 1)}
    patience = patience_for(repetitions)
    for counts in repeated(repetitions):
        for between, case in cases.items():
            expected = case.presorted()[1].tolist()
            one, sums = case.planned(1)
            assert sums.tolist() == expected, "1 leaf differs"
            for threads, turns in runs.items():
                patience.await_near(threads)
                two, sums = case.planned(2, threads)
                assert sums.tolist() == expected, f"2 leaves on {threads} threads differ"
                assert two.joins == case.barriers.size, f"{two.joins} joins at {case.barriers.size} barriers"
                if counts:
                    turns[between].append(Runs(one.seconds, two.seconds, case.barriers.size, two.joins))
    return [extra(JOIN, runs[2], JOIN_NS), extra(JOIN_ALONE, runs[1])]


def _window(case: Case, name: str, repetitions: int, is_goal: bool) -> tuple[list[Row], list[Runs]]:
    rates: dict[str, list[float]] = {}
    turns, patience = [], patience_for(repetitions)
    for counts in repeated(repetitions):
        seconds, expected = case.presorted()
        found = {"one loop, presorted": case.events / seconds}
        seconds, sums = case.merging()
        assert (sums == expected).all(), f"{name}: the merging loop differs"
        found["one loop that merges"] = case.events / seconds
        runs = []
        for leaves, label in LEAVES.items():
            patience.await_near(leaves)
            run, sums = case.planned(leaves)
            assert sums.tolist() == expected.tolist(), f"{name}: {label} differ"
            found[label] = run.per_second
            runs.append(run)
        if not counts:
            continue
        turns.append(Runs(runs[0].seconds, runs[1].seconds, case.barriers.size, runs[1].joins))
        for label, rate in found.items():
            rates.setdefault(label, []).append(rate / 1e6)
    first, merged = (median(rates[label]) for label in ("one loop, presorted", "one loop that merges"))
    rows = [Row("dgs", f"{name}: {label}", median(each), "M events/s") for label, each in rates.items()]
    for row in rows[2:]:
        row.baseline, row.baseline_name = first, "presorted"
    if is_goal:
        rows[-1].goal, rows[-1].goal_is_ratio = PRESORTED, True
        rows.append(
            Row("dgs", f"{name}: 2 leaves, beside the loop that merges", rows[-1].value, "M events/s", goal=MERGING,
                baseline=merged, baseline_name="merging", goal_is_ratio=True)
        )  # fmt: skip
    return rows, turns


def _turns(case: Case, repetitions: int) -> list[Row]:
    """One value of each stream and a barrier alternate: the state stays joined, and nothing is forked and joined."""
    each = []
    for counts in repeated(repetitions):
        run, sums = case.planned(2)
        assert sums.tolist() == case.presorted()[1].tolist()
        if counts:
            each.append(1e9 * run.seconds / case.barriers.size)
    return [Row("dgs", BARRIER, median(each), "ns", better="lower", note="the state stays joined")]


class Model(NamedTuple):
    """The input of the optimizers' model.

    Parameters
    ----------
    program : Program
    often, rare : str
        The tag of the leaves' events, and the tag that all of these depend on.
    between : int
        Events of `often` for one of `rare`.
    """

    program: Any
    often: str
    rare: str
    between: int


def predicted(model: Model, name: str, one_leaf: float, two_leaves: float, joined_ns: float) -> list[Row]:
    """M events/s by the model.

    From the measured cost of an update on one leaf, turns included, and of a join and a fork together, waits included.
    """
    costs = {"update": 1e3 / one_leaf, "fork": joined_ns / 2, "join": joined_ns / 2, "turn": 0.0, "wait": 0.0}
    rates = {model.often: float(model.between), model.rare: 1.0}
    rows = []
    for leaves in (2, *BEYOND):
        streams = {model.often: leaves, model.rare: 1}
        plan = model.program.plan(streams, leaves=leaves, rates=rates, costs=costs, by="appendix")
        assert plan.predicted is not None
        rate = plan.predicted / 1e6
        row = Row("dgs", f"{name}: {leaves} leaves, predicted", rate, "M events/s", note="predicted, not measured")
        if leaves == 2:
            row.baseline, row.baseline_name = two_leaves, "measured"
        rows.append(row)
    return rows


def beyond(measured: list[Row]) -> list[Row]:
    """Predictions for the event window, from the rows of `measure`."""
    found, together = {row.case: row.value for row in measured}, joined_ns(measured)
    rows = []
    for case, alone in found.items():
        name, _, label = case.rpartition(": ")
        if label == LEAVES[1]:
            between = int(name.partition(" ")[0].replace(",", ""))
            model = Model(WINDOW, "value", "barrier", between)
            rows += predicted(model, name, alone, found[f"{name}: {LEAVES[2]}"], together)
    return rows


def joined_ns(measured: list[Row]) -> float:
    """The cost of a join and a fork, with the wait for the other leaf, from the rows of `measure`."""
    (found,) = (row.value for row in measured if row.case == JOIN)
    return found


__all__ = [
    "BARRIER", "BEYOND", "JOIN", "JOIN_ALONE", "LEAVES", "OFTEN", "STAYS", "Model", "Runs", "beyond", "extra", "joined_ns",
    "measure", "predicted",
]  # fmt: skip
