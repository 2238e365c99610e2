"""Names that are not there, through the public interface: the error says which one was meant.

Property    an unknown argument, method, column, operator, application, controller or measure is refused by an error of
            the project's own that names the closest; it still is the error that Python's protocols need, so that
            `hasattr`, completion, `copy` and pickling work
Oracle      by hand
Cannot see  whether the closest name is what a person meant
"""

import copy
import datetime
import decimal
import pickle
import re
import traceback
from inspect import getdoc, isfunction

import pyarrow as pa
import pytest

import headrace as hr
import headrace_datasets
from headrace.apps import APPS
from headrace.errors import (
    ArgumentError,
    FunctionError,
    HeadraceError,
    MissingAttributeError,
    NotSupportedError,
    ParameterError,
    SchemaError,
    UnknownNameError,
)
from headrace.expressions import aggregates
from headrace.names import closest

TABLE = pa.table({"ts": [1, 2, 12], "kind": ["a", "b", "a"], "value": [1, 2, 3]})
FRAME = TABLE.to_pandas()
STREAM = hr.stream(TABLE, event_time="ts")
KEYED = STREAM.key_by("kind")
WINDOWED = KEYED.window(10)
COUNTS = WINDOWED.aggregate("counts", n=hr.count())
INPUTS = hr.inputs(KEYED, KEYED)



def nothing(state, e, emit):
    pass


VISITED = hr.table("visited", columns={"n": "int64"}, rows=10)


def visits(e, t):
    VISITED[0].n += 1


VISITS = STREAM.transact(visits)
STAGES = STREAM.ordered().filter(lambda t: True, name="all")
PROGRAM = hr.program(tags={"value": {}}, state={"n": "int64"}, emits={"n": "int64"}, update={"value": nothing})


@pytest.fixture
def run():
    with COUNTS.start(threads=1) as run:
        run.wait()
        yield run


@pytest.mark.parametrize("call", ["start", "to_arrow", "to_pandas"])
def test_options_of_a_run(call):
    with pytest.raises(ArgumentError, match=r"^thread=2: there is no such argument; did you mean threads=\?$") as caught:
        getattr(COUNTS, call)(thread=2)
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, ParameterError)
    with pytest.raises(ArgumentError, match="parallelism=2: .* write threads="):
        getattr(COUNTS, call)(parallelism=2)
    with pytest.raises(ArgumentError, match="x=1: there is no such argument; the arguments are threads=, max_threads="):
        getattr(COUNTS, call)(x=1)


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (lambda: COUNTS.start(scheme="lock"), "^scheme='lock': a window or join has no transactions; leave it out$"),
        (lambda: COUNTS.start(leaves=2), "^leaves=2: mapping= says who owns which keys, there is no plan of leaves"),
        (lambda: VISITS.start(schedule="ct"), "^schedule='ct': transactions have no stages: a scheme orders them; leave it out$"),
        (lambda: STAGES.start(punctuation=5), "^punctuation=5: a pipeline has stages, and no transactions; leave it out$"),
        (lambda: PROGRAM.start({"value": STREAM.select("ts")}, queues="hybrid"), "^queues='hybrid': a program has no stages"),
    ],
)
def test_options_of_another_engine(start, words):
    with pytest.raises(ArgumentError, match=words):
        start()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: hr.stream(TABLE, event_tme="ts"), r"^stream\(event_tme='ts'\): .*did you mean event_time=\?"),
        (lambda: hr.stream(TABLE, time="ts"), r"^stream\(time='ts'\): there is no such argument; write event_time=$"),
        (lambda: hr.stream(), r"^stream\(\): missing a required argument: 'source'; the arguments are source="),
        (lambda: hr.stream(TABLE), r"^stream\(\): say which column has the times of the rows, as in event_time='ts'$"),
        (lambda: hr.stream(TABLE, "ts", "s"), r"^stream\(\): too many positional arguments"),
        (lambda: KEYED.window(width=3), r"^window\(width=3\): there is no such argument; write size=$"),
        (lambda: KEYED.window(10, advanse=3), r"^window\(advanse=3\): .*did you mean advance=\?"),
        (lambda: KEYED.window("1d", time_zone="UTC"), r"^window\(time_zone='UTC'\): .* write zone=$"),
        (lambda: INPUTS.window(session=9), r"^window\(session=9\): .*fixed size; find sessions with .*single.*ordered\(\)"),
        (lambda: STREAM.join(STREAM, within=1, how="left"), r"^join\(how='left'\): .* as in an inner join"),
        (lambda: STREAM.map(y=hr.col("x") * 2), r"^map\(y=col\('x'\) \* 2\): give a function .* select\(\.\.\., y="),
        (lambda: STREAM.flat_map(y="int64"), r"^flat_map\(y='int64'\): give a function of a tuple, f\(t, emit\)$"),
        (lambda: STREAM.filter(), r"^filter\(\): give an expression, as in hr.col\(.a.\) > 1, or a function"),
        (lambda: STREAM.filter(kind="a"), r"^filter\(kind='a'\): there is no such argument; the arguments are condition=$"),
        (lambda: STREAM.map(abs, 3, y="int64"), r"^map\(\): too many positional arguments"),
        (lambda: hr.operator(emit={"n": "int64"}), r"^operator\(emit=.*\): there is no such argument; write emits=$"),
        (lambda: hr.collect_list("v", 2), r"^collect_list\(\): too many positional arguments; the arguments are column=$"),
        (lambda: hr.keys(nothing), r'^keys\(\): give the kind of the keys, too, as in hr.keys\(f, "string"\)$'),
        (lambda: hr.together([COUNTS]), r"^together\(\[.*\]\): give streams by name, as in together\(counts=..., posts=...\)$"),
        (lambda: hr.top(3), r"^top\(\): missing a required argument: 'column'; the arguments are k=, column=, by=$"),
        (lambda: COUNTS.to_pandas(2), r"^to_pandas\(2\): give each option its name, as in threads=2$"),
        (lambda: COUNTS.start(2, 4), r"^start\(2, 4\): give each option its name, as in threads=2$"),
        (lambda: COUNTS.to_spark(), r"^to_spark\(\): give the session, as in to_spark\(hr.spark.session\(\)\)$"),
        (lambda: STREAM["kind"], r"^stream\['kind'\]: write hr.col\('kind'\) for the column, or .select\(...\)"),
        (lambda: STREAM[["kind", "value"]], r"^stream\[\['kind', 'value'\]\]: write .select\('kind', 'value'\)$"),
        (lambda: STREAM[hr.col("value") > 1], r"^stream\[col\('value'\) > 1\]: write .filter\(...\)$"),
        (lambda: COUNTS[0], r"^stream\[0\]: a stream has no rows before it runs; .to_arrow\(\) and .to_pandas\(\) run it$"),
        (lambda: hr.max("v", skipna=True), r"^max\(skipna=True\): there is no such argument; write ignore_nan=$"),
    ],
)
def test_arguments(call, words):
    with pytest.raises(ArgumentError, match=words) as caught:
        call()
    assert isinstance(caught.value, TypeError)


AGGREGATES = [name for name, one in vars(aggregates).items() if isfunction(one) and one.__module__ == aggregates.__name__]


@pytest.mark.parametrize("name", AGGREGATES)
def test_arguments_of_each_aggregate(name):
    with pytest.raises(ArgumentError, match=rf"^{name}\(size=1\): there is no such argument; the arguments are "):
        getattr(hr, name)(size=1)


def test_what_is_given_without_a_name_or_as_a_text():
    with pytest.raises(ParameterError, match=r"^aggregate\({'value': 'sum'}\): give each result a name, as in aggregate\(n="):
        WINDOWED.aggregate({"value": "sum"})
    with pytest.raises(HeadraceError, match=r"^threads='2': give a whole number from 1 to"):
        COUNTS.to_arrow(threads="2", max_threads=2)


def test_arguments_of_a_live_run():
    with COUNTS.start(rate=0.01) as run:
        with pytest.raises(NotSupportedError, match=r"reconfigure\(thread=...\): .* did you mean threads=\?"):
            run.reconfigure(thread=2)
        with pytest.raises(ArgumentError, match=r"control\(interval=1\): there is no such argument; write interval_s="):
            run.control(None, interval=1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: STREAM.aggregate, "a Stream has no 'aggregate'; write .key_by(...).window(...).aggregate(...)"),
        (lambda: STREAM.count, "a Stream has no 'count'; write .key_by(...).window(...).aggregate(count=hr.count(...))"),
        (lambda: STREAM.sort_values, "a Stream has no 'sort_values'; write hr.stream(..., sort=True), for rows in the order of"),
        (lambda: STREAM.ordered().sort, "an OrderedStream has no 'sort'; write hr.stream(..., sort=True)"),
        (lambda: KEYED.sum, "a KeyedStream has no 'sum'; write .window(...).aggregate(sum=hr.sum(...))"),
        (lambda: KEYED.session, "a KeyedStream has no 'session'; write .window(..., instances='single').apply(hr.operator"),
        (lambda: STREAM.groupBy, "a Stream has no 'groupBy'; write .key_by(...)"),
        (lambda: STREAM.kind, "a Stream has no 'kind'; write hr.col('kind')"),
        (lambda: STREAM.to_panda, "a Stream has no 'to_panda'; did you mean .to_pandas?"),
        (lambda: STREAM.collect, "a Stream has no 'collect'; write .to_arrow() or .to_pandas()"),
        (lambda: STREAM.to_csv, "a Stream has no 'to_csv'; write .to_pandas().to_csv(path)"),
        (lambda: STREAM.save, "a Stream has no 'save'; write .start(sink=hr.parquet(path))"),
        (lambda: STREAM.nothing_like_it, "a Stream has no 'nothing_like_it'; it has explain, filter,"),
        (lambda: hr.read_parquet, "headrace has no 'read_parquet'; write hr.stream(source, event_time=...)"),
        (lambda: hr.read_csv, "headrace has no 'read_csv'; write hr.stream(pandas.read_csv(path), event_time=...)"),
        (lambda: PROGRAM.to_pandas, "a Program has no 'to_pandas'; write .over(inputs).to_pandas(...)"),
        (lambda: PROGRAM.run, "a Program has no 'run'; write .start(inputs)"),
        (lambda: PROGRAM.chek, "a Program has no 'chek'; did you mean .check?"),
        (lambda: KEYED.aggregate, "a KeyedStream has no 'aggregate'; write .window(...).aggregate(...)"),
        (lambda: KEYED.agregate, "a KeyedStream has no 'agregate'; write .window(...).aggregate(...)"),
        (lambda: WINDOWED.to_arrow, "a WindowedStream has no 'to_arrow'; write .aggregate(...) or .apply(...) first"),
        (lambda: WINDOWED.agg, "a WindowedStream has no 'agg'; write .aggregate(name=hr.count(), ...)"),
        (lambda: WINDOWED.sum, "a WindowedStream has no 'sum'; write .aggregate(sum=hr.sum(...))"),
        (lambda: INPUTS.aggregate, "a KeyedInputs has no 'aggregate'; write .window(...).apply(...)"),
        (lambda: INPUTS.window(3).aggregate, "a WindowedInputs has no 'aggregate'; write .apply(hr.operator(...))"),
        (lambda: hr.agregate, "headrace has no 'agregate'; "),
        (lambda: hr.cuont, "headrace has no 'cuont'; did you mean count?"),
        (lambda: hr.Dashboard, "headrace has no 'Dashboard'; write headrace_widgets.Dashboard"),
        (lambda: hr.Treshold, "headrace has no 'Treshold'; write hr.controllers.Threshold"),
        (lambda: hr.ReaderChannels, "headrace has no 'ReaderChannels'; write headrace.gates.ReaderChannels"),
        (lambda: hr.controllers.Treshold, "headrace.controllers has no 'Treshold'; did you mean Threshold?"),
    ],
)
def test_methods(call, words):
    with pytest.raises(MissingAttributeError) as caught:
        call()
    assert str(caught.value).startswith(words)
    assert isinstance(caught.value, AttributeError) and isinstance(caught.value, HeadraceError)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: hr.stream(TABLE, event_time=0), "event_time=0: give the name of the column of event times"),
        (lambda: hr.stream(FRAME, event_time=FRAME.ts), "event_time=<Series>: give the name of the column of event times"),
        (lambda: STREAM.join(FRAME, within=1, on="kind"), "join(<DataFrame>): is not a stream; give what hr.stream("),
        (lambda: STREAM.join(STREAM, on="kind"), "say how far apart in time two tuples may be that match"),
        (lambda: STREAM.union(FRAME), "union(<DataFrame>): is not a stream"),
        (lambda: hr.inputs(STREAM, FRAME), "inputs(<DataFrame>): is not a stream"),
        (lambda: STREAM.key_by(k=nothing), 'key_by(nothing): for keys that a function emits, give hr.keys(nothing, "string")'),
        (lambda: hr.stream([TABLE, hr.Watermark(3)], event_time="ts"), "stream([<Table>, Watermark(time=3)]): a list is several"),
        (lambda: hr.together(a=FRAME), "together(a=<DataFrame>): give what hr.stream(...) and its methods return"),
        (lambda: STREAM.filter(FRAME.value > 1), "filter(<Series>): give an expression"),
        (lambda: hr.stream({"ts": [1]}, event_time="ts"), "make one of it by pyarrow.table(columns)"),
        (lambda: hr.stream([{"ts": 1, "kind": "a"}], event_time="ts"), "make one of it by pyarrow.Table.from_pylist(rows)"),
        (lambda: COUNTS.start(checkpoint="kept"), "only programs (hr.program) have checkpoints; leave it out"),
    ],
)
def test_what_is_no_stream_and_no_column(call, words):
    with pytest.raises(HeadraceError) as caught:
        call()
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(("column", "cast"), [("price", "float64, or scale it and cast it to int64,"), ("day", "timestamp")])
def test_columns_that_no_function_reads(column, cast):
    rows = pa.table({"ts": [1], "price": [decimal.Decimal("1.5")], "day": [datetime.date(2026, 1, 1)]})
    given = hr.stream(rows, event_time="ts")
    where = {"price": lambda l, r: l.price > 1, "day": lambda l, r: l.day > 1}[column]
    stage = {"price": lambda t: t.price > 1, "day": lambda t: t.day > 1}[column]
    for query in (
        lambda: given.join(given, within=1, where=where), lambda: given.ordered().filter(stage), lambda: given.filter(stage)
    ):  # fmt: skip
        with pytest.raises(FunctionError, match=f"{column}: a column of type .* cannot read; cast it to {cast} before"):
            query().to_arrow()


def test_a_key_of_a_table_that_is_no_column():
    named = hr.table("named", data=pa.table({"name": ["a"], "n": [1]}), key="name")

    def add(e, t):
        named[e.knd].n += 1

    with pytest.raises(FunctionError, match=r"e has no field 'knd'; did you mean e.kind\?"):
        STREAM.transact(add).to_arrow()


def test_datasets():
    words = "headrace_datasets has no 'tweet'; the datasets are calls, clicks, connections, eventwindow"
    with pytest.raises(AttributeError, match=words):
        _ = headrace_datasets.tweet


def test_of_a_run(run):
    with pytest.raises(MissingAttributeError, match=r"a QueryRun has no 'result'; write .to_arrow\(\)"):
        _ = run.result
    remedies = {
        "scale": r"\.reconfigure\(threads=...\)", "restart": r"query\.start\(\)", "save": r"sink=hr\.parquet",
        "lag": r"\.metrics\(\)",
    }  # fmt: skip
    for name, remedy in remedies.items():
        with pytest.raises(MissingAttributeError, match=f"a QueryRun has no '{name}'; write .*{remedy}"):
            getattr(run, name)
    with pytest.raises(MissingAttributeError, match=r"a QueryRun has no 'to_pands'; did you mean .to_pandas\?"):
        _ = run.to_pands
    with pytest.raises(UnknownNameError, match=r"^run\['count'\]: did you mean counts\? the operators are counts$") as caught:
        run["count"]
    assert isinstance(caught.value, KeyError) and isinstance(caught.value, ParameterError)
    with pytest.raises(MissingAttributeError, match=r"an OperatorHandle has no 'thread'; did you mean .threads\?"):
        _ = run["counts"].thread
    with pytest.raises(MissingAttributeError, match=r"write .metrics\(\).processed"):
        _ = run["counts"].procesed
    with pytest.raises(MissingAttributeError, match=r"does not measure 'latency_s'; did you mean .latency_ms\? there is"):
        _ = run.metrics().operators["counts"].latency_s
    with pytest.raises(UnknownNameError, match="operator='count': did you mean counts"):
        run.history.to_pandas("count")
    with pytest.raises(UnknownNameError, match="operator='count': did you mean counts"):
        run.history.bucket_loads("count")


def test_columns():
    for call, kind in (
        (lambda: STREAM.key_by("knid"), "did you mean 'kind'? the columns are 'ts', 'kind', 'value'"),
        (lambda: STREAM.select("ts", "Value"), "did you mean 'value'?"),
        (lambda: STREAM.filter(hr.col("valu") > 1), "did you mean value?"),
        (lambda: WINDOWED.aggregate(m=hr.max("valeu")), "did you mean 'value'?"),
        (lambda: hr.stream(TABLE, event_time="tss"), "did you mean ts? the columns are ts, kind, value"),
        (lambda: STREAM.join(STREAM, within=1, on="knd"), "did you mean 'kind'?"),
    ):
        with pytest.raises(SchemaError) as caught:
            call()
        assert kind in str(caught.value)


def test_a_hundred_thousand_columns():
    """The text stays short, and is made at once."""
    names = [f"column_{i}" for i in range(100_000)]
    wide = hr.stream(pa.table([[1]] * len(names) + [[1]], names=[*names, "ts"]), event_time="ts")
    with pytest.raises(SchemaError) as caught:
        wide.key_by("?")
    assert len(str(caught.value)) < 1_000 and "and 99,971 more" in str(caught.value)


def test_fields_of_functions():
    def longest(t, emit):
        emit(n=t.valu)

    def misnamed(t, emit):
        emit(totl=t.value)

    with pytest.raises(FunctionError, match="t has no field 'valu'; did you mean t.value"):
        STREAM.map(longest, n="int64").to_arrow()
    with pytest.raises(FunctionError, match="there is no such output field; did you mean total"):
        STREAM.map(misnamed, total="int64").to_arrow()


def test_operators_and_controllers_in_options():
    with pytest.raises(ParameterError, match=r"threads=\{'count': ...\}: did you mean counts\? the operators are counts"):
        COUNTS.start(threads={"count": 2})
    with pytest.raises(ParameterError, match=r"^threads=\{'map': ...\}: .* give step_threads= .*; the operators are counts$"):
        COUNTS.map(lambda t: t.n, m="int64").start(threads={"map": 2})
    with pytest.raises(ParameterError, match=r"controller='treshold': .* such as hr.controllers.Threshold\(\)"):
        COUNTS.start(controller="treshold")
    with pytest.raises(ParameterError, match=r"controller=Threshold is a class: give an object of it, as in Threshold\(\)"):
        COUNTS.start(controller=hr.controllers.Threshold)


@pytest.mark.parametrize(
    ("option", "values"), [("mode", ("vsn", "sn")), ("gate", ("log", "scalegate")), ("input_order", ("merged", "arrival"))]
)
def test_each_value_of_an_option_is_explained(option, values):
    """In `help(hr.Stream.start)`, which names it in the set of values, and again where it says what it means."""
    text = re.search(rf"^{option} : (.*?)(?=^\w)", getdoc(hr.Stream.start), re.DOTALL | re.MULTILINE)[1]
    for value in values:
        assert text.count(f'"{value}"') >= 2, text


def test_applications():
    with pytest.raises(UnknownNameError, match=r"^APPS\['wordcont'\]: did you mean wordcount\?$"):
        APPS["wordcont"]
    assert "wordcont" not in APPS and APPS.get("wordcont") is None


def test_protocols_work(run):
    for of in (STREAM, KEYED, WINDOWED, INPUTS, run, run["counts"], run.metrics().operators["counts"]):
        assert not hasattr(of, "surely_not") and getattr(of, "surely_not", 3) == 3
        assert not hasattr(of, "_ipython_canary_method_should_not_exist_") and not hasattr(of, "__html__")
        assert "__class__" in dir(of)
    for of in (STREAM, KEYED, WINDOWED, INPUTS, run.metrics().operators["counts"]):
        assert type(copy.copy(of)) is type(of)
    assert type(copy.deepcopy(run.metrics().operators["counts"])) is type(run.metrics().operators["counts"])
    assert copy.copy(STREAM).schema == STREAM.schema
    with pytest.raises(ImportError):
        from headrace.controllers import Treshold  # noqa: F401


def test_errors_survive_pickling():
    for error in (ArgumentError("a"), MissingAttributeError("b", name="b"), UnknownNameError("c")):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error)


def test_python_adds_no_second_suggestion():
    """Since 3.10 a traceback suggests names by itself, which would be said twice."""
    with pytest.raises(MissingAttributeError) as caught:
        _ = STREAM.to_panda
    shown = "".join(traceback.format_exception_only(caught.value)).casefold()
    assert shown.count("did you mean") == 1
    assert caught.value.obj is None  # it would keep a run that nothing else refers to


@pytest.mark.parametrize("name", [None, 3, "", b"threads", "\0", "ß" * 10_000])
def test_anything_may_be_asked_for(name):
    assert closest(name, ["threads", "rate"]) is None
