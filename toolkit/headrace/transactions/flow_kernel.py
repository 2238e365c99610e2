"""Whole transactions by dependencies: each runs when all that it depends on are over, whichever executors ran them.

Two events depend on each other if both mention a record and one of them writes
it. Each event has a counter of the events that it waits for. When an event is over, its executor
decrements the counters of the events behind it, and keeps those that reach 0 on a stack of its own,
unless another executor has nothing to do (`stealing_kernel`).

    record r   W0 <- {R1 R2 R3} <- W4 <- W5         reads of a group do not wait for each other

State       pending[i]  in the low half, WAITING for each link that event i still waits
                        for; in the high half, EDGE for each that it ever waited for
            entries, part_at   the operations of each slice by the record's owner,
                        in the order of events (private, then read by all)
            tails[r]    batch and number of operations, last write, first and last read behind it (private
                        to the record's owner, while it builds)
            link[o]     of a read: the event that writes next. Of a write: the
                        event that writes next, or FIRST_READ minus the first read
                        behind it. NOBODY: none
            link_2[o]   of a read: the next one of its group
Invariants  I1  each event is executed once. An event that waits for no other has `pending`
                0 for the whole phase and belongs to the executor that scans it: an
                event is in one slice, or in one block of the cursor. Any other event has
                EDGEs, so its `pending` is never 0 again; it belongs to the executor that counts
                WAITING down to zero: exactly one fetch_add does. So no executor has to claim events
            I2  links go from earlier events to later ones, so there is no cycle,
                and the earliest remaining event waits for nothing
            I3  link and link_2 do not change while events are executed
Ordering    E1 what an event writes, E2 fetch_add pending of each behind it
            (acq_rel), T2 the reads of the event that E2 brought to zero
                              E1 -> E2 -> T2, through the others' E2 in between
            L1 EDGE and WAITING are added (by several executors) before the barrier
            behind `link_owned`; S1 `pending` is scanned after it. No executor changes
            a `pending` that S1 finds to be 0, so S1 needs no ordering
Progress    No executor waits: one that finds no event that may run goes to the barrier.
            Events behind a running one are run by its executor, or by one that steals them from it.
Source      ours, after TStream, section IV-C; its chain rounds stop at cycles.
Checked     tests/headrace/transactions/test_interleave.py, test_interleave_parts.py, test_executors.py
"""

from headrace.kernel import kernel
from headrace.memory.atomics import fetch_add, load_relaxed, prefetch_for_write
from headrace.references import BUCKET_MASK
from headrace.transactions.combining_kernel import LEFT_OUT
from headrace.transactions.key_sets_kernel import FIRST_OPERATION, SET_AT
from headrace.transactions.stealing_kernel import steal
from headrace.transactions.words import (
    CURSOR,
    CURSOR_2,
    DEPTH,
    FIT,
    LAST,
    NEXT,
    RECORD_WORDS,
    SEEN,
    SHARED_NOTHING,
    SHARED_SOCKET,
    SHARING,
    THREADS,
)

NOBODY = -1
FIRST_READ = -2
WAITING = 1
EDGE = 1 << 32
BLOCK = 8
"""Events that are taken from a shared cursor in one go."""

AHEAD = 8
"""How many operations ahead of its linking an operation's record is prefetched. With 400,000 accounts and as many assets,
an event takes 125 ns instead of 220 to prepare; where the records lie in the cache it makes no difference."""

COUNTED = 20
"""Bits of the word that count a record's operations; those above them hold the batch."""

# Words of a record in `tails`. A batch is identified by the number of events before it, + 1.
LAST_BATCH, LAST_WRITE, FIRST_OF_GROUP, LAST_OF_GROUP = range(4)


@kernel
def first_dealt(c, slice_of, owner):
    """Where in `entries` a slice's operations for an owner begin; they end at its `part_at`."""
    return owner * c.sets.size + c.filling[slice_of, FIRST_OPERATION]


@kernel
def deal_to_owners(me, c, config, leaves_out):
    """Deal the operations of the executor's slice to the owners of their records; the order of events stays.

    Each owner has a stretch of `entries` that could hold the whole slice, so nothing has to be counted first.
    """
    start, stop = c.filling[me, FIRST_OPERATION], c.filling[me, SET_AT]
    for r in range(c.rows[config, THREADS]):
        c.part_at[me, r] = first_dealt(c, me, r)
    for o in range(start, stop):
        if leaves_out and c.link[o] == LEFT_OUT:
            continue
        r = c.owner[config, c.sets[o] >> 1 & BUCKET_MASK]
        at = c.part_at[me, r]
        c.entries[at] = o
        c.part_at[me, r] = at + 1


@kernel
def link_owned(me, c, config):
    """Link the operations on the executor's own records, slice after slice: that is the order of events."""
    executed = load_relaxed(c.words, FIT)
    batch = load_relaxed(c.words, SEEN) + 1
    for part in range(c.rows[config, THREADS]):
        stop = c.part_at[part, me]
        for k in range(first_dealt(c, part, me), stop):
            if k + AHEAD < stop:
                prefetch_for_write(c.tails, (c.sets[c.entries[k + AHEAD]] >> 1) * RECORD_WORDS)
            o = c.entries[k]
            if c.event_of[o] >= executed:
                break
            link_operation(me, c, o, batch)


@kernel
def class_of(n):
    """The class of `lengths` in which a record with n operations counts: the number of bits of n."""
    k = 0
    while n >> k != 0:
        k += 1
    return k


@kernel
def note_length(me, c, n):
    """A record has n operations in this batch: move it to the next class where it has outgrown its own."""
    if n & (n - 1) == 0:
        k = class_of(n)
        c.lengths[me, k] += 1
        if k > 1:
            c.lengths[me, k - 1] -= 1


@kernel
def link_operation(me, c, o, batch):
    """Put an operation behind those that came before it on its record."""
    word = c.sets[o]
    i = c.event_of[o]
    t = (word >> 1) * RECORD_WORDS
    if c.tails[t + LAST_BATCH] >> COUNTED != batch:
        c.tails[t + LAST_BATCH] = batch << COUNTED
        c.tails[t + LAST_WRITE] = NOBODY
        c.tails[t + FIRST_OF_GROUP] = NOBODY
    n = (c.tails[t + LAST_BATCH] & ((1 << COUNTED) - 1)) + 1
    if n < 1 << COUNTED:
        c.tails[t + LAST_BATCH] += 1
        note_length(me, c, n)
    c.link[o] = NOBODY
    c.link_2[o] = NOBODY
    write, first = c.tails[t + LAST_WRITE], c.tails[t + FIRST_OF_GROUP]
    if word & 1 == 0:
        if first != NOBODY:
            c.link_2[c.tails[t + LAST_OF_GROUP]] = o
        else:
            c.tails[t + FIRST_OF_GROUP] = o
            if write != NOBODY:
                c.link[write] = FIRST_READ - o
        c.tails[t + LAST_OF_GROUP] = o
        if write != NOBODY:
            fetch_add(c.pending, i, EDGE + WAITING)  # L1
        return
    if first != NOBODY:
        reads = 0
        read = first
        while read != NOBODY:
            c.link[read] = i
            reads += 1
            read = c.link_2[read]
        fetch_add(c.pending, i, reads * (EDGE + WAITING))  # L1
    elif write != NOBODY:
        c.link[write] = i
        fetch_add(c.pending, i, EDGE + WAITING)  # L1
    c.tails[t + LAST_WRITE] = o
    c.tails[t + FIRST_OF_GROUP] = NOBODY


@kernel
def take_ready(me, c, l, config, executed):
    """Take an event of the caller's that no longer waits for anything (I1), or OUT_OF_EVENTS."""
    if l[DEPTH] > 0:
        l[DEPTH] -= 1
        return c.stack[me, l[DEPTH]]
    while True:
        while l[NEXT] < l[LAST]:
            i = l[NEXT]
            l[NEXT] += 1
            if load_relaxed(c.pending, i) == 0:  # S1
                return i
        if not take_block(me, c, l, config, executed):
            return steal(me, c, config)


@kernel
def take_block(me, c, l, config, executed):
    """Take the next block of events shared by all executors, or of the half shared by half of them."""
    sharing = c.rows[config, SHARING]
    if sharing == SHARED_NOTHING:
        return False
    start, end, cursor = 0, executed, CURSOR
    if sharing == SHARED_SOCKET:
        threads = c.rows[config, THREADS]
        is_second = me >= (threads + 1) // 2
        middle = executed * ((threads + 1) // 2) // threads
        start = middle if is_second else 0
        end = executed if is_second else middle
        cursor = CURSOR_2 if is_second else CURSOR
    first = start + fetch_add(c.words, cursor, BLOCK)
    if first >= end:
        return False
    l[NEXT] = first
    l[LAST] = min(end, first + BLOCK)
    return True


@kernel
def count_down(me, c, l, i):
    """E2: event `i` waits for one thing less; the executor that removes the last one runs it (I1)."""
    if fetch_add(c.pending, i, -WAITING) & EDGE - 1 == WAITING:  # E2
        c.stack[me, l[DEPTH]] = i
        l[DEPTH] += 1


@kernel
def release_followers(me, c, l, i):
    """Event `i` is over: count down those behind it."""
    for o in range(c.set_at[i], c.set_at[i] + c.set_size[i]):
        behind = c.link[o]
        if behind >= 0:
            count_down(me, c, l, behind)
        elif behind <= FIRST_READ:
            read = FIRST_READ - behind
            while read != NOBODY:
                count_down(me, c, l, c.event_of[read])
                read = c.link_2[read]
