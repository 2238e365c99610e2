"""Controllers on an operator of another engine: no key mapping, no windows, no loads, no latency.

Method: readings of an engine that does not exist (`support.made_up`), stepped through by hand. Cannot see: what an
engine does with a request.
"""

import math
from dataclasses import replace

import pytest

from headrace.changes import Change
from headrace.control.control_loop import ControlLoop
from headrace.control.controllers.load_balancer import LoadBalancer
from headrace.control.controllers.operations import ProactiveOperations
from headrace.control.controllers.proactive import ProactiveJoin
from headrace.control.controllers.threshold import Threshold
from headrace.control.damping import Damping
from headrace.control.decisions import DecisionLog
from headrace.control.mapping import Mapping
from headrace.control.observation import Reading, observe
from headrace.control.requests import Request
from headrace.metrics.measures import BUSY, NEEDED
from headrace.metrics.snapshot import OperatorMetrics
from headrace.progress import MIN_TIME
from support.made_up import snapshot

AT_ONCE = Damping(up_after_s=0, down_after_s=0, cooldown_s=0)


def reading(step, **changed):
    return Reading(at_ns=10**8 * step, metrics=snapshot(step, **changed), cores=8)


class Steered:
    """A loop that is given one reading after the other."""

    def __init__(self, controller):
        self.step, self.asked = 0, []
        self.loop = ControlLoop(
            "transact", controller, self.read, self.ask, DecisionLog(), clock_ns=lambda: 10**8 * self.step
        )

    def read(self):
        self.step += 1
        return reading(self.step)

    def ask(self, threads, mapping, reason):
        self.asked.append((threads, mapping))
        change = Change("transact", {"threads": 2}, {"threads": threads or 2})
        change.settle("done", 10**8 * self.step)
        return change

    def steps(self, count):
        for _ in range(count):
            if self.loop.is_attached:
                self.loop.step()
        return self.loop._log


def test_example_an_observation():
    seen = observe(reading(1), reading(3), 0)
    assert (seen.interval_s, seen.threads, seen.max_threads, seen.members) == (0.2, 2, 3, (0, 1))
    assert seen.utilisation == pytest.approx(0.6) and seen.busiest == pytest.approx(0.8)
    assert (seen.arrived, seen.processed, seen.results, seen.pending) == pytest.approx((1000, 900, 900, 30))
    assert seen.mapping is None and seen.bucket_load is None and seen.watermark == MIN_TIME
    assert (seen.updates, seen.comparisons, seen.window_size) == (0, 0, 0) and math.isnan(seen.latency_p99_ms)
    # Nobody counts loads: the time that each was busy is one.
    assert seen.thread_loads == (160_000_000, 80_000_000) and seen.imbalance_max_mean == pytest.approx(4 / 3)
    assert seen.measured["rejected_per_s"] == pytest.approx(100) and seen.measured["versions"] == 3000
    assert seen.measured["wait_p99_ms"] == pytest.approx(1.0, rel=0.05) and seen.measured["scheme"] == "chains"


@pytest.mark.parametrize(("runnable", "share"), [
    (None, 1.0),  # nobody can tell
    ((160_000_000, 80_000_000, 0), 1.0),
    ((16_000_000, 8_000_000, 0), 0.1),  # asleep for the rest
    ((900_000_000, 0, 900_000_000), 2 / 3),  # it spun between tuples; the other slept at all of its own; one is not active
])  # fmt: skip
def test_example_what_busy_threads_need_of_the_cores(runnable, share):
    first = replace(reading(1), runnable_ns=runnable and (7, 7, 7))
    last = replace(reading(3), runnable_ns=runnable and tuple(ns + 7 for ns in runnable))
    assert observe(first, last, 0).core_share == pytest.approx(share)


def test_example_the_least_that_is_needed():
    values = {"added": 5, "processed": 5, "results": 1, "busy_ns": [1, 2]}
    bare = [OperatorMetrics("bare", 0, 2, [], 1.0, None, (*NEEDED, BUSY), values) for _ in range(2)]
    seen = observe(Reading(1, bare[0]), Reading(10**9 + 1, bare[1]), 0)
    assert (seen.threads, seen.utilisation, seen.processed, seen.imbalance_cv) == (0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("controller", [Threshold, ProactiveJoin, ProactiveOperations])
def test_example_threads_are_steered(controller):
    """They are busy for 0.6 of the time, and more than 0.5 is too much."""
    bounds = {"upper": 0.5, "lower": 0.3} | ({"target": 0.4} if controller is Threshold else {})
    steered = Steered(controller(**bounds, damping=AT_ONCE))
    log = steered.steps(3)
    assert steered.asked and steered.asked[0] == (3, None)
    assert not log.of_kind("error")


def test_example_a_load_balancer_says_that_there_are_no_buckets():
    steered = Steered(LoadBalancer())
    (error,) = steered.steps(5).of_kind("error")
    assert "LoadBalancer moves key buckets, and this operator has no key mapping; attach it" in error.reason
    assert "the run goes on" in error.reason and not steered.loop.is_attached and not steered.asked


def test_example_what_comes_into_force_after_the_reading_is_not_asked_for_again():
    """As in a thread that loses its core between the two; the next reading has it."""
    pending = []

    class Late(Steered):
        def ask(self, threads, mapping, reason):
            pending.append(Change("transact", {"threads": 2}, {"threads": threads}))
            return pending[-1]

    def more(seen):
        for change in pending:
            if not change.is_settled:
                change.settle("done", 10**8 * steered.step + 1)
        return Request(threads=3, reason="more")

    steered = Late(more)
    steered.steps(3)
    assert [change.outcome for change in pending] == ["done"]


def test_example_a_mapping_that_is_asked_for_cannot_be_had():
    steered = Steered(lambda seen: Request(mapping=Mapping.even(2), reason="why not"))
    (held,) = steered.steps(5).of_kind("held")  # once, however often it is asked for
    assert "a key mapping, and the operator has none" in held.reason
    assert steered.loop.is_attached and not steered.asked


def test_example_what_the_engine_measures_is_predicted_and_realised():
    """A controller says what it expects of a change; the log puts the mean of what came of it beside."""
    asked = Request(threads=3, reason="fewer rejections", predicted={"rejected_per_s": 80.0, "unheard_of": 1.0})
    steered = Steered(lambda seen: asked if not steered.asked else None)
    (decision,) = steered.steps(15).of_kind("request")
    assert decision.realised["rejected_per_s"] == pytest.approx(100) and "unheard_of" not in decision.realised
    assert steered.loop._log.prediction_error["rejected_per_s"] == pytest.approx(20)


def test_example_a_value_by_name():
    seen = observe(reading(1), reading(3), 0)
    assert (seen.value("load"), seen.value("versions")) == pytest.approx((seen.load, 3000))
    assert math.isnan(seen.value("scheme")) and math.isnan(seen.value("unheard_of"))
