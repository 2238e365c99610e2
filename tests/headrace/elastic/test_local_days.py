"""Windows of local days, 23, 25 or no hours long.

Property    the two kernels agree with each other, with Python's calendar, and so do the results, on any number of
            threads, in both modes.
Oracle      `headrace.reference`, which asks `zoneinfo` for every minute.
Not seen    zones whose clocks are set by seconds, before about 1930.

Paris, where clocks are set forward on March 29 and back on October 25::

    UTC     27th 23:00      28th 23:00     29th 22:00       30th 22:00
             |---- 28th, 24 h ----|---- 29th, 23 h ----|---- 30th, 24 h ----|
"""

import datetime as dt
import random
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import reference
from headrace.elastic import local_days, local_days_kernel
from headrace.errors import FunctionError, ParameterError
from headrace.reference.days import first_instant, local_day
from headrace.windows import Window
from support.workloads import examples, scattered

MINUTE = 60_000_000
EPOCH = dt.datetime(1970, 1, 1)
# The clock is set: at 2 and 3 in the morning, by half an hour, at midnight past it and back to before it, at one minute past
# midnight, by leaving a day out, never.
CHANGES = [
    ("Europe/Paris", "2026-03-29"), ("Europe/Paris", "2026-10-25"), ("America/New_York", "2026-11-01"),
    ("Australia/Lord_Howe", "2026-04-05"), ("America/Sao_Paulo", "2018-11-04"), ("America/Sao_Paulo", "2019-02-17"),
    ("America/St_Johns", "2010-11-07"), ("America/St_Johns", "2010-03-14"), ("Pacific/Apia", "2011-12-30"),
    ("America/Toronto", "1919-03-31"), ("Asia/Kolkata", "2026-01-01"), ("UTC", "1970-01-01"),
]  # fmt: skip


def micros(date):
    return int((dt.datetime.fromisoformat(date) - EPOCH).total_seconds()) * 1_000_000


@st.composite
def instants(draw, change, max_rows=1):
    """Times of some days around a change of the clock, many of them near it; sorted."""
    near = draw(st.lists(st.integers(-72 * 60, 72 * 60), min_size=1, max_size=max_rows))
    return sorted(micros(change) + minutes * MINUTE + draw(st.sampled_from([0, 0, -1, 1])) for minutes in near)


def kernels(zone):
    state = SimpleNamespace(**local_days.state_of(zone))
    to_units, to_time = (getattr(one, "py_func", one) for one in (local_days_kernel.to_units, local_days_kernel.to_time))
    return lambda t: int(to_units(state, t)), lambda day: int(to_time(state, day))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_oracle_days_are_those_of_the_calendar(data):
    zone, change = data.draw(st.sampled_from(CHANGES))
    (ts,) = data.draw(instants(change))
    to_units, to_time = kernels(zone)
    day = to_units(ts)
    assert day == local_days.day_of(zone, ts), "day by table"
    assert day == local_day(zone, ts), f"day of {ts} in {zone}"
    for other in range(day - 2, day + 3):
        assert (to_time(other) <= ts) == (other <= day), "they agree"
        assert to_time(other) == first_instant(zone, other) == local_days.start_of(zone, other), f"start of {other} in {zone}"


@pytest.mark.parametrize("year", [-100_000, 1800, 1899, 2099, 2101, 100_000])
def test_example_beyond_the_table_days_have_24_hours(year):
    to_units, to_time = kernels("Europe/Paris")
    ts = (year - 1970) * 365 * 1440 * MINUTE
    day = to_units(ts)
    assert to_time(day) <= ts < to_time(day + 1) and to_time(day + 1) - to_time(day) in (24 * 60 * MINUTE, 23 * 60 * MINUTE)
    assert local_days.day_of("Europe/Paris", ts) == day and local_days.start_of("Europe/Paris", day) == to_time(day)


def counted(zone, tables, size, advance, threads, mode="vsn"):
    stream = hr.stream(tables, event_time="ts").key_by("k").window(size, advance, zone=zone)
    start = scattered(random.Random(threads), threads)
    return stream.aggregate(n=hr.count(), last=hr.last("k")).to_arrow(mode=mode, **start).to_pylist()


@pytest.mark.logic
@pytest.mark.parametrize(("size", "advance"), [(1, 1), (7, 7), (3, 1)])
@settings(max_examples=examples(10), deadline=None)
@given(st.data())
def test_oracle_counts_of_local_days(size, advance, data):
    zone, change = data.draw(st.sampled_from(CHANGES[:-3]))
    tables, sources = [], []
    for _ in range(data.draw(st.integers(1, 2))):
        ts = data.draw(instants(change, 25))
        keys = data.draw(st.lists(st.integers(0, 3), min_size=len(ts), max_size=len(ts)))
        tables.append(pa.table({"ts": pa.array(ts, pa.timestamp("us")), "k": keys}))
        sources.append([(t, {"k": k}) for t, k in zip(ts, keys, strict=True)])
    window = Window(size, advance, zone)
    rows = reference.aggregate(sources, window, reference.column("k"), {"n": ("count", None), "last": ("last", "k")})
    expected = [(row.ts, row.key, row.values["n"], row.values["last"]) for row in rows]
    for threads, mode in ((1, "vsn"), (3, "vsn"), (2, "sn")):
        found = counted(zone, tables, f"{size}d", f"{advance}d", threads, mode)
        got = [(int((row["ts"] - EPOCH) / dt.timedelta(microseconds=1)), row["k"], row["n"], row["last"]) for row in found]
        assert got == expected


def add(state, t, emit):
    state.n += t.x


def leave(key, state, left):
    state.left = left


def fail_later(key, state, emit):
    emit(n=10 // (state.n - state.n))


@pytest.mark.slow
@pytest.mark.parametrize("instances", [pytest.param("multi", marks=pytest.mark.logic), "single"])
@settings(max_examples=examples(8), deadline=None)
@given(st.data())
def test_oracle_custom_operators(instances, data):
    zone, change = data.draw(st.sampled_from(CHANGES[:8]))
    ts = data.draw(instants(change, 25))
    table = pa.table({"ts": pa.array(ts, pa.timestamp("us")), "x": range(len(ts))})

    def output(key, state, emit):
        emit(n=state.n, left=state.left)

    slide = leave if instances == "single" else None
    fields = {"n": "int64", "left": "int64"}
    operator = hr.operator(state=fields, emits=fields, update=add, output=output, slide=slide)
    query = hr.stream(table, event_time="ts").window("2d", "1d", instances, zone=zone).apply(operator)
    source = [(t, {"x": x}) for x, t in enumerate(ts)]
    rows = reference.operator(
        [[source]], Window(2, 1, zone), instances=instances, state=fields, update=add, output=output, slide=slide
    )
    found = query.to_arrow(threads=2)
    got = list(zip(found["ts"].cast(pa.int64()).to_pylist(), found["n"].to_pylist(), found["left"].to_pylist(), strict=True))
    assert got == [(row.ts, row.values["n"], row.values["left"]) for row in rows]


@pytest.mark.logic
def test_example_a_failing_function_shows_the_end_of_its_day():
    table = pa.table({"ts": pa.array([dt.datetime(2026, 3, 29, 12)], pa.timestamp("us", "Europe/Paris")), "x": [1]})
    operator = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, update=add, output=fail_later)
    with pytest.raises(FunctionError, match=r"\(2026-03-30 00:00:00\+02:00\)") as caught:
        hr.stream(table, event_time="ts").window("1d", zone="Europe/Paris").apply(operator).to_arrow()
    assert caught.value.tuple["state.n"] == 1


@pytest.mark.logic
def test_example_types_and_zones_of_the_event_time_stay():
    for kind in (pa.timestamp("s"), pa.timestamp("ns", "Asia/Tokyo"), pa.timestamp("ms", "Europe/Paris")):
        table = pa.table({"ts": pa.array(np.array(["2026-10-24T23:00"], f"M8[{kind.unit}]")).cast(pa.timestamp(kind.unit))})
        table = table.set_column(0, "ts", table["ts"].combine_chunks().view(kind))
        result = hr.stream(table, event_time="ts").window("1d", zone="Europe/Paris").aggregate(n=hr.count()).to_arrow()
        assert result["ts"].type == kind
        assert result["ts"].cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).to_pylist() == [micros("2026-10-25T23:00")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"size": "12h"}, "size = '12h': with zone= windows are of whole days; give '1d'"),
        ({"size": "2d", "advance": "36h"}, "advance = '36h': with zone="),
        ({"size": "1d", "zone": "Europe/Pari"}, "zone = 'Europe/Pari': not a time zone known here"),
        ({"size": "1d", "zone": 1}, "zone = 1: not a time zone"),
        ({"size": "1d", "zone": "../etc/passwd"}, "not a time zone"),
        ({"size": "0d"}, "size = 0: must be at least 1"),
        ({"size": "1d", "advance": "2d"}, "size = '1d' is below advance = '2d'"),
    ],
)
def test_bad_windows_of_local_days(arguments, words):
    stream = hr.stream(pa.table({"ts": pa.array([0], pa.timestamp("us"))}), event_time="ts")
    with pytest.raises(ParameterError) as caught:
        stream.window(**{"zone": "Europe/Paris"} | arguments)
    assert words in str(caught.value)


def test_bad_event_time_for_local_days():
    with pytest.raises(ParameterError, match="the event time 'ts' is int64; cast it to timestamp"):
        hr.stream(pa.table({"ts": [1]}), event_time="ts").window("1d", zone="UTC")
