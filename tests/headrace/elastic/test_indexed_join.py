"""The index of a join: that it finds every pair, once, and forgets what has left the window.

Property    with the index the rows are the reference's, bit for bit: bands of
            floats where rounding decides, integers at the ends of their range,
            keys and bands together, any threads and reconfigurations; and so
            they are while buckets get places and lose them. A tuple is
            compared with few others, whatever values somebody chose.
Oracle      `headrace.reference.join`; the join without an index, which
            test_join.py compares with it.
Planted     no slack for rounding; cells that share a number; a pair out of the
            window; a hand that does not go round; cells that anybody can foresee;
            buckets that get no places, or keep them; places found by a wrong mask.
Not seen    speed (`headrace bench q3`, `crafted`).
"""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import reference
from headrace.elastic.join import indexed, template
from headrace.elastic.join.index_kernel import (
    BLOCK_ROWS,
    BUCKET_SHIFT,
    COORDINATE_BITS,
    LEAST_CELLS,
    LEFT,
    PLACES,
    RIGHT,
)
from headrace.elastic.join.indexed import FACTORS, SPAN
from headrace.errors import OverflowInputError
from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cell
from headrace.references import BUCKETS
from headrace_bench.crafted import of_bucket_0, of_one_cell_bucket
from support.workloads import examples, scattered, worked

SETTINGS = settings(max_examples=examples(20), deadline=None, derandomize=True)


def rows_of(table):
    return [(row["ts"], {k: v for k, v in row.items() if k != "ts"}) for row in table.to_pylist()]


def expected(left, right, within, predicate):
    return [
        {"ts": m.ts, **m.left, **m.right} for m in reference.join([rows_of(left)], [rows_of(right)], within, predicate)
    ]


def joined(left, right, within, where, **options):
    return hr.stream(left, event_time="ts").join(hr.stream(right, event_time="ts"), within, where, **options)


def check(query, rows, threads=1, schedule=()):
    start = scattered(random.Random(len(rows) + threads), threads)
    table = query.to_arrow(reconfigure=list(schedule), **start)
    assert table.to_pylist() == rows


def side(times, **columns):
    return pa.table({"ts": pa.array(times, pa.int64()), **columns})


@st.composite
def near_each_other(draw, width, bases, kind):
    """Two sides whose values lie about a width apart, give or take the last bit."""
    tables = []
    for name in ("x", "a"):
        values = []
        for _ in range(draw(st.integers(0, 25))):
            value = draw(st.sampled_from(bases)) + draw(st.integers(-2, 2)) * width
            value = math.nextafter(value, draw(st.sampled_from([value, -math.inf, math.inf])))
            values.append(value)
        times = sorted(draw(st.lists(st.integers(-20, 20), min_size=len(values), max_size=len(values))))
        tables.append(side(times, **{name: pa.array(values, kind)}))
    return tables


BASES = [0.0, -0.0, 1.0, -1.0, 1e6, 2.0**31, 1e15, -1e18, 9e19, 1e300, 5e-324, math.inf, -math.inf, math.nan]


@pytest.mark.slow
@SETTINGS
@given(
    st.sampled_from([0.1, 1 / 3, 10.0, 1e-3, 1e9, 1e-300, 5e-324]).flatmap(
        lambda width: st.tuples(st.just(width), near_each_other(width, BASES, pa.float64()))
    ),
    st.integers(1, 8),
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 8)), max_size=3),
)
def test_oracle_floats_where_rounding_decides(case, threads, schedule):
    width, (left, right) = case
    rows = expected(left, right, 15, lambda l, r: abs(l["x"] - r["a"]) <= width)
    # NaN is not equal to itself: compare as text.
    query = joined(left, right, 15, hr.band("x", "a", width))
    table = query.to_arrow(reconfigure=sorted(schedule), **scattered(random.Random(threads), threads))
    assert [str(row) for row in table.to_pylist()] == [str(row) for row in rows]


ENDS = [0, 1, -1, 5, 2**31, -(2**31), 2**53, 2**53 + 1, 2**62, -(2**62), 2**63 - 1, 2**63 - 3, -(2**63), None]


@pytest.mark.slow
@SETTINGS
@given(
    st.lists(st.sampled_from(ENDS), max_size=20),
    st.lists(st.sampled_from(ENDS), max_size=20),
    st.sampled_from([1, 2, 2**31, 2**53, 2**62, 2**63, 2**64 - 1]),
    st.integers(1, 8),
)
def test_oracle_integers_at_the_ends_of_their_range(xs, ys, width, threads):
    left, right = side(range(len(xs)), x=pa.array(xs, pa.int64())), side(range(len(ys)), a=pa.array(ys, pa.int64()))
    rows = expected(
        left, right, 10, lambda l, r: None not in (l["x"], r["a"]) and abs(l["x"] - r["a"]) <= width
    )
    check(joined(left, right, 10, hr.band("x", "a", width)), rows, threads)


KEYED = {"id": st.sampled_from(["a", "b", "é", "zz"]), "v": st.integers(-4, 4)}


@pytest.mark.logic
@SETTINGS
@given(
    st.lists(st.fixed_dictionaries(KEYED), max_size=40),
    st.lists(st.fixed_dictionaries(KEYED), max_size=40),
    st.integers(1, 8),
    st.lists(st.tuples(st.integers(0, 80), st.integers(1, 8)), max_size=3),
)
def test_oracle_keys_with_a_band(lefts, rights, threads, schedule):
    left, right = (
        side(
            range(len(rows)),
            **{id_: pa.array([row["id"] for row in rows], pa.string()), v: pa.array([row["v"] for row in rows], pa.int64())},
        )
        for rows, id_, v in ((lefts, "id", "v"), (rights, "to", "w"))
    )  # fmt: skip
    rows = expected(left, right, 12, lambda l, r: l["id"] == r["to"] and abs(l["v"] - r["w"]) <= 1)
    query = joined(left, right, 12, hr.band("v", "w", 1), on=("id", "to"))
    check(query, rows, threads, sorted(schedule))


def random_sides(n, seed, values, window):
    """Two sides of `n` tuples; about `window` of them are less than 1,000 apart."""
    tables = []
    for name in ("x", "a"):
        rng = np.random.default_rng([seed, len(tables)])
        times = np.sort(rng.integers(0, 1000 * n // window, n))
        tables.append(side(times, **{name: rng.integers(0, values, n).astype(np.float64)}))
    return tables


def pairs(left, right, width, within=1000):
    """The pairs that match, from NumPy."""
    x, a, at, bt = (t[c].to_numpy() for t, c in ((left, "x"), (right, "a"), (left, "ts"), (right, "ts")))
    return int(((np.abs(x[:, None] - a[None, :]) <= width) & (np.abs(at[:, None] - bt[None, :]) < within)).sum())


@pytest.mark.slow
def test_agree_with_all_pairs_and_compares_few():
    """Of integers, whose joins test_join.py compiles too."""
    sides = random_sides(30_000, 3, 10_000, 15_000)
    left, right = (side.set_column(1, side.schema.names[1], side[1].cast(pa.int64())) for side in sides)
    found = {}
    for index in (True, False):
        with joined(left, right, 1000, hr.band("x", "a", 3), index=index).start(
            threads=2, max_threads=4, reconfigure=[(20_000, 4), (30_000, 1), (45_000, 3)]
        ) as run:
            assert run.wait(120)
            found[index] = run.to_arrow(), run.metrics().operators["join"]
    assert found[True][0].equals(found[False][0]) and found[True][0].num_rows > 100_000
    metrics = found[True][1]
    assert metrics.comparisons >= found[True][0].num_rows
    assert metrics.comparisons < found[False][1].comparisons / 100
    # Work is booked for the buckets it was for.
    assert sum(metrics.bucket_load) == metrics.updates and worked(run, "join") > 1


@pytest.mark.logic
def test_agree_instances_that_share_nothing():
    left, right = random_sides(300, 4, 50, 100)
    query = joined(left, right, 1000, hr.band("x", "a", 3.0))
    assert query.to_arrow(threads=2, mode="sn").equals(query.to_arrow(threads=2))


def drifting(n):
    """Values that never come back: a cell gets eighty left tuples at once, then none ever again."""
    times, later = np.arange(n) // 80, np.arange(n // 80)
    return side(times, x=times / 1.0), side(later, a=later / 1.0)


def blocks_taken(query, **options):
    """How many blocks the tuples of both sides ever took, beside those that were given back; and the results."""
    with query.start(**options) as run:
        assert run.wait(120)
        taken = run._operators["join"].section.state.taken
        return read_cell(taken, LEFT * CELL) + read_cell(taken, RIGHT * CELL), run.to_arrow()


@pytest.mark.logic
def test_example_a_full_index_says_what_to_do(monkeypatch):
    monkeypatch.setattr(indexed, "MOST_BLOCKS", 50)
    left, right = random_sides(400, 5, 10_000, 400)
    with pytest.raises(OverflowInputError, match=r"join: the tuples within 1,000 time units .* index=False"):
        joined(left, right, 1000, hr.band("x", "a", 3.0)).to_arrow()
    assert joined(left, right, 1000, hr.band("x", "a", 3.0), index=False).to_arrow().num_rows >= 0


# -- cells


def buckets_of(first, second):
    """`mixed`, of coordinates taken modulo 2**31."""
    low = 2**COORDINATE_BITS - 1
    return ((((first & low) * FACTORS[0] + (second & low) * FACTORS[1]) & low) >> BUCKET_SHIFT) % BUCKETS


def test_property_cells_of_a_tuple_are_of_different_buckets():
    draw = random.Random(1)
    corners = [(0, 0), (2**31 - 2, -(2**50)), *((draw.getrandbits(50), draw.getrandbits(50)) for _ in range(2000))]
    for first, second in corners:
        grid = [buckets_of(first + i, second + j) for i, j in itertools.product(range(SPAN), repeat=2)]
        assert len(set(grid)) == len(grid)


def test_property_neighbouring_cells_are_spread_over_the_buckets():
    for count in (200, 1000, 5000):
        load = np.bincount([buckets_of(cell, 0) for cell in range(count)], minlength=1024)
        halves = load.reshape(2, 512).sum(axis=1)
        assert abs(halves[0] - halves[1]) < 0.06 * count


def of_one_fold(count):
    """Different numbers, as integers and as floats, whose first coordinate is 0: `fold` gives 0."""
    upper = np.arange(count, dtype=np.int64) << 31
    integers = upper | ((upper ^ (upper >> 31) ^ (upper >> 47)) & (2**31 - 1))
    assert len({*integers.tolist()}) == count
    return integers, (integers + (1 << 62)).view(np.float64)


def same(names, *columns):
    return side(range(len(columns[0])), **dict(zip(names, columns, strict=True)))


def assert_compared_little(left, right, where, **options):
    """Every tuple, all in the window, meets itself and at most three blocks of others in each cell, on average."""
    count = left.num_rows
    with joined(left, right, 2 * count, where).start(threads=1, **options) as run:
        assert run.wait(120)
        assert run.to_arrow().num_rows == count
        compared = run["join"].metrics().comparisons
    assert compared < 2 * count * 3 * BLOCK_ROWS, f"{compared} comparisons of {count} values of one bucket"


CROWD = 2_500


@pytest.mark.logic
@pytest.mark.parametrize("kind", ["integers", "floats", "twice the same", "behind another", "a band"])
def test_property_values_that_somebody_chose_meet_few_others(kind):
    integers, floats = of_one_fold(CROWD)
    if kind == "twice the same":
        sides = same("xy", integers, integers), same("ab", integers, integers)
        assert_compared_little(*sides, hr.equal("x", "a") & hr.equal("y", "b"))
    elif kind == "behind another":
        zeros = np.zeros(CROWD, np.int64)
        sides = same("xy", integers, zeros), same("ab", integers, zeros)
        assert_compared_little(*sides, hr.equal("y", "b") & hr.equal("x", "a"))
    elif kind == "a band":
        values = of_one_cell_bucket(CROWD) * 3  # cells of three whole numbers
        assert_compared_little(same("x", values), same("a", values), hr.band("x", "a", 1))
    else:
        values = floats if kind == "floats" else integers
        assert_compared_little(same("x", values), same("a", values), hr.equal("x", "a"))


@pytest.mark.logic
def test_property_keys_of_one_bucket_meet_few_others():
    """Keys: their ids are dense within a bucket, so the places of a bucket come from ids."""
    offsets = np.arange(CROWD + 1, dtype=np.int32) * 8
    keys = pa.BinaryArray.from_buffers(pa.binary(), CROWD, [None, pa.py_buffer(offsets), pa.py_buffer(of_bucket_0(CROWD))])
    assert_compared_little(same("x", keys), same("a", keys), hr.equal("x", "a"), max_keys=4_000_000)


def few_places(monkeypatch):
    """Buckets begin with one place, get more with their second block of a place, and the hand is quick."""
    monkeypatch.setattr(indexed, "LEAST_CELLS", 1)
    few = {"LEAST_CELLS = 64": "LEAST_CELLS = 1", "CROWDED = 2": "CROWDED = 1", "SPARSE = 4": "SPARSE = 1"}
    plant(monkeypatch, few | {"n // 4 + 1": "16 * n"})


def waves(seed):
    """Values of few buckets that come in waves: the window holds thousands of tuples, then almost none."""
    rng = np.random.default_rng(seed)
    tables = []
    for name in ("x", "a"):
        gaps = np.concatenate([np.repeat([1, 400], [600, 100]) for _ in range(2)])
        cells = rng.choice(of_one_cell_bucket(700), gaps.size)
        tables.append(side(np.cumsum(gaps), **{name: 3 * cells + rng.integers(0, 3, gaps.size)}))
    return tables


@pytest.mark.slow
@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("threads", "schedule"),
    [pytest.param(1, [], marks=pytest.mark.campaign), (3, [(500, 1), (1500, 2), (2500, 3)])],
    ids=["one thread", "changes"],
)
def test_agree_while_places_come_and_go(monkeypatch, threads, schedule):
    left, right = waves(1)
    query = joined(left, right, 500, hr.band("x", "a", 1))
    expected_rows = joined(left, right, 500, hr.band("x", "a", 1), index=False).to_arrow()
    assert expected_rows.num_rows > 500
    few_places(monkeypatch)
    with query.start(threads=threads, max_threads=3, reconfigure=schedule) as run:
        assert run.wait(120)
        state = run._operators["join"].section.state
        assert run.to_arrow().equals(expected_rows)
    places = np.array([state.left_buckets[:, PLACES].max(), state.right_buckets[:, PLACES].max()])
    # More than a hundred came, in regions twice as large each time; most of them have gone again.
    grown = state.taken[2 * CELL :: CELL] - BUCKETS - 1
    assert (grown >= 2 + 4 + 8 + 16 + 32 + 64 + 128).all() and (places < 64).all(), (grown, places)


# -- planted mistakes


def plant(monkeypatch, mistakes, file=None):
    """Put mistakes, text -> text, into a join, or into those of its kernels that are written for each side."""

    def with_them(source):
        for text, mistake in mistakes.items():
            assert source.count(text) == 1, "the mistake is out of date"
            source = source.replace(text, mistake)
        return source

    if file is not None:
        monkeypatch.setattr(indexed, file, with_them(getattr(indexed, file)))
        return
    whole = template.generate
    monkeypatch.setattr(template, "generate", lambda shape: with_them(whole(shape)))


@pytest.mark.interpreted
def test_planted_cells_that_share_a_bucket(monkeypatch):
    left, right = random_sides(300, 6, 60, 100)
    query = joined(left, right, 1000, hr.band("x", "a", 3.0))
    assert query.to_arrow().num_rows == pairs(left, right, 3.0)
    monkeypatch.setattr(indexed, "FACTORS", (1, 1))
    plant(monkeypatch, {"return wrapped_product(summed ^ (summed >> 32), MIXER)": "return 0 * summed"})
    assert query.to_arrow().num_rows > pairs(left, right, 3.0)


@pytest.mark.interpreted
def test_planted_slots_that_anybody_can_foresee(monkeypatch):
    plant(monkeypatch, {"return np.int64(seeded_pair(": "return 0 * np.int64(seeded_pair("})
    assert_crowded(400)


def assert_crowded(count):
    values = of_one_fold(count)[0]
    with pytest.raises(AssertionError, match=f"comparisons of {count} values of one bucket"):
        assert_compared_little(same("x", values), same("a", values), hr.equal("x", "a"))


@pytest.mark.interpreted
def test_planted_buckets_that_get_no_places(monkeypatch):
    plant(monkeypatch, {"for _ in range(2):\n        if side": "for _ in range(0):\n        if side"})
    assert_crowded(5_000)


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("cell &= buckets[bucket, PLACE_MASK] >> 1", "cell = 0"),
        ("cells[start + cell] = cells[before + cell]", "cells[start + cell] = 0"),
    ],
    ids=["a place under a wrong mask", "moved without the cells"],
)
def test_planted_tuples_that_are_not_found_again(monkeypatch, text, mistake):
    left, right = waves(1)
    query = joined(left, right, 500, hr.band("x", "a", 1))
    expected_rows = query.to_arrow()
    few_places(monkeypatch)
    plant(monkeypatch, {text: mistake})
    assert not query.to_arrow().equals(expected_rows)


@pytest.mark.interpreted
def test_planted_places_that_are_kept(monkeypatch):
    left, right = waves(1)
    few_places(monkeypatch)
    plant(monkeypatch, {"> max(LEAST_CELLS, SPARSE * buckets": "> max(1 << 30, SPARSE * buckets"})
    with joined(left, right, 500, hr.band("x", "a", 1)).start() as run:
        assert run.wait(120)
        assert run._operators["join"].section.state.left_buckets[:, PLACES].max() > 64


def at_the_edge(width):
    """Whole numbers that float64 cannot tell from their neighbours, a width apart, where that changes the cell."""

    def cell(value):
        return math.floor((value + 0.5) * (1.0 / (2 * width + 1)))

    numbers = range(2**53 + 1, 2**53 + 4000, 2)
    return [(x, x + width) for x in numbers if cell(float(x) + width) < cell(float(x + width))]


@pytest.mark.campaign  # each compiles its own join
def test_planted_no_slack_for_rounding(monkeypatch):
    a, x = zip(*at_the_edge(5), strict=True)  # of equal times the right one comes later: it looks for the left one
    left, right = side(range(len(x)), x=pa.array(x)), side(range(len(a)), a=pa.array(a))
    query = joined(left, right, 1, hr.band("x", "a", 5))
    assert query.to_arrow().num_rows == len(x) > 0
    plant(monkeypatch, {"SLACK = 2.0**-50": "SLACK = 0.0"})
    assert query.to_arrow().num_rows < len(x)


@pytest.mark.interpreted
def test_planted_a_pair_out_of_the_window(monkeypatch):
    left, right = random_sides(300, 6, 60, 100)
    plant(monkeypatch, {"if other_ts > oldest{user_condition}": "if True{user_condition}"}, file="_PROBE")
    assert joined(left, right, 1000, hr.band("x", "a", 3.0)).to_arrow().num_rows > pairs(left, right, 3.0)


@pytest.mark.campaign  # each compiles its own join
def test_planted_a_hand_that_does_not_go_round(monkeypatch):
    """Eighty tuples are in the window, of 800,000, all others in cells that nothing comes to again."""
    left, right = drifting(800_000)
    query = joined(left, right, 1, hr.band("x", "a", 0.1))
    taken, table = blocks_taken(query)
    assert table.num_rows == 800_000
    assert taken < 1.2 * 4 * BUCKETS * LEAST_CELLS / BLOCK_ROWS  # what comes while the hand goes round
    plant(monkeypatch, {"bucket = (bucket + 1) & BUCKET_MASK": "bucket = bucket"})
    assert blocks_taken(query)[0] > 800_000 / BLOCK_ROWS
