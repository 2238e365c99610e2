"""Plans by measured rates and costs: what the model predicts, and which plan is best by it.

Property    "rates" never predicts less than Appendix B's plan, and "best" never less than either
Oracle      predictions by hand; of "best", all trees there are, without any of the search's short cuts
Cannot see  whether the model is right: `headrace bench dgs` prints predictions beside measurements
"""

import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headrace.synchronization.dependence import Dependence
from headrace.synchronization.plan_nodes import PlanNode
from headrace.synchronization.plans import Plan, implementation_tags
from headrace.synchronization.prediction import NAMES, Costs, Model
from headrace.synchronization.tags import ImplementationTag as Tag
from headrace.synchronization.tree_kernel import TURN_NS
from support.plans import is_valid, program_of, programs, rates

WINDOW = program_of({"value": 0, "barrier": 0}, [("barrier", "barrier"), ("barrier", "value")])
COSTS = st.fixed_dictionaries({name: st.sampled_from([0, 1, 20, 300]) for name in NAMES})
ALONE = {"turn": 0.0, "wait": 0.0}
"""Costs of functions alone."""


def no_less(more, less):
    return more.predicted is None or more.predicted >= less.predicted * (1 - 1e-9)


@pytest.mark.slow
@given(st.data(), programs(), COSTS, st.integers(1, 5), st.none() | st.integers(1, 5))
def test_agree_best_then_rates_then_appendix(data, given_program, costs, leaves, threads):
    program, streams = given_program
    there = implementation_tags(program, streams)
    known = data.draw(rates(program, there))
    options = {"leaves": leaves, "rates": known, "costs": costs, "threads": threads}
    appendix, weighed = (program.plan(streams, by=by, **options).check(program, streams) for by in ("appendix", "rates"))
    assert no_less(weighed, appendix) and len(weighed.leaves) <= leaves
    if len(there) <= 7:
        best = program.plan(streams, by="best", **options).check(program, streams)
        assert no_less(best, weighed) and len(best.leaves) <= leaves


def all_trees(tags, leaves):
    """Every tree that owns these tags, none of its leaves empty: trees that are not valid too."""
    yield PlanNode(tags)
    if leaves > 1:
        for places in itertools.product("ulr", repeat=len(tags)):
            above, left, right = ([tag for tag, at in zip(tags, places, strict=True) if at == where] for where in "ulr")
            if left and right and tags.index(left[0]) < tags.index(right[0]):
                for lefts in all_trees(left, leaves - 1):
                    for rights in all_trees(right, leaves - 1):
                        yield PlanNode(above, (lefts, rights))


@pytest.mark.slow
@given(st.data(), programs(), COSTS, st.integers(1, 4))
def test_oracle_best_of_all_trees(data, given_program, costs, leaves):
    program, streams = given_program
    there = implementation_tags(program, streams)
    assume(2 <= len(there) <= 4)
    known = data.draw(rates(program, there))
    found = program.plan(streams, by="best", leaves=leaves, rates=known, costs=costs)
    speed = {tag: known[tag] for tag in there}
    model = Model(speed, Costs(**costs), leaves, Dependence(program).runs(speed))
    plans = [plan for tree in all_trees(there, leaves) if len((plan := Plan([tree])).leaves) <= leaves]
    bound = [model.events_per_second(plan.roots) for plan in plans if is_valid(plan, program, there)]
    assert found.predicted == (None if None in bound else pytest.approx(max(bound)))


def test_example_a_prediction_by_hand():
    """Two values and a barrier; times of one second of stream, in nanoseconds.

    node 0  barrier 10/s        max(200, 56 + 1,650) + 10 x (5 + 2 levels x 100 + 500) + 3 runs
    ├─ leaf 0  value 40/s         40 x 5 + 10 runs
    └─ node 2  reset 3/s          max(48, 5 x 2 + 2 x 9) + 3 x (5 + 1 level x 100 + 500) + 3 runs
       ├─ leaf 1  inc 6/s           6 x 5 + 2 runs
       └─ leaf 2  inc 2/s           2 x 5 + 2 runs
    """
    nodes = [PlanNode([("value", 0, 0)]), PlanNode([("inc", 0, 0)]), PlanNode([("inc", 0, 1)])]
    root = PlanNode([("barrier", 0, 0)], (nodes[0], PlanNode([("reset", 0, 0)], nodes[1:])))
    speed = {Tag("barrier", 0, 0): 10, Tag("value", 0, 0): 40, Tag("reset", 0, 0): 3, Tag("inc", 0, 0): 6, Tag("inc", 0, 1): 2}
    runs = dict(zip(speed, (3, 10, 3, 2, 2), strict=True))
    for turn, wait, threads in itertools.product((0, 9), (0, 500), (1, 2, 3)):
        waited = wait if threads > 1 else 0
        below = 30 + 2 * turn + 3 * (5 + 100 + waited) + 3 * turn
        busy = max(200 + 10 * turn, below) + 10 * (5 + 2 * 100 + waited) + 3 * turn
        work = 61 * 5 + 20 * turn + 10 * 2 * 100 + 3 * 100 + 10 * threads * waited + 3 * min(threads, 2) * waited
        model = Model(speed, Costs(update=5, fork=60, join=40, turn=turn, wait=wait), threads, runs)
        assert model.of(root).busy == busy and model.of(root).work == work
        assert model.events_per_second([root]) == pytest.approx(61 / max(busy, work / threads) * 1e9)


def test_example_runs_by_hand():
    """Barriers interrupt all else, and resets the increments of their own key; streams of one tag do not, as values here."""
    program = program_of({"inc": 2, "reset": 2, "value": 0, "barrier": 0}, [
        ("barrier", "barrier"), ("barrier", "value"), ("barrier", "inc"), ("barrier", "reset"), ("reset", "reset"),
        ("reset", "inc"),
    ])  # fmt: skip
    speed = {
        Tag("inc", 0, 0): 100.0, Tag("inc", 1, 0): 3.0, Tag("reset", 0, 0): 7.0, Tag("reset", 1, 0): 2.0,
        Tag("value", 0, 0): 50.0, Tag("value", 0, 1): 50.0, Tag("barrier", 0, 0): 1.0, Tag("barrier", 0, 1): 4.0,
    }  # fmt: skip
    assert Dependence(program).runs(speed) == dict(zip(speed, (12.0, 3.0, 7.0, 2.0, 5.0, 5.0, 1.0, 4.0), strict=True))


def test_example_the_default_wait_is_what_the_workers_assume():
    """A fork and a join with all that comes with them: what `tree_kernel` weighs staying joined against."""
    assert Costs().fork + Costs().join + Costs().wait == TURN_NS


MEASURED = {"update": 4.5, "turn": 135.0, "fork": 80.0, "join": 80.0, "wait": 1_000.0}
"""Nanoseconds, where a value is only added, on two cores; one leaf did 60 M events/s at 100 values a barrier, and two did 48."""


@pytest.mark.parametrize("between", [10_000, 1_000, 100, 10])
def test_example_one_leaf_before_two_where_barriers_are_frequent(between):
    """Eight streams on two threads. Function times alone put two leaves first at 100 values a barrier, where they were slower."""
    options = {"rates": {"value": 1e6, "barrier": 1e6 / between}, "costs": MEASURED, "threads": 2}
    streams = {"value": 8, "barrier": 1}
    one, two = (WINDOW.plan(streams, leaves=leaves, by="appendix", **options).predicted for leaves in (1, 2))
    found = WINDOW.plan(streams, leaves=8, **options)
    assert (one > two) == (len(found.leaves) == 1) == (between <= 100)
    if between == 100:
        assert one == pytest.approx(60e6, rel=0.1) and two == pytest.approx(48e6, rel=0.1)  # as was measured
        assert len(WINDOW.plan(streams, leaves=8, **options | {"costs": MEASURED | ALONE}).leaves) == 2


def test_example_fewer_threads_than_leaves():
    """What counts then is the work of all, so that a busier tree with less work must not be dropped: by hand, 2 x 20 M/s."""
    program = program_of({"a": 0, "b": 0, "c": 0, "d": 0}, [("d", "c"), ("d", "d")])
    streams, speed = {"a": 1, "b": 2, "c": 2, "d": 1}, {"a": 10, "b": 5, "c": 10, "d": 1}
    options = {"leaves": 4, "threads": 2, "rates": speed, "costs": {"update": 50, "fork": 50, "join": 50, **ALONE}}
    assert program.plan(streams, by="best", **options).predicted == pytest.approx(40e6)


def test_example_joins_that_do_not_pay():
    """A barrier for each value: one leaf; one for a thousand: as many as there are; costs decide between them."""
    options = {"leaves": 4, "costs": {"update": 10, "fork": 100, "join": 100}}
    assert len(WINDOW.plan({"value": 4, "barrier": 1}, rates={"value": 4, "barrier": 4}, **options).leaves) == 1
    assert len(WINDOW.plan({"value": 4, "barrier": 1}, rates={"value": 4000, "barrier": 1}, **options).leaves) == 4
    slow = options | {"costs": {"update": {"value": 10_000, "barrier": 10}, "fork": 100, "join": 100}}
    assert len(WINDOW.plan({"value": 4, "barrier": 1}, rates={"value": 4, "barrier": 4}, **slow).leaves) == 4


def test_example_what_need_not_go_up_stays_down():
    """A rare tag beside the one that holds all together: Appendix B takes it up on the way, and every event of it joins."""
    program = program_of({"value": 0, "note": 0, "barrier": 0}, [("barrier", "value"), ("barrier", "note")])
    streams, speed = {"value": 2, "note": 1, "barrier": 1}, {"value": 1000, "note": 40, "barrier": 50}
    (root,) = program.plan(streams, rates=speed, by="appendix").roots
    assert {tag.tag for tag in root.tags} == {"note", "barrier"}
    (root,) = program.plan(streams, rates=speed, by="rates", costs={"update": 100}).roots
    assert {tag.tag for tag in root.tags} == {"barrier"}


def test_example_leaves_go_where_the_events_are():
    """One of three keys has nine tenths of the events, in many streams."""
    program = program_of({"inc": 3, "reset": 3}, [("reset", "inc"), ("reset", "reset")])
    speed = {Tag("inc", part, stream): 9.0 if part == 0 else 0.5 for part in range(3) for stream in range(6)}
    speed |= {Tag("reset", part, 0): 0.001 for part in range(3)}
    plan = program.plan({"inc": 6, "reset": 1}, leaves=8, rates=speed)
    loads = [sum(speed[tag] for tag in one.node.tags) for one in plan.leaves]
    assert sum(any(tag.part == 0 for tag in one.node.tags) for one in plan.leaves) == 6
    assert max(loads) == 9.0


@pytest.mark.slow
@pytest.mark.parametrize("leaves", [2, 64])
def test_example_rates_of_thousands_of_implementation_tags(leaves):
    program = program_of({"inc": 1000, "reset": 1000, "stop": 0}, [("reset", "inc"), ("reset", "reset"), ("stop", "inc")])
    streams, speed = {"inc": 3, "reset": 1, "stop": 1}, {"inc": 1e6, "reset": 1e3, "stop": 1}
    plan = program.plan(streams, leaves=leaves, rates=speed).check(program, streams)
    assert len(plan.leaves) == leaves
    assert plan.predicted >= 0.8 * leaves * 1e8


def test_example_a_delay_by_hand():
    """The barrier waits for two levels of joins, and for threads; all of it in a queue: 10 x 505 + 100 ns of a second are taken.

    node 0  barrier 10/s        2 levels x 60, a wait of 300, and its own 5
    ├─ leaf 0  value 20/s
    └─ node 2  nothing
       ├─ leaf 1  value 20/s
       └─ leaf 2  value 20/s
    """
    leaves = [PlanNode([("value", 0, stream)]) for stream in range(3)]
    root = PlanNode([("barrier", 0, 0)], (leaves[0], PlanNode((), leaves[1:])))
    speed = {Tag("barrier", 0, 0): 10.0} | {Tag("value", 0, stream): 20.0 for stream in range(3)}
    model = Model(speed, Costs(update=5, fork=40, join=60, wait=300), threads=3)
    busy = 20 * 5 + 10 * (5 + 2 * 100 + 300)
    assert model.delay_ns([root]) == pytest.approx((5 + 2 * 60 + 300) / (1 - busy / 1e9))
    alone = Model(speed, Costs(update=5), threads=3)
    assert alone.delay_ns(leaves) == pytest.approx(5 / (1 - 100 / 1e9))  # nobody joins these
    assert Model(speed, Costs(update=4e7), threads=3).delay_ns([root]) == float("inf")


def test_example_the_optimizer_for_latency_joins_less_where_there_is_time():
    """At a hundredth of what two leaves take, one leaf answers sooner; near what one leaf takes, two do."""
    options = {"leaves": 2, "costs": {"update": 100, "fork": 300, "join": 300}}
    streams = {"value": 2, "barrier": 1}
    slow, fast = {"value": 1e5, "barrier": 100}, {"value": 9.9e6, "barrier": 100}
    assert len(WINDOW.plan(streams, rates=slow, by="rates", **options).leaves) == 2
    assert len(WINDOW.plan(streams, rates=slow, by="latency", **options).leaves) == 1
    assert len(WINDOW.plan(streams, rates=fast, by="latency", **options).leaves) == 2
    beyond = {"value": 9e7, "barrier": 100}
    assert len(WINDOW.plan(streams, rates=beyond, by="latency", **options).leaves) == 2
