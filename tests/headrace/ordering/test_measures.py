"""What a pipeline measures on real runs, a hot key beside others, and controllers on a pipeline.

Method: the input is such that the measure must show something at some moment. Where that depends on when workers run, the run
has more rows than it processes until then, and is stopped once the measure has shown it.
"""

import time
import urllib.request
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.cores import usable_cores
from headrace.metrics.latency import LatencyHistogram
from headrace.metrics.measures import NEEDED
from headrace.metrics.snapshot import OperatorMetrics
from headrace.ordering import measuring, words
from headrace.ordering.measures import BUSIEST_SHARE, BUSIEST_STAGE, STAGE_TIME
from headrace.prometheus import serve
from headrace.report import Record
from support.pipelines import SHAPES, some_rows
from support.workloads import HANG_S, eventually


def worked(x):
    """Takes some ten microseconds."""
    for i in range(10_000):
        x = (x * 5 + i) % 1009
    return x


def costly(t, emit):
    emit(v=worked(t.x))


def costly_total(state, t, emit):
    state.total += worked(t.x)
    emit(v=state.total)


def seldom_slow(t, emit):
    x = t.x
    for _ in range(100 if x == 0 else 1):
        x = worked(x)
    emit(v=x)


def table_of(rows, keys=1, slow_each=10):
    return pa.table({"ts": range(rows), "key": [i % keys for i in range(rows)], "x": [i % slow_each for i in range(rows)]})


def of_one_key(table):
    return hr.stream(table, event_time="ts").ordered().partitioned(
        costly_total, by="key", state={"total": 0}, emits={"v": "int64"}
    )  # fmt: skip


def test_delegated_tuples_are_counted():
    """Workers that find the bucket of the only key taken leave its tuples to the one that has it."""
    with of_one_key(table_of(500_000)).start(threads=3, max_threads=3, queues="hybrid", batch=1, sink=hr.discard()) as run:
        stage = run["costly_total"].stages["costly_total"]
        eventually(lambda: stage.metrics().delegated > 0)
        run.stop()


def test_the_books_of_a_finished_run_wait_for_the_worker_that_passed_on_its_end(monkeypatch):
    """The results are out, and the run is over, before that worker says what has left its stage: here, when it is awaited."""
    with of_one_key(table_of(10)).start() as run:
        run.wait()
        assert run.metrics().holds
        (section,) = run._execution.sections.values()
        passed = section.arrays.stage[words.NEXT]
        section.arrays.stage[words.NEXT] = 3
        awaited = []

        def sleep(seconds):
            awaited.append(seconds)
            section.arrays.stage[words.NEXT] = passed

        monkeypatch.setattr(measuring, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
        metrics = run.metrics()
        assert metrics.holds and len(awaited) == 1, str(metrics.operators["costly_total"].balance)


@pytest.mark.parametrize("queues", ["partitioned", "shared"])
def test_nothing_is_delegated_without_a_master_queue(queues):
    with of_one_key(table_of(2_000)).start(threads=3, max_threads=3, queues=queues, batch=1) as run:
        run.wait()
        assert run["costly_total"].stages["costly_total"].metrics().delegated == 0


def test_a_worker_whose_stage_has_nothing_takes_another_and_that_is_counted():
    """The only worker is allotted to the last stage, so it can do no other stage's work but as a fallback."""
    table = some_rows(np.random.default_rng(2), 2_000, 5)
    shape = SHAPES["figure 1"]
    with shape.on(hr.stream(table, event_time="ts")).start(threads=1, max_threads=1, schedule={"running": 1}, batch=16) as run:
        run.wait()
    assert run.to_arrow().to_pylist() == shape.expected([table])
    metrics = run["running"].metrics()
    assert metrics.fallbacks >= 4, "once at least for each of the other stages"
    assert metrics.decisions >= metrics.fallbacks


def in_some_run(holds):
    """Whether it holds in one of several runs: in some, a thread is kept from its core at the moment that would show it."""
    return any(holds() for _ in range(20))


def test_processing_begins_at_the_first_stage_and_latency_at_the_gate():
    """Tuples come all at once and cost much, so that they wait in the gate for longer than they are processed."""
    stream = hr.stream(table_of(2_000), event_time="ts").ordered().flat_map(costly, emits={"v": "int64"})

    def most_wait_in_the_gate():
        with stream.start(threads=1, max_threads=1, capacity=2, batch=1) as run:
            run.wait()
        values = run["costly"].metrics().values
        processing, latency = LatencyHistogram(values["processing"]), LatencyHistogram(values["latency"])
        assert values["processing"].sum() == values["latency"].sum() == 2_000
        return processing.mean_ms < latency.mean_ms / 2

    assert in_some_run(most_wait_in_the_gate), "with 2 of 2,000 tuples in the pipeline at a time"


def test_outputs_wait_for_a_slow_tuple_before_them():
    stream = hr.stream(table_of(500_000), event_time="ts").ordered().flat_map(seldom_slow, emits={"v": "int64"})
    with stream.start(threads=3, max_threads=3, batch=1, sink=hr.discard()) as run:
        stage = run["seldom_slow"].stages["seldom_slow"]
        eventually(lambda: stage.metrics().waiting > 3)  # more than the workers have in hand
        eventually(lambda: stage.metrics().at_work > 0)
        eventually(lambda: stage.metrics().stage_time > 0)  # a visit is noted when it ends
        run.stop()


def test_time_of_a_stage_is_part_of_the_workers_time():
    """Where the last visit of a stage is over when the run is: the time of the workers ends there."""
    table = some_rows(np.random.default_rng(3), 5_000, 5)
    stream = SHAPES["figure 1"].on(hr.stream(table, event_time="ts"))

    def is_part():
        with stream.start(threads=2, max_threads=2) as run:
            run.wait()
        metrics = run["running"].metrics()
        assert set(metrics.values["stage_time"]) == {"whole", "spread", "gap", "is_large", "running"}
        return 0 < 1_000 * sum(metrics.values["stage_time"].values()) <= sum(metrics.busy_ns)

    assert in_some_run(is_part)


def light_again(t, emit):
    emit(v=t.v)


def test_the_busiest_stage_and_its_share_are_shown_everywhere():
    emits = {"v": "int64"}
    pipeline = hr.stream(table_of(3_000), event_time="ts").ordered()
    stream = pipeline.flat_map(costly, emits=emits).flat_map(light_again, emits=emits)
    with stream.start(threads=1, max_threads=1) as run:
        run.wait()
    name = light_again.__name__
    last = run.history.samples[-1].metrics.operators[name]  # a worker may note the time of its last visit after that
    spent = last.stage_time
    busiest = max(spent, key=lambda stage: spent[stage])  # which one depends on who was kept from its core
    assert (last.busiest_stage, last.busiest_share) == (busiest, spent[busiest] / sum(spent.values()))
    assert set(run.history.to_pandas()["busiest_stage"].dropna()) & set(spent)
    assert run.history.to_pandas()["busiest_share"].max() >= 0.5
    figures = Record("pipeline", "", run.history, 3_000).figures()
    assert figures["busiest stage"] == busiest and figures["busiest stage's share"] == f"{100 * last.busiest_share:.1f} %"
    with serve(run) as endpoint:

        def shows_all():
            now, page = run[name].metrics(), urllib.request.urlopen(endpoint.url, timeout=30).read().decode()
            stage = f'headrace_busiest_stage{{operator="{name}",value="{now.busiest_stage}"}} 1.0\n'
            return stage in page and f'headrace_busiest_share{{operator="{name}"}} {now.busiest_share}\n' in page

        eventually(shows_all)
        page = urllib.request.urlopen(endpoint.url, timeout=30).read().decode()
        assert "Share of the stages' worker time that the busiest stage takes." in page


def test_example_the_busiest_stage_of_an_interval_is_not_that_of_the_whole_run():
    """None, and no share, if nothing was done in it."""
    def at(**spent):
        return OperatorMetrics("p", 1, 1, [0], 1.0, None, (*NEEDED, STAGE_TIME), dict.fromkeys(
            ("added", "processed", "results"), 0) | {"stage_time": spent})  # fmt: skip

    then, now = at(a=400, b=100), at(a=500, b=500)
    assert (BUSIEST_STAGE.between(then, None), BUSIEST_SHARE.between(then, None)) == ("a", 0.8)
    assert (BUSIEST_STAGE.between(now, then), BUSIEST_SHARE.between(now, then)) == ("b", 0.8)
    assert (BUSIEST_STAGE.between(now, now), BUSIEST_SHARE.between(now, now)) == (None, 0.0)


@pytest.mark.parametrize("queues", ["auto", "hybrid", "partitioned", "shared"])
@pytest.mark.parametrize("capacity", [2, 64])
def test_agree_one_hot_key_beside_others(queues, capacity):
    table = some_rows(np.random.default_rng(4), 3_000, 50).drop_null()
    is_hot = np.random.default_rng(5).random(table.num_rows) < 0.9
    keys = np.where(is_hot, 7, table["key"].to_numpy())
    table = table.set_column(table.schema.get_field_index("key"), "key", pa.array(keys))
    stream = SHAPES["six stages"].on(hr.stream(table, event_time="ts"))
    found = stream.to_arrow(threads=4, max_threads=4, capacity=capacity, queues=queues)
    assert found.to_pylist() == SHAPES["six stages"].expected([table])


ONE_CORE = pytest.mark.skipif(usable_cores() < 2, reason="it adds no worker without a core for it")


@pytest.mark.parametrize(
    "controller", [hr.controllers.Schedule([(0, 2)]), pytest.param(hr.controllers.Threshold(), marks=ONE_CORE)],
    ids=lambda one: type(one).__name__,
)  # fmt: skip
def test_a_built_in_controller_steers_a_pipeline(controller):
    """One worker has too much to do: two are asked for, and they come."""
    stream = hr.stream(table_of(500_000), event_time="ts").ordered().flat_map(costly, emits={"v": "int64"})
    with stream.start(threads=1, max_threads=2, controller=controller, sink=hr.discard()) as run:
        eventually(lambda: run.changes)
        change = run.changes[0]
        assert change.wait(HANG_S).outcome == "done" and change.after["threads"] == 2
        asked = [decision for decision in run.decisions if decision.kind == "request"]
        assert asked[0].controller == type(controller).__name__
        eventually(lambda: sum(ns > 0 for ns in run["costly"].metrics().busy_ns) == 2)
        run.stop()


def test_a_controller_steers_a_pipeline():
    table = table_of(500_000)
    stream = hr.stream(table, event_time="ts").ordered().flat_map(costly, emits={"v": "int64"})
    with stream.start(threads=1, max_threads=3, rate=2_000, sink=hr.discard()) as run:
        run.control(lambda seen: hr.controllers.Request(threads=3, reason="more") if seen.threads == 1 else None, interval_s=0.02)
        eventually(lambda: any(decision.kind == "request" for decision in run.decisions))
        (change,) = run.changes
        assert change.wait(HANG_S).outcome == "done" and run.threads == 3
        assert (change.before["threads"], change.after["threads"]) == (1, 3)
        run.stop()
