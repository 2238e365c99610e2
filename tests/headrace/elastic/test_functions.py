"""User functions in the fluent interface: what `hr.operator` accepts, and map, filter, flat_map in a query.

Oracle: `headrace.reference` for what the steps do; the texts of errors as a
user meets them. Cannot see: what a function may contain (codegen/test_functions),
nor what the operators compute (test_custom, test_kept_tuples).
"""


import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import reference
from headrace.errors import FunctionError, NoResultsWarning, ParameterError, SchemaError
from support.workloads import eventually, examples

TABLE = pa.table({"ts": [1, 2, 3], "k": ["a", "b", "a"], "x": [5, 6, 7], "tags": [["p"], [], ["q", "p"]]})


def rows(**columns):
    return hr.stream(pa.table({"ts": [1, 2, 3], **columns}), event_time="ts")


def count(state, t, emit):
    state.n += 1


def show(key, state, emit):
    emit(n=state.n)


# ------------------------------------------------------------- hr.operator


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "give update= or output="),
        ({"update": 3}, "update=3: give a function"),
        ({"update": count, "output": {"n": "int64"}}, "named in emits="),
        ({"update": count, "emits": ["n"]}, "emits=.*give a dict"),
        ({"update": count, "emits": {"n": "int63"}}, "n='int63': the kinds are int64"),
        ({"update": count, "emits": {"a b": "int64"}}, "'a b' is not a Python name: .*; rename it"),
        ({"update": count, "state": {"class": "int64"}}, "'class' is not a Python name"),
        ({"update": count, "state": {"n": "strings"}}, "state: n='strings': the kinds"),
        ({"update": count, "state": {"n": 2**63}}, "whole number within int64"),
        ({"update": count, "state": {"n": [1]}}, "give a kind or a first value"),
    ],
)
def test_example_what_is_not_an_operator(options, text):
    with pytest.raises(ParameterError, match=text):
        hr.operator(**options)


def keeps(key, state, emit):
    inner = [emit for _ in range(2)]  # read in a function of its own, in older Pythons
    return inner


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"update": count}, "'count' will have no results, since update=count never calls emit; call emit(column=...) in it, or"
         " give output=, a function (key, state, emit) that calls it when a window expires"),
        ({"update": count, "output": lambda key, state, emit: None, "emits": {"n": "int64"}, "name": "sums"},
         "'sums' will have no results, since update=count and output=<lambda> never call emit; call emit(n=...) in one of them"),
        ({"output": lambda key, state: None}, "output=<lambda> never calls emit; call emit(column=...) in it"),
        ({"update": count, "output": keeps}, None),
        ({"update": lambda state, t, out: out(n=1), "emits": {"n": "int64"}}, None),
    ],
)  # fmt: skip
def test_example_an_operator_that_never_emits_is_warned_of(options, text, recwarn):
    hr.operator(**options)
    said = [str(one.message) for one in recwarn if one.category is NoResultsWarning]
    assert len(said) == (text is not None) and all(one.endswith(text) for one in said)
    assert all(one.filename == __file__ for one in recwarn)


def test_example_first_values_say_the_kind():
    operator = hr.operator(state={"a": 3, "b": 0.5, "c": True, "d": "float32", "e": "bool"}, update=count)
    assert {name: (field.kind, field.first) for name, field in operator.state.items()} == {
        "a": ("int64", 3),
        "b": ("float64", 0.5),
        "c": ("bool", True),
        "d": ("float32", 0.0),
        "e": ("bool", False),
    }


def applied(keys=("k",), instances="multi", **options):
    return (
        hr.stream(TABLE, event_time="ts")
        .key_by(*keys)
        .window(10, instances=instances)
        .apply(hr.operator(**options))
    )


def reads_text(state, t, emit):
    emit(n=t.k)


def reads_nothing_known(state, t, emit):
    state.n += t.y


def reads_no_state(state, t, emit):
    state.m += 1


def emits_other(state, t, emit):
    emit(m=1)


def reads_key(key, state, emit):
    emit(n=key)


def too_few(state):
    state.n = 1


STATE = {"state": {"n": "int64"}, "emits": {"n": "int64"}}


@pytest.mark.parametrize(
    ("options", "text", "line"),
    [
        ({"update": reads_text}, r"t.k is a string: emit\(n=...\) takes a number", 1),
        ({"update": reads_nothing_known}, "t has no field 'y'; it has", 1),
        ({"update": reads_no_state}, "state has no field 'm'; it has n", 1),
        ({"update": emits_other}, "there is no such output field; the output fields are n", 1),
        ({"update": too_few}, r"takes 1 parameters: it is called with \(state, t, emit\)", 0),
        ({"update": count, "output": reads_key}, r"key is a string: emit\(n=...\) takes a number", 1),
    ],
)
def test_example_a_wrong_function_is_an_error_where_it_is_applied(options, text, line):
    with pytest.raises(FunctionError, match=text) as caught:
        applied(**STATE, **options)
    function = options.get("output") or options["update"]
    assert caught.value.line == function.__code__.co_firstlineno + line
    assert caught.value.file == __file__


def test_example_slide_needs_one_instance_per_key():
    with pytest.raises(ParameterError, match='instances="single"'):
        applied(update=count, slide=lambda key, state, left: None, **STATE)


def test_example_a_result_column_named_like_a_key():
    with pytest.raises(ParameterError, match="two result columns would be called 'k'"):
        applied(state={"n": "int64"}, emits={"k": "int64"}, update=count)


def test_example_apply_wants_an_operator():
    with pytest.raises(ParameterError, match=r"give what hr.operator\(...\) returns"):
        hr.stream(TABLE, event_time="ts").window(10).apply(count)


def test_example_inputs_must_have_keys_alike():
    one, other = rows(k=["a", "b", "c"]), rows(k=[1, 2, 3])
    with pytest.raises(SchemaError, match="k: string and k: int64 differ"):
        hr.inputs(one.key_by("k"), other.key_by("k"))
    with pytest.raises(SchemaError, match="k: string and j: string differ"):
        hr.inputs(one.key_by("k"), one.key_by(j="k"))
    with pytest.raises(ParameterError, match="nulls='error' and 'drop'"):
        hr.inputs(one.key_by("k"), one.key_by("k", nulls="drop"))
    with pytest.raises(SchemaError, match="'us' and 'ms'"):
        timed = hr.stream(pa.table({"ts": pa.array([1], pa.timestamp("us"))}), event_time="ts")
        hr.inputs(timed, one)


# -------------------------------------------------------- map, filter, flat_map


def heavy(t):
    return t.x > 2 and not t.b


def halves(t, emit):
    emit(part=t.x // 2, index=0)
    emit(part=t.x - t.x // 2, index=1)


def scaled(t):
    return t.part * 1.5


ROWS = st.tuples(
    st.integers(-50, 50),
    st.fixed_dictionaries({"x": st.integers(-9, 9), "b": st.booleans(), "s": st.text(max_size=3)}),
)
SCHEMA = pa.schema({"ts": pa.int64(), "x": pa.int64(), "b": pa.bool_(), "s": pa.string()})


@pytest.mark.logic
@settings(deadline=None, max_examples=examples(40), suppress_health_check=list(HealthCheck))
@given(st.lists(ROWS, max_size=30), st.integers(1, 4))
def test_oracle_steps_before_and_after_an_operator(drawn, threads):
    source = sorted(drawn, key=lambda row: row[0])
    table = pa.Table.from_pylist([{"ts": ts, **payload} for ts, payload in source], SCHEMA)
    query = (
        hr.stream(table, event_time="ts").filter(heavy).flat_map(halves, part="int64", index="int32")
        .map(scaled, part="float64").forward().filter(lambda t: t.part > 2.0)
    )  # fmt: skip
    kept = reference.filter_tuples(source, lambda p: p["x"] > 2 and not p["b"])
    parts = reference.flat_map_tuples(
        kept,
        lambda p: [p | {"part": p["x"] // 2, "index": 0}, p | {"part": p["x"] - p["x"] // 2, "index": 1}],
    )
    scaled_parts = reference.map_tuples(parts, lambda p: p | {"part": p["part"] * 1.5})
    result = reference.filter_tuples(scaled_parts, lambda p: p["part"] > 2.0)
    assert query.to_arrow(threads=threads).to_pylist() == [{"ts": ts, **payload} for ts, payload in result]


@pytest.mark.slow
def test_example_steps_that_follow_each_other_are_one_loop():
    from headrace.plan.steps import FunctionStep

    query = (
        rows(x=[1, 2, 3]).map(lambda t: t.x + 1, y="int64").filter(lambda t: t.y > 2)
        .filter(hr.col("x") > 0).map(lambda t: t.y * t.x, z="int64").plan()
    )  # fmt: skip
    (branch,) = query.branches["forward"]
    assert [len(s.operations) if isinstance(s, FunctionStep) else "expression" for s in branch.steps] == [
        2,
        "expression",
        1,
    ]


def test_example_a_wrong_step_is_an_error_where_it_is_written():
    with pytest.raises(FunctionError, match="t has no field 'y'"):
        rows(x=[1, 2, 3]).filter(lambda t: t.y > 2)
    with pytest.raises(ParameterError, match=r"map\(<lambda>\): name the columns it computes .* map\(f, total='int64'\)"):
        rows(x=[1, 2, 3]).map(lambda t: t.x)
    with pytest.raises(ParameterError, match=r"flat_map\(count\): name the columns it computes"):
        rows(x=[1, 2, 3]).flat_map(count)
    with pytest.raises(ParameterError, match="the kinds are"):
        rows(x=[1, 2, 3]).map(lambda t: t.x, y="int")
    with pytest.raises(ParameterError, match="give a function of a tuple"):
        rows(x=[1, 2, 3]).map("x", y="int64")
    with pytest.raises(ParameterError, match=r"filter\('x > 1'\): give an expression, as in hr.col\(\"a\"\) > 1, or a function"):
        rows(x=[1, 2, 3]).filter("x > 1")
    with pytest.raises(ParameterError, match=r"columns computed by expressions are for select\(\)"):
        rows(x=[1, 2, 3]).map(hr.col("x") * 2, y="int64")
    with pytest.raises(ParameterError, match=r"use map\(\), which takes functions"):
        rows(x=[1, 2, 3]).select("ts", y=lambda t: t.x)
    with pytest.raises(ParameterError, match=r"write hr.lit\(2\)"):
        rows(x=[1, 2, 3]).select("ts", y=2)


def never(t):
    n = t.x
    while n < 100:
        n = n * 1
    return n > 0


def test_example_a_step_that_never_returns_can_be_stopped_and_started_again():
    query = rows(x=[1, 2, 3]).filter(never)
    for _ in range(2):
        with query.start() as run:
            assert not run.wait(0.2)
            run.stop()
            eventually(lambda: not run._execution.pool.alive)


def divides(t):
    return 10 // t.x > 0


def test_example_a_failing_step_shows_line_and_tuple():
    with pytest.raises(FunctionError, match="ZeroDivisionError") as caught:
        rows(x=[1, 0, 3], s=["a", "b", "c"]).filter(divides).to_arrow()
    assert caught.value.line == divides.__code__.co_firstlineno + 1
    assert caught.value.tuple == {"ts": 2, "x": 0, "s": "b"}


# ------------------------------------------------------------ times as integers, names as they are


MICRO = "\N{MICRO SIGN}s"
TIMES = pa.table({
    "when": pa.array([1_000, 2_000, 3_000], pa.timestamp("ms")),  # the event time: in the engine microseconds
    "day": pa.array([86_400] * 3, pa.timestamp("s")),
    "at": pa.array([5, None, 10**9], pa.timestamp("ns", "UTC")),
    "took": pa.array([7, 8, 9], pa.duration("ms")),
    MICRO: [1, 2, 3],
})


def keep_times(state, t, emit):
    s = (t.µs, 0)  # kernels have an `s` of their own
    if t.at is not None:
        state.at += t.at
    state.took += t.took + s[0]
    state.ts += t.when - t.ts + t.ts
    state.length = len("gates.merged_log_kernel")


def emit_times(key, state, emit):
    emit(key=key, at=state.at, took=state.took, sum=state.ts, length=state.length)


@pytest.mark.logic
@pytest.mark.parametrize("options", [{"gate": "scalegate"}, {"mode": "sn"}], ids=str)
def test_example_an_operator_reads_times_as_integers_and_keeps_its_names(options):
    operator = hr.operator(
        state=dict.fromkeys(("at", "took", "ts", "length"), "int64"),
        emits=dict.fromkeys(("key", "at", "took", "sum", "length"), "int64"),
        update=keep_times,
        output=emit_times,
    )
    result = hr.stream(TIMES, event_time="when").key_by("day").window("1min").apply(operator).to_arrow(**options)
    assert result.drop(["when", "day"]).to_pylist() == [
        {"key": 86_400, "at": 10**9 + 5, "took": 24 + 6, "sum": 6_000_000, "length": len("gates.merged_log_kernel")}
    ]


def times_meet(l, r):
    buffer = (l.took, r.µs, 2)  # and a `buffer`
    s = (0, 1)
    return r.ts - l.ts == 1_000_000 * s[1] and l.when < r.when and buffer[0] + buffer[1] == 7 + buffer[2]


@pytest.mark.logic
@pytest.mark.parametrize("index", [True, False])
def test_example_a_join_function_reads_event_times_and_durations(index):
    """Times of two units, in the engine's: pairs one second apart."""
    left, right = hr.stream(TIMES, event_time="when"), TIMES.set_column(0, "when", TIMES["when"].cast(pa.timestamp("us")))
    pairs = left.join(
        hr.stream(right, event_time="when"), "5s", where=times_meet, prefixes=("l_", "r_"),
        index=index,
    ).to_arrow()
    assert [(row["l_took"].microseconds, row["r_" + MICRO]) for row in pairs.to_pylist()] == [(7_000, 2)]


def divides_times(l, r):
    return l.when // (r.ts - l.ts) > 0


@pytest.mark.logic
def test_example_a_failing_join_function_shows_the_times_it_read():
    stream = hr.stream(TIMES, event_time="when")
    with pytest.raises(FunctionError, match="ZeroDivisionError") as caught:
        stream.join(stream, "5s", where=divides_times).to_arrow()
    assert caught.value.tuple == {"l.when": 1_000_000, "r.ts": 1_000_000, "l.ts": 1_000_000, "r.when": 1_000_000}
    assert "'r.ts': 1000000 (1970-01-01 00:00:01)" in str(caught.value)


@pytest.mark.logic
def test_example_steps_read_times_as_integers():
    stream = hr.stream(TIMES, event_time="when")
    mapped = stream.map(lambda t: t.took + t.µs + t.when // 1_000_000, sum="int64")
    kept = mapped.filter(lambda t: t.at is not None and t.at > 5 and t.day == 86_400)
    assert kept.to_arrow()["sum"].to_pylist() == [9 + 3 + 3]
    with pytest.raises(FunctionError, match="ZeroDivisionError") as caught:
        stream.map(lambda t: t.took // (t.µs - 2), x="int64").to_arrow()
    assert caught.value.tuple["took"] == 8 and caught.value.tuple["when"] == 2_000_000


def test_example_columns_that_python_takes_for_one_are_refused():
    table = pa.table({"ts": [1], "\ufb01": [2], "fi": [3]})
    stream = hr.stream(table, event_time="ts")
    message = "columns '\ufb01' and 'fi' have the same name in Python, 'fi'"
    with pytest.raises(SchemaError, match=message):
        stream.filter(lambda t: t.fi > 2)
    with pytest.raises(SchemaError, match=message):
        stream.window(10).apply(hr.operator(state={"n": "int64"}, update=count, emits={"n": "int64"}))
    with pytest.raises(SchemaError, match=message):
        stream.join(hr.stream(TABLE, event_time="ts"), 5, where=lambda l, r: l.fi == r.x).to_arrow()
    with pytest.raises(ParameterError, match="emits: 'fi' becomes 'fi' in Python, and that name is taken"):
        hr.operator(emits={"\ufb01": "int64", "fi": "int64"}, output=show)
    with pytest.raises(ParameterError, match="map: .* that name is taken"):
        hr.stream(TABLE, event_time="ts").map(lambda t, emit: emit(1, 2), **dict.fromkeys(("\ufb01", "fi"), "int64"))


# ------------------------------------- columns whose names a function cannot write


def reads_klass(state, t, emit):
    state.n += t.klass


def books_klass(e, t):
    t.emit(x=e.klass)


def gets_attribute(state, t, emit):
    state.n += getattr(t, "class")


KLASS = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, update=reads_klass, output=show)


@pytest.mark.parametrize(
    "read",
    [
        lambda s: s.map(lambda t: t.klass, x="int64"),
        lambda s: s.key_by("k").window(10).apply(KLASS).to_arrow(),
        lambda s: s.join(s, within=5, where=lambda l, r: l.k == r.klass).to_arrow(),
        lambda s: s.transact(books_klass, emits={"x": "int64"}),
        lambda s: s.ordered().filter(lambda t: t.klass > 1).to_arrow(),
    ],
    ids=["map", "operator", "join", "transact", "ordered"],
)
def test_example_columns_named_like_keywords_have_to_be_renamed(read):
    """Whoever reads ``class`` under some other name learns that it is there, and how to have it."""
    stream = rows(**{"k": ["a", "b", "a"], "class": [1, 2, 3]})
    with pytest.raises(FunctionError, match=r"klass.*; 'class' cannot be .*: rename it before, as in select\(..., x='class'\)"):
        read(stream)
    with pytest.raises(FunctionError, match=r"'class', 'a b' cannot be .*: rename one before"):
        read(rows(**{"k": ["a", "b", "a"], "class": [1, 2, 3], "a b": [1, 2, 3]}))


def test_example_getattr_is_no_way_to_read_a_column():
    operator = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, update=gets_attribute, output=show)
    with pytest.raises(FunctionError, match=r"getattr\(...\) cannot be compiled: write t.name; .* renamed before"):
        rows(**{"class": [1, 2, 3]}).window(10).apply(operator).to_arrow()
