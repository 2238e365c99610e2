"""forwardSN: a source's router copies each of its tuples to the instances that own one of its keys.

The text below the cut mark is compiled for either gate as a generated module;
imported as it is, it serves only to be read and for its constants.

The routers are the readers of the input gate: all read the merged input, and
each handles the tuples of its source. It copies a tuple's record into its queue
to an owner and its columns, with the keys that owner has, into the owner's
private store. After each batch the first router gives a heartbeat with the time
and the count reached to every member whose last record from it is older, so
instances that own nothing still have watermarks and hold no output back. A
control record, or a planned tuple count, becomes one control record for every
member, written by the first router; the others only put it in force.

State       `t`: what a router must remember between two calls of `route`,
            which returns whenever memory is needed (a chunk, a larger key
            buffer, a validity mask): Python provides it and calls again
Invariants  I1  a batch is as long as every member's queue and stores have room
                for, whoever owns its tuples: nobody gets half a tuple
            I2  before a control record all members are at the same time and
                count of tuples
            I3  the mapping in force for a tuple is the one of its position
            I4  the merged input alone decides where a change is in force, so a
                rank (SEEN and changes so far) means one place to every router
Source      STRETCH, Algorithm 1 (forwardSN) and Corollary 1. Differs: a place in
            the merged input, which all routers read, is what instances merge
            by, so ties in time need no rule of their own.
"""

from typing import NamedTuple

import numpy as np

from headrace.gates.membership_kernel import tuples_allowed
from headrace.gates.merged_log_kernel import (
    DATA_EVENT,
    HEARTBEAT,
    READERS_WAITING,
    ROW_MASK,
    SOURCE_SHIFT,
    advance,
    lane,
    peek,
)
from headrace.gates.store import CHUNK, CHUNK_SHIFT, DIRECTORY_CHUNKS
from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    load_acquire,
    load_relaxed,
    now_ns,
    pause,
    store_relaxed,
    store_release,
    view_i32,
    view_i64,
    view_u8,
)
from headrace.memory.bundle import by_reference
from headrace.memory.event_count import cancel, prepare, signal, sleep
from headrace.operators import instance_queues as queues
from headrace.operators.membership import BUCKETS, SPIN, WAIT_NS, stopped
from headrace.progress import END_OF_TIME, MIN_TIME

# What `route` returns.
OVER, NEEDS_MEMORY, SWITCHES = range(3)

# Who gets a tuple: the owners of its keys, everybody, or the owner of its position.
TO_OWNERS, TO_ALL, BY_POSITION = range(3)

# Words of a router.
(
    SOURCE,
    HOW,
    SEVERAL,  # its tuples have any number of keys, not one
    COUNTS,
    POSITION,
    SEEN,
    SWITCHED,  # configurations put in force so far
    PLANNED,
    CONFIG,
    NEXT_CONFIG,
    PREPARED,
    TIME,
    ARRIVAL,
    COPIES,
    BUDGET,  # keys that fit whoever gets them
    KEYS_NEEDED,
    WIDTH,  # directory entries per chunk
    WORD_COUNT,
) = range(18)

BATCH = 1024
BATCH_NS = 200_000
NEVER = np.iinfo(np.int64).max


# --- cut ---


@by_reference
class RouterArrays(NamedTuple):
    """A router's own, and what Python tells it about the private stores of its source."""

    words: np.ndarray
    end: np.ndarray  # int64[instances]: records written
    last_ts: np.ndarray  # int64[instances]: time the instance has reached when its queue is empty
    last_seen: np.ndarray  # the same for tuples of the merged input
    rows: np.ndarray  # int64[instances]: rows written to the private store
    room: np.ndarray  # int64[instances]: rows its chunks have room for
    used: np.ndarray  # int64[instances]: keys in the chunk of the next row
    keys_room: np.ndarray  # int64[instances, 2]: keys that fit the even and the odd chunk in use
    touched: np.ndarray  # int64[instances]: the last tuple that got a row there
    origin: np.ndarray  # int64[instances, 2]: address of the reference each row of that chunk is a copy of
    item: np.ndarray  # int64[columns]: bytes of a value
    masked: np.ndarray  # int64[columns]: private chunks have a validity mask


def allocate(
    source: int, how: int, counts: bool, instances: int, several: bool, width: int, items: list[int]
) -> RouterArrays:
    """Allocate the router of a source, at the start of the input.

    Parameters
    ----------
    source : int
        The source whose tuples it copies; also which reader of the gate it is.
    how : int
        Who gets a tuple.
    counts : bool
        Instances promise by position: keep them up to date in count too.
    instances : int
    several : bool
        Its tuples have any number of keys.
    width : int
        Directory entries per chunk.
    items : list of int
        Bytes of a value, of each column.
    """
    words = np.zeros(WORD_COUNT, np.int64)
    words[SOURCE] = source
    words[HOW] = how
    words[SEVERAL] = several
    words[COUNTS] = counts
    words[WIDTH] = width
    words[TIME] = MIN_TIME
    words[PREPARED] = -1
    return RouterArrays(
        words=words,
        end=np.zeros(instances, np.int64),
        last_ts=np.full(instances, MIN_TIME),
        last_seen=np.zeros(instances, np.int64),
        rows=np.zeros(instances, np.int64),
        room=np.zeros(instances, np.int64),
        used=np.zeros(instances, np.int64),
        keys_room=np.zeros((instances, 2), np.int64),
        touched=np.full(instances, -1, np.int64),
        origin=np.zeros((instances, 2), np.int64),
        item=np.array(items, np.int64),
        masked=np.zeros(len(items), np.int64),
    )


# --- cut ---


@kernel
def entry(row, width):
    """Where the directory entries of a row's chunk begin."""
    return ((row >> CHUNK_SHIFT) & (DIRECTORY_CHUNKS - 1)) * width


@kernel
def queue_of(q, t, r):
    """This router's queue to instance `r`."""
    return t.words[SOURCE] * t.end.size + r


@kernel
def queue_room(c, q, t):
    """Tuples that fit the fullest queue to a member (I1)."""
    member = c.member[t.words[CONFIG]]
    room = tuples_allowed(q, 0, 1)
    for r in range(member.size):
        if member[r] != 0:
            limit = tuples_allowed(q, load_relaxed(q.cost, r * CELL), 1)
            room = min(room, limit + load_acquire(q.taken, queue_of(q, t, r) * CELL) - t.end[r])  # W0
    return room


@kernel
def await_room(c, q, t):
    """Sleep until every queue takes a record, or the run stops."""
    ticket = prepare(q.words, queues.ROUTERS_WAITING, q.event, queues.SPACE_EVENT)
    if stopped(c) or queue_room(c, q, t) > 0:
        cancel(q.words, queues.ROUTERS_WAITING)
        return
    sleep(q.words, queues.ROUTERS_WAITING, q.event, queues.SPACE_EVENT, ticket, WAIT_NS)


@kernel
def await_input(g, c, reader, position):
    """Sleep until the input gate has a record, or the run stops."""
    for _ in range(load_acquire(c.words, SPIN)):
        _, count = peek(g, reader, position, 1)
        if count > 0:
            return
        pause()
    ticket = prepare(g.words, READERS_WAITING, g.event, DATA_EVENT)
    _, count = peek(g, reader, position, 1)
    if count > 0 or stopped(c):
        cancel(g.words, READERS_WAITING)
        return
    sleep(g.words, READERS_WAITING, g.event, DATA_EVENT, ticket, WAIT_NS)


@kernel
def put(q, t, r, ts, ref, at, seen):
    """W1: write a record; `publish_queues` shows it."""
    end = t.end[r]
    own = queue_of(q, t, r)
    slot = end & (q.queue_ts.shape[1] - 1)
    q.queue_ts[own, slot] = ts
    q.queue_ref[own, slot] = ref
    q.queue_at[own, slot] = at
    q.queue_seen[own, slot] = seen
    if q.queue_rank.shape[1] > 1:
        # A heartbeat has the rank of the record it comes after.
        q.queue_rank[own, slot] = seen + t.words[SWITCHED] - (ref == HEARTBEAT)
    t.end[r] = end + 1
    t.last_ts[r] = ts
    t.last_seen[r] = seen + (ref >= 0)


@kernel
def bring_up_to_date(c, q, t):
    """First router: give every member that is behind a heartbeat (I2); behind in count matters to promises by position."""
    w = t.words
    if w[SOURCE] != 0:
        return
    member = c.member[w[CONFIG]]
    for r in range(member.size):
        if member[r] != 0 and (t.last_ts[r] < w[TIME] or (w[COUNTS] != 0 and t.last_seen[r] < w[SEEN])):
            put(q, t, r, w[TIME], HEARTBEAT, w[ARRIVAL], w[SEEN])


@kernel
def publish_queues(q, t):
    """W2, W3: show what was written."""
    for r in range(t.end.size):
        own = queue_of(q, t, r)
        if load_relaxed(q.end, own * CELL) != t.end[r]:
            store_release(q.end, own * CELL, t.end[r])  # W2
    store_release(q.rank, t.words[SOURCE] * CELL, t.words[SEEN] + t.words[SWITCHED])  # W3
    signal(q.words, queues.READERS_WAITING, q.event, queues.DATA_EVENT)


@kernel
def switch(c, q, t, next_config):
    """Put a configuration in force from here on (I3); the first router tells every member by a control record."""
    w = t.words
    if w[SOURCE] == 0:
        member = c.member[w[CONFIG]]
        for r in range(member.size):
            if member[r] != 0:
                put(q, t, r, w[TIME], -(1 + next_config), w[ARRIVAL], w[SEEN])
    after = c.member[next_config]
    for r in range(after.size):
        if after[r] != 0:
            # Joiners start with this time and count.
            t.last_ts[r] = w[TIME]
            t.last_seen[r] = w[SEEN]
    w[CONFIG] = next_config
    w[PREPARED] = -1
    w[BUDGET] = 0
    w[SWITCHED] += 1
    publish_queues(q, t)


@kernel
def note_origin(t, row, r, to):
    """Remember what a private row is a copy of: a failure shows the user the tuple itself."""
    view_i64(t.origin[r, (to >> CHUNK_SHIFT) & 1], CHUNK)[to & (CHUNK - 1)] = row


@kernel
def copy_columns(x, p, t, row, r, to):
    """Copy time and values of a row of the input to row `to` of instance `r`."""
    source = t.words[SOURCE]
    width = t.words[WIDTH]
    a = entry(row, width)
    b = entry(to, width)
    i = row & (CHUNK - 1)
    j = to & (CHUNK - 1)
    view_i64(p[r, source, b], CHUNK)[j] = view_i64(x[source, a], CHUNK)[i]
    for column in range(t.item.size):
        here = x[source, a + 3 + 2 * column]
        there = p[r, source, b + 3 + 2 * column]
        size = t.item[column]
        if size == 8:
            view_i64(there, CHUNK)[j] = view_i64(here, CHUNK)[i]
        elif size == 4:
            view_i32(there, CHUNK)[j] = view_i32(here, CHUNK)[i]
        else:
            view_u8(there, CHUNK)[j] = view_u8(here, CHUNK)[i]
        if t.masked[column] != 0:
            mask = x[source, a + 4 + 2 * column]
            view_u8(p[r, source, b + 4 + 2 * column], CHUNK)[j] = view_u8(mask, CHUNK)[i] if mask != 0 else 1


@kernel
def masks_missing(x, t, row):
    """Note columns that have a validity mask in the input and none in the copies yet."""
    source = t.words[SOURCE]
    base = entry(row, t.words[WIDTH])
    missing = False
    for column in range(t.item.size):
        if t.masked[column] == 0 and x[source, base + 4 + 2 * column] != 0:
            t.masked[column] = 1
            missing = True
    return missing


@kernel
def count_keys_room(c, t):
    """Set the budget: how many keys fit whichever member gets them."""
    member = c.member[t.words[CONFIG]]
    least = NEVER
    for r in range(member.size):
        if member[r] != 0:
            chunk = t.rows[r] >> CHUNK_SHIFT
            least = min(least, t.keys_room[r, chunk & 1] - t.used[r])
    t.words[BUDGET] = least


@kernel
def send_to_owners(c, q, x, p, t, row, ts, at, seen):
    """Copy a tuple with several keys to each of their owners. False: a key buffer is too small."""
    w = t.words
    source = w[SOURCE]
    width = w[WIDTH]
    base = entry(row, width)
    i = row & (CHUNK - 1)
    offsets = view_i32(x[source, base + 1], CHUNK + 1)
    first = np.int64(offsets[i])
    last = np.int64(offsets[i + 1])
    if last - first > w[BUDGET]:
        count_keys_room(c, t)
        if last - first > w[BUDGET]:
            w[KEYS_NEEDED] = last - first
            return False
    w[BUDGET] -= last - first
    keys = view_i32(x[source, base + 2], last)
    owner = c.owner[w[CONFIG]]
    for k in range(first, last):
        key = keys[k]
        r = owner[key & (BUCKETS - 1)]
        to = t.rows[r]
        there = entry(to, width)
        if t.touched[r] != seen:
            t.touched[r] = seen
            copy_columns(x, p, t, row, r, to)
            note_origin(t, row, r, to)
            put(q, t, r, ts, (source << SOURCE_SHIFT) | to, at, seen)
            w[COPIES] += 1
        used = t.used[r]
        view_i32(p[r, source, there + 2], used + 1)[used] = key
        t.used[r] = used + 1
    for k in range(first, last):
        r = owner[keys[k] & (BUCKETS - 1)]
        if t.touched[r] == seen:
            t.touched[r] = -1
            to = t.rows[r]
            view_i32(p[r, source, entry(to, width) + 1], CHUNK + 1)[(to & (CHUNK - 1)) + 1] = t.used[r]
            t.rows[r] = to + 1
            if (to + 1) & (CHUNK - 1) == 0:
                t.used[r] = 0
                w[BUDGET] = 0
    return True


@kernel
def send_to_owner(c, q, x, p, t, row, ts, at, seen):
    """Copy a tuple with one key to its owner."""
    source = t.words[SOURCE]
    width = t.words[WIDTH]
    key = view_i32(x[source, entry(row, width) + 2], CHUNK)[row & (CHUNK - 1)]
    r = c.owner[t.words[CONFIG], key & (BUCKETS - 1)]
    to = t.rows[r]
    copy_columns(x, p, t, row, r, to)
    note_origin(t, row, r, to)
    view_i32(p[r, source, entry(to, width) + 2], CHUNK)[to & (CHUNK - 1)] = key
    t.rows[r] = to + 1
    put(q, t, r, ts, (source << SOURCE_SHIFT) | to, at, seen)
    t.words[COPIES] += 1


@kernel
def send_to_all(c, q, x, p, t, row, ts, ref, at, seen):
    """Copy a tuple to every member, at its own row number."""
    source = t.words[SOURCE]
    member = c.member[t.words[CONFIG]]
    base = entry(row, t.words[WIDTH])
    i = row & (CHUNK - 1)
    key = view_i32(x[source, base + 2], CHUNK)[i]
    for r in range(member.size):
        if member[r] != 0:
            copy_columns(x, p, t, row, r, row)
            view_i32(p[r, source, base + 2], CHUNK)[i] = key
            t.rows[r] = row + 1
            put(q, t, r, ts, ref, at, seen)
            t.words[COPIES] += 1


@kernel
def forward(g, c, q, x, p, t, lane_row, start, count):
    """Algorithm 1 for `count` tuples of the merged input. Returns how many were handled: others' by passing them."""
    w = t.words
    how = w[HOW]
    owner = c.owner[w[CONFIG]]
    checked = -1
    for i in range(count):
        ref = g.out_ref[lane_row, start + i]
        if ref >> SOURCE_SHIFT != w[SOURCE]:
            continue
        ts = g.out_ts[lane_row, start + i]
        at = g.out_at[lane_row, start + i]
        seen = w[SEEN] + i
        if how == BY_POSITION:
            put(q, t, owner[seen & (BUCKETS - 1)], ts, ref, at, seen)
            w[COPIES] += 1
            continue
        row = ref & ROW_MASK
        if row >> CHUNK_SHIFT != checked:
            if masks_missing(x, t, row):
                return i
            checked = row >> CHUNK_SHIFT
        if how == TO_ALL:
            send_to_all(c, q, x, p, t, row, ts, ref, at, seen)
        elif w[SEVERAL] == 0:
            send_to_owner(c, q, x, p, t, row, ts, at, seen)
        elif not send_to_owners(c, q, x, p, t, row, ts, at, seen):
            return i
    return count


@kernel
def store_room(c, t):
    """Rows that fit the fullest private store of a member (I1)."""
    if t.words[HOW] == BY_POSITION:
        return BATCH
    member = c.member[t.words[CONFIG]]
    room = BATCH
    for r in range(member.size):
        if member[r] != 0:
            room = min(room, t.room[r] - t.rows[r])
    return room


@kernel
def route(g, c, q, x, p, t):
    """Forward until the end of input or STOP (OVER), or until Python is needed.

    Parameters
    ----------
    g : LogArrays or ScaleGateArrays
        Input gate; the router of source s is its reader s.
    c : ControlArrays
        With the planned changes.
    q : QueueArrays
    x : int64[sources, n]
        Directories of the input's stores.
    p : int64[instances, sources, n]
        Directories of the private stores.
    t : RouterArrays

    Returns
    -------
    int
        NEEDS_MEMORY: give the private stores room. SWITCHES: the router is
        about to put NEXT_CONFIG in force; prepare the joiners' stores.
    """
    w = t.words
    me = w[SOURCE]
    lane_row = lane(g, me)
    while not stopped(c):
        start, count = peek(g, me, w[POSITION], BATCH)
        ends = (
            count > 0 and g.out_ref[lane_row, start] == HEARTBEAT and g.out_ts[lane_row, start] == END_OF_TIME
        )
        planned_at = c.plan_at[w[PLANNED]]
        # Planned changes that no tuple reached are applied at the end all the same.
        is_planned = w[SEEN] == planned_at or (ends and planned_at != NEVER)
        if count == 0 and not is_planned:
            await_input(g, c, me, w[POSITION])
            continue
        room = queue_room(c, q, t)
        if room <= 0:
            await_room(c, q, t)
            continue
        refs = g.out_ref[lane_row, start : start + count]
        if is_planned or refs[0] < HEARTBEAT:
            next_config = c.plan_config[w[PLANNED]] if is_planned else -1 - refs[0]
            if w[PREPARED] != next_config:
                w[NEXT_CONFIG] = next_config
                return SWITCHES
            if is_planned:
                w[PLANNED] += 1
            else:
                w[POSITION] += 1
            switch(c, q, t, next_config)
            advance(g, me, w[POSITION])
            continue
        begun = now_ns()
        if refs[0] == HEARTBEAT:
            w[ARRIVAL] = g.out_at[lane_row, start]
            w[TIME] = max(w[TIME], g.out_ts[lane_row, start])
            bring_up_to_date(c, q, t)
            publish_queues(q, t)
            w[POSITION] += 1
            advance(g, me, w[POSITION])
            if ends:
                return OVER
            continue
        n = 0
        while n < count and refs[n] >= 0:
            n += 1
        n = min(n, planned_at - w[SEEN], room)
        fitting = store_room(c, t)
        if fitting <= 0:
            return NEEDS_MEMORY
        n = min(n, fitting)
        sent = forward(g, c, q, x, p, t, lane_row, start, n)
        if sent > 0:
            w[SEEN] += sent
            w[POSITION] += sent
            w[TIME] = g.out_ts[lane_row, start + sent - 1]
            w[ARRIVAL] = g.out_at[lane_row, start + sent - 1]
            bring_up_to_date(c, q, t)
            publish_queues(q, t)
            advance(g, me, w[POSITION])
            cost = load_relaxed(g.cost, me * CELL)
            store_relaxed(g.cost, me * CELL, max(1, (3 * cost + (now_ns() - begun) // sent) // 4))
        if sent < n:
            return NEEDS_MEMORY
    return OVER
