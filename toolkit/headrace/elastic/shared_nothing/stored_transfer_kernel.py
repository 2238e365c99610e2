"""The transfer of a shared-nothing join: its state is the tuples it stores.

Included in the module of such an instance, which supplies `copy_left` and
`copy_right` (copy the columns of a row from one instance's store to another's) and
the widths of the directories.

An instance owns the tuples of its buckets. It has received every tuple that arrived while
it was a member, and needs the times of all tuples to know which are too old.
"""

# ruff: noqa: F821  (the names above)

from headrace.elastic.join.join_kernel import LEFT
from headrace.elastic.shared_nothing.transfer_kernel import note_transfer
from headrace.ingress.store import CHUNK, TS
from headrace.ingress.store_kernel import entry_of, place_of
from headrace.kernel import kernel
from headrace.memory.atomics import now_ns, view_i64
from headrace.references import BUCKET_MASK


@kernel
def transfer(me, c, s, config, next_config, epoch):
    """Copy stored tuples to the new owners of their buckets, and all event times to joiners."""
    begun = now_ns()
    moved = 0
    sources = s.sides.size
    for source in range(sources):
        is_left = s.sides[source] == LEFT
        low = s.low[me, source]
        high = s.high[me, source]
        for r in range(c.member.shape[1]):
            if c.member[next_config, r] != 0 and c.member[config, r] == 0:
                at = r * sources + source
                view_i64(s.all_low[r], at + 1)[at] = low
                view_i64(s.all_high[r], at + 1)[at] = high
                moved += copy_times(s.stores, source, LEFT_WIDTH if is_left else RIGHT_WIDTH, low, high, me, r)
        for row in range(low, high):
            bucket = row & BUCKET_MASK
            old = c.owner[config, bucket]
            new = c.owner[next_config, bucket]
            if old != new:
                moved += copy_left(s.stores, source, row, old, new) if is_left else copy_right(s.stores, source, row, old, new)
    note_transfer(s, epoch, moved, now_ns() - begun)


@kernel
def copy_times(stores, source, width, low, high, me, r):
    """Copy the event times of rows from instance `me` to instance `r`. Returns the bytes."""
    row = low
    while row < high:
        at = place_of(row)
        stop = min(CHUNK, at + high - row)
        entry = entry_of(row, width)
        here = view_i64(stores[me, source, entry + TS], CHUNK)
        there = view_i64(stores[r, source, entry + TS], CHUNK)
        for i in range(at, stop):
            there[i] = here[i]
        row += stop - at
    return 8 * (high - low)
