"""The scheme chosen by trying.

Property    what is fastest is found, kept, and left when it is no longer; a trial that cannot be had ends; one thread
            has nothing to choose; the rows are those of any scheme; changes can be repeated where they were made
Oracle      speeds that a simulated operator has by construction; the serial loop's rows, for a real run
Cannot see  whether the speeds of a real machine are told apart well: `headrace bench` does
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.control.control_loop import ControlLoop
from headrace.control.decisions import DecisionLog
from headrace.control.mapping import Mapping
from headrace.control.observation import Observation
from headrace.controllers import AdaptiveScheme, Request
from headrace.errors import NotSupportedError, ParameterError
from headrace.references import BUCKETS
from headrace.transactions import adaptive
from planted_mistakes import planted
from support import nasty_shapes
from support.workloads import HANG_S, eventually

LOOK_S = 0.2
SPEEDS = {"chains": 1e6, "lock": 8e5, "mvlk": 8.5e5, "partition": 9e5, "speculative": 6e5, "serial": 7e5}


class Operator:
    """An operator that executes as many events a second as its scheme and punctuation make of it; a change takes a look."""

    def __init__(self, controller, speeds=SPEEDS, punctuation=None, idle=0.0, refused=(), sharing=None):
        self.controller, self.speeds, self.refused, self.idle = controller, dict(speeds), refused, idle
        self.best_length = punctuation or {}
        self.now, self.threads, self.requests = 0.0, 2, []
        self.configuration = {"scheme": "chains", "punctuation": 500}
        if sharing is not None:
            self.configuration["sharing"] = "nothing"
        self.by_sharing = sharing or {}

    def speed(self):
        length = self.configuration["punctuation"]
        off = abs(math.log(length / self.best_length.get(self.configuration["scheme"], length), 4))
        shared = self.by_sharing.get(self.configuration.get("sharing"), 1) if self.configuration["scheme"] == "chains" else 1
        return self.speeds[self.configuration["scheme"]] * shared / (1 + 0.3 * off)

    def look(self, times=1):
        for _ in range(times):
            self.now += LOOK_S
            request = self.controller.decide(
                Observation(
                    self.now, LOOK_S, self.threads, 8, 0.5, idle=self.idle, processed=self.speed() * (1 - self.idle),
                    configuration=dict(self.configuration),
                )
            )  # fmt: skip
            if request is not None and request.controls["scheme"] not in self.refused:
                if request.controls != self.configuration:
                    self.requests.append(request)
                self.configuration.update(request.controls)
            self.said = request or getattr(self, "said", None)
        return self


@pytest.mark.parametrize("best", SPEEDS)
@pytest.mark.parametrize("idle", [0.0, 0.9])
def test_example_the_fastest_is_found_and_kept(best, idle):
    operator = Operator(AdaptiveScheme(again_s=1_000), SPEEDS | {best: 2e6}, idle=idle).look(300)
    assert operator.configuration == {"scheme": best, "punctuation": 500}
    tried = len(operator.requests)
    assert {request.controls["scheme"] for request in operator.requests} >= set(SPEEDS) - {"chains"}
    assert operator.look(40).configuration["scheme"] == best
    assert len(operator.requests) < 2 * tried, "tried again although nothing has changed"


def test_example_the_reason_names_what_was_measured():
    operator = Operator(AdaptiveScheme(punctuations=False), SPEEDS | {"lock": 2e6}).look(40)
    reason = operator.said.reason
    assert "chains 500 1.00 M" in reason and "lock 500 2.00 M" in reason and "serial 500 700 k" in reason
    # Each was tried for 0.4 s, the second best twice: 1, 1.15, 1.1, 1.4, 1.3 and 1 M events/s fewer than there might have been.
    assert reason.endswith("trying them cost 2.78 M events")
    assert operator.said.figures == {"regret": pytest.approx(2.78e6)}
    assert operator.said.predicted == {"speed": 2e6} and operator.said.controls["scheme"] == "lock"


@pytest.mark.parametrize(("length", "wanted"), [(125, 125), (8_000, 8_000), (500, 500), (40, 125)])
def test_example_batches_of_the_best_length(length, wanted):
    operator = Operator(AdaptiveScheme(again_s=1_000), SPEEDS | {"chains": 3e6}, {"chains": length}).look(200)
    assert operator.configuration == {"scheme": "chains", "punctuation": wanted}


@pytest.mark.parametrize(
    ("threads", "speeds", "wanted"),
    [(2, {"everything": 2.0}, "everything"), (2, {"everything": 0.5}, "nothing"), (2, {"socket": 5.0}, "nothing"),
     (4, {"everything": 1.5, "socket": 5.0}, "socket"), (4, {"everything": 0.5, "socket": 0.4}, "nothing")],
)  # fmt: skip
def test_example_the_sharing_that_does_most(threads, speeds, wanted):
    check_sharing(AdaptiveScheme(again_s=1_000), threads, speeds, wanted)


def check_sharing(controller, threads, speeds, wanted):
    operator = Operator(controller, SPEEDS | {"chains": 3e6}, sharing=speeds)
    operator.threads = threads
    assert operator.look(200).configuration == {"scheme": "chains", "punctuation": 500, "sharing": wanted}, "another sharing"
    tried = {request.controls.get("sharing") for request in operator.requests} - {None}
    assert tried >= {"everything"} and ("socket" in tried) == (threads == 4)


def test_example_no_sharing_is_tried_of_what_does_not_share():
    operator = Operator(AdaptiveScheme(again_s=1_000), SPEEDS | {"lock": 9e6}, sharing={"everything": 99.0}).look(200)
    assert operator.configuration == {"scheme": "lock", "punctuation": 500, "sharing": "nothing"}


def test_planted_mistake_of_sharing_is_found():
    """What was tried last stays, though it is worse."""
    mistake = 'best.controls["sharing"] = before["sharing"]'
    with planted(adaptive, mistake, "pass"), pytest.raises(AssertionError, match="another sharing"):
        check_sharing(adaptive.AdaptiveScheme(again_s=1_000, changed=0.9), 2, {"everything": 0.5}, "nothing")


class Fresh(Operator):
    """For a second it is three times as fast: what came before it was started lies ready."""

    def speed(self):
        return super().speed() * (3 if self.now < 1 else 1)


def check_fresh(controller):
    operator = Fresh(controller, SPEEDS | {"serial": 2e6}).look(100)
    assert operator.configuration == {"scheme": "serial", "punctuation": 500}, "another scheme than serial"


def test_example_how_a_run_begins_does_not_decide():
    check_fresh(AdaptiveScheme(again_s=1_000))


def test_planted_mistake_of_the_first_measure_is_found():
    mistake = "is_complete = len(newer) == len(rivals) + 2"
    with planted(adaptive, mistake, "is_complete = False"), pytest.raises(AssertionError, match="another scheme than serial"):
        check_fresh(adaptive.AdaptiveScheme(again_s=1_000, changed=0.9))


class Warming(Operator):
    """After a change it is slow at first, and a little less so at each look."""

    looks, looks_until_warm = 0, 6

    def look(self, times=1):
        for _ in range(times):
            before = dict(self.configuration)
            super().look()
            self.looks = self.looks + 1 if self.configuration == before else 0
        return self

    def speed(self):
        return super().speed() * min(1.0, 0.3 + 0.7 * self.looks / self.looks_until_warm)


def check_warming(controller):
    operator = Warming(controller, SPEEDS | {"lock": 1.6e6}).look(200)
    assert operator.configuration == {"scheme": "lock", "punctuation": 500}, "another configuration"
    assert "lock 500 1.60 M" in operator.said.reason


def test_example_a_trial_goes_on_until_it_is_steady():
    check_warming(AdaptiveScheme(again_s=1_000))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("abs(now - before) <= _STEADY * max(now, before)", "True"),
        ("newest = pieces[-2:]", "newest = pieces"),
    ],
)
def test_planted_mistakes_of_what_is_steady_are_found(right, wrong):
    with planted(adaptive, right, wrong), pytest.raises(AssertionError, match="another configuration"):
        check_warming(adaptive.AdaptiveScheme(again_s=1_000, changed=0.9))


class Restless(Operator):
    """Never twice the same."""

    looks = 0

    def speed(self):
        self.looks += 1
        return super().speed() * (1.3 if self.looks % 2 else 1.0)


def check_restless(controller):
    operator = Restless(controller, SPEEDS | {"serial": 3e6})
    looks = 0
    while "trying them cost" not in str(getattr(getattr(operator, "said", None), "reason", "")):
        operator.look()
        looks += 1
        assert looks < 100, "a trial does not end"
    assert operator.configuration["scheme"] == "serial"
    return looks


def test_example_what_does_not_get_steady_is_tried_no_longer():
    """Eight schemes with the two that are measured twice, eight measures each; a look to ask and a look to change."""
    assert 8 * 8 < check_restless(AdaptiveScheme(punctuations=False, again_s=1_000)) <= 8 * 10


def test_planted_mistake_of_the_bound_is_found():
    with (
        planted(adaptive, "or len(self.pieces) >= _MOST_PIECES", ""),
        pytest.raises(AssertionError, match="does not end"),
    ):
        check_restless(adaptive.AdaptiveScheme(punctuations=False, again_s=1_000))


class Late(Operator):
    """While it is first tried, somebody else needs the machine."""

    def __init__(self, controller, slow):
        super().__init__(controller, SPEEDS | {"lock": 1.3e6, "mvlk": 1.4e6, "partition": 1.5e6})
        self.slow = slow

    def speed(self):
        first = not any(request.controls["scheme"] == "serial" for request in self.requests)
        return super().speed() * (0.85 if first and self.configuration["scheme"] == self.slow else 1)


def check_late(slow):
    operator = Late(adaptive.AdaptiveScheme(punctuations=False, again_s=1_000), slow).look(100)
    assert operator.configuration["scheme"] == "partition", "another scheme than partition"


def test_example_a_third_one_that_came_near_is_measured_once_more():
    check_late("partition")


def test_planted_mistake_of_the_third_one_is_found():
    mistake = "reverse=True)[:2]", "reverse=True)[:1]"
    with planted(adaptive, *mistake), pytest.raises(AssertionError, match="another scheme than partition"):
        check_late("partition")


def test_example_it_looks_again_when_the_speed_has_changed():
    operator = Operator(AdaptiveScheme(again_s=10_000)).look(60)
    assert operator.configuration["scheme"] == "chains"
    operator.speeds["chains"] = 1e5
    assert operator.look(60).configuration["scheme"] == "partition"


def test_example_it_looks_again_after_a_time():
    operator = Operator(AdaptiveScheme(again_s=20)).look(60)
    operator.speeds["serial"] = 5e6
    assert operator.look(20).configuration["scheme"] == "chains", "nothing tells it yet"
    assert operator.look(120).configuration["scheme"] == "serial"


def test_example_a_little_faster_is_not_enough():
    operator = Operator(AdaptiveScheme(), SPEEDS | {"lock": 1.03e6}).look(100)
    assert operator.configuration["scheme"] == "chains"


def test_example_what_cannot_be_had_is_passed_over():
    operator = Operator(AdaptiveScheme(), SPEEDS | {"lock": 9e6, "serial": 2e6}, refused={"lock"}).look(120)
    assert operator.configuration["scheme"] == "serial"


def test_example_one_thread_has_nothing_to_choose():
    operator = Operator(AdaptiveScheme())
    operator.threads = 1
    assert not operator.look(100).requests
    operator.threads = 2
    assert operator.look(100).requests


def test_example_other_threads_are_tried_anew():
    operator = Operator(AdaptiveScheme(again_s=10_000)).look(7)
    operator.threads = 4
    operator.speeds |= {"lock": 3e6}
    assert operator.look(100).configuration["scheme"] == "lock"
    operator.threads = 3
    operator.speeds |= {"serial": 9e6}
    assert operator.look(100).configuration["scheme"] == "serial"


def test_example_no_input_is_no_measure():
    operator = Operator(AdaptiveScheme(), dict.fromkeys(SPEEDS, 0.0)).look(100)
    assert not operator.requests
    operator.speeds |= SPEEDS | {"serial": 3e6}
    assert operator.look(100).configuration["scheme"] == "serial"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"schemes": ()}, "schemes="), ({"schemes": ("chains", "none")}, "chains, lock, mvlk, partition, speculative, serial"),
        ({"schemes": "lock"}, "schemes='lock'"), ({"trial_s": 0}, "trial_s=0"), ({"again_s": math.inf}, "again_s=inf"),
        ({"gain": 1.5}, "gain=1.5"), ({"changed": 0}, "changed=0"),
    ],
)  # fmt: skip
def test_bad_input(wrong, said):
    with pytest.raises(ParameterError, match=said.replace("(", r"\(")):
        AdaptiveScheme(**wrong)


def test_bad_input_an_operator_without_schemes():
    with pytest.raises(NotSupportedError, match="this operator has none; attach it"):
        AdaptiveScheme().decide(Observation(1.0, 0.2, 2, 8, 0.5, configuration={"threads": 2}))


def check_less_input():
    """The fastest, while it is tried, happens to have little input."""
    operator = Operator(adaptive.AdaptiveScheme(punctuations=False), SPEEDS | {"partition": 2e6})
    for _ in range(200):
        operator.idle = 0.95 if operator.configuration["scheme"] == "partition" else 0.5
        operator.look()
    assert operator.configuration["scheme"] == "partition", "another scheme than partition"


def test_example_less_input_is_not_less_speed():
    check_less_input()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("key=lambda trial: trial.speed", "key=lambda trial: -trial.speed"),
        ("(1 - observation.idle) * observation.interval_s", "observation.interval_s"),
        ("yield from self._measured(_Trial(controls), trials)", "trials.append(_Trial(controls))"),
    ],
)
def test_planted_mistakes_are_found(right, wrong):
    with planted(adaptive, right, wrong), pytest.raises(AssertionError, match="another scheme than partition"):
        check_less_input()


# -- a real run ------------------------------------------------------------------------------------


def ledger(function, a, c, x):
    """A function that is compiled for test_nasty_shapes.py, too, on events that it reads."""
    given = {"ts": range(1, len(a) + 1), "a": a, "c": c, "x": x, "y": np.zeros(len(a), np.int64)}
    lists = pa.array([[]], pa.list_(pa.int64())).take(pa.array(np.zeros(len(a), np.int64)))
    rows = pa.table({name: pa.array(values, pa.int64()) for name, values in given.items()} | {"ks": lists})
    return hr.stream(rows, event_time="ts").transact(function, emits=nasty_shapes.EMITS)


@pytest.mark.slow
def test_agree_a_run_that_tries_schemes():
    """Until each has been in force; the rows are those of one thread."""
    n = np.arange(800_000)
    quick = AdaptiveScheme(trial_s=0.02, again_s=1_000, punctuations=False)
    query = ledger(nasty_shapes.move, n * 7 % 100, n * 13 % 100, n % 300)
    with query.start(threads=2, max_threads=2, scheme="adaptive", rate=4_000, controller=quick, control_every=0.01) as run:
        assert run["move"].control_loop.name == "AdaptiveScheme, then AdaptiveScheme"
        schemes = lambda: {change.after["scheme"] for change in run.changes if change.is_settled}  # noqa: E731
        eventually(lambda: schemes() >= {"lock", "mvlk", "partition", "speculative", "serial"}, HANG_S)
        eventually(lambda: any(decision.figures for decision in run.decisions), HANG_S)
        assert run.decisions.to_pandas().figure_regret.max() >= 0
        run.rate = None
        assert run.wait(300)
        got = run.to_arrow()
    assert got.equals(query.to_arrow(threads=1, scheme="serial"))
    check_repeated(query, run, got)


def check_repeated(query, run, got):
    """Another run has the changes of a run that is over before the same events, and its rows."""
    done = [change for change in run.changes if change.position is not None]
    assert done and all(change.outcome == "done" for change in done)
    planned = [change.as_planned for change in done]
    with query.start(threads=done[0].from_threads, max_threads=3, scheme=done[0].before["scheme"], reconfigure=planned) as again:
        assert again.wait(HANG_S)
    assert [(c.position, c.planned_at) for c in again.changes] == [(c.position, c.position) for c in done]
    assert [dict(c.after) for c in again.changes] == [dict(c.after) for c in done]
    assert again.to_arrow().equals(got)


def test_example_changes_are_repeated_where_they_were():
    n = np.arange(6_000)
    query = ledger(nasty_shapes.move, n * 7 % 100, n * 13 % 100, n % 300)
    with query.start(threads=1, max_threads=3, rate=20_000, reconfigure=[(900, {"punctuation": 70})]) as run:
        for wish in ({"threads": 3}, {"mapping": Mapping([2] * BUCKETS)}, {"scheme": "lock", "sharing": "everything"}):
            assert run.reconfigure(**wish).wait(HANG_S).outcome == "done"
        unchanged = run.reconfigure(scheme="lock")
        run.rate = None
        assert run.wait(HANG_S)
        got = run.to_arrow()
    positions = [change.position for change in run.changes if change.outcome == "done"]
    assert len(positions) == 4 and positions == sorted(positions) and 900 in positions
    with pytest.raises(NotSupportedError, match=r"no position is known of the <Change of move: no change; no change>"):
        assert unchanged.as_planned
    check_repeated(query, run, got)


@pytest.mark.slow
def test_example_a_run_of_its_own_accord():
    """Without a controller of the user's; and a word of what there is if it is misspelt."""
    query = ledger(nasty_shapes.move, [0, 1], [1, 2], [5, 2_000])
    with query.start(threads=2, scheme="adaptive") as run:
        assert run.wait(180)
    assert run.decisions.of_kind("attached")[0].controller == "AdaptiveScheme"
    assert run.to_arrow()["u"].to_pylist() == [1_005, None]
    with pytest.raises(ParameterError, match="did you mean 'adaptive'"):
        query.start(threads=2, scheme="adaptiv")


@pytest.mark.slow
def test_example_schemes_that_cannot_run_the_functions_are_not_tried():
    """A key that is read needs versions, or one thread; of rows with a set there are no versions."""
    for function, tried in (
        (nasty_shapes.follow, {"speculative", "serial"}),
        (nasty_shapes.gather, {"chains", "lock", "mvlk", "partition", "serial"}),
    ):
        query = ledger(function, [0, 1], [1, 2], [3, 4])
        with query.start(threads=2, scheme="adaptive") as run:
            assert set(run[function.__name__].control_loop.controller[-1].schemes) == tried
            assert run.wait(180)


def test_example_the_verdict_is_written_down_though_nothing_changes():
    """The loop drops requests for what is in force: not silently, where controls are asked for."""
    log = DecisionLog()
    loop = ControlLoop("ledger", lambda observation: None, lambda: None, lambda *_, **__: None, log)
    seen = Observation(1.0, 0.2, 2, 8, 0.5, configuration={"scheme": "lock"})
    loop._make(Request(controls={"scheme": "lock"}, reason="it is the fastest", figures={"regret": 7.0}), "AdaptiveScheme", seen)
    assert [decision.reason for decision in log] == ["nothing to change: it is the fastest"]
    assert log.to_pandas().figure_regret.to_list() == [7.0]
