"""The event count on real threads, more of them than cores.

Property    a signal after the condition wakes every sleeper.
Outcomes    ACCEPTABLE: each round trip ends within its timeout. FORBIDDEN: a
            sleeper that only the timeout wakes (a lost wake-up; also what a
            missing fence would do).
Cannot see  what did not happen this time.
"""

import threading
import time

import numpy as np
import pytest

from headrace.kernel import kernel
from headrace.memory.atomics import CELL, load_acquire, store_release
from headrace.memory.cells import aligned, padded_cells
from headrace.memory.event_count import cancel, prepare, signal, sleep

pytestmark = pytest.mark.stress
TIMEOUT_NS = 1_200_000_000_000
"""Longer than the whole test may take: a thread that is woken late still ends, one that only the timeout wakes does not."""
ALL_S = 400


@kernel
def wait_for(words, waiters, event, index, cell, value):
    while load_acquire(words, cell) < value:
        ticket = prepare(words, waiters, event, index)
        if load_acquire(words, cell) >= value:
            cancel(words, waiters)
        else:
            sleep(words, waiters, event, index, ticket, TIMEOUT_NS)


@kernel
def ping(words, event, rounds, peers):
    """Say n to all, then wait until each of them has said n."""
    for n in range(1, rounds + 1):
        store_release(words, 2 * CELL, n)
        signal(words, 0, event, 0)
        for peer in range(peers):
            wait_for(words, CELL, event, 32, (3 + peer) * CELL, n)


@kernel
def pong(words, event, rounds, peer):
    for n in range(1, rounds + 1):
        wait_for(words, 0, event, 0, 2 * CELL, n)
        store_release(words, (3 + peer) * CELL, n)
        signal(words, CELL, event, 32)


@pytest.mark.parametrize("peers, rounds", [(1, 5_000), (4, 1_000), (8, 300)])
def test_litmus_no_wake_up_is_lost(peers, rounds):
    words, event = padded_cells(3 + peers), aligned(64, np.int32)
    ping(words, event, 0, peers)
    pong(words, event, 0, 0)
    threads = [threading.Thread(target=ping, args=(words, event, rounds, peers), daemon=True)]
    threads += [threading.Thread(target=pong, args=(words, event, rounds, p), daemon=True) for p in range(peers)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0, began + ALL_S - time.monotonic()))
    assert not any(thread.is_alive() for thread in threads), f"stuck after {time.monotonic() - began:.0f} s"
    assert words[0] == words[CELL] == 0, "every thread that came has left"
