"""The workers' side of an operator's output: one ring of result records for each worker.

A record is (primary, a, b, c, at) and the operator's value columns. `primary`
orders results first: the right boundary of the window, or the position of the
tuple that made the result; a, b, c order the rest by content. Each instance
promises in MARK[r] that it will write no further record with
primary <= MARK[r]; the collector releases what all active instances have promised.
Where `a` orders the records of one primary, PLACE_MARK promises more, for
all instances at once (`publish_place`): no further record with primary = MARK + 1
and a < PLACE_MARK. So the order of the output never depends on which instance wrote what.

Where another operator takes the records instead of a collector, ELSEWHERE has the address of a kernel that is called for
each of these steps (`elsewhere`): rows are written here all the same, and that kernel alone deals with HEAD, TAIL and MARK.
It is told watermarks, not promises: the next operator takes rows by event time, whatever their `primary` is.

An engine whose workers join and leave changes the membership under its own seqlock
(`membership`), together with whatever else changes then. An engine without event time
leaves the watermark at `progress.MIN_TIME`: promises of positions alone are enough.

State       HEAD[r] records written, TAIL[r] records collected,
            MARK[r] the promise; END_OF_TIME for a worker that is not active
Invariants  I1  0 <= HEAD[r] - TAIL[r] <= capacity
            I2  only instance r stores HEAD[r] and, while active, MARK[r];
                only the collector stores TAIL[r]
Ordering    W1 write record, W2 store_release HEAD, W3 store_release MARK
            C1 load_acquire all MARKs, under the seqlock of `membership`,
            C2 load_acquire HEAD, C3 read records
                    W2 is before W3 and C1 before C2: a collector that sees a promise
                    sees the records it covers
            W4 store_release MARK_TS; C0 load_acquire all MARK_TS before the MARKs
                    a watermark that is seen is never ahead of the promise: no
                    held-back record refers to what it allows to be freed
            C1 is a scan of `memory.seqlock` (V1 to V3), `start_mark` a store under it (S2)
                    the promise of a leaver, END_OF_TIME, is never seen without that of
                    the joiner. The order in which they are stored, by index in
                    `instance_loop`, does not matter
            W3, W5 fence, W6 load WANTED; C4 store WANTED, `prepare` (a fence),
            C5 load MARKs
                    store buffers: one of the two fences is first. If it is W5, C5 sees
                    the promise. If it is the collector's, W6 sees what it waits for.
                    With new records W6 is skipped: their signal has its own fence
            P1 store_release PLACE_MARK := 0, P2 store_release MARK, P3 store_release PLACE_MARK, W5, P4 load WANTED and
            WANTED_PLACE; C6 load_acquire MARK, C7 load_acquire PLACE_MARK, C8 load_acquire MARK
                    a mark only grows: if C6 and C8 read the same one, C7 comes after P1 of that mark, and before P2 of
                    the next one, so it reads a place of that mark, or 0
Progress    A full ring waits for the collector (back-pressure), polling STOP; the
            collector waits for the end of a change of membership, polling OUT_STOP,
            after which it releases nothing.
Checked     tests/headrace/egress/test_rings.py
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headrace.codegen.called import call
from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    EVENT_CELL,
    fence,
    fetch_add,
    load_acquire,
    load_relaxed,
    pause,
    store_release,
)
from headrace.memory.bundle import by_reference
from headrace.memory.cells import aligned, padded_cells, reserved
from headrace.memory.event_count import LOST_NS, cancel, doze, prepare, signal, sleep
from headrace.memory.seqlock import begin_scan, is_whole
from headrace.progress import END_OF_TIME
from headrace.workers.worker_kernel import BUSY_NS, ROOM_NS, turn

# Cells of `words`.
OUT_STOP = 0 * CELL
COLLECTOR_WAITING = 1 * CELL
INSTANCES_WAITING = 2 * CELL
WANTED = 3 * CELL  # smallest primary the collector holds back: wake it when passed
OUT_LOST_WAKEUPS = 4 * CELL  # sleeps of the collector that only the time-out ended, though it had been owed a wake-up
ELSEWHERE = 5 * CELL  # not 0: the address of a kernel in the collector's place, and in the next word that of its arrays
PLACE_MARK = 7 * CELL  # of primary = MARK + 1, no further record has a smaller `a`; 0 where that says nothing
WANTED_PLACE = 8 * CELL  # smallest `a` of the records with primary WANTED; written by a collector that releases by place
WORD_COUNT = 9

FOR_ROOM, FOR_ROWS, FOR_MARK, FOR_SWITCH = range(4)
"""Requests to that kernel: to wait until a row fits (1, or 0 when stopped), `publish`, `start_mark`, `switch_behind`."""

RELEASE_EVENT = 0
DRAINED_EVENT = EVENT_CELL
WAIT_NS = 20_000_000


@by_reference
class OutArrays(NamedTuple):
    """Shared by the instances of one operator and its collector."""

    words: np.ndarray
    event: np.ndarray
    head: np.ndarray
    tail: np.ndarray
    mark: np.ndarray
    mark_ts: np.ndarray  # event time up to which nothing more will be written
    primary: np.ndarray  # int64[instances, capacity]
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    at: np.ndarray
    meter: np.ndarray  # the workers' counters, see `worker_kernel`
    membership: np.ndarray  # cell 0: the seqlock under which workers join and leave
    list_words: np.ndarray  # int64[instances, words], see `words_ring`; of no size where results have no lists
    list_head: np.ndarray
    list_tail: np.ndarray


def allocate(
    instances: int, capacity: int, meter: np.ndarray, membership: np.ndarray | None = None, list_words: int = 0
) -> OutArrays:
    """Allocate rings of `capacity` records, all instances inactive.

    Parameters
    ----------
    instances : int
    capacity : int
        A power of two.
    meter : int64[instances, METER_WORDS]
        Where time spent waiting for room is booked.
    membership : int64[], optional
        Its first cell is the seqlock under which workers join and leave; one of its own by default.
    list_words : int
        Words of each ring of `words_ring`, a power of two; 0: results have no lists.
    """
    words = padded_cells(WORD_COUNT)
    words[WANTED] = END_OF_TIME
    mark = padded_cells(instances)
    mark[::CELL] = END_OF_TIME
    mark_ts = padded_cells(instances)
    mark_ts[::CELL] = END_OF_TIME

    def column():
        return reserved(instances * capacity, np.int64).reshape(instances, capacity)

    return OutArrays(
        words=words,
        event=aligned(2 * EVENT_CELL, np.int32),
        head=padded_cells(instances),
        tail=padded_cells(instances),
        mark=mark,
        mark_ts=mark_ts,
        primary=column(),
        a=column(),
        b=column(),
        c=column(),
        at=column(),
        meter=meter,
        membership=padded_cells(1) if membership is None else membership,
        list_words=reserved(instances * list_words, np.int64).reshape(instances, list_words),
        list_head=padded_cells(instances if list_words else 0),
        list_tail=padded_cells(instances if list_words else 0),
    )


@kernel
def elsewhere(o, me, request, head, mark):
    """Call the kernel that stands in for the collector, with this request."""
    return call(o.words[ELSEWHERE], (o.words[ELSEWHERE + 1], np.int64(me), np.int64(request), np.int64(head), np.int64(mark)))


@kernel(borrows=True, seldom=True)
def await_room(o, me, heads, tails, head, capacity):
    """Wait until item `head` fits into the ring with these counters, here or in `words_ring`. False when stopped."""
    if o.words[ELSEWHERE] != 0:
        return elsewhere(o, me, FOR_ROOM, head, 0) != 0
    store_release(heads, me * CELL, head)  # as W2, or P2 of `words_ring`
    signal(o.words, COLLECTOR_WAITING, o.event, RELEASE_EVENT)
    turn(o.meter, me, ROOM_NS)
    while True:
        ticket = prepare(o.words, INSTANCES_WAITING, o.event, DRAINED_EVENT)
        if head - load_acquire(tails, me * CELL) < capacity:  # P0
            cancel(o.words, INSTANCES_WAITING)
            break
        if load_acquire(o.words, OUT_STOP) != 0:
            cancel(o.words, INSTANCES_WAITING)
            return False
        sleep(o.words, INSTANCES_WAITING, o.event, DRAINED_EVENT, ticket, WAIT_NS)
    turn(o.meter, me, BUSY_NS)
    return True


@kernel(inline=True)
def ring_slot(o, head):
    """Return the slot of record number `head`."""
    return head & (o.primary.shape[1] - 1)


@kernel
def reserve_slot(o, me, head):
    """Wait until record number `head` fits into the ring. Returns its slot, or -1 when stopped."""
    capacity = o.primary.shape[1]
    if head - load_acquire(o.tail, me * CELL) >= capacity and not await_room(o, me, o.head, o.tail, head, capacity):
        return -1
    return ring_slot(o, head)


@kernel
def reserve_slots(o, me, head, wanted):
    """Wait until a record fits. Returns how many of `wanted` fit contiguously into the ring, or -1 when stopped."""
    slot = reserve_slot(o, me, head)
    if slot < 0:
        return -1
    capacity = o.primary.shape[1]
    return min(wanted, capacity - (head - load_acquire(o.tail, me * CELL)), capacity - slot)


@kernel
def publish(o, me, head, mark, watermark):
    """W2, W3: everything up to record `head` is written, and nothing <= `mark` will follow."""
    if o.words[ELSEWHERE] != 0:
        elsewhere(o, me, FOR_ROWS, head, watermark)
        return
    before = load_relaxed(o.mark, me * CELL)
    fresh = load_relaxed(o.head, me * CELL) != head
    if fresh:
        store_release(o.head, me * CELL, head)  # W2
    if mark > before:
        store_release(o.mark, me * CELL, mark)  # W3
    if watermark > load_relaxed(o.mark_ts, me * CELL):
        store_release(o.mark_ts, me * CELL, watermark)  # W4
    wake = fresh
    if mark > before and not fresh:
        fence()  # W5
        wake = mark >= load_relaxed(o.words, WANTED)  # W6
    if wake:
        signal(o.words, COLLECTOR_WAITING, o.event, RELEASE_EVENT)


@kernel
def publish_place(o, me, mark, place):
    """P1 to P3: nothing <= `mark` will follow, and of mark + 1 nothing with a smaller `a` than `place`.

    For an instance that promises for all and has no records of its own; one thread at a time calls it. A promise smaller
    than the one before has no effect.
    """
    before = load_relaxed(o.mark, me * CELL)
    if mark < before or (mark == before and place <= load_relaxed(o.words, PLACE_MARK)):
        return
    if mark > before:
        store_release(o.words, PLACE_MARK, 0)  # P1
        store_release(o.mark, me * CELL, mark)  # P2
        store_release(o.mark_ts, me * CELL, mark)  # W4
    store_release(o.words, PLACE_MARK, place)  # P3
    fence()  # W5
    wanted = load_relaxed(o.words, WANTED)  # P4
    if mark >= wanted or (mark + 1 == wanted and place > load_relaxed(o.words, WANTED_PLACE)):
        signal(o.words, COLLECTOR_WAITING, o.event, RELEASE_EVENT)


@kernel
def promised(o):
    """C1: the smallest promise and the smallest watermark of the active instances, as one snapshot unless stopped."""
    while True:
        before = begin_scan(o.membership, 0)
        smallest = END_OF_TIME
        watermark = END_OF_TIME
        for r in range(o.mark.size // CELL):
            watermark = min(watermark, load_acquire(o.mark_ts, r * CELL))  # C0
            smallest = min(smallest, load_acquire(o.mark, r * CELL))  # C1
        if is_whole(o.membership, 0, before):
            return smallest, watermark
        if load_acquire(o.words, OUT_STOP) != 0:  # a thread that failed in the middle of a change does not end it
            return smallest, watermark
        pause()


@kernel
def promised_place(o, bound):
    """C7, C8: the place that goes with a `bound` from `promised`: no further record of bound + 1 has a smaller `a`."""
    place = load_acquire(o.words, PLACE_MARK)
    return place if promised(o)[0] == bound else 0


@kernel
def glance(o, wanted):
    """Return the smallest promise and watermark, and whether there is something to collect or to release."""
    bound, watermark = promised(o)
    ready = (wanted <= bound) or bound == END_OF_TIME or load_acquire(o.words, OUT_STOP) != 0
    if wanted == bound + 1 and promised_place(o, bound) > load_relaxed(o.words, WANTED_PLACE):
        ready = True
    for r in range(o.head.size // CELL):
        pending = load_acquire(o.head, r * CELL) - load_relaxed(o.tail, r * CELL)
        if pending > 0:
            ready = True
    for r in range(o.list_head.size // CELL):  # whoever waits for room for words
        if load_acquire(o.list_head, r * CELL) != load_relaxed(o.list_tail, r * CELL):
            ready = True
    return bound, watermark, ready


@kernel
def await_release(o, wanted, timeout_ns):
    """Sleep until there is something to collect or release, or the time is over.

    Parameters
    ----------
    wanted : int
        Smallest primary held back by the collector, END_OF_TIME for none. To release by place, write WANTED_PLACE before.

    Returns
    -------
    promise, watermark : int
        The smallest of each at the end of the wait.
    """
    store_release(o.words, WANTED, wanted)  # C4
    ticket = prepare(o.words, COLLECTOR_WAITING, o.event, RELEASE_EVENT)
    bound, watermark, ready = glance(o, wanted)  # C5
    if not ready:
        timed_out = doze(o.event, RELEASE_EVENT, ticket, timeout_ns)
        bound, watermark, ready = glance(o, wanted)
        # The thread that gave the promise may not have reached its signal yet; if that takes long, the wake-up was lost.
        if timed_out and ready and doze(o.event, RELEASE_EVENT, ticket, LOST_NS):
            fetch_add(o.words, OUT_LOST_WAKEUPS, 1)
    cancel(o.words, COLLECTOR_WAITING)
    return bound, watermark


@kernel
def drained(o, me, tail):
    """Note that the collector has taken every record before `tail` of instance `me`, and wake instances that wait."""
    store_release(o.tail, me * CELL, tail)
    signal(o.words, INSTANCES_WAITING, o.event, DRAINED_EVENT)


@kernel
def stop_output(o):
    """Wake all threads that wait on these rings, for good."""
    store_release(o.words, OUT_STOP, 1)
    signal(o.words, COLLECTOR_WAITING, o.event, RELEASE_EVENT)
    signal(o.words, INSTANCES_WAITING, o.event, DRAINED_EVENT)


@kernel
def start_mark(o, me, mark, watermark):
    """Set the promises of a worker that becomes active or leaves (`membership` is odd)."""
    if o.words[ELSEWHERE] != 0:
        elsewhere(o, me, FOR_MARK, 0, watermark)
        return
    store_release(o.mark, me * CELL, mark)
    store_release(o.mark_ts, me * CELL, watermark)


@kernel
def switch_behind(o, me, config, mark):
    """Put a configuration of the downstream operator into force: results beyond `mark` are routed by it.

    All instances have promised `mark`, and wait while one of them does this.
    """
    elsewhere(o, me, FOR_SWITCH, config, mark)


__all__ = [
    "OutArrays",
    "allocate",
    "await_release",
    "await_room",
    "drained",
    "promised",
    "promised_place",
    "publish",
    "publish_place",
    "reserve_slot",
    "reserve_slots",
    "ring_slot",
    "start_mark",
    "stop_output",
    "switch_behind",
]
