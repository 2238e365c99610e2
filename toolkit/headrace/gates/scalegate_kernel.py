"""The ScaleGate: a lock-free skip list into which sources link records and along which readers walk.

A record is (ts, ref), as in `merged_log_kernel`; so are the kernels' names.

State       the list    see `skip_list_kernel`; here a record is its node
            per source  MARK[s] promise: no later record has ts < MARK[s];
                        FEEDING[s]
            per reader  CURSOR[r] records consumed, STAND[r] the node of the
                        last of them, PASSED[r] its stamp, READING[r]
                        activation id; CLAIM[r] records decided on, DELIVERED[r]
                        controls among them; out_*[r] the records from CURSOR to
                        FILLED, copied out of the nodes; private: NODE, FILLED
            control     BOUNDARY[k] position of the k-th control, PROPOSED,
                        CONFIRMED how many there are
            VERSION     odd while membership changes, see `membership_kernel`
Invariants  I4  position p holds the same record for every reader
            I1 to I3 are the list's
Ordering    A2 link a node, A3 store_release MARK
                        a reader that sees the promise finds every node it covers
            R1 load_acquire all MARKs: the limit, R2 load_acquire NEXT[0]
                        in this order: a node linked after R1 is above the limit
            R3 store_release STAND, PASSED, CURSOR; A0 load_acquire PASSED
                        a node is rewritten only once every reader has left it
            C1 (reader) CLAIM := end of what it takes, fence, read BOUNDARY
            C2 (control) BOUNDARY := largest claim, fence, read the claims;
                        raise and repeat until none is beyond
                        one of them sees the other: no reader takes a record
                        beyond the boundary, since a claim beyond it raised it
            J1 store_release CURSOR, J2 store_release READING
                        a thread that sees the activation sees where it starts
            V1 to V3 of `memory.seqlock` around marks or stands
                        a limit includes every source it must wait for; a node
                        is not recycled under a reader that just joined
Progress    add is lock-free; peek never waits (a reader at a boundary that
            is not confirmed yet gets nothing and is woken later). Changes of
            membership, and controls, are rare; each excludes its own kind by
            a try-lock.
Source      Gulisano et al., ScaleGate; STRETCH, section 6 (Elastic ScaleGate).
            Differs: promises in MARK instead of handles compared with nodes,
            so heartbeats work and ties are ordered; bounds; controls at a
            position instead of a timestamp.
Checked     tests/headrace/gates (both gates), tests/litmus
"""

from typing import NamedTuple

import numpy as np

from headrace.gates.membership_kernel import (
    DATA_EVENT,
    NOTHING,
    READERS_WAITING,
    SOURCES_WAITING,
    SPACE_EVENT,
    VERSION,
    close_membership,
    open_membership,
    slowest_reader,
    smallest_of_readers,
    wake_readers,
    wake_sources,
)
from headrace.gates.skip_list_kernel import (
    AT,
    FULL_AT,
    LAST,
    NEXT,
    NEXT_SEQ,
    NIL,
    NODE_WORDS,
    OLDEST,
    POOL_SHIFT,
    REF,
    STAMP,
    TS,
    insert,
    recycle,
    room,
)
from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    compare_exchange,
    fence,
    load_acquire,
    load_relaxed,
    now_ns,
    store_release,
)
from headrace.memory.bundle import by_reference
from headrace.memory.seqlock import begin_scan, is_whole
from headrace.progress import END_OF_TIME
from headrace.references import HEARTBEAT

# Cells of `words`, beside those of `membership_kernel`; BOUND is that of each source here.
CONTROL_FLAG = 1 * CELL
PROPOSED = 2 * CELL
CONFIRMED = 4 * CELL

# A reader's private words, in `reader`.
NODE, FILLED, LIMIT_TS, LIMIT_SOURCE = 0, 1, 2, 3
READER_WORDS = 16

CONTROL_RING = 64
PUBLISH_EVERY = 128


@by_reference
class ScaleGateArrays(NamedTuple):
    """What the kernels share. Cells are ``CELL`` int64 words apart."""

    words: np.ndarray
    event: np.ndarray
    nodes: np.ndarray  # int64[(sources * pool + 1) * NODE_WORDS]; the last one is the head
    mark: np.ndarray
    feeding: np.ndarray
    source: np.ndarray  # int64[sources, SOURCE_WORDS], each row one source's own
    out_ts: np.ndarray  # int64[readers, buffer], each row one reader's own
    out_ref: np.ndarray
    out_at: np.ndarray
    out_node: np.ndarray
    cursor: np.ndarray
    reading: np.ndarray
    cost: np.ndarray  # per reader: its recent ns per record, 0 = unknown
    stand: np.ndarray
    passed: np.ndarray
    claim: np.ndarray
    delivered: np.ndarray
    reader: np.ndarray  # int64[readers, READER_WORDS], each row one reader's own
    boundary: np.ndarray  # int64[CONTROL_RING]
    boundary_epoch: np.ndarray
    boundary_at: np.ndarray


@kernel
def lane(g, reader):
    """The row of `out_*` that `reader` reads: its own."""
    return reader


# -- sources -----------------------------------------------------------------------------------------


@kernel
def add_records(g, source, ts, start, count, first_ref, step, mark):
    """Publish records ``(ts[start + i], first_ref + i * step)`` of `source`, and the promise `mark` or a larger one.

    Returns
    -------
    int
        How many were taken, 0 when the gate is full. Never blocks.
    """
    count = min(count, room(g, source, count))
    if count <= 0:
        return 0
    at = now_ns()
    for i in range(count):
        insert(g, source, ts[start + i], first_ref + i * step, at)
        if i & (PUBLISH_EVERY - 1) == PUBLISH_EVERY - 1:
            store_release(g.mark, source * CELL, ts[start + i])  # A3
    store_release(g.mark, source * CELL, max(mark, ts[start + count - 1]))  # A3
    wake_readers(g)
    return count


@kernel
def merge(g):
    """Do nothing: linking is merging. The merged log has work to do here."""
    return 0


# -- readers -----------------------------------------------------------------------------------------


@kernel
def _limit(g):
    """R1: the smallest promise of the feeding sources, and the lowest-numbered source that has it."""
    limit_ts = NOTHING
    limit_source = 0
    for s in range(g.mark.size // CELL):
        if load_acquire(g.feeding, s * CELL) != 0:
            mark = load_acquire(g.mark, s * CELL)
            if mark < limit_ts:
                limit_ts = mark
                limit_source = s
    return limit_ts, limit_source


@kernel
def _fill(g, reader, position, most):
    """Copy ready records, or one control, into the reader's buffer. Returns its new end."""
    state = g.reader[reader]
    nodes = g.nodes
    shift = g.words[POOL_SHIFT]
    capacity = g.out_ts.shape[1]
    start = position & (capacity - 1)
    most = min(most, capacity - start)
    # What is not consumed stays in the buffer: a joining reader may start there.
    most = min(most, load_relaxed(g.cursor, reader * CELL) + capacity - position)
    if most <= 0:
        return position
    node = state[NODE]
    delivered = load_relaxed(g.delivered, reader * CELL)
    confirmed = load_acquire(g.words, CONFIRMED)  # before BOUNDARY: once confirmed it is final
    if delivered < load_acquire(g.words, PROPOSED):
        boundary = load_acquire(g.boundary, delivered & (CONTROL_RING - 1))
        if boundary <= position:
            if delivered >= confirmed:
                return position
            g.out_ts[reader, start] = nodes[node * NODE_WORDS + TS]
            g.out_ref[reader, start] = -(1 + g.boundary_epoch[delivered & (CONTROL_RING - 1)])
            g.out_at[reader, start] = g.boundary_at[delivered & (CONTROL_RING - 1)]
            g.out_node[reader, start] = node
            store_release(g.claim, reader * CELL, position + 1)
            store_release(g.delivered, reader * CELL, delivered + 1)
            state[FILLED] = position + 1
            return position + 1
        most = min(most, boundary - position)
    stamp = load_relaxed(nodes, node * NODE_WORDS + STAMP)
    limit_ts = state[LIMIT_TS]
    limit_source = state[LIMIT_SOURCE]
    fresh = False
    count = 0
    while count < most:
        after = load_acquire(nodes, node * NODE_WORDS + NEXT)  # R2
        if after == NIL:
            break
        ts = nodes[after * NODE_WORDS + TS]
        if ts > limit_ts or (ts == limit_ts and (after >> shift) > limit_source):
            if fresh:
                break
            fresh = True
            before = begin_scan(g.words, VERSION)
            new_ts, new_source = _limit(g)  # R1; then R2 once more
            if not is_whole(g.words, VERSION, before):
                break  # membership changes; its end wakes us
            limit_ts = new_ts
            limit_source = new_source
            continue
        g.out_ts[reader, start + count] = ts
        g.out_ref[reader, start + count] = nodes[after * NODE_WORDS + REF]
        g.out_at[reader, start + count] = nodes[after * NODE_WORDS + AT]
        g.out_node[reader, start + count] = after
        stamp += 1
        if load_relaxed(nodes, after * NODE_WORDS + STAMP) <= 0:
            store_release(nodes, after * NODE_WORDS + STAMP, stamp)  # every reader counts the same
        node = after
        count += 1
    state[LIMIT_TS] = limit_ts
    state[LIMIT_SOURCE] = limit_source
    if count == 0:
        return position
    store_release(g.claim, reader * CELL, position + count)  # C1
    fence()
    if delivered < load_acquire(g.words, PROPOSED):
        boundary = load_acquire(g.boundary, delivered & (CONTROL_RING - 1))
        if boundary < position + count:
            count = max(0, boundary - position)
            store_release(g.claim, reader * CELL, position + count)
            if count == 0:
                return position
            node = g.out_node[reader, start + count - 1]
    state[NODE] = node
    state[FILLED] = position + count
    return position + count


@kernel
def peek(g, reader, position, limit):
    """Find records to read from `position` on, without consuming them.

    A reader that does not `advance` gets no more than its buffer holds.

    Returns
    -------
    start, count : int
        They are ``out_*[lane, start:start+count]``; count 0 when none is ready.
    """
    filled = g.reader[reader, FILLED]
    if position >= filled:
        filled = _fill(g, reader, position, limit)
    start = position & (g.out_ts.shape[1] - 1)
    return start, min(filled - position, limit, g.out_ts.shape[1] - start)


@kernel
def advance(g, reader, position):
    """Publish that everything before `position` is consumed; wake sources that wait for room."""
    if position > load_relaxed(g.cursor, reader * CELL):
        node = g.out_node[reader, (position - 1) & (g.out_ts.shape[1] - 1)]
        stamp = load_relaxed(g.nodes, node * NODE_WORDS + STAMP)
        store_release(g.stand, reader * CELL, node)  # R3
        store_release(g.passed, reader * CELL, stamp)
        store_release(g.cursor, reader * CELL, position)
    fence()
    wake_sources(g)


@kernel
def is_wakeup_due(g, source):
    """Whether the slowest reader is far enough for `advance` to wake `source`: it has left the source's oldest node."""
    smallest, _ = slowest_reader(g, g.passed)  # A0
    oldest = (source << g.words[POOL_SHIFT]) | (g.source[source, OLDEST] & ((1 << g.words[POOL_SHIFT]) - 1))
    stamp = load_acquire(g.nodes, oldest * NODE_WORDS + STAMP)
    return g.source[source, OLDEST] < g.source[source, NEXT_SEQ] and 0 < stamp < smallest


@kernel
def _largest_claim(g, boundary):
    for r in range(g.claim.size // CELL):
        boundary = max(boundary, load_acquire(g.claim, r * CELL))
    return boundary


@kernel
def control(g, epoch):
    """Place the control record of `epoch` at the first position that no reader has gone beyond.

    It takes no node, so a full gate takes it too, and needs no source to move.

    Returns
    -------
    int
        1 if placed, 0 if another thread is placing one, or if a reader has too
        many controls still to meet: call again.
    """
    if load_relaxed(g.words, CONTROL_FLAG) != 0 or not compare_exchange(g.words, CONTROL_FLAG, 0, 1):
        return 0
    number = load_relaxed(g.words, PROPOSED)
    behind = NOTHING
    ahead = 0
    for r in range(g.reading.size // CELL):
        seen = load_acquire(g.delivered, r * CELL)
        ahead = max(ahead, seen)
        if load_acquire(g.reading, r * CELL) != 0:
            behind = min(behind, seen)
    if number - min(behind, ahead) >= CONTROL_RING // 2:  # half: a joining reader may be a little behind
        store_release(g.words, CONTROL_FLAG, 0)
        return 0
    slot = number & (CONTROL_RING - 1)
    boundary = 0
    if number > 0:
        boundary = load_relaxed(g.boundary, (number - 1) & (CONTROL_RING - 1)) + 1
    boundary = _largest_claim(g, boundary)
    g.boundary_epoch[slot] = epoch
    g.boundary_at[slot] = now_ns()
    store_release(g.boundary, slot, boundary)
    store_release(g.words, PROPOSED, number + 1)
    while True:  # C2
        fence()
        largest = _largest_claim(g, boundary)
        if largest == boundary:
            break
        boundary = largest
        store_release(g.boundary, slot, boundary)
    store_release(g.words, CONFIRMED, number + 1)
    store_release(g.words, CONTROL_FLAG, 0)
    wake_readers(g)
    return 1


# -- membership --------------------------------------------------------------------------------------


@kernel
def join_reader(g, reader, position, activation):
    """Start `reader` at `position`, inclusive. Between open_ and close_membership.

    A reader must be at `position`, or have it in its buffer and not move: it has
    the node to start from. The cursor is stored before the activation: a thread
    that sees the activation sees where it starts.
    """
    node = NIL
    stamp = 0
    # The cursor of a reader that has left will do as well: at `position` it stands
    # on the same node as the active reader there, which does not move.
    for r in range(g.reading.size // CELL):
        if load_acquire(g.cursor, r * CELL) == position:
            node = load_acquire(g.stand, r * CELL)
            stamp = load_acquire(g.passed, r * CELL)
            break
        if (
            load_acquire(g.reading, r * CELL) != 0
            and load_acquire(g.cursor, r * CELL) < position
            and position <= g.reader[r, FILLED]
        ):
            node = g.out_node[r, (position - 1) & (g.out_ts.shape[1] - 1)]
            stamp = load_acquire(g.nodes, node * NODE_WORDS + STAMP)
    controls = load_acquire(g.words, CONFIRMED)
    oldest = max(0, controls - CONTROL_RING)
    while controls > oldest and load_acquire(g.boundary, (controls - 1) & (CONTROL_RING - 1)) >= position:
        controls -= 1
    state = g.reader[reader]
    state[NODE] = node
    state[FILLED] = position
    state[LIMIT_TS] = -NOTHING
    state[LIMIT_SOURCE] = 0
    store_release(g.stand, reader * CELL, node)
    store_release(g.passed, reader * CELL, stamp)
    store_release(g.delivered, reader * CELL, controls)
    store_release(g.claim, reader * CELL, position)
    store_release(g.cursor, reader * CELL, position)  # J1
    store_release(g.reading, reader * CELL, activation)  # J2


@kernel
def leave_reader(g, reader):
    """Stop counting `reader`. Between open_ and close_membership."""
    store_release(g.reading, reader * CELL, 0)


@kernel
def source_floor(g, source):
    """The smallest ts that a record of `source` may have without preceding what may be delivered.

    The caller has VERSION odd: every limit that a reader uses was taken before.
    """
    limit_ts, limit_source = _limit(g)
    if limit_ts == NOTHING:  # no source feeds: at or above all that was promised
        limit_ts = load_acquire(g.mark, 0)
        limit_source = 0
        for s in range(1, g.mark.size // CELL):
            mark = load_acquire(g.mark, s * CELL)
            if mark >= limit_ts:
                limit_ts = mark
                limit_source = s
    if limit_source > source:
        limit_ts += 1
    return limit_ts


@kernel
def add_source(g, source):
    """Let `source` feed the gate. Between open_ and close_membership.

    It starts with a heartbeat, the paper's dummy tuple, at the smallest time it may
    have, linked after everything that any reader may have been given.

    Returns
    -------
    int
        1, or 0 if the slot feeds already, its records have not all been
        reached by a reader, it has no free node yet, or all input has ended.
    """
    if load_acquire(g.feeding, source * CELL) != 0:
        return 0
    state = g.source[source]
    if load_acquire(g.nodes, state[LAST] * NODE_WORDS + STAMP) <= 0:
        return 0
    floor = source_floor(g, source)
    if floor >= END_OF_TIME:
        return 0
    smallest, slowest = smallest_of_readers(g, g.passed)
    if smallest != NOTHING:
        recycle(g, source, smallest, slowest)
    if state[FULL_AT] <= state[NEXT_SEQ]:
        return 0
    # The foremost stand: its node is alive, since only nodes that every reader has left are recycled now.
    foremost = 0
    for r in range(g.passed.size // CELL):
        passed = load_acquire(g.passed, r * CELL)
        if passed > foremost:
            foremost = passed
            state[LAST] = load_acquire(g.stand, r * CELL)
    insert(g, source, floor, HEARTBEAT, now_ns())
    store_release(g.mark, source * CELL, floor)
    store_release(g.feeding, source * CELL, 1)
    return 1


@kernel
def remove_source(g, source):
    """Stop waiting for `source`: a flush. Between open_ and close_membership.

    `source` must add nothing more. What it added is delivered in its order; then
    the slot may feed again.
    """
    store_release(g.feeding, source * CELL, 0)


__all__ = [
    "ScaleGateArrays",
    "DATA_EVENT",
    "READERS_WAITING",
    "SOURCES_WAITING",
    "SPACE_EVENT",
    "VERSION",
    "add_records",
    "add_source",
    "advance",
    "close_membership",
    "control",
    "is_wakeup_due",
    "join_reader",
    "lane",
    "leave_reader",
    "merge",
    "open_membership",
    "peek",
    "remove_source",
    "source_floor",
]
