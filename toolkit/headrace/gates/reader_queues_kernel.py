"""Channels with a gate's interface: senders route tuples to the readers that own them; members and ownership may change.

    senders -> a queue from each to each reader -> the reader merges its own queues into its lane

To the loop of an operator's instances this is a gate (`variants` loads kernels written for the merged log on it): `lane`
gives a reader its own row, and each tuple is in one lane only, that of the reader that owns its key under ROUTED, the
configuration in force for the senders. Queues hold no heartbeats: each sender's MARK is its promise to all readers, and a
reader writes a heartbeat into its own lane when the smallest MARK has risen.

One thread puts a change of ownership into force while all senders wait for it (`switch`). Nothing is sent meanwhile, so
no tuple is routed twice, and every reader gets the control record at the same event time: that of the senders' promise.

State       per source    HEAD[s] tuples sent, MARK[s] promise: no later tuple has ts < MARK[s], NOTHING where it does
                          not feed (FEEDING[s] 0), MARK_AT[s] when that was promised; NEXT[s, r] END of its queue to r
            per queue q = reader * sources + source
                          END[q] records written, TAKEN[q] of them moved to the lane, TAIL[q] of them read;
                          ring_*[q, i % size] the records
            per reader    MERGED[r] records in its lane so far, CURSOR[r] of them read, PASSED[r] tuples read, TOLD[r] the
                          latest time in the lane, READING[r] activation id, out_*[r, i % LANE] the records
            ROUTED        the configuration by which senders route; KEYS[s, row] keys of a source's rows
Invariants  I1  TAIL[q] <= TAKEN[q] <= END[q] <= TAIL[q] + size, of which RESERVE are for control records
            I2  one source stores END of its queues, HEAD and MARK; one reader stores TAKEN, TAIL and its lane. The
                thread of `switch` stores these for all sources, which wait; one that changes members, for those members
            I3  a reader takes tuples together, and any other record alone; its lane is filled again only when
                CURSOR[r] = MERGED[r]: then all that is TAKEN is read, and TAIL says so
            I4  a control record stands in the queue of the last source to every member of the configuration it ends,
                with the time all sources have promised, or, before the first promise, one below all times; so it comes
                after all tuples up to that time, and before all later tuples, whose times are after it
            I5  a reader that left has read its lane up to the control record that ended its membership, and gets nothing
                before it is a member again: it goes on from its cursor
Ordering    W0 load_acquire TAIL, W1 write records, W2 store_release END, W3 store_release MARK
            R0 load_acquire MARKs, under the seqlock of membership, R1 load_acquire END, R2 read records and rows
            R3 store_release PASSED, R4 store_release TAIL
                    W2 -> R1, and W2 is before W3, R0 before R1: a reader that sees a promise sees all it covers
                    R4 -> W0: a slot, and the row it refers to, is used again only once it is read
            R1 in order of the sources, and once for all that is moved from a queue: a reader that sees what was sent after
                    a switch sees the control record, which is in the last source's queue
            R0 is a scan of `memory.seqlock`: a reader that sees what a sender has promised since another sender joined
                    sees the joiner's MARK, too
Progress    A sender waits for the fullest queue to a member, whichever owns its tuples, and a reader for the smallest MARK;
            all that the sender with that MARK has sent is ready, in every queue. The one thread of `switch` waits for a
            reserved slot, or STOP.
Source      Viper (Walulya et al.), section 3.3: a channel for each reader, acknowledged flow control. Differs:
            membership and mapping change while it runs, as with STRETCH's TB (section 7).
Checked     tests/headrace/elastic/test_routed_interleave.py, test_routed.py
"""

from typing import NamedTuple

import numpy as np

from headrace.gates.membership_kernel import (
    BOUND,
    DATA_EVENT,
    NOTHING,
    READERS_WAITING,
    SOURCES_WAITING,
    SPACE_EVENT,
    VERSION,
    WORD_COUNT,
    close_membership,
    open_membership,
    tuples_allowed,
    wake_readers,
    wake_sources,
)
from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    load_acquire,
    load_relaxed,
    nanosleep,
    now_ns,
    store_relaxed,
    store_release,
)
from headrace.memory.bundle import by_reference
from headrace.memory.seqlock import begin_scan, is_whole
from headrace.progress import MIN_TIME
from headrace.references import BUCKET_MASK, HEARTBEAT, ROW_MASK

ROUTED = WORD_COUNT * CELL
QUEUE_WORDS = WORD_COUNT + 1
RESERVE = 16
"""Slots of each queue that only control records take: most changes that may be in flight."""
LANE = 1024
"""Records that a reader merges at once; a power of two."""
NAP_NS = 20_000


@by_reference
class ReaderQueues(NamedTuple):
    """What the kernels share. Cells are ``CELL`` int64 words apart."""

    words: np.ndarray
    event: np.ndarray
    # Per source.
    head: np.ndarray
    mark: np.ndarray
    mark_at: np.ndarray  # monotonic ns
    feeding: np.ndarray
    next: np.ndarray  # int64[sources, readers or more]
    keys: np.ndarray  # int32[sources, rows]: of each row, rows a power of two
    # Per queue.
    end: np.ndarray
    taken: np.ndarray
    tail: np.ndarray
    ring_ts: np.ndarray  # int64[readers * sources, size]
    ring_ref: np.ndarray
    ring_at: np.ndarray
    # Per reader.
    merged: np.ndarray
    cursor: np.ndarray
    reading: np.ndarray
    passed: np.ndarray
    told: np.ndarray
    cost: np.ndarray  # its recent ns per record, 0 = unknown
    out_ts: np.ndarray  # int64[readers, LANE]
    out_ref: np.ndarray
    out_at: np.ndarray
    # Per configuration.
    member: np.ndarray  # uint8[configurations, readers]
    owner: np.ndarray  # int16[configurations, buckets]


# -- sources


@kernel
def room_of(g, source):
    """How many tuples fit the fullest of a source's queues to members."""
    sources = g.head.size // CELL
    member = g.member[load_relaxed(g.words, ROUTED)]
    room = load_relaxed(g.words, BOUND)
    for r in range(member.size):
        if member[r] != 0:
            tail = load_acquire(g.tail, (r * sources + source) * CELL)  # W0
            allowed = tuples_allowed(g, load_relaxed(g.cost, r * CELL), 1, tail)
            waiting = g.next[source, r] - tail
            room = min(room, allowed - waiting)
    return room


@kernel
def add_records(g, source, ts, start, count, first_ref, step, mark):
    """Route rows ``first_ref + i * step`` to their keys' owners, and give the promise `mark` or a larger one to all readers.

    Heartbeats only give the promise.

    Returns
    -------
    int
        How many were taken, 0 when a queue is full. Never blocks.
    """
    if first_ref == HEARTBEAT:
        give_promise(g, source, mark)
        return count
    count = min(count, room_of(g, source))
    if count <= 0:
        return 0
    sources = g.head.size // CELL
    owner = g.owner[load_acquire(g.words, ROUTED)]
    mask = g.ring_ts.shape[1] - 1
    keys = g.keys[source]
    own = g.next[source]
    row = first_ref & ROW_MASK
    at = now_ns()
    for i in range(count):  # W1
        r = owner[keys[row + i * step] & BUCKET_MASK]
        q = r * sources + source
        slot = own[r] & mask
        g.ring_ts[q, slot] = ts[start + i]
        g.ring_ref[q, slot] = first_ref + i * step
        g.ring_at[q, slot] = at
        own[r] += 1
    for r in range(g.reading.size // CELL):
        q = r * sources + source
        if load_relaxed(g.end, q * CELL) != own[r]:
            store_release(g.end, q * CELL, own[r])  # W2
    store_release(g.head, source * CELL, load_relaxed(g.head, source * CELL) + count)
    give_promise(g, source, max(mark, ts[start + count - 1]))
    return count


@kernel(inline=True)
def give_promise(g, source, mark):
    """W3: promise that no later tuple of `source` has ts < `mark`."""
    if load_relaxed(g.mark, source * CELL) < mark:
        store_relaxed(g.mark_at, source * CELL, now_ns())
        store_release(g.mark, source * CELL, mark)  # W3
    wake_readers(g)


@kernel
def unread_rows(g, source):
    """How many of a source's latest rows may be unread: all from the first one that some reader has not read yet."""
    sources = g.head.size // CELL
    head = load_relaxed(g.head, source * CELL)
    rows = g.keys.shape[1]
    unread = np.int64(0)
    for r in range(g.reading.size // CELL):
        q = r * sources + source
        tail = load_acquire(g.tail, q * CELL)
        end = g.next[source, r]
        while tail < end:
            ref = g.ring_ref[q, tail & (g.ring_ref.shape[1] - 1)]
            if ref >= 0:
                unread = max(unread, 1 + ((head - 1 - (ref & ROW_MASK)) & (rows - 1)))
                break
            tail += 1
    return unread


@kernel
def is_wakeup_due(g, source):
    """Whether readers are far enough to wake a source that found no room."""
    return room_of(g, source) > load_relaxed(g.words, BOUND) // 2


@kernel
def merge(g):
    """Wake the readers, each of which merges its own queues."""
    wake_readers(g)


@kernel
def add_source(g, source):
    """Let `source` feed. Between open_ and close_membership, while all sources wait; its promise follows before the close."""
    if load_acquire(g.feeding, source * CELL) == 0:
        store_release(g.mark, source * CELL, MIN_TIME)
        store_release(g.feeding, source * CELL, 1)
    return 1


@kernel
def remove_source(g, source):
    """Stop waiting for `source`, which has sent all it had. Between open_ and close_membership."""
    store_release(g.feeding, source * CELL, 0)
    store_release(g.mark, source * CELL, NOTHING)


@kernel(seldom=True)
def switch(g, config, promised, stop):
    """Route by another configuration from now on. Called while all sources wait, with equal promises.

    Parameters
    ----------
    g : ReaderQueues
    config : int
        Its row in the tables; control records name it.
    promised : int
        The promise of all sources: no later tuple is at or before it.
    stop : int64[]
        ``stop[0]`` is not 0 once no thread is to wait any more.
    """
    sources = g.head.size // CELL
    last = sources - 1
    size = g.ring_ts.shape[1]
    member = g.member[load_relaxed(g.words, ROUTED)]
    for r in range(member.size):
        if member[r] == 0:
            continue
        q = r * sources + last
        end = g.next[last, r]
        while end - load_acquire(g.tail, q * CELL) >= size:  # W0
            if load_acquire(stop, 0) != 0:
                return
            nanosleep(NAP_NS)
        slot = end & (size - 1)
        g.ring_ts[q, slot] = promised if promised > MIN_TIME else MIN_TIME - 1  # W1: below what sources begin with
        g.ring_ref[q, slot] = -(1 + config)
        g.ring_at[q, slot] = now_ns()
        g.next[last, r] = end + 1
        store_release(g.end, q * CELL, end + 1)  # W2
    store_release(g.words, ROUTED, config)
    wake_readers(g)


# -- readers


@kernel
def lane(g, reader):
    """The row of `out_*` that `reader` reads: its own."""
    return reader


@kernel
def peek(g, reader, position, limit):
    """Find records to read from `position` on; see `merged_log_kernel.peek`."""
    end = load_relaxed(g.merged, reader * CELL)
    if end == position:
        end = fill_lane(g, reader, end)
    start = position & (g.out_ts.shape[1] - 1)
    return start, min(end - position, limit, g.out_ts.shape[1] - start)


@kernel
def put_in_lane(g, reader, end, ts, ref, at):
    """Write a record into a lane, as number `end`."""
    slot = end & (g.out_ts.shape[1] - 1)
    g.out_ts[reader, slot] = ts
    g.out_ref[reader, slot] = ref
    g.out_at[reader, slot] = at


@kernel
def fill_lane(g, reader, end):
    """Move what is ready to an empty lane, in order, and then a heartbeat if time has advanced. Returns the new MERGED."""
    sources = g.head.size // CELL
    before = begin_scan(g.words, VERSION)
    limit = NOTHING
    limit_source = 0
    limit_at = np.int64(0)
    for s in range(sources):
        mark = load_acquire(g.mark, s * CELL)  # R0
        if mark < limit:
            limit = mark
            limit_source = s
            limit_at = load_relaxed(g.mark_at, s * CELL)
    if limit == NOTHING or not is_whole(g.words, VERSION, before):
        return end  # no source feeds now, or membership is changing
    first = reader * sources
    mask = g.ring_ts.shape[1] - 1
    until = end + g.out_ts.shape[1] - 2  # room for a heartbeat before a control record, and for one at the end
    begun = end
    reached = load_relaxed(g.told, reader * CELL)
    while end < until:
        # Find the queue whose first record is next, and the time before which its records precede those of the others.
        best = -1
        best_end = np.int64(0)
        best_ts = NOTHING
        bound = NOTHING
        for s in range(sources):
            q = first + s
            at = load_relaxed(g.taken, q * CELL)
            written = load_acquire(g.end, q * CELL)  # R1
            if at < written:
                ts = g.ring_ts[q, at & mask]
                if ts > limit or (ts == limit and s > limit_source):
                    continue
                if ts < best_ts:
                    bound = best_ts
                    best = q
                    best_ts = ts
                    best_end = written
                else:
                    bound = min(bound, ts + 1)
        if best < 0:
            break
        bound = min(bound, limit + 1 if best - first <= limit_source else limit)
        at = load_relaxed(g.taken, best * CELL)
        ready = min(best_end - at, until - end)
        moved = 0
        while moved < ready:  # R2
            slot = (at + moved) & mask
            ts = g.ring_ts[best, slot]
            ref = g.ring_ref[best, slot]
            if ts >= bound or (moved > 0 and ref < HEARTBEAT):
                break
            if ref < HEARTBEAT and ts > reached:
                # All readers take a change at the same event time.
                put_in_lane(g, reader, end, ts, HEARTBEAT, g.ring_at[best, slot])
                reached = ts
                end += 1
            put_in_lane(g, reader, end, ts, ref, g.ring_at[best, slot])
            end += 1
            moved += 1
            if ref < HEARTBEAT:
                break
            reached = ts
        store_relaxed(g.taken, best * CELL, at + moved)
    if end < until and limit - 1 > reached:
        put_in_lane(g, reader, end, limit - 1, HEARTBEAT, limit_at)
        reached = limit - 1
        end += 1
    if end > begun:
        store_relaxed(g.told, reader * CELL, reached)
        store_release(g.merged, reader * CELL, end)
    return end


@kernel
def advance(g, reader, position):
    """Mark everything before `position` as consumed; senders are told when the lane is empty."""
    before = load_relaxed(g.cursor, reader * CELL)
    if g.out_ref[reader, before & (g.out_ref.shape[1] - 1)] >= 0:
        store_release(g.passed, reader * CELL, load_relaxed(g.passed, reader * CELL) + position - before)  # R3
    store_release(g.cursor, reader * CELL, position)
    if position != load_relaxed(g.merged, reader * CELL):
        return
    sources = g.head.size // CELL
    for q in range(reader * sources, (reader + 1) * sources):
        taken = load_relaxed(g.taken, q * CELL)
        if taken != load_relaxed(g.tail, q * CELL):
            store_release(g.tail, q * CELL, taken)  # R4
    wake_sources(g)


@kernel
def tuples_passed(g):
    """A lower bound of the number of tuples that all readers have passed: for each reader, those up to its latest batch."""
    passed = np.int64(0)
    for r in range(g.reading.size // CELL):
        passed += load_relaxed(g.passed, r * CELL)
    return passed


@kernel
def join_reader(g, reader, position, activation):
    """Activate `reader` at its own lane's position (I5); `position`, which is in another lane, is not used."""
    store_release(g.reading, reader * CELL, activation)


@kernel
def leave_reader(g, reader):
    """End `reader`'s membership."""
    store_release(g.reading, reader * CELL, 0)


__all__ = [
    "DATA_EVENT",
    "READERS_WAITING",
    "SOURCES_WAITING",
    "SPACE_EVENT",
    "ReaderQueues",
    "close_membership",
    "open_membership",
]
