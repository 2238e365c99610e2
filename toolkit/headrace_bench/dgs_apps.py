"""Page views and frauds on plans, compared with one loop over ordered events: a part of `headrace bench dgs` (Figures 4 and 8).

The programs are those of the applications, except that an event takes ``rounds`` rounds of steps (`event_window.worked`), and
that numbers are emitted. Views of two hot pages, and transactions, are dealt out to streams; an update or a rule follows every
10,000 of them. Results must be those of the loop, which at a small size is compared with `headrace.reference`.
`dgs_rates` measures the same at given rates (Figure 6).
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.apps.pageview import replicate, unite
from headrace.reference import synchronization_apps as reference
from headrace_bench import dgs_by_hand
from headrace_bench.dgs import LEAVES, Model, predicted
from headrace_bench.dgs_apps_kernel import frauds, joined
from headrace_bench.event_window import rounds_for, worked
from headrace_bench.machine import patience_for
from headrace_bench.planned import Planned
from headrace_bench.rows import Row, median, repeated

STREAMS = 2
BETWEEN = 10_000
PAGES = 2
COSTS_NS = (0, 30, 100)
LEAST_NS = 30
"""Least cost of an event, in ns, for which the goal holds."""
GOAL, ANY_ORDER_GOAL = 1.5, 1.7
"""Speedup over the loop, with results in event order and in any order."""
ANY_ORDER, BY_HAND = "2 leaves, in any order", "2 threads by hand, in any order"


def view(state, e, emit):
    emit(page=worked(e.page, e.rounds), user=e.user, info=state.info.get(e.page, 0))


def update(state, e, emit):
    emit(page=e.page, user=-1, info=state.info.get(e.page, 0))
    state.info[e.page] = e.info


PAGE_VIEWS = hr.program(
    name="pageview",
    tags={
        hr.tag("view", by="page", parts=PAGES): {"page": "int64", "user": "int64", "rounds": "int64"},
        hr.tag("update", by="page", parts=PAGES): {"page": "int64", "info": "int64"},
    },
    depends=[("update", "update"), ("update", "view")],
    state={"info": hr.map_of("int64", "int64")},
    emits={"page": "int64", "user": "int64", "info": "int64"},
    update={"view": view, "update": update},
    fork=replicate,
    join=unite,
)


def check(state, e, emit):
    value = worked(e.value, e.rounds)
    if value % 1_000 == state.model:
        emit(kind=0, value=value)
    state.sum += value


def renew(state, e, emit):
    emit(kind=1, value=state.sum)
    state.model = (state.sum + e.value) % 1_000
    state.rules += 1
    state.sum = 0


def replicate_model(state, left, right, tags_left, tags_right):
    left.model = state.model
    left.rules = state.rules
    right.model = state.model
    right.rules = state.rules
    if "rule" in tags_right:
        right.sum = state.sum
    else:
        left.sum = state.sum


def merge(into, other):
    if other.rules > into.rules:
        into.model = other.model
        into.rules = other.rules
    into.sum += other.sum


FRAUDS = hr.program(
    name="modelfraud",
    tags={"transaction": {"value": "int64", "rounds": "int64"}, "rule": {"value": "int64"}},
    depends=[("rule", "rule"), ("rule", "transaction")],
    state={"sum": "int64", "model": "int64", "rules": "int64"},
    emits={"kind": "int64", "value": "int64"},
    update={"transaction": check, "rule": renew},
    fork=replicate_model,
    join=merge,
)


PROGRAMS: dict[str, tuple[Any, tuple[str, str]]] = {
    "page views": (PAGE_VIEWS, ("view", "update")), "frauds": (FRAUDS, ("transaction", "rule")),
}  # fmt: skip
"""Name of a case -> its program, and its tags: the frequent one, and the rare one that it depends on."""


class Case:
    """One table for each side: frequent events, dealt out to `STREAMS` inputs, each at its own time, and the rare events."""

    def __init__(self, name: str, count: int, rounds: int):
        count = count // BETWEEN * BETWEEN or count // STREAMS * STREAMS
        between = min(BETWEEN, count // 2)
        rng = np.random.default_rng(3)
        self.name, self.rounds = name, rounds
        self.program, tags = PROGRAMS[name]
        ts, ends = np.arange(count), np.arange(between - 1, count, between)
        self.is_rare = np.zeros(count + ends.size, bool)
        self.is_rare[np.searchsorted(ts, ends, side="right") + np.arange(ends.size)] = True
        if name == "page views":
            left = {"page": rng.integers(0, PAGES, count), "user": rng.integers(0, 10_000, count)}
            right = {"page": rng.integers(0, PAGES, ends.size), "info": rng.integers(1, 100_000, ends.size)}
            self.loop = joined
            columns = (("page", "page"), ("user", "info"))
        else:
            left = {"value": rng.integers(0, 100_000, count)}
            right = {"value": rng.integers(0, 100_000, ends.size)}
            self.loop = frauds
            columns = (("value", "value"),)
        self.left, self.right = {"ts": ts, **left}, {"ts": ends, **right}
        self.merged = [self._merged(left[a], right[b]) for a, b in columns]
        table = pa.table(self.left | {"rounds": np.full(count, rounds)})
        self.inputs: dict[str, Any] = {
            tags[0]: [table.take(pa.array(np.arange(s, count, STREAMS))) for s in range(STREAMS)], tags[1]: pa.table(self.right),
        }  # fmt: skip
        self.events = self.is_rare.size

    def _merged(self, often: np.ndarray, rare: np.ndarray) -> np.ndarray:
        every = np.zeros(self.is_rare.size, np.int64)
        every[~self.is_rare], every[self.is_rare] = often, rare
        return every

    def serial(self) -> tuple[float, list[np.ndarray]]:
        """Seconds of the loop, and its results by column."""
        out = np.zeros((3, self.events), np.int64)
        begin = perf_counter()
        count = self.loop(self.is_rare, *self.merged, self.rounds, out)
        seconds = perf_counter() - begin
        return seconds, list(out[:, :count])

    def by_hand(self, threads: int) -> tuple[float, list[np.ndarray]]:
        """Seconds of threads that synchronize by hand, and their results by column, in any order."""
        parts = [{name: column[me::threads].copy() for name, column in self.left.items()} for me in range(threads)]
        return dgs_by_hand.run(self.name, parts, self.right, self.rounds)

    def planned(self, leaves: int, order: str = "events") -> Planned:
        """Run the program on a plan."""
        return Planned(self.program, self.inputs, threads=leaves, leaves=leaves, max_threads=leaves, order=order).run()


def same(run: Planned, expected: list[np.ndarray], in_order: bool = True) -> bool:
    """Whether a run gave the loop's rows: in the same order, or in any."""
    return same_columns([run.table[name].to_numpy() for name in run.table.column_names[1:]], expected, in_order)


def same_columns(found: list[np.ndarray], expected: list[np.ndarray], in_order: bool) -> bool:
    """As `same`, for columns."""
    wanted = expected[: len(found)]
    if not in_order and len(found[0]) == len(wanted[0]):
        found, wanted = ([column[np.lexsort(each)] for column in each] for each in (found, wanted))
    return all(map(np.array_equal, found, wanted))


def check_reference() -> None:
    """Check that the loops, with which plans are compared, give what the plain definitions do."""
    views = Case("page views", 2_000, 0)
    found = reference.pageview(_rows(views.left), _rows(views.right))
    wanted = [(row["page"], -1 if row["user"] is None else row["user"], row["info"]) for row in found]
    assert [tuple(row) for row in np.array(views.serial()[1]).T.tolist()] == wanted, "page views: the loop differs"
    checked = Case("frauds", 4_000, 0)
    found = reference.modelfraud(_rows(checked.left), _rows(checked.right))
    kinds = [(int(row["kind"] == "rule"), row["value"]) for row in found]
    assert [tuple(row[:2]) for row in np.array(checked.serial()[1]).T.tolist()] == kinds, "frauds: the loop differs"


def _rows(columns: dict[str, np.ndarray]) -> list[list[tuple[int, dict[str, int]]]]:
    """One input in the reference's form."""
    names = [name for name in columns if name != "ts"]
    values = zip(*(columns[name].tolist() for name in names), strict=True)
    return [[(ts, dict(zip(names, row, strict=True))) for ts, row in zip(columns["ts"].tolist(), values, strict=True)]]


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """M events/s of each program, on one leaf and on two, compared with the loop."""
    check_reference()
    repetitions = 1 if tiny else 7 if full else 3
    rows = []
    for name in PROGRAMS:
        for cost in COSTS_NS[:1] if tiny else COSTS_NS:
            events = 2_000 if tiny else 4_000_000 if full else 1_000_000
            rows += _rows_of(Case(name, events, rounds_for(cost)), f"{name}, {cost} ns", repetitions, cost)
    return rows


def _rows_of(case: Case, name: str, repetitions: int, cost: int) -> list[Row]:
    rates: dict[str, list[float]] = {}
    patience = patience_for(repetitions)
    for counts in repeated(repetitions):
        seconds, expected = case.serial()
        found = {"one loop, presorted": case.events / seconds}
        for leaves, label, order in ((1, LEAVES[1], "events"), (2, LEAVES[2], "events"), (2, ANY_ORDER, "none")):
            patience.await_near(leaves)
            run = case.planned(leaves, order)
            assert same(run, expected, order == "events"), f"{name}: {label} differ"
            found[label] = run.per_second
        seconds, columns = case.by_hand(STREAMS)
        assert same_columns(columns, expected, in_order=False), f"{name}: by hand differ"
        found[BY_HAND] = case.events / seconds
        if counts:
            for label, rate in found.items():
                rates.setdefault(label, []).append(rate / 1e6)
    goals = {LEAVES[2]: GOAL, ANY_ORDER: ANY_ORDER_GOAL} if cost >= LEAST_NS else {}
    rows = [
        Row("dgs", f"{name}: {label}", median(each), "M events/s", goal=goals.get(label), goal_is_ratio=label in goals)
        for label, each in rates.items()
    ]
    for row in rows[1:]:
        row.baseline, row.baseline_name = rows[0].value, "presorted"
    return rows


def beyond(measured: list[Row], joined_ns: float) -> list[Row]:
    """Predictions, from the rows of `measure` and the cost of a join and a fork in the event window."""
    found = {row.case: row.value for row in measured}
    rows = []
    for case, alone in found.items():
        name, _, label = case.rpartition(": ")
        if label == LEAVES[1]:
            program, tags = PROGRAMS[name.partition(",")[0]]
            rows += predicted(Model(program, *tags, BETWEEN), name, alone, found[f"{name}: {LEAVES[2]}"], joined_ns)
    return rows


__all__ = ["PROGRAMS", "beyond", "check_reference", "measure", "same_columns"]
