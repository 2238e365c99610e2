"""The pool of nodes in which windows keep tuples, by itself.

Property    a node is never in two lists at once, and comes back when its list
            is given back or purged
Oracle      lists kept in Python
Cannot see  memory orderings weaker than sequential consistency: the written
            argument in `stored`; what operators do with the pool:
            tests/headrace/elastic/test_kept_tuples.py
"""

# ruff: noqa: F821

import random

import numpy as np
import pytest

from headrace.memory import stored
from interleave import Kernels, exhaustive, find_failure, sampled


def chained(following, first):
    nodes = []
    while first != 0:
        assert len(nodes) < len(following), "the chain is a ring"
        nodes.append(first)
        first = int(following[first])
    return nodes


def test_oracle_lists_against_python_lists():
    """Three instances build lists, purge and give back those of any instance; no node is in two of them."""
    rng = random.Random(4)
    following, below, pool, own = stored.allocate(2_000, 3)
    ts = np.zeros(len(following), np.int64)
    lists: list[tuple[int, list[int]]] = []  # first node, the times that must be in it
    for now in range(30_000):
        if lists and rng.random() < 0.1:
            first, times = lists.pop(rng.randrange(len(lists)))
            if rng.random() < 0.5:
                stored.give_chain(below, pool, first)
                continue
            left = rng.choice(times)
            stays, count = stored.purge(following, below, pool, ts, first, left)
            assert count == sum(t < left for t in times)
            lists.append((int(stays), [t for t in times if t >= left]))
        elif sum(len(times) for _, times in lists) < 1_900:
            if len(lists) < 40 and rng.random() < 0.3:
                lists.append((0, []))
            if not lists:
                continue
            at = rng.randrange(len(lists))
            first, times = lists[at]
            node = int(stored.take_node(following, below, pool, own, rng.randrange(3)))
            assert node != 0
            ts[node] = now
            if first == 0:
                first = node
            else:
                following[chained(following, first)[-1]] = node
            lists[at] = (first, [*times, now])
        lists = [entry for entry in lists if entry[0] != 0]
    found = [chained(following, first) for first, _ in lists]
    assert [[int(ts[node]) for node in nodes] for nodes in found] == [times for _, times in lists]
    assert len({node for nodes in found for node in nodes}) == sum(map(len, found))
    assert pool[stored.USED] <= 2_000 + 3 * stored.CHAIN


def test_example_nodes_are_used_again():
    """What is taken from the memory grows with the tuples kept at once, not with those that ever were."""
    following, below, pool, own = stored.allocate(10_000, 2)
    for window in range(200):
        first = last = 0
        for _ in range(300):
            node = stored.take_node(following, below, pool, own, window % 2)
            if first == 0:
                first = node
            else:
                following[last] = node
            last = node
        stored.give_chain(below, pool, first)
    assert pool[stored.USED] <= 300 + 3 * stored.CHAIN


def test_example_the_limit_is_reached():
    following, below, pool, own = stored.allocate(100, 2)
    taken = [stored.take_node(following, below, pool, own, 0) for _ in range(300)]
    assert taken.index(0) >= 100
    assert len(set(taken)) == taken.index(0) + 1 and set(taken[taken.index(0) :]) == {0}


# ------------------------------------------------------- the pool, interleaved

STORED = "headrace.memory.stored"


def work(following, below, pool, own, me, owner, turns):
    """Take nodes one by one, own each, and give each back as a list of its own."""
    for _ in range(turns):
        node = take_node(following, below, pool, own, me)
        assert node != 0
        assert owner[node] == 0, "two instances have the same node"
        owner[node] = 1 + me
        cut()
        assert owner[node] == 1 + me, "two instances have the same node"
        owner[node] = 0
        give_chain(below, pool, node)


def kernels(*planted):
    return Kernels(
        STORED,
        programs=[work],
        shared=("following", "below"),
        planted=[(STORED, *bug) for bug in planted],
        constants={"CHAIN": 2},
        given={"padded_cells": None, "reserved": None},
    )


def pool_case(k, instances, turns, chains=((1,), (2,))):
    """Chains lie in the pool already, the last one on top; further nodes are there to be taken."""
    nodes = max(node for chain in chains for node in chain)

    def build():
        following, below, owner = ([0] * (nodes + 4 * instances + 1) for _ in range(3))
        top = 0
        for chain in chains:
            for node, after in zip(chain, (*chain[1:], 0), strict=True):
                following[node] = after
            below[chain[0]], top = top, chain[0]
        pool, own = [top, nodes, nodes + 4 * instances], [0] * instances
        threads = [k.work(following, below, pool, own, me, owner, turns) for me in range(instances)]

        def check():
            assert not any(owner)
            free, chain = [], pool[0] & stored.NODE_MASK
            while chain != 0:
                assert len(free) <= len(below), "a chain is in the pool twice"
                free += chained(following, chain)
                chain = below[chain]
            free += [node for first in own for node in chained(following, first)]
            assert sorted(free) == list(range(1, pool[1] + 1)), "a node is lost, or free twice"

        return threads, check

    return build


@pytest.mark.slow
def test_interleave_every_schedule_of_two_instances():
    assert exhaustive("kept tuples", pool_case(kernels(), 2, 1)) > 1_000
    assert exhaustive("kept tuples", pool_case(kernels(), 2, 2), preemptions=3) > 4_000


def test_interleave_chains_that_are_cut():
    assert (
        exhaustive("kept tuples", pool_case(kernels(), 2, 2, ((1, 2, 3), (4, 5, 6))), preemptions=3) > 4_000
    )


def test_interleave_larger_cases():
    sampled("kept tuples", pool_case(kernels(), 3, 3, ((1,), (2, 3, 4), (5,))), 10_000)


CUT = "        following[last] = 0\n        give_chain(below, pool, rest)"
BUGS = {
    "no count of pops (ABA)": ("top - first + ONE_POP + rest", "top - first + rest", (3, 3)),
    "a cut chain keeps its link": (CUT, "        give_chain(below, pool, rest)", (2, 2, ((1, 2, 3), (4, 5, 6)))),
    "fresh chains overlap": ("fetch_add(pool, USED, CHAIN) + 1", "fetch_add(pool, USED, 1) + 1", (3, 3)),
}


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_interleave_planted_bugs_are_found(bug):
    old, new, sizes = bug
    twice = "two instances have the same node|a node is lost, or free twice|a chain is in the pool twice|the chain is a ring"
    find_failure("kept tuples", pool_case(kernels((old, new)), *sizes), twice)
