"""The merged log: sources publish columns, one thread at a time merges them, all readers scan.

A record is (ts, ref). ref >= 0 is a tuple, ``source << 48 | row``; other values
are ``HEARTBEAT``, and ``-(1 + e)`` for the control record of epoch e.

State       per source  HEAD[s] records published, MARK[s] promise: no later
                        record has ts < MARK[s], MERGED[s] records merged,
                        ring_*[s, i % capacity] the records, FEEDING[s] 0 = not
                        a source, its MARK is then infinite
            log         END records in the log, out_*[0, i % capacity]
            per reader  CURSOR[r] records consumed, READING[r] activation id,
                        0 = not a reader
            FLAG        1 while a thread merges; AGAIN: a thread found it taken
            VERSION     odd while membership changes, see `membership_kernel`
Invariants  I1  MERGED[s] <= HEAD[s] <= MERGED[s] + ring capacity
            I2  only source s stores HEAD[s], MARK[s]; only the holder of FLAG
                stores END, MERGED, FLOOR and writes the log
            I3  END - CURSOR[r] <= log capacity for every active reader
            I4  the log is sorted by (ts, source, position), controls aside; where
                LEAD is above 0 it is not, see `arrival_kernel`; where there are
                ranks, by (ts, ranks), see `content_kernel`
Ordering    A1 write ring, A2 store_release HEAD, A3 store_release MARK
            M1 load_acquire all MARKs, M2 load_acquire all HEADs, M3 read rings
                    a thread that sees a promise sees the data it covers: A2 is
                    before A3, M1 before M2, so no record below the limit is
                    missed
            M4 write log, M5 store_release END; M6 store_release MERGED
            R1 load_acquire END, R2 read log          M5 -> R1: R2 sees M4
            R3 store_release CURSOR; M0 load_acquire CURSOR
                    a slot is reused only once every reader has passed it
            L1 store LIMIT, fence, L2 load CURSOR (M0, until LIMIT stays)
            R3 store CURSOR, fence, R4 load LIMIT: the reader wakes sources at half of it
                    one sees the other: a source that finds no room under a new
                    limit has seen the cursors of the readers that used the old
                    one; readers whose cursors it has not seen use the new one
            F1 (loser) AGAIN := 1, fence, read FLAG
            F2 (holder) FLAG := 0, fence, read AGAIN
                    one of them sees the other: what was published during a
                    merge is merged by the holder or by the loser
            U1 load_acquire MERGED, U2 load_acquire END, U3 load_acquire the CURSORs
                    END is stored before MERGED: what U1 counts lies below U2's END. At most
                    END - CURSOR of the log's records are unread; so of one source at most
                    that many are, and those in its ring
            J1 store_release CURSOR, J2 store_release READING
                    a thread that sees the activation sees where it starts. READING is an
                    id, not a flag, so that a reader that left and rejoined at once notices it
Progress    A holder of FLAG that is preempted delays the merge by its time
            slice (not lock-free; the skip list in `scalegate` is). No thread
            blocks on FLAG: one that finds it taken goes on. Only `add_source`
            waits for it, inside a change of membership, so the holder of FLAG
            must never wait for membership: it does without a new snapshot.
Source      STRETCH, Table II and section 6 (what), a merged log instead of the
            skip list (how). A single source writes the log itself.
Checked     tests/headrace/gates (both gates), tests/litmus
"""

from typing import NamedTuple

import numpy as np

from headrace.gates.arrival_kernel import move_as_they_come
from headrace.gates.content_kernel import move_by_content
from headrace.gates.log_words import AGAIN, END, FLAG, FLOOR, LAST_SOURCE, LAST_TS, LEAD, LIMIT, SCANNED
from headrace.gates.membership_kernel import (
    DATA_EVENT,
    NOTHING,
    READERS_WAITING,
    SOURCES_WAITING,
    SPACE_EVENT,
    VERSION,
    close_membership,
    open_membership,
    slowest_reader,
    tuples_allowed,
    wake_readers,
    wake_sources,
)
from headrace.gates.merging_kernel import NEXT_AT, NEXT_TS, UNTIL, fetch_lines, move_many, move_two
from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    compare_exchange,
    exchange,
    fence,
    load_acquire,
    load_relaxed,
    now_ns,
    pause,
    store_relaxed,
    store_release,
)
from headrace.memory.bundle import by_reference
from headrace.progress import END_OF_TIME

CONTROL_RESERVE = 64
"""Log slots that only control records may take: a full log still takes one."""

MERGE_CHUNK = 1024
SCANS = 16
"""How often in LIMIT records it is checked whether the readers' costs have risen, even while there is room."""


@by_reference
class LogArrays(NamedTuple):
    """What the kernels share. Cells are ``CELL`` int64 words apart."""

    words: np.ndarray
    event: np.ndarray
    head: np.ndarray
    mark: np.ndarray
    merged: np.ndarray
    feeding: np.ndarray
    ring_ts: np.ndarray  # int64[sources, ring capacity]
    ring_ref: np.ndarray
    ring_at: np.ndarray  # arrival, monotonic ns
    out_ts: np.ndarray  # int64[1, log capacity]
    out_ref: np.ndarray
    out_at: np.ndarray
    cursor: np.ndarray
    reading: np.ndarray
    cost: np.ndarray  # per reader: its recent ns per record, 0 = unknown
    scratch: np.ndarray  # int64[SCRATCH_ROWS, sources], the merger's
    rank: np.ndarray  # int64[sources * ranks, rows]: what orders rows of equal ts; of no size: their source and position do
    rank_layout: np.ndarray  # int64[ranks]: 1 where a rank is the address of a string, whose length is the next one


@kernel
def lane(g, reader):
    """The row of `out_*` that `reader` reads: all readers share one log."""
    return 0


@kernel
def _room(g, end):
    """How many tuples the log has room for now. The caller holds FLAG."""
    limit = load_relaxed(g.words, LIMIT)
    floor = load_relaxed(g.words, FLOOR)
    room = floor + limit - end
    if room * 4 < limit or (end - load_relaxed(g.words, SCANNED)) * SCANS >= limit:
        known = False
        while not known:
            smallest, slowest = slowest_reader(g, g.cursor)  # M0, L2
            if smallest < 0:
                break  # the values known so far hold until the change ends, which wakes all threads that wait
            floor = smallest
            allowed = tuples_allowed(g, slowest, 1, floor)
            known = allowed == limit
            if not known:
                limit = allowed
                store_relaxed(g.words, LIMIT, limit)  # L1
                fence()
        store_relaxed(g.words, FLOOR, floor)
        store_relaxed(g.words, SCANNED, end)
        room = floor + limit - end
    return max(0, room)


@kernel
def _take_flag(g):
    return load_relaxed(g.words, FLAG) == 0 and compare_exchange(g.words, FLAG, 0, 1)


@kernel
def _append_direct(g, ts, start, count, first_ref, step, at):
    """Write records into the log; the caller holds FLAG and has made sure that there is room."""
    end = load_relaxed(g.words, END)
    mask = g.out_ts.shape[1] - 1
    for i in range(count):
        slot = (end + i) & mask
        g.out_ts[0, slot] = ts[start + i]
        g.out_ref[0, slot] = first_ref + i * step
        g.out_at[0, slot] = at
    store_relaxed(g.words, LAST_TS, ts[start + count - 1])
    store_release(g.words, END, end + count)  # M5


@kernel
def _move_in_order(g):
    """Move ready records from the rings to the log, in the log's order. Returns how many."""
    sources = g.head.size // CELL
    at, until, next_ts = g.scratch[NEXT_AT], g.scratch[UNTIL], g.scratch[NEXT_TS]
    mask = g.ring_ts.shape[1] - 1
    ready = 0
    limit_ts = NOTHING
    limit_source = 0
    for s in range(sources):  # M1
        mark = load_acquire(g.mark, s * CELL)
        if mark < limit_ts:
            limit_ts = mark
            limit_source = s
    for s in range(sources):  # M2
        at[s] = load_relaxed(g.merged, s * CELL)
        until[s] = load_acquire(g.head, s * CELL)
        next_ts[s] = g.ring_ts[s, at[s] & mask] if at[s] < until[s] else NOTHING
        ready += until[s] - at[s]
    first = load_relaxed(g.words, END)
    stop = first + min(ready, min(_room(g, first), MERGE_CHUNK))
    fetch_lines(g, first, stop)
    if sources == 2:
        end, last_source = move_two(g, limit_ts, limit_source, first, stop)
    else:
        end, last_source = move_many(g, limit_ts, limit_source, first, stop)
    if end > first:
        store_relaxed(g.words, LAST_TS, g.out_ts[0, (end - 1) & (g.out_ts.shape[1] - 1)])
        store_relaxed(g.words, LAST_SOURCE, last_source)
        store_release(g.words, END, end)  # M5
    return end - first


@kernel
def _merge_ready(g):
    """Move what is ready from the rings to the log, and free its slots. The caller holds FLAG.

    Returns
    -------
    count : int
        Records that came into the log.
    drained : bool
        A ring that was more than half full no longer is, and its source may be waiting for that.
    """
    if load_relaxed(g.words, LEAD) > 0:
        count = move_as_they_come(g, min(_room(g, load_relaxed(g.words, END)), MERGE_CHUNK))
    elif g.rank.shape[0] > 0:
        count = move_by_content(g, min(_room(g, load_relaxed(g.words, END)), MERGE_CHUNK))
    else:
        count = _move_in_order(g)
    at, until, half = g.scratch[NEXT_AT], g.scratch[UNTIL], g.ring_ts.shape[1] // 2
    drained = False
    for s in range(g.head.size // CELL):
        before = load_relaxed(g.merged, s * CELL)
        if at[s] != before:
            store_release(g.merged, s * CELL, at[s])  # M6
            drained |= before <= until[s] - half < at[s]
    return count, drained


@kernel
def merge(g):
    """Merge what is ready, unless another thread is merging. Returns the number of records merged here."""
    if g.head.size == CELL:
        return 0  # one source writes the log itself; taking FLAG here would only turn it away
    total = 0
    while True:
        if not _take_flag(g):
            store_release(g.words, AGAIN, 1)  # F1
            fence()
            if not _take_flag(g):
                return total
        exchange(g.words, AGAIN, 0)
        count, drained = _merge_ready(g)
        store_release(g.words, FLAG, 0)  # F2
        fence()
        total += count
        if count > 0:
            wake_readers(g)
        if drained:
            wake_sources(g)
        if load_relaxed(g.words, AGAIN) == 0:
            return total


@kernel
def add_records(g, source, ts, start, count, first_ref, step, mark):
    """Publish records ``(ts[start + i], first_ref + i * step)`` of `source`, and the promise `mark` or a larger one.

    Returns
    -------
    int
        How many were taken, 0 when the gate is full. Never blocks.
    """
    sources = g.head.size // CELL
    if sources == 1:
        if not _take_flag(g):
            return 0
        room = _room(g, load_relaxed(g.words, END))
        count = min(count, room)
        if count > 0:
            _append_direct(g, ts, start, count, first_ref, step, now_ns())
            head = load_relaxed(g.head, 0) + count
            store_release(g.head, 0, head)
            store_release(g.merged, 0, head)
            store_release(g.mark, 0, max(mark, ts[start + count - 1]))
        store_release(g.words, FLAG, 0)
        if count > 0:
            wake_readers(g)
        return count
    capacity = g.ring_ts.shape[1]
    head = load_relaxed(g.head, source * CELL)
    free = load_acquire(g.merged, source * CELL) + capacity - head
    if free < count:
        merge(g)
        free = load_acquire(g.merged, source * CELL) + capacity - head
    count = min(count, free)
    if count <= 0:
        return 0
    at = now_ns()
    for i in range(count):  # A1
        slot = (head + i) & (capacity - 1)
        g.ring_ts[source, slot] = ts[start + i]
        g.ring_ref[source, slot] = first_ref + i * step
        g.ring_at[source, slot] = at
    store_release(g.head, source * CELL, head + count)  # A2
    store_release(g.mark, source * CELL, max(mark, ts[start + count - 1]))  # A3
    fence()
    if (
        load_relaxed(g.words, READERS_WAITING) != 0
        or head + count - load_acquire(g.merged, source * CELL) >= MERGE_CHUNK // 4
    ):
        merge(g)
    return count


@kernel
def control(g, epoch):
    """Place the control record of `epoch` at the end of the log: that position is the boundary.

    It takes a reserved slot, so a full log takes it too, and needs no source to move.

    Returns
    -------
    int
        1 if placed, 0 if another thread holds FLAG or all reserved slots are taken: call again.
    """
    if not _take_flag(g):
        return 0
    end = load_relaxed(g.words, END)
    smallest, _ = slowest_reader(g, g.cursor)
    if smallest < 0:
        smallest = load_relaxed(g.words, FLOOR)  # no reader is before it, nor will one start before it
    if end - smallest >= g.out_ts.shape[1]:
        store_release(g.words, FLAG, 0)
        return 0
    slot = end & (g.out_ts.shape[1] - 1)
    g.out_ts[0, slot] = load_relaxed(g.words, LAST_TS)
    g.out_ref[0, slot] = -(1 + epoch)
    g.out_at[0, slot] = now_ns()
    store_release(g.words, END, end + 1)  # M5
    store_release(g.words, FLAG, 0)
    fence()
    if load_relaxed(g.words, AGAIN) != 0:
        merge(g)
    wake_readers(g)
    wake_sources(g)  # FLAG may have turned one away
    return 1


@kernel
def peek(g, reader, position, limit):
    """Find records to read from `position` on, without consuming them.

    Returns
    -------
    start, count : int
        They are ``out_*[lane, start:start+count]``; count 0 when none is ready.
    """
    end = load_acquire(g.words, END)  # R1
    if end == position:
        if merge(g) == 0:
            end = load_acquire(g.words, END)
            if end == position:
                return 0, 0
        end = load_acquire(g.words, END)
    start = position & (g.out_ts.shape[1] - 1)
    return start, min(end - position, limit, g.out_ts.shape[1] - start)


@kernel
def advance(g, reader, position):
    """Publish that everything before `position` is consumed; wake sources that wait for room.

    Sources are woken when a reader's backlog falls to half of the limit, not at
    every batch: when the gate is full, the slowest reader is still above that.
    """
    before = load_relaxed(g.cursor, reader * CELL)
    store_release(g.cursor, reader * CELL, position)  # R3
    fence()
    if load_relaxed(g.words, SOURCES_WAITING) != 0:
        half_full = load_acquire(g.words, END) - load_relaxed(g.words, LIMIT) // 2  # R4
        if before < half_full <= position:
            wake_sources(g)


@kernel
def unread_rows(g, source):
    """How many of a source's latest records may be unread, at most; -1 if membership is changing. Called by the source."""
    head = load_relaxed(g.head, source * CELL)
    merged = load_acquire(g.merged, source * CELL)  # U1
    end = load_acquire(g.words, END)  # U2
    smallest, _ = slowest_reader(g, g.cursor)  # U3
    return -1 if smallest < 0 else (head - merged) + max(0, end - smallest)


@kernel
def is_wakeup_due(g, source):
    """Whether readers are far enough for `advance` or `merge` to wake `source`, which found no room."""
    if g.head.size > CELL:
        waiting = load_relaxed(g.head, source * CELL) - load_acquire(g.merged, source * CELL)
        return waiting < g.ring_ts.shape[1] // 2
    smallest, _ = slowest_reader(g, g.cursor)
    return smallest >= 0 and smallest >= load_acquire(g.words, END) - load_relaxed(g.words, LIMIT) // 2


@kernel
def join_reader(g, reader, position, activation):
    """Start `reader` at `position`, inclusive. Between open_ and close_membership.

    The cursor is stored first: a thread that sees the activation sees where it starts.
    """
    store_release(g.cursor, reader * CELL, position)  # J1
    store_release(g.reading, reader * CELL, activation)  # J2


@kernel
def leave_reader(g, reader):
    """Stop counting `reader`'s cursor. Between open_ and close_membership."""
    store_release(g.reading, reader * CELL, 0)


@kernel
def source_floor(g, source):
    """The smallest ts that a record of `source` may have without preceding a record in the log.

    The caller holds FLAG, or nothing merges.
    """
    ts = load_relaxed(g.words, LAST_TS)
    if load_relaxed(g.words, LAST_SOURCE) > source:
        ts += 1  # (ts, source) would sort before the last record
    return ts


@kernel
def add_source(g, source):
    """Let `source` feed the gate. Between open_ and close_membership.

    It starts with the promise that its first record comes after everything in the
    log, so it never precedes anything that was delivered.

    Returns
    -------
    int
        1, or 0 if the slot feeds already, is not merged yet, or all input has ended.
    """
    if load_acquire(g.feeding, source * CELL) != 0:
        return 0
    while not _take_flag(g):
        pause()
    taken = 0
    floor = source_floor(g, source)
    if floor < END_OF_TIME and load_relaxed(g.merged, source * CELL) == load_acquire(g.head, source * CELL):
        store_release(g.mark, source * CELL, floor)
        store_release(g.feeding, source * CELL, 1)
        taken = 1
    store_release(g.words, FLAG, 0)
    fence()
    if load_relaxed(g.words, AGAIN) != 0:
        merge(g)
    return taken


@kernel
def remove_source(g, source):
    """Stop waiting for `source`: a flush. Between open_ and close_membership.

    `source` must add nothing more. What it added is merged in its order; then
    the slot may feed again.
    """
    store_release(g.feeding, source * CELL, 0)
    store_release(g.mark, source * CELL, NOTHING)
    merge(g)


__all__ = [
    "LogArrays",
    "DATA_EVENT",
    "READERS_WAITING",
    "SOURCES_WAITING",
    "SPACE_EVENT",
    "VERSION",
    "add_records",
    "add_source",
    "advance",
    "close_membership",
    "control",
    "is_wakeup_due",
    "join_reader",
    "lane",
    "leave_reader",
    "merge",
    "open_membership",
    "peek",
    "remove_source",
    "source_floor",
    "unread_rows",
]
