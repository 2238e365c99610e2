"""Operation chains: the operations on a record in the order of events, one executor for each record.

For transactions whose operations do not depend on each other's reads. Nothing is
sorted and nothing locked. The records are divided into parts. Slices of the batch are contiguous
in time, so an executor meets a part's operations in the order of events when it goes
through that part of slice 0, then of slice 1, and so on.

    slice 0 (executor 0 noted it)     | part 0: a1 c2 | part 1: b1 d2 |
    slice 1 (executor 1)              | part 0: a5    | part 1: d4 b5 |      part 1 runs b1 d2 d4 b5

State       entries, part_at   of each slice, its operations by part (private, then
                        read by all): `bounds_of`
            link[o]     its event, in one word with what else the operator notes of it; LEFT_OUT: it is in no chain
            CURSOR, CURSOR_2   where parts are shared: how many parts have been taken
Invariants  I1  a record is in one part, and a part is run by one executor
            I2  an executor runs a part's operations in the order of events
Ordering    by the barrier before (W1 to R2) and the one after, behind which
            post-processing reads what operations left. Two barriers come before the
            next batch, in which another executor may have the part
Progress    No executor waits before the barrier.
Source      TStream, section IV-C. Differs: no list for each record, since keeping
            them costs more than most operations; parts are the unit of stealing.
Checked     tests/headrace/transactions/test_interleave_operations.py, test_interleave_parts.py, test_executors.py
"""

from headrace.kernel import kernel
from headrace.memory.atomics import fetch_add
from headrace.references import BUCKET_MASK, BUCKETS
from headrace.transactions.combining_kernel import LEFT_OUT
from headrace.transactions.flow_kernel import deal_to_owners, first_dealt
from headrace.transactions.key_sets_kernel import FIRST_OPERATION, SET_AT
from headrace.transactions.words import (
    CURSOR,
    CURSOR_2,
    PART,
    SHARED_NOTHING,
    SHARED_SOCKET,
    SHARING,
    THREADS,
)

PARTS_EACH = 32
"""Parts for each executor, where parts are shared: the more there are, the better the load evens out."""


@kernel
def parts_of(c, config):
    """How many parts the records have; a power of two where parts are shared."""
    threads = c.rows[config, THREADS]
    if c.rows[config, SHARING] == SHARED_NOTHING:
        return threads
    parts = 1
    while parts * 2 <= min(BUCKETS, PARTS_EACH * threads):
        parts *= 2
    return parts


@kernel
def part_of(c, config, record, parts):
    """In which of the parts a record is."""
    bucket = record & BUCKET_MASK
    return c.owner[config, bucket] if c.rows[config, SHARING] == SHARED_NOTHING else bucket & (parts - 1)


@kernel
def sort_by_part(me, c, config):
    """Sort the operations of the executor's slice by the part of their records; the order of events stays."""
    if c.rows[config, SHARING] == SHARED_NOTHING:
        deal_to_owners(me, c, config, True)
        return
    start, stop = c.filling[me, FIRST_OPERATION], c.filling[me, SET_AT]
    parts = parts_of(c, config)
    for p in range(parts + 1):
        c.part_at[me, p] = 0
    for o in range(start, stop):
        if c.link[o] != LEFT_OUT:
            c.part_at[me, part_of(c, config, c.sets[o] >> 1, parts) + 1] += 1
    at = start
    for p in range(parts + 1):
        at += c.part_at[me, p]
        c.part_at[me, p] = at
    # part_at[p] is now where part p begins; placing moves it to where the part ends.
    for o in range(start, stop):
        if c.link[o] != LEFT_OUT:
            p = part_of(c, config, c.sets[o] >> 1, parts)
            c.entries[c.part_at[me, p]] = o
            c.part_at[me, p] += 1
    for p in range(parts, 0, -1):
        c.part_at[me, p] = c.part_at[me, p - 1]
    c.part_at[me, 0] = start


@kernel
def bounds_of(c, config, slice_of, p):
    """Where in `entries` a slice's operations on part `p` begin, and where they end."""
    if c.rows[config, SHARING] == SHARED_NOTHING or c.rows[config, THREADS] == 1:
        return first_dealt(c, slice_of, p), c.part_at[slice_of, p]
    return c.part_at[slice_of, p], c.part_at[slice_of, p + 1]


@kernel
def take_part(me, c, l, config):
    """Take the next part to run, or -1: the executor's own, or one that all executors share, or half of them."""
    threads, sharing = c.rows[config, THREADS], c.rows[config, SHARING]
    if sharing == SHARED_NOTHING:
        if l[PART] == me:
            return -1
        l[PART] = me
        return me
    parts = parts_of(c, config)
    if sharing == SHARED_SOCKET and threads > 1:
        first_half = parts * ((threads + 1) // 2) // threads
        if me >= (threads + 1) // 2:
            p = first_half + fetch_add(c.words, CURSOR_2, 1)
            return p if p < parts else -1
        parts = first_half
    p = fetch_add(c.words, CURSOR, 1)
    return p if p < parts else -1


__all__ = ["bounds_of", "part_of", "parts_of", "sort_by_part", "take_part"]
