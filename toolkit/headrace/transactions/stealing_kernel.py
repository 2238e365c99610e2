"""Work stealing in the scheme of `flow_kernel`: idle executors take ready events from the stacks of others.

An executor runs the events that it has counted down to 0 one after another. While another
executor is hungry, it offers an event that it would run later, in a cell of its own; the
executor that takes the event out runs it. With sharing "everything" this is done among all
executors, with "socket" within each group; with "nothing" no executor takes another one's events.

State       offers[e]   0, or the event that executor e offers, + 1 (a cell each)
            HUNGRY      executors that ran out of events in this batch, and have found none
                        since
Invariants  I1  an event that may run is in one place: a stack, an offer, or being run.
                It moves from the stack of an executor to that executor's offer, while the
                offer is 0; the compare_exchange of the executor that runs it takes it out
            I2  an executor that goes to the barrier has an empty stack and offers
                nothing: it has taken its offer back, or another executor has taken it
            I3  an event is offered at most once in a batch, since the executor that takes it
                out runs it: so a compare_exchange never succeeds on a second offer of the same
                event (no ABA), and no executor carries an old offer into the next batch
Ordering    O1 store_release the offer, O2 compare_exchange it to 0 (acquire): what
            the event waited for was seen by the offering executor (T2 of `flow_kernel`),
            so by the one that takes it
            HUNGRY is a hint: an executor that reads a stale value offers in vain, or does not offer
Progress    No executor waits: one that finds no offer in `LOOKS` looks goes to the barrier, as do
            all once all are hungry. Events that become ready then are run by the executor that has them.
Source      ours; work stealing after TStream, section IV-E (of chains).
Checked     tests/headrace/transactions/test_interleave.py, test_interleave_parts.py
"""

from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    compare_exchange,
    fetch_add,
    load_acquire,
    load_relaxed,
    pause,
    store_release,
)
from headrace.transactions.words import (
    DEPTH,
    HUNGRY,
    OUT_OF_EVENTS,
    SHARED_NOTHING,
    SHARED_SOCKET,
    SHARING,
    THREADS,
)
from headrace.workers.worker_kernel import stopped

LOOKS = 64
"""Looks at all offers before an executor gives up: longer than a transaction of some hundred nanoseconds or a barrier takes."""


@kernel
def offer_one(me, c, l, config):
    """Offer the event that would be run next but one, if an executor is hungry."""
    if l[DEPTH] < 2 or c.rows[config, SHARING] == SHARED_NOTHING or load_relaxed(c.words, HUNGRY) == 0:
        return
    if load_relaxed(c.offers, me * CELL) == 0:
        below = l[DEPTH] - 2
        i = c.stack[me, below]
        c.stack[me, below] = c.stack[me, below + 1]
        l[DEPTH] -= 1
        store_release(c.offers, me * CELL, i + 1)  # O1


@kernel
def take_offer(c, e):
    """Take the event that an executor offers; OUT_OF_EVENTS if it is gone."""
    offered = load_acquire(c.offers, e * CELL)
    if offered != 0 and compare_exchange(c.offers, e * CELL, offered, 0):  # O2
        return offered - 1
    return OUT_OF_EVENTS


@kernel
def steal(me, c, config):
    """Take an event that another executor offers, or the caller's own offer that no other took; or OUT_OF_EVENTS."""
    threads, sharing = c.rows[config, THREADS], c.rows[config, SHARING]
    if sharing == SHARED_NOTHING:
        return OUT_OF_EVENTS
    i = take_offer(c, me)
    if i >= 0:
        return i
    first, last = 0, threads
    if sharing == SHARED_SOCKET:
        half = (threads + 1) // 2
        first, last = (half, threads) if me >= half else (0, half)
    hungry = fetch_add(c.words, HUNGRY, 1) + 1
    for _ in range(LOOKS):
        for e in range(first, last):
            i = take_offer(c, e) if e != me else OUT_OF_EVENTS
            if i >= 0:
                fetch_add(c.words, HUNGRY, -1)
                return i
        if hungry >= threads or stopped(c):
            break
        pause()
        hungry = load_relaxed(c.words, HUNGRY)
    return OUT_OF_EVENTS


__all__ = ["offer_one", "steal"]
