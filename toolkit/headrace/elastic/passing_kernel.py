"""Pass an operator's results on to the next one's gate: each instance adds its own, and the gate merges them.

This is the alternative to a collector, for one operator that takes the results; `several_takers_kernel` is about several, each of
which has the arrays and invariants below. A result is a row of its instance's ring (`egress.rings`), and the instance is a
source of the next operator's gate. That operator reads the rows where they were written. Each instance writes its rows
in order of event time (`row_times`); ties between instances come in the gate's order: (time, instance, position), or
(time, ranks) where the gate has ranks, which order results as their keys are ordered (`gates.content_kernel`). Rows
may be ahead of the watermark when they are written (`update` emits them before its window ends): then the gate gives
them in order of arrival.

The ring's kernels call `take_results` by its address, in ELSEWHERE. The operator and the loop of its instances do not know
where results go, so they are compiled once for both ways, and this file is compiled once for all operators. (Compiled as
part of both modules, it took 21 s of the 52 s that the first start of a query of two aggregates took.)

State       the gate's (`merged_log_kernel`); for each instance r, of the rows of its ring
            [r, i % capacity]: WRITTEN[r] = HEAD[r] are written; SENT[r] are given to the
            gate, or left out by a filter; FREED[r] = TAIL[r] are certainly read by all
            readers. With a filter KEPT_COUNT[r] + LEFT_COUNT[r] = SENT[r], and the k-th row
            given to the gate (from 0) has number KEPT_ROW[r, k % capacity]
Invariants  I1  FREED[r] <= rows read by all <= SENT[r] <= WRITTEN[r] <= FREED[r] + capacity
                with a filter: U records may be unread (F1), so at most the last U rows that r
                gave the gate are, and all rows before KEPT_ROW[r, KEPT_COUNT[r] - U] are read
                or left out. KEPT_ROW still holds that entry if U <= capacity, and the entry
                exists if U <= KEPT_COUNT[r]; otherwise the U include records of other sources
                or heartbeats, and FREED[r] stays as it is. If U is 0, all of SENT[r] is free
            I2  only instance r stores WRITTEN[r], SENT[r], FREED[r] and, while it is a
                source, MARK[r] of the gate; a thread that changes the members may store them while
                r is parked
            I3  before an instance arrives at a barrier, it has made its promise there to the
                gate, too: no row that the promise covers is missing, and none will follow
            I4  with each promise P goes a heartbeat at P, and MARK becomes P + 1: of the records
                given between two barriers, none is later than the promise that covers it.
                With rows that are ahead, MARK is the time of the latest; until P + 1 is above
                that, no heartbeat goes: time would go back
Ordering    A1 write rows (and what `ready_rows` adds), A2 the gate's `add`, A3 MARK
                    A1 -> A2 -> the reader's load of END: it reads whole rows
            F1 `unread_rows` of the gate: a reader has read a row before the gate counts it as read
Membership  `change_source`, called by the thread that changes the upstream's members, while
            these wait: a leaver's source is removed, a joiner's is added. With P the promise
            at the barrier, every MARK is P + 1 (I3), so a leaver's rows are merged without
            further action, and its slot is soon free for it to come back. By I4 the log ends
            at P at most, so the floor of a new source is P + 1 at most, and no result of the
            joiner is below it. Rows that are ahead lie at the first end of a window after P, call
            it T, or before; a joiner's first rows lie at T at the earliest, so its floor may be T.
            T < P + 1 + LEAD, so the gate takes what a leaver gave without further action, too.
Progress    An instance that finds the gate full waits for the readers, as any source does. Only
            at the upstream's own barrier does a thread wait for its members, and they arrive
            there with everything published. An instance whose ring is full polls how far the
            readers are; `change_source` polls until the rows of an earlier activation are merged.
Source      STRETCH, section 7: TB_out, whose sources are the instances, added and removed
            with them. Ties are ordered by content where the next operator's results show their
            order, and each instance then gives its own in that order (`ways`).
Checked     tests/headrace/elastic/test_passing_interleave.py, test_passing.py, test_passing_filter.py, test_passing_update.py,
            test_passing_content.py, test_passing_content_interleave.py
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from headrace.egress.rings import FOR_ROOM, FOR_ROWS, OutArrays, ring_slot
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
from headrace.metrics.latency import PARTS
from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.references import HEARTBEAT
from headrace.workers.worker_kernel import BUSY_NS, ROOM_NS, turn

NAP_NS = 20_000
"""Time between two polls for rare events that are not signalled: that rows of a full ring are read, that a ring is merged."""


@by_reference
class PassingArrays(NamedTuple):
    """What the instances of one operator share: the next operator's gate, and the rows passed on."""

    gate: Any  # the next operator's: LogArrays, or ReaderQueues
    rings: OutArrays  # the rings, with `tail` for FREED
    row_times: np.ndarray  # int64[instances, capacity]: event times of the rows
    sent: np.ndarray
    kept_count: np.ndarray  # per instance, with a filter: how many of the rows sent the gate was given
    left_count: np.ndarray  # per instance, with a filter: how many were left out
    kept_row: np.ndarray  # int64[instances, capacity]: numbers of the rows the gate was given; of no size without a filter
    comparisons: np.ndarray  # int64[comparisons, WORDS], of `kept_rows_kernel`: that rows have to satisfy
    told: np.ndarray  # per instance: the latest heartbeat
    keys: np.ndarray  # int32[instances, capacity]: key ids for the next operator; [instances, 0] if it has no key
    ids: np.ndarray  # int32[ids]: by the id of a key here, the id of its key downstream; of no size where they are the same
    ranks: np.ndarray  # int64[ranks, ids]: by the id of a key here, what orders it among keys; [0, 0] where the gate has no ranks
    row_ranks: np.ndarray  # int64[instances * ranks, capacity]: the gate's `rank`
    known: np.ndarray  # int64[columns]: address of an int64[instances, capacity], 0 at rows whose value is null
    numbers: np.ndarray  # int64[columns]: address of a float64[instances, capacity] in which NaN is null as well; 0: none
    valid: np.ndarray  # uint8[columns, instances * capacity]
    latency: np.ndarray  # int64[instances, bins]
    longest: np.ndarray  # per instance: the largest latency, ns
    stop: np.ndarray  # word 0 is non-zero once no thread may wait any longer


@kernel
def ready_rows(p, me, slot, count):
    """Complete consecutive rows before the gate gets them: keys, ranks, and which values are null."""
    if p.keys.shape[1] > 0 and p.ids.size > 0:
        for i in range(slot, slot + count):
            p.keys[me, i] = p.ids[p.rings.a[me, i]]
    elif p.keys.shape[1] > 0:
        for i in range(slot, slot + count):
            p.keys[me, i] = p.rings.a[me, i]
    ranks = p.ranks.shape[0]
    for number in range(ranks):
        for i in range(slot, slot + count):
            p.row_ranks[me * ranks + number, i] = p.ranks[number, p.rings.a[me, i]]
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
        p.latency[me, np.int64(math.log2(took) * PARTS)] += until - start
        if took > load_relaxed(p.longest, me * CELL):
            store_relaxed(p.longest, me * CELL, took)
        start = until


@kernel(borrows=True, seldom=True)
def give_waiting(p, me, slot, count):
    """Add rows for which the gate had no room, waiting for room in turns. Returns how many it took; fewer if stopped."""
    turn(p.rings.meter, me, ROOM_NS)
    done = 0
    while done < count and load_acquire(p.stop, 0) == 0:
        done += add_or_wait(p.gate, me, p.row_times[me], slot + done, count - done, slot + done, p.stop)
    turn(p.rings.meter, me, BUSY_NS)
    return done


@kernel
def give(p, me, slot, count):
    """Add rows to the gate. Returns how many it took; fewer if stopped."""
    taken = add(p.gate, me, p.row_times[me], slot, count, slot)  # A2
    if taken < count:
        taken += give_waiting(p, me, slot + taken, count - taken)
    return taken


@kernel(seldom=True)
def give_kept(p, me, at, slot, count):
    """Add to the gate the rows that pass, of `count` from number `at` on. Returns how many rows are done; fewer if stopped."""
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
    """Give the gate all rows before number `head`. False if stopped."""
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
    """With a filter: the number of the first row that may be unread, if at most the latest `unread` records are.

    At most the last `unread` rows given to the gate are unread, and no reader gets the rows left out before them.
    """
    kept = load_relaxed(p.kept_count, me * CELL)
    if unread == 0:
        return load_relaxed(p.sent, me * CELL)
    if unread > min(kept, p.rings.primary.shape[1]):
        return np.int64(0)  # they include others' records or heartbeats: nothing is known
    return p.kept_row[me, ring_slot(p.rings, kept - unread)]


@kernel(inline=True)
def note_read(p, me):
    """Record and return how many rows are certainly read by all."""
    before = load_relaxed(p.rings.tail, me * CELL)
    unread = unread_rows(p.gate, me)  # F1
    if unread < 0:
        return before  # membership is changing
    if p.comparisons.size == 0:
        freed = max(before, load_relaxed(p.sent, me * CELL) - unread)
    else:
        freed = max(before, first_unread(p, me, unread))
    store_release(p.rings.tail, me * CELL, freed)
    return freed


@kernel(borrows=True, seldom=True)
def await_rows_read(p, me, head):
    """Pass everything on, and wait until row number `head` fits into the ring. False if stopped."""
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
    """Add a heartbeat that says no later row is at or before `promised`, so that time advances without rows.

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
    """Repeat `tell` until the gate takes the heartbeat or the run stops, sleeping in between."""
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
    """Pass on all rows before number `head`, and the promise that nothing at or before `promised` will follow."""
    if load_relaxed(p.rings.head, me * CELL) != head:
        store_release(p.rings.head, me * CELL, head)
    if not send(p, me, head):
        return
    if promised >= END_OF_TIME:
        while close_or_wait(p.gate, me, p.stop) == 0 and load_acquire(p.stop, 0) == 0:
            continue
    elif promised > MIN_TIME and promised > load_relaxed(p.told, me * CELL):
        if promised >= load_relaxed(p.gate.mark, me * CELL) and tell(p, me, promised) == 0:
            tell_waiting(p, me, promised)
        store_release(p.told, me * CELL, promised)


@kernel(inline=True)
def change_source(p, me, promised):
    """Add the source of a worker that becomes active after `promised`, or remove that of one that leaves (END_OF_TIME)."""
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
        if not is_done:  # it was a source before, and not all of its rows are merged
            merge(p.gate)
            nanosleep(NAP_NS)


@kernel
def take_results(p, me, request, head, mark):
    """The kernel that the ring's kernels call in place of a collector: see ELSEWHERE in `egress.rings`."""
    answer = True
    if request == FOR_ROOM:
        answer = await_rows_read(p, me, head)
    elif request == FOR_ROWS:
        pass_on(p, me, head, mark)
    else:
        change_source(p, me, mark)
    return np.int64(answer)


__all__ = ["PassingArrays", "take_results"]
