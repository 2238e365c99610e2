"""Latency of plans, plan against plan, and changes of the plan: a part of `headrace bench dgs` (Appendix D, Figure 10).

The event window at given rates. Latency is measured over the number of heartbeats of the barriers' input; over the number of
leaves, by how rare barriers are and by the depth of the plan (a chain is as deep as it has leaves, a flat tree is not); and for
the optimizer for latency against the one for throughput, at a slow and a fast rate, each with the delay that its model predicts.
Then the same events run at full speed on plans of all shapes, each compared with the model's prediction. Last are runs whose
plan changes back and forth at half of their highest rate. The model uses costs measured here. All results must equal the plain
sums.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.errors import RunStoppedError
from headrace.synchronization.dependence import Dependence
from headrace.synchronization.prediction import Costs, Model
from headrace_bench.event_window import WINDOW, WINDOW_FORKED
from headrace_bench.paced import Paced
from headrace_bench.planned import Planned
from headrace_bench.rows import Row, median, repeated

UNITS = 1_000_000
"""Units of event time in a second."""
BEATS = (0, 1, 10, 100, 1_000)
"""Heartbeats between two barriers."""
LEAVES = (2, 4, 8, 16)
PER_SECOND = 100_000
"""Values a second, where the rate is fixed."""
RATIOS = (10_000, 1_000, 100)
"""Values between two barriers (the paper's vb-ratio)."""
FEWEST = 10
"""Least number of barriers in a run."""
SHAPES = ("appendix", "chain", "flat", "rates", "latency")
CHANGE_MS = 1.0
TINY_S = 60.0
"""How long the input of tiny runs whose plan changes would last, if its rate were not lifted after the last change."""
ROUGH_COSTS = {"update": 30.0, "fork": 100.0, "join": 100.0}
"""Costs in nanoseconds, for plans of a requested shape, which does not depend on costs."""
COSTS = {
    "update": "update of a value", "turn": "a turn, for a run of values", "fork": "a fork", "join": "a join",
    "wait": "threads wait for each other at a join",
}  # fmt: skip
"""Cost of the optimizers' model -> its name in cases."""


class Events:
    """`seconds` of values in `streams` streams, `per_second` in all, with a barrier after every `between` values."""

    def __init__(self, streams: int, per_second: float, between: int, seconds: float):
        count = max(between, int(per_second * seconds) // between * between)
        self.ts = np.arange(count) * int(UNITS / per_second)
        self.x = np.random.default_rng(1).integers(0, 100, count)
        self.ends = self.ts[between - 1 :: between]
        self.sums = self.x.reshape(-1, between).sum(axis=1).tolist()
        self.streams, self.per_second, self.between = streams, per_second, between
        self.inputs: dict[str, Any] = {
            "value": [
                pa.table({"ts": self.ts[s::streams], "x": self.x[s::streams], "rounds": np.zeros(count, np.int64)[s::streams]})
                for s in range(streams)
            ],
            "barrier": pa.table({"ts": self.ends}),
        }

    @property
    def rates(self) -> dict[str, float]:
        """Events per second of each tag."""
        return {"value": self.per_second, "barrier": self.per_second / self.between}

    def plan(self, leaves: int, by: str, threads: int, costs: dict[str, float] | None = None) -> Any:
        """A plan by `Program.plan`, with `costs` for an optimizer that weighs them."""
        streams = {"value": self.streams, "barrier": 1}
        return WINDOW.plan(streams, leaves=leaves, by=by, rates=self.rates, costs=costs or ROUGH_COSTS, threads=threads)

    def check(self, run: Planned, what: str) -> None:
        """Compare a run's results with the plain sums."""
        assert run.table["sum"].to_pylist() == self.sums, f"{what}: other sums"


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """Milliseconds of latency, M events/s by plan, and milliseconds of a change of the plan."""
    repetitions, seconds = (1, 0.05) if tiny else (5, 2.0) if full else (3, 0.5)
    costs = measured_costs(repetitions, tiny)
    return [
        *(Row("dgs", f"costs for predictions: {word}", costs[cost], "ns", better="lower") for cost, word in COSTS.items()),
        *_over_heartbeats(repetitions, seconds, BEATS[::2] if tiny else BEATS),
        *_over_depth(repetitions, seconds, LEAVES[:1] if tiny else LEAVES, RATIOS[-1:] if tiny else RATIOS),
        *_optimizers(repetitions, seconds, tiny, costs),
        *_shapes(repetitions, tiny, costs),
        *_changes(5 if tiny else 101 if full else 41, tiny),
    ]


def measured_costs(repetitions: int, tiny: bool) -> dict[str, float]:
    """Nanoseconds of each cost in the optimizers' model.

    On one thread: an update, where barriers are rare; a turn, which is the extra time of frequent barriers, for each run between
    two of them; a fork and a join, each half of the extra time of eight leaves over one, where every barrier joins and forks.
    And what a barrier takes in addition if two leaves have a thread each.
    """
    streams, (often, rare) = 8, (RATIOS[-1], RATIOS[0])
    events = {between: Events(streams, 1_000_000, between, 0.01 if tiny else 1.0) for between in (rare, often)}
    cases = {
        "rare": (rare, WINDOW, 1, 1), "often": (often, WINDOW, 1, 1), "one": (often, WINDOW_FORKED, 1, 1),
        "many": (often, WINDOW_FORKED, streams, 1), "two": (often, WINDOW_FORKED, 2, 2),
    }  # fmt: skip
    found: dict[str, list[Planned]] = {name: [] for name in cases}
    for counts in repeated(repetitions):
        for name, (between, program, leaves, threads) in cases.items():
            plan = events[between].plan(leaves, "flat", threads)
            run = Planned(program, events[between].inputs, plan=plan, threads=threads, max_threads=threads).run()
            events[between].check(run, name)
            if counts:
                found[name].append(run)
    seconds = {name: median([run.seconds for run in runs]) for name, runs in found.items()}
    barriers = len(events[often].sums)
    update = 1e9 * seconds["rare"] / found["rare"][0].events
    turns = max(0.0, 1e9 * seconds["often"] - update * found["often"][0].events) / barriers
    joins = max(0.0, 1e9 * (seconds["many"] - seconds["one"])) / (barriers * (streams - 1))
    costs = {"update": update, "turn": turns / (streams + 1), "fork": joins / 2, "join": joins / 2, "wait": 0.0}
    without = events[often].plan(2, "flat", 2, costs).predicted
    assert without is not None
    return costs | {"wait": max(0.0, 1e9 * (seconds["two"] - found["two"][0].events / without) / barriers)}


def _latency(events: Events, plan: Any, beats: int, repetitions: int, name: str) -> list[Row]:
    found: dict[str, list[float]] = {"p50": [], "p99": []}
    for _ in range(repetitions):
        run = Paced(WINDOW, events.inputs, UNITS, beats, plan=plan, threads=2, max_threads=2).run()
        events.check(run, name)
        for part, values in found.items():
            values.append(run.latency_ms[part])
    return [Row("dgs", f"{name}, {part}", median(values), "ms", better="lower") for part, values in found.items()]


def _over_heartbeats(repetitions: int, seconds: float, beats: tuple[int, ...]) -> list[Row]:
    events = Events(2, PER_SECOND, 1_000, seconds)
    plan = events.plan(2, "appendix", 2)
    return [
        row for each in beats for row in _latency(events, plan, each, repetitions, f"latency, {each:,} heartbeats a barrier")
    ]


def _over_depth(repetitions: int, seconds: float, leaves: tuple[int, ...], ratios: tuple[int, ...]) -> list[Row]:
    rows = []
    for between in ratios:
        for number in leaves:
            events = Events(number, PER_SECOND, between, max(seconds, FEWEST * between / PER_SECOND))
            for by in ("flat", "chain"):
                plan = events.plan(number, by, 2)
                depth = max(one.depth for one in plan.nodes)
                name = f"latency, {between:,} values a barrier, {by} plan of {number} leaves, depth {depth}"
                rows += _latency(events, plan, 10, repetitions, name)
    return rows


def _leaves(plan: Any) -> str:
    """How many leaves a plan has, in the names of cases."""
    return "1 leaf" if len(plan.leaves) == 1 else f"{len(plan.leaves)} leaves"


def _optimizers(repetitions: int, seconds: float, tiny: bool, costs: dict[str, float]) -> list[Row]:
    rows: list[Row] = []
    for per_second, word in ((20_000, "20 k"), *(() if tiny else ((500_000, "500 k"),))):
        events = Events(4, per_second, 1_000, seconds)
        for by in ("rates", "latency"):
            plan = events.plan(4, by, 2, costs)
            found = _latency(events, plan, 10, repetitions, f"latency, {word} values/s, optimizer for {by}: {_leaves(plan)}")
            delay = Model(plan.rates, Costs(**costs), 2, Dependence(WINDOW).runs(plan.rates)).delay_ns(plan.roots)
            found[0].note = f"predicted {delay:,.0f} ns, without waiting for other inputs, and for feeders to look"
            rows += found
    return rows


def _shapes(repetitions: int, tiny: bool, costs: dict[str, float]) -> list[Row]:
    """All events at once; the prediction is that of the optimizers' model with the measured costs."""
    rows = []
    for between in (1_000,) if tiny else (10_000, 1_000, 100):
        events = Events(8, 1_000_000, between, 0.01 if tiny else 2.0)
        for by in SHAPES:
            plan, rates = events.plan(8, by, 2, costs), []
            for _ in range(repetitions):
                run = Planned(WINDOW, events.inputs, plan=plan, threads=2, max_threads=2).run()
                events.check(run, by)
                rates.append(run.per_second / 1e6)
            name = f"8 streams, {between:,} values a barrier: plan by {by}, {_leaves(plan)}"
            row = Row("dgs", name, median(rates), "M events/s")
            row.baseline, row.baseline_name = (plan.predicted or float("nan")) / 1e6, "predicted"
            rows.append(row)
    return rows


def _changes(count: int, tiny: bool) -> list[Row]:
    """Milliseconds from the call of `reconfigure` until another plan is in force."""
    events = Events(2, 1_000_000, 1_000, 0.1 if tiny else 8.0)
    with WINDOW.start(events.inputs, plan="auto", leaves=2, threads=2, max_threads=2) as run:
        begin = time.perf_counter()
        assert run.wait(300)
        most = 2 * len(events.ts) / max(1e-9, time.perf_counter() - begin) / 3  # of all three inputs
        assert run.to_arrow()["sum"].to_pylist() == events.sums
    plans = [events.plan(leaves, "appendix", 2) for leaves in (1, 2)]
    took: list[float] = []
    # Half of the rate that the run reached; so few events, at that rate, would be over before the first change.
    rate = len(events.ts) / TINY_S if tiny else most / 2
    # As a multiple of the event time's own pace, whose integers are taken as milliseconds.
    pace = hr.rates.recorded(speed=rate / events.per_second * UNITS / 1_000)
    with WINDOW.start(events.inputs, plan=plans[1], threads=2, max_threads=2, rate=pace) as run:
        while len(took) < count and run.state == "running":
            change = run.reconfigure(plan=plans[len(took) % 2]).wait(60)
            if change.outcome != "done":
                break
            took.append(change.ms)
            time.sleep(0.01)
        with suppress(RunStoppedError):  # the run may have ended by itself
            run.rate = None
        assert run.wait(300)
        assert run.to_arrow()["sum"].to_pylist() == events.sums, "other sums under plans that change"
    assert took, "no change of the plan was done before the input ended"
    return [
        Row("dgs", "change of the plan at half load, p50", median(took), "ms", better="lower", goal=CHANGE_MS),
        Row("dgs", "change of the plan at half load, p99", float(np.quantile(took, 0.99)), "ms", better="lower"),
    ]


__all__ = ["PER_SECOND", "measure"]
