"""Joins, J and J+: how instances handle time, positions and results, however pairs are found.

Included in the module of each join (`template`), which supplies

    LEFT_WIDTH, RIGHT_WIDTH     words of a chunk in the directories of each side
    process_group               compare at most `GROUP` records with the stored tuples of the
                                other side and with each other, and emit the pairs that match

The stored tuples of a side are the rows in its sources' stores: a tuple is stored
once it is published.

State       in `s`  sides[s] LEFT or RIGHT, by source; for worker r: low[r, s], the first
            row of source s that can still match, and high[r, s], how many rows of
            it come before the worker's position
            in `l`  SIZE of the window; RUNS, see `all_pairs_kernel`; LATER and EARLIER,
            the pair for which a user's predicate is called
Invariants  I1  a worker that has published watermark W reads no row with
                ts <= W - SIZE: `low` is moved past them before W is published, so
                the collector may free them
            I2  a joiner starts with the `low` and `high` of the last arriver
Source      STRETCH, Operator 10 and section 8.3; ScaleJoin.
Checked     tests/headrace/elastic/test_join.py, test_indexed_join.py
"""

# ruff: noqa: F821  (the names above)

from headrace.egress.rings import reserve_slot
from headrace.elastic.instance_loop import FREE, HEAD, SEEN, WATERMARK
from headrace.ingress.store import CHUNK, TS
from headrace.ingress.store_kernel import entry_of, place_of
from headrace.kernel import kernel
from headrace.memory.atomics import view_i64

# The instance's words after the loop's own.
SIZE, RUNS, LATER, EARLIER = range(FREE, FREE + 4)

GROUP = 64
"""Records that are processed together."""

LEFT, RIGHT, NEITHER = range(3)


@kernel
def promise(l):
    return l[SEEN] - 1


@kernel
def hand_over(s, me, joiner):
    for source in range(s.sides.size):
        s.low[joiner, source] = s.low[me, source]
        s.high[joiner, source] = s.high[me, source]


@kernel
def forget(me, x, s, horizon):
    """Move `low` past the rows with ts <= horizon, in every source (I1)."""
    for source in range(s.sides.size):
        width = LEFT_WIDTH if s.sides[source] == LEFT else RIGHT_WIDTH
        low = s.low[me, source]
        high = s.high[me, source]
        while low < high:
            ts = view_i64(x[source, entry_of(low, width) + TS], CHUNK)
            at = place_of(low)
            stop = min(CHUNK, at + high - low)
            if ts[stop - 1] <= horizon:
                low += stop - at
                continue
            while ts[at] <= horizon:
                at += 1
                low += 1
            break
        s.low[me, source] = low


@kernel
def advance_time(me, g, c, o, x, s, l, buffer, ts):
    forget(me, x, s, ts - l[SIZE])
    l[WATERMARK] = ts
    return 0


@kernel
def process(me, g, c, o, x, s, l, buffer, row, start, count):
    done = 0
    while done < count:
        n = min(GROUP, count - done)
        if process_group(me, g, c, o, x, s, l, buffer, row, start + done, l[SEEN] + done, n) < 0:
            return -1
        done += n
    ts = g.out_ts[row, start + count - 1]
    forget(me, x, s, ts - l[SIZE])
    l[WATERMARK] = ts
    return 0


@kernel
def finish(me, g, c, o, x, s, l, buffer):
    return 0


@kernel
def emit(me, o, s, l, position, at, ref, ts, other_ref, other_ts, is_right):
    """Write a pair: the later tuple, its position and arrival time; the earlier tuple; whether the later one is a right one."""
    slot = reserve_slot(o, me, l[HEAD])
    if slot < 0:
        return -1
    o.primary[me, slot] = position
    o.a[me, slot] = ref
    o.b[me, slot] = other_ref
    o.c[me, slot] = other_ts
    o.at[me, slot] = at
    s.later_ts[me, slot] = ts
    s.later_is_right[me, slot] = is_right
    l[HEAD] += 1
    return 0
