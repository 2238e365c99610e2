"""Tuples that windows keep (Table I's defaults): equal to the reference; and the pool of their nodes by itself.

Property    `output` sees the tuples of its window in input order, whatever the
            threads, gates, modes and reconfigurations; a node is never in two
            lists at once, and comes back when its window expires or slides on
Oracle      `headrace.reference.operator` with its default f_U and f_S; for the
            pool, lists kept in Python
Cannot see  memory orderings weaker than sequential consistency: the written
            argument in `stored`, and the runs with several threads here

One key, windows of size 4 and advance 2, tuples at 1 and 3. WT=multi stores a
tuple once for each window, WT=single once, and purges it when the window has
moved on::

    time        -2 -1  0  1  2  3  4  5
    tuples               x     x
    l = -1       [-----------)               multi: x1 of its own     single: x1
    l =  0             [-----------)         multi: x1 x3 of its own  slides: x1 x3
    l =  1                   [-----------    multi: x3 of its own     slides: x3
"""

# ruff: noqa: F821

import inspect
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import reference
from headrace.elasticity.mapping import BUCKETS, Mapping
from headrace.operators import custom_shape, stored
from headrace.windows import Window
from interleave import Kernels, exhaustive, find_failure, sampled
from support.workloads import Steered, bits, eventually, processed

QUICK = settings(
    deadline=None,
    max_examples=30,
    phases=[Phase.explicit, Phase.generate],  # shrinking a failure would take minutes
    suppress_health_check=list(HealthCheck),
)

# ------------------------------------------------------------------ the pool


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

STORED = "headrace.operators.stored"


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


# ------------------------------------------------------------------ operators

SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "ks": pa.list_(pa.string()),
        "k": pa.int64(),
        "x": pa.int64(),
        "f": pa.float32(),
        "b": pa.bool_(),
    }
)
ROWS = st.tuples(
    st.integers(-20, 20),
    st.fixed_dictionaries(
        {
            "ks": st.lists(st.sampled_from(["", "a", "b", "é", "ab", "z"]), max_size=4),
            "k": st.sampled_from([-3, -1, 0, 2, 10, 2**40]),
            "x": st.none() | st.integers(-5, 9),
            "f": st.sampled_from([0.5, -0.0, 2.0**100, float("inf")]),
            "b": st.none() | st.booleans(),
        }
    ),
)


@st.composite
def sources(draw, most=3):
    rows = draw(st.lists(st.lists(ROWS, max_size=25), min_size=1, max_size=most))
    return [sorted(source, key=lambda row: row[0]) for source in rows]


@st.composite
def schedules(draw):
    """Threads at the start, and planned changes (tuple count, threads)."""
    counts = st.sampled_from([1, 2, 4])
    places = sorted(draw(st.lists(st.integers(0, 40), max_size=3)))
    return {
        "threads": draw(counts),
        "max_threads": 4,
        "reconfigure": [(place, draw(counts)) for place in places],
    }


def windows(slots):
    return st.integers(1, 6).flatmap(
        lambda advance: st.integers(max(advance, (slots - 1) * advance + 1), slots * advance).map(
            lambda size: Window(size, advance)
        )
    )


def stream(drawn):
    tables = [pa.Table.from_pylist([{"ts": ts, **p} for ts, p in source], SCHEMA) for source in drawn]
    return hr.stream(tables, event_time="ts")


def rows_of(query, **options):
    return [bits(list(row.values())) for row in query.to_arrow(**options).to_pylist()]


def expected(result):
    return [bits([row.ts, row.key, *row.values.values()]) for row in result]


def everything(key, state, emit):
    """Order, nulls, which input, nested loops, break, continue and else."""
    digest = 0
    lowest = 1.5
    for t in state.tuples:
        digest = (31 * digest + 7 * t.ts + t.input) % 1_000_003
        if t.f < lowest:
            lowest = t.f
        if t.x is None:
            continue
        digest += 6 // (t.x - 50)  # fails
        for u in state.tuples:
            if u.x is not None and u.ts > t.ts and u.x == t.x:
                emit(n=u.x, digest=u.ts - t.ts, lowest=u.f, last=u.b is not None and u.b)
                break
        else:
            digest += 1
    emit(n=len(state.tuples), digest=digest, lowest=lowest, last=False)


EMITS = {"n": "int64", "digest": "int64", "lowest": "float64", "last": "bool"}
EVERYTHING = hr.operator(emits=EMITS, output=everything)


def both_inputs(first, second, window, instances):
    streams = [stream(drawn).key_by(tag=hr.each("ks")) for drawn in (first, second)]
    return hr.inputs(*streams).window(window.size, window.advance, instances=instances).apply(EVERYTHING)


@pytest.mark.parametrize(
    ("gate", "mode"), [("log", "vsn"), ("scalegate", "vsn"), ("log", "sn")], ids=lambda value: value
)
def test_oracle_overlapping_windows_of_two_inputs(gate, mode):
    @QUICK
    @given(sources(2), sources(1), windows(3), schedules())
    def check(first, second, window, schedule):
        result = reference.operator([first, second], window, reference.each("ks"), output=everything)
        query = both_inputs(first, second, window, "multi")
        assert rows_of(query, gate=gate, mode=mode, **schedule) == expected(result)

    check()


def of_number(key, state, emit):
    """Reads the key; the kept tuples are those of the window it slid to."""
    total = 0
    for t in state.tuples:
        if t.b is None or t.b:
            total = 3 * total + t.ts + key
    emit(total=total, n=len(state.tuples))


OF_NUMBER = hr.operator(emits={"total": "int64", "n": "int64"}, output=of_number)


@pytest.mark.parametrize("mode", ["vsn", "sn"])
def test_oracle_one_instance_per_key_purges(mode):
    @QUICK
    @given(sources(), windows(4), schedules())
    def check(drawn, window, schedule):
        result = reference.operator(
            [drawn], window, reference.column("k"), instances="single", output=of_number
        )
        query = stream(drawn).key_by("k").window(window.size, window.advance, instances="single")
        assert rows_of(query.apply(OF_NUMBER), mode=mode, **schedule) == expected(result)

    check()


def long_rows(count, keys=40):
    rng = random.Random(9)
    return [
        (ts, {"ks": [], "k": rng.randrange(keys), "x": None, "f": 0.0, "b": rng.random() < 0.5})
        for ts in sorted(rng.randrange(count // 10) for _ in range(count))
    ]


def test_agree_a_long_input_keeps_its_memory_and_moves_all_keys():
    """Scattered mappings, live: every change moves most keys, and the lists with them."""
    rows = pa.Table.from_pylist([{"ts": ts, **p} for ts, p in long_rows(60_000)], SCHEMA)
    source = Steered(rows, [6_000] * 9)
    draw = random.Random(2)

    def query(given):
        keyed = hr.stream(given, event_time="ts").key_by("k")
        return keyed.window(200, 60, instances="single").apply(OF_NUMBER)

    one = query(rows).to_arrow(threads=1)
    with query(source).start(threads=2, max_threads=4) as run:
        for count in range(6_000, 60_000, 6_000):
            source.let()
            eventually(processed(run, count), 60)
            members = sorted(draw.sample(range(4), draw.randint(1, 4)))
            mapping = Mapping([draw.choice(members) for _ in range(BUCKETS)])
            assert run.reconfigure(threads=members, mapping=mapping).wait(60)
        source.let_all()
        assert run.wait(60)
        used = int(run._operators[run.operators[-1]].state[custom_shape.POOL][stored.USED])
        assert run.to_arrow().equals(one)
    # 2,000 tuples lie in a window; those of the next windows come before all of them are given back.
    assert used < 6_000 + 4 * stored.CHAIN


@pytest.mark.parametrize("mode", ["vsn", "sn"])
def test_example_too_many_tuples_say_so(mode):
    operator = hr.operator(emits=OF_NUMBER.emits, output=of_number, max_tuples=100, name="few")
    query = stream([long_rows(2_000)]).key_by("k").window(800, 200, instances="single")
    with pytest.raises(hr.errors.OverflowInputError, match="few: .* more than max_tuples=100 tuples"):
        query.apply(operator).to_arrow(threads=2, mode=mode)


def test_example_a_failing_output_shows_the_window():
    drawn = [(ts, {"ks": ["a"], "k": 0, "x": 50 if ts == 2 else 1, "f": 0.0, "b": None}) for ts in range(4)]
    with pytest.raises(hr.errors.FunctionError, match="ZeroDivisionError") as caught:
        both_inputs([drawn], [[]], Window(30, 10), "multi").to_arrow(threads=2)
    lines, first = inspect.getsourcelines(everything)
    assert caught.value.line == first + next(i for i, line in enumerate(lines) if "# fails" in line)
    assert caught.value.tuple == {"ts": 10, "key": "a", "state.tuples": "4 of them"}


# ----------------------------------------------------------------- refusals


def after_the_loop(key, state, emit):
    last = 0
    for t in state.tuples:
        last = t.ts
    emit(n=t.x + last)


def handed_on(key, state, emit):
    for t in state.tuples:
        emit(n=of_tuple(t))


def of_tuple(t):
    return t.x


def indexed(key, state, emit):
    emit(n=state.tuples[0].x)


def changed(key, state, emit):
    for t in state.tuples:
        t.x = 1


def twice(key, state, emit):
    for t in state.tuples:
        for t in state.tuples:
            emit(n=t.x)


def unknown(key, state, emit):
    for t in state.tuples:
        emit(n=t.nothing)


def text(key, state, emit):
    for t in state.tuples:
        emit(n=t.ks)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (after_the_loop, "'t' may have no value here"),
        (handed_on, "'t' is a stored tuple: give of_tuple its values"),
        (indexed, "state.tuples can only be used as"),
        (changed, "a stored tuple cannot be changed"),
        (twice, "'t' is used for another tuple already"),
        (unknown, "a stored tuple has no field 'nothing'"),
        (text, "which a compiled function cannot read"),
    ],
)
def test_example_what_cannot_be_done_with_kept_tuples(function, message):
    with pytest.raises(hr.errors.FunctionError, match=message):
        stream([[]]).key_by("k").window(5).apply(
            hr.operator(emits={"n": "int64"}, output=function)
        ).to_arrow()


def test_example_state_and_kept_tuples_exclude_each_other():
    operator = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, output=indexed)
    with pytest.raises(hr.errors.FunctionError, match="state has no field 'tuples'"):
        stream([[]]).key_by("k").window(5).apply(operator).to_arrow()
    with pytest.raises(hr.errors.ParameterError, match="slide=: windows without state= and update= keep"):
        hr.operator(output=of_number, slide=lambda key, state, left: None)
    with pytest.raises(hr.errors.ParameterError, match="max_tuples=0"):
        hr.operator(output=of_number, max_tuples=0)
