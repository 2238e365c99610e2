"""Pass an operator's results on to the gates of several operators: each instance is a source of all of them.

What one operator takes, `passing_kernel` passes on. This is the same for several takers: each has its own gate and its own
`PassingArrays`, with SENT, TOLD and FREED of its own. A row is free once the readers of all gates have passed it. The ring's
kernels call `take_for_all`, by the address in ELSEWHERE, and this calls the kernel of each taker, `take_share`, by its address.

State       for each instance r and taker t: SENT[t, r], FREED[t, r] and the gate's, as in
            `passing_kernel`; READY[t, r] of r's rows are complete (`ready_rows`).
            TAIL[r] of the ring, in which FREED is for one taker
Invariants  I1  READY[t, r] >= SENT[t, r]; each row is made ready once for each taker
            I2  TAIL[r] <= FREED[t, r] for every taker t, so a row's place is used again only
                once the readers of all gates have passed it
            I3  all gates merge in one order, and get the same rows and promises from
                an instance (`ways`: all or none by ranks, no filters)
            I4  before an instance waits at one gate, it has given each other one all
                that this one has room for; before it arrives at a barrier, it has
                given everything to all
Ordering    as in `passing_kernel`, for each gate; T1 load_acquire FREED of all takers, T2 store
            TAIL: both by the instance itself
Membership  a worker joins or leaves all gates at one barrier, in turn. By I4 each gate has
            all that was given before it, so none waits for another one
Progress    Nobody waits for ever while all readers go on. Suppose that every instance that has work waits
            at some gate that has room in its log, and let x be the first, in the order of I3, of the rows and
            heartbeats that are written and that some gate has not merged; let G be such a gate, and i the instance.
            What i gave to G before x is merged, so its ring in G has room, and x is in it by I4. If G does not merge x,
            it waits for another instance j that has nothing in it and has promised nothing beyond x.
            All that j has written is in G by I4, and merged. As j waits elsewhere, some gate has not merged
            y of it; y comes after x, but G merged it before x, which contradicts I3. Where gates take rows in the order of
            arrival, x is not taken because it is LEAD ahead of all that j has given; then y is ahead of what another
            one has given elsewhere, and so on: each is earlier by LEAD than the one before, so they do not come
            round. To give all rows to one gate and then to the next would stand still: i would wait at the first one for
            j, which waits at the second one for i.
            The readers of a gate go on whatever the others do, as `ways` sees to: no taker waits
            for another, since their results never come together.
            An instance that waits at several gates polls; at a single one it sleeps, as any source
Source      as `passing_kernel`
Checked     tests/headrace/elastic/test_several_takers.py, test_several_takers_interleave.py
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headrace.codegen.called import call
from headrace.egress.rings import FOR_MARK, FOR_ROOM, FOR_ROWS, OutArrays
from headrace.elastic.passing_kernel import (
    NAP_NS,
    PassingArrays,
    change_source,
    note_read,
    ready_rows,
    tell,
)
from headrace.gates.merged_log_kernel import merge
from headrace.gates.source_kernel import add, announce, close_source, sleep_unless
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, load_acquire, load_relaxed, nanosleep, store_relaxed, store_release
from headrace.memory.bundle import by_reference
from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.workers.worker_kernel import BUSY_NS, ROOM_NS, turn

FOR_TURN = 4
"""Request to a taker's kernel, beside those of `egress.rings`: as FOR_ROWS, but sleep if there is no room at all."""
KERNEL, ARRAYS = range(2)
"""Columns of `takers`."""


@by_reference
class TakerArrays(NamedTuple):
    """What the instances share with one of the takers."""

    passing: PassingArrays  # its rings have a `tail` of their own
    ready: np.ndarray  # per instance: how many of its rows are complete


@by_reference
class SeveralArrays(NamedTuple):
    """What the instances of one operator share with all takers."""

    rings: OutArrays
    takers: np.ndarray  # int64[takers, 2]: addresses of `take_share` and of its `TakerArrays`
    stop: np.ndarray  # word 0 is non-zero once no thread may wait any longer


# -- one taker


@kernel
def give_now(t, me, head):
    """Give a gate the rows before number `head` for which it has room. Whether it has all."""
    p = t.passing
    at = load_relaxed(p.sent, me * CELL)
    ready = load_relaxed(t.ready, me * CELL)
    capacity = p.rings.primary.shape[1]
    while at < head:
        slot = at & (capacity - 1)
        count = min(head - at, capacity - slot)
        if ready < at + count:
            ready_rows(p, me, ready & (capacity - 1), at + count - ready)  # A1
            ready = at + count
            store_relaxed(t.ready, me * CELL, ready)
        taken = add(p.gate, me, p.row_times[me], slot, count, slot)  # A2
        at += taken
        store_release(p.sent, me * CELL, at)
        if taken < count:
            return False
    return True


@kernel
def promise_now(p, me, promised):
    """Give a gate the promise that nothing at or before `promised` will follow, if there is room. Whether it has it."""
    if promised >= END_OF_TIME:
        return close_source(p.gate, me) != 0
    if promised > MIN_TIME and promised > load_relaxed(p.told, me * CELL):
        if promised >= load_relaxed(p.gate.mark, me * CELL) and tell(p, me, promised) == 0:
            return False
        store_release(p.told, me * CELL, promised)
    return True


@kernel
def take_now(t, me, head, promised):
    """Give a gate all rows and the promise, as far as there is room. Whether it has all."""
    return give_now(t, me, head) and promise_now(t.passing, me, promised)


@kernel(borrows=True, seldom=True)
def take_or_sleep(t, me, head, promised):
    """The same, sleeping until there may be room if there is none. Whether the gate has all."""
    p = t.passing
    before = load_relaxed(p.sent, me * CELL)
    ticket = announce(p.gate)
    has_all = take_now(t, me, head, promised)
    goes_on = has_all or load_relaxed(p.sent, me * CELL) != before
    sleep_unless(p.gate, me, ticket, 1 if goes_on else 0, p.stop)
    return has_all


@kernel
def take_share(t, me, request, head, mark):
    """What one taker does at a request. FOR_ROOM: give the number of rows that its readers have certainly read."""
    if request == FOR_ROWS:
        return np.int64(take_now(t, me, head, mark))
    if request == FOR_TURN:
        return np.int64(take_or_sleep(t, me, head, mark))
    if request == FOR_ROOM:
        merge(t.passing.gate)
        return np.int64(note_read(t.passing, me))
    change_source(t.passing, me, mark)
    return np.int64(1)


# -- all of them


@kernel
def ask(q, taker, me, request, head, mark):
    """Call a taker's kernel."""
    arguments = (q.takers[taker, ARRAYS], np.int64(me), np.int64(request), np.int64(head), np.int64(mark))
    return call(q.takers[taker, KERNEL], arguments)


@kernel
def give_each(q, me, head, promised):
    """Give each gate what it has room for. Returns how many have not got everything, and the last of these."""
    left = 0
    last = 0
    for taker in range(q.takers.shape[0]):
        if ask(q, taker, me, FOR_ROWS, head, promised) == 0:
            left += 1
            last = taker
    return left, last


@kernel(borrows=True, seldom=True)
def give_waiting_each(q, me, head, promised, left, last):
    """Wait until each gate has everything. False if stopped."""
    turn(q.rings.meter, me, ROOM_NS)
    while left > 0 and load_acquire(q.stop, 0) == 0:
        if left == 1:
            ask(q, last, me, FOR_TURN, head, promised)
        else:
            nanosleep(NAP_NS)
        left, last = give_each(q, me, head, promised)
    turn(q.rings.meter, me, BUSY_NS)
    return left == 0


@kernel
def pass_on_to_all(q, me, head, promised):
    """Pass on to all takers the rows before number `head`, and that none at or before `promised` will follow.

    Returns
    -------
    bool
        False if stopped.
    """
    if load_relaxed(q.rings.head, me * CELL) != head:
        store_release(q.rings.head, me * CELL, head)
    left, last = give_each(q, me, head, promised)
    return left == 0 or give_waiting_each(q, me, head, promised, left, last)


@kernel
def note_read_by_all(q, me, head):
    """Record and return how many rows, at most `head`, the readers of all gates have certainly read."""
    free = head
    for taker in range(q.takers.shape[0]):
        free = min(free, ask(q, taker, me, FOR_ROOM, head, 0))  # T1
    store_release(q.rings.tail, me * CELL, free)  # T2
    return free


@kernel(borrows=True, seldom=True)
def await_read_by_all(q, me, head):
    """Pass everything on, and wait until row number `head` fits into the ring. False if stopped."""
    capacity = q.rings.primary.shape[1]
    if not pass_on_to_all(q, me, head, MIN_TIME):
        return False
    while head - note_read_by_all(q, me, head) >= capacity:
        if load_acquire(q.stop, 0) != 0:
            return False
        turn(q.rings.meter, me, ROOM_NS)
        nanosleep(NAP_NS)
        turn(q.rings.meter, me, BUSY_NS)
    return True


@kernel
def take_for_all(q, me, request, head, mark):
    """The kernel that the ring's kernels call in place of a collector: see ELSEWHERE in `egress.rings`."""
    answer = True
    if request == FOR_ROOM:
        answer = await_read_by_all(q, me, head)
    elif request == FOR_ROWS:
        answer = pass_on_to_all(q, me, head, mark)
    else:
        for taker in range(q.takers.shape[0]):
            ask(q, taker, me, FOR_MARK, 0, mark)
    return np.int64(answer)


__all__ = ["SeveralArrays", "TakerArrays", "take_for_all", "take_share"]
