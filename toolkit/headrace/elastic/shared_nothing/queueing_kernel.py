"""A router's queues to the instances: room, records, ranks, and control records at a change.

Included in the router's module. Words and orderings are those of `instance_queues`.
"""

from headrace.elastic.shared_nothing.router import (
    ARRIVAL,
    BUDGET,
    BY_COUNT,
    CONFIG,
    PREPARED,
    ROUTERS_WAITING,
    SEEN,
    SOURCE,
    SWITCHED,
    TIME,
)
from headrace.gates.membership_kernel import BOUND, DATA_EVENT, READERS_WAITING, SPACE_EVENT, tuples_allowed
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, load_acquire, load_relaxed, store_release
from headrace.memory.event_count import cancel, prepare, signal, sleep
from headrace.references import HEARTBEAT
from headrace.workers.worker_kernel import WAIT_NS, stopped


@kernel
def queue_of(q, t, r):
    """This router's queue to instance `r`."""
    return t.words[SOURCE] * t.end.size + r


@kernel
def queue_room(c, q, t):
    """How many tuples fit the fullest queue to a member (I1)."""
    member = c.member[t.words[CONFIG]]
    room = load_relaxed(q.words, BOUND)
    for r in range(member.size):
        if member[r] != 0:
            taken = load_acquire(q.taken, queue_of(q, t, r) * CELL)  # W0
            limit = tuples_allowed(q, load_relaxed(q.cost, r * CELL), 1, taken)
            room = min(room, limit + taken - t.end[r])
    return room


@kernel
def await_room(c, q, t):
    """Sleep until every queue has room for a record, or the run stops."""
    ticket = prepare(q.words, ROUTERS_WAITING, q.event, SPACE_EVENT)
    if stopped(c) or queue_room(c, q, t) > 0:
        cancel(q.words, ROUTERS_WAITING)
        return
    sleep(q.words, ROUTERS_WAITING, q.event, SPACE_EVENT, ticket, WAIT_NS)


@kernel
def put(q, t, r, ts, ref, at, seen):
    """W1: write a record; `publish_queues` publishes it."""
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
    """First router: send a heartbeat to every member behind in time (I2), or in count where promises are by position."""
    w = t.words
    if w[SOURCE] != 0:
        return
    member = c.member[w[CONFIG]]
    for r in range(member.size):
        if member[r] != 0 and (t.last_ts[r] < w[TIME] or (w[BY_COUNT] != 0 and t.last_seen[r] < w[SEEN])):
            put(q, t, r, w[TIME], HEARTBEAT, w[ARRIVAL], w[SEEN])


@kernel
def publish_queues(q, t):
    """W2, W3: publish what was written."""
    for r in range(t.end.size):
        own = queue_of(q, t, r)
        if load_relaxed(q.end, own * CELL) != t.end[r]:
            store_release(q.end, own * CELL, t.end[r])  # W2
    store_release(q.rank, t.words[SOURCE] * CELL, t.words[SEEN] + t.words[SWITCHED])  # W3
    signal(q.words, READERS_WAITING, q.event, DATA_EVENT)


@kernel
def switch(c, q, t, next_config):
    """Put a configuration in force from here on (I3); the first router sends every member a control record."""
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
