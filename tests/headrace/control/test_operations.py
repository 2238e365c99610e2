"""Threads by what operations cost: a transactional operator as arithmetic, and a real run of transactions.

Property    a rate that rises is answered by what operations cost, before threads are busy at it; threads that wait for each
            other are counted as taken, and given back where fewer do as much; nothing flaps; more operations an event
            call for more threads
Oracle      threads that the arithmetic needs
Cannot see  how fast a real machine answers
"""

import pytest

import headrace as hr
from headrace.control import observation
from headrace.control.observation import Observation
from headrace.controllers import Damping, ProactiveOperations, Threshold
from headrace.cores import usable_cores
from headrace.errors import ParameterError
from support.heavy import EVENTS, heavy
from support.workloads import eventually

AT_ONCE = {"up_after_s": 0, "down_after_s": 0, "cooldown_s": 0}


def seen(at_s, threads, rate, event_us, waits=0.0, arrived=None, pending=0, operations=0.0, cores=16, **more):
    """An interval of 0.2 s in which `rate` events a second were executed.

    `event_us` is the work of an event, `waits` the share of the time that each thread waited for others.
    """
    busy = min(1.0, rate * event_us / 1e6 / min(threads, cores))
    return Observation(
        at_s, 0.2, threads, 16, busy, busiest=busy, arrived=rate if arrived is None else arrived, processed=rate,
        pending=pending, measured={"operations_per_s": rate * operations}, cores=cores,
        spent={"busy_ns": busy, "synchronization_ns": waits}, **more,
    )  # fmt: skip


def contended(threads, offered, event_us, contention):
    """(executed, share of waiting): each event costs more by `contention` for each thread beside the first, all of it waiting."""
    could = threads * 1e6 / (event_us * (1 + contention * (threads - 1)))
    rate = min(offered, could)
    return rate, rate * event_us * contention * (threads - 1) / 1e6 / threads


def play(controller, offered, seconds, threads=1, event_us=10.0, contention=0.0, at_s=0.0, **more):
    """Threads asked for, each with its time, while the operator answers at once."""
    asked, now = [], at_s
    while now < at_s + seconds:
        now += 0.2
        rate, waits = contended(threads, offered, event_us, contention)
        request = controller.decide(seen(now, threads, rate, event_us, waits, arrived=offered, **more))
        if request is not None:
            threads = request.threads
            asked.append((round(now, 1), threads))
    return asked, threads


def test_example_a_rate_that_rises_is_answered_by_what_an_event_costs():
    """10 us an event: at 60,000 a second 0.6 of a thread, at 400,000 four threads' work, as soon as they are offered."""
    controller = ProactiveOperations(damping=Damping(**AT_ONCE))
    for step in range(10):
        assert controller.decide(seen(step / 5, 1, 60_000, 10.0)) is None
    risen = seen(2.0, 1, 60_000, 10.0, offered=400_000.0)
    request = controller.decide(risen)
    assert request.threads == 6 and request.value == pytest.approx(4.0) and request.threshold == 0.80
    assert request.predicted["load"] == pytest.approx(4.0 / 6)
    assert Threshold(damping=Damping(**AT_ONCE)).decide(risen) is None, "a look at busy threads does not show it yet"


def test_example_threads_that_an_interval_without_events_calls_for():
    """Nothing was executed in it: what an event costs is still known."""
    controller = ProactiveOperations(damping=Damping(**AT_ONCE))
    controller.decide(seen(0.2, 1, 60_000, 10.0))
    assert controller.decide(seen(0.4, 1, 0, 10.0, offered=300_000.0)).threads == 4


def test_example_what_waits_is_worked_off():
    controller = ProactiveOperations(drain_s=2.0, damping=Damping(**AT_ONCE))
    request = controller.decide(seen(0.2, 1, 100_000, 10.0, pending=400_000))
    assert request.threads == 4 and request.predicted["load"] == pytest.approx(0.25)


def test_example_a_source_that_is_too_slow_needs_no_threads():
    controller = ProactiveOperations(lower=0.2, damping=Damping(**AT_ONCE))
    assert controller.decide(seen(0.2, 1, 30_000, 10.0, pending=90_000, arrived=200_000)) is None


def test_example_more_operations_an_event_call_for_more_threads():
    """The work of ten an event was learned; the first look at events of forty asks for four times as much of it."""
    controller = ProactiveOperations(damping=Damping(**AT_ONCE), memory_s=1e9)
    for step in range(50):
        assert controller.decide(seen(step / 5, 2, 150_000, 10.0, operations=10.0)) is None
    request = controller.decide(seen(10.0, 2, 150_000, 10.0, operations=40.0, offered=150_000.0))
    assert request.value == pytest.approx(3.0, rel=0.1) and request.threads == 8
    assert "operations each" in request.reason and "ns an operation" in request.reason


def test_example_threads_that_wait_for_each_other_are_taken():
    """Busy for four fifths of the time and waiting for the rest of it: two threads that have no time left."""
    controller = ProactiveOperations(damping=Damping(**AT_ONCE))
    request = controller.decide(seen(0.2, 2, 100_000, 16.0, waits=0.2, arrived=150_000))
    assert request.value == pytest.approx(1.5) and request.threads == 12
    assert "of waiting for each other" in request.reason


def gives_back():
    """Events of which many threads do hardly more than one: it tries two, and keeps one."""
    controller = ProactiveOperations()
    asked, threads = play(controller, 150_000, 20.0, contention=0.95)
    assert [n for _, n in asked][1:] == [1] and threads == 1, f"asked for {asked}"


def test_example_threads_that_do_no_more_are_given_back():
    gives_back()


def test_planted_waiting_that_is_not_looked_at(monkeypatch):
    monkeypatch.setattr(observation, "_WAITS", "unheard_of")
    with pytest.raises(AssertionError, match="asked for"):
        gives_back()


@pytest.mark.parametrize("contention", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("offered", [50_000, 180_000, 420_000])
@pytest.mark.parametrize("first", [1, 3, 12])
def test_it_settles_where_the_work_is_done(offered, contention, first):
    """Threads that have time for it, and that one thread fewer would not leave; no more changes after that."""
    controller = ProactiveOperations()
    _, threads = play(controller, offered, 30.0, first, contention=contention)
    asked, _ = play(controller, offered, 30.0, threads, contention=contention, at_s=30.0)
    assert not asked
    rate, waits = contended(threads, offered, 10.0, contention)
    assert rate == offered and rate * 10e-6 / threads + waits <= 0.80
    if threads > 1:
        fewer = threads - 1
        assert offered * 10e-6 * (1 + contention * (fewer - 1)) / fewer > 0.70


def test_example_short_batches_of_a_quiet_time_are_soon_forgotten():
    """At a trickle most of an event's time is its batch's: a rate that rises is met by what events cost in full batches."""
    controller = ProactiveOperations()
    for step in range(50):
        controller.decide(seen(step / 5, 1, 1_000, 200.0))
    asked, threads = play(controller, 140_000, 10.0, event_us=10.0, at_s=10.0)
    assert threads == 2 and len(asked) <= 4


@pytest.mark.parametrize(("waits", "arrived", "load", "threads"), [
    (0.0, 90_000, 0.6, None),  # they have time: what feeds them is too slow
    (0.25, 60_000, 0.85, None),
    (0.25, 90_000, 1.275, 13),  # they cannot take more, whatever part of the time they only wait; 14 would do hardly better
])  # fmt: skip
def test_example_threads_that_wait_for_each_other_are_not_idle(waits, arrived, load, threads):
    """Two threads, busy for 0.6 of the time, by the load alone."""
    interval = seen(0.2, 2, 60_000, 20.0, waits, arrived=arrived)
    assert interval.load == pytest.approx(load) and interval.occupied == pytest.approx(0.6 + waits)
    request = Threshold(damping=Damping(**AT_ONCE)).decide(interval)
    assert (request and request.threads) == threads


def test_example_more_threads_than_cores_are_not_asked_for():
    controller = ProactiveOperations(damping=Damping(**AT_ONCE))
    assert controller.decide(seen(0.2, 1, 100_000, 10.0, arrived=900_000, cores=2)).threads == 2
    assert controller.decide(seen(0.4, 8, 20_000, 10.0, cores=2)).threads == 1


def test_what_cannot_be_asked_for():
    with pytest.raises(ParameterError, match="lower"):
        ProactiveOperations(upper=0.6)
    with pytest.raises(ParameterError, match="memory_s=0"):
        ProactiveOperations(memory_s=0)


def asked_for(run, threads):
    requests = run.decisions.of_kind("request")
    return requests and requests[-1].to_threads == threads and requests[-1].outcome in ("done", "unneeded")


@pytest.mark.slow
@pytest.mark.skipif(usable_cores() < 2, reason="a second thread needs a second core")
def test_on_a_run_of_transactions_whose_rate_changes():
    """At more than it can do one thread is taken all the time: another one; at a trickle it goes again."""
    quick = Damping(up_after_s=0.1, down_after_s=0.2, cooldown_s=0.2)
    with heavy(EVENTS).start(threads=1, max_threads=2, rate=100_000, sink=hr.discard()) as run:
        control = run.control(ProactiveOperations(damping=quick), interval_s=0.05)
        eventually(lambda: asked_for(run, 2), 180)
        run.rate = 200
        eventually(lambda: asked_for(run, 1) and control.observations[-1].utilisation < 0.5, 180)
        up, *_, down = run.decisions.of_kind("request")
        assert (up.from_threads, up.to_threads) == (1, 2) and up.value > up.threshold == 0.80
        assert (down.from_threads, down.to_threads) == (2, 1) and (down.value < 0.70 or "waiting for each other" in down.reason)
        assert up.metric == "predicted load" and "coming" in up.reason and "can do, above 80%" in up.reason
        assert {d.kind for d in run.decisions} == {"attached", "request"}
        assert all("synchronization_ns" in each.spent for each in control.observations)
