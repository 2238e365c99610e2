"""Controllers on real runs: a rate that changes abruptly, real threads, real readings.

Property    the operator gets more threads after the rate rises and fewer after it falls, no request is
            refused, each decision is explained and followed up; the result is what it is without;
            a hand on the lever wins; a controller that fails is named and the run goes on; no
            thread outlives the run
Oracle      the run without a controller, bit for bit; thread names
Cannot see  how fast: nothing here is timed but in minutes
"""

import math
import threading

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.control.cost_model import CostModel
from headrace.control.mapping import Mapping
from headrace.controllers import (
    AdaptivePlan,
    AdaptiveScheme,
    Damping,
    LoadBalancer,
    ProactiveJoin,
    Request,
    Schedule,
    Threshold,
)
from headrace.cores import usable_cores
from headrace.errors import NotSupportedError, ParameterError, RunFailedError, RunStoppedError
from headrace.references import BUCKETS
from support.tidiness import threads_of_ours
from support.workloads import HANG_S, eventually

ROWS = 2_000_000
MANY = pa.table({"ts": range(ROWS), "k": [i % 61 for i in range(ROWS)]})
FEW = MANY.slice(0, 20_000)
QUICK = Damping(up_after_s=0.1, down_after_s=0.2, cooldown_s=0.2)


def counts(table=MANY):
    given = table if isinstance(table, hr.Stream) else hr.stream(table, event_time="ts")
    return given.key_by("k").window(1_000).aggregate("counts", n=hr.count())


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    eventually(lambda: not threads_of_ours(), 180)


SUMS = {
    "tags": {"value": {"x": "int64"}}, "depends": [("value", "value")], "state": {"sum": "int64"}, "emits": {"sum": "int64"},
    "update": {"value": lambda state, e, emit: None},
}  # fmt: skip


@pytest.mark.parametrize(
    ("controller", "of_a_program", "words"),
    [
        (AdaptivePlan(), False, "^AdaptivePlan changes the plan of an operator, and 'counts' has none; .*: threads, mapping$"),
        ([Threshold(), AdaptiveScheme()], False, "^AdaptiveScheme changes the scheme of an operator, and 'counts' has none"),
        (LoadBalancer(), True, "^LoadBalancer changes the mapping .* 'program' has none: which keys .* there: threads, plan$"),
    ],
)
def test_example_a_controller_of_what_an_operator_has_not_is_refused(controller, of_a_program, words):
    """At once: a run may be over before the first look."""
    goes_on = threading.Event()

    def given():
        yield pa.record_batch({"ts": [1], "k": [1], "x": [1]})
        goes_on.wait(60)

    def query(source):
        one = hr.stream(source, event_time="ts")
        return hr.program(**SUMS).over({"value": one}) if of_a_program else counts(one)

    for named in (controller, {"program" if of_a_program else "counts": controller}):
        with pytest.raises(NotSupportedError, match=words):
            query(FEW.append_column("x", FEW["k"])).start(controller=named)
    with query(given()).start() as run:
        with pytest.raises(NotSupportedError, match=words):
            run.control(controller)
        goes_on.set()
        assert run.wait(60) and not run.decisions


def by_rate(low, high):
    """A controller that follows the tuples that come, whatever the machine makes of them."""

    def decide(observation):
        wanted = 3 if observation.coming > (low + high) / 2 else 1
        if wanted == observation.threads:
            return None
        return Request(
            threads=wanted, reason=f"{observation.coming:,.0f} tuples/s call for {wanted}",
            metric="coming", value=observation.coming, threshold=(low + high) / 2, predicted={"load": 0.5},
        )  # fmt: skip

    return decide


def asked_for(run, threads):
    """Whether the newest request, in effect by now, is for so many threads.

    `run.threads` alone may tell a moment before the request is written down.
    """
    requests = run.decisions.of_kind("request")
    return requests and requests[-1].to_threads == threads and requests[-1].outcome in ("done", "unneeded")


@pytest.mark.slow
def test_a_rate_that_changes_abruptly_is_followed():
    """Up after the step, down after it; the machine decides only how soon."""
    low, high = 2_000, 40_000
    with counts().start(threads=1, max_threads=4, rate=low) as run:
        control = run.control(by_rate(low, high), interval_s=0.02)
        eventually(lambda: len(control.observations) > 3, 180)
        assert run.threads == 1
        run.rate = high
        eventually(lambda: asked_for(run, 3), 180)
        run.rate = low
        eventually(lambda: asked_for(run, 1), 180)
        # Realised effects are there once a second has passed without another change.
        eventually(lambda: run.decisions.of_kind("request")[-1].realised, 180)
        run.rate = None
        assert run.wait(120)
        result = run.to_arrow()
    asked = run.decisions.of_kind("request")
    assert [(d.from_threads, d.to_threads) for d in asked[:2]] == [(1, 3), (3, 1)]
    assert all(d.outcome in ("done", "unneeded") and d.reason and d.metric == "coming" for d in asked)
    assert all(c.outcome in ("done", "unneeded") and "decide: " in c.reason for c in run.changes)
    assert asked[1].realised["load"] >= 0 and not run.decisions.of_kind("error")
    assert result.equals(counts().to_arrow(threads=1))


def join():
    """Comparisons with 40,000 tuples for each of four million: one thread has work for many seconds at full speed."""
    at = np.arange(ROWS)
    left = pa.table({"ts": at, "x": at * 7_919 % 10_000})
    right = pa.table({"ts": at, "a": at * 104_729 % 10_000})
    sides = (hr.stream(table, event_time="ts") for table in (left, right))
    return next(sides).join(next(sides), within=20_000, where=hr.band("x", "a", 0), index=False)


@pytest.mark.skipif(usable_cores() < 2, reason="a second thread needs a second core")
@pytest.mark.parametrize("controller", [Threshold, ProactiveJoin])
def test_the_papers_controllers_on_a_join_whose_rate_changes(controller):
    """At full speed one thread is busy all the time: another one; at a trickle it goes again."""
    with join().start(threads=1, max_threads=2, sink=hr.discard()) as run:
        run.control(controller(damping=QUICK), interval_s=0.05)
        eventually(lambda: asked_for(run, 2), 180)
        run.rate = 200
        eventually(lambda: asked_for(run, 1), 180)
        up, *_, down = run.decisions.of_kind("request")
        assert (up.from_threads, up.to_threads) == (1, 2) and "above" in up.reason and up.value > up.threshold
        assert (down.from_threads, down.to_threads) == (2, 1) and "below" in down.reason and down.value < down.threshold
        assert all(d.outcome == "done" for d in (up, down))
        assert {d.kind for d in run.decisions} == {"attached", "request"}


@pytest.mark.slow
def test_threshold_on_a_run_that_idles():
    """At a trickle one thread will do."""
    with counts().start(threads=2, max_threads=2, rate=500) as run:
        control = run.control(Threshold(damping=QUICK), interval_s=0.05)
        eventually(lambda: any(d.outcome == "done" for d in run.decisions.of_kind("request")), 180)
        decision = run.decisions.of_kind("request")[0]
        assert "below 45%" in decision.reason and decision.metric == "load" and decision.value < 0.45
        assert decision.predicted["load"] <= 0.7
        assert control.quality().thread_seconds > 0
        frame = run.decisions.to_pandas()
        assert list(frame.kind[:2]) == ["attached", "request"] and frame.ms[1] > 0


@pytest.mark.slow
def test_schedule_and_cost_model_on_a_run():
    with join().start(threads=1, max_threads=3, rate=5_000, sink=hr.discard()) as run:
        control = run.control(Schedule([(0.2, 3), (3, 1)]), interval_s=0.05)
        eventually(lambda: len(run.decisions.of_kind("request")) and run.threads == 1, 180)
        # Intervals with more threads than cores, or next to nothing to do, teach nothing.
        eventually(lambda: control.cost_model.samples > 5, 180)

        def predicted():
            seen = len(control.observations)
            both = control.predict(1), control.predict(2)
            return both if len(control.observations) == seen else None  # from the same observation

        few, more = eventually(predicted)
        assert 0 < few.capacity and few.error > 0 and more.load <= 2.02 * few.load
        assert all(cost >= 0 for cost in control.cost_model.costs.values())
        with pytest.raises(ParameterError, match="threads=0"):
            control.predict(0)
        run.release()
        assert not control.is_attached and run.decisions[-1].kind == "released"
        eventually(lambda: not [n for n in threads_of_ours() if n.endswith("-controller")], 180)
        assert run.state == "running"


@pytest.mark.slow
def test_balancer_on_a_run_whose_keys_are_all_with_one_thread():
    """They are spread, and the result is the same."""
    table = pa.table({"ts": range(ROWS), "k": [i % 200 for i in range(ROWS)]})
    with counts(table).start(threads=2, max_threads=2, rate=20_000, mapping=Mapping([0] * BUCKETS)) as run:
        run.control(LoadBalancer(window_s=1, cooldown_s=2), interval_s=0.05)
        decision = eventually(lambda: run.decisions.of_kind("request"), 180)[0]
        assert decision.metric == "imbalance_cv" and decision.value > decision.threshold
        assert decision.predicted["imbalance_cv"] < decision.value
        decision.change.wait(180)
        assert set(run.mapping.instances) == {0, 1} and run.threads == 2
        realised = eventually(lambda: decision.realised, 180)["imbalance_cv"]
        assert realised < decision.value
        run.rate = None
        assert run.wait(120)
        assert run.to_arrow().equals(counts(table).to_arrow(threads=1))


def test_a_hand_on_the_lever_wins():
    with counts().start(threads=1, max_threads=4, rate=1_000) as run:
        run.control(lambda o: Request(threads=4 if o.threads < 4 else 3, reason="restless"), interval_s=0.02, hold_s=3_600)
        eventually(lambda: len(run.decisions.of_kind("request")) > 3, 180)
        change = run.reconfigure(threads=2, reason="by hand")
        assert change.wait(180).outcome == "done"
        asked = len(run.decisions.of_kind("request"))
        seen = len(run.control(None, interval_s=3_600).observations)  # its successor only watches
        assert run.threads == 2 and seen == 0
        held = run.decisions.of_kind("held")
        assert len(held) == 1 and "3600 s" in held[0].reason and held[0].to_threads == 2
        assert len(run.decisions.of_kind("request")) == asked
        assert run.decisions[-2].kind == "released" and "replaced" in run.decisions[-2].reason


def test_a_hand_on_one_operator_holds_only_its_controller():
    two = counts().forward("last")
    with two.start(threads=1, max_threads=3, rate=1_000) as run:
        first = run.control(None, "counts", interval_s=0.02)
        second = run.control(Schedule([(3_600, 2)]), "last", interval_s=0.02, hold_s=60)
        run["last"].reconfigure(threads=2).wait(180)
        assert second.held_s > 0 and first.held_s == 0
        assert "attached, kept off for" in repr(second) and "attached, looks every" in repr(first)
        with pytest.raises(ParameterError, match="operators are counts, last"):
            run.control(None, "none")
        run.release("last")
        assert first.is_attached and not second.is_attached


def test_a_controller_that_fails_leaves_the_run_alone():
    def faulty(observation):
        raise KeyError("no such metric")

    with counts(FEW).start(threads=2, max_threads=2, rate=100) as run:
        control = run.control(faulty, interval_s=0.02)
        (error,) = eventually(lambda: run.decisions.of_kind("error"))
        assert error.controller == "faulty" and "no such metric" in error.reason and not control.is_attached
        run.rate = None
        assert run.wait(180) and run.state == "finished"
        assert run.to_arrow().equals(counts(FEW).to_arrow())


def test_a_controller_that_never_returns_does_not_keep_the_run():
    begun, let_go = threading.Event(), threading.Event()

    def stuck(observation):
        begun.set()
        let_go.wait(180)

    try:
        with counts().start(rate=1_000) as run:
            run.control(stuck, interval_s=0.02)
            assert begun.wait(180)
            assert run.reconfigure(threads=1).outcome == "no change"  # nobody waits for it
            run.stop()
        assert run.state == "stopped"
    finally:
        let_go.set()


def test_no_control_of_a_run_that_is_over():
    with counts(FEW).start(rate=1_000) as run:
        control = run.control(None)
        run.rate = None
        assert run.wait(180)
        eventually(lambda: not control.is_attached, 180)
        with pytest.raises(RunStoppedError, match="over"):
            run.control(Threshold())


def test_nothing_is_predicted_before_anything_was_seen():
    with counts(FEW).start(rate=1_000) as run:
        control = run.control(None, interval_s=60)
        assert isinstance(control.cost_model, CostModel)
        with pytest.raises(RunStoppedError, match="nothing was observed"):
            control.predict(2)


@pytest.mark.slow
def test_a_controller_is_there_before_the_first_tuple():
    """However short the stream, and however late the starting thread gets its turn."""
    few = pa.table({"ts": [1, 2], "k": [0, 1]})
    for query in (counts(few), counts(few).key_by("k").window(1_000).aggregate("last", n=hr.count())):
        name = query.operators[-1]
        with query.start(threads=1, max_threads=2, controller={name: None}, control_every=0.01) as run:
            assert run.wait(180)
            loop = run[name].control_loop
        eventually(lambda loop=loop: not loop.is_attached, 180)
        assert [d.kind for d in run.decisions] == ["attached"] and loop.interval_s == 0.01
        assert run[query.operators[0]].control_loop is (loop if len(query.operators) == 1 else None)


def test_a_run_to_the_end_under_a_controller():
    asked = threading.Event()

    def given():
        yield from FEW.to_batches()
        assert asked.wait(HANG_S)  # the input does not end before

    source = hr.stream(pa.RecordBatchReader.from_batches(FEW.schema, given()), event_time="ts")
    result = counts(source).to_arrow(threads=1, max_threads=2, controller=lambda seen: asked.set(), control_every=0.01)
    assert result.equals(counts(FEW).to_arrow(threads=1))


def test_reject_a_controller_that_steers_nothing():
    chain = counts().key_by("k").window(1_000).aggregate("last", n=hr.count())
    for query, wrong, words in (
        (chain, Threshold(), r"which operator.*counts, last.*controller=\{'last'"),
        (chain, {"none": Threshold()}, r"controller=\{'none'.*operators are counts, last"),
        (counts(), 3, r"controller=3: give an object with decide"),
        (counts(), {"counts": [Threshold(), "x"]}, r"controller='x': give an object with decide"),
    ):
        with pytest.raises(ParameterError, match=words):
            query.start(controller=wrong)
    for wrong in (0, "x", math.inf, True):
        with pytest.raises(ParameterError, match="control_every=.*give seconds"):
            counts().start(controller=Threshold(), control_every=wrong)


def test_a_failed_run_says_why_when_a_controller_is_attached():
    def broken():
        yield pa.table({"ts": [1], "k": [0]}).to_batches()[0]
        raise RuntimeError("the valve is shut")

    with counts(broken()).start(threads=1) as run:
        eventually(lambda: run.state == "failed", 180)
        with pytest.raises(RunFailedError, match="the valve is shut"):
            run.control(None)
