"""Shared-nothing input: one private queue of records per instance, written by the router.

To the instance loop these queues are a gate: `lane` gives an instance its own
row, and the names below stand in for those of `merged_log_kernel`; the router is
what a source is there, and cells and bounds are those of every gate. A record has
one word more than a gate's: SEEN, how many tuples of the merged input come
before it, since an instance sees only its share of them.

State       per instance END[r] records written, CURSOR[r] records read,
            READING[r] activation id, out_*[r, i % size] the records
Invariants  I1  only the router stores END and writes records; only instance r
                stores CURSOR[r]
            I2  CURSOR[r] <= END[r] <= CURSOR[r] + size
            I3  a control record stands in the queue of every member of the
                configuration it ends, at the same SEEN and watermark
            I4  an instance that left has read its queue up to the control
                record that ended its membership: its cursor is where it starts
                when it joins again
Ordering    W1 write record (and the row it refers to), W2 store_release END
            R1 load_acquire END, R2 read record     W2 -> R1, so R2 sees W1
            R3 store_release CURSOR, W0 load_acquire CURSOR
                    a slot is reused only once read
Progress    The router waits for the slowest queue (back-pressure), polling STOP.
Source      STRETCH, section 2.2: each instance has a dedicated queue.
Checked     tests/headrace/operators/test_shared_nothing.py
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headrace.gates.membership_kernel import (
    BOUND,
    BOUND_NS,
    DATA_EVENT,
    HEARTBEAT,
    READERS_WAITING,
    ROW_MASK,
    SOURCE_SHIFT,
    SPACE_EVENT,
    VERSION,
    WORD_COUNT,
    begin_change,
)
from headrace.gates.membership_kernel import SOURCES_WAITING as ROUTER_WAITING
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, fence, fetch_add, load_acquire, load_relaxed, store_release
from headrace.memory.bundle import by_reference
from headrace.memory.cells import aligned, padded_cells, reserved
from headrace.memory.event_count import signal

RESERVE = 64
"""Slots beyond the bound: heartbeats and control records go in whenever one tuple would."""


@by_reference
class QueueArrays(NamedTuple):
    """Shared by the router and the instances of one operator. Cells are ``CELL`` words apart."""

    words: np.ndarray
    event: np.ndarray
    membership: np.ndarray  # words of the input gate: their VERSION is the seqlock the collector reads under
    end: np.ndarray
    cursor: np.ndarray
    reading: np.ndarray
    cost: np.ndarray  # per instance: its recent ns per record, 0 = unknown
    out_ts: np.ndarray  # int64[instances, size]
    out_ref: np.ndarray
    out_at: np.ndarray
    out_seen: np.ndarray


def allocate(instances: int, bound: int, bound_ns: int, membership: np.ndarray) -> QueueArrays:
    """Allocate empty queues of at most `bound` tuples, no instance active."""
    size = 1 << (bound + RESERVE - 1).bit_length()
    words = padded_cells(WORD_COUNT)
    words[BOUND] = bound
    words[BOUND_NS] = bound_ns

    def column():
        return reserved(instances * size, np.int64).reshape(instances, size)

    return QueueArrays(
        words=words,
        event=aligned(64, np.int32),
        membership=membership,
        end=padded_cells(instances),
        cursor=padded_cells(instances),
        reading=padded_cells(instances),
        cost=padded_cells(instances),
        out_ts=column(),
        out_ref=column(),
        out_at=column(),
        out_seen=column(),
    )


@kernel
def lane(g, reader):
    """Row of `out_*` that `reader` reads: its own."""
    return reader


@kernel
def peek(g, reader, position, limit):
    """Find records to read from `position` on; see `merged_log_kernel.peek`."""
    end = load_acquire(g.end, reader * CELL)  # R1
    size = g.out_ts.shape[1]
    start = position & (size - 1)
    return start, min(end - position, limit, size - start)


@kernel
def advance(g, reader, position):
    """R3: everything before `position` is consumed."""
    store_release(g.cursor, reader * CELL, position)
    fence()
    if load_relaxed(g.words, ROUTER_WAITING) != 0:
        signal(g.words, ROUTER_WAITING, g.event, SPACE_EVENT)


@kernel
def open_membership(g):
    """Begin a change of the input gate's membership: the collector reads under its seqlock."""
    return begin_change(g.membership)


@kernel
def close_membership(g):
    """Make VERSION even again."""
    fetch_add(g.membership, VERSION, 1)


@kernel
def join_reader(g, reader, position, activation):
    """Activate `reader` where its own queue stands (I4); `position` is another queue's."""
    store_release(g.reading, reader * CELL, activation)


@kernel
def leave_reader(g, reader):
    """End `reader`'s membership."""
    store_release(g.reading, reader * CELL, 0)


__all__ = ["DATA_EVENT", "HEARTBEAT", "READERS_WAITING", "ROW_MASK", "SOURCE_SHIFT", "QueueArrays", "allocate"]
