"""forwardSN: a source's router copies each of its tuples to the instances that own one of its keys.

Included, with `queueing_kernel` (its queues) and `copies_kernel` (what it copies), in
a module for either gate (`template.build_router`).

The routers are the readers of the input gate: all read the merged input, and
each handles the tuples of its source. It copies a tuple's record into its queue
to an owner and its columns, with the keys that owner has, into the owner's
private store. After each batch the first router gives a heartbeat with the time
and the count reached to every member whose last record from it is older, so
instances that own nothing still have watermarks and hold no output back. A
control record, or a planned tuple count, becomes one control record for every
member, written by the first router; the others only put the change in force.

State       `t` (`router.RouterArrays`): the router's state between two calls of `route`, which
            returns whenever memory is needed (a chunk, a larger key buffer,
            a validity mask): Python provides it and calls again
Invariants  I1  a batch is no longer than every member's queue and store have room
                for, whichever owns its tuples: no tuple is sent in part
            I2  before a control record all members are at the same time and
                count of tuples
            I3  the mapping in force for a tuple is the one of its position
            I4  the merged input alone decides where a change comes into force, so a
                rank (SEEN plus changes so far) is the same place for every router
Source      STRETCH, Algorithm 1 (forwardSN) and Corollary 1. Differs: instances
            merge by the place in the merged input, which all routers read, so
            equal event times need no rule of their own.
"""

from headrace.elastic.shared_nothing.copies_kernel import (
    masks_missing,
    send_to_all,
    send_to_owner,
    send_to_owners,
)
from headrace.elastic.shared_nothing.queueing_kernel import (
    await_room,
    bring_up_to_date,
    publish_queues,
    put,
    queue_room,
    switch,
)
from headrace.elastic.shared_nothing.router import (
    ARRIVAL,
    BATCH_TUPLES,
    BY_POSITION,
    CONFIG,
    COPIES,
    NEEDS_MEMORY,
    NEXT_CONFIG,
    OVER,
    PLANNED,
    POSITION,
    PREPARED,
    RECIPIENTS,
    SEEN,
    SEVERAL_KEYS,
    SOURCE,
    SWITCHES,
    TIME,
    TO_ALL,
)
from headrace.gates.merged_log_kernel import advance, lane, peek
from headrace.gates.reader_kernel import await_records
from headrace.ingress.store_kernel import chunk_of
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, load_acquire, load_relaxed, now_ns, store_relaxed
from headrace.progress import END_OF_TIME, NEVER
from headrace.references import BUCKET_MASK, HEARTBEAT, ROW_MASK, SOURCE_SHIFT
from headrace.workers.worker_kernel import SPIN, stopped


@kernel
def forward(g, c, q, x, p, t, lane_row, start, count):
    """Algorithm 1 for `count` tuples of the merged input. Returns how many were handled; those of other sources are skipped."""
    w = t.words
    recipients = w[RECIPIENTS]
    owner = c.owner[w[CONFIG]]
    checked = -1
    for i in range(count):
        ref = g.out_ref[lane_row, start + i]
        if ref >> SOURCE_SHIFT != w[SOURCE]:
            continue
        ts = g.out_ts[lane_row, start + i]
        at = g.out_at[lane_row, start + i]
        seen = w[SEEN] + i
        if recipients == BY_POSITION:
            put(q, t, owner[seen & BUCKET_MASK], ts, ref, at, seen)
            w[COPIES] += 1
            continue
        row = ref & ROW_MASK
        if chunk_of(row) != checked:
            if masks_missing(x, t, row):
                return i
            checked = chunk_of(row)
        if recipients == TO_ALL:
            send_to_all(c, q, x, p, t, row, ts, ref, at, seen)
        elif w[SEVERAL_KEYS] == 0:
            send_to_owner(c, q, x, p, t, row, ts, at, seen)
        elif not send_to_owners(c, q, x, p, t, row, ts, at, seen):
            return i
    return count


@kernel
def store_room(c, t):
    """How many rows fit the fullest private store of a member (I1)."""
    if t.words[RECIPIENTS] == BY_POSITION:
        return BATCH_TUPLES
    member = c.member[t.words[CONFIG]]
    room = BATCH_TUPLES
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
    c : InstanceArrays
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
        start, count = peek(g, me, w[POSITION], BATCH_TUPLES)
        ends = (
            count > 0 and g.out_ref[lane_row, start] == HEARTBEAT and g.out_ts[lane_row, start] == END_OF_TIME
        )
        planned_at = c.plan_at[w[PLANNED]]
        # Planned changes that no tuple reached are applied at the end all the same.
        is_planned = w[SEEN] == planned_at or (ends and planned_at != NEVER)
        if count == 0 and not is_planned:
            await_records(g, me, w[POSITION], load_acquire(c.words, SPIN), c.words)
            continue
        room = queue_room(c, q, t)
        if room <= 0:
            await_room(c, q, t)
            continue
        refs = g.out_ref[lane_row, start : start + count]
        if is_planned or refs[0] < HEARTBEAT:
            next_config = w[PLANNED] + 1 if is_planned else -1 - refs[0]
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
