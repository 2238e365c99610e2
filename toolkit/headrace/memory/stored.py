"""Kept tuples of windows: where the paper's default f_U stores tuples and its default f_S purges them.

A stored tuple is a *node*: an index into an array for each column that f_O reads.
The nodes of a window instance form a list in input order (FOLLOWING), which only
the owner of its key touches. Free nodes lie in chains. An instance takes nodes from
a chain of its own; when that is empty it takes a chain from a pool that all share,
and if there is none, nodes never used before. A window that expires gives all its
nodes back as one chain. So nodes get to the instance that needs them, whichever
one took them before, and no instance holds more than `CHAIN` free ones.

State       FOLLOWING[n]  next node of the list or chain; 0: none
            BELOW[n]      of the first node of a chain in the pool: the next chain
            POOL          TOP  (count of pops, first node of the top chain)
                          USED  nodes handed out so far for the first time
                          LIMIT  most nodes there may be
            OWN[i]        the chain instance i takes from
Invariants  I1  a node is in one list or one chain; only the instance that took it off touches it
            I2  TOP's count grows with every pop: a pop fails if the chain whose
                BELOW it read was taken and came back meanwhile (ABA)
Ordering    N1 FOLLOWING and BELOW of a chain are written, N2 compare_exchange TOP
            (acq_rel) pushes it; N3 compare_exchange TOP pops it. N1 -> N2 -> N3: the
            thread that pops a chain sees its links. Lists change owner at the barrier only
            (`epochs`, B1 to B5).
Progress    Lock-free: a compare_exchange fails only if another one succeeded.
Source      Treiber 1986, with a counter; STRETCH, Table I.
Checked     tests/headrace/memory/test_stored.py
"""

from __future__ import annotations

import numpy as np

from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    compare_exchange,
    fetch_add,
    load_acquire,
    load_relaxed,
    store_relaxed,
)
from headrace.memory.cells import padded_cells, reserved

CHAIN = 64
"""Nodes an instance takes at a time."""

TOP = 0 * CELL
USED = 1 * CELL
LIMIT = 2 * CELL

NODE_BITS = 32
NODE_MASK = (1 << NODE_BITS) - 1
ONE_POP = 1 << NODE_BITS


def allocate(limit: int, instances: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Allocate FOLLOWING, BELOW, POOL and OWN for at most `limit` stored tuples.

    Every instance may hold up to a chain of free nodes, so there are that many more nodes.
    """
    nodes = nodes_of(limit, instances)
    pool = padded_cells(3)
    pool[LIMIT] = nodes
    return reserved(nodes + 1, np.int64), reserved(nodes + 1, np.int64), pool, padded_cells(instances)


def nodes_of(limit: int, instances: int) -> int:
    """The number of nodes, beside node 0, which stands for none."""
    return -(-limit // CHAIN) * CHAIN + instances * CHAIN


@kernel
def give_chain(below, pool, first):
    """Push a chain, or the list of an expired window, onto the pool."""
    while True:
        top = load_acquire(pool, TOP)
        store_relaxed(below, first, top & NODE_MASK)  # N1
        if compare_exchange(pool, TOP, top, top - (top & NODE_MASK) + first):  # N2
            return


@kernel
def take_chain(following, below, pool):
    """Pop a chain of at most `CHAIN` nodes, or make one. Returns its first node, 0 if none is left."""
    while True:
        top = load_acquire(pool, TOP)
        first = top & NODE_MASK
        if first == 0:
            return fresh_chain(following, pool)
        rest = load_relaxed(below, first)
        if compare_exchange(pool, TOP, top, top - first + ONE_POP + rest):  # N3
            break
    last = first
    for _ in range(CHAIN - 1):
        if following[last] == 0:
            return first
        last = following[last]
    rest = following[last]
    if rest != 0:
        following[last] = 0
        give_chain(below, pool, rest)
    return first


@kernel
def fresh_chain(following, pool):
    """Make a chain of nodes that were never used. Returns the first one, 0 if the limit is reached."""
    first = fetch_add(pool, USED, CHAIN) + 1
    if first + CHAIN - 1 > load_relaxed(pool, LIMIT):
        return 0
    for node in range(first, first + CHAIN - 1):
        following[node] = node + 1
    following[first + CHAIN - 1] = 0
    return first


@kernel
def take_node(following, below, pool, own, me):
    """Take a free node for instance `me`. Returns 0 if none is left."""
    node = own[me * CELL]
    if node == 0:
        node = take_chain(following, below, pool)
        if node == 0:
            return 0
    own[me * CELL] = following[node]
    following[node] = 0
    return node


@kernel
def purge(following, below, pool, ts, first, left):
    """Give back the nodes of a list whose time is before `left`. Returns the first that stays, and how many were given back."""
    if first == 0 or ts[first] >= left:
        return first, 0
    last = first
    count = 1
    while following[last] != 0 and ts[following[last]] < left:
        last = following[last]
        count += 1
    stays = following[last]
    following[last] = 0
    give_chain(below, pool, first)
    return stays, count
