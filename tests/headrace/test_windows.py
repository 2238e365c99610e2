"""Which windows a tuple falls into, and how durations are read.

Oracle: the definition, ``l*WA <= ts < l*WA + WS`` tried for every l near ts.
Cannot see: whether operators use the indices well; that is tested with them.
"""

import datetime as dt

import numba
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import windows
from headrace.errors import ParameterError
from headrace.summary import duration_text
from headrace.windows import (
    Window,
    earliest_index,
    latest_index,
    left_boundary,
    parse_duration,
    parse_seconds,
    parse_time_unit,
    right_boundary,
)
from planted_mistakes import assert_found


@st.composite
def cases(draw):
    advance = draw(st.integers(1, 12))
    size = advance + draw(st.integers(0, 40))
    return draw(st.integers(-200, 200)), size, advance


def check_indices(case):
    ts, size, advance = case
    by_definition = [i for i in range(-300, 300) if i * advance <= ts < i * advance + size]
    found = list(range(earliest_index(ts, size, advance), latest_index(ts, advance) + 1))
    assert found == by_definition, f"windows of {ts}: {found}"
    for i in by_definition:
        assert left_boundary(i, advance) == i * advance, f"left boundary of {i}"
        assert right_boundary(i, size, advance) == i * advance + size, f"right boundary of {i}"


def test_example_size_not_a_multiple_of_advance():
    # time     -4 -3 -2 -1  0  1  2  3  4  5  6
    # l = -2   [-------------)
    # l = -1         [-------------)
    # l =  0               [-------------)
    # l =  1                     [-------------)
    def falls_into(ts):
        return list(range(earliest_index(ts, 5, 2), latest_index(ts, 2) + 1))

    assert falls_into(-1) == [-2, -1]
    assert falls_into(0) == [-2, -1, 0]
    assert falls_into(1) == [-1, 0]
    assert falls_into(2) == [-1, 0, 1]


def test_example_at_both_boundaries():
    # [0, 10) holds 0 and 9; 10 begins the next one.
    assert [latest_index(ts, 10) for ts in (-1, 0, 9, 10)] == [-1, 0, 0, 1]
    assert [earliest_index(ts, 10, 10) for ts in (-1, 0, 9, 10)] == [-1, 0, 0, 1]


@given(cases())
def test_oracle_definition(case):
    check_indices(case)


@pytest.mark.parametrize(
    "text, mistake, expected",
    [
        ("(ts - size) // advance + 1", "(ts - size) // advance", "windows of"),
        ("(ts - size) // advance + 1", "-((size - ts) // advance)", "windows of"),
        ("return ts // advance", "return int(ts / advance)", "windows of -"),
        ("index * advance + size", "index * advance + size - 1", "right boundary of"),
    ],
)
def test_planted_mistake_is_found(text, mistake, expected):
    assert_found(windows, text, mistake, check_indices, cases(), f"AssertionError: {expected}")


compiled_earliest = numba.njit("int64(int64, int64, int64)")(earliest_index)
compiled_latest = numba.njit("int64(int64, int64)")(latest_index)


@given(cases())
def test_agree_compiled(case):
    ts, size, advance = case
    assert compiled_earliest(ts, size, advance) == earliest_index(ts, size, advance)
    assert compiled_latest(ts, advance) == latest_index(ts, advance)


@pytest.mark.parametrize(
    "duration, unit, expected",
    [
        ("500ms", "ms", 500),
        ("60s", "ms", 60_000),
        ("30min", "us", 1_800_000_000),
        ("1h", "s", 3_600),
        ("2d", "h", 48),
        (" 5 s ", "s", 5),
        ("0s", "ms", 0),
        ("2000us", "ms", 2),
        (17, "ms", 17),
        ("17", "us", 17),
        (np.int32(3), "ms", 3),
        ("1ns", "ns", 1),
        ("1 minute", "s", 60),
        ("90 seconds", "ms", 90_000),
        ("5 min", "s", 300),
        ("1 Hour", "min", 60),
        ("2 weeks", "d", 14),
        ("3µs", "ns", 3_000),
        ("3 μs", "ns", 3_000),
        (dt.timedelta(minutes=1, microseconds=5), "us", 60_000_005),
        (dt.timedelta(days=1), "h", 24),
        (pd.Timedelta("90s"), "ms", 90_000),
        (pd.Timedelta(7, "ns"), "ns", 7),
        (pd.Timedelta(days=2).as_unit("s"), "d", 2),
        (np.timedelta64(3, "h"), "s", 10_800),
        (np.timedelta64(2, "15s"), "s", 30),
        (np.timedelta64(1, "W"), "d", 7),
        (np.timedelta64(7, "ns"), "ns", 7),
    ],
)
def test_example_durations(duration, unit, expected):
    result = parse_duration(duration, unit)
    assert result == expected and type(result) is int


@pytest.mark.parametrize(
    "duration, part",
    [
        ("1 fortnight", "not a duration"),
        ("1.5h", "not a duration"),
        ("", "not a duration"),
        ("h", "not a duration"),
        (1.0, "not a duration"),
        (True, "not a duration"),
        (None, "not a duration"),
        ("500us", "not a whole number of ms"),
        ("-1s", "must not be negative"),
        (-1, "must not be negative"),
        (2**62, "below 2**62"),
        ("9" * 30 + "d", "below 2**62"),
        ("9" * 5000 + "d", "below 2**62"),
        ("5m", "'m' may be minutes or months; write '5min'"),
        ("5 M", "'m' may be minutes or months; write '5min'"),
        ("2 months", "no fixed length; give days"),
        ("1 year", "no fixed length; give days"),
        (np.timedelta64(2, "M"), "no fixed length; give days"),
        (np.timedelta64("NaT"), "not a duration"),
        (np.timedelta64(5), "not a duration"),
        (pd.NaT, "not a duration"),
        (dt.timedelta(seconds=-1), "must not be negative"),
        (pd.Timedelta(1500, "us"), "not a whole number of ms"),
        (dt.timedelta(microseconds=1), "not a whole number of ms"),
        (np.timedelta64(-5, "s"), "must not be negative"),
        (np.arange(2).astype("m8[s]"), "not a duration"),
    ],
)
def test_bad_durations_name_parameter_value_and_fix(duration, part):
    with pytest.raises(ParameterError) as caught:
        parse_duration(duration, "ms", "lateness")
    text = str(caught.value)
    assert text.startswith(f"lateness = {duration!r}: ") and part in text and "\n" not in text


def test_example_durations_on_the_wall_are_seconds():
    given = ("1500ms", 1.5, dt.timedelta(seconds=1.5), pd.Timedelta("1.5s"), np.timedelta64(1500, "ms"), np.float64(1.5))
    assert [parse_seconds(one, "idle_after") for one in given] == [1.5] * 6
    assert parse_seconds(np.int64(2), "idle_after") == parse_seconds("2 seconds", "idle_after") == 2.0
    for bad, part in (("5", "with its unit"), ("5m", "write '5min'"), (dt.timedelta(-1), "from 0"), (float("nan"), "from 0")):
        with pytest.raises(ParameterError, match=part):
            parse_seconds(bad, "idle_after")


@given(st.integers(0, 2**61), st.sampled_from(list(windows.NANOSECONDS)))
def test_oracle_durations_are_read_as_they_are_written(count, unit):
    assert parse_duration(duration_text(count, unit), unit) == count


def test_bad_unit():
    with pytest.raises(ParameterError, match="time_unit = 'minutes': give one of ns, us, ms, s, min, h, d"):
        parse_time_unit("minutes")


def test_example_window():
    assert Window.parse("1h", "30min") == Window(3_600_000, 1_800_000)
    assert Window.parse("1h", unit="us") == Window(3_600_000_000, 3_600_000_000)
    assert Window(2, 1).is_overlapping and not Window(2, 2).is_overlapping
    assert type(Window(np.int64(5), 5).size) is int


def test_a_window_with_gaps_is_named_as_it_was_given():
    with pytest.raises(ParameterError, match="^size = '1min' is below advance = '2min': tuples between two windows"):
        Window.parse("1min", "2min", "us")


@pytest.mark.parametrize(
    "size, advance, text",
    [
        (0, 0, "size = 0: must be at least 1"),
        (5, 0, "advance = 0: must be at least 1"),
        (5, -1, "advance = -1: must not be negative"),
        (5, 6, "size = 5 is below advance = 6"),
        (2**62, 1, "size = 4611686018427387904: too long"),
        ("1h", 1, "size = '1h': must be an integer"),
        (dt.timedelta(hours=1), 1, "size = datetime.timedelta(seconds=3600): must be an integer"),
        (np.timedelta64(1, "h"), 1, "size = np.timedelta64(1,'h'): must be an integer"),
    ],
)
def test_bad_window(size, advance, text):
    with pytest.raises(ParameterError) as caught:
        Window(size, advance)
    assert str(caught.value).startswith(text)
