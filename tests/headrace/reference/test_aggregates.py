"""Aggregates of windows: results, their order, nulls, NaN, overflow.

Oracles: DuckDB, which joins rows with a table of window indices and groups;
pandas and NumPy, which expand rows by the same definition, for floats (bits of
sums in input order) and NaN. Hand-computed examples for the rest.
Cannot see: anything about threads, watermarks or memory.
"""

import struct

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import AggregateOverflowError, KeyNullError, ParameterError
from headrace.reference import (
    aggregate,
    aggregates,
    as_source,
    column,
    columns,
    copy_per_key,
    each,
    keys,
    values,
)
from headrace.windows import Window
from planted_mistakes import assert_found

NAN = float("nan")
NAMES = ["", "a", "b", "ab", "B", "é", "\U0001f600", "\uffff"]


@st.composite
def windows(draw):
    advance = draw(st.integers(1, 6))
    return Window(advance + draw(st.integers(0, 13)), advance)


@st.composite
def cases(draw):
    """1 to 3 sorted sources of rows with a string key, a key list and a nullable integer."""
    rows = st.tuples(
        st.integers(-30, 30),
        st.sampled_from(NAMES),
        st.lists(st.sampled_from(NAMES), max_size=3),
        st.none() | st.integers(-5, 5),
    )
    sources = [
        [(ts, {"k": k, "ks": ks, "v": v}) for ts, k, ks, v in sorted(source, key=lambda row: row[0])]
        for source in draw(st.lists(st.lists(rows, max_size=12), min_size=1, max_size=3))
    ]
    return sources, draw(windows())


AGGREGATES = {
    "n": ("count", None),
    "nv": ("count", "v"),
    "total": ("sum", "v"),
    "low": ("min", "v"),
    "high": ("max", "v"),
    "average": ("mean", "v"),
    "head": ("first", "v"),
    "tail": ("last", "v"),
    "different": ("distinct", "v"),
    "least": ("min", "k"),
    "greatest": ("max", "k"),
}
SQL = """
    WITH placed AS (
        SELECT *, row_number() OVER (ORDER BY ts, source, row) AS position FROM entries
    ), keyed AS (
        SELECT DISTINCT ts, position, v, k, {key} AS key FROM placed
    )
    SELECT l * {advance} + {size} AS ts, key,
           count(*), count(v), sum(v)::BIGINT, min(v), max(v), avg(v),
           first(v ORDER BY position) FILTER (v IS NOT NULL),
           last(v ORDER BY position) FILTER (v IS NOT NULL), count(DISTINCT v), min(k), max(k)
    FROM keyed JOIN range(-100, 100) AS indices(l) ON l * {advance} <= ts AND ts < l * {advance} + {size}
    GROUP BY l, key ORDER BY l, key
"""
ENTRIES = pa.schema(
    [
        ("source", pa.int64()),
        ("row", pa.int64()),
        ("ts", pa.int64()),
        ("k", pa.string()),
        ("ks", pa.list_(pa.string())),
        ("v", pa.int64()),
    ]
)
DATABASE = duckdb.connect()


def from_duckdb(sources, window, key):
    entries = [
        {"source": s, "row": row, "ts": ts, **payload}
        for s, source in enumerate(sources)
        for row, (ts, payload) in enumerate(source)
    ]
    DATABASE.register("entries", pa.Table.from_pylist(entries, schema=ENTRIES))
    return DATABASE.execute(SQL.format(key=key, advance=window.advance, size=window.size)).fetchall()


def check_against_duckdb(case):
    sources, window = case
    for keys_of, key in [(column("k"), "k"), (each("ks"), "unnest(ks)")]:
        rows = aggregate(sources, window, keys_of, AGGREGATES)
        found = [(row.ts, row.key, *row.values.values()) for row in rows]
        assert found == from_duckdb(sources, window, key), "the rows are not DuckDB's"


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(cases())
def test_oracle_duckdb(case):
    check_against_duckdb(case)


OTHER_ROWS = "AssertionError: the rows are not DuckDB's"


@pytest.mark.parametrize(
    "module, text, mistake, expected",
    [
        (aggregates, "range(earliest, latest + 1)", "range(earliest, latest)", OTHER_ROWS),
        (aggregates, "key_order(place[1])", "place[1][::-1]", OTHER_ROWS),
        (aggregates, "len(tuples)", "len(tuples) - 1", OTHER_ROWS),
        (values, "return values[-1]", "return values[0]", OTHER_ROWS),
        (values, "value < result or", "value <= 0 or", "TypeError: '<=' not supported between instances of 'str'"),
        # None reaches an aggregate function.
        (values, "if value is not None", "", r"TypeError: unsupported operand type\(s\) for \+=: 'int' and 'NoneType'"),
        (values, "{canonical(value) for value in values}", "[canonical(value) for value in values]", OTHER_ROWS),
        (keys, "return sorted(found, key=key_order)", "return list(keys(payload))", OTHER_ROWS),
    ],
)
def test_planted_mistake_is_found(module, text, mistake, expected):
    assert_found(module, text, mistake, check_against_duckdb, cases(), expected)


FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=64) | st.sampled_from(
    [0.0, -0.0, 1e308, 5e-324]
)


def bits(value):
    return struct.pack("<d", NAN if value != value else value)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(windows(), st.lists(st.tuples(st.integers(-30, 30), FLOATS), max_size=20))
def test_oracle_numpy_float_sums_in_input_order(window, entries):
    entries = sorted(entries, key=lambda entry: entry[0])
    rows = aggregate([[(ts, {"x": x}) for ts, x in entries]], window, aggregates={"sum": ("sum", "x")})
    frame = pd.DataFrame(entries, columns=["ts", "x"]).astype({"ts": "int64", "x": "float64"})
    expected = []
    for left in range(-60 * window.advance, 60 * window.advance, window.advance):
        inside = frame.x[(frame.ts >= left) & (frame.ts < left + window.size)]
        if len(inside):
            with np.errstate(all="ignore"):
                # cumsum adds strictly from left to right; sum() adds pairwise.
                total = np.cumsum(np.concatenate([[0.0], inside.to_numpy()]))[-1]
            expected.append((left + window.size, bits(total)))
    assert [(row.ts, bits(row.values["sum"])) for row in rows] == expected


WITH_NAN = st.lists(st.tuples(st.integers(0, 20), st.sampled_from([NAN, 1.0, 2.0, -1.0, None])), max_size=12)


@settings(deadline=None, max_examples=60)
@given(WITH_NAN, st.booleans())
def test_oracle_numpy_nan_in_min_and_max(entries, ignore_nan):
    entries = sorted(entries, key=lambda entry: entry[0])
    rows = aggregate(
        [[(ts, {"x": x}) for ts, x in entries]],
        Window(7, 7),
        aggregates={"low": ("min", "x"), "high": ("max", "x")},
        ignore_nan=ignore_nan,
    )
    for row in rows:
        inside = [x for ts, x in entries if row.ts - 7 <= ts < row.ts and x is not None]
        if ignore_nan:
            inside = [x for x in inside if x == x]
        for name, function in (("low", np.min), ("high", np.max)):
            if inside:
                assert bits(row.values[name]) == bits(function(np.array(inside)))
            else:
                assert row.values[name] is None


def results(*args, **options):
    return [(row.ts, row.key, *row.values.values()) for row in aggregate(*args, **options)]


def test_example_sliding_windows_with_negative_times():
    # WS 5, WA 2     -4 -3 -2 -1  0  1  2  3  4  5  6
    # tuples                   a  b     a
    # l = -3         ----)                              [-6,-1)  holds none
    # l = -2         [-------------)                    [-4, 1)  a b
    # l = -1               [-------------)              [-2, 3)  a b a
    # l =  0                     [-------------)        [ 0, 5)  b a
    # l =  1                           [-------------)  [ 2, 7)  a
    source = [(-1, {"k": "a"}), (0, {"k": "b"}), (2, {"k": "a"})]
    assert results([source], Window(5, 2), column("k")) == [
        (1, "a", 1),
        (1, "b", 1),
        (3, "a", 2),
        (3, "b", 1),
        (5, "a", 1),
        (5, "b", 1),
        (7, "a", 1),
    ]


def test_example_tuple_at_a_right_boundary_is_outside():
    source = [(9, {}), (10, {}), (19, {}), (20, {})]
    assert results([source], Window(10, 10)) == [(10, (), 1), (20, (), 2), (30, (), 1)]


def test_example_ties_go_by_source_then_position():
    sources = [[(1, {"v": "c"}), (1, {"v": "d"})], [(0, {"v": "x"}), (1, {"v": "a"})]]
    assert results(sources, Window(2, 2), aggregates={"f": ("first", "v"), "l": ("last", "v")}) == [
        (2, (), "x", "a")
    ]
    assert results(sources, Window(1, 1), aggregates={"f": ("first", "v"), "l": ("last", "v")}) == [
        (1, (), "x", "x"),
        (2, (), "c", "a"),
    ]


def test_example_keys_are_a_set_and_empty_sets_contribute_nothing():
    source = [(0, {"tags": ["b", "a", "b"]}), (1, {"tags": []}), (2, {"tags": ["b"]})]
    assert results([source], Window(10, 10), each("tags")) == [(10, "a", 1), (10, "b", 2)]


def test_example_keys_of_several_columns_in_lexicographic_order():
    source = [(0, {"x": x, "tags": tags}) for x, tags in [(10, ["b"]), (9, ["b", "a"]), (-1, ["z"])]]
    assert results([source], Window(1, 1), columns(column("x"), each("tags"))) == [
        (1, (-1, "z"), 1),
        (1, (9, "a"), 1),
        (1, (9, "b"), 1),
        (1, (10, "b"), 1),
    ]


def test_example_strings_by_code_point_not_by_utf16():
    # In UTF-16 the surrogates of U+1F600 sort before U+FFFF.
    source = [(0, {"k": k}) for k in ["\U0001f600", "\uffff", "b", "B", "ab", ""]]
    assert [row[1] for row in results([source], Window(1, 1), column("k"))] == [
        "", "B", "ab", "b", "\uffff", "\U0001f600",
    ]  # fmt: skip


def test_example_nan_keys_are_one_key_and_zeros_too():
    source = [(0, {"k": k}) for k in (NAN, -0.0, 0.0, float("-nan"), -1.0)]
    rows = results([source], Window(1, 1), column("k"))
    assert [(str(key), count) for _, key, count in rows] == [("-1.0", 1), ("0.0", 2), ("nan", 2)]
    assert results([source], Window(1, 1), aggregates={"d": ("distinct", "k")}) == [(1, (), 3)]


def test_example_nulls_are_skipped_and_all_null_is_null():
    values_and_texts = [(0, None, None), (1, 3, "b"), (1, None, None), (5, None, None)]
    source = [(ts, {"v": v, "k": k}) for ts, v, k in values_and_texts]
    assert results([source], Window(5, 5), aggregates=AGGREGATES) == [
        (5, (), 3, 1, 3, 3, 3, 3.0, 3, 3, 1, "b", "b"),
        (10, (), 1, 0, None, None, None, None, None, None, 0, None, None),
    ]


@pytest.mark.parametrize("bad", [None, "a null element", "a null part"])
def test_null_keys_by_policy(bad):
    payload = {None: {"k": None}, "a null element": {"k": ["a", None]}, "a null part": {"k": None, "x": 1}}[
        bad
    ]
    keys_of = {
        None: column("k"),
        "a null element": each("k"),
        "a null part": columns(column("x"), column("k")),
    }[bad]
    source = [(0, payload)]
    with pytest.raises(KeyNullError, match="null; filter it out or give null_keys='drop'"):
        aggregate([source], Window(1, 1), keys_of)
    dropped = aggregate([source], Window(1, 1), keys_of, null_keys="drop")
    assert [row.key for row in dropped] == (["a"] if bad == "a null element" else [])
    with pytest.raises(ParameterError, match="null_keys = 'ignore'"):
        aggregate([source], Window(1, 1), keys_of, null_keys="ignore")


@pytest.mark.parametrize("sign", [1, -1])
def test_integer_sums_leave_int64_with_an_error(sign):
    most = 2**63 - 1 if sign > 0 else -(2**63)

    def total(*numbers):
        return results([[(0, {"v": v}) for v in numbers]], Window(1, 1), aggregates={"s": ("sum", "v")})

    assert total(most, -sign, sign) == [(1, (), most)]
    with pytest.raises(AggregateOverflowError, match="outside int64"):
        total(most, sign, -sign)  # in input order: the sum of all would fit


def test_sum_of_negative_zeros_starts_from_zero():
    ((_, _, total),) = results([[(0, {"x": -0.0})]], Window(1, 1), aggregates={"s": ("sum", "x")})
    assert bits(total) == bits(0.0)


def test_min_and_max_keep_the_first_of_equal_values():
    source = [(0, {"x": -0.0}), (0, {"x": 0.0})]
    rows = aggregate([source], Window(1, 1), aggregates={"a": ("min", "x"), "b": ("max", "x")})
    assert [bits(v) for v in rows[0].values.values()] == [bits(-0.0)] * 2


def test_bad_aggregate():
    with pytest.raises(ParameterError, match="aggregate m = \\('median', 'x'\\)"):
        aggregate([[]], Window(1, 1), aggregates={"m": ("median", "x")})
    with pytest.raises(ParameterError, match="aggregate m"):
        aggregate([[]], Window(1, 1), aggregates={"m": ("sum", None)})


@settings(deadline=None, max_examples=60)
@given(cases())
def test_agree_corollary_1_map_then_single_key(case):
    sources, window = case
    copies = [copy_per_key(source, each("ks"), "key") for source in sources]
    assert aggregate(sources, window, each("ks"), AGGREGATES) == aggregate(
        copies, window, column("key"), AGGREGATES
    )


def test_example_results_feed_the_next_operator():
    source = [(0, {"a": "x", "b": 1}), (1, {"a": "x", "b": 2}), (3, {"a": "y", "b": 1})]
    pairs = aggregate([source], Window(2, 2), columns(column("a"), column("b")))
    assert as_source(pairs, "a", "b") == [
        (2, {"a": "x", "b": 1, "count": 1}),
        (2, {"a": "x", "b": 2, "count": 1}),
        (4, {"a": "y", "b": 1, "count": 1}),
    ]
    assert results([as_source(pairs, "a", "b")], Window(4, 4), column("a")) == [(4, "x", 2), (8, "y", 1)]
    assert as_source(aggregate([source], Window(9, 9), column("a")), "a")[0] == (9, {"a": "x", "count": 2})
    assert as_source(aggregate([source], Window(9, 9))) == [(9, {"count": 3})]


def test_example_means_of_integers_are_exact():
    """Sums beyond int64, and quotients that would be rounded twice."""
    for numbers in ([2**63 - 1] * 3, [-(2**63), 2**63 - 1], [2**53 + 1, 0]):
        source = [(0, {"v": n}) for n in numbers]
        (row,) = aggregate([source], Window(1, 1), aggregates={"m": ("mean", "v")})
        assert row.values["m"] == sum(numbers) / len(numbers)
