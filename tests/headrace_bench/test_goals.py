"""The goals of the benchmarks are the ones that the project set itself: none is lowered unnoticed.

Property    each goal below is the one with which rows are compared
Cannot see  whether a goal is reached
"""

import pytest

from headrace_bench import (
    adaptive,
    dgs,
    dgs_apps,
    dgs_latency,
    gs,
    ob,
    ordered,
    ordered_apps,
    sl,
    speculative,
    stopping,
    tp,
    transacting,
)

CHAINS = {
    "gs": (gs.GOALS, {0: 0.8, 30: 1.4, 175: 1.85}),
    "sl": (sl.GOALS, {0: "15 M events/s", 175: 1.7}),
    "ob": (ob.GOALS, {175: 1.7}),
    "tp": (tp.GOALS, {175: 1.7}),
}
"""Cost of an operation in ns -> rate of chains on two threads: a multiple of that of `serial`, or absolute."""


@pytest.mark.parametrize("name", CHAINS)
def test_example_chains_on_two_threads(name):
    goals, stated = CHAINS[name]
    assert {goal.cost_ns: goal.ratio or f"{goal.events_per_s:g} M events/s" for goal in goals} == stated
    assert {goal.scheme for goal in goals} == {"chains"}


def test_example_speculative_and_adaptive_transactions():
    assert {name: case.goal for name, case in speculative.CASES.items()} == {
        "independent": 1.5, "independent, trivial operations": None, "all conflict": 0.6, "lookups of keys just read": 1.3,
    }  # fmt: skip
    assert (adaptive.GOAL, transacting.BESIDE_OTHERS) == (0.9, 0.9)


def test_example_stop():
    assert stopping.GOAL_S == 1.0


def test_example_ordered_pipelines():
    assert ordered.COSTS == {0: 0.65, 100: 1.7, 400: 1.9}
    assert (ordered.DECISION_NS, ordered_apps.P99_MS) == (50.0, 2.0)
    assert ordered_apps.goal_of(0.0) == 1.8  # 0.9 of what Amdahl's law allows
    assert ordered_apps.goal_of(0.24) == 1.6
    assert ordered_apps.goal_of(0.5) == pytest.approx(0.9 * 4 / 3)


def test_example_synchronization_plans():
    assert (dgs.PRESORTED, dgs.MERGING, dgs.JOIN_NS) == (0.8, 10.0, 200.0)
    assert (dgs_apps.LEAST_NS, dgs_apps.GOAL, dgs_apps.ANY_ORDER_GOAL, dgs_latency.CHANGE_MS) == (30, 1.5, 1.7, 1.0)
