"""SPECULATIVE's memory: each write of a batch makes a version of its row, which later events read.

Nothing is written in the tables while a batch is executed. An execution copies each row that it may write at its first
touch, and works on the copy; copies that have changed when it ends are published as the event's versions. Event i reads
the version of the last event before it, or the table's row if there is none. What was read is noted, so that it can be
looked up again: the execution is *valid* as long as that gives the same versions.

State       heads[r]    tag of the batch, then the node of the record's last version, + 1
            nodes[k]    EVENT that wrote, BEHIND: the node of the event before it, or ABSENT_NODE; VERSION: address of
                        the copy, then its state. A list runs from the last event to the first
            set_at[i]   the accesses of the event's last complete execution: where they begin, how many
            set_size[i] which executor ran that execution, and 1 if it raised an exception
            by access   sets: record, is it copied. link: the VERSION that was read, 0: the table's row. link_2: the
                        address that the function works on. event_of: address in the table, words of the row.
                        entries: the node that it published, or ABSENT_NODE
            filling[me] how far the executor's accesses, copies and nodes go
Invariants  I1  a list has one node for an event; event numbers decrease along it, and no node leaves it before the batch
                is over
            I2  a copy is not written after it is published, and its place is not used again in the batch: equal VERSIONs
                have equal contents
            I3  accesses do not change once set_at names them
            I4  an event is executed by one executor at a time (`speculation_kernel`): only that executor inserts nodes of
                the event, and stores WRITTEN and GONE; only the executor that found the execution invalid stores ESTIMATE
Ordering    P1 a copy is written, P2 store_release VERSION, or compare_exchange of the link that leads to the node
            R1 load_acquire VERSION, R2 the row is read                      P2 -> R1, so R2 sees P1
            S1 accesses are written, S2 store_release set_at, V1 load_acquire set_at, V2 they are read
Progress    Insertion is lock-free: it is tried again only if a concurrent one succeeded. Where there is no room left, the
            execution ends, and so does the batch's concurrent part.
Source      Block-STM (Gelashvili et al., PPoPP 2023), algorithms 2 and 3. Differs: lists by record and copies of rows in
            place of a concurrent map of values; a row that was written but has not changed is not published.
Checked     tests/headrace/transactions/test_speculative.py, test_interleave_speculative.py
"""

from headrace.kernel import kernel
from headrace.memory.atomics import (
    compare_exchange,
    load_acquire,
    prefetch,
    prefetch_for_write,
    store_release,
)
from headrace.transactions.key_sets_kernel import SET_AT, SET_BEGIN, SET_END, begin_set, find_noted
from headrace.transactions.words import (
    BLOCKED,
    BLOCKER,
    COPY_AT,
    COPY_END,
    NODE_AT,
    NODE_END,
    POLLS,
    TAG,
)
from headrace.workers.worker_kernel import stopped

NODE_BITS = 24
"""Bits of a head that hold the node; the tag is above them."""
EVENT, BEHIND, VERSION = range(3)
NODE_WORDS = 4
ABSENT_NODE = -1

WRITTEN, ESTIMATE, GONE = range(1, 4)
"""State of a VERSION: a value; a value of an invalid execution, to be waited for; none, since the event no longer writes this
row."""
STATE_BITS = 2
HOME_BITS = 16
"""Bits of `event_of` that hold the number of words of a row."""
SIZE_BITS = 31
"""Bits of `set_at` that hold the number of accesses."""
LOOKED_AFTER = 4096
"""Turns of a function's loops after which it checks whether what it has read is still valid."""

# What becomes of an execution, in `filling[me, BLOCKED]`.
GOES_ON, ON_ESTIMATE, NO_ROOM, DOOMED, RAISED = range(5)
NOTHING_NEW, WROTE_NEW = 5, 6
"""The execution is complete; with WROTE_NEW it has written a row that the event's previous execution did not write."""


@kernel
def latest_from(c, node, i):
    """Search from `node` for the last version before event `i`: its node and VERSION; ABSENT_NODE and 0: the table's row."""
    while node >= 0:
        if c.nodes[node * NODE_WORDS + EVENT] < i:
            version = load_acquire(c.nodes, node * NODE_WORDS + VERSION)  # R1
            if version & 3 != GONE:
                return node, version
        node = load_acquire(c.nodes, node * NODE_WORDS + BEHIND)
    return ABSENT_NODE, 0


@kernel
def latest(c, tag, record, i):
    """The node of the last version of a record before event `i`, and its VERSION; ABSENT_NODE and 0: the table's row."""
    head = load_acquire(c.heads, record)
    if head >> NODE_BITS != tag:
        return ABSENT_NODE, 0
    return latest_from(c, (head & ((1 << NODE_BITS) - 1)) - 1, i)


@kernel
def begin_execution(me, c):
    """Begin an execution of an event."""
    begin_set(c, me)
    c.filling[me, BLOCKED] = GOES_ON


@kernel
def touch_row(me, c, rows, i, record, home, size, is_copied):
    """Where event `i` finds a row: its own copy, if it may write it, else the last version before it.

    Negative if the execution ends here (BLOCKED says why). Outside a batch, and for an event that is executed alone, it
    is `home`, the place in the table.
    """
    tag = c.filling[me, TAG]
    if tag == 0:
        return home
    if c.filling[me, BLOCKED] != GOES_ON:
        return -1
    at = c.filling[me, SET_AT]
    if at >= c.filling[me, SET_END]:
        c.filling[me, BLOCKED] = NO_ROOM
        return -1
    o = find_noted(c, me, record, at)
    if o < 0:
        if is_copied:
            # Else the lines of the head and of the row are fetched one after the other, and again when they are written.
            prefetch_for_write(c.heads, record)
            prefetch_for_write(rows, home)
        else:
            prefetch(rows, home)
        node, version = latest(c, tag, record, i)
        if version & 3 == ESTIMATE:
            c.filling[me, BLOCKER] = c.nodes[node * NODE_WORDS + EVENT]
            c.filling[me, BLOCKED] = ON_ESTIMATE
            return -1
        o = at
        c.sets[o] = record << 1
        c.link[o] = version
        c.link_2[o] = home if version == 0 else version >> STATE_BITS
        c.event_of[o] = home << HOME_BITS | size
        c.entries[o] = ABSENT_NODE
        c.filling[me, SET_AT] = at + 1
    if is_copied and c.sets[o] & 1 == 0:
        copy = c.filling[me, COPY_AT]
        if copy + size > c.filling[me, COPY_END]:
            c.filling[me, BLOCKED] = NO_ROOM
            return -1
        seen = c.link_2[o]
        for k in range(size):
            rows[copy + k] = rows[seen + k]
        c.sets[o] |= 1
        c.link_2[o] = copy
        c.filling[me, COPY_AT] = copy + size
    return c.link_2[o]


@kernel
def raised(me, c):
    """The execution ends by an exception, which counts if what it has read is still valid in the end."""
    if c.filling[me, BLOCKED] == GOES_ON:
        c.filling[me, BLOCKED] = RAISED


@kernel
def is_doomed(me, c, i):
    """Whether a function should leave its loops: the run stops, or what it has read is no longer valid, so they may be endless.

    It is called in each turn, so it is short, to be inlined into the loop.
    """
    polls = c.filling[me, POLLS] + 1
    c.filling[me, POLLS] = polls
    return polls & (LOOKED_AFTER - 1) == 0 and should_leave(me, c, i)


@kernel
def should_leave(me, c, i):
    if stopped(c):
        return True
    if c.filling[me, TAG] == 0:
        return False
    if still_holds(c, c.filling[me, TAG], i, c.filling[me, SET_BEGIN], c.filling[me, SET_AT]):
        return False
    c.filling[me, BLOCKED] = DOOMED
    return True


@kernel
def is_changed(c, rows, o):
    """Whether a copy differs from what was read."""
    size = c.event_of[o] & ((1 << HOME_BITS) - 1)
    copy = c.link_2[o]
    seen = c.link[o] >> STATE_BITS if c.link[o] != 0 else c.event_of[o] >> HOME_BITS
    for k in range(size):
        if rows[copy + k] != rows[seen + k]:
            return True
    return False


@kernel
def publish_version(me, c, record, i, version):
    """P2: publish event `i`'s version of a record. Returns its node (ABSENT_NODE: no room) and its former state (0: none)."""
    tag = c.filling[me, TAG]
    while True:
        head = load_acquire(c.heads, record)
        node = (head & ((1 << NODE_BITS) - 1)) - 1 if head >> NODE_BITS == tag else ABSENT_NODE
        after = ABSENT_NODE
        while node >= 0 and c.nodes[node * NODE_WORDS + EVENT] > i:
            after = node
            node = load_acquire(c.nodes, node * NODE_WORDS + BEHIND)
        if node >= 0 and c.nodes[node * NODE_WORDS + EVENT] == i:
            before = load_acquire(c.nodes, node * NODE_WORDS + VERSION)
            store_release(c.nodes, node * NODE_WORDS + VERSION, version)  # P2
            return node, before & 3
        new = c.filling[me, NODE_AT]
        if new >= c.filling[me, NODE_END]:
            return ABSENT_NODE, 0
        c.nodes[new * NODE_WORDS + EVENT] = i
        c.nodes[new * NODE_WORDS + BEHIND] = node
        c.nodes[new * NODE_WORDS + VERSION] = version
        if after < 0:
            done = compare_exchange(c.heads, record, head, tag << NODE_BITS | (new + 1))  # P2
        else:
            done = compare_exchange(c.nodes, after * NODE_WORDS + BEHIND, node, new)  # P2
        if done:
            c.filling[me, NODE_AT] = new + 1
            return new, 0


@kernel
def end_execution(me, c, rows, i):
    """Publish what event `i` has written and what it has read. Returns what became of it, as named above."""
    outcome = c.filling[me, BLOCKED]
    if outcome != GOES_ON and outcome != RAISED:
        c.filling[me, SET_AT] = c.filling[me, SET_BEGIN]
        return outcome
    begin, end = c.filling[me, SET_BEGIN], c.filling[me, SET_AT]
    found = NOTHING_NEW
    if outcome == GOES_ON:
        for o in range(begin, end):
            if c.sets[o] & 1 and is_changed(c, rows, o):
                version = c.link_2[o] << STATE_BITS | WRITTEN
                node, before = publish_version(me, c, c.sets[o] >> 1, i, version)
                if node < 0:
                    return NO_ROOM
                c.entries[o] = node
                if before != ESTIMATE:
                    found = WROTE_NEW
    # Rows that the previous execution wrote, and this one did not, are still estimates.
    before = c.set_at[i]
    first = before >> SIZE_BITS
    for o in range(first, first + (before & ((1 << SIZE_BITS) - 1))):
        node = c.entries[o]
        if node >= 0:
            version = load_acquire(c.nodes, node * NODE_WORDS + VERSION)
            if version & 3 == ESTIMATE:
                store_release(c.nodes, node * NODE_WORDS + VERSION, version | GONE)
    c.set_size[i] = me << 1 | (1 if outcome == RAISED else 0)
    store_release(c.set_at, i, begin << SIZE_BITS | (end - begin))  # S2
    return RAISED if outcome == RAISED else found


@kernel
def still_holds(c, tag, i, begin, end):
    """Whether event `i` would read the same versions again."""
    for o in range(begin, end):
        own = c.entries[o]
        if own >= 0:
            _, version = latest_from(c, load_acquire(c.nodes, own * NODE_WORDS + BEHIND), i)
        else:
            _, version = latest(c, tag, c.sets[o] >> 1, i)
        if version != c.link[o]:
            return False
    return True


@kernel
def is_valid(c, tag, i):
    """Whether the last complete execution of event `i` read what it would read now."""
    accesses = load_acquire(c.set_at, i)  # V1
    begin = accesses >> SIZE_BITS
    return still_holds(c, tag, i, begin, begin + (accesses & ((1 << SIZE_BITS) - 1)))


@kernel
def find_estimate(c, tag, i):
    """The event whose estimate event `i` would read if it repeated its reads; -1 if there is none."""
    accesses = c.set_at[i]
    begin = accesses >> SIZE_BITS
    for o in range(begin, begin + (accesses & ((1 << SIZE_BITS) - 1))):
        node, version = latest(c, tag, c.sets[o] >> 1, i)
        if version & 3 == ESTIMATE:
            return c.nodes[node * NODE_WORDS + EVENT]
    return -1


@kernel
def make_estimates(c, i):
    """Event `i` will be executed again: readers of what it has written wait for that."""
    accesses = load_acquire(c.set_at, i)  # V1
    begin = accesses >> SIZE_BITS
    for o in range(begin, begin + (accesses & ((1 << SIZE_BITS) - 1))):
        node = c.entries[o]
        if node >= 0:
            version = load_acquire(c.nodes, node * NODE_WORDS + VERSION)
            store_release(c.nodes, node * NODE_WORDS + VERSION, version >> STATE_BITS << STATE_BITS | ESTIMATE)


@kernel
def write_back(me, c, rows, stop):
    """Write into the tables those of the last versions before event `stop` that the caller made: its cache has them."""
    tag = c.filling[me, TAG]
    for i in range(stop):
        if c.set_size[i] >> 1 != me:
            continue
        accesses = c.set_at[i]
        begin = accesses >> SIZE_BITS
        for o in range(begin, begin + (accesses & ((1 << SIZE_BITS) - 1))):
            if c.entries[o] >= 0:
                node, _ = latest(c, tag, c.sets[o] >> 1, stop)
                if node == c.entries[o]:
                    home, copy = c.event_of[o] >> HOME_BITS, c.link_2[o]
                    for k in range(c.event_of[o] & ((1 << HOME_BITS) - 1)):
                        rows[home + k] = rows[copy + k]


__all__ = [
    "NODE_WORDS",
    "begin_execution",
    "end_execution",
    "find_estimate",
    "is_doomed",
    "is_valid",
    "make_estimates",
    "raised",
    "touch_row",
    "write_back",
]
