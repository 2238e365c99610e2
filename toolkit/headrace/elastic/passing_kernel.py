"""An operator's results on their way into the next one's gate: each instance passes on its own, and the gate merges them.

The other way out of an operator than a collector. A result is a row of its instance's ring (`egress.rings`), and the
instance is a source of the next operator's gate; that operator reads the rows where they were written. Rows are in order of
`primary`, so each instance's results are in order by themselves; ties between instances come in the gate's order, (time,
instance, position).

`take_results` is what the ring's kernels call ELSEWHERE, by its address: the operator and the loop of its instances do not
know where results go, so they are compiled once for both ways, and this file once for all operators (as part of both, it took
21 s at the first start of a query of two aggregates, of 52).

State       the gate's (`merged_log_kernel`); per instance r of its ring WRITTEN[r] =
            HEAD[r] rows written, FREED[r] = TAIL[r] of them read by all readers for
            certain; SENT[r] of them given to the gate, or left out by a filter; rows
            [r, i % capacity]. With a filter KEPT_COUNT[r] + LEFT_COUNT[r] = SENT[r], and
            the number k of those given is row KEPT_ROW[r, k % capacity]
Invariants  I1  FREED[r] <= rows read by all <= SENT[r] <= WRITTEN[r] <= FREED[r] + capacity
                with a filter: of U records that may be unread (F1) at most U are rows, the
                last ones given, so all before row KEPT_ROW[r, KEPT_COUNT[r] - U] is read or
                left out. KEPT_ROW has that one while U <= capacity, and it is one if
                U <= KEPT_COUNT[r]; else there are others' records among these, and nothing
                is known but what was before. Where U is 0, all of SENT[r] is free
            I2  only instance r stores WRITTEN[r], SENT[r], FREED[r] and, while it is a
                source, MARK[r] of the gate; a thread that changes the members may, while r is parked
            I3  all that an instance has promised at a barrier is promised at the gate
                before it arrives there: no row below it is missing, and none will follow
            I4  with each promise P goes a heartbeat at P, and MARK becomes P + 1: between two
                barriers' records none in the gate is later than the promise that covers it
Ordering    A1 write rows (and what `ready_rows` adds), A2 the gate's `add`, A3 MARK
                    A1 -> A2 -> the reader's load of END: it reads whole rows
            F1 of the gate's `unread_rows`: a reader has read a row before the gate says so
Membership  `change_source`, of the thread that changes the upstream's members, while these
            wait: a leaver's source is removed, a joiner's is added. With P the promise at the
            barrier, every MARK is P + 1 (I3), so a leaver's rows are merged without
            further action, and its slot is soon free if it comes back; by I4 the log
            ends at P at most, where the floor of a new source is P + 1 at most, which no
            result of the joiner is below.
Progress    An instance that finds the gate full waits for its readers as any source does; no
            thread waits for the upstream's members but at their own barrier, where they arrive
            with all they owe. An instance with a full ring, or one that comes back, looks now
            and then whether readers are far enough.
Source      STRETCH, section 7: TB_out, whose sources are the instances, added and removed
            with them. Differs: content orders no ties, so only operators follow whose
            results do not depend on these, or that see none of them by
            key (`ways`).
Checked     tests/headrace/elastic/test_passing_interleave.py, test_passing.py, test_passing_filter.py
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from headrace.egress.rings import FOR_ROOM, FOR_ROWS, OutArrays
from headrace.elastic.kept_rows_kernel import is_kept
from headrace.gates.membership_kernel import (
    SOURCES_WAITING,
    SPACE_EVENT,
    close_membership,
    open_membership,
)
from headrace.gates.merged_log_kernel import add_records, add_source, merge, remove_source, unread_rows
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
    view_f64,
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

    gate: Any  # the next operator's: LogArrays, or ReaderQueues
    rings: OutArrays  # the rings, with `tail` for FREED
    sent: np.ndarray
    kept_count: np.ndarray  # per instance, where a filter leaves some out: how many of those it has sent the gate was given
    left_count: np.ndarray  # per instance: how many it was not
    kept_row: np.ndarray  # int64[instances, capacity]: the numbers of those it was given; of no size where it is all of them
    comparisons: np.ndarray  # int64[comparisons, WORDS], of `kept_rows_kernel`: what rows have to pass
    told: np.ndarray  # per instance: the latest heartbeat
    keys: np.ndarray  # int32[instances, capacity]: `a` as the next operator reads it; [instances, 0] where it does not
    ids: np.ndarray  # int32[ids]: of an id of a key here, that of its key behind; of no size where these are the same
    known: np.ndarray  # int64[columns]: where an int64[instances, capacity] is that is 0 at rows whose value is null
    numbers: np.ndarray  # int64[columns]: where a float64[instances, capacity] is whose NaN is null as well; 0: there is none
    valid: np.ndarray  # uint8[columns, instances * capacity]
    latency: np.ndarray  # int64[instances, bins]
    longest: np.ndarray  # per instance: the largest latency, ns
    stop: np.ndarray  # word 0 is not 0 once nobody shall wait any more


@kernel
def ready_rows(p, me, slot, count):
    """Complete rows that lie one behind the other, before the gate has them: keys, and which values there are."""
    if p.keys.shape[1] > 0 and p.ids.size > 0:
        for i in range(slot, slot + count):
            p.keys[me, i] = p.ids[p.rings.a[me, i]]
    elif p.keys.shape[1] > 0:
        for i in range(slot, slot + count):
            p.keys[me, i] = p.rings.a[me, i]
    capacity = p.rings.primary.shape[1]
    first = me * capacity
    for column in range(p.known.size):
        known = view_i64(p.known[column] + 8 * first, capacity)
        for i in range(slot, slot + count):
            p.valid[column, first + i] = known[i] != 0
        if p.numbers[column] != 0:
            numbers = view_f64(p.numbers[column] + 8 * first, capacity)
            for i in range(slot, slot + count):
                p.valid[column, first + i] &= numbers[i] == numbers[i]
    now = now_ns()
    start = slot
    end = slot + count
    while start < end:
        # Results of one window became ready together: one logarithm for all.
        at = p.rings.at[me, start]
        until = start + 1
        while until < end and p.rings.at[me, until] == at:
            until += 1
        took = max(np.int64(1), now - at)
        p.latency[me, np.int64(math.log2(took) * LATENCY_PARTS)] += until - start
        if took > load_relaxed(p.longest, me * CELL):
            store_relaxed(p.longest, me * CELL, took)
        start = until


@kernel(borrows=True, seldom=True)
def give_waiting(p, me, slot, count):
    """Give the gate rows that it has no room for, in turns. How many it took; fewer when stopped."""
    turn(p.rings.meter, me, ROOM_NS)
    done = 0
    while done < count and load_acquire(p.stop, 0) == 0:
        done += add_or_wait(p.gate, me, p.rings.primary[me], slot + done, count - done, slot + done, p.stop)
    turn(p.rings.meter, me, BUSY_NS)
    return done


@kernel
def give(p, me, slot, count):
    """Give the gate rows. How many it took; fewer when stopped."""
    taken = add(p.gate, me, p.rings.primary[me], slot, count, slot)  # A2
    if taken < count:
        taken += give_waiting(p, me, slot + taken, count - taken)
    return taken


@kernel(seldom=True)
def give_kept(p, me, at, slot, count):
    """Give the gate those of `count` rows from number `at` on that pass. With how many it is through; fewer when stopped."""
    capacity = p.rings.primary.shape[1]
    first_row = me * capacity + slot
    kept = load_relaxed(p.kept_count, me * CELL)
    done = 0
    while done < count:
        until = done
        while until < count and is_kept(p.comparisons, p.valid, first_row + until):
            p.kept_row[me, (kept + until - done) & (capacity - 1)] = at + until
            until += 1
        taken = give(p, me, slot + done, until - done) if until > done else 0
        kept += taken
        store_release(p.kept_count, me * CELL, kept)
        done += taken
        if done < until:
            break
        if done < count:
            done += 1  # this one is left out
    store_release(p.left_count, me * CELL, at + done - kept)
    return done


@kernel
def send(p, me, head):
    """Give the gate all rows before number `head`. False when stopped."""
    at = load_relaxed(p.sent, me * CELL)
    capacity = p.rings.primary.shape[1]
    while at < head:
        slot = at & (capacity - 1)
        count = min(head - at, capacity - slot)
        ready_rows(p, me, slot, count)  # A1
        done = give(p, me, slot, count) if p.comparisons.size == 0 else give_kept(p, me, at, slot, count)
        at += done
        store_release(p.sent, me * CELL, at)
        if done < count:
            return False
    return True


@kernel(seldom=True)
def first_unread(p, me, unread):
    """The number of the first row that may be unread, where so many of the latest records may be, and some rows are none.

    Of the rows given at most as many are unread; what is left out before the first of them is nobody's.
    """
    kept = load_relaxed(p.kept_count, me * CELL)
    if unread == 0:
        return load_relaxed(p.sent, me * CELL)
    if unread > min(kept, p.rings.primary.shape[1]):
        return np.int64(0)  # others' records, and heartbeats, are among them: this says nothing
    return p.kept_row[me, (kept - unread) & (p.rings.primary.shape[1] - 1)]


@kernel(inline=True)
def note_read(p, me):
    """Note how many rows are read by all for certain; returns it."""
    before = load_relaxed(p.rings.tail, me * CELL)
    unread = unread_rows(p.gate, me)  # F1
    if unread < 0:
        return before  # members change just now
    if p.comparisons.size == 0:
        freed = max(before, load_relaxed(p.sent, me * CELL) - unread)
    else:
        freed = max(before, first_unread(p, me, unread))
    store_release(p.rings.tail, me * CELL, freed)
    return freed


@kernel(borrows=True, seldom=True)
def await_rows_read(p, me, head):
    """Pass everything on, and wait until row number `head` fits into the ring. False when stopped."""
    capacity = p.rings.primary.shape[1]
    store_release(p.rings.head, me * CELL, head)
    if not send(p, me, head):
        return False
    while head - note_read(p, me) >= capacity:
        if load_acquire(p.stop, 0) != 0:
            return False
        turn(p.rings.meter, me, ROOM_NS)
        merge(p.gate)
        nanosleep(NAP_NS)
        turn(p.rings.meter, me, BUSY_NS)
    return True


@kernel
def tell(p, me, promised):
    """Say by a heartbeat that no later row is at or before `promised`: time goes on where no row comes.

    Returns
    -------
    int
        1 if it was taken, 0 if the gate is full.
    """
    single = np.empty(1, np.int64)
    single[0] = promised
    return add_records(p.gate, me, single, 0, 1, HEARTBEAT, 0, promised + 1)


@kernel(borrows=True, seldom=True)
def tell_waiting(p, me, promised):
    """`tell`, in turns, until it is taken or the run stops."""
    turn(p.rings.meter, me, ROOM_NS)
    while load_acquire(p.stop, 0) == 0:
        ticket = announce(p.gate)
        taken = tell(p, me, promised)
        if taken == 0:
            doze(p.gate.event, SPACE_EVENT, ticket, ROOM_WAIT_NS)
        cancel(p.gate.words, SOURCES_WAITING)
        if taken != 0:
            break
    turn(p.rings.meter, me, BUSY_NS)


@kernel(inline=True)
def pass_on(p, me, head, promised):
    """Pass on everything up to row `head`, and that nothing at or before `promised` will follow."""
    if load_relaxed(p.rings.head, me * CELL) != head:
        store_release(p.rings.head, me * CELL, head)
    if not send(p, me, head):
        return
    if promised >= END_OF_TIME:
        while close_or_wait(p.gate, me, p.stop) == 0 and load_acquire(p.stop, 0) == 0:
            continue
    elif promised > MIN_TIME and promised > load_relaxed(p.told, me * CELL):
        if tell(p, me, promised) == 0:
            tell_waiting(p, me, promised)
        store_release(p.told, me * CELL, promised)


@kernel(inline=True)
def change_source(p, me, promised):
    """A worker becomes active after `promised`, or leaves (END_OF_TIME): its source is added, or removed."""
    if p.gate.feeding.size == CELL:
        return
    is_done = False
    while not is_done and load_acquire(p.stop, 0) == 0:
        while not open_membership(p.gate):
            pause()
        if promised >= END_OF_TIME:
            remove_source(p.gate, me)
            is_done = True
        elif add_source(p.gate, me) != 0:
            if promised > MIN_TIME and promised + 1 > load_relaxed(p.gate.mark, me * CELL):
                store_release(p.gate.mark, me * CELL, promised + 1)
            is_done = True
        close_membership(p.gate)
        if not is_done:  # it was here before, and not all it gave is merged
            merge(p.gate)
            nanosleep(NAP_NS)


@kernel
def take_results(p, me, request, head, mark):
    """What the ring's kernels call in the collector's place: see ELSEWHERE in `egress.rings`."""
    answer = True
    if request == FOR_ROOM:
        answer = await_rows_read(p, me, head)
    elif request == FOR_ROWS:
        pass_on(p, me, head, mark)
    else:
        change_source(p, me, mark)
    return np.int64(answer)


__all__ = ["PassingArrays", "take_results"]
