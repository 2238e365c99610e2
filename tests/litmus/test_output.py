"""The collector's sleep on real threads: a promise that it waits for wakes it.

Property    when a promise is published while the collector announces what it
            waits for, the collector sees the promise, or the publisher sees
            the announcement.
Outcomes    ACCEPTABLE: the collector finds the promise, or is woken. FORBIDDEN:
            both saw the past (store buffers), and only the time-out ends the
            sleep: OUT_LOST_WAKEUPS counts these.
Cannot see  what did not happen this time. Without the fence W5 some of these
            rounds lose their wake-up, on x86 too.
"""

import threading

import numpy as np
import pytest

from headrace.egress import rings
from headrace.egress.rings import OUT_LOST_WAKEUPS, await_release, publish
from headrace.kernel import kernel
from headrace.memory.atomics import load_acquire, pause, store_release
from headrace.memory.cells import padded_cells
from headrace.progress import END_OF_TIME
from headrace.workers import worker_kernel

pytestmark = pytest.mark.stress


@kernel
def collect(o, turn, rounds, timeout_ns):
    """Wait for promise n while it is being given, n = 1, 2, ..."""
    for n in range(1, rounds + 1):
        store_release(o.words, rings.WANTED, END_OF_TIME)  # nothing is held back
        store_release(turn, 0, n)
        for _ in range(n % 16):
            pause()
        bound = 0
        while bound < n:
            bound, _ = await_release(o, n, timeout_ns)


@kernel
def promise(o, turn, rounds, cold):
    """Give promise n after stores to cache lines that are far away: they keep it in the store buffer."""
    at = 0
    for n in range(1, rounds + 1):
        while load_acquire(turn, 0) < n or load_acquire(o.words, rings.WANTED) < n:
            pause()
        for _ in range(n % 13):
            pause()
        for _ in range(6):
            at = (at + 4099 * 8) & (cold.size - 1)
            cold[at] = n
        publish(o, 0, 0, n, n)


@pytest.mark.parametrize("rounds", [100_000, pytest.param(20_000_000, marks=pytest.mark.campaign)])
def test_litmus_a_promise_wakes_the_collector(rounds):
    def allocated():
        o = rings.allocate(1, 2, np.zeros((1, worker_kernel.METER_WORDS), np.int64))
        rings.start_mark(o, 0, 0, 0)
        return o

    o, turn = allocated(), padded_cells(1)
    collect(o, turn, 0, 0)
    cold = np.ones(1 << 24, np.int64)
    promise(o, turn, 0, cold)
    timeout_ns = 20_000_000
    threads = [
        threading.Thread(target=collect, args=(o, turn, rounds, timeout_ns), daemon=True),
        threading.Thread(target=promise, args=(o, turn, rounds, cold), daemon=True),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert not any(thread.is_alive() for thread in threads)
    assert o.words[OUT_LOST_WAKEUPS] == 0
