"""Programs in which only the data say what depends on what: any relation, the same compiled functions; plans and events for them.

There are three tags. For each tag and stream, a state holds the number of the last event processed. An event gives the
sum of these numbers, weighted by its own columns: with weight 0 for tags that its tag does not depend on. So its result
tells exactly which of the events it depends on came before it. Where events of one tag depend on each other, the state
also holds a number that depends on their order.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any

import pyarrow as pa

import headrace as hr
from headrace.synchronization.plan_nodes import PlanNode
from headrace.synchronization.plans import Plan
from headrace.synchronization.tags import ImplementationTag

TAGS = ("a", "b", "c")
STREAMS = 3
COLUMNS = {"s": "int64", "n": "int64", "a": "int64", "b": "int64", "c": "int64", "own": "bool"}
"""Stream, number within the stream, weights, and whether events of the tag depend on each other."""
STATE = {f"{tag}{stream}": "int64" for tag in TAGS for stream in range(STREAMS)}
STATE |= {f"{kind}_{tag}": "int64" for tag in TAGS for kind in ("count", "order")}
FORKED = STATE | {"unused": "float64"}
"""The same with a float: such a state is forked again behind every join, and others may stay joined."""


def update_a(state, e, emit):
    found = e.a * (state.a0 + 3 * state.a1 + 7 * state.a2) + e.b * (state.b0 + 3 * state.b1 + 7 * state.b2)
    found += e.c * (state.c0 + 3 * state.c1 + 7 * state.c2)
    if e.own:
        state.count_a += 1
        state.order_a = (state.order_a * 31 + found + e.s) % 1_000_003
        found += state.order_a
    if e.s == 0:
        state.a0 = e.n
    elif e.s == 1:
        state.a1 = e.n
    else:
        state.a2 = e.n
    if e.n % 4 != 0:
        emit(tag="a", found=found)


def update_b(state, e, emit):
    found = e.a * (state.a0 + 3 * state.a1 + 7 * state.a2) + e.b * (state.b0 + 3 * state.b1 + 7 * state.b2)
    found += e.c * (state.c0 + 3 * state.c1 + 7 * state.c2)
    if e.own:
        state.count_b += 1
        state.order_b = (state.order_b * 31 + found + e.s) % 1_000_003
        found += state.order_b
    if e.s == 0:
        state.b0 = e.n
    elif e.s == 1:
        state.b1 = e.n
    else:
        state.b2 = e.n
    emit(tag="b", found=found)
    emit(tag="b", found=e.n)


def update_c(state, e, emit):
    found = e.a * (state.a0 + 3 * state.a1 + 7 * state.a2) + e.b * (state.b0 + 3 * state.b1 + 7 * state.b2)
    found += e.c * (state.c0 + 3 * state.c1 + 7 * state.c2)
    if e.own:
        state.count_c += 1
        state.order_c = (state.order_c * 31 + found + e.s) % 1_000_003
        found += state.order_c
    if e.s == 0:
        state.c0 = e.n
    elif e.s == 1:
        state.c1 = e.n
    else:
        state.c2 = e.n
    emit(tag="c", found=found)


def copy(state, left, right, tags_left, tags_right):
    left.a0, left.a1, left.a2, left.count_a, left.order_a = state.a0, state.a1, state.a2, state.count_a, state.order_a
    left.b0, left.b1, left.b2, left.count_b, left.order_b = state.b0, state.b1, state.b2, state.count_b, state.order_b
    left.c0, left.c1, left.c2, left.count_c, left.order_c = state.c0, state.c1, state.c2, state.count_c, state.order_c
    right.a0, right.a1, right.a2, right.count_a, right.order_a = state.a0, state.a1, state.a2, state.count_a, state.order_a
    right.b0, right.b1, right.b2, right.count_b, right.order_b = state.b0, state.b1, state.b2, state.count_b, state.order_b
    right.c0, right.c1, right.c2, right.count_c, right.order_c = state.c0, state.c1, state.c2, state.count_c, state.order_c


def latest(into, other):
    into.a0, into.a1, into.a2 = max(into.a0, other.a0), max(into.a1, other.a1), max(into.a2, other.a2)
    into.b0, into.b1, into.b2 = max(into.b0, other.b0), max(into.b1, other.b1), max(into.b2, other.b2)
    into.c0, into.c1, into.c2 = max(into.c0, other.c0), max(into.c1, other.c1), max(into.c2, other.c2)
    if other.count_a > into.count_a:
        into.count_a, into.order_a = other.count_a, other.order_a
    if other.count_b > into.count_b:
        into.count_b, into.order_b = other.count_b, other.order_b
    if other.count_c > into.count_c:
        into.count_c, into.order_c = other.count_c, other.order_c


def random_program(rng: random.Random) -> Any:
    """One of the 64 relations of three tags, sparse ones more often; a state that may stay joined, or one that may not."""
    share = rng.choice([0.2, 0.5, 0.8])
    depends = [pair for pair in combinations_with_replacement(TAGS, 2) if rng.random() < share]
    return hr.program(
        tags=dict.fromkeys(TAGS, COLUMNS), depends=depends, state=rng.choice([STATE, FORKED]),
        emits={"tag": "string", "found": "int64"}, update={"a": update_a, "b": update_b, "c": update_c}, fork=copy, join=latest,
    )  # fmt: skip


def random_plan(rng: random.Random, program: Any, tags: Sequence[ImplementationTag]) -> Plan:
    """A valid plan: what stays at a node is drawn, and the rest splits into groups that depend on each other.

    Half of the plans are forests if they can be: they have a tree for each such group, or for several together.
    """

    def components(rest: list[ImplementationTag]) -> list[list[ImplementationTag]]:
        found: list[list[ImplementationTag]] = []
        for tag in rest:
            near = [one for one in found if any(program.depends(tag.tag, other.tag) for other in one)]
            found = [one for one in found if one not in near] + [[tag, *(t for one in near for t in one)]]
        return found

    def grow(rest: list[ImplementationTag], depth: int) -> PlanNode:
        if depth == 0 or len(rest) < 2:
            return PlanNode(rest)
        stay = rng.choice([0, 0.2, 0.5])
        own = [tag for tag in rest if rng.random() < stay]
        parts = components([tag for tag in rest if tag not in own])
        if len(parts) < 2 and rng.random() < 0.7:
            more = [tag for tag in rest if tag not in own]
            rng.shuffle(more)
            while len(parts) == 1 and more:  # keep tags at the node until the rest splits
                own.append(more.pop())
                parts = components(more)
        sides: tuple[list, list] = ([], [])
        for part in parts:
            rng.choice(sides).extend(part)
        return PlanNode(own, [grow(side, depth - 1) for side in sides])

    depth, parts = rng.randint(1, 4), components(list(tags))
    if len(parts) < 2 or rng.random() < 0.5:
        return Plan([grow(list(tags), depth)])
    trees: list[list[ImplementationTag]] = [[] for _ in range(rng.randint(2, len(parts)))]
    for number, part in enumerate(parts):
        (trees[number] if number < len(trees) else rng.choice(trees)).extend(part)
    return Plan([grow(tree, rng.randint(0, depth)) for tree in trees])


def random_events(rng: random.Random, program: Any, count: int, tag_names: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of one input in time order, with ties."""
    numbers = dict.fromkeys([(tag, stream) for tag in TAGS for stream in range(STREAMS)], 0)
    many = rng.choice(tag_names)
    ts, rows = 0, []
    step = rng.choice([1, 3, 10])
    for _ in range(count):
        ts += rng.randint(0, step) // rng.choice([1, step])
        tag = many if rng.random() < 0.5 else rng.choice(tag_names)
        rows.append({"ts": ts, "tag": tag, "s": rng.randrange(STREAMS)})
    for row in rows:
        tag = row["tag"]
        numbers[tag, row["s"]] += 1
        weights = {other: rng.randint(1, 99) if program.depends(tag, other) else 0 for other in TAGS}
        row |= {"n": numbers[tag, row["s"]], **weights, "own": program.depends(tag, tag)}
    return rows


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as a table, also if there are none."""
    kinds = {"ts": pa.int64(), "tag": pa.string()}
    kinds |= {name: pa.bool_() if kind == "bool" else pa.int64() for name, kind in COLUMNS.items()}
    return pa.Table.from_pylist(rows, pa.schema(kinds))
