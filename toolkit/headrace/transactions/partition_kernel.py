"""PAT: the records of an executor are one partition, and transactions enter each partition in the order of events.

An event's number in a partition is the number of events before it in the batch that touch
that partition. It may run when that many have left, in each of its partitions. An
executor runs the events whose first record it owns, in their order: a transaction
whose records are in one partition never waits.

State       link[o]     the event's number in the partition of this record, within
                        its slice; -1 where an earlier record of the event is in
                        the same partition
            base[me]    per slice and partition: how many events of the slices
                        before touch it. Each executor has a table of its own
            part_at[me, p]      how many events of its slice touch p (then read by
                        all); order: the events of the slice by the executor that runs them
            served[p]   events that have left partition p in this batch
Invariants  I1  numbers of a partition are 0, 1, 2, ... in the order of events: each is
                a sum over slices, so no executor goes through all events
            I2  an executor runs its events in rising order, so the earliest
                remaining event waits for none (no deadlock)
Ordering    E1 what an event writes, E2 store_release served; T1 load_acquire
            served, T2 the event reads. Only one event may leave next, so E2 needs
            no read-modify-write
Source      TStream, section II-C ("PAT"), after S-Store. Differs: an event is run by
            the owner of its first record, not by the executor it was dealt to; there
            are as many partitions as executors, and no locks behind the counters,
            since the event that is served has its partitions to itself.
Checked     tests/headrace/transactions/test_interleave.py, test_interleave_parts.py, test_executors.py
"""

from headrace.kernel import kernel
from headrace.memory.atomics import CELL, load_relaxed, store_release
from headrace.references import BUCKET_MASK
from headrace.transactions.phases_kernel import await_value
from headrace.transactions.words import LAST, NEXT, OUT_OF_EVENTS, PART, STOP_SEEN, THREADS


@kernel
def number_slice(me, c, config, first, fit):
    """Number the events of a slice in each partition that they touch, and arrange them by the executor that runs them."""
    threads = c.rows[config, THREADS]
    for p in range(2 * threads + 1):
        c.part_at[me, p] = 0
    for p in range(threads):
        c.base[me, p] = -1  # the last event that was seen to touch p
    for i in range(first, fit):
        home = me
        for o in range(c.set_at[i], c.set_at[i] + c.set_size[i]):
            p = c.owner[config, c.sets[o] >> 1 & BUCKET_MASK]
            if o == c.set_at[i]:
                home = p
            c.link[o] = -1
            if c.base[me, p] != i:
                c.base[me, p] = i
                c.link[o] = c.part_at[me, p]
                c.part_at[me, p] += 1
        c.pending[i] = home
        c.part_at[me, threads + home + 1] += 1
    at = first
    for p in range(threads + 1):
        at += c.part_at[me, threads + p]
        c.part_at[me, threads + p] = at
    for i in range(first, fit):
        p = threads + c.pending[i]
        c.order[c.part_at[me, p]] = i
        c.part_at[me, p] += 1
    for p in range(2 * threads, threads, -1):
        c.part_at[me, p] = c.part_at[me, p - 1]
    c.part_at[me, threads] = first


@kernel
def start_slices(me, c, config):
    """Count, for each slice, how many events of the slices before it touch each partition."""
    threads = c.rows[config, THREADS]
    for p in range(threads):
        before = 0
        for part in range(threads):
            c.base[me, part * threads + p] = before
            before += c.part_at[part, p]


@kernel
def take_in_partition(me, c, l, config, executed):
    """Take the executor's next event, once its turn has come in all partitions; OUT_OF_EVENTS, or STOP_SEEN."""
    threads = c.rows[config, THREADS]
    while True:
        while l[NEXT] >= l[LAST]:
            l[PART] += 1
            if l[PART] >= threads:
                return OUT_OF_EVENTS
            l[NEXT] = c.part_at[l[PART], threads + me]
            l[LAST] = c.part_at[l[PART], threads + me + 1]
        i = c.order[l[NEXT]]
        l[NEXT] += 1
        if i >= executed:
            l[NEXT] = l[LAST]
            continue
        for o in range(c.set_at[i], c.set_at[i] + c.set_size[i]):
            if c.link[o] >= 0:
                p = c.owner[config, c.sets[o] >> 1 & BUCKET_MASK]
                number = c.base[me, l[PART] * threads + p] + c.link[o]
                if not await_value(me, c, c.served, p * CELL, number):  # T1
                    return STOP_SEEN
        return i


@kernel
def leave_partitions(c, config, i):
    """E2: event `i` is over."""
    for o in range(c.set_at[i], c.set_at[i] + c.set_size[i]):
        if c.link[o] >= 0:
            p = c.owner[config, c.sets[o] >> 1 & BUCKET_MASK] * CELL
            store_release(c.served, p, load_relaxed(c.served, p) + 1)  # E2


__all__ = ["leave_partitions", "number_slice", "start_slices", "take_in_partition"]
