"""An operator's results on their way into the next one's gate: each instance passes on its own, and the gate merges them.

The other way out of an operator, in place of `egress.rings` and under the names of its kernels: `build` has an operator's
text import these. There is no collector. A result is a row of its instance's ring, and the instance is a source of the next
operator's gate; that operator reads the rows where they were written. Rows are in order of `primary`, so each instance's
results are in order by themselves; ties between instances come in the gate's order, (time, instance, position).

State       the gate's, under its own names (`merged_log_kernel`); per instance r
            WRITTEN[r] rows written, SENT[r] of them given to the gate, FREED[r] of
            them read by all readers for certain; rows [r, i % capacity]
Invariants  I1  FREED[r] <= rows read by all <= SENT[r] <= WRITTEN[r] <= FREED[r] + capacity
            I2  only instance r stores WRITTEN[r], SENT[r], FREED[r] and, while it is a
                source, MARK[r] of the gate; who changes the members may, while r is parked
            I3  all that an instance has promised at a barrier is promised at the gate
                before it arrives there: no row below it is missing, and none will follow
            I4  with each promise P goes a heartbeat at P, and MARK becomes P + 1: between two
                barriers' records none in the gate is later than the promise that covers it
Ordering    A1 write rows (and what `ready_rows` adds), A2 the gate's `add`, A3 MARK
                    A1 -> A2 -> the reader's load of END: it reads whole rows
            F1 load_acquire MERGED, F2 load_acquire END, F3 load_acquire the CURSORs
                    END is stored before MERGED: what F1 counts lies below F2's END. Of
                    the log's records at most END - CURSOR are unread, of any source; so
                    of r's all are read but at most so many, and those in its ring
Membership  `start_mark`, of who changes the upstream's members, while all of these wait:
            a leaver's source is removed, a joiner's is added. With P the promise at the
            barrier, every MARK is P + 1 (I3), so a leaver's rows are merged without
            anybody's doing, and a slot is soon free for who comes back; by I4 the log
            ends at P at most, where the floor of a new source is P + 1 at most, which no
            result of the joiner is below.
Progress    Who finds the gate full waits for its readers as any source does; nobody waits
            for the upstream's members but at their own barrier, where they arrive with
            all they owe. A full ring, and who comes back, look now and then whether readers are far enough.
Source      STRETCH, section 7: TB_out, whose sources are the instances, added and removed
            with them. Differs: content orders no ties, so only operators follow whose
            results do not depend on these (`passing`).
Checked     tests/headrace/elastic/test_passing_interleave.py, test_passing.py
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from headrace.gates.log_words import END
from headrace.gates.membership_kernel import (
    SOURCES_WAITING,
    SPACE_EVENT,
    close_membership,
    open_membership,
    slowest_reader,
)
from headrace.gates.merged_log_kernel import add_records, add_source, merge, remove_source
from headrace.gates.source_kernel import ROOM_WAIT_NS, add, add_or_wait, announce, close_or_wait
from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    load_acquire,
    load_relaxed,
    nanosleep,
    now_ns,
    pause,
    store_relaxed,
    store_release,
    view_i64,
)
from headrace.memory.bundle import by_reference
from headrace.memory.event_count import cancel, doze
from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.references import HEARTBEAT
from headrace.workers.worker_kernel import BUSY_NS, ROOM_NS, turn

NAP_NS = 20_000
"""Between two looks for what nobody signals, seldom as it is: that rows of a full ring are read, that a ring is merged."""

LATENCY_PARTS = 16
"""Bins of a power of two, as of `metrics.latency`."""


@by_reference
class PassingArrays(NamedTuple):
    """Shared by the instances of one operator: the next one's gate, and rows."""

    words: np.ndarray  # from here on as of `LogArrays`
    event: np.ndarray
    head: np.ndarray
    mark: np.ndarray
    merged: np.ndarray
    feeding: np.ndarray
    ring_ts: np.ndarray
    ring_ref: np.ndarray
    ring_at: np.ndarray
    out_ts: np.ndarray
    out_ref: np.ndarray
    out_at: np.ndarray
    cursor: np.ndarray
    reading: np.ndarray
    cost: np.ndarray
    scratch: np.ndarray
    written: np.ndarray
    sent: np.ndarray
    freed: np.ndarray
    told: np.ndarray  # per instance: the latest heartbeat
    primary: np.ndarray  # int64[instances, capacity]
    a: np.ndarray
    at: np.ndarray
    keys: np.ndarray  # int32[instances, capacity]: `a` as the next operator reads it; [instances, 0] where it does not
    known: np.ndarray  # int64[columns]: where an int64[instances, capacity] is that is 0 at rows whose value is null
    valid: np.ndarray  # uint8[columns, instances * capacity]
    latency: np.ndarray  # int64[instances, bins]
    longest: np.ndarray  # per instance: the largest latency, ns
    meter: np.ndarray  # the workers' counters, see `worker_kernel`
    stop: np.ndarray  # word 0 is not 0 once nobody shall wait any more


@kernel
def ready_rows(o, me, slot, count):
    """Complete rows that lie one behind the other, before the gate has them: keys, and which values there are."""
    if o.keys.shape[1] > 0:
        for i in range(slot, slot + count):
            o.keys[me, i] = o.a[me, i]
    capacity = o.primary.shape[1]
    first = me * capacity
    for column in range(o.known.size):
        known = view_i64(o.known[column] + 8 * first, capacity)
        for i in range(slot, slot + count):
            o.valid[column, first + i] = known[i] != 0
    now = now_ns()
    start = slot
    end = slot + count
    while start < end:
        # Results of one window became ready together: one logarithm for all.
        at = o.at[me, start]
        until = start + 1
        while until < end and o.at[me, until] == at:
            until += 1
        took = max(np.int64(1), now - at)
        o.latency[me, np.int64(math.log2(took) * LATENCY_PARTS)] += until - start
        if took > load_relaxed(o.longest, me * CELL):
            store_relaxed(o.longest, me * CELL, took)
        start = until


@kernel(borrows=True, seldom=True)
def give_waiting(o, me, slot, count):
    """Give the gate rows that it has no room for, in turns. How many it took; fewer when stopped."""
    turn(o.meter, me, ROOM_NS)
    done = 0
    while done < count and load_acquire(o.stop, 0) == 0:
        done += add_or_wait(o, me, o.primary[me], slot + done, count - done, slot + done, o.stop)
    turn(o.meter, me, BUSY_NS)
    return done


@kernel
def send(o, me, head):
    """Give the gate all rows before number `head`. False when stopped."""
    at = load_relaxed(o.sent, me * CELL)
    capacity = o.primary.shape[1]
    while at < head:
        slot = at & (capacity - 1)
        count = min(head - at, capacity - slot)
        ready_rows(o, me, slot, count)  # A1
        taken = add(o, me, o.primary[me], slot, count, slot)  # A2
        if taken < count:
            taken += give_waiting(o, me, slot + taken, count - taken)
        at += taken
        store_release(o.sent, me * CELL, at)
        if taken < count:
            return False
    return True


@kernel
def note_read(o, me):
    """Note how many rows are read by all for certain; returns it."""
    head = load_relaxed(o.head, me * CELL)
    merged = load_acquire(o.merged, me * CELL)  # F1
    end = load_acquire(o.words, END)  # F2
    smallest, _ = slowest_reader(o, o.cursor)  # F3
    before = load_relaxed(o.freed, me * CELL)
    if smallest < 0:
        return before  # members change just now
    unread = (head - merged) + max(0, end - smallest)
    freed = max(before, load_relaxed(o.sent, me * CELL) - unread)
    store_release(o.freed, me * CELL, freed)
    return freed


@kernel(borrows=True, seldom=True)
def await_rows_read(o, me, head):
    """Pass everything on, and wait until row number `head` fits into the ring. False when stopped."""
    capacity = o.primary.shape[1]
    store_release(o.written, me * CELL, head)
    if not send(o, me, head):
        return False
    while head - note_read(o, me) >= capacity:
        if load_acquire(o.stop, 0) != 0:
            return False
        turn(o.meter, me, ROOM_NS)
        merge(o)
        nanosleep(NAP_NS)
        turn(o.meter, me, BUSY_NS)
    return True


@kernel
def reserve_slot(o, me, head):
    """Wait until row number `head` fits into the ring. Its slot, or -1 when stopped."""
    capacity = o.primary.shape[1]
    if head - load_relaxed(o.freed, me * CELL) >= capacity and not await_rows_read(o, me, head):
        return -1
    return head & (capacity - 1)


@kernel
def reserve_slots(o, me, head, wanted):
    """Wait until a row fits. How many of `wanted` do, one behind the other in the ring, or -1 when stopped."""
    slot = reserve_slot(o, me, head)
    if slot < 0:
        return -1
    capacity = o.primary.shape[1]
    return min(wanted, capacity - (head - load_relaxed(o.freed, me * CELL)), capacity - slot)


@kernel
def tell(o, me, promised):
    """Say by a heartbeat that no later row is at or before `promised`: time goes on where no row comes.

    Returns
    -------
    int
        1 if it was taken, 0 if the gate is full.
    """
    single = np.empty(1, np.int64)
    single[0] = promised
    return add_records(o, me, single, 0, 1, HEARTBEAT, 0, promised + 1)


@kernel(borrows=True, seldom=True)
def tell_waiting(o, me, promised):
    """`tell`, in turns, until it is taken or the run stops."""
    turn(o.meter, me, ROOM_NS)
    while load_acquire(o.stop, 0) == 0:
        ticket = announce(o)
        taken = tell(o, me, promised)
        if taken == 0:
            doze(o.event, SPACE_EVENT, ticket, ROOM_WAIT_NS)
        cancel(o.words, SOURCES_WAITING)
        if taken != 0:
            break
    turn(o.meter, me, BUSY_NS)


@kernel
def publish(o, me, head, promised, watermark):
    """Pass on everything up to row `head`, and that nothing at or before `promised` will follow."""
    if load_relaxed(o.written, me * CELL) != head:
        store_release(o.written, me * CELL, head)
    if not send(o, me, head):
        return
    if promised >= END_OF_TIME:
        while close_or_wait(o, me, o.stop) == 0 and load_acquire(o.stop, 0) == 0:
            continue
    elif promised > MIN_TIME and promised > load_relaxed(o.told, me * CELL):
        if tell(o, me, promised) == 0:
            tell_waiting(o, me, promised)
        store_release(o.told, me * CELL, promised)


@kernel
def start_mark(o, me, promised, watermark):
    """A worker becomes active after `promised`, or leaves (END_OF_TIME): its source is added, or removed."""
    if o.head.size == CELL:
        return
    is_done = False
    while not is_done and load_acquire(o.stop, 0) == 0:
        while not open_membership(o):
            pause()
        if promised >= END_OF_TIME:
            remove_source(o, me)
            is_done = True
        elif add_source(o, me) != 0:
            if promised > MIN_TIME and promised + 1 > load_relaxed(o.mark, me * CELL):
                store_release(o.mark, me * CELL, promised + 1)
            is_done = True
        close_membership(o)
        if not is_done:  # it was here before, and not all it gave is merged
            merge(o)
            nanosleep(NAP_NS)


__all__ = ["PassingArrays", "publish", "reserve_slot", "reserve_slots", "start_mark"]
