"""Operation chains as in the paper: a concurrent skip list for each record, into which all executors insert.

An alternative to `chains_kernel`, for comparison: nothing is sorted by part, but each operation has to find its place.

    record r    HEAD ------------> o8 ------> NIL        level 1: every fourth, 2: every sixteenth, 3: every 64th
                HEAD -> o2 -> o5 -> o8 -> o9 -> NIL      level 0: all, in the order of events

State       links[node, level]  the node behind, as operation + 1; 0: none. Nodes are the records' heads, then operations
            fingers[me, record]   STAMP, the phase in which executor `me` inserted there last; by level, the operation
                        (+ 1; 0: the head) behind which its next insertion belongs (private)
            part_at[me, p]   the operation (+ 1) with which `me` last began a chain of part p; link_2[o]: the one before
                        (private, then read by all)
Invariants  I1  a level is sorted by operation, and part of the level below; nothing is taken out while executors insert
            I2  operations of a slice are contiguous and inserted in order, so no executor inserts between two operations
                of another: a finger is exact, except for operations of earlier slices behind it
            I3  of the executors that insert into an empty chain, exactly one finds it empty in A2 of level 0: it begins
                the chain
            I4  heads are 0 between two batches: the executor that runs a chain clears its head, or, where no event of the
                batch is executed, the one that began it
Ordering    A1 write links[o, level], A2 CAS of the link before (acq_rel); S1 load_acquire of a link: S1 sees A1.
            Level 0 first, so a node that is found on a level is on all below
            The rest is ordered by the barriers before and after (`phases_kernel`), as in `chains_kernel`
Progress    Lock-free: A2 fails only where another executor has inserted.
Source      TStream, section IV-C; Pugh 1989. Heights as in `gates.skip_list_kernel`. Differs: fingers, which make all but an
            executor's first operation on a record take its place without a search.
Checked     tests/headrace/transactions/test_skip_chains.py
"""

from headrace.gates.skip_list_kernel import LEVELS, levels_of
from headrace.kernel import kernel
from headrace.memory.atomics import compare_exchange, load_acquire, store_relaxed
from headrace.transactions.chains_kernel import part_of, parts_of
from headrace.transactions.key_sets_kernel import FIRST_OPERATION, SET_AT
from headrace.transactions.words import AT_PHASE

STAMP, FINGER = 0, 1
FINGER_WORDS = 8
"""Words of a record's fingers, for one executor: a cache line."""
MIX = 2654435761
"""Knuth's multiplier: heights must not correlate with the number of operations of an event."""


@kernel
def has_skip_lists(c):
    """Whether chains are skip lists in this run."""
    return c.links.size != 0


@kernel
def link_behind(c, record, at, level):
    """Where the link behind operation `at` - 1, or behind the head, lies."""
    node = record if at == 0 else c.heads.size + at - 1
    return node * LEVELS + level


@kernel
def last_before(c, record, at, level, o):
    """Go along a level from `at` to the last operation before `o`."""
    while True:
        after = load_acquire(c.links, link_behind(c, record, at, level))  # S1
        if after == 0 or after > o:
            return at
        at = after


@kernel
def find_place(me, c, record, o, height, stamp):
    """Set the executor's fingers on the levels that operation `o` will be on."""
    finger = record * FINGER_WORDS
    is_known = c.fingers[me, finger + STAMP] == stamp
    at = 0
    for level in range((height if is_known else LEVELS) - 1, -1, -1):
        if is_known:
            at = max(at, c.fingers[me, finger + FINGER + level])
        at = last_before(c, record, at, level, o)
        c.fingers[me, finger + FINGER + level] = at
    c.fingers[me, finger + STAMP] = stamp


@kernel
def insert(me, c, record, o, stamp):
    """Link operation `o` into the chain of its record. True if it begins the chain."""
    height = levels_of(o * MIX >> 16)
    find_place(me, c, record, o, height, stamp)
    begins = False
    for level in range(height):
        place = record * FINGER_WORDS + FINGER + level
        at = c.fingers[me, place]
        own = link_behind(c, record, o + 1, level)
        while True:
            at = last_before(c, record, at, level, o)
            before = link_behind(c, record, at, level)
            after = load_acquire(c.links, before)  # S1
            if after != 0 and after <= o:
                continue
            store_relaxed(c.links, own, after)  # A1
            if compare_exchange(c.links, before, after, o + 1):  # A2
                break
        if level == 0:
            begins = at == 0 and after == 0
        c.fingers[me, place] = o + 1
    return begins


@kernel
def insert_slice(me, c, l, config):
    """Insert the operations of the executor's slice, and note which chains these begin, by part."""
    parts = parts_of(c, config)
    for p in range(parts):
        c.part_at[me, p] = 0
    for o in range(c.filling[me, FIRST_OPERATION], c.filling[me, SET_AT]):
        record = c.sets[o] >> 1
        if insert(me, c, record, o, l[AT_PHASE]):
            p = part_of(c, config, record, parts)
            c.link_2[o] = c.part_at[me, p]
            c.part_at[me, p] = o + 1


@kernel
def clear_head(c, record):
    """I4: the chain of a record is empty again."""
    for level in range(LEVELS):
        c.links[record * LEVELS + level] = 0


@kernel
def forget_slice(me, c, config):
    """Clear the chains that this executor has begun, since no executor will run them."""
    for p in range(parts_of(c, config)):
        begun = c.part_at[me, p]
        while begun != 0:
            clear_head(c, c.sets[begun - 1] >> 1)
            begun = c.link_2[begun - 1]


__all__ = ["LEVELS", "clear_head", "forget_slice", "has_skip_lists", "insert_slice"]
