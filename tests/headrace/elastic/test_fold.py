"""How tuples are folded into windows: by vectors, round the ring, from zeroed memory, past nulls.

Property    any windows, nulls, NaN and integers to the ends of int64, any threads
            and mappings: the rows are the reference's, bit for bit; which keys an
            instance owns is what NumPy says.
Oracle      `headrace.reference.aggregate`; NumPy.
Planted     a free place taken for many; a window behind the ring's end left out; the null before a first value
            not counted; zeroed memory taken for a least value.
Not seen    speed (`headrace bench growth`).
"""

import random
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import reference
from headrace.elastic import section
from headrace.elastic.aggregate import fold, template
from headrace.elastic.ownership import LANES, places_in_range, places_in_table
from headrace.references import BUCKET_MASK
from headrace.windows import Window
from support.workloads import HANG_S, assert_same, bits, rows_of, scattered

SETTINGS = settings(max_examples=25, deadline=None, derandomize=True)
ENDS = [2**63 - 1, -(2**63), 0, -1, 7]

# A ring of 6 windows, all of them open at once, and one of 7 in which 6 or 7 are.
WINDOWS = [Window(6, 1), Window(13, 2)]


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 500])
def test_oracle_places_of_owned_keys(count):
    rng = np.random.default_rng(count)
    keys = rng.integers(0, 1 << 20, count).astype(np.int32)
    buffer = np.zeros(count + LANES, np.int32)
    owner = rng.integers(0, 3, BUCKET_MASK + 1)
    start = count // 5
    for low, width in ((0, 1024), (100, 300), (1023, 1), (5, 0)):
        bucket = keys[start:] & BUCKET_MASK
        used = places_in_range(keys, start, count, buffer, low, width)
        wanted = start + np.flatnonzero((bucket >= low) & (bucket < low + width))
        assert buffer[:used].tolist() == wanted.tolist()
    used = places_in_table(keys, start, count, buffer, owner, 1)
    assert buffer[:used].tolist() == (start + np.flatnonzero(owner[keys[start:] & BUCKET_MASK] == 1)).tolist()


def draw_table(seed):
    """Few keys, many nulls, times with gaps and ties."""
    rng = random.Random(seed)
    n = rng.randrange(1, 60)
    ts = sorted(rng.choice([rng.randrange(30), rng.randrange(300)]) - 20 for _ in range(n))
    some = rng.choice([0.0, 0.3, 0.9])

    def column(draw):
        return [None if rng.random() < some else draw() for _ in range(n)]

    return pa.table({
        "ts": pa.array(ts, pa.int64()),
        "key": pa.array([rng.randrange(4) for _ in range(n)], pa.int64()),
        "v": pa.array(column(lambda: rng.choice(ENDS)), pa.int64()),
        "small": pa.array(column(lambda: rng.randrange(-9, 9)), pa.int64()),
        "x": pa.array(column(lambda: rng.choice([0.1, -0.0, 2.5, float("nan"), float("inf")])), pa.float64()),
    })


EVERY = {
    "low": ("min", "v"), "high": ("max", "v"), "total": ("sum", "small"), "least": ("min", "x"),
    "most": ("max", "x"), "first": ("first", "v"), "last": ("last", "x"), "known": ("count", "v"), "n": ("count", None),
}  # fmt: skip


def folded(table, window, wanted, **start):
    aggregates = {name: getattr(hr, kind)(*([column] if column else [])) for name, (kind, column) in wanted.items()}
    stream = hr.stream(table, event_time="ts").key_by("key").window(window.size, window.advance)
    return stream.aggregate(**aggregates).to_arrow(**start)


def defined(table, window, wanted):
    rows = [(row["ts"], {k: v for k, v in row.items() if k != "ts"}) for row in table.to_pylist()]
    result = reference.aggregate([rows], window, reference.column("key"), wanted)
    return [bits([row.ts, row.key, *row.values.values()]) for row in result]


@pytest.mark.slow
@pytest.mark.parametrize("window", [pytest.param(WINDOWS[0], marks=pytest.mark.campaign), WINDOWS[1]], ids=str)
@SETTINGS
@given(seed=st.integers(0, 2**32), threads=st.integers(1, 3))
def test_oracle_folds(window, seed, threads):
    table = draw_table(seed)
    start = scattered(random.Random(seed), threads)
    assert_same(rows_of(folded(table, window, EVERY, **start)), defined(table, window, EVERY), f"seed {seed}")


MANY = pa.table({"ts": np.arange(4_000) // 40, "key": np.arange(4_000) * 7 % 83, "v": np.arange(4_000) % 11 - 5})
SOME = {"n": ("count", None), "top": ("max", "v")}


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [1, 8, 32])
def test_oracle_results_through_a_ring_that_holds_few(monkeypatch, capacity):
    """Each window has more results than the ring has places, so they wait for the collector and turn with the ring."""
    monkeypatch.setattr(section, "OUTPUT_CAPACITY", capacity)
    for seed in range(6):
        start = scattered(random.Random(seed), 1 + seed % 3)
        assert_same(rows_of(folded(MANY, Window(9, 3), SOME, **start)), defined(MANY, Window(9, 3), SOME), f"seed {seed}")


# -- planted mistakes


def check(table, window, wanted):
    assert_same(rows_of(folded(table, window, wanted)), defined(table, window, wanted), str(wanted))


def assert_found(table, window, wanted):
    with pytest.raises(AssertionError, match="must be"):
        check(table, window, wanted)


@pytest.mark.slow
@pytest.mark.interpreted
def test_planted_the_rings_end_is_the_windows_end(monkeypatch):
    case = pa.table({"ts": [0, 3, 5, 9], "key": [1, 1, 1, 1], "v": [5, 6, 7, 8]}), Window(13, 2), {"top": ("max", "v")}
    check(*case)
    assert "pieces = 2 if around > 0 else 1" in fold._RING
    monkeypatch.setattr(fold, "_RING", fold._RING.replace("2 if around > 0 else 1", "1"))
    assert_found(*case)


@pytest.mark.interpreted
def test_planted_a_null_is_a_first_value(monkeypatch):
    table = pa.table({"ts": [0, 0, 1, 2], "key": [1, 1, 1, 1], "v": [None, -3.0, -2.0, -4.0]})
    case = table, Window(3, 3), {"top": ("max", "v")}
    check(*case)
    right = fold._block

    def block(*arguments):
        lines = right(*arguments)
        assert "s.counts[p] - 1 == s.nulls_0[p]" in lines[0]
        return [line.replace("s.counts[p] - 1 == s.nulls_0[p]", "s.counts[p] - 1 == 0") for line in lines]

    monkeypatch.setattr(fold, "_block", block)
    assert_found(*case)


@pytest.mark.slow
def test_planted_one_place_is_taken_for_many(monkeypatch):
    monkeypatch.setattr(section, "OUTPUT_CAPACITY", 32)
    room = "reserve_slots(o, me, l[HEAD], buckets.size - done)"
    assert room in template._EMIT
    text = template._EMIT.replace(room, "min(buckets.size - done, reserve_slots(o, me, l[HEAD], 1) + 7)")
    monkeypatch.setattr(template, "_EMIT", text)
    with pytest.raises(AssertionError, match="must be"):
        got = folded(MANY, Window(9, 3), SOME, threads=1, max_threads=3)
        assert_same(rows_of(got), defined(MANY, Window(9, 3), SOME), "a ring of 32")


@pytest.mark.interpreted
def test_planted_zeroed_memory_is_a_least_value(monkeypatch):
    case = pa.table({"ts": [0, 3], "key": [1, 1], "v": [5, 6]}), Window(3, 3), {"low": ("min", "v")}
    check(*case)
    monkeypatch.setattr(fold, "none_of", lambda kind: "0")
    monkeypatch.setattr(template, "none_of", lambda kind: "0")
    assert_found(*case)


@pytest.mark.logic
def test_example_equal_operators_are_one_module():
    """A query of many, whatever they are called, is compiled once."""
    table = pa.table({"ts": [1, 2, 12], "k": ["a", "b", "a"], "v": [1, 2, 3], "w": [0.5, None, 1.5]})
    keyed = hr.stream(table, event_time="ts").key_by("k").window(10)
    wanted = {"a": hr.first("v"), "b": hr.min("w"), "c": hr.count_distinct("k"), "d": hr.last("w"), "e": hr.sum("v")}
    before = set(sys.modules)
    with hr.together(one=keyed.aggregate("one", **wanted), other=keyed.aggregate("other", **wanted)).start() as run:
        assert run.wait(HANG_S)
    made = [name for name in set(sys.modules) - before if name.startswith("op_aggregate_")]
    assert len(made) == 1, made
    assert run.results["one"].to_arrow().equals(run.results["other"].to_arrow())
