"""A pipeline as a run: beside other operators, changed by hand, measured, failing, stopped.

Method: real threads; results compared with `headrace.reference.ordering`, or with what plain Python makes of them.
"""

import threading

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import (
    DisorderError,
    EventTimeError,
    FunctionError,
    HeadraceError,
    NotSupportedError,
    OverflowInputError,
    ParameterError,
    RunFailedError,
    SchemaError,
    UnknownNameError,
)
from headrace.ordering import words
from headrace.ordering.section import OrderedSection
from headrace.plan.nodes import StreamType
from headrace.reference import ordering as reference
from headrace.reference.aggregates import aggregate
from headrace.reference.keys import column
from headrace.windows import Window
from headrace.workers import worker_kernel
from support.campaign import rarely
from support.pipelines import (
    SHAPES,
    gap,
    hour_over,
    is_large,
    last_hour,
    running,
    some_rows,
    spread,
    twice,
    whole,
)  # fmt: skip
from support.workloads import Steered, eventually

PAIR = {"key": "int64", "v": "int64"}


def rows_of(count, keys=5, seed=1):
    return some_rows(np.random.default_rng(seed), count, keys)


def pipeline(table, shape="figure 1"):
    return SHAPES[shape].on(hr.stream(table, event_time="ts"))


# -- beside other operators


def test_example_an_aggregate_follows_and_precedes():
    table = rows_of(3000)
    spread_rows = hr.stream(table, event_time="ts").ordered().filter(whole).flat_map(spread, emits=PAIR)
    counts = spread_rows.key_by("key").window(50).aggregate(n=hr.count(), v=hr.sum("v"))
    back = counts.ordered().stateful(total_of, state={"total": 0}, emits={"total": "int64"})
    first = reference.ordered([timed(table.to_pylist())], [reference.Filter(whole), reference.FlatMap(spread, PAIR)])
    windows = aggregate([timed(first)], Window.parse(50, 50, "ms"), column("key"), {"n": ("count", None), "v": ("sum", "v")})
    second = [(row.ts, {"key": row.key, **row.values}) for row in windows]
    expected = reference.ordered([second], [reference.Stateful(total_of, {"total": 0}, ["total"])])
    assert len(expected) > 100
    for options in (
        {"threads": 1},
        {"threads": 2, "max_threads": 3},
        {"threads": {"spread": 3, "total_of": 1}, "max_threads": 3, "batch": 1, "capacity": 4, "schedule": "lp"},
    ):
        assert back.to_arrow(**options).to_pylist() == expected, options


def timed(rows):
    """Rows as a source of the reference."""
    return [(row["ts"], row) for row in rows]


def total_of(state, t, emit):
    state.total += t.n + t.v
    emit(total=state.total)


def late_boundary(state, t, emit):
    emit(ts=t.ts - 10 * state.n, n=state.n)
    state.n += 1


def test_times_must_not_go_back_before_an_operator():
    back = hr.stream(rows_of(100), event_time="ts").ordered().stateful(late_boundary, state={"n": 0}, emits={"n": "int64"})
    assert back.to_arrow().num_rows == 100
    with pytest.raises(EventTimeError, match=r"late_boundary: emit\(ts=-?\d+\) after -?\d+: an operator follows"):
        back.key_by("n").window(10).aggregate(m=hr.count()).to_arrow()


@pytest.mark.spark
def test_example_from_spark_and_back(spark):
    table = rows_of(500).drop_columns(["tags"])
    frame = spark.createDataFrame(table)
    stream = SHAPES["figure 1"].on(hr.stream(frame, event_time="ts", sort=True))
    expected = SHAPES["figure 1"].expected([table])
    assert len(stream.to_spark(spark, threads=2).collect()) == len(expected)


def test_example_what_a_pipeline_says_of_itself(capsys):
    explained = pipeline(rows_of(5))
    query = explained.plan()
    (branch,) = query.branches["running"]
    query.output.spec.bind(StreamType(branch.schema, "ts", "ms"), debug=True)  # as a run with debug=True does
    explained.explain()
    assert capsys.readouterr().out.splitlines()[6:10] == [
        "gap: partitioned; one worker at a time in each of 7 buckets of key",
        "  reads ts, key, v",
        "  keeps seen: bool, last: int64, total: int64, 24 bytes a key",
        "  gives key: int64, v: int64, gap: int64",
    ]


# -- while it runs


def test_each_stage_is_an_operator_to_look_at():
    """Its figures are its own; its workers, and what changes them, are those of the pipeline."""
    table = rows_of(5_000)
    with pipeline(table).start(threads=2, max_threads=2) as run:
        run.wait()
    stages = run["running"].stages
    assert list(stages) == ["whole", "spread", "gap", "is_large", "running"]
    found = {name: stage.metrics() for name, stage in stages.items()}
    assert found["whole"].taken == 5_000
    for before, after in zip(found.values(), list(found.values())[1:], strict=False):
        assert round(before.taken * before.selectivity) == after.taken, f"what {before.name} gives, {after.name} takes"
    assert all(stage.backlog == stage.waiting == stage.at_work == 0 and stage.cost > 0 for stage in found.values())
    gap_stage = run["gap"]
    assert gap_stage.name == "gap" and gap_stage.operator == "running" and gap_stage.threads == 2
    assert gap_stage.metrics().values == found["gap"].values
    assert gap_stage.spans().columns.tolist() == ["thread", "state", "begin_s", "end_s"]
    assert "stage gap; of running" in repr(gap_stage) and "taken=" in repr(found["gap"])
    assert run["running"].metrics().results == run.metrics().tuples_out, "what has an operator's name is the operator"
    with pytest.raises(UnknownNameError, match="did you mean gap"):
        run["gapp"]
    with pytest.raises(AttributeError, match=r"the stage 'gap' does not measure 'costs'; did you mean \.cost\?"):
        _ = gap_stage.metrics().costs


def test_a_stage_of_two_operators_is_asked_for_by_its_operator():
    first = hr.stream(rows_of(200), event_time="ts").ordered().filter(whole).flat_map(spread, emits=PAIR)
    counts = first.key_by("key").window(50).aggregate(n=hr.count(), v=hr.sum("v"))
    both = counts.ordered().filter(anything, name="whole").stateful(total_of, state={"total": 0}, emits={"total": "int64"})
    with both.start() as run:
        run.wait()
    with pytest.raises(UnknownNameError, match=r"2 operators .*run\['spread'\]\.stages\['whole'\]"):
        run["whole"]
    assert run["spread"].stages["whole"].metrics().taken == 200
    (windows,) = set(run.operators) - {"spread", "total_of"}
    assert run[windows].stages == {}, "an operator without stages"


def anything(t):
    return t.n > 0


@pytest.mark.slow
def test_agree_changed_by_hand_while_it_runs():
    table = rows_of(30_000)
    source = Steered(table, [15_000])  # the others come when all has been changed
    with pipeline(source).start(threads=1, max_threads=4, rate=60_000) as run:
        source.let()
        for wish in ({"threads": 4}, {"schedule": "lp"}, {"batch": 1}, {"threads": 2, "schedule": "et", "batch": 100}):
            change = run.reconfigure(**wish)
            change.wait()
            assert change.outcome == "done"
            assert {name: change.after[name] for name in wish} == wish
        source.let_all()
        run.wait()
    assert run.to_arrow().to_pylist() == SHAPES["figure 1"].expected([table])
    metrics = run.metrics().operators["running"]
    assert metrics.balance is None or metrics.balance.faults == ()
    assert set(metrics.values["cost"]) == {"whole", "spread", "gap", "is_large", "running"}
    assert sum(metrics.values["backlog"].values()) == 0 and metrics.values["processing"].sum() == metrics.results
    assert metrics.values["selectivity"]["is_large"] <= 1


def test_planned_changes_are_recorded_with_their_rows():
    table = rows_of(2000)
    with pipeline(table).start(threads=1, max_threads=4, reconfigure=[(500, 3), (1000, {"schedule": "qst"})]) as run:
        run.wait()
    assert [(change.planned_at, change.after["threads"], change.after["schedule"]) for change in run.changes] == [
        (500, 3, "ct"), (1000, 3, "qst"),
    ]  # fmt: skip


def test_stop_answers_while_a_full_pipeline_waits():
    table = rows_of(200_000)
    run = pipeline(table).start(threads=2, rate=20_000, capacity=2)
    eventually(lambda: run.metrics().operators["running"].processed >= 100)
    run.stop()
    assert run.metrics().operators["running"].processed >= 100


def short(x):
    for i in range(1000):
        x = (x * 5 + i) % 1009
    return x


def long_call(x):
    """Takes a tenth of a millisecond, in which nothing looks for a stop: loops that end soon do not."""
    x = short(short(short(short(short(x)))))
    x = short(short(short(short(short(x)))))
    return short(short(short(short(short(x)))))


def slow_tuples(stream, kind):
    emits = {"v": "int64"}
    if kind == "stateless":
        return stream.ordered().flat_map(lambda t, emit: emit(v=long_call(t.x)), emits=emits)

    def slow_state(state, t, emit):
        state.n += long_call(t.x)
        emit(v=state.n)

    if kind == "stateful":
        return stream.ordered().stateful(slow_state, state={"n": 0}, emits=emits)
    return stream.ordered().partitioned(slow_state, by="key", state={"n": 0}, emits=emits)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stateless", "stateful", "hybrid", "partitioned", "shared"])
def test_a_stop_is_seen_between_two_tuples_of_a_batch(kind):
    source = Steered(pa.table({"ts": range(600), "key": [0] * 600, "x": [1] * 600}), [600])
    given = {"batch": 256} if kind.startswith("state") else {"batch": 256, "queues": kind}
    run = slow_tuples(hr.stream(source, event_time="ts"), kind).start(threads=1, max_threads=1, **given)
    (section,) = run._execution.sections.values()
    section.arrays.known[:, words.COST] = 1  # as if its tuples were cheap: a whole batch is claimed
    source.let()
    (private,) = section._private
    eventually(lambda: private[words.POSITION] > 0)
    worker_kernel.stop_workers(section.arrays)
    at_most = private[words.POSITION] + 1
    run.stop()
    assert private[words.POSITION] <= at_most, "the rest of a batch was run, or some of it"
    source.let_all()


def test_a_failure_counts_and_not_what_it_stops(monkeypatch):
    """A function that leaves its loop because a worker has failed is out of it first: its exception is not the reason."""

    def work(section, arguments):
        worker, c = arguments[0], section.arrays
        if worker == 0:
            worker_kernel.fail(c, 99, worker, 0, 0, 0, 0)
            (other,) = eventually(lambda: [one for one in threading.enumerate() if one.name == f"headrace-{section.name}-1"])
            other.join(60)
        else:
            eventually(lambda: worker_kernel.stopped(c))
            raise ValueError("left its loop")

    monkeypatch.setattr(OrderedSection, "work", work)
    query = hr.stream(rows_of(10), event_time="ts").ordered().map(lambda t, emit: emit(x=t.x), emits={"x": "int64"})
    with pytest.raises(RunFailedError, match="a worker failed with code 99"):
        query.to_arrow(threads=2)


# -- bad input


def fails_at(state, t, emit):
    state.n += 1
    emit(v=100 // (t.x - 4000))


def test_a_function_that_fails_names_tuple_stage_and_line():
    table = pa.table({"ts": list(range(5000)), "x": list(range(5000))})
    failing = hr.stream(table, event_time="ts").ordered().stateful(fails_at, state={"n": 0}, emits={"v": "int64"})
    with pytest.raises(FunctionError, match="fails_at: ZeroDivisionError") as caught:
        failing.to_arrow(threads=2)
    assert caught.value.tuple["x"] == 4000 and caught.value.line is not None
    assert pipeline(rows_of(10)).to_arrow().num_rows >= 0  # the engine is usable afterwards


def fails_late(state, t, emit):
    state.n += 1
    emit(n=100 // (t.x - 999_999))


@pytest.mark.slow
def test_a_function_that_fails_on_the_millionth_tuple():
    """What came before it and had left the pipeline is there, nothing else, and the same query runs again."""
    table = pa.table({"ts": np.arange(1_001_000), "x": np.arange(1_001_000)})

    def on(rows):
        return hr.stream(rows, event_time="ts").ordered().stateful(fails_late, state={"n": 0}, emits={"n": "int64"})

    came = []
    with pytest.raises(FunctionError, match="fails_late: ZeroDivisionError") as caught:
        on(table).start(threads=2, sink=came.append).wait()
    assert caught.value.tuple["x"] == 999_999
    found = pa.Table.from_batches(came)
    expected = 100 // (np.arange(found.num_rows) - 999_999)
    assert found.num_rows < 999_999 and np.array_equal(found["n"].to_numpy(), expected)
    assert on(table.slice(0, 1_000)).to_arrow(threads=2).num_rows == 1_000


def once_or_twice(t, emit):
    emit(v=t.x)
    if t.x == 40:
        emit(v=-t.x)


def test_a_map_that_emits_twice_says_so():
    table = pa.table({"ts": list(range(100)), "x": list(range(100))})
    with pytest.raises(FunctionError, match=r"once_or_twice: map\(\) takes .*: flat_map\(\) takes any number \(") as caught:
        hr.stream(table, event_time="ts").ordered().map(once_or_twice, emits={"v": "int64"}).to_arrow()
    assert caught.value.tuple["x"] == 40


def test_wishes_that_cannot_be_change_nothing():
    """Each is refused with what there is; the run goes on as it was."""
    table = rows_of(3_000)
    source = Steered(table, [1_000])
    with pipeline(source).start(threads=2, max_threads=3) as run:
        source.let()
        eventually(lambda: run.metrics().tuples_in > 0)
        for wish, said in (
            ({"threads": 9}, "threads=9: give a whole number from 1 to max_threads=3"),
            ({"schedule": "fifo"}, "schedule='fifo'.*'qst', 'lp', 'et', 'ct'"),
            ({"schedule": {"nope": 1}}, "nope.*whole, spread, gap, is_large, running"),
            ({"schedule": longest}, "schedule="),
            ({"queues": "shared"}, r"queues=.*no such control; .*threads, schedule, batch"),
            ({"batch": 0}, "batch=0: give a whole number from 1 to 256"),
            ({"mapping": [1]}, "mapping.*no worker owns keys"),
            ({}, "give threads=, schedule="),
        ):
            with pytest.raises((HeadraceError, TypeError), match=said):
                run.reconfigure(**wish)
        source.let_all()
        run.wait()
    assert run.to_arrow().to_pylist() == SHAPES["figure 1"].expected([table])
    assert [change for change in run.changes if change.outcome != "failed"] == []


def longest(stage):
    return stage.backlog


def undecided(stage):
    return 1 // (stage.position - 1)


def unwilling(stage):
    raise ValueError("no stage is urgent")


def test_a_schedule_that_fails_names_the_stage():
    with pytest.raises(FunctionError, match="schedule, of stage spread: ZeroDivisionError") as caught:
        pipeline(rows_of(1000)).to_arrow(threads=2, schedule=undecided)
    assert caught.value.tuple["position"] == 1
    with pytest.raises(FunctionError, match="nope"):
        pipeline(rows_of(10)).to_arrow(schedule=lambda stage: stage.nope)
    with pytest.raises(FunctionError, match=r'must return a number, how urgent a stage is \(function "unwilling"'):
        pipeline(rows_of(10)).to_arrow(schedule=unwilling)


def hoards(state, t, emit):
    state.all.append(t.x)
    emit(n=len(state.all))


def test_states_are_limited():
    table = pa.table({"ts": list(range(50_000)), "x": list(range(50_000))})
    hoard = hr.stream(table, event_time="ts").ordered().stateful(
        hoards, state={"all": hr.list_of("int64")}, emits={"n": "int64"}
    )
    with pytest.raises(OverflowInputError, match="max_state=65536 bytes; pass a larger max_state="):
        hoard.to_arrow(max_state=1 << 16)


def remembers(state, t, emit):
    state.all.append(t.x)
    state.n += 1
    emit(n=state.n)


REMEMBERS = {"by": "x", "state": {"all": hr.list_of("int64"), "n": "int64"}, "emits": {"n": "int64"}, "buckets": 4}


@pytest.mark.parametrize("runs", [({"forget": 100},), *rarely((({}, {"forget": 100}),))], ids=len)
def test_forgotten_keys_give_back_what_they_held(runs):
    """A few bytes for each that there was are left; the campaign compares it with what keys hold that are not forgotten."""
    table = pa.table({"ts": list(range(60_000)), "x": list(range(60_000))})
    stream = hr.stream(table, event_time="ts").ordered()
    used = []
    for given in runs:
        with stream.partitioned(remembers, **REMEMBERS, **given).start(threads=2) as run:
            run.wait()
        assert set(run.to_arrow()["n"].to_pylist()) == {1}
        used.append(run.metrics().operators["remembers"].state_bytes)
    assert used[-1] < 5 * table.num_rows
    assert len(used) == 1 or used[1] < used[0] / 20


def test_keys_are_forgotten_in_time_that_rises():
    table = pa.table({"ts": [5, 6, 7], "x": [1, 1, 1], "n": [1, 2, 3]})
    back = hr.stream(table, event_time="ts").ordered().stateful(late_boundary, state={"n": 0}, emits={"n": "int64"})
    stream = back.partitioned(running_number, by="n", state={"m": 0}, emits={"m": "int64"}, forget=3)
    with pytest.raises(DisorderError, match="running_number: event time -4 after 5: a stage with forget= needs times"):
        stream.to_arrow()


def running_number(state, t, emit):
    state.m += 1
    emit(m=state.m)


def test_a_key_that_is_null():
    table = pa.table({"ts": [1, 2], "key": pa.array([1, None], pa.int64()), "v": [1, 2]})
    stream = hr.stream(table, event_time="ts").ordered().partitioned(
        gap, by="key", buckets=7, **{name: SHAPES["figure 1"].stages[2][2][name] for name in ("state", "emits")}
    )
    with pytest.raises(SchemaError, match="gap: 'key' is null in the tuple at event time 2, and it is the key: filter"):
        stream.to_arrow()


SUM = {"sum": "int64", "hour": "int64", "open": "bool"}
TIMED = hr.stream(pa.table({"at": [1], "x": [1]}), event_time="at").ordered()


def without_time(state, emit):
    emit(sum=state.sum)


def with_column(t, emit):
    emit(at=t.at, sum=t.x)


STREAM = hr.stream(pa.table({"ts": [1], "x": [1.5], "v": [1], "key": [1]}), event_time="ts").ordered()


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: STREAM.filter(hr.col("v") > 1), ParameterError, "use expressions before ordered"),
        (lambda: STREAM.flat_map(twice), ParameterError, "name what it emits"),
        (lambda: STREAM.map(3, emits=PAIR), ParameterError, r"give a function \(t, emit\) that calls emit\(column="),
        (lambda: STREAM.filter("v > 1"), ParameterError, r"give a function of a tuple, as in filter\(lambda t"),
        (lambda: STREAM.flat_map(twice, emits={"l": hr.list_of("int64")}), NotSupportedError, "single values"),
        (lambda: STREAM.flat_map(twice, emits={"ts": "int64"}), ParameterError, "ts"),
        (lambda: STREAM.partitioned(gap, by="nope", state={}, emits=PAIR), SchemaError, "nope"),
        (lambda: STREAM.partitioned(gap, by="x", state={}, emits=PAIR), SchemaError, "a key is an integer"),
        (lambda: STREAM.partitioned(gap, by="key", state={}, emits=PAIR, buckets=0), ParameterError, "buckets=0"),
        (lambda: STREAM.stateful(running, state={}, emits=PAIR, end=3), ParameterError, "end=3"),
        (
            lambda: TIMED.stateful(hour_over, state=SUM, emits={"sum": "int64"}, end=without_time),
            FunctionError,
            r"ts is missing; .* its column 'at', is given as ts, as in emit\(ts=..., sum=...\): when the input .*without_time",
        ),
        (
            lambda: TIMED.flat_map(with_column, emits={"sum": "int64"}),
            FunctionError,
            r"emit\(at=...\): the event time of an output, its column 'at', is given as ts, .*\"with_column\"",
        ),
        (lambda: STREAM.filter(is_large), FunctionError, "gap"),
        (lambda: STREAM.filter(is_v, end=last_hour), ParameterError, r"filter\(end=.*the arguments are condition=, name="),
        (lambda: STREAM.flat_map(twice, emits=PAIR, end=last_hour), ParameterError, r"flat_map\(end="),
        (lambda: STREAM.partitioned(gap, by="key", state={}, emits=PAIR, bucket=3), ParameterError, "did you mean buckets=?"),
        (lambda: STREAM.partitioned(gap, by=["key"], state={}, emits=PAIR), ParameterError, r"by=\['key'\]\): give the name"),
        (lambda: STREAM.stateful(hour_over, state={"sum": 0}, emits={"sum": "int64"}, end=last_hour), FunctionError, "hour"),
        (lambda: STREAM.partitioned(gap, by="key", state={}, emits=PAIR, forget="soon"), HeadraceError, "forget"),
    ],
)
def test_stages_that_cannot_be(call, error, said):
    with pytest.raises(error, match=said):
        call()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"schedule": "fifo"}, "schedule='fifo'.*qst"),
        ({"schedule": {"nope": 1}}, "nope"),
        ({"schedule": {}}, "schedule={}: name stages"),
        ({"schedule": {"is_v": 9}, "max_threads": 2}, "schedule=.*whole number from 1 to 2"),
        ({"queues": "one"}, "queues='one'"),
        ({"reorder": "none"}, "reorder='none'"),
        ({"batch": 0}, "batch=0"),
        ({"batch": 257}, "batch=257"),
        ({"capacity": 3}, "capacity=3: give a power of two, such as 4"),
        ({"threads": 5, "max_threads": 4}, "threads=5"),
        (
            {"threads": {"small": 2}, "max_threads": 2},
            "'small' is a stage of 'is_v', and not an operator: threads= is how many .* schedule={'small': 2} has some",
        ),
        ({"threads": {"smal": 2}, "max_threads": 2}, "threads={'smal': ...}: the operators are is_v"),
        ({"reconfigure": [(1, {"queues": "shared"})]}, "queues"),
        ({"mode": "sn"}, "mode='sn': workers of a pipeline share"),
        ({"gate": "log"}, "gate='log': a pipeline has one reader"),
    ],
)
def test_options_that_cannot_be(options, said):
    with pytest.raises((ParameterError, TypeError), match=said):
        STREAM.filter(small).filter(is_v).to_arrow(**options)


def small(t):
    return t.v < 10


def is_v(t):
    return t.v == 1
