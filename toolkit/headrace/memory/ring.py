"""A bounded ring between one writer and one reader.

State       HEAD values published, TAIL values consumed. int64, only grow.
Invariants  I1  0 <= HEAD - TAIL <= capacity
            I2  only the writer stores HEAD; only the reader stores TAIL
            I3  slot n % capacity holds value n while TAIL <= n < HEAD
Ordering    W0 load_acquire TAIL, W1 write slots, W2 store_release HEAD
            R1 load_acquire HEAD, R2 read slots, R3 store_release TAIL
                    W2 -> R1, so R2 sees W1
                    R3 -> W0, so a slot is rewritten only once it is read
Progress    Neither side waits; a full ring takes nothing, an empty one gives
            nothing.
Source      Lamport 1983. Differs: counters, not wrapped indices, so that a full
            ring and an empty one differ; several values at once.
Checked     tests/headrace/memory/test_ring.py, tests/litmus/test_ring.py
"""

from __future__ import annotations

import numpy as np

from headrace.errors import ParameterError
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, load_acquire, load_relaxed, store_release
from headrace.memory.cells import aligned, padded_cells

# Cells of `state`.
HEAD = 0 * CELL
TAIL = 1 * CELL


@kernel
def write(state, slots, values, start, count):
    """Publish ``values[start:start+count]``, or as many of them as there is room for.

    Parameters
    ----------
    state : int64[2 * CELL]
        HEAD and TAIL.
    slots : int64[capacity]
        Capacity is a power of two.

    Returns
    -------
    int
        How many were taken, 0 when the ring is full.
    """
    head = load_relaxed(state, HEAD)
    room = load_acquire(state, TAIL) + slots.size - head  # W0
    count = min(count, room)
    for i in range(count):
        slots[(head + i) & (slots.size - 1)] = values[start + i]  # W1
    if count > 0:
        store_release(state, HEAD, head + count)  # W2
    return count


@kernel
def read(state, slots, values, start, count):
    """Consume up to `count` values into ``values[start:]``.

    Returns
    -------
    int
        How many there were, 0 when the ring is empty.
    """
    tail = load_relaxed(state, TAIL)
    ready = load_acquire(state, HEAD) - tail  # R1
    count = min(count, ready)
    for i in range(count):
        values[start + i] = slots[(tail + i) & (slots.size - 1)]  # R2
    if count > 0:
        store_release(state, TAIL, tail + count)  # R3
    return count


class Ring:
    """A ring of int64 values: one thread writes, one reads.

    Parameters
    ----------
    capacity : int
        Values it holds, a power of two.

    Examples
    --------
    >>> import numpy as np
    >>> ring = Ring(4)
    >>> ring.write(np.array([3, 1, 4, 1, 5]))
    4
    >>> ring.read(2).tolist(), ring.read(9).tolist(), len(ring)
    ([3, 1], [4, 1], 0)
    """

    def __init__(self, capacity: int):
        if isinstance(capacity, bool) or not isinstance(capacity, (int, np.integer)):
            raise ParameterError(f"capacity = {capacity!r}: must be a whole number; give a power of two")
        if capacity < 1 or capacity & (capacity - 1):
            raise ParameterError(f"capacity = {capacity}: must be a power of two; give 1, 2, 4, 8, ...")
        self.state = padded_cells(2)
        self.slots = aligned(int(capacity), np.int64)
        # Writer and reader must not share a line, or each store stops the other.
        assert self.state.ctypes.data % 128 == 0 and (TAIL - HEAD) * 8 >= 128

    def __len__(self) -> int:
        return int(self.state[HEAD] - self.state[TAIL])

    def write(self, values: np.ndarray) -> int:
        """Publish as many of `values` (int64) as there is room for; returns how many."""
        values = np.ascontiguousarray(values, np.int64)
        return int(write(self.state, self.slots, values, 0, values.size))

    def read(self, count: int) -> np.ndarray:
        """Consume up to `count` values."""
        if count < 0:
            raise ParameterError(f"count = {count}: must not be negative; give 0 or more")
        values = np.empty(min(int(count), self.slots.size), np.int64)
        return values[: int(read(self.state, self.slots, values, 0, values.size))]
