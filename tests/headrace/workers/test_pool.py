"""What the system says of a pool's threads.

Property    a thread that waits for something needs no core meanwhile; one that computes does, for as long at least as it
            computed. Who has not begun, or has ended, is not known.
Cannot see  systems that do not say it, for which the answer is None.
"""

import sys
import threading
import time

import pytest

from headrace.workers.pool import WorkerPool
from support.workloads import HANG_S, eventually

BURNT_NS = 200_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="nobody says what a thread needs of a core")
def test_property_who_sleeps_needs_no_core_and_who_computes_does():
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
