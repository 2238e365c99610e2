"""Operators of the paper as a user writes them: ScaleJoin, J+ and Operator 15.

Property    Operator 10 written as plain functions, its stored tuples in lists of its
            state or kept by the window, emits the pairs that `Stream.join` gives, at
            the same times; with one key also in its order. Operator 15 as printed has
            a copy of each tuple from every key, `Stream.forward` each tuple once
Oracle      `headrace.reference`, and `Stream.join` beside it
Cannot see  speed: an operator that stores by hand compares one by one, and not in vectors
"""

import itertools
import random

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import reference
from headrace.reference.stateless import forward_as_printed
from support.drawn import schedules
from support.workloads import bits, examples

QUICK = settings(
    deadline=None,
    max_examples=examples(8),
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
KEYS = 5
"""Operator 10 has 1000: each compares every tuple with those that it stores, and stores every 1000th."""
WIDTH = 3
LEFT = pa.schema({"ts": pa.int64(), "keys": pa.list_(pa.int64()), "x": pa.int64(), "y": pa.float64()})
RIGHT = pa.schema({"ts": pa.int64(), "keys": pa.list_(pa.int64()), "a": pa.int64(), "b": pa.float64()})

STORED = {
    "left_ts": hr.list_of("int64"), "x": hr.list_of("int64"), "y": hr.list_of("float64"),
    "right_ts": hr.list_of("int64"), "a": hr.list_of("int64"), "b": hr.list_of("float64"),
    "count": "int64",
}  # fmt: skip
EMITS = {"x": "int64", "y": "float64", "a": "int64", "b": "float64"}


def scale_join(key, state, t, emit):
    """f_U of Operator 10: compare with what the other side stored here, and store every KEYS-th tuple."""
    if t.input == 0:
        for i in range(len(state.right_ts)):
            if abs(t.x - state.a[i]) <= WIDTH and abs(t.y - state.b[i]) <= WIDTH:
                emit(x=t.x, y=t.y, a=state.a[i], b=state.b[i])
        if state.count % KEYS == key:
            state.left_ts.append(t.ts)
            state.x.append(t.x)
            state.y.append(t.y)
    else:
        for i in range(len(state.left_ts)):
            if abs(state.x[i] - t.a) <= WIDTH and abs(state.y[i] - t.b) <= WIDTH:
                emit(x=state.x[i], y=state.y[i], a=t.a, b=t.b)
        if state.count % KEYS == key:
            state.right_ts.append(t.ts)
            state.a.append(t.a)
            state.b.append(t.b)
    state.count += 1


def purge(key, state, left):
    """f_S of Operator 10: what lies before the window is not compared with any more."""
    while len(state.left_ts) > 0 and state.left_ts[0] < left:
        state.left_ts.pop(0)
        state.x.pop(0)
        state.y.pop(0)
    while len(state.right_ts) > 0 and state.right_ts[0] < left:
        state.right_ts.pop(0)
        state.a.pop(0)
        state.b.pop(0)


OPERATOR_10 = hr.operator(state=STORED, emits=EMITS, update=scale_join, slide=purge)


def near(state, t, emit):
    """f_U of J+ with Table I's default behind it: compare with the tuples that the window keeps."""
    state.seen += 1
    for u in state.tuples:
        if u.input != t.input:
            if t.input == 0:
                if abs(t.x - u.a) <= WIDTH and abs(t.y - u.b) <= WIDTH:
                    emit(x=t.x, y=t.y, a=u.a, b=u.b)
            elif abs(u.x - t.a) <= WIDTH and abs(u.y - t.b) <= WIDTH:
                emit(x=u.x, y=u.y, a=t.a, b=t.b)


def leaving(key, state, left):
    """f_S beside the default: it sees those that leave."""
    for u in state.tuples:
        if u.ts < left:
            state.seen -= 1


KEEPING = hr.operator(state={"seen": "int64"}, emits=EMITS, update=near, slide=leaving, keep_tuples=True)


def pass_on(state, t, emit):
    """f_U of Operator 15: emit what comes."""
    emit(x=t.x, y=t.y)


PASSING = hr.operator(emits={"x": "int64", "y": "float64"}, update=pass_on)


def within(left, right):
    return abs(left["x"] - right["a"]) <= WIDTH and abs(left["y"] - right["b"]) <= WIDTH


def rows(names):
    values = st.fixed_dictionaries(
        {names[0]: st.integers(0, 12), names[1]: st.sampled_from([0.0, 1.5, 4.5, 9.25, 1e300])}
    )
    drawn = st.lists(st.tuples(st.integers(-10, 40), values), max_size=40)
    return drawn.map(lambda source: sorted(source, key=lambda row: row[0]))


def tables(left, right):
    keys = {"keys": list(range(KEYS))}
    return [
        pa.Table.from_pylist([{"ts": ts, **keys, **payload} for ts, payload in side], schema)
        for side, schema in ((left, LEFT), (right, RIGHT))
    ]


def as_operator(operator, left, right, size, multi):
    """O+ with WA = delta, WT = single; of every key, or without one."""
    streams = [hr.stream(side, event_time="ts") for side in (left, right)]
    if multi:
        streams = [each.key_by(k=hr.each("keys")) for each in streams]
    return hr.inputs(*streams).window(size, 1, instances="single").apply(operator)


def built_in(left, right, size):
    where = hr.band("x", "a", WIDTH) & hr.band("y", "b", WIDTH)
    sides = [hr.stream(side.drop_columns("keys"), event_time="ts") for side in (left, right)]
    return sides[0].join(sides[1], size, where=where)


def pairs(table):
    return [bits([row[name] for name in ("ts", "x", "y", "a", "b")]) for row in table.to_pylist()]


def oracle(left, right, size):
    matches = reference.join([left], [right], size, within)
    return [bits([m.ts, m.left["x"], m.left["y"], m.right["a"], m.right["b"]]) for m in matches]


@pytest.mark.logic
@pytest.mark.parametrize("mode", ["vsn", "sn"])
@pytest.mark.parametrize(
    ("operator", "multi"), [pytest.param(OPERATOR_10, True, id="10"), pytest.param(KEEPING, False, id="of kept tuples")]
)
def test_oracle_operator(operator, multi, mode):
    in_order = sorted if multi else list  # that of one key is that of the join

    @QUICK
    @given(rows("xy"), rows("ab"), st.integers(1, 20), schedules())
    def check(left, right, size, schedule):
        query = as_operator(operator, *tables(left, right), size, multi=multi)
        assert in_order(pairs(query.to_arrow(mode=mode, **schedule))) == in_order(oracle(left, right, size))

    check()


@pytest.mark.logic
def test_oracle_a_join_pairs_what_shares_a_window():
    """J of section 2.1, whatever WA: both in windows with the same boundaries, and each pair once, at the first of them.

    `Stream.join` is that for WA = delta, where it means less than WS apart; elsewhere it is less: with WS 4 and WA 2,
    tuples at 1 and 4 are 3 apart, and no window has both.
    """

    @QUICK
    @given(rows("xy"), rows("ab"), st.integers(0, 12), st.integers(1, 6), schedules())
    def check(left, right, overlap, advance, schedule):
        size = advance + overlap
        streams = [hr.stream(side, event_time="ts") for side in tables(left, right)]
        query = hr.inputs(*streams).window(size, advance, instances="single").apply(KEEPING)
        wanted = []
        for (tl, l), (tr, r) in itertools.product(left, right):
            ends = [n * advance + size for n in range(-40, 60) if n * advance <= min(tl, tr) <= max(tl, tr) < n * advance + size]
            if ends and within(l, r):
                wanted.append(bits([ends[0], l["x"], l["y"], r["a"], r["b"]]))
        assert sorted(pairs(query.to_arrow(**schedule))) == sorted(wanted)

    check()
    apart = tables([(1, {"x": 0, "y": 0.0})], [(4, {"a": 0, "b": 0.0})])
    streams = [hr.stream(side, event_time="ts") for side in apart]
    assert hr.inputs(*streams).window(4, 2, instances="single").apply(KEEPING).to_arrow().num_rows == 0
    assert built_in(*apart, 4).to_arrow().num_rows == 1


@pytest.mark.logic
def test_oracle_operator_15_as_printed_and_as_meant():
    @QUICK
    @given(rows("xy"), schedules())
    def check(left, schedule):
        table, _ = tables(left, [])
        stream = hr.stream(table, event_time="ts")
        printed = stream.key_by(k=hr.each("keys")).window(1).apply(PASSING).to_arrow(**schedule)
        rows = [(ts + 1, payload["x"], payload["y"]) for ts, payload in forward_as_printed([left], KEYS)]
        assert [(row["ts"], row["x"], row["y"]) for row in printed.to_pylist()] == rows  # at the windows' right boundaries
        assert printed["k"].to_pylist() == list(range(KEYS)) * len(left)
        meant = stream.forward().to_arrow(**schedule)
        assert [(row["ts"], {"x": row["x"], "y": row["y"]}) for row in meant.to_pylist()] == reference.forward([left])

    check()


@pytest.mark.slow
@pytest.mark.parametrize(
    "operator", [pytest.param(KEEPING, id="of kept tuples"), pytest.param(OPERATOR_10, marks=pytest.mark.campaign, id="10")]
)
def test_agree_with_the_built_in_join(operator):
    """Compiled, in a stream that is long enough for changes to fall into it."""
    draw = random.Random(3)

    def side(names):
        return [
            (ts, {names[0]: draw.randrange(40), names[1]: draw.randrange(160) / 4})
            for ts in sorted(draw.randrange(4_000) for _ in range(4_000))
        ]

    left, right = tables(side("xy"), side("ab"))
    expected = pairs(built_in(left, right, 50).to_arrow(threads=2))
    changes = {"threads": 1, "max_threads": 3, "reconfigure": [(1_000, 3), (4_000, 2), (7_000, 1)]}
    by_hand = pairs(as_operator(operator, left, right, 50, multi=operator is OPERATOR_10).to_arrow(**changes))
    in_order = sorted if operator is OPERATOR_10 else list
    assert len(expected) > 500 and in_order(by_hand) == in_order(expected)
