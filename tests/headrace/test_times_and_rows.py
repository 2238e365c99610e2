"""What errors say of times and rows: a time that can be read, and the row of the input as the user gave it.

Property    Whatever has moved a row since (a sort, lateness, steps, several sources), the error names the number it
            has in the input; what a pandas frame calls it as well. Times of timestamp columns are dates.
Oracle      The one bad row, planted in a shuffled input.
Cannot see  rows of an operator's results, which are no input of the user's.
"""

import datetime as dt
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import (
    AggregateOverflowError,
    DisorderError,
    DurationWarning,
    EventTimeError,
    FunctionError,
    InputError,
    KeyNullError,
    LateRowError,
    OverflowInputError,
    SchemaError,
)

ROWS = 60
START = dt.datetime(2026, 1, 1)


def counts(stream, size=10):
    return stream.key_by("k").window(size).aggregate(n=hr.count())


def error_of(query, kind=InputError, **options):
    with pytest.raises(kind) as caught:
        query.to_arrow(**options)
    return str(caught.value)


def named(text):
    """The row that an error names."""
    return int(re.search(r"\brow (\d+)", text)[1])


def shuffled(seed, bad, column="k"):
    """Rows in any order of time, whose row `bad` has a null in a column."""
    ts = np.random.default_rng(seed).permutation(ROWS)
    data = {"ts": ts.tolist(), "k": ["a"] * ROWS, "x": list(range(ROWS))}
    data[column][bad] = None
    return pa.table(data, schema=pa.schema({"ts": pa.int64(), "k": pa.string(), "x": pa.int64()}))


# -- rows ------------------------------------------------------------------------------------------

WAYS = {
    "sorted": {"sort": True},
    "put in order": {"lateness": ROWS},
    "put in order, idle": {"lateness": ROWS, "idle_after": 60},
    "sorted, idle": {"sort": True, "idle_after": 60},
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, ROWS - 1), st.sampled_from([1, 7, 1000]), st.booleans())
def test_oracle_a_null_key_is_in_the_row_that_the_user_gave(way, seed, bad, batch_rows, is_filtered):
    stream = hr.stream(shuffled(seed, bad), event_time="ts", batch_rows=batch_rows, **WAYS[way])
    if is_filtered:
        stream = stream.filter((hr.col("x") >= bad) | (hr.col("x") < bad // 2)).select("ts", "k")
    assert named(error_of(counts(stream), KeyNullError)) == bad


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, ROWS - 1), st.sampled_from([1, 7, 1000]))
def test_oracle_a_null_time_is_in_the_row_that_the_user_gave(seed, bad, batch_rows):
    for options in ({"sort": True}, {"lateness": ROWS}):
        stream = hr.stream(shuffled(seed, bad, "ts"), event_time="ts", batch_rows=batch_rows, **options)
        assert f"is null at row {bad}: " in error_of(counts(stream), EventTimeError)


@pytest.mark.slow
def test_example_steps_that_make_many_rows_of_one():
    def some(t, emit):
        for i in range(t.x % 4):
            emit(y=i)

    table = pa.table({"ts": range(12), "k": ["a"] * 9 + [None] * 2 + ["a"], "x": range(12)})
    for batch_rows in (5, 100):
        stream = hr.stream(table, event_time="ts", batch_rows=batch_rows).flat_map(some, y="int64")
        assert named(error_of(counts(stream), KeyNullError)) == 9


def test_example_rows_before_a_filter_count():
    table = pa.table({"ts": [5, 1, 6, 2, 4], "k": ["a"] * 5})
    stream = hr.stream(table, event_time="ts", batch_rows=2).filter(hr.col("ts") > 2)
    assert "row 4: 4 comes after 6" in error_of(counts(stream), DisorderError)


def test_example_null_times_that_a_filter_takes_out():
    """As the error proposes; they move no time, wherever they are."""
    table = pa.table({"ts": pa.array([1, None, 2, None], pa.int64()), "k": ["a"] * 4})
    for options in ({"batch_rows": 2}, {"batch_rows": 1}, {"sort": True}):
        stream = hr.stream(table, event_time="ts", **options).filter(hr.col("ts").is_not_null())
        assert counts(stream).to_arrow()["n"].to_pylist() == [2]


def test_example_labels_of_a_frame():
    times = pd.to_datetime(["2026-01-03", "2026-01-02", None, "2026-01-01"])
    for index, label in ((None, ""), (["a", "b", "c", "d"], " (index 'c')"), ([7, 5, 3, 1], " (index 3)")):
        frame = pd.DataFrame({"ts": times, "k": "a"}, index=index)
        for options in ({"sort": True}, {"lateness": "3d"}):
            text = error_of(counts(hr.stream(frame, event_time="ts", **options), "1d"), EventTimeError)
            assert f"'ts' is null at row 2{label}: fill it" in text
    kept = frame[frame.k == "a"].iloc[1:].reset_index(drop=True)
    assert "row 1: " in error_of(counts(hr.stream(kept, event_time="ts", sort=True), "1d"))


def test_example_an_error_keeps_its_row_between_processes():
    import pickle

    error = KeyNullError("key column 'k' is null at row ", 3, ": fill it")
    error.row = "17 (index 'x')"
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error) == "key column 'k' is null at row 17 (index 'x'): fill it"


# -- times -----------------------------------------------------------------------------------------


def at(*seconds, unit="us", zone=None):
    return pa.array([START + dt.timedelta(seconds=s) for s in seconds], pa.timestamp(unit, zone))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_example_disorder_and_lateness_show_dates(unit):
    table = pa.table({"ts": at(20, 9, unit=unit), "k": ["a", "a"]})
    text = error_of(counts(hr.stream(table, event_time="ts"), "1min"), DisorderError)
    assert "row 1: 2026-01-01 00:00:09 comes after 2026-01-01 00:00:20; sort" in text
    text = error_of(counts(hr.stream(table, event_time="ts", lateness="5s"), "1min"), LateRowError)
    assert (
        "row 1: 2026-01-01 00:00:09 is 11s behind 2026-01-01 00:00:20, more than lateness = 5s: raise lateness" in text
    )


def test_example_times_are_shown_in_their_zone():
    table = pa.table({"ts": at(20, 9, zone="Asia/Tokyo"), "k": ["a", "a"]})
    text = error_of(counts(hr.stream(table, event_time="ts"), "1min"), DisorderError)
    assert "2026-01-01 09:00:09+09:00 comes after 2026-01-01 09:00:20+09:00" in text


def test_example_integers_stay_integers():
    table = pa.table({"ts": [1_767_225_620_000_000, 1_767_225_609_000_000], "k": ["a", "a"]})
    text = error_of(counts(hr.stream(table, event_time="ts")), DisorderError)
    assert "row 1: 1767225609000000 comes after 1767225620000000" in text


def test_example_times_beyond_what_python_has_dates_for():
    table = pa.table({"ts": pa.array([0, 2**62], pa.timestamp("us")), "k": ["a", "a"]})
    text = error_of(counts(hr.stream(table, event_time="ts"), "1min"), OverflowInputError)
    assert "is 148108-07-06T" in text and "window size (1min) must be below 2**62 us" in text


def test_example_a_sum_that_overflows_shows_a_date():
    table = pa.table({"ts": at(1, 2), "k": ["a", "a"], "v": [2**62, 2**62]})
    query = hr.stream(table, event_time="ts").key_by("k").window("1min").aggregate(total=hr.sum("v"))
    assert "at a tuple of event time 2026-01-01 00:00:01 or soon after" in error_of(query, AggregateOverflowError)


def divides(t):
    return 10 // t.x


@pytest.mark.slow
def test_example_functions_show_what_they_saw_and_the_date():
    micros = 1_767_225_602_000_000
    table = pa.table({"ts": at(1, 2), "x": [1, 0]})
    stream = hr.stream(table, event_time="ts")
    with pytest.raises(FunctionError) as caught:
        stream.map(divides, y="int64").to_arrow()
    assert f"'ts': {micros} (2026-01-01 00:00:02)" in str(caught.value) and caught.value.tuple["ts"] == micros

    def update(state, t, emit):
        state.n += 10 // t.x

    def output(key, state, emit):
        emit(n=10 // state.n)

    operator = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, update=update, output=output)
    for x, shown in (
        ([1, 0], f"'ts': {micros} (2026-01-01 00:00:02)"),
        ([10, -10], f"'ts': {micros + 58_000_000} (2026-01-01 00:01:00)"),  # their sum is zero
    ):
        stream = hr.stream(pa.table({"ts": at(1, 2), "x": x}), event_time="ts")
        assert shown in error_of(stream.window("1min").apply(operator), FunctionError)


# -- nanoseconds, and times that are no column -----------------------------------------------------


def test_example_a_pandas_frame_in_nanoseconds():
    times = np.array(["2026-01-01 00:00:01", "2026-01-01 00:00:02.000003"], "M8[ns]")
    frame = pd.DataFrame({"ts": times, "k": "a"})
    result = counts(hr.stream(frame, event_time="ts"), "1min").to_arrow()
    assert result["n"].to_pylist() == [2] and result["ts"].type == pa.timestamp("ns")
    frame.loc[1, "ts"] += pd.Timedelta(nanoseconds=7)
    text = error_of(counts(hr.stream(frame, event_time="ts"), "1min"), EventTimeError)
    assert "is 2026-01-01 00:00:02.000003 and 7 ns at row 1, no whole microsecond" in text
    assert ".dt.floor('us')" in text and "bigint" not in text
    frame["ts"] = frame["ts"].dt.floor("us")
    assert counts(hr.stream(frame, event_time="ts"), "1min").to_arrow()["n"].to_pylist() == [2]


def test_example_the_fix_for_nanoseconds_in_arrow():
    import pyarrow.compute as pc

    table = pa.table({"ts": pa.array([1_000, 2_001], pa.timestamp("ns")), "k": ["a", "a"]})
    assert "floor_temporal(ts, unit='microsecond')" in error_of(counts(hr.stream(table, event_time="ts"), "1min"))
    fixed = table.set_column(0, "ts", pc.floor_temporal(table["ts"], unit="microsecond"))
    assert counts(hr.stream(fixed, event_time="ts"), "1min").to_arrow()["n"].to_pylist() == [2]


def test_example_a_small_number_without_a_unit_is_doubted(recwarn):
    """Of a timestamp column it means microseconds, which is written by mistake more often than not."""
    stream = hr.stream(pa.table({"ts": at(1, 2), "k": ["a", "a"]}), event_time="ts")
    stream.window(60)
    stream.join(stream, within="5", on="k")
    said = [(str(warning.message), warning.category, warning.filename) for warning in recwarn]
    assert [text.partition(":")[0] for text, *_ in said] == ["size=60", "within='5'"]
    assert "60 microseconds" in said[0][0] and "size='60s' for seconds, or '60us'" in said[0][0]
    assert {(kind, file) for _, kind, file in said} == {(DurationWarning, __file__)}
    recwarn.clear()
    for size in ("60us", 1_000, np.timedelta64(7, "us"), dt.timedelta(microseconds=7)):
        stream.window(size)
    hr.stream(pa.table({"ts": [1], "k": ["a"]}), event_time="ts", time_unit="us").window(60)
    assert not recwarn.list


@pytest.mark.parametrize("name", ["ts", None, "time"])
@pytest.mark.parametrize("options", [{}, {"sort": True}])
def test_example_times_in_the_index_of_a_frame(name, options):
    frame = pd.DataFrame({"k": ["a", "b"]}, index=pd.to_datetime(["2026-01-01", "2026-01-02"]).rename(name))
    with pytest.raises(SchemaError, match=r"in its index.*reset_index\(\)") as caught:
        hr.stream(frame, event_time="ts", **options)
    fix = re.search(r"give (frame\S*)", str(caught.value))[1]
    assert counts(hr.stream(eval(fix, {"frame": frame}), event_time="ts"), "1d").to_arrow().num_rows == 2
    with pytest.raises(SchemaError, match="the columns are k"):
        hr.stream(frame.reset_index(drop=True), event_time="ts")


NULL_TIME = pa.table({"ts": [1, None], "x": [1, 2]})
FALLING = pa.table({"ts": [5, 3], "x": [1, 2]})


@pytest.mark.parametrize(
    ("table", "options", "said"),
    [
        (NULL_TIME, {}, "event_time column 'ts' is null at row 1"),
        (FALLING, {}, "event_time column 'ts', row 1: 3 comes after 5"),
        (FALLING, {"lateness": 1}, "event_time column 'ts', row 1: 3 is 2 behind 5"),
        (NULL_TIME, {"lateness": 1}, "event_time column 'ts' is null at row 1"),
    ],
)
@pytest.mark.parametrize("is_file", [False, True], ids=["table", "file"])
def test_example_an_error_about_a_row_names_its_source_once(tmp_path, table, options, said, is_file):
    right, name = pa.table({"ts": [1], "x": [1]}), "source 2 (Table)"
    if is_file:
        pq.write_table(table, tmp_path / "t.parquet")
        table, name = str(tmp_path / "t.parquet"), f"input {str(tmp_path / 't.parquet')!r}"
    with pytest.raises(InputError, match=f"^{re.escape(f'{name}, {said}')}") as caught:
        hr.stream([right, table], event_time="ts", **options).forward().to_arrow()
    assert str(caught.value).count(name) == 1


def ticks_of(kind, *times):
    return pa.table({"ts": pa.array(times, kind), "k": [1] * len(times)})


def tell(state, e, emit):
    emit(k=e.k)


TOLD = hr.program(
    tags={"a": {"k": "int64"}, "b": {"k": "int64"}}, depends=[("a", "b")], state={"n": "int64"}, emits={"k": "int64"},
    update={"a": tell, "b": tell},
)
COARSE_AND_FINE = [
    (ticks_of(pa.timestamp("ms"), 1, 2), ticks_of(pa.timestamp("us"), 1500)),
    (ticks_of(pa.int32(), 1, 2), ticks_of(pa.int64(), 2**40)),
]


@pytest.mark.parametrize(("coarse", "fine"), COARSE_AND_FINE, ids=["timestamp", "integer"])
@pytest.mark.slow
def test_example_results_of_several_inputs_have_times_that_hold_those_of_each(coarse, fine):
    """The first input is not asked alone: its times may be coarser, or narrower, than those of another one."""
    wanted = fine.schema.field("ts").type
    told = TOLD.over({"a": coarse, "b": fine}).to_arrow()
    assert told.schema.field("ts").type == wanted
    assert sorted(told["ts"].cast(pa.int64()).to_pylist()) == sorted(
        part["ts"].cast(wanted).cast(pa.int64())[row].as_py() for part in (coarse, fine) for row in range(part.num_rows)
    )
    left, right = (hr.stream(table, event_time="ts") for table in (coarse, fine))
    assert left.join(right, 2**41, on="k").schema.field("ts").type == wanted
    both = hr.inputs(left.key_by("k"), right.key_by("k")).window(1_000_000)
    custom = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, output=lambda key, state, emit: emit(n=state.n))
    assert both.apply(custom).schema.field("ts").type == wanted


def test_example_ticks_between_the_times_that_a_type_can_say():
    program = hr.program(
        tags={"a": {"k": "int64"}, "tick": hr.every("1500us")}, depends=[("a", "tick")], state={"n": "int64"},
        emits={"k": "int64"}, update={"a": tell, "tick": lambda state, e, emit: emit(k=e.ts)},
    )
    given = program.over({"a": ticks_of(pa.timestamp("ms"), 1, 2)})
    assert given.schema.field("ts").type == pa.timestamp("us")
    assert given.to_arrow()["ts"].cast(pa.int64()).to_pylist() == [1000, 1500, 2000, 3000]


# -- a column that is called as functions call the event time ----------------------------------------

BOTH_TIMES = pa.table({"when": [1, 2, 3], "ts": [10, 20, 30], "k": [0, 0, 1]})
BY_KEY = hr.table("by_key", columns={"n": "int64"}, rows=2)


def adds_ts(e, t):
    BY_KEY[e.k].n += e.ts


def adds_when(e, t):
    BY_KEY[e.k].n += e.when
    t.emit(n=BY_KEY[e.k].n)


def is_past_15(t):
    return t.ts > 15


def sums_ts(state, t, emit):
    state.n += t.ts


def sums_inputs(state, t, emit):
    state.n += t.input


def lists_ts(key, state, emit):
    for t in state.tuples:
        emit(n=t.ts)


EITHER = {
    "ordered": lambda s: s.ordered().filter(is_past_15),
    "transact": lambda s: s.transact(adds_ts),
    "join": lambda s: s.join(s, within=1, where=lambda left, right: left.k < right.ts, prefixes=("l_", "r_")),
    "operator": lambda s: s.window(5).apply(hr.operator(state={"n": "int64"}, update=sums_ts, emits={"n": "int64"})),
    "kept tuples": lambda s: s.window(5).apply(hr.operator(output=lists_ts, emits={"n": "int64"})),
}


@pytest.mark.parametrize("query", EITHER.values(), ids=EITHER)
def test_example_a_column_ts_is_not_taken_for_the_event_time(query):
    """Where it is no event time, `filter` and `map` read the column: the engines must not read another number."""
    stream = hr.stream(BOTH_TIMES, event_time="when")
    assert stream.filter(is_past_15).to_arrow()["ts"].to_pylist() == [20, 30]
    said = "it could be the event time, 'when', or the column 'ts': read the event time as .when, or rename the column"
    with pytest.raises(FunctionError, match=said):
        query(stream).to_arrow()


def test_example_a_column_input_is_not_taken_for_the_number_of_the_input():
    one, two = (hr.stream(pa.table({"ts": [1, 2], "input": numbers}), event_time="ts") for numbers in ([0, 0], [7, 8]))
    other = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, update=sums_inputs)
    said = "it could be the number of the tuple's input, or the column 'input': rename the column"
    with pytest.raises(FunctionError, match=said):
        hr.inputs(one, two).window(5).apply(other).to_arrow()


@pytest.mark.slow
def test_example_beside_a_column_ts_the_event_time_has_its_own_name():
    stream = hr.stream(BOTH_TIMES, event_time="when")
    assert stream.transact(adds_when, emits={"n": "int64"}, carry=["ts"]).to_arrow().to_pydict() == {
        "when": [1, 2, 3], "ts": [10, 20, 30], "n": [1, 3, 3], "rejected": [False] * 3,
    }  # fmt: skip
