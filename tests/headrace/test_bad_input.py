"""What users get wrong: the documented error, or the documented policy, through the public interface.

Property    an error is of the documented type, one line, and names the
            parameter or column, the value and the fix; the engine works
            afterwards. What is odd but right gives the right result
Oracle      by hand
Cannot see  what belongs to one part alone is tested there (ingress, gates); options: test_bad_options.py
"""

import datetime as dt
import math
import os
import random
import threading
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.errors import (
    AggregateOverflowError,
    DisorderError,
    EventTimeError,
    FunctionError,
    HeadraceError,
    InputError,
    KeyNullError,
    LateRowError,
    OutputError,
    OverflowInputError,
    ParameterError,
    RunFailedError,
    SchemaError,
    UnsupportedTypeError,
)
from support.refusals import GOOD, counts, engine_works_afterwards, fails  # noqa: F401  a fixture of every test here
from support.workloads import HANG_S, Steered, eventually

DAY = dt.datetime(2024, 1, 1)


# -- event time ------------------------------------------------------------------------------------


def test_missing_event_time_column():
    with fails(HeadraceError, "event_time='ts'"):
        hr.stream(GOOD)
    with fails(SchemaError, "'time'", "ts"):
        counts(GOOD, event_time="time")


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["2024-01-01", "x", "y"]),
        pa.array([1.0, 2.0, 3.0]),
        pa.array([True, False, True]),
        pa.array([[1], [2], [3]]),
        pa.array([b"1", b"2", b"3"]),
    ],
    ids=lambda c: str(c.type),
)
def test_event_time_column_that_is_no_time(column):
    with fails(InputError, "'ts'", column.type):
        counts(GOOD.set_column(0, "ts", column)).to_arrow()


@pytest.mark.parametrize("unit", ["year", "S", 5, None, ["s"]])
def test_time_unit_that_is_none(unit):
    """Also where nothing asks for a duration."""
    for kind in (pa.int64(), pa.timestamp("us")):
        with fails(InputError, "time_unit", repr(unit), "give one of ns, us, ms, s, min, h, d"):
            hr.stream(GOOD.set_column(0, "ts", GOOD["ts"].cast(kind)), event_time="ts", time_unit=unit)


def test_folder_without_files(tmp_path):
    (tmp_path / "_SUCCESS").touch()
    with fails(InputError, str(tmp_path), "a folder that has no Parquet files; check the path"):
        hr.stream(tmp_path, event_time="ts")


def test_null_event_time():
    table = pa.table({"ts": pa.array([1, None, 3], pa.int64()), "k": ["a", "b", "c"]})
    with fails(EventTimeError, "'ts'", "row 1", "null"):
        counts(table).to_arrow()


def test_nat_event_time():
    frame = pd.DataFrame({"ts": pd.to_datetime(["2024-01-01", None, "2024-01-03"]), "k": ["a", "b", "c"]})
    with fails(EventTimeError, "'ts'", "row 1"):
        counts(frame, "1h").to_arrow()


def test_nan_event_time():
    frame = pd.DataFrame({"ts": [1.0, math.nan, 3.0], "k": ["a", "b", "c"]})
    with fails(InputError, "'ts'"):
        counts(frame).to_arrow()


@pytest.mark.parametrize("threads", [1, 3])
def test_unsorted_source(threads):
    table = pa.table({"ts": [5, 9, 7], "k": ["a", "b", "c"]})
    with fails(DisorderError, "'ts'", "row 2", 7, 9, "sort"):
        counts(table).to_arrow(threads=threads)
    assert counts(table, sort=True).to_arrow().to_pydict()["n"] == [1, 1, 1]


def test_unsorted_across_batches_and_sources():
    good = pa.table({"ts": [5, 9], "k": ["a", "b"]})
    bad = pa.table({"ts": [1, 2, 3, 1], "k": ["a", "b", "c", "d"]})
    with fails(DisorderError, "'ts'", "row 3"):
        counts([good, bad], batch_rows=2).to_arrow()


def test_late_rows():
    table = pa.table({"ts": [10, 20, 15, 9, 30], "k": ["a"] * 5})
    with fails(LateRowError, "'ts'", "row 3", "lateness"):
        counts(table, lateness=5).to_arrow()
    for policy in ("drop", "side"):
        with counts(table, lateness=5, late=policy).start(threads=2) as run:
            assert run.wait(HANG_S)
            assert run.to_arrow().to_pydict() == {"ts": [20, 30, 40], "k": ["a"] * 3, "n": [2, 1, 1]}
            late = run.late
            assert late is None if policy == "drop" else late.num_rows == 1
            if policy == "side":
                assert late["ts"].to_pylist() == [9]
    with fails(ParameterError, "late", "'ignore'", "side"):
        counts(table, lateness=5, late="ignore")


def test_negative_huge_and_equal_timestamps():
    edge = 2**62 - 11
    table = pa.table({"ts": [-edge, -edge, -1, 0, edge], "k": ["a"] * 5})
    result = counts(table).to_arrow(threads=2).to_pydict()
    assert result["n"] == [2, 1, 1, 1]
    assert result["ts"] == [-edge // 10 * 10 + 10, 0, 10, edge // 10 * 10 + 10]


@pytest.mark.parametrize("ts", [2**62 - 5, -(2**62) + 5, 2**63 - 1, -(2**63) + 1])
def test_timestamps_beyond_the_range(ts):
    table = pa.table({"ts": pa.array(sorted([0, ts]), pa.int64()), "k": ["a", "b"]})
    with fails(InputError, ts, "2**62", "coarser"):
        counts(table).to_arrow()


def test_unsigned_times_beyond_int64():
    """No string and no float can be event time: the fix is one that helps."""
    huge = pa.table({"ts": pa.array([1, 2**63 + 5], pa.uint64()), "k": ["a", "b"]})
    with fails(OverflowInputError, "'ts'", "row 1", 2**63 + 5, "coarser time unit"):
        counts(huge).to_arrow()
    coarser = huge.set_column(0, "ts", pa.array(np.asarray(huge["ts"]) // 1_000_000, pa.uint64()))
    assert counts(coarser).to_arrow().num_rows == 2


def test_time_zones():
    """With a zone times are instants; two sources of different zones do not go together."""
    utc = pa.table({"ts": pa.array([DAY], pa.timestamp("us", "UTC")), "k": ["a"]})
    paris = pa.table({"ts": pa.array([DAY], pa.timestamp("us", "Europe/Paris")), "k": ["a"]})
    plain = pa.table({"ts": pa.array([DAY], pa.timestamp("us")), "k": ["a"]})
    for other in (paris, plain):
        with fails(SchemaError, "ts", "cast"):
            counts([utc, other], "1h")
    for table in (utc, paris, plain):
        result = counts(table, "1h").to_arrow()
        assert result["ts"].type == table["ts"].type and result["n"].to_pylist() == [1]


def test_timestamps_finer_than_microseconds():
    whole = pa.table({"ts": pa.array([1_000, 2_000], pa.timestamp("ns")), "k": ["a", "b"]})
    assert counts(whole, "1s").to_arrow()["n"].to_pylist() == [1, 1]
    broken = pa.table({"ts": pa.array([1_000, 2_001], pa.timestamp("ns")), "k": ["a", "b"]})
    with fails(EventTimeError, "'ts'", "row 1"):
        counts(broken, "1s").to_arrow()


# -- windows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "advance", "words"),
    [
        (5, 10, ["size", 5, "advance", 10]),
        (10, 0, ["advance", 0]),
        (10, -1, ["advance", -1]),
        (0, None, ["size", 0]),
        (-5, None, ["size", -5]),
        ("0s", None, ["size"]),
        ("5 parsecs", None, ["size", "5 parsecs", "30min"]),
        (2.5, None, ["size", 2.5]),
        (True, None, ["size", True]),
        (None, None, ["size", None]),
        (2**62, None, ["size", "2**62"]),
        ("999999999999d", None, ["size", "2**62"]),
        ("1us", None, ["size", "1us", "ms"]),
    ],
)
def test_windows_that_cannot_be(size, advance, words):
    with fails(ParameterError, *words):
        counts(GOOD, size, advance)


def test_window_and_event_time_that_overflow_together():
    table = pa.table({"ts": [0, 2**61], "k": ["a", "b"]})
    with fails(OverflowInputError, "row 1", 2**61, "window size"):
        counts(table, 2**61, 2**61).to_arrow()


def test_too_many_windows_at_once():
    with fails(InputError, "size", "advance", "10,000"):
        counts(GOOD, 10_000, 1).to_arrow()


# -- empty things ----------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 4])
def test_empty_inputs(threads):
    for source in (GOOD.slice(0, 0), GOOD.slice(0, 0).to_pandas().astype({"ts": "int64", "k": "str"}), [GOOD.slice(0, 0)] * 3):
        result = counts(source).to_arrow(threads=threads)
        assert result.num_rows == 0 and result.schema.names == ["ts", "k", "n"]
    assert counts([GOOD.slice(0, 0), GOOD]).to_arrow(threads=threads).num_rows == 3
    with fails(ParameterError, "at least one source"):
        hr.stream([], event_time="ts")


def test_empty_key_lists_still_move_time():
    table = pa.table({"ts": [1, 25, 26], "tags": [["a"], [], []]})
    source, seen = Steered(table), []
    query = hr.stream(source, event_time="ts").key_by(tag=hr.each("tags")).window(10).aggregate(n=hr.count())
    with query.start(threads=2, sink=seen.append) as run:
        source.let()
        eventually(lambda: seen)  # before the end of input
        source.let_all()
        assert run.wait(HANG_S)
    assert pa.Table.from_batches(seen).to_pydict() == {"ts": [10], "tag": ["a"], "n": [1]}


# -- keys and values -------------------------------------------------------------------------------


def test_null_keys():
    table = pa.table({"ts": [1, 2, 3], "k": ["a", None, "a"], "tags": [["x"], ["y", None], None]})
    with fails(KeyNullError, "'k'", "row 1", "nulls='drop'"):
        counts(table).to_arrow()
    with fails(KeyNullError, "'tags'", "row 2", "nulls='drop'"):
        hr.stream(table, event_time="ts").key_by(t=hr.each("tags")).window(10).aggregate(n=hr.count()).to_arrow()
    with fails(KeyNullError, "'tags'", "row 1", "null element"):
        query = hr.stream(table.slice(0, 2), event_time="ts").key_by(t=hr.each("tags"))
        query.window(10).aggregate(n=hr.count()).to_arrow()
    dropped = hr.stream(table, event_time="ts").key_by("k", nulls="drop").window(10).aggregate(n=hr.count())
    assert dropped.to_arrow().to_pydict() == {"ts": [10], "k": ["a"], "n": [2]}
    with fails(InputError, "nulls", "'ignore'"):
        hr.stream(table, event_time="ts").key_by("k", nulls="ignore")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([{"a": 1}] * 3),
        pa.array([[1]] * 3),
        pa.array([None] * 3, pa.null()),
        pa.array([[("x", 1)]] * 3, pa.map_(pa.string(), pa.int64())),
    ],
    ids=lambda c: str(c.type),
)
def test_keys_of_unsupported_types(column):
    with fails(SchemaError, "'k'", column.type):
        counts(GOOD.set_column(1, "k", column)).to_arrow()


@pytest.mark.parametrize(
    "column", [pa.array(["1", "2", "3"]), pa.array([[1.0]] * 3), pa.array([{"a": 1}] * 3)], ids=lambda c: str(c.type)
)
def test_values_of_unsupported_types(column):
    table = GOOD.set_column(2, "v", column)
    with fails(UnsupportedTypeError, "'v'", column.type):
        hr.stream(table, event_time="ts").window(10).aggregate(s=hr.sum("v")).to_arrow()


def test_columns_and_names_that_are_not_there():
    stream = hr.stream(GOOD, event_time="ts")
    with fails(SchemaError, "'user'", "'k'"):
        stream.key_by("user")
    with fails(SchemaError, "'w'", "'v'"):
        stream.window(10).aggregate(s=hr.sum("w"))
    with fails(SchemaError, "'w'"):
        stream.filter(hr.col("w") > 0)
    with fails(ParameterError, "'n'", "rename"):
        stream.key_by(n="k").window(10).aggregate(n=hr.count())
    with fails(ParameterError, "aggregate"):
        stream.window(10).aggregate()
    with fails(ParameterError, "n=3", "hr.count"):
        stream.window(10).aggregate(n=3)
    with fails(SchemaError, "'ts'"):
        stream.select("k")


def test_event_time_that_is_computed():
    """The time of a tuple orders the stream: it may be kept, not changed on the way."""
    stream = hr.stream(GOOD, event_time="ts")
    for computed in (hr.col("ts") - 100, hr.col("v"), "v"):
        with fails(HeadraceError, "'ts'"):
            stream.select("k", ts=computed)
    assert stream.select("k", ts="ts").to_arrow()["ts"].to_pylist() == [1, 2, 12]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
def test_integer_sum_that_overflows(threads):
    table = pa.table({"ts": [1, 2, 3], "v": [2**62, 2**62, -(2**62)]})
    query = hr.stream(table, event_time="ts").window(10).aggregate(total=hr.sum("v"))
    with fails(AggregateOverflowError, "total=", "'v'", "int64", "float64"):
        query.to_arrow(threads=threads)
    for values in ([2**62, 2**62 - 1], [-(2**62), -(2**62)]):
        edge = pa.table({"ts": [1, 2], "v": values})
        result = hr.stream(edge, event_time="ts").window(10).aggregate(total=hr.sum("v")).to_arrow(threads=threads)
        assert result["total"].to_pylist() == [sum(values)]


# -- files -----------------------------------------------------------------------------------------


def test_output_that_cannot_be_written(tmp_path):
    for path in (tmp_path / "missing" / "out.parquet", tmp_path):
        with fails(OutputError, path, "writable"):
            counts(GOOD).start(sink=hr.parquet(path))
    assert list(tmp_path.iterdir()) == []


def test_input_that_is_not_there_or_no_table(tmp_path):
    text = tmp_path / "rows.csv"
    text.write_text("ts,k\n1,a\n")
    for source in (tmp_path / "missing.parquet", text):
        with fails(InputError, source.name):
            counts(source)
    for thing in (7, {"ts": [1]}, None):
        with fails(InputError, "Arrow"):
            counts(thing)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_corrupt_files(tmp_path, kind):
    """Every file is either refused in one line, or (the damage hit nothing) read as it was; never a crash."""
    path = tmp_path / f"rows.{kind}"
    table = pa.table({"ts": range(200), "k": [f"key {i % 9} of a good length" for i in range(200)]})
    expected = counts(table).to_arrow()
    if kind == "parquet":
        pq.write_table(table, path, write_page_checksum=True, use_dictionary=False)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    whole = path.read_bytes()
    draw = random.Random(4)
    refused = 0
    for trial in range(60):
        data = bytearray(whole)
        if trial % 3 == 0:
            del data[draw.randrange(len(data)) :]
        else:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(bytes(data))
        try:
            counts(path).to_arrow(threads=2)
        except HeadraceError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused >= 20
    path.write_bytes(whole)
    assert counts(path).to_arrow().equals(expected)


def test_arrow_with_offsets_beyond_its_buffer():
    offsets = pa.py_buffer(np.array([0, 2_000_000, 2], np.int32))
    bad = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab")])
    table = pa.table({"ts": [1, 2], "k": bad})
    with fails(InputError, "not valid Arrow"):
        counts(table).to_arrow()


# -- sources and functions -------------------------------------------------------------------------


def test_one_source_idle_for_ever():
    """It holds the others back, and can be seen to; with `idle_after` it does not."""
    silent = Steered(GOOD.select(["ts", "k"]))
    table = pa.table({"ts": range(100), "k": ["a"] * 100})
    seen = []
    with counts([table, silent], idle_after=0.1).start(threads=2, sink=seen.append) as run:
        eventually(lambda: seen)
        assert seen[0].column("ts")[0].as_py() == 10
        run.stop()
    silent.let_all()
    waiting = Steered(GOOD.select(["ts", "k"]))
    with counts([table, waiting]).start(threads=2) as run:
        assert run.wait(0.3) is False
        assert run.metrics().tuples_out == 0
    waiting.let_all()


def test_schemas_that_differ():
    other = pa.table({"ts": [1], "k": [1], "v": [1]})
    with fails(SchemaError, "k", "cast"):
        hr.stream([GOOD, other], event_time="ts")
    with fails(SchemaError, "differ"):
        hr.stream(GOOD, event_time="ts").union(hr.stream(other, event_time="ts"))
    ticks = [hr.stream(table, event_time="ts") for table in (pa.table({"ts": pa.array([1], pa.int32())}), NEVER_NULL)]
    with fails(SchemaError, "ts: int32 and ts: int64 not null differ"):
        ticks[0].union(ticks[1])
    with fails(SchemaError, "has the columns ts: int64 not null, the first one ts: int64, k: string"):
        hr.stream([GOOD.select(["ts", "k"]), NEVER_NULL], event_time="ts")
    with fails(SchemaError, "'ms'", "'s'"):
        hr.stream(GOOD, event_time="ts").union(hr.stream(GOOD, event_time="ts", time_unit="s"))


NEVER_NULL = pa.table([[1]], schema=pa.schema([pa.field("ts", pa.int64(), nullable=False)]))


def later_column_changes():
    yield pa.record_batch({"ts": [1], "k": ["a"]})
    yield pa.record_batch({"ts": [2]})


def test_column_that_is_missing_in_a_later_batch():
    with fails(SchemaError, "'k'", "later batch"):
        counts(later_column_changes()).to_arrow()


def inverse(state, t, emit):
    state.total += 1_000_000 // (t.v - 999_999)


def total(key, state, emit):
    emit(total=state.total)


FRAGILE = hr.operator(state={"total": "int64"}, emits={"total": "int64"}, update=inverse, output=total)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 4])
def test_user_function_that_fails_on_the_millionth_tuple(threads):
    table = pa.table({"ts": range(1_000_001), "v": range(1_000_001), "k": [i % 64 for i in range(1_000_001)]})
    query = hr.stream(table, event_time="ts").key_by("k").window(1_000).apply(FRAGILE)
    with query.start(threads=threads, max_threads=4) as run:
        with pytest.raises(FunctionError) as caught:
            run.wait(HANG_S)
        assert run.metrics().tuples_out > 0
    error = caught.value
    assert error.function == "inverse" and os.path.basename(error.file) == "test_bad_input.py"
    assert error.line == inverse.__code__.co_firstlineno + 1
    assert error.tuple["v"] == 999_999
    assert "zero" in str(error)


def test_function_sink_that_blocks_does_not_block_the_caller():
    opened = threading.Event()
    with counts(GOOD).start(sink=lambda batch: opened.wait(180)) as run:
        assert run.wait(0.1) is False
        opened.set()
        assert run.wait(HANG_S)


# -- said where it is written, and of what it is -----------------------------------------------------


def test_columns_a_join_cannot_compare_are_refused_where_they_are_named():
    text, number, raw = pa.array(["x"]), pa.array([1]), pa.array([Decimal("1.5")])
    left = hr.stream(pa.table({"ts": [1], "a": text, "x": number, "raw": raw}), event_time="ts")
    right = hr.stream(
        pa.table({"ts": [1], "b": text.cast(pa.large_string()), "y": number, "raw2": raw}), event_time="ts"
    )
    with fails(UnsupportedTypeError, "on=('raw', 'raw2')", "'raw'", "decimal128(2, 1)", "cast it to double"):
        left.join(right, 5, on=("raw", "raw2"))
    with fails(SchemaError, "on=('a', 'y')", "types string and int64", "cast one"):
        left.join(right, 5, on=[("a", "b"), ("a", "y")])
    with fails(SchemaError, "equal('a', 'y')", "types string and int64"):
        left.join(right, 5, where=hr.equal("a", "y"))
    with fails(UnsupportedTypeError, "band('a', 'y', 1)", "'a'", "string", "cast it"):
        left.join(right, 5, where=hr.band("a", "y", 1))


def test_a_column_name_that_is_there_twice():
    twice = pa.table([[1], [2], [3], [4]], names=["ts", "k", "a", "a"])
    stream = hr.stream(twice, event_time="ts")
    for call in (
        lambda: stream.key_by("a"),
        lambda: stream.key_by("k").window(5).aggregate(s=hr.sum("a")),
        lambda: stream.select("ts", "a"),
        lambda: stream.filter(lambda t: t.k > 0),
        lambda: stream.forward().to_arrow(),
    ):
        with fails(SchemaError, "'a'", "rename the others"):
            call()


def test_string_offsets_beyond_their_bytes():
    broken = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(np.array([0, 500, 3], np.int32)), pa.py_buffer(b"abc")])
    for sort in (False, True):
        with fails(InputError, "source 1 (Table)", "not valid Arrow data", "500 > 3"):
            counts(pa.table({"ts": [1, 2], "k": broken}), sort=sort).to_arrow()


def test_more_keys_in_a_row_than_there_may_be():
    table = pa.table({"ts": [1], "k": [list(range(2**20 + 1))]})
    with fails(OverflowInputError, "row 0 has 1,048,577 keys", "1,048,576", "split it"):
        counts(table, key=hr.each("k")).to_arrow()


@pytest.mark.parametrize("how", ["value", "second", "nulls", "each", "any"])
def test_a_key_beyond_int64_is_named(how):
    large = pa.array([1, None, 2**63], pa.uint64())
    table = pa.table({"ts": [1, 2, 3], "one": [1, 1, 1], "price": large if how == "nulls" else large.fill_null(0)})
    lists = pa.ListArray.from_arrays([0, 2, 2, 3], table["price"].combine_chunks())
    table = table.append_column("prices", lists).append_column("small", table["one"].cast(pa.uint64()))
    key = {"second": ("one", "price"), "each": (), "any": ()}.get(how, ("price",))
    named = {"each": {"k": hr.each("prices")}, "any": {"k": ("small", "price")}}.get(how, {})
    query = hr.stream(table, event_time="ts").key_by(*key, nulls="drop", **named).window(5).aggregate(n=hr.count())
    name = "prices" if how == "each" else "price"
    with fails(OverflowInputError, f"key column '{name}' is 9223372036854775808 at row 2", "cast the column to string"):
        query.to_arrow()


def test_the_least_integer_is_no_nat():
    least = pa.array([-(2**63), 1])
    with fails(OverflowInputError, -(2**63), "row 0", "must be below 2**62"):
        counts(pa.table({"ts": least, "k": [1, 1]})).to_arrow()
    with fails(EventTimeError, "NaT at row 0"):
        counts(pa.table({"ts": least.view(pa.timestamp("us")), "k": [1, 1]})).to_arrow()


def test_lists_of_lists_are_not_sent_in_a_circle():
    nested = hr.stream(pa.table({"ts": [1], "k": [[[1]]]}), event_time="ts")
    for key in ("k", hr.each("k")):
        with fails(UnsupportedTypeError, "'k'", "list<item: list<item: int64>>", "flatten"):
            nested.key_by(k=key)


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16()], ids=str)
def test_event_times_that_results_would_leave_are_refused_before_the_start(kind):
    table = pa.table({"ts": pa.array([100, 120], kind), "k": [1, 1]})
    stream = hr.stream(table, event_time="ts")
    assert stream.forward().to_arrow().equals(table), "its own times a stream can hold"
    for call in (
        lambda: stream.key_by("k").window(5).aggregate(n=hr.count()),
        lambda: stream.join(stream, 5, where=hr.band("k", "k", 1)),
    ):
        with fails(UnsupportedTypeError, kind, "times of results", "cast it to int32 or int64"):
            call()


def test_more_open_windows_than_there_is_room_for_are_refused_at_the_window():
    keyed = hr.stream(GOOD, event_time="ts").key_by("k")
    with fails(OverflowInputError, "size=4097, advance=1", "4,097 windows", "advance >= size / 4096"):
        keyed.window(4097, 1)
    keyed.window(4096, 1)
    single = keyed.window(4097, 1, instances="single")  # one instance a key: of custom operators
    with fails(OverflowInputError, "4,097 windows"):
        single.aggregate(n=hr.count())


def test_which_part_failed():
    def breaks_off():
        yield GOOD.to_batches()[0]
        raise KeyError("gone")

    class Sink:
        def open(self, schema):
            raise KeyError("no room")

        def write(self, batch): ...
        def close(self): ...
        def abort(self): ...

    def take(batch):
        raise KeyError("full")

    for query, sink, words in (
        (counts(breaks_off(), name="the feed"), None, ("reading input 'the feed' failed", "KeyError: 'gone'")),
        (counts(breaks_off()), None, ("reading source 1 (generator) failed", "KeyError: 'gone'")),
        (counts(GOOD), take, ("the sink (test_which_part_failed.<locals>.take) failed", "KeyError: 'full'")),
        (counts(GOOD), Sink(), ("the sink (Sink) cannot be opened", "KeyError: 'no room'")),
    ):
        with fails(RunFailedError, *words), query.start(sink=sink) as run:
            run.wait(HANG_S)
