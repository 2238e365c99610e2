"""Merge order, key order, reordering of late rows, and the stateless operators.

Oracles: sorting with the contract's key; for reorder, the definition applied
to each row by itself.
Cannot see: cost; reorder here holds everything, the engine's is bounded.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import DisorderError, EventTimeError, LateRowError, ParameterError
from headrace.reference import (
    copy_per_key,
    each,
    filter_tuples,
    flat_map_tuples,
    forward,
    map_tuples,
    merge,
    order,
    reorder,
)
from headrace.reference.keys import canonical, has_nan
from headrace.reference.order import key_order
from planted_mistakes import assert_found

NAN = float("nan")
TIMES = st.lists(st.integers(-5, 5), max_size=10)


def check_merge(times):
    sources = [
        [(ts, {"at": (ts, s, p)}) for p, ts in enumerate(sorted(source))] for s, source in enumerate(times)
    ]
    merged = merge(sources)
    in_order = sorted(payload["at"] for source in sources for _, payload in source)
    assert [t.payload["at"] for t in merged] == in_order, "the merged tuples"
    assert [t.position for t in merged] == list(range(len(merged)))
    assert all((t.ts, t.source) == t.payload["at"][:2] for t in merged)


@settings(deadline=None)
@given(st.lists(TIMES, max_size=4))
def test_oracle_merge_sorts_by_ts_source_position(times):
    check_merge(times)


def test_unsorted_source_names_the_row():
    with pytest.raises(DisorderError, match="source 1, row 2: event time 4 after 5; sort it"):
        merge([[(0, {})], [(1, {}), (5, {}), (4, {})]])


@pytest.mark.parametrize("ts", [None, NAN, 1.0, "1"])
def test_bad_event_time(ts):
    with pytest.raises(EventTimeError, match="source 0, row 0: event time"):
        merge([[(ts, {})]])


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(-3, 3), st.text(max_size=2)) | st.tuples(st.integers(-3, 3)), max_size=8)
)
def test_oracle_tuples_sort_as_python_tuples(key_list):
    assert sorted(key_list, key=key_order) == sorted(key_list)


def test_example_nan_sorts_last_and_equals_itself():
    assert str(sorted([NAN, 2.0, -1.0, float("inf")], key=key_order)) == "[-1.0, 2.0, inf, nan]"
    assert len({canonical(key) for key in [(NAN, 1), (float("-nan"), 1), (0.0, 1), (-0.0, 1)]}) == 2
    assert has_nan(("a", (NAN,))) and not has_nan(("a", 1.0))


def check_reorder(case):
    times, lateness = case
    arrivals = [(ts, {"arrival": n}) for n, ts in enumerate(times)]
    kept, late = reorder(arrivals, lateness, "side")
    is_late = [any(earlier > ts + lateness for earlier in times[:n]) for n, ts in enumerate(times)]
    assert late == [row for row, flag in zip(arrivals, is_late, strict=True) if flag], "the late rows"
    in_order = sorted(
        (row for row, flag in zip(arrivals, is_late, strict=True) if not flag),
        key=lambda row: (row[0], row[1]["arrival"]),
    )
    assert kept == in_order, "the kept rows"


@settings(deadline=None)
@given(st.tuples(TIMES, st.integers(0, 6)))
def test_oracle_reorder(case):
    check_reorder(case)


REORDER = check_reorder, st.tuples(TIMES, st.integers(0, 6))
MERGE = check_merge, st.lists(TIMES, max_size=4)


@pytest.mark.parametrize(
    "text, mistake, check, cases, expected",
    [
        ("ts >= newest - lateness", "ts > newest - lateness", *REORDER, "the late rows"),
        ("max(newest, ts)", "ts", *REORDER, "the late rows"),
        ("key=lambda row: row[0]", "key=lambda row: (row[0], -row[1]['arrival'])", *REORDER, "the kept rows"),
        ("entry[:3]", "(entry[0], -entry[1])", *MERGE, "the merged tuples"),
        ("entry[:3]", "(entry[0], entry[2], entry[1])", *MERGE, "the merged tuples"),
    ],
)
def test_planted_mistake_is_found(text, mistake, check, cases, expected):
    assert_found(order, text, mistake, check, cases, f"AssertionError: {expected}")


def test_example_lateness():
    # lateness 2; after 5 arrived the watermark is 3: 3 is in time, 2 is late.
    arrivals = [(5, {"n": 0}), (3, {"n": 1}), (2, {"n": 2}), (5, {"n": 3}), (6, {"n": 4})]
    kept, late = reorder(arrivals, 2, "drop")
    assert [payload["n"] for _, payload in kept] == [1, 0, 3, 4] and late == [arrivals[2]]
    with pytest.raises(LateRowError, match="event time 2 arrived after 5: more than lateness = 2"):
        reorder(arrivals, 2)
    with pytest.raises(ParameterError, match="late = 'ignore': give 'error', 'drop' or 'side'"):
        reorder(arrivals, 2, "ignore")


def test_example_stateless_operators_keep_the_event_time():
    source = [(1, {"x": 1}), (1, {"x": None}), (2, {"x": 3})]
    assert filter_tuples(source, lambda t: None if t["x"] is None else t["x"] > 1) == [(2, {"x": 3})]
    assert map_tuples(source[:1], lambda t: {"y": -t["x"]}) == [(1, {"y": -1})]
    assert flat_map_tuples(source[::2], lambda t: [{"y": y} for y in range(t["x"] - 1)]) == [
        (2, {"y": 0}),
        (2, {"y": 1}),
    ]
    assert forward([source, [(1, {"x": 9})]]) == [*source[:2], (1, {"x": 9}), source[2]]


def test_example_map_copies_once_per_key():
    assert copy_per_key([(0, {"tags": ["b", "a", "b"]}), (1, {"tags": []})], each("tags"), "tag") == [
        (0, {"tags": ["b", "a", "b"], "tag": "a"}),
        (0, {"tags": ["b", "a", "b"], "tag": "b"}),
    ]
