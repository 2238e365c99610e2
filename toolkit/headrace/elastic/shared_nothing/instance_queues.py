"""Shared-nothing input: one queue for each pair of router and instance, merged by the instance.

Each source of the operator has a router, as each upstream instance has its
senders in a distributed engine, and each router has a queue to every instance.
To the instance loop all this is a gate: `lane` gives an instance its own row,
and the names below stand in for those of `merged_log_kernel`. A router
corresponds to a source there, and cells and bounds are those of every gate. A
record has one more word than a gate's: SEEN, how many tuples of the merged
input come before it, since an instance sees only its share of them.

All routers read the same merged input and so agree on every record's RANK: how
many tuples and control records come before it. Each record is written by one
router; heartbeats and control records are all written by the first. An instance
moves the records that every router has passed from its queues to its lane, in
order of rank.
With one router there is nothing to merge, and its queues are the lanes.

State       per queue q = router * instances + r   END[q] records written,
            TAKEN[q] records merged, and the records [q, i % size]
            per router    RANK: every record below it has been written
            per instance  MERGED[r] records in its lane so far, CURSOR[r] records
            read, READING[r] activation id, out_*[r, i % lane size] the records
Invariants  I1  only router s stores END and records of its queues, and RANK[s];
                only instance r stores TAKEN of its queues, MERGED[r], CURSOR[r]
            I2  TAKEN[q] <= END[q] <= TAKEN[q] + size; CURSOR[r] <= MERGED[r],
                and a lane is filled again only when CURSOR[r] = MERGED[r]
            I3  a control record stands in a queue of every member of the
                configuration it ends, at the same rank, SEEN and watermark, and
                is merged only when every router has put the next configuration in
                force
            I4  an instance that left has read its lane up to the control record
                that ended its membership: when it joins again it starts at its
                cursor
Ordering    W1 write record (and the row it refers to), W2 store_release END,
            W3 store_release RANK
            R0 load_acquire RANK of all routers, R1 load_acquire END, R2 read record
                    W3 -> R0 and W2 before W3, so R1 finds every record below
                    the smallest RANK, and W2 -> R1, so R2 sees W1
            R3 store_release TAKEN, W0 load_acquire TAKEN
                    a slot is reused only once read
            M1 fill the lane, M2 store_release MERGED, before R3
                    another thread finds a record in a queue, in the lane, or before CURSOR
Progress    A router waits for its fullest queue (back-pressure), polling STOP.
            Routers cannot deadlock: all records of the router with the smallest
            RANK are below that RANK, so they can be merged.
Source      STRETCH, section 2.2: each instance has a dedicated queue for each
            upstream instance.
Checked     tests/headrace/elastic/test_shared_nothing.py, test_instance_queues.py
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headrace.elastic.shared_nothing.router import ROUTERS_WAITING
from headrace.gates.membership_kernel import (
    BOUND,
    BOUND_NS,
    DATA_EVENT,
    NOTHING,
    READERS_WAITING,
    SOURCES_WAITING,
    SPACE_EVENT,
    VERSION,
    WORD_COUNT,
)
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, EVENT_CELL, fence, load_acquire, load_relaxed, store_release
from headrace.memory.bundle import by_reference
from headrace.memory.cells import aligned, padded_cells, reserved
from headrace.memory.event_count import signal
from headrace.memory.seqlock import begin_change, end_change

RESERVE = 64
"""Slots beyond the bound: where a tuple has room, heartbeats and control records have room, too."""

LANE = 1024
"""Records an instance merges at once; a power of two."""


@by_reference
class QueueArrays(NamedTuple):
    """Shared by the routers and the instances of one operator. Cells are ``CELL`` words apart."""

    words: np.ndarray
    event: np.ndarray
    membership: np.ndarray  # words of the input gate: their VERSION is the seqlock the collector reads under
    gate_event: np.ndarray  # of the input gate: threads that found VERSION odd sleep on it
    # Per queue.
    end: np.ndarray
    taken: np.ndarray
    queue_ts: np.ndarray  # int64[routers * instances, size]
    queue_ref: np.ndarray
    queue_at: np.ndarray
    queue_seen: np.ndarray
    queue_rank: np.ndarray  # with one router, one unused word: records are in the order of the queue
    # Per router.
    rank: np.ndarray
    # Per instance.
    merged: np.ndarray
    cursor: np.ndarray
    reading: np.ndarray
    cost: np.ndarray  # its recent ns per record, 0 = unknown
    out_ts: np.ndarray  # int64[instances, lane size]
    out_ref: np.ndarray
    out_at: np.ndarray
    out_seen: np.ndarray


def allocate(routers: int, instances: int, bound: int, bound_ns: int, gate) -> QueueArrays:
    """Allocate empty queues of at most `bound` tuples behind an input gate, no instance active."""
    size = 1 << (bound + RESERVE - 1).bit_length()
    words = padded_cells(WORD_COUNT)
    words[BOUND] = bound
    words[BOUND_NS] = bound_ns

    def columns(rows, length, count):
        return [reserved(rows * length, np.int64).reshape(rows, length) for _ in range(count)]

    pairs = routers * instances
    end, taken = padded_cells(pairs), padded_cells(pairs)
    queues = columns(pairs, size, 4)
    merges = routers > 1
    return QueueArrays(
        words,
        aligned(2 * EVENT_CELL, np.int32),
        gate.words,
        gate.event,
        end,
        taken,
        *queues,
        *columns(pairs, size if merges else 1, 1),
        padded_cells(routers),
        padded_cells(instances) if merges else end,
        padded_cells(instances) if merges else taken,
        padded_cells(instances),
        padded_cells(instances),
        *(columns(instances, LANE, 4) if merges else queues),
    )


@kernel
def lane(g, reader):
    """Row of `out_*` that `reader` reads: its own."""
    return reader


@kernel
def peek(g, reader, position, limit):
    """Find records to read from `position` on; see `merged_log_kernel.peek`."""
    end = load_acquire(g.merged, reader * CELL)  # R1, with one router
    if end == position and g.rank.size > CELL:
        end = merge(g, reader, end)
    size = g.out_ts.shape[1]
    start = position & (size - 1)
    return start, min(end - position, limit, size - start)


@kernel
def merge(g, reader, end):
    """Fill the empty lane of an instance from its queues, in order of rank. Returns the new MERGED.

    If two records have the same rank, that of the later router goes first: the first
    router gives a heartbeat the rank of the record it comes after.
    """
    routers = g.rank.size // CELL
    instances = g.reading.size // CELL
    passed = NOTHING
    for s in range(routers):
        passed = min(passed, load_acquire(g.rank, s * CELL))  # R0
    size = g.queue_ts.shape[1]
    lane_size = g.out_ts.shape[1]
    free = lane_size
    while free > 0:
        # `best`: the queue with the next record. Its records of ranks below `until` come before all others.
        best = -1
        best_rank = passed
        until = passed
        for s in range(routers):
            q = s * instances + reader
            at = load_relaxed(g.taken, q * CELL)
            if at < load_acquire(g.end, q * CELL):  # R1
                rank = g.queue_rank[q, at & (size - 1)]
                if rank < best_rank or (rank == best_rank and best >= 0):
                    until = best_rank
                    best = q
                    best_rank = rank
                elif rank < until:
                    until = rank
        if best < 0:
            break
        at = load_relaxed(g.taken, best * CELL)
        ready = min(load_acquire(g.end, best * CELL) - at, free)
        moved = 0
        while moved < ready:
            i = (at + moved) & (size - 1)
            if moved > 0 and g.queue_rank[best, i] >= until:
                break
            to = end & (lane_size - 1)
            g.out_ts[reader, to] = g.queue_ts[best, i]  # M1, R2
            g.out_ref[reader, to] = g.queue_ref[best, i]
            g.out_at[reader, to] = g.queue_at[best, i]
            g.out_seen[reader, to] = g.queue_seen[best, i]
            end += 1
            moved += 1
        free -= moved
        store_release(g.merged, reader * CELL, end)  # M2
        store_release(g.taken, best * CELL, at + moved)  # R3
    if free < lane_size:
        wake_routers(g)
    return end


@kernel
def wake_routers(g):
    """Wake the routers that wait for room in a queue, once there is some."""
    fence()
    if load_relaxed(g.words, ROUTERS_WAITING) != 0:
        signal(g.words, ROUTERS_WAITING, g.event, SPACE_EVENT)


@kernel
def advance(g, reader, position):
    """Mark everything before `position` as consumed."""
    store_release(g.cursor, reader * CELL, position)  # R3, with one router
    if g.rank.size == CELL:
        wake_routers(g)


@kernel
def open_membership(g):
    """Begin a change of the input gate's membership: the collector reads under its seqlock."""
    return begin_change(g.membership, VERSION)


@kernel
def close_membership(g):
    """Make VERSION even again, and wake the threads that found it odd: sources and routers, at the input gate."""
    end_change(g.membership, VERSION)
    signal(g.membership, READERS_WAITING, g.gate_event, DATA_EVENT)
    signal(g.membership, SOURCES_WAITING, g.gate_event, SPACE_EVENT)


@kernel
def join_reader(g, reader, position, activation):
    """Activate `reader` at its own lane's position (I4); `position` is that of another lane."""
    store_release(g.reading, reader * CELL, activation)


@kernel
def leave_reader(g, reader):
    """End `reader`'s membership."""
    store_release(g.reading, reader * CELL, 0)


__all__ = ["DATA_EVENT", "READERS_WAITING", "QueueArrays", "allocate"]
