"""The ring between two real threads.

Property    the reader gets what the writer wrote, in order, once.
Outcomes    ACCEPTABLE: 0, 1, 2, ... FORBIDDEN: anything else.
Cannot see  what did not happen this time; x86-64 also forbids more than the
            ring's orderings ask for.
"""

import threading

import numpy as np
import pytest

from headrace.kernel import kernel
from headrace.memory.atomics import nanosleep
from headrace.memory.ring import Ring, read, write

pytestmark = pytest.mark.stress


@kernel
def produce(state, slots, count, batch):
    values = np.empty(batch, np.int64)
    done = 0
    while done < count:
        most = min(batch, count - done)
        for i in range(most):
            values[i] = done + i
        taken = write(state, slots, values, 0, most)
        done += taken
        if taken == 0:
            nanosleep(1)


@kernel
def consume(state, slots, count, batch):
    """Returns the first value that was not expected, -1 if there is none."""
    values = np.empty(batch, np.int64)
    done = 0
    while done < count:
        taken = read(state, slots, values, 0, batch)
        for i in range(taken):
            if values[i] != done + i:
                return done + i
        done += taken
        if taken == 0:
            nanosleep(1)
    return -1


@pytest.mark.parametrize(
    "capacity, batch, count", [(1, 1, 3_000), (2, 3, 10_000), (64, 7, 300_000), (4096, 512, 8_000_000)]
)
def test_litmus_values_arrive_in_order(capacity, batch, count):
    ring = Ring(capacity)
    wrong = []
    reader = threading.Thread(
        target=lambda: wrong.append(consume(ring.state, ring.slots, count, batch)), daemon=True
    )
    writer = threading.Thread(target=produce, args=(ring.state, ring.slots, count, batch), daemon=True)
    reader.start()
    writer.start()
    reader.join(60)
    writer.join(60)
    assert wrong == [-1]
    assert len(ring) == 0
