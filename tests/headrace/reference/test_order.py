"""Merge order, key order, reordering of late rows, watermarks, and the stateless operators.

Oracles: sorting with the contract's key; for reorder, the definition applied
to each row by itself; for watermarks, the rows that would still be in time.
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
    watermark,
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


SAID = st.lists(st.tuples(st.integers(-5, 5), st.sampled_from([{}, {}, None])), max_size=10).map(
    # Watermarks rise.
    lambda drawn: [
        (max([ts, *(t for t, p in drawn[:n] if p is None)]) if payload is None else ts, payload)
        for n, (ts, payload) in enumerate(drawn)
    ]
)


def check_said(case):
    arrivals, lateness = case
    kept, late = reorder(arrivals, lateness, "side")
    is_late = [
        any(earlier > ts + lateness if payload is not None and lateness is not None else False
            for earlier, payload in arrivals[:n]) or any(mark > ts for mark, payload in arrivals[:n] if payload is None)
        for n, (ts, _) in enumerate(arrivals)
    ]  # fmt: skip
    rows = [(row, flag) for row, flag in zip(arrivals, is_late, strict=True) if row[1] is not None]
    assert late == [row for row, flag in rows if flag], "the late rows"
    assert kept == sorted((row for row, flag in rows if not flag), key=lambda row: row[0]), "the kept rows"


def check_watermark(case):
    sources, lateness = case

    def is_in_time(source, ts):
        row = (ts, {"new": True})
        return row in reorder([*source, row], lateness, "side")[0]

    earliest = [next((ts for ts in range(-20, 20) if is_in_time(source, ts)), None) for source in sources]
    expected = None if -20 in earliest else min(earliest)
    assert watermark(sources, lateness) == expected, "how far time has come"


@settings(deadline=None)
@given(st.tuples(SAID, st.sampled_from([None, 0, 3])))
def test_oracle_reorder_with_watermarks(case):
    check_said(case)


@settings(deadline=None)
@given(st.tuples(st.lists(SAID, min_size=1, max_size=3), st.sampled_from([None, 0, 3])))
def test_oracle_time_has_come_to_the_earliest_row_that_is_in_time(case):
    check_watermark(case)


def test_example_watermarks():
    # No row from 4 on has been seen, but the source has said that those before 4 have come.
    arrivals = [(1, {"n": 0}), (4, None), (3, {"n": 1}), (4, {"n": 2})]
    kept, late = reorder(arrivals, 2, "drop")
    assert [payload["n"] for _, payload in kept] == [0, 2] and late == [(3, {"n": 1})]
    assert watermark([arrivals[:1]]) == 1 and watermark([arrivals[:2]]) == 4 and watermark([arrivals[:2], [(9, {})]]) == 4
    assert watermark([arrivals, []]) is None
    with pytest.raises(LateRowError, match="event time 3 arrived after the watermark 4"):
        reorder(arrivals, 2)
    with pytest.raises(DisorderError, match="watermark 3 after 4: it does not go back"):
        reorder([(4, None), (3, None)], 0)


REORDER = check_reorder, st.tuples(TIMES, st.integers(0, 6))
MERGE = check_merge, st.lists(TIMES, max_size=4)
MARKS = check_said, st.tuples(SAID, st.sampled_from([None, 0, 3]))
TIME = check_watermark, st.tuples(st.lists(SAID, min_size=1, max_size=3), st.sampled_from([None, 0, 3]))


@pytest.mark.parametrize(
    "text, mistake, check, cases, expected",
    [
        ("ts >= newest - lateness", "ts > newest - lateness", *REORDER, "the late rows"),
        ("max(newest, ts)", "ts", *REORDER, "the late rows"),
        ("promised is None or ts >= promised", "promised is None or ts > promised", *MARKS, "the late rows"),
        ("(lateness is None or ts >=", "(lateness is not None and ts >=", *MARKS, "the late rows"),
        ("max(implied + said)", "min(implied + said)", *TIME, "how far time has come"),
        ("min(reached)", "max(reached)", *TIME, "how far time has come"),
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
