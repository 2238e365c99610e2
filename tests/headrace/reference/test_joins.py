"""Joins: which pairs, once per shared key, in which order, at which event time.

Oracle: DuckDB's inequality join, positions by row_number. Hand-computed
examples for the band predicate and what never matches.
Cannot see: predicates that look at more than one pair; there are none.
"""

import math

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import KeyNullError, ParameterError
from headrace.reference import (
    band,
    column,
    copy_per_key,
    each,
    equal,
    join,
    joins,
    keys,
    no_key,
    order,
    self_join,
)
from planted_mistakes import assert_found

NAN = float("nan")
NAMES = ["", "a", "b", "B", "é", "\U0001f600", "\uffff"]
SCHEMA = pa.schema(
    [
        ("source", pa.int64()),
        ("row", pa.int64()),
        ("ts", pa.int64()),
        ("id", pa.int64()),
        ("x", pa.int64()),
        ("ks", pa.list_(pa.string())),
    ]
)
DATABASE = duckdb.connect()
MATCHES = """
    WITH placed AS (
        SELECT *, row_number() OVER (ORDER BY ts, source, row) AS position FROM entries
    ), l AS (SELECT * FROM placed WHERE source < {left_count}),
       r AS (SELECT * FROM placed WHERE source >= {left_count}),
       l_keys AS (SELECT DISTINCT id, unnest(ks) AS key FROM l),
       r_keys AS (SELECT DISTINCT id, unnest(ks) AS key FROM r),
       shared AS (SELECT l_keys.id AS l, r_keys.id AS r, key FROM l_keys JOIN r_keys USING (key))
    SELECT greatest(l.ts, r.ts) + 1, {key}, l.id, r.id
    FROM l JOIN r ON abs(l.ts - r.ts) < {within} AND abs(l.x - r.x) <= 2 {same_key}
    ORDER BY greatest(l.position, r.position), least(l.position, r.position), 2
"""


@st.composite
def cases(draw):
    """Left and right inputs of 1 or 2 sources each, and WS."""
    rows = st.tuples(st.integers(-15, 15), st.integers(0, 6), st.lists(st.sampled_from(NAMES), max_size=3))
    ids = iter(range(1000))
    left, right = (
        [
            [
                (ts, {"id": next(ids), "x": x, "ks": ks})
                for ts, x, ks in sorted(source, key=lambda row: row[0])
            ]
            for source in draw(st.lists(st.lists(rows, max_size=8), min_size=1, max_size=2))
        ]
        for _ in range(2)
    )
    return left, right, draw(st.integers(1, 12))


def check_against_duckdb(case):
    left, right, within = case
    entries = [
        {"source": s, "row": row, "ts": ts, **payload}
        for s, source in enumerate([*left, *right])
        for row, (ts, payload) in enumerate(source)
    ]
    DATABASE.register("entries", pa.Table.from_pylist(entries, schema=SCHEMA))
    for keys_of, key, same_key in [
        (no_key, "''", ""),
        (each("ks"), "key", "JOIN shared ON shared.l = l.id AND shared.r = r.id"),
    ]:
        query = MATCHES.format(left_count=len(left), within=within, key=key, same_key=same_key)
        found = join(left, right, within, band("x", "x", 2), (keys_of, keys_of))
        pairs = [(m.ts, m.key or "", m.left["id"], m.right["id"]) for m in found]
        assert pairs == DATABASE.execute(query).fetchall(), "the pairs are not DuckDB's"


@settings(deadline=None, max_examples=40)
@given(cases())
def test_oracle_duckdb(case):
    check_against_duckdb(case)


@pytest.mark.parametrize(
    "module, text, mistake",
    [
        (joins, "t.ts - others[0].ts >= within", "t.ts - others[0].ts > within"),
        (joins, "t.ts - others[0].ts >= within", "t.ts - others[0].ts >= within - 1"),
        (joins, "t.ts + DELTA", "t.ts"),
        (joins, "t.ts + DELTA", "other.ts + DELTA"),
        (joins, "for other in others", "for other in reversed(others)"),
        (joins, "t.source < len(left)", "t.source <= len(left)"),
        (joins, "<= width", "< width"),
        (keys, "return sorted(found, key=key_order)", "return list(keys(payload))"),
        (order, "entry[:3]", "(entry[0], -entry[1], entry[2])"),
    ],
)
def test_planted_mistake_is_found(module, text, mistake):
    assert_found(module, text, mistake, check_against_duckdb, cases(), "AssertionError: the pairs are not DuckDB's")


def pairs(matches):
    return [(m.ts, m.left["id"], m.right["id"]) for m in matches]


def source_of(*entries):
    return [(ts, {"id": name}) for ts, name in entries]


def test_example_pairs_less_than_ws_apart():
    # WS 5   0  1  2  3  4  5  6
    # L      a              b
    # R                  c  d  e     |a - c| = 4 joins, |a - d| = 5 does not
    left, right = source_of((0, "a"), (5, "b")), source_of((4, "c"), (5, "d"), (6, "e"))
    assert pairs(join([left], [right], 5)) == [(5, "a", "c"), (6, "b", "c"), (6, "b", "d"), (7, "b", "e")]


def test_example_left_precedes_right_at_equal_times():
    # Positions: L a 0, L b 1, R c 2, R d 3. The later tuple of each pair is the right one.
    left, right = source_of((0, "a"), (0, "b")), source_of((0, "c"), (0, "d"))
    assert pairs(join([left], [right], 1)) == [(1, "a", "c"), (1, "b", "c"), (1, "a", "d"), (1, "b", "d")]


def test_example_self_join_feeds_the_stream_as_both_inputs():
    # Merged: L a, R a, L b, R b.
    stream = source_of((0, "a"), (3, "b"))
    assert pairs(self_join([stream], 5)) == [
        (1, "a", "a"),
        (4, "b", "a"),
        (4, "a", "b"),
        (4, "b", "b"),
    ]
    assert pairs(self_join([stream], 3)) == [(1, "a", "a"), (4, "b", "b")]


def test_example_once_for_each_shared_key():
    left = [(0, {"id": 1, "tags": ["b", "a", "b", "c"]})]
    right = [(0, {"id": 2, "tags": ["c", "b", "b", "z"]}), (1, {"id": 3, "tags": []})]
    found = join([left], [right], 9, keys=(each("tags"), each("tags")))
    assert [(m.key, m.right["id"]) for m in found] == [("b", 2), ("c", 2)]


def test_nan_and_null_never_match():
    left = [(0, {"k": NAN}), (0, {"k": -0.0})]
    right = [(0, {"k": NAN}), (0, {"k": 0.0})]
    by_key = join([left], [right], 1, keys=(column("k"), column("k")))
    assert [(m.left["k"], m.right["k"]) for m in by_key] == [(0.0, 0.0)]
    with pytest.raises(KeyNullError):
        join([[(0, {"k": None})]], [right], 1, keys=(column("k"), column("k")))
    near = band("x", "a", 10)
    for x, a in [(NAN, 1.0), (1.0, NAN), (NAN, NAN), (None, 1), (1, None), (math.inf, math.inf)]:
        assert not near({"x": x}, {"a": a})


@pytest.mark.parametrize(
    "x, a, width, expected",
    [
        (10, 20, 10, True),
        (9, 20, 10, False),
        # Exact for integers: float64 would round the distance to 10.
        (2**62, 2**62 - 11, 10, False),
        (-(2**63), 2**63 - 1, 10, False),
        # As computed in float64: 0.3 - 0.1 is 0.19999999999999998 there, 0.7 - 0.6 is 0.09999999999999998.
        (0.3, 0.1, 0.2, True),
        (0.7, 0.6, 0.1, True),
        (1.1, 1.0, 0.1, False),
        # An integer beside a float is rounded to float64 first.
        (2**53 + 1, float(2**53), 0, True),
        (3, 3.5, 0.5, True),
    ],
)
def test_example_band(x, a, width, expected):
    assert band("x", "a", width)({"x": x}, {"a": a}) is expected
    assert band("a", "x", width)({"a": a}, {"x": x}) is expected


@pytest.mark.parametrize("width", [-1, NAN])
def test_bad_band_width(width):
    with pytest.raises(ParameterError, match="band width"):
        band("x", "a", width)


def test_bad_within():
    with pytest.raises(ParameterError, match="within = 0"):
        join([[]], [[]], 0)


@settings(deadline=None, max_examples=60)
@given(cases())
def test_agree_corollary_1_map_then_single_key(case):
    # The copies refine the positions: what one later tuple makes comes by key first. Compare as sets.
    left, right, within = case
    copies = [[copy_per_key(source, each("ks"), "key") for source in side] for side in (left, right)]
    by_map = join(*copies, within, band("x", "x", 2), (column("key"), column("key")))
    direct = join(left, right, within, band("x", "x", 2), (each("ks"), each("ks")))

    def identify(matches):
        return sorted((m.ts, m.key, m.left["id"], m.right["id"]) for m in matches)

    assert identify(by_map) == identify(direct)


def test_example_infinity_equals_itself_but_has_no_distance():
    same, near = equal("x", "a"), band("x", "a", 1)
    for value, is_equal, is_near in ((math.inf, True, False), (math.nan, False, False), (None, False, False), (2, True, True)):
        assert (same({"x": value}, {"a": value}), near({"x": value}, {"a": value})) == (is_equal, is_near)
    assert same({"x": 2**53 + 1}, {"a": float(2**53)}) and not same({"x": 2**53 + 1}, {"a": 2**53})
