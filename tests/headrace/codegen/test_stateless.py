"""A fused chain gives what its functions give one after the other, row by row.

Oracle      The user's functions called by the interpreter, on rows as objects,
            with conditions computed in Python.
Cannot see  How fast the loop is; what Arrow makes of malformed batches.
"""

from __future__ import annotations

import math
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.codegen.stateless import Filter, FlatMap, Map, StatelessChain
from headrace.errors import FunctionError, ParameterError, RunStoppedError, SchemaError, UnsupportedTypeError
from headrace.expressions import col
from headrace.kernel import JIT
from support.campaign import rarely

SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("ms", "UTC"),
        "x": pa.int64(),
        "f": pa.float32(),
        "flag": pa.bool_(),
        "small": pa.uint8(),
        "name": pa.string(),
        "odd name": pa.int64(),
        "tags": pa.list_(pa.string()),
    }
)


def batch_of(rows):
    columns = list(zip(*rows, strict=True)) if rows else [[] for _ in SCHEMA]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, f.type) for column, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


ROWS = [
    (0, 3, 0.5, True, 7, "a", 1, ["p"]),
    (1, None, 1.5, False, 8, "b", 2, []),
    (5, -4, None, None, 9, None, 3, None),
    (5, 10, 2.5, True, 250, "d", None, ["q", "r"]),
]


class Row:
    def __init__(self, fields):
        self.__dict__.update(fields)


def declared(step, values):
    """Round as the declared kind does; the others keep every value a function may give here."""
    return {n: float(np.float32(v)) if step.columns[n] == "float32" else v for n, v in values.items()}


def plain(steps, batch):
    """Rows as dicts, through the steps in the interpreter."""
    rows = batch.to_pylist()
    for row in rows:
        row["ts"] = int(row["ts"].timestamp() * 1e6)
    for step in steps:
        following = []
        for row in rows:
            if isinstance(step, Filter):
                if callable(step.condition) and not isinstance(step.condition, type(col("x"))):
                    keep = step.condition(Row(row))
                else:
                    keep = row["x"] is not None and row["x"] > 0
                following += [row] if keep else []
                continue
            function = step.function
            if function.__code__.co_argcount == 1:
                following.append(row | declared(step, {next(iter(step.columns)): function(Row(row))}))
                continue

            def emit(*values, row=row, step=step, following=following, **named):
                named |= dict(zip(step.columns, values, strict=False))
                following.append(row | declared(step, named))

            function(Row(row), emit)
        rows = following
    return rows


def fused(steps, batch):
    rows = StatelessChain(steps, SCHEMA, "ts").apply(batch).to_pylist()
    for row in rows:
        row["ts"] = int(row["ts"].timestamp() * 1e6)
    return rows


def known(t):
    return t.x is not None and (t.flag is None or t.flag)


def score(t, emit):
    bonus = 1.0 if t.small > 8 else 0.25
    if t.f is None:
        emit(total=-bonus, half=t.x // 2)
        return
    emit(total=t.f * bonus + t.x, half=t.x // 2)


def split(t, emit):
    for i in range(abs(t.half) + t.small % 3):
        emit(part=i, even=i % 2 == 0, x=t.x - i)


CHAINS = {
    "filter": [Filter(known)],
    "map": [Filter(known), Map(score, {"total": "float64", "half": "int64"})],
    "value": [Map(lambda t: t.ts // 1000 + t.small, {"x": "int64"})],
    "all": [
        Filter(known),
        Map(score, {"total": "float64", "half": "int64"}),
        FlatMap(split, {"part": "int32", "even": "bool", "x": "int64"}),
        Filter(lambda t: t.x > -3 and t.even),
        Map(lambda t: t.total * 2, {"total": "float32"}),
    ],
    "expressions": [
        Filter(col("x") > 0),
        Map(lambda t: t.x * 2, {"x": "int64"}),
        Filter(col("x") > 0),
        FlatMap(lambda t, emit: emit(double=t.x), {"double": "int64"}),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*rarely("filter"), *(name for name in CHAINS if name != "filter")])  # others begin with it
def test_example_fused_equals_plain(name):
    batch = batch_of(ROWS)
    assert fused(CHAINS[name], batch) == plain(CHAINS[name], batch)


def test_example_result_schema_and_order_of_columns():
    chain = StatelessChain(CHAINS["all"], SCHEMA, "ts")
    assert chain.schema.names == [*SCHEMA.names, "total", "half", "part", "even"]
    assert chain.schema.field("total").type == pa.float32()
    assert chain.schema.field("x").type == pa.int64()
    assert chain.schema.field("ts") == SCHEMA.field("ts")
    assert chain.apply(batch_of(ROWS)).schema == chain.schema
    assert chain.apply(batch_of([])).schema == chain.schema


def test_example_slices_and_changing_nulls():
    chain = StatelessChain(CHAINS["map"], SCHEMA, "ts")
    whole = batch_of(ROWS * 3)
    together = chain.apply(whole).to_pylist()
    pieces = [row for i in range(len(ROWS) * 3) for row in chain.apply(whole.slice(i, 1)).to_pylist()]
    assert pieces == together


def test_example_flat_map_that_grows_much():
    def many(t, emit):
        for i in range(t.small * 10):
            emit(i=i)

    chain = StatelessChain([FlatMap(many, {"i": "int64"})], SCHEMA, "ts")
    result = chain.apply(batch_of(ROWS))
    assert result.num_rows == 10 * (7 + 8 + 9 + 250)
    assert result.column("i").to_pylist() == [i for n in (7, 8, 9, 250) for i in range(n * 10)]
    assert result.column("name").to_pylist()[:70] == ["a"] * 70


def test_example_columns_may_be_called_anything():
    names = ("values", "row", "loop_words", "source", "stop", "step_0", "größe", "np", "self", "count")

    def f(t, emit):
        emit(values=t.values + 1, row=t.row, loop_words=3, source=t.größe, stop=t.np, step_0=t.self, größe=t.count)

    schema = pa.schema({"ts": pa.int64()} | dict.fromkeys(names, pa.int64()))
    computed = dict.fromkeys(("values", "row", "loop_words", "source", "stop", "step_0", "größe"), "int64")
    chain = StatelessChain([FlatMap(f, computed), Filter(lambda t: t.values > 0)], schema, "ts")
    batch = pa.record_batch([[i] for i in range(11)], schema=schema)
    assert list(chain.apply(batch).to_pylist()[0].values()) == [0, 2, 2, 3, 7, 8, 9, 10, 8, 9, 10]


def test_example_no_steps_and_expression_only():
    batch = batch_of(ROWS)
    assert StatelessChain([], SCHEMA, "ts").apply(batch).equals(batch)
    assert StatelessChain([Filter(col("x") > 0)], SCHEMA, "ts").apply(batch).num_rows == 2


VALUES = st.tuples(
    st.integers(0, 3),
    st.one_of(st.none(), st.integers(-9, 9)),
    st.one_of(st.none(), st.floats(-4, 4, width=16)),
    st.one_of(st.none(), st.booleans()),
    st.integers(0, 255),
    st.one_of(st.none(), st.text(max_size=2)),
    st.one_of(st.none(), st.integers(0, 9)),
    st.none(),
)
COMPILED = StatelessChain(CHAINS["all"], SCHEMA, "ts")


@settings(max_examples=80, deadline=None)
@given(st.lists(VALUES, max_size=6))
def test_oracle_fused_equals_plain(rows):
    batch = batch_of(rows)
    result = COMPILED.apply(batch).to_pylist()
    for row in result:
        row["ts"] = int(row["ts"].timestamp() * 1e6)
    expected = plain(CHAINS["all"], batch)
    assert result == expected


# --------------------------------------------------------------------- failing


def fails_late(t, emit):
    if t.small == 250:
        t.small // (t.x - 10)  # here
    emit(y=1)


def test_example_failure_names_line_and_whole_tuple():
    chain = StatelessChain([Filter(lambda t: t.small > 0), FlatMap(fails_late, {"y": "int64"})], SCHEMA, "ts")
    with pytest.raises(FunctionError, match="ZeroDivisionError") as caught:
        chain.apply(batch_of([*ROWS[:1] * 1000, ROWS[3]]))
    assert (caught.value.function, caught.value.file) == ("fails_late", __file__)
    assert caught.value.line == fails_late.__code__.co_firstlineno + 2
    assert caught.value.tuple["name"] == "d"
    assert caught.value.tuple["x"] == 10
    assert chain.apply(batch_of(ROWS[:1])).num_rows == 1  # still usable


def test_example_null_used_is_a_failure_with_the_tuple():
    chain = StatelessChain([Map(lambda t: t.x + 1, {"y": "int64"})], SCHEMA, "ts")
    with pytest.raises(FunctionError, match="NoneType") as caught:
        chain.apply(batch_of(ROWS))
    assert caught.value.tuple["name"] == "b"
    assert chain.apply(batch_of(ROWS[:1])).column("y").to_pylist() == [4]


def test_example_map_must_emit_once():
    def twice(t, emit):
        emit(y=1)
        if t.x == 10:
            emit(y=2)

    chain = StatelessChain([Map(twice, {"y": "int64"})], SCHEMA, "ts")
    with pytest.raises(FunctionError, match="exactly once for each tuple, not 2") as caught:
        chain.apply(batch_of([ROWS[0], ROWS[3]]))
    assert caught.value.tuple["name"] == "d"


def test_example_int32_overflow():
    chain = StatelessChain([Map(lambda t: t.x * 10**9, {"y": "int32"})], SCHEMA, "ts")
    with pytest.raises(FunctionError, match="int32"):
        chain.apply(batch_of(ROWS[:1]))


def test_example_a_number_beyond_int32_is_told_by_its_column_and_step():
    """Plain Python computes it, so the function called again does not fail: what it gives does not fit."""

    def large(t, emit):
        emit(y=t.x * 10**9)

    for steps in ([Map(large, {"y": "int32"})], [Filter(lambda t: t.x != 7), FlatMap(large, {"y": "int32"})]):
        chain = StatelessChain(steps, SCHEMA, "ts")
        with pytest.raises(FunctionError, match="y=10000000000 does not fit in int32; declare it as y='int64'") as caught:
            chain.apply(batch_of(ROWS[3:]))
        assert caught.value.function == "large"


@pytest.mark.parametrize(
    ("steps", "error", "text"),
    [
        ([Filter(lambda t: t.tags)], FunctionError, "type list"),
        ([Filter(lambda t: t.missing > 0)], FunctionError, "no field 'missing'"),
        ([Filter(lambda t, emit: emit(x=1))], FunctionError, "takes 2 parameters"),
        ([Filter(col("missing") > 0)], SchemaError, "does not exist"),
        ([Filter(col("name") + 1 > 0)], UnsupportedTypeError, "not defined"),
        ([Map(lambda t: t.x, {})], ParameterError, "name the columns"),
        ([Map(lambda t: t.x, {"y": "int16"})], ParameterError, "kinds are int64"),
        ([Map(lambda t: t.x, {"emits": {"y": "int64"}})], ParameterError, "give each column by its name, as in y='int64'"),
        ([Map(lambda t: max(t.x, 1, key=abs), {"y": "int64"})], FunctionError, "key= cannot be compiled; write if and else"),
        ([Map(lambda t: t.x, {"ts": "int64"})], ParameterError, "event time"),
        ([Map(lambda t: t.x, {"odd name": "int64"})], ParameterError, "not a Python name"),
        ([Map(score, {"total": "float64"})], FunctionError, "no such output field"),
        ([FlatMap(lambda t: t.x, {"y": "int64"})], FunctionError, r"results are given by emit.* called with \(t, emit\)"),
    ],
)
def test_example_wrong_chains(steps, error, text):
    with pytest.raises(error, match=text):
        StatelessChain(steps, SCHEMA, "ts")


@pytest.mark.skipif(not JIT, reason="types are checked by the compiler")
def test_example_wrong_type_is_found_when_the_chain_is_made():
    def wrong(t, emit):
        emit(
            y=1,
        )
        emit(y=t.x / 2)

    with pytest.raises(FunctionError, match="a float64 is given where int64 is declared") as caught:
        StatelessChain([FlatMap(wrong, {"y": "int64"})], SCHEMA, "ts")
    assert caught.value.line == wrong.__code__.co_firstlineno + 4


def test_example_another_schema_is_refused():
    chain = StatelessChain([Filter(known)], SCHEMA, "ts")
    with pytest.raises(SchemaError, match="and the stream has"):
        chain.apply(pa.record_batch({"ts": [1]}))
    with pytest.raises(SchemaError, match="does not exist"):
        StatelessChain([], SCHEMA, "time")


@pytest.mark.skipif(not JIT, reason="the interpreter holds the GIL in the endless loop")
def test_example_endless_function_is_stopped():
    def endless(t):
        x = 0
        while x < 1:
            x = x * t.x
        return x

    chain = StatelessChain([Map(endless, {"y": "int64"})], SCHEMA, "ts")
    raised = []

    def work():
        try:
            chain.apply(batch_of(ROWS[:1]))
        except RunStoppedError as error:
            raised.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    time.sleep(0.05)
    assert not raised
    chain.stop[0] = 1
    thread.join(180)
    assert raised


@pytest.mark.parametrize("steps", [
    [Map(lambda t: t.ts * 10, {"x": "int64"}), Filter(lambda t: t.ts > 1 and t.x == t.when * 10)],
    [Map(lambda t: t.when * 10, {"ts": "int64"}), Filter(lambda t: t.ts > 10), Map(lambda t: t.ts, {"x": "int64"})],
], ids=["the event time", "a column of this name"])  # fmt: skip
def test_example_ts_is_the_event_time_unless_a_column_is_called_so(steps):
    chain = StatelessChain(steps, pa.schema({"when": pa.int64()}), "when")
    result = chain.apply(pa.record_batch({"when": [1, 2, 3]}))
    assert result.column("when").to_pylist() == [2, 3] and result.column("x").to_pylist() == [20, 30]


def test_example_integer_event_time_and_nan():
    schema = pa.schema({"ts": pa.int64(), "v": pa.float64()})
    chain = StatelessChain([Filter(lambda t: math.isnan(t.v) or t.ts == -5)], schema, "ts")
    batch = pa.record_batch([pa.array([-5, 0, 1]), pa.array([1.0, math.nan, 2.0])], schema=schema)
    assert chain.apply(batch).column("ts").to_pylist() == [-5, 0]
    assert np.isnan(chain.apply(batch).column("v").to_numpy()[1])
