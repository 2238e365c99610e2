"""Distinct counts, and strings as values: equal to the reference for any input, threads, mode and reconfigurations.

Oracle: `headrace.reference.aggregate`, and a dict of Python sets for the tables
by themselves. The shape of the aggregate is fixed, the window within it drawn.
"""

import math
import random

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import reference
from headrace.elastic.aggregate import distinct
from headrace.errors import OverflowInputError
from headrace.ingress.ordered_texts import OrderedTexts
from headrace.ingress.text_pages import PAGE
from headrace.memory import arena as arena_module
from headrace.memory.seeded import Seed
from headrace.memory.text_order import text_less
from headrace.references import BUCKETS
from support.drawn import schedules, sources, windows
from support.workloads import examples

QUICK = settings(deadline=None, max_examples=examples(25), suppress_health_check=list(HealthCheck))

# ------------------------------------------------------------------ tables


def test_oracle_tables_against_sets():
    """Adds and expiries in random order, keys of three buckets, two counts, three slots."""
    rng = random.Random(1)
    tables, free, arena = distinct.allocate(2, 3, 1 << 16)
    sets: dict[tuple[int, int, int], set[int]] = {}
    values = [*range(-40, 40), 2**63 - 1, -(2**63), *(i << 52 for i in range(20))]
    for _ in range(20_000):
        if rng.random() < 0.002:
            bucket, slot = rng.randrange(3), rng.randrange(3)
            distinct.forget_window(tables, free, arena, 3, 2, bucket, slot)
            sets = {place: s for place, s in sets.items() if (place[1] % BUCKETS, place[2]) != (bucket, slot)}
            continue
        column, key, slot = rng.randrange(2), rng.randrange(3) + BUCKETS * rng.randrange(4), rng.randrange(3)
        value = rng.choice(values)
        known = sets.setdefault((column, key, slot), set())
        new = distinct.add_value(tables, free, arena, 3, column, key, slot, value)
        assert new == (value not in known)
        known.add(value)


def test_example_blocks_are_used_again():
    """The arena grows with the live values, not with those that ever were."""
    tables, free, arena = distinct.allocate(1, 2, 1 << 16)
    for window in range(50):
        for value in range(1000):
            assert distinct.add_value(tables, free, arena, 2, 0, 7, window % 2, value * window) in (0, 1)
        distinct.forget_window(tables, free, arena, 2, 1, 7, (window + 1) % 2)
    assert arena[0] < 4 * 4 * 2048


def test_example_a_full_arena_says_so():
    tables, free, arena = distinct.allocate(1, 1, 1 << 8)
    results = [distinct.add_value(tables, free, arena, 1, 0, 0, 0, value) for value in range(100)]
    assert set(results) == {1, -1}


def far_from_home(tables, arena):
    """How many entries from where it should be each value of the first table lies."""
    first, size_class = int(tables[distinct.FIRST]), int(tables[distinct.CLASS])
    entries = arena[first : first + (distinct.ENTRY_WORDS << size_class)].reshape(-1, distinct.ENTRY_WORDS)
    taken = np.flatnonzero(entries[:, distinct.TAG])
    homes = [distinct.place_of(arena, tag, bits, size_class) for tag, bits in entries[taken]]
    return (taken - homes) % len(entries)


def crafted_values(count, size_class=12):
    """Values that all wanted the first place of a table while where they lay had no seed."""
    values = np.arange(3 * count << size_class)
    mixed = (values & 0xFFFFFFFF ^ 0x9E3779B1) * 0x45D9F3B3
    mixed ^= mixed >> 29
    mixed = ((mixed & 0xFFFFFFFF) * 0x297A2D39) ^ (mixed >> 32)
    return values[(mixed ^ mixed >> 31) % (1 << size_class) == 0][:count]


@pytest.mark.parametrize("first_of", [range, crafted_values])
def test_property_values_lie_near_their_places(first_of):
    tables, free, arena = distinct.allocate(1, 1, 1 << 16)
    assert sum(distinct.add_value(tables, free, arena, 1, 0, 0, 0, int(value)) for value in first_of(1500)) == 1500
    far = far_from_home(tables, arena)
    assert far.size == 1500
    assert far.max() < 150


def test_example_a_table_with_far_values_grows(monkeypatch):
    """Under a seed that is known, so that all values want one place."""
    monkeypatch.setattr(arena_module, "draw_seed", lambda: Seed(*map(np.uint64, (0, 1, 1, 1))))  # place: the low bits
    tables, free, arena = distinct.allocate(1, 1, 1 << 18)
    values = np.arange(distinct.PROBE_LIMIT + 3) << 20
    assert all(distinct.add_value(tables, free, arena, 1, 0, 0, 0, int(value)) == 1 for value in values)
    assert tables[distinct.CLASS] == 14  # 13 would hold the 4,099 values
    assert not any(distinct.add_value(tables, free, arena, 1, 0, 0, 0, int(value)) for value in values)


def test_example_moved_sets_are_the_same_sets():
    tables, free, arena = distinct.allocate(2, 2, 1 << 16)
    others = distinct.allocate(2, 2, 1 << 16)
    for column in range(2):
        for value in range(100):
            distinct.add_value(tables, free, arena, 2, column, 5 + BUCKETS * (value % 3), value % 2, value)
    assert distinct.move_bucket(tables, free, arena, *others, 2, 2, 5) == 16 * 200
    assert not tables.any()
    for value in range(200):
        new = distinct.add_value(*others, 2, 1, 5 + BUCKETS * (value % 3), value % 2, value)
        assert new == (value >= 100)


# --------------------------------------------------------------- aggregates

SCHEMA = pa.schema(
    {"ts": pa.int64(), "ks": pa.list_(pa.string()), "x": pa.int64(), "y": pa.float64(), "s": pa.string()}
)
FLOATS = [None, 0.0, -0.0, math.nan, float(np.array(0x7FF8000000000123).view(np.float64)), 1.5, -math.inf]
# Order by code point: by the first eight bytes, behind them, by length alone; NULs, and UTF-16 would differ.
TEXTS = [
    None, "", "a", "a\0", "a\0b", "\0", "ä", "eightlet", "eightlets", "eightlet\0", "\uffff", "\U00010000",
    "long enough to have no place of its own", "long enough to have no place of its OWN",
]  # fmt: skip
ROWS = st.tuples(
    st.integers(-20, 20),
    st.fixed_dictionaries(
        {
            "ks": st.lists(st.sampled_from("abcdef"), max_size=3),
            "x": st.none() | st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63)]),
            "y": st.sampled_from(FLOATS),
            "s": st.sampled_from(TEXTS),
        }
    ),
)
AGGREGATES = {
    "xs": hr.count_distinct("x"),
    "n": hr.count(),
    "ys": hr.count_distinct("y"),
    "again": hr.count_distinct("x"),
    "texts": hr.count_distinct("s"),
    "first": hr.first("s"),
    "last": hr.last("s"),
    "least": hr.min("s"),
    "greatest": hr.max("s"),
    "named": hr.count("s"),
}
EXPECTED = {
    "xs": ("distinct", "x"),
    "n": ("count", None),
    "ys": ("distinct", "y"),
    "again": ("distinct", "x"),
    "texts": ("distinct", "s"),
    "first": ("first", "s"),
    "last": ("last", "s"),
    "least": ("min", "s"),
    "greatest": ("max", "s"),
    "named": ("count", "s"),
}


CASES = st.tuples(sources(2, ROWS, longest=30), windows(2), schedules())


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["vsn", pytest.param("sn", marks=pytest.mark.logic)])
def test_oracle_count_distinct(mode):
    @QUICK
    @given(CASES)
    def check(case):
        drawn, window, schedule = case
        tables = [
            pa.Table.from_pylist([{"ts": ts, **payload} for ts, payload in source], SCHEMA)
            for source in drawn
        ]
        query = (
            hr.stream(tables, event_time="ts").key_by(tag=hr.each("ks")).window(window.size, window.advance)
        )
        rows = query.aggregate(**AGGREGATES).to_arrow(mode=mode, **schedule).to_pylist()
        result = reference.aggregate(drawn, window, reference.each("ks"), EXPECTED)
        assert rows == [{"ts": row.ts, "tag": row.key, **row.values} for row in result]

    check()


@pytest.mark.slow
def test_agree_many_values_of_one_key():
    """No keys: one set that grows to 100,000 values, in windows that overlap."""
    rng = np.random.default_rng(5)
    count = 150_000
    ts = np.sort(rng.integers(0, 1000, count))
    values = rng.integers(-(2**62), 2**62, count) >> rng.integers(0, 60, count)
    query = hr.stream(pa.table({"ts": ts, "x": values}), event_time="ts").window(800, 400)
    rows = query.aggregate(xs=hr.count_distinct("x")).to_arrow(threads=2).to_pylist()
    assert rows == [
        {"ts": left + 800, "xs": len(np.unique(values[(ts >= left) & (ts < left + 800)]))}
        for left in range(-400, 1000, 400)
    ]


@pytest.mark.slow
def test_agree_strings_that_are_recycled():
    """More strings over time than the dictionary keeps: an id means another string later."""
    count = 60_000
    strings = [f"text {i // 2}" for i in range(count)]
    rows = pa.table({"ts": list(range(count)), "s": pa.array(strings).dictionary_encode()})
    query = hr.stream(rows, event_time="ts", batch_rows=2048).window(1000, 500)
    query = query.aggregate(n=hr.count_distinct("s"), first=hr.first("s"), last=hr.last("s"))
    with query.start(threads=2) as run:
        run.wait()
        table = run.to_arrow()
        assert run._operators["aggregate"].section.compiled.texts["s"].size < count // 2
    ends = table.column("ts").to_pylist()
    assert table.column("n").to_pylist() == [250] + [500] * (count // 500 - 1) + [250]
    assert table.column("last").to_pylist() == [strings[min(ts, count) - 1] for ts in ends]
    assert table.column("first").to_pylist() == [strings[max(0, ts - 1000)] for ts in ends]


@pytest.mark.slow
def test_oracle_duckdb_least_and_greatest_of_recycled_strings():
    """Long strings that differ far behind, more of them over time than are live: against DuckDB's binary order."""
    rng = random.Random(8)
    count = 100_000  # several times what the gate holds: what is behind it can go
    strings = [
        None
        if rng.random() < 0.1
        else rng.choice(["", "é", "same start of all "]) * 2 + str(rng.randrange(count))
        for _ in range(count)
    ]
    rows = pa.table({"ts": list(range(count)), "k": [i % 7 for i in range(count)], "s": strings})
    query = hr.stream(rows, event_time="ts", batch_rows=2048).key_by("k").window(1000)
    with query.aggregate(least=hr.min("s"), greatest=hr.max("s")).start(threads=2) as run:
        assert run.wait(120)
        texts = run._operators["aggregate"].section.compiled.texts["s"]
        # An id goes to the next string, the bytes of a page go with its last string.
        pages = texts._pages._pages
        assert texts.size < count // 2 and len(pages) < count // (2 * PAGE)
        assert sum(live for _, live in pages.values()) == texts.size
        found = [tuple(row.values()) for row in run.to_arrow().to_pylist()]
    wanted = duckdb.execute(
        "select (ts // 1000 + 1) * 1000, k, min(s), max(s) from rows group by all order by all"
    ).fetchall()
    assert found == wanted


def test_oracle_order_of_strings():
    """Every pair, as kernels compare them: whichever batch they came in."""
    texts = sorted({text * n for text in TEXTS if text is not None for n in range(4)})
    dictionary = OrderedTexts(1000)
    shuffled = texts[::2] + texts[1::2]
    ids = [int(dictionary.encode(pa.array([text]))[0]) for text in shuffled]
    for i, a in zip(ids, shuffled, strict=True):
        for j, b in zip(ids, shuffled, strict=True):
            assert text_less(*dictionary.arrays, i, j) == (a.encode() < b.encode())


@pytest.mark.logic
def test_example_more_strings_than_max_keys():
    rows = pa.table({"ts": [1] * 3, "s": ["a", "b", "c"]})
    query = hr.stream(rows, event_time="ts").window(5).aggregate(least=hr.min("s"))
    with pytest.raises(hr.errors.OverflowInputError, match="max_keys"):
        query.to_arrow(max_keys=2)


def of_values(rows, keys=1):
    """Different values, all within one window, of so many keys in turn."""
    table = pa.table({"ts": pa.array(np.arange(rows) // 100), "x": np.arange(rows), "k": np.arange(rows) % keys})
    return hr.stream(table, event_time="ts").key_by("k").window(rows).aggregate(n=hr.count_distinct("x"))


@pytest.mark.logic
@pytest.mark.parametrize("mode", ["vsn", "sn"])
def test_example_more_different_values_than_max_state(mode):
    said = r"^n=count_distinct\('x'\): the values that the windows open at event time \d+ keep .*max_state=100000 bytes"
    with pytest.raises(OverflowInputError, match=said):
        of_values(6_000).to_arrow(mode=mode, max_state=100_000)
    assert of_values(6_000).to_arrow(mode=mode, max_state=1_000_000)["n"].to_pylist() == [6_000]


@pytest.mark.logic
def test_example_sets_and_lists_have_one_limit():
    # A table for 500 values and the smaller ones before it take 32 KB, a list of 3,000 and those before it 64 KB, together
    # 80 KB, as one takes what the other gave up: each fits into 72,000 bytes, both do not.
    table = pa.table({"ts": np.arange(3_000), "x": np.arange(3_000) % 500})
    windows = hr.stream(table, event_time="ts").window(3_000)
    n, xs = {"n": hr.count_distinct("x")}, {"xs": hr.collect_list("x")}
    assert windows.aggregate(**n).to_arrow(max_state=72_000)["n"].to_pylist() == [500]
    assert len(windows.aggregate(**xs).to_arrow(max_state=72_000)["xs"][0]) == 3_000
    with pytest.raises(OverflowInputError, match=r"^n=count_distinct\('x'\), xs=collect_list\('x'\): .*max_state=72000"):
        windows.aggregate(**n, **xs).to_arrow(max_state=72_000)
    (row,) = windows.aggregate(**n, **xs).to_arrow(max_state=100_000).to_pylist()
    assert row["n"] == 500 and row["xs"] == table["x"].to_pylist()


@pytest.mark.logic
def test_example_one_instance_cannot_take_what_two_had():
    """Under shared nothing each has the limit; one that becomes the only one cannot, and no event time is to blame."""
    query = of_values(6_000, keys=64)
    given = {"mode": "sn", "max_state": 200_000}
    assert sum(query.to_arrow(threads=2, **given)["n"].to_pylist()) == 6_000
    with pytest.raises(OverflowInputError, match=r"the values that the windows that moved to another instance keep do not fit"):
        query.to_arrow(threads=2, reconfigure=[(5_500, 1)], **given)


def test_example_strings_have_no_sum():
    stream = hr.stream(pa.table({"ts": [1], "s": ["a"]}), event_time="ts")
    with pytest.raises(hr.errors.UnsupportedTypeError, match="strings can be counted"):
        stream.window(5).aggregate(most=hr.sum("s"))
