"""Windows over keys for aggregates: when they open, when they expire, and which tuples fall into the same ones.

Included in the module of each aggregate (`template`), which supplies

    to_units        event time in the unit of SIZE and ADVANCE: unchanged, or the local day (`local_days_kernel`)
    to_time         the first event time of a unit
    SLOTS           window instances a key may have at once
    IN_ORDER        whether tuples come in event-time order; else in order of arrival, with watermarks between them
    update_run      fold tuples into their windows; returns a failure code, or 0
    emit            write the results of a window's instances, and reset these
    emit_window     emit those of all keys owned: `emit_by_id`, or `ranked_kernel.emit_by_rank`
    forget          empty the sets that a window kept

A key id and a window determine the place of a window instance, ``id * SLOTS +
window % SLOTS``, so all live windows of a key lie together. A window instance whose count
is 0 does not exist.

State       `s`, see `shape.Layout`; per instance, NEXT_WINDOW and LAST_WINDOW
Invariants  I1  in the arrays by key an instance touches only the places of keys that
                it owns; ownership changes only at an epoch's barrier
            I2  windows before NEXT_WINDOW have expired: no place holds one, so the
                places of NEXT_WINDOW to NEXT_WINDOW + SLOTS - 1 are different
            I3  OPENED[slot] is written by every instance that sees the window's
                first tuple, and all write the same value
            I4  in order of arrival, a tuple's event time is less than the watermark
                plus LEAD, so no tuple falls into a window after LAST_WINDOW;
                OPENED[slot] is written when the watermark admits that window
Source      STRETCH, section 2.1 (A), Definition 5 (A+), Algorithm 2.
Checked     tests/headrace/elastic/test_oracle.py, test_fold.py, test_planted_bugs.py
"""

# ruff: noqa: F821  (the names above)

from headrace.elastic.failures import COUNT_OVERFLOW
from headrace.elastic.instance_loop import (
    ARRIVAL,
    FREE,
    IN_FORCE,
    LAST_WINDOW,
    LOW,
    NEXT_WINDOW,
    SCATTERED,
    SEEN,
    WATERMARK,
    WIDTH,
)
from headrace.elastic.windows_kernel import end_of_run, windows_of
from headrace.elastic.words import IDS
from headrace.kernel import kernel
from headrace.memory.atomics import load_acquire
from headrace.references import BUCKETS
from headrace.workers.worker_kernel import fail

# The instance's words after the loop's own.
SIZE, ADVANCE, LEAD = range(FREE, FREE + 3)

MOST_TUPLES = 1 << 32
"""Counts have 32 bits."""


@kernel
def promise(l):
    return l[WATERMARK]


@kernel
def hand_over(s, me, joiner):
    return


@kernel
def last_open(s, l):
    """The last window that a tuple may fall into until the watermark rises."""
    return to_units(s, l[WATERMARK] + l[LEAD] - 1) // l[ADVANCE]


@kernel
def begin(c, l, s, buffer):
    units = to_units(s, l[WATERMARK])
    l[NEXT_WINDOW] = (units - l[SIZE]) // l[ADVANCE] + 1
    l[LAST_WINDOW] = units // l[ADVANCE] if IN_ORDER else last_open(s, l)


@kernel
def find_windows(counts, first, place, low, width, buffer):
    """Write to `buffer` which owned buckets have a window instance in `place`, for the keys from `first` on; branch-free."""
    found = 0
    for bucket in range(low, low + width):
        buffer[found] = bucket
        found += counts[(first + bucket) * SLOTS + place] != 0
    return found


@kernel
def find_scattered(counts, first, place, owner, me, buffer):
    """The same as `find_windows` for a mapping that is not contiguous."""
    found = 0
    for bucket in range(BUCKETS):
        buffer[found] = bucket
        found += (counts[(first + bucket) * SLOTS + place] != 0) & (owner[bucket] == me)
    return found


@kernel
def emit_by_id(me, c, o, s, l, buffer, place, boundary):
    """Emit a window's results for the keys owned, in no particular order."""
    for row in range(load_acquire(c.words, IDS)):
        first = row * BUCKETS
        if l[SCATTERED] == 0:
            found = find_windows(s.counts, first, place, l[LOW], l[WIDTH], buffer)
        else:
            found = find_scattered(s.counts, first, place, c.owner[l[IN_FORCE]], me, buffer)
        if emit(me, o, s, l, buffer[:found], first, place, boundary) < 0:
            return -1
    return 0


@kernel
def expire_window(me, c, o, s, l, buffer, window):
    """Emit the results of a window for the keys owned."""
    place = window % SLOTS
    boundary = to_time(s, window * l[ADVANCE] + l[SIZE])
    if l[SEEN] - s.opened[place] >= MOST_TUPLES:  # one of its counts may have wrapped around
        fail(c, COUNT_OVERFLOW, me, 0, boundary, 0, 0)
        return -1
    if emit_window(me, c, o, s, l, buffer, place, boundary) < 0:
        return -1
    forget(me, c, s, l, place)
    return 0


@kernel
def advance_time(me, g, c, o, x, s, l, buffer, ts):
    """Expire every window that ends at or before `ts`."""
    window = l[NEXT_WINDOW]
    expired = (to_units(s, ts) - l[SIZE]) // l[ADVANCE]
    last = min(l[LAST_WINDOW], expired)
    while window <= last:
        if expire_window(me, c, o, s, l, buffer, window) < 0:
            return -1
        window += 1
    l[NEXT_WINDOW] = max(l[NEXT_WINDOW], expired + 1)
    l[WATERMARK] = ts
    if not IN_ORDER:
        for window in range(max(l[LAST_WINDOW] + 1, l[NEXT_WINDOW]), last_open(s, l) + 1):
            s.opened[window % SLOTS] = l[SEEN]
        l[LAST_WINDOW] = max(l[LAST_WINDOW], last_open(s, l))
    return 0


@kernel
def finish(me, g, c, o, x, s, l, buffer):
    """Expire every window that is open."""
    while l[NEXT_WINDOW] <= l[LAST_WINDOW]:
        if expire_window(me, c, o, s, l, buffer, l[NEXT_WINDOW]) < 0:
            return -1
        l[NEXT_WINDOW] += 1
    return 0


@kernel
def process(me, g, c, o, x, s, l, buffer, row, start, count):
    """Fold tuples run by run: the tuples of a run come from one source, lie in one chunk, and fall into the same windows."""
    ts = g.out_ts[row, start : start + count]
    refs = g.out_ref[row, start : start + count]
    i = 0
    while i < count:
        t = ts[i]
        earliest, latest, turn = windows_of(to_units(s, t), l[SIZE], l[ADVANCE])
        if IN_ORDER and earliest > l[NEXT_WINDOW]:
            l[ARRIVAL] = g.out_at[row, start + i]
            if advance_time(me, g, c, o, x, s, l, buffer, t) < 0:
                return -1
        while IN_ORDER and l[LAST_WINDOW] < latest:
            # The first tuple of a window (I3).
            l[LAST_WINDOW] = max(l[LAST_WINDOW] + 1, earliest)
            s.opened[l[LAST_WINDOW] % SLOTS] = l[SEEN] + i
        until = end_of_run(ts, refs, i, to_time(s, turn), ROWS_FOLLOW)
        code = update_run(me, c, x, s, l, buffer, refs[i], until - i, earliest, latest)
        if code != 0:
            fail(c, code, me, refs[i], t, 0, 0)
            return -1
        i = until
    if IN_ORDER:
        l[WATERMARK] = ts[count - 1]
    return 0
