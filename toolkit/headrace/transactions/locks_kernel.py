"""LOCK: each record has a queue; transactions take their places in all queues at once, in the order of events.

A place is a pair of numbers drawn from the record's counters: how many writes, and
how many reads since the run began, come before it. A read waits for the writes
before it only, so reads of one record run together.

State       locks[r]    writes and reads that have a place, writes and reads that
                        are over. The counts only grow, and are kept when the scheme changes
            TURN        the first event whose places are not taken yet
            link[o], link_2[o]   the place of an operation
Invariants  I1  an executor that finds TURN equal to the first event of its block
                alone draws places, until it moves TURN to the block behind
            I2  an executor takes blocks in rising order and runs a block's events
                in order, so the earliest remaining event never waits for one
                that its executor has yet to begin: no deadlock
            I3  between two batches, all places that were taken are over
Ordering    L1 places drawn, L2 store_release TURN; L0 load_acquire TURN
            E1 what an event writes, E2 store_release of the writes that are over, or
            fetch_add of the reads; T1 load_acquire of both, T2 the event reads
Progress    A waiting executor yields its core before long: a holder of TURN that is
            descheduled holds all others up, so they let it run.
Source      TStream, section II-C ("LOCK"): lockAhead in the order of timestamps.
            Differs: blocks of `BLOCK` events draw their places in one go, which
            moves the counter's cache line between cores that many times less often.
Checked     tests/headrace/transactions/test_interleave.py, test_interleave_parts.py, test_executors.py
"""

from headrace.kernel import kernel
from headrace.memory.atomics import fetch_add, store_release
from headrace.transactions.phases_kernel import await_value
from headrace.transactions.words import CURSOR, LAST, NEXT, OUT_OF_EVENTS, RECORD_WORDS, STOP_SEEN, TURN

BLOCK = 8

# Words of a record in `locks`.
WRITES, READS, WRITES_OVER, READS_OVER = range(4)


@kernel
def take_locked(me, c, l, executed):
    """Take the next event, once it has all its locks; OUT_OF_EVENTS, or STOP_SEEN."""
    if l[NEXT] >= l[LAST]:
        begun = begin_block(me, c, l, executed)  # L0
        if begun < 0:
            return begun
        for i in range(l[NEXT], l[LAST]):
            draw_places(c, i)
        store_release(c.words, TURN, l[LAST])  # L2
    i = l[NEXT]
    l[NEXT] += 1
    if not await_locks(me, c, i):
        return STOP_SEEN
    return i


@kernel
def begin_block(me, c, l, executed):
    """Take the next block of events, NEXT to LAST - 1, when it is its turn; OUT_OF_EVENTS, or STOP_SEEN."""
    first = fetch_add(c.words, CURSOR, BLOCK)
    if first >= executed:
        return OUT_OF_EVENTS
    l[NEXT] = first
    l[LAST] = min(executed, first + BLOCK)
    if not await_value(me, c, c.words, TURN, first):  # L0
        return STOP_SEEN
    return 0


@kernel
def draw_places(c, i):
    """L1: draw a place in the queue of each record of event `i`."""
    for o in range(c.set_at[i], c.set_at[i] + c.set_size[i]):
        t = (c.sets[o] >> 1) * RECORD_WORDS
        c.link[o] = c.locks[t + WRITES]
        c.link_2[o] = c.locks[t + READS]
        c.locks[t + (WRITES if c.sets[o] & 1 else READS)] += 1


@kernel
def await_locks(me, c, i):
    """T1: wait until every operation that event `i` must follow is over. False when the run stops first."""
    for o in range(c.set_at[i], c.set_at[i] + c.set_size[i]):
        t = (c.sets[o] >> 1) * RECORD_WORDS
        if not await_value(me, c, c.locks, t + WRITES_OVER, c.link[o]):
            return False
        if c.sets[o] & 1 and not await_value(me, c, c.locks, t + READS_OVER, c.link_2[o]):
            return False
    return True


@kernel
def unlock(c, i):
    """E2: event `i` is over."""
    for o in range(c.set_at[i], c.set_at[i] + c.set_size[i]):
        t = (c.sets[o] >> 1) * RECORD_WORDS
        if c.sets[o] & 1:
            store_release(c.locks, t + WRITES_OVER, c.link[o] + 1)
        else:
            fetch_add(c.locks, t + READS_OVER, 1)


__all__ = ["begin_block", "take_locked", "unlock"]
