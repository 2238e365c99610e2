"""forwardSN: reads the merged input once and copies each tuple to the instances that own one of its keys.

The text below the cut mark is compiled for either gate as a generated module;
imported as it is, it serves only to be read and for its constants.

The router is the only reader of the input gate. It copies a tuple's record into
an owner's queue and its columns, with the keys that owner has, into the owner's
private store. After each batch every member that did not get the last tuple
gets a heartbeat with the time and the count reached, so instances that own
nothing still have watermarks and hold no output back. A control record, or a
planned tuple count, becomes one control record in the queue of every member.

State       `t`: what the router must remember between two calls of `route`,
            which returns whenever memory is needed (a chunk, a larger key
            buffer, a validity mask): Python provides it and calls again
Invariants  I1  a batch is as long as every member's queue and stores have room
                for, whoever owns its tuples: nobody gets half a tuple
            I2  before a control record all members are at the same time and
                count of tuples
            I3  the mapping in force for a tuple is the one of its position
Source      STRETCH, Algorithm 1 (forwardSN) and Corollary 1. Differs: with one
            router, its queues are sorted already; instances need not merge.
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

# Words of the router.
(
    HOW,
    COUNTS,
    POSITION,
    SEEN,
    PLANNED,
    CONFIG,
    NEXT_CONFIG,
    PREPARED,
    TIME,
    ARRIVAL,
    COPIES,
    KEYS_NEEDED,
    WORD_COUNT,
) = range(13)

BATCH = 1024
BATCH_NS = 200_000
NEVER = np.iinfo(np.int64).max


# --- cut ---


@by_reference
class RouterArrays(NamedTuple):
    """The router's own, and what Python tells it about the private stores."""

    words: np.ndarray
    end: np.ndarray  # int64[instances]: records written
    last_ts: np.ndarray  # int64[instances]: time the instance has reached when its queue is empty
    last_seen: np.ndarray  # the same for tuples of the merged input
    rows: np.ndarray  # int64[instances, sources]: rows written to the private store
    room: np.ndarray  # int64[instances, sources]: rows its chunks have room for
    used: np.ndarray  # int64[instances, sources]: keys in the chunk of the next row
    keys_room: np.ndarray  # int64[instances, sources, 2]: keys that fit the even and the odd chunk in use
    budget: np.ndarray  # int64[sources]: keys that fit whoever gets them
    touched: np.ndarray  # int64[instances]: the last tuple that got a row there
    origin: (
        np.ndarray
    )  # int64[instances, sources, 2]: address of the reference each row of that chunk is a copy of
    several: np.ndarray  # int64[sources]: its tuples have any number of keys, not one
    width: np.ndarray  # int64[sources]: directory entries per chunk
    item: np.ndarray  # int64[sources, columns]: bytes of a value
    columns: np.ndarray  # int64[sources]
    masked: np.ndarray  # int64[sources, columns]: private chunks have a validity mask


def allocate(
    how: int, counts: bool, instances: int, several: list[bool], widths: list[int], items: list[list[int]]
) -> RouterArrays:
    """Allocate at the start of the input.

    Parameters
    ----------
    how : int
        Who gets a tuple.
    counts : bool
        Instances promise by position: keep them up to date in count too.
    instances : int
    several : list of bool
        Tuples of this source have any number of keys.
    widths : list of int
        Directory entries per chunk, of each source.
    items : list of list of int
        Bytes of a value, of each column of each source.
    """
    sources = len(widths)
    most = max(1, *(len(sizes) for sizes in items))
    item = np.zeros((sources, most), np.int64)
    for source, sizes in enumerate(items):
        item[source, : len(sizes)] = sizes
    words = np.zeros(WORD_COUNT, np.int64)
    words[HOW] = how
    words[COUNTS] = counts
    words[TIME] = MIN_TIME
    words[PREPARED] = -1
    places = (instances, sources)
    return RouterArrays(
        words=words,
        end=np.zeros(instances, np.int64),
        last_ts=np.full(instances, MIN_TIME),
        last_seen=np.zeros(instances, np.int64),
        rows=np.zeros(places, np.int64),
        room=np.zeros(places, np.int64),
        used=np.zeros(places, np.int64),
        keys_room=np.zeros((*places, 2), np.int64),
        budget=np.zeros(sources, np.int64),
        touched=np.full(instances, -1, np.int64),
        origin=np.zeros((*places, 2), np.int64),
        several=np.array(several, np.int64),
        width=np.array(widths, np.int64),
        item=item,
        columns=np.array([len(sizes) for sizes in items], np.int64),
        masked=np.zeros((sources, most), np.int64),
    )


# --- cut ---


@kernel
def entry(row, width):
    """Where the directory entries of a row's chunk begin."""
    return ((row >> CHUNK_SHIFT) & (DIRECTORY_CHUNKS - 1)) * width


@kernel
def queue_room(c, q, t):
    """Tuples that fit the fullest queue of a member (I1)."""
    member = c.member[t.words[CONFIG]]
    room = tuples_allowed(q, 0, 1)
    for r in range(member.size):
        if member[r] != 0:
            limit = tuples_allowed(q, load_relaxed(q.cost, r * CELL), 1)
            room = min(room, limit + load_acquire(q.cursor, r * CELL) - t.end[r])  # W0
    return room


@kernel
def await_room(c, q, t):
    """Sleep until every queue takes a record, or the run stops."""
    ticket = prepare(q.words, queues.ROUTER_WAITING, q.event, queues.SPACE_EVENT)
    if stopped(c) or queue_room(c, q, t) > 0:
        cancel(q.words, queues.ROUTER_WAITING)
        return
    sleep(q.words, queues.ROUTER_WAITING, q.event, queues.SPACE_EVENT, ticket, WAIT_NS)


@kernel
def await_input(g, c, position):
    """Sleep until the input gate has a record, or the run stops."""
    for _ in range(load_acquire(c.words, SPIN)):
        _, count = peek(g, 0, position, 1)
        if count > 0:
            return
        pause()
    ticket = prepare(g.words, READERS_WAITING, g.event, DATA_EVENT)
    _, count = peek(g, 0, position, 1)
    if count > 0 or stopped(c):
        cancel(g.words, READERS_WAITING)
        return
    sleep(g.words, READERS_WAITING, g.event, DATA_EVENT, ticket, WAIT_NS)


@kernel
def put(q, t, r, ts, ref, at, seen):
    """W1: write a record; `publish_queues` shows it."""
    end = t.end[r]
    slot = end & (q.out_ts.shape[1] - 1)
    q.out_ts[r, slot] = ts
    q.out_ref[r, slot] = ref
    q.out_at[r, slot] = at
    q.out_seen[r, slot] = seen
    t.end[r] = end + 1
    t.last_ts[r] = ts
    t.last_seen[r] = seen + (ref >= 0)


@kernel
def bring_up_to_date(c, q, t):
    """Give every member that is behind a heartbeat (I2); behind in count matters to promises by position."""
    w = t.words
    member = c.member[w[CONFIG]]
    for r in range(member.size):
        if member[r] != 0 and (t.last_ts[r] < w[TIME] or (w[COUNTS] != 0 and t.last_seen[r] < w[SEEN])):
            put(q, t, r, w[TIME], HEARTBEAT, w[ARRIVAL], w[SEEN])


@kernel
def publish_queues(q, t):
    """W2."""
    for r in range(t.end.size):
        if load_relaxed(q.end, r * CELL) != t.end[r]:
            store_release(q.end, r * CELL, t.end[r])
    signal(q.words, queues.READERS_WAITING, q.event, queues.DATA_EVENT)


@kernel
def switch(c, q, t, next_config):
    """Put the control record of a configuration into every member's queue; from here on it is in force (I3)."""
    w = t.words
    bring_up_to_date(c, q, t)
    member = c.member[w[CONFIG]]
    for r in range(member.size):
        if member[r] != 0:
            put(q, t, r, w[TIME], -(1 + next_config), w[ARRIVAL], w[SEEN])
    after = c.member[next_config]
    for r in range(member.size):
        if after[r] != 0:
            # Joiners start with this time and count.
            t.last_ts[r] = w[TIME]
            t.last_seen[r] = w[SEEN]
    w[CONFIG] = next_config
    w[PREPARED] = -1
    for source in range(t.budget.size):
        t.budget[source] = 0
    publish_queues(q, t)


@kernel
def note_origin(t, source, row, r, to):
    """Remember what a private row is a copy of: a failure shows the user the tuple itself."""
    view_i64(t.origin[r, source, (to >> CHUNK_SHIFT) & 1], CHUNK)[to & (CHUNK - 1)] = row


@kernel
def copy_columns(x, p, t, source, row, r, to):
    """Copy time and values of a row of the input to row `to` of instance `r`."""
    width = t.width[source]
    a = entry(row, width)
    b = entry(to, width)
    i = row & (CHUNK - 1)
    j = to & (CHUNK - 1)
    view_i64(p[r, source, b], CHUNK)[j] = view_i64(x[source, a], CHUNK)[i]
    for column in range(t.columns[source]):
        here = x[source, a + 3 + 2 * column]
        there = p[r, source, b + 3 + 2 * column]
        size = t.item[source, column]
        if size == 8:
            view_i64(there, CHUNK)[j] = view_i64(here, CHUNK)[i]
        elif size == 4:
            view_i32(there, CHUNK)[j] = view_i32(here, CHUNK)[i]
        else:
            view_u8(there, CHUNK)[j] = view_u8(here, CHUNK)[i]
        if t.masked[source, column] != 0:
            mask = x[source, a + 4 + 2 * column]
            view_u8(p[r, source, b + 4 + 2 * column], CHUNK)[j] = view_u8(mask, CHUNK)[i] if mask != 0 else 1


@kernel
def masks_missing(x, t, source, row):
    """Note columns that have a validity mask in the input and none in the copies yet."""
    base = entry(row, t.width[source])
    missing = False
    for column in range(t.columns[source]):
        if t.masked[source, column] == 0 and x[source, base + 4 + 2 * column] != 0:
            t.masked[source, column] = 1
            missing = True
    return missing


@kernel
def count_keys_room(c, t, source):
    """Set the budget: how many keys fit whichever member gets them."""
    member = c.member[t.words[CONFIG]]
    least = NEVER
    for r in range(member.size):
        if member[r] != 0:
            chunk = t.rows[r, source] >> CHUNK_SHIFT
            least = min(least, t.keys_room[r, source, chunk & 1] - t.used[r, source])
    t.budget[source] = least


@kernel
def send_to_owners(c, q, x, p, t, source, row, ts, at, seen):
    """Copy a tuple with several keys to each of their owners. False: a key buffer is too small."""
    width = t.width[source]
    base = entry(row, width)
    i = row & (CHUNK - 1)
    offsets = view_i32(x[source, base + 1], CHUNK + 1)
    first = np.int64(offsets[i])
    last = np.int64(offsets[i + 1])
    if last - first > t.budget[source]:
        count_keys_room(c, t, source)
        if last - first > t.budget[source]:
            t.words[KEYS_NEEDED] = last - first
            return False
    t.budget[source] -= last - first
    keys = view_i32(x[source, base + 2], last)
    owner = c.owner[t.words[CONFIG]]
    for k in range(first, last):
        key = keys[k]
        r = owner[key & (BUCKETS - 1)]
        to = t.rows[r, source]
        there = entry(to, width)
        if t.touched[r] != seen:
            t.touched[r] = seen
            copy_columns(x, p, t, source, row, r, to)
            note_origin(t, source, row, r, to)
            put(q, t, r, ts, (source << SOURCE_SHIFT) | to, at, seen)
            t.words[COPIES] += 1
        used = t.used[r, source]
        view_i32(p[r, source, there + 2], used + 1)[used] = key
        t.used[r, source] = used + 1
    for k in range(first, last):
        r = owner[keys[k] & (BUCKETS - 1)]
        if t.touched[r] == seen:
            t.touched[r] = -1
            to = t.rows[r, source]
            view_i32(p[r, source, entry(to, width) + 1], CHUNK + 1)[(to & (CHUNK - 1)) + 1] = t.used[
                r, source
            ]
            t.rows[r, source] = to + 1
            if (to + 1) & (CHUNK - 1) == 0:
                t.used[r, source] = 0
                t.budget[source] = 0
    return True


@kernel
def send_to_all(c, q, x, p, t, source, row, ts, ref, at, seen):
    """Copy a tuple to every member, at its own row number."""
    member = c.member[t.words[CONFIG]]
    base = entry(row, t.width[source])
    i = row & (CHUNK - 1)
    key = view_i32(x[source, base + 2], CHUNK)[i]
    for r in range(member.size):
        if member[r] != 0:
            copy_columns(x, p, t, source, row, r, row)
            view_i32(p[r, source, base + 2], CHUNK)[i] = key
            t.rows[r, source] = row + 1
            put(q, t, r, ts, ref, at, seen)
            t.words[COPIES] += 1


@kernel
def forward(g, c, q, x, p, t, lane_row, start, count):
    """Algorithm 1 for `count` tuples of the merged input. Returns how many were sent."""
    w = t.words
    how = w[HOW]
    owner = c.owner[w[CONFIG]]
    checked = -1
    for i in range(count):
        ts = g.out_ts[lane_row, start + i]
        ref = g.out_ref[lane_row, start + i]
        at = g.out_at[lane_row, start + i]
        seen = w[SEEN] + i
        if how == BY_POSITION:
            put(q, t, owner[seen & (BUCKETS - 1)], ts, ref, at, seen)
            w[COPIES] += 1
            continue
        if ref >> CHUNK_SHIFT != checked:
            if masks_missing(x, t, ref >> SOURCE_SHIFT, ref & ROW_MASK):
                return i
            checked = ref >> CHUNK_SHIFT
        source = ref >> SOURCE_SHIFT
        row = ref & ROW_MASK
        if how == TO_ALL:
            send_to_all(c, q, x, p, t, source, row, ts, ref, at, seen)
        elif t.several[source] != 0:
            if not send_to_owners(c, q, x, p, t, source, row, ts, at, seen):
                return i
        else:
            width = t.width[source]
            key = view_i32(x[source, entry(row, width) + 2], CHUNK)[row & (CHUNK - 1)]
            r = owner[key & (BUCKETS - 1)]
            to = t.rows[r, source]
            copy_columns(x, p, t, source, row, r, to)
            note_origin(t, source, row, r, to)
            view_i32(p[r, source, entry(to, width) + 2], CHUNK)[to & (CHUNK - 1)] = key
            t.rows[r, source] = to + 1
            put(q, t, r, ts, (source << SOURCE_SHIFT) | to, at, seen)
            w[COPIES] += 1
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
            for source in range(t.budget.size):
                room = min(room, t.room[r, source] - t.rows[r, source])
    return room


@kernel
def route(g, c, q, x, p, t):
    """Forward until the end of input or STOP (OVER), or until Python is needed.

    Parameters
    ----------
    g : LogArrays or ScaleGateArrays
        Input gate; reader 0 is the router.
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
    lane_row = lane(g, 0)
    while not stopped(c):
        start, count = peek(g, 0, w[POSITION], BATCH)
        ends = (
            count > 0 and g.out_ref[lane_row, start] == HEARTBEAT and g.out_ts[lane_row, start] == END_OF_TIME
        )
        planned_at = c.plan_at[w[PLANNED]]
        # Planned changes that no tuple reached are applied at the end all the same.
        is_planned = w[SEEN] == planned_at or (ends and planned_at != NEVER)
        if count == 0 and not is_planned:
            await_input(g, c, w[POSITION])
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
            advance(g, 0, w[POSITION])
            continue
        begun = now_ns()
        if refs[0] == HEARTBEAT:
            w[ARRIVAL] = g.out_at[lane_row, start]
            w[TIME] = max(w[TIME], g.out_ts[lane_row, start])
            bring_up_to_date(c, q, t)
            publish_queues(q, t)
            w[POSITION] += 1
            advance(g, 0, w[POSITION])
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
            advance(g, 0, w[POSITION])
            cost = load_relaxed(g.cost, 0)
            store_relaxed(g.cost, 0, max(1, (3 * cost + (now_ns() - begun) // sent) // 4))
        if sent < n:
            return NEEDS_MEMORY
    return OVER
