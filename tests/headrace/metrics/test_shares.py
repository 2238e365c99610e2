"""How workers spend their time, as a run says it.

Property    workers' times add up to the time that passed
Oracle      the clock; a source or sink that the test holds still
Planted     waiting that is booked as work
Cannot see  how the time within a batch was spent
"""

import threading
import time

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.workers import worker_kernel
from support.books import assert_found, check_end, counting
from support.workloads import Steered, eventually


def spent(then, now):
    """Busy, idle and blocked ns of each worker between two snapshots of an operator."""
    return [
        [b - a for a, b in zip(getattr(then, f"{kind}_ns"), getattr(now, f"{kind}_ns"), strict=True)]
        for kind in ("busy", "idle", "blocked")
    ]


def two_looks(run, name, seconds=0.3):
    """Two snapshots, and at least and at most how many ns lie between them."""
    marks = [time.monotonic_ns()]
    then = run.metrics()
    marks.append(time.monotonic_ns())
    time.sleep(seconds)
    marks.append(time.monotonic_ns())
    now = run.metrics()
    marks.append(time.monotonic_ns())
    return then.operators[name], now.operators[name], marks[2] - marks[1], marks[3] - marks[0]


def an_idle_worker():
    """Two active workers and a parked one; what they do at the moment counts, however long it has lasted."""
    source = Steered(pa.table({"ts": range(1000), "k": [i % 5 for i in range(1000)]}), [500])
    with counting(source).start(threads=2, max_threads=3) as run:
        try:
            source.let()
            eventually(lambda: run.metrics().operators["counts"].processed == 500)
            meter = run._operators["counts"].section.arrays.meter
            eventually(lambda: (meter[:2, worker_kernel.STATE] == worker_kernel.IDLE_NS).all())
            then, now, least, most = two_looks(run, "counts")
            busy, idle, blocked = spent(then, now)
            assert all(least <= ns <= most for ns in idle[:2]) and idle[2] == 0
            assert busy == blocked == [0, 0, 0]
        finally:
            source.let_all()
        assert run.wait(180)


def workers_held_up():
    """The sink waits. Worker 0 owns everything and waits for room in its ring; so worker 1 waits at the barrier."""
    opened = threading.Event()
    table = pa.table({"ts": range(400_000)})
    with hr.stream(table, event_time="ts").forward().start(
        threads=2, max_threads=3, mapping=hr.Mapping([0] * 1024), sink=lambda batch: opened.wait(180)
    ) as run:
        try:
            meter = run._operators["forward"].section.arrays.meter

            def is_held_up(worker, state):
                """For a while: before the buffers behind it are full it waits for moments only."""
                since = time.monotonic_ns() - meter[worker, worker_kernel.SINCE]
                return meter[worker, worker_kernel.STATE] == state and since > 300_000_000

            eventually(lambda: is_held_up(0, worker_kernel.ROOM_NS), 180)
            run.reconfigure(threads=3)
            eventually(lambda: is_held_up(1, worker_kernel.BARRIER_NS))
            timeline = run["forward"].spans(0.2)
            assert timeline.groupby("thread")["state"].last().to_dict() == {0: "room", 1: "barrier", 2: "parked"}
            then, now, least, most = two_looks(run, "forward")
            busy, idle, blocked = spent(then, now)
            assert all(least <= ns <= most for ns in blocked[:2])
            assert busy == idle == [0, 0, 0]
        finally:
            opened.set()
        assert run.wait(180)
        check_end(run.metrics())


def test_example_a_worker_without_input_is_idle():
    an_idle_worker()


def test_example_workers_behind_a_sink_that_waits_are_blocked():
    workers_held_up()


def test_property_every_nanosecond_of_an_active_worker_is_booked_once():
    """Paced, with reconfigurations that leave the members as they are."""
    n = 400_000
    table = pa.table({"ts": np.arange(n) // 10, "k": np.arange(n) % 100})
    with counting(table).start(threads=2, max_threads=2, rate=n / 200) as run:
        eventually(lambda: run.metrics().operators["counts"].processed > 0)
        for i in range(4):
            then, now, least, most = two_looks(run, "counts", 0.1)
            assert all(least <= ns <= most for ns in np.sum(spent(then, now), axis=0))
            run.reconfigure(mapping=hr.Mapping([(b + i) % 2 for b in range(1024)]))
        run.rate = None
        assert run.wait(180)
        at_end = run.metrics()
        time.sleep(0.05)
        later = run.metrics()
        assert (later.at_ns, later.operators["counts"].idle_ns) == (at_end.at_ns, at_end.operators["counts"].idle_ns)


# -- planted mistakes --------------------------------------------------------------------------------


MISTAKES = {
    "waiting for input is booked as work": (
        an_idle_worker,
        [
            (
                "            turn(c.meter, me, IDLE_NS)\n            await_records",
                "            turn(c.meter, me, BUSY_NS)\n            await_records",
            )
        ],
        "still not so",
    ),
    "waiting at the barrier is booked as work": (
        workers_held_up,
        [("        turn(c.meter, me, BARRIER_NS)\n        if not await_epoch", "        if not await_epoch")],
        "still not so",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistake_is_found(monkeypatch, hangs_are_short, mistake):
    assert_found(monkeypatch, *MISTAKES[mistake])
