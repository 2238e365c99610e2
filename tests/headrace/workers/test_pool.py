"""What the system says of a pool's threads.

Property    a thread that waits for something needs no core meanwhile; one that computes does, for as long at least as it
            computed. A thread that has not begun, or has ended, is not known. A wait for the end of threads gives them turns,
            not time: the process may stand still.
Cannot see  systems that do not say it, for which the answer is None.
"""

import itertools
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from headrace.workers import pool as pool_module
from headrace.workers.pool import WorkerPool
from support.workloads import HANG_S, eventually

BURNT_NS = 200_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="nobody says what a thread needs of a core")
def test_property_a_sleeping_thread_needs_no_core_and_a_computing_one_does():
    go_on, over, has_burnt = threading.Event(), threading.Event(), threading.Event()

    def burn():
        go_on.wait(HANG_S)
        begin = time.thread_time_ns()
        while time.thread_time_ns() - begin < BURNT_NS:
            pass
        has_burnt.set()
        over.wait(HANG_S)

    pool = WorkerPool(lambda error: None)
    for name, body in (("sleeps", lambda: over.wait(HANG_S)), ("burns", burn)):
        pool.start(name, body)
    names = ("sleeps", "burns")

    def asleep_both():
        before = pool.runnable_ns(names)
        time.sleep(0.05)
        return before if before == pool.runnable_ns(names) else None

    first = eventually(asleep_both, HANG_S)
    go_on.set()
    assert has_burnt.wait(HANG_S)
    last = pool.runnable_ns(names)
    over.set()
    asleep, at_work = (after - before for before, after in zip(first, last, strict=True))
    assert at_work >= BURNT_NS > asleep
    assert pool.wait(HANG_S) == []
    eventually(lambda: pool.runnable_ns(names) is None, HANG_S)
    assert pool.runnable_ns(("unheard of",)) is None


def test_example_a_process_that_stands_still_gives_nobody_up(monkeypatch):
    """Whenever it is looked at the clock, an hour is over."""
    hours, over = itertools.count(0, 3_600), threading.Event()
    monkeypatch.setattr(pool_module, "time", SimpleNamespace(**{**vars(time), "monotonic": lambda: next(hours)}))
    pool = WorkerPool(lambda error: None)
    pool.start("late", lambda: over.wait(HANG_S))
    threading.Timer(0.3, over.set).start()
    assert pool.wait(HANG_S) == []
    over.clear()
    for name in ("late", "held"):
        pool.start(name, lambda: over.wait(HANG_S))
    assert sorted(pool.wait(0.3)) == sorted(pool.wait(HANG_S, lambda name: True)) == ["held", "late"]
    over.set()
    assert pool.wait(HANG_S) == []
