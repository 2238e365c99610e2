"""The skip list of the ScaleGate: nodes, how a source links one in, and when it may reuse one.

State       node        TS, REF, AT (arrival), STAMP, NEXT[0..3], one cache line.
                        Level 0 is the list, sorted by (ts, source, position);
                        the levels above are shortcuts. STAMP: -1 not linked
                        yet, 0 not reached by any reader, k the k-th of the list
                        (the head is the first). A source's nodes come from its
                        own pool, in turn; a slot always has the same height.
            per source  private: LAST node; NEXT_SEQ and OLDEST, sequence numbers
                        in the pool; FULL_AT where it must look for room again, a
                        FINGER per level above 0
Invariants  I1  every node linked by source s is at or before LAST[s], and no
                reader passes LAST[s] while s feeds: a record after it in the
                list is above (MARK[s], s), which is not below the limit. So
                what s walks over, from LAST[s] on, is never recycled under it
            I2  a node is recycled once the stand of every active reader is
                after it; only its own source recycles it
            I3  shortcuts may lead to recycled nodes. A node found through one
                is used only if it is linked and its key lies after LAST[s] and
                not after the new key: by I1 it is then alive and stays so. A
                lost or stale shortcut costs steps, never order
Ordering    A1 write node, A2 CAS NEXT[0] of the predecessor
            A0 load_acquire PASSED of every reader (see `scalegate_kernel`, R3)
                        a node is rewritten only once every reader has left it
            U1 (owner) STAMP := -1, store_release TS := new
            U2 (finder) load_acquire TS, load_acquire STAMP
                        a thread that sees the new key sees no link of the old node
Progress    Linking is lock-free.
Source      Gulisano et al., ScaleGate. Differs: reclamation, fixed heights.
Checked     tests/headrace/gates, tests/litmus
"""

from headrace.gates.membership_kernel import slowest_reader, tuples_allowed
from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    compare_exchange,
    load_acquire,
    store_relaxed,
    store_release,
)

POOL_SHIFT = 5 * CELL
"""Cell of `words`: log2 of the nodes in a source's pool; constant."""

# A node.
NODE_WORDS = 8
TS, REF, AT, STAMP, NEXT = 0, 1, 2, 3, 4
LEVELS = 4
NIL = -1

# A source's private words, in `source`.
LAST, NEXT_SEQ, OLDEST, FULL_AT, FINGER = 0, 1, 2, 3, 4
SOURCE_WORDS = 16

NEAR = 8
"""Steps along level 0 before the shortcuts are tried."""


@kernel
def levels_of(slot):
    """Levels of the nodes in a slot: every 4th has two, every 16th three, every 64th four."""
    if slot & 3 != 0:
        return 1
    if slot & 15 != 0:
        return 2
    if slot & 63 != 0:
        return 3
    return LEVELS


@kernel
def recycle(g, source, smallest, slowest):
    """Recycle the nodes before the one with stamp `smallest`; set how far the source may go."""
    state = g.source[source]
    shift = g.words[POOL_SHIFT]
    oldest = state[OLDEST]
    consumed = oldest
    while oldest < state[NEXT_SEQ]:
        node = (source << shift) | (oldest & ((1 << shift) - 1))
        stamp = load_acquire(g.nodes, node * NODE_WORDS + STAMP)
        if stamp <= 0 or stamp > smallest:
            break
        consumed = oldest + 1
        if stamp == smallest:
            break  # consumed, but a reader stands on it
        oldest += 1
    state[OLDEST] = oldest
    limit = tuples_allowed(g, slowest, g.mark.size // CELL, smallest)
    state[FULL_AT] = min(consumed + limit, oldest + (1 << shift))


@kernel
def room(g, source, wanted):
    """How many nodes the source may link now; the search may end once there are `wanted`."""
    state = g.source[source]
    free = state[FULL_AT] - state[NEXT_SEQ]
    if free < wanted:
        smallest, slowest = slowest_reader(g, g.passed)  # A0
        if smallest >= 0:
            recycle(g, source, smallest, slowest)
            free = state[FULL_AT] - state[NEXT_SEQ]
    return max(0, free)


@kernel
def _follow_shortcuts(g, source, ts, level, at):
    """Walk along one level above 0, from `at` or this source's finger. See I3.

    Returns
    -------
    before : int
        The last node of the level that is not after (ts, source).
    at : int
        The node where level 0 may be entered: the given one, or one further on.
    """
    shift = g.words[POOL_SHIFT]
    at_ts = g.nodes[at * NODE_WORDS + TS]
    at_source = at >> shift
    before = g.source[source, FINGER + level]
    if levels_of(at & ((1 << shift) - 1)) > level:
        before = at
    before_ts = load_acquire(g.nodes, before * NODE_WORDS + TS)
    before_source = before >> shift
    while True:
        found = load_acquire(g.nodes, before * NODE_WORDS + NEXT + level)
        if found == NIL:
            break
        found_ts = load_acquire(g.nodes, found * NODE_WORDS + TS)  # U2
        found_source = found >> shift
        if found_ts > ts or (found_ts == ts and found_source > source):
            break
        if found_ts < before_ts or (found_ts == before_ts and found_source <= before_source):
            break  # keys only grow, so this ends: a stale shortcut, or a run of equal times
        if found_ts > at_ts or (found_ts == at_ts and found_source > at_source):
            if load_acquire(g.nodes, found * NODE_WORDS + STAMP) < 0:  # U2
                break
            at = found
            at_ts = found_ts
            at_source = found_source
        before = found
        before_ts = found_ts
        before_source = found_source
    return before, at


@kernel
def insert(g, source, ts, ref, arrival):
    """Link one node; the caller has made sure that there is room."""
    nodes = g.nodes
    state = g.source[source]
    shift = g.words[POOL_SHIFT]
    slot = state[NEXT_SEQ] & ((1 << shift) - 1)
    node = (source << shift) | slot
    base = node * NODE_WORDS
    height = levels_of(slot)
    if height > 1:
        store_release(nodes, base + STAMP, -1)  # U1
        store_release(nodes, base + TS, ts)
        for level in range(1, height):
            store_relaxed(nodes, base + NEXT + level, NIL)
    else:
        nodes[base + STAMP] = 0  # no shortcut leads to this slot
        nodes[base + TS] = ts
    nodes[base + REF] = ref
    nodes[base + AT] = arrival  # A1
    at = state[LAST]
    after = load_acquire(nodes, at * NODE_WORDS + NEXT)
    steps = 0
    while after != NIL and steps < NEAR:
        after_ts = nodes[after * NODE_WORDS + TS]
        if after_ts > ts or (after_ts == ts and (after >> shift) > source):
            break
        at = after
        after = load_acquire(nodes, at * NODE_WORDS + NEXT)
        steps += 1
    if steps == NEAR:
        for level in range(LEVELS - 1, 0, -1):
            before, at = _follow_shortcuts(g, source, ts, level, at)
            state[FINGER + level] = before
    else:
        for level in range(height - 1, 0, -1):
            before, at = _follow_shortcuts(g, source, ts, level, at)
            state[FINGER + level] = before
    while True:
        after = load_acquire(nodes, at * NODE_WORDS + NEXT)
        while after != NIL:
            after_ts = nodes[after * NODE_WORDS + TS]
            if after_ts > ts or (after_ts == ts and (after >> shift) > source):
                break
            at = after
            after = load_acquire(nodes, at * NODE_WORDS + NEXT)
        store_relaxed(nodes, base + NEXT, after)
        if compare_exchange(nodes, at * NODE_WORDS + NEXT, after, node):  # A2
            break
    if height > 1:
        compare_exchange(nodes, base + STAMP, -1, 0)  # unless a reader has numbered it already
        for level in range(1, height):
            before = state[FINGER + level]
            state[FINGER + level] = node
            if load_acquire(nodes, before * NODE_WORDS + TS) > ts:
                continue  # recycled under the finger
            found = load_acquire(nodes, before * NODE_WORDS + NEXT + level)
            beyond = NIL
            if found != NIL:
                found_ts = load_acquire(nodes, found * NODE_WORDS + TS)
                if found_ts > ts or (found_ts == ts and (found >> shift) > source):
                    beyond = found
            store_relaxed(nodes, base + NEXT + level, beyond)
            compare_exchange(nodes, before * NODE_WORDS + NEXT + level, found, node)  # once: I3
    state[LAST] = node
    state[NEXT_SEQ] += 1
