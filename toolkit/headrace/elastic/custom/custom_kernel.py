"""Windows over keys for user functions: ticks, emission, expiry, and which tuples fall into the same windows.

Included in the module of each custom operator (`template`), which supplies

    to_units        event time in the unit of SIZE and ADVANCE: unchanged, or the local day (`local_days_kernel`)
    to_time         the first event time of a unit
    SLOTS           window instances a key may have at once; 1 if IS_SINGLE
    IS_SINGLE       one instance per key (WT=single), which slides
    IS_HELD_BACK    a result waits until event time has passed its boundary
    update_run      f_U for tuples of one chunk that fall into the same windows; `buffer` has room for a batch
    close_window    f_O for a window instance, and f_S: 1 if it slides on, 0 if it ends, -1 if the run has stopped

Fields of a window instance lie where an aggregate's do: ``id * SLOTS + window %
SLOTS``; with one window instance per key there is one slot, because all of them
are then at the earliest window that has not expired. An instance of the operator
touches only keys that it owns, and ownership changes only at an epoch's barrier,
so nothing is atomic and nothing is transferred.

What `update` emits carries the right boundary of its window. Where windows
overlap (multi, WS > WA) a later tuple may emit for an earlier boundary, so a
result is held back until its boundary has passed: the promise is the watermark.
The same holds where only `output` emits: it is called when the boundary has
passed, so nothing waits for longer.
Elsewhere boundaries never fall, so a result is released as soon as the position
of its tuple has passed: the promise counts *ticks*, the tuples and heartbeats
read so far, which every instance numbers alike. In both cases results are
ordered by (boundary, cause, key, emission). The cause of a result that a tuple
emits is 2 * tick + 1; causes of results that time alone emits are even; and
the cause of results of `output` comes last.

Invariants  I1  TICKS of all members are equal at a barrier; a joiner gets the
                last arriver's (`hand_over`)
            I2  the words CAUSE_* and the snapshot describe the call in progress
Source      STRETCH section 4.2, Table I, Algorithm 2, with the corrections of
            `headrace.reference.operators`.
Checked     tests/headrace/elastic/test_custom.py
"""

# ruff: noqa: F821  (the names above)

import numpy as np

from headrace.elastic.instance_loop import (
    ARRIVAL,
    FREE,
    IN_FORCE,
    LAST_WINDOW,
    LOW,
    ME,
    NEXT_WINDOW,
    SCATTERED,
    WATERMARK,
    WIDTH,
)
from headrace.elastic.windows_kernel import end_of_run, windows_of
from headrace.elastic.words import IDS
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, load_acquire
from headrace.references import BUCKET_MASK, BUCKETS

# The instance's words after the loop's own.
(
    SIZE,
    ADVANCE,
    TICKS,
    HALTED,  # the run stopped while a function emitted
    CAUSE_REF,  # the tuple, if the call in progress is of `update`
    CAUSE_KEY,  # the key of the call in progress
    CAUSE_BOUNDARY,  # the right boundary of its window
    STAGE,  # which function is called
    SNAPSHOT,  # from here on: the fields' values before the call, if it may change them and then fail
) = range(FREE, FREE + 9)

UPDATE, OUTPUT, SLIDE = 1, 2, 3
"""Stages."""

COMES_LAST = np.iinfo(np.int64).max
"""The cause of results that `output` emits."""


@kernel
def promise(l):
    return l[WATERMARK] if IS_HELD_BACK else 2 * l[TICKS] - 1


@kernel
def hand_over(s, me, joiner):
    s.tick_of[joiner * CELL] = s.tick_of[me * CELL]


@kernel
def begin(c, l, s, buffer):
    units = to_units(s, l[WATERMARK])
    l[NEXT_WINDOW] = (units - l[SIZE]) // l[ADVANCE] + 1
    l[LAST_WINDOW] = units // l[ADVANCE]
    l[TICKS] = s.tick_of[l[ME] * CELL]


@kernel
def count_ticks(s, l, me, count):
    l[TICKS] += count
    s.tick_of[me * CELL] = l[TICKS]


@kernel
def expire_window(me, c, o, s, l, window, cause):
    """Close a window for the keys owned. Returns how many window instances slide on, or -1 if the run has stopped."""
    kept = 0
    place = window % SLOTS
    boundary = to_time(s, window * l[ADVANCE] + l[SIZE])
    rows = load_acquire(c.words, IDS)
    present = s.present
    if l[SCATTERED] == 0:
        for row in range(rows):
            first = row * BUCKETS + l[LOW]
            for b in range(l[WIDTH]):
                key = first + b
                p = key * SLOTS + place
                if present[p] != 0:
                    kept += close_window(me, c, o, s, l, key, p, window, boundary, cause)
                    if l[HALTED] != 0:
                        return -1
    else:
        owner = c.owner[l[IN_FORCE]]
        for key in range(rows * BUCKETS):
            p = key * SLOTS + place
            if present[p] != 0 and owner[key & BUCKET_MASK] == me:
                kept += close_window(me, c, o, s, l, key, p, window, boundary, cause)
                if l[HALTED] != 0:
                    return -1
    return kept


@kernel
def expire_until(me, c, o, s, l, last, cause):
    """Close every window up to `last`."""
    window = l[NEXT_WINDOW]
    while window <= last:
        kept = expire_window(me, c, o, s, l, window, cause)
        if kept < 0:
            return -1
        window += 1
        if IS_SINGLE and kept == 0:
            break  # all instances are at the same window, so none is left
    return 0


@kernel
def expire(me, c, o, s, l, ts, cause):
    """Close every window that ends at or before `ts`."""
    expired = (to_units(s, ts) - l[SIZE]) // l[ADVANCE]
    if expire_until(me, c, o, s, l, min(l[LAST_WINDOW], expired), cause) < 0:
        return -1
    l[NEXT_WINDOW] = max(l[NEXT_WINDOW], expired + 1)
    return 0


@kernel
def advance_time(me, g, c, o, x, s, l, buffer, ts):
    if expire(me, c, o, s, l, ts, 2 * l[TICKS]) < 0:
        return -1
    count_ticks(s, l, me, 1)
    l[WATERMARK] = ts
    return 0


@kernel
def finish(me, g, c, o, x, s, l, buffer):
    return expire_until(me, c, o, s, l, l[LAST_WINDOW], 2 * l[TICKS])


@kernel
def process(me, g, c, o, x, s, l, buffer, row, start, count):
    """Update windows run by run: the tuples of a run lie in one chunk, and fall into the same windows."""
    ts = g.out_ts[row, start : start + count]
    refs = g.out_ref[row, start : start + count]
    ats = g.out_at[row, start : start + count]
    i = 0
    while i < count:
        t = ts[i]
        earliest, latest, turn = windows_of(to_units(s, t), l[SIZE], l[ADVANCE])
        if earliest > l[NEXT_WINDOW]:
            l[ARRIVAL] = ats[i]
            if expire(me, c, o, s, l, t, 2 * (l[TICKS] + i)) < 0:
                return -1
        l[LAST_WINDOW] = max(l[LAST_WINDOW], latest)
        until = end_of_run(ts, refs, i, to_time(s, turn), ROWS_FOLLOW)
        if update_run(me, c, o, x, s, l, buffer, ats[i:until], l[TICKS] + i, refs[i], until - i, earliest, latest) < 0:
            return -1
        i = until
    count_ticks(s, l, me, count)
    l[WATERMARK] = ts[count - 1]
    return 0
