"""The benchmark of ordered pipelines measures what it says.

Property    the hand-written loop, and the workers alone under any schedule, queues and reorder scheme, give the rows of
            the reference; a run whose content is another one is not timed; a decision is for the stage that the heuristic
            names
Oracle      `headrace.reference.ordering`, `headrace.reference.ordering_apps`
Cannot see  whether a figure is right: of the clock it is looked at only that it goes forward
"""

import itertools
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.apps.app import sources
from headrace.errors import HeadraceError, ParameterError
from headrace.ordering.arrays import QUEUE_KINDS, REORDERS
from headrace.ordering.configuration import SCHEDULES
from headrace.reference import ordering as reference
from headrace.workers.worker_kernel import BUSY_NS, PARKED_NS, SINCE, STATE
from headrace_bench import ordered, ordered_apps, parametric, staged
from headrace_bench.executed import hash_of
from headrace_bench.experiments import ordered as experiment
from headrace_bench.marked import Markers, marked
from headrace_bench.ordered_apps import INPUTS
from headrace_bench.parametric import KEYS, OPERATORS, Case, make_rows
from headrace_bench.pipelined import Pipelined, check_against
from support.workloads import HANG_S

ROWS = 3_000
APPS = [pytest.param(name, marks=pytest.mark.slow if name == "abandoned" else pytest.mark.campaign) for name in INPUTS]


def expected(table):
    """Results of the four stages by the reference."""
    stages = [OPERATORS[operator](function, **given) for operator, function, given in staged.STAGES]
    return reference.ordered(sources([table]), stages)


def case_of(table):
    """A case over these rows, at their cost."""
    case = staged.Case.__new__(staged.Case)
    case.table, case.rounds, case._stream = table, table["rounds"][0].as_py(), staged.pipeline_of(table)
    _, case.content = case.by_hand()
    return case


@pytest.mark.parametrize(("rounds", "sigma"), [(0, 0.0), (3, 0.0), (1, 0.0005)])
def test_oracle_the_hand_written_loop(rounds, sigma):
    table = staged.make_rows(ROWS, rounds, sigma)
    rows = expected(table)
    assert len(rows) > ROWS // 200
    columns = [np.array([row[name] for row in rows]) for name in ("ts", "seen", "total")]
    assert case_of(table).content == hash_of([np.arange(len(rows)), *columns], [])


def test_example_keys_around_a_middle():
    alike, near = (staged.make_rows(ROWS, 0, sigma)["key"].to_numpy() for sigma in (0.0, 0.05))
    assert alike.min() < 10 and alike.max() > staged.KEYS - 10
    assert abs(np.median(near) - parametric.MIDDLE * staged.KEYS) < 10 and near.std() < 100
    assert np.isin(staged.make_rows(ROWS, 0, 0.0005)["key"].to_numpy(), (298, 299, 300, 301)).all()


@pytest.mark.slow
def test_agree_all_that_is_timed():
    case = case_of(staged.make_rows(ROWS, 1))
    for schedule in SCHEDULES:
        for queues in QUEUE_KINDS:
            for reorder in REORDERS:
                for threads, batch in ((1, 64), (2, 1), (2, 64)):
                    run = case.run(threads=threads, batch=batch, schedule=schedule, queues=queues, reorder=reorder)
                    assert run.decisions > 0 and set(run.stage_ns) == {"mix", "by_key", "half", "total"}
                    assert 0 < run.serial_share < 1


@pytest.mark.slow
def test_example_the_only_slice_of_a_stateful_stage_counts():
    """By QST all rows wait at the last stage before it is taken, and the end of the stream behind them."""
    run = case_of(staged.make_rows(400, 0)).run(threads=1, schedule="qst")
    assert min(run.stage_ns.values()) > 0


def test_example_a_worker_that_wakes_up_late():
    """It is parked since before the start, and has not seen the end."""
    table = staged.make_rows(100, 0)
    run = Pipelined(staged.pipeline_of(table), table, threads=3)
    for worker, (state, since) in enumerate([(PARKED_NS, 10), (PARKED_NS, 30), (BUSY_NS, 40)]):
        run.section.arrays.meter[worker, [STATE, SINCE]] = state, since
    assert run._ends(20) == [30]


@pytest.mark.slow
def test_example_other_content_is_not_timed():
    case = case_of(staged.make_rows(ROWS, 0))
    case.run(threads=2)
    case.content = "another"
    with pytest.raises(AssertionError, match="not what the hand-written loop made"):
        case.run(threads=2)


@pytest.mark.logic
def test_example_a_function_that_fails_is_named():
    """A worker alone says what a run says: the stage, and the row."""
    stream = hr.stream(pa.table({"ts": [1, 2, 3], "v": [1, 1 << 62, 1]}), event_time="ts").ordered()
    stream = stream.map(lambda t, emit: emit(v=t.v * 4), emits={"v": "int64"})
    with pytest.raises(HeadraceError, match=r"int64"):
        Pipelined(stream, pa.table({"ts": [1, 2, 3], "v": [1, 1 << 62, 1]})).run()


@pytest.mark.slow
def test_example_more_results_than_there_is_room_for():
    table = pa.table({"ts": np.arange(70_000)})
    stream = hr.stream(table, event_time="ts").ordered().filter(lambda t: t.ts >= 0)
    with pytest.raises(ParameterError, match="more than 65536 results"):
        Pipelined(stream, table).run()
    assert len(Pipelined(stream, table, results=70_000).run().columns[0]) == 70_000


@pytest.mark.slow
@pytest.mark.parametrize("is_timed", [False, True])
def test_example_decisions(is_timed):
    """All stages have as much before them, and the later the dearer; none has worked in this window."""
    found = {schedule: ordered.decision_ns(schedule, 50, is_timed) for schedule in SCHEDULES}
    assert {schedule: stage for schedule, (_, stage) in found.items()} == {"qst": 0, "lp": 3, "et": 3, "ct": 0}
    assert all(ns > 0 for ns, _ in found.values())


@pytest.mark.parametrize("name", APPS)
def test_oracle_applications(name):
    case = ordered_apps.Case(name, 20_000, 20_000)  # compares with the reference
    for schedule in SCHEDULES:
        for threads in (1, 2):
            run = case.run(threads, schedule)
            assert len(run.columns[0]) > 0
            assert (run.serial_share > 0) == ("SF" in case._app.stages.split())
    rows = case._app.reference(sources([case.table]), *(each.to_pylist() for each in case._right), unit="us")
    rows[-1]["ts"] += 1
    case._app = replace(case._app, reference=lambda *tables, unit: rows)
    with pytest.raises(AssertionError, match="ts is not what the reference has"):
        case.check(case.table)
    case.content = "another"
    with pytest.raises(AssertionError, match="not what one worker made"):
        case.run(2, "lp")


@pytest.mark.slow
def test_example_a_run_has_as_many_rows_as_take_its_time():
    """A trial says how many a second; where that is too many, there are as many as may be."""
    case = ordered_apps.Case("abandoned", 20_000, 0)
    case.lengthen(1e-9, 60_000)
    assert case.table.num_rows == 20_000, "a trial takes longer"
    few = case.run(2)
    case.lengthen(HANG_S, 60_000)
    many = case.run(2)
    assert many.rows == case.table.num_rows == 60_000
    assert len(many.columns[0]) > len(few.columns[0])


@pytest.mark.parametrize(("share", "speedup", "goal"), [(0.0, 2.0, 1.8), (0.2, 5 / 3, 1.6), (0.25, 1.6, 1.44), (1.0, 1.0, 0.9)])
def test_example_what_amdahl_allows(share, speedup, goal):
    assert ordered_apps.allowed(share) == pytest.approx(speedup)
    assert ordered_apps.goal_of(share) == pytest.approx(goal)


@pytest.mark.slow
def test_oracle_parametric_operators():
    """Any cost, selectivity and partitioning; all of it is looked at from the 20th to the 80th percentile."""
    shape = experiment.TWO
    shape.check(selectivity=2.5)
    table = make_rows(900, 3, selectivity=0.7, sigma=0.2)
    rows = shape.expected(table)
    assert 0 < len(rows) < 900
    case = Case(shape, table)
    for queues in QUEUE_KINDS:
        for given in ({}, {"buckets": 2}, {"ranges": experiment.ranges_of(100)}):
            run = case.run(given, threads=2, queues=queues, batch=1)
            check_against(rows, shape.over(table).schema, run.columns, "a run")
            assert run.steady_per_second > 0 and run.samples[-1][1] == 900
    many = case.run({"buckets": experiment.PARTS}, threads=1).bucket_tuples
    for count in (2, 16):
        few = case.run({"buckets": count}, threads=2, queues="partitioned").bucket_tuples
        (of_many,), (of_few,) = many.values(), few.values()
        assert of_few.sum() > 0 and np.array_equal(of_many.reshape(count, -1).sum(axis=1), of_few)
        assert experiment.largest_part(of_many, count) == of_few.max() / of_few.sum()
    case.content = "another"
    with pytest.raises(AssertionError, match="not what came of the first run"):
        case.run(threads=1)
    found = marked(shape.over(table), table.num_rows, threads=2)
    assert found.results == len(rows) and min(found.per_second, found.mean_ms) > 0 and found.p99_ms >= found.p50_ms > 0
    rows[5]["x1"] += 1
    with pytest.raises(AssertionError, match="x1 is not what the reference has"):
        check_against(rows, shape.over(table).schema, run.columns, "a run")


def test_example_a_product_is_timed_without_what_else_a_tuple_costs(monkeypatch):
    """A tuple takes 800 ns beside its products, 8 ns each; other work makes some runs slower."""
    slower = itertools.cycle([1.5, 1.0, 3.0])

    class Timed:
        def __init__(self, stream, table, threads):
            self.each_ns = next(slower) * (800 + 8 * table["rounds"][0].as_py())

        def run(self):
            return SimpleNamespace(stage_ns={"multiply_by_key": self.each_ns * parametric.CHECKED})

    monkeypatch.setattr(parametric, "Pipelined", Timed)
    parametric.product_ns.cache_clear()
    assert parametric.product_ns(experiment.KEYED) == pytest.approx(8.0)
    assert parametric.rounds_of(1_000, experiment.KEYED) == 125
    parametric.product_ns.cache_clear()


def test_example_a_rate_between_the_markers():
    """Ten rows a microsecond while it runs; a slow start and a slow end are no part of it."""
    run = Pipelined.__new__(Pipelined)
    run.rows, run.seconds = 100, 1.0
    run.samples = [(0, 0), (90_000, 10), *((100_000 + 100 * passed, passed) for passed in range(15, 90, 5)), (500_000, 100)]
    assert run.steady_per_second == pytest.approx(10e6)
    run.samples = run.samples[:3]
    assert run.steady_per_second == 100.0, "too few looks: the whole run counts"


@pytest.mark.parametrize("count", [1, 2, 16, 100])
def test_oracle_the_largest_range(count):
    keys = make_rows(2_000, 0, sigma=0.1)["key"].to_numpy()
    begins = [*experiment.ranges_of(count), KEYS]
    ranges = [next(i for i, end in enumerate(begins) if key < end) for key in keys.tolist()]
    assert experiment.largest_share(keys, count) == max(ranges.count(i) for i in range(count)) / 2_000


class Near:
    """Stands in for the machine and for all runs on it: notes of how many threads they are, and when near cores are awaited."""

    table = make_rows(60, 1)
    name, is_timed = "some", True

    def __init__(self):
        self.seen = []

    def patience_for(self, repetitions):
        return SimpleNamespace(await_near=lambda threads=2: self.seen.append(("near", threads)) or 25.0)

    def run(self, threads, *schedule, **options):
        self.seen.append(("run", threads))
        return SimpleNamespace(
            steady_per_second=1e6, stage_ns={"a": 1, "b": 2}, rows=60, busy_ns=10, decisions=3, serial_share=0.0,
            bucket_tuples={"b": np.ones(experiment.PARTS)},
        )  # fmt: skip

    def marked(self, stream, rows, threads, **options):
        self.seen.append(("run", threads))
        return Markers(1e6, 1.0, 1.0, 2.0, 10)

    def rows_of(self, rows):
        return self.table

    def stream_of(self, table, **given):
        return None

    def unawaited(self):
        """Runs of several threads for which nobody waited."""
        runs = [pair for pair in itertools.pairwise([("near", None), *self.seen]) if pair[1][0] == "run" and pair[1][1] > 1]
        assert runs, "some runs are of several threads"
        return [(before, run) for before, run in runs if before != ("near", run[1])]


FIGURES = {
    "Fig. 8a": lambda of, one: experiment._schedules(of, one),
    "Figs 11 and 14": lambda of, one: experiment._schemes(of, one, defaultdict(dict)),
    "Fig. 9": lambda of, one: experiment.load_imbalance(of),
    "Fig. 10": lambda of, one: experiment.latency_over_cost(of),
    "Figs 12 and 13": lambda of, one: experiment.light_operators(of),
    "reorder schemes": lambda of, one: experiment.reordering(of),
    "sizes": lambda of, one: experiment.sizes(of),
    "applications": lambda of, one: ordered_apps._throughput(one.case, ordered_apps.Sizes.of(full=False, tiny=True)),
    "latencies": lambda of, one: ordered_apps._latency(one.case, ordered_apps.Sizes.of(full=False, tiny=True), []),
    "decisions": lambda of, one: ordered._decisions(of.sizes),
}


@pytest.mark.parametrize("figure", FIGURES)
def test_runs_of_several_threads_wait_for_near_cores(figure, monkeypatch):
    """Each of them, whatever is measured: cores that are far in one of two runs would be taken for a difference between these."""
    near = Near()
    for module in (experiment, ordered, ordered_apps):
        monkeypatch.setattr(module, "patience_for", near.patience_for)
    for module in (experiment, ordered_apps):
        monkeypatch.setattr(module, "marked", near.marked)
    monkeypatch.setattr(ordered, "decision_ns", lambda *_: (40.0, 0))
    rates = {(schedule, threads): threads * 1e6 for schedule in SCHEDULES for threads in (1, 2)}
    waits = dict.fromkeys(rates, Markers(1e6, 1.0, 1.0, 2.0, 10))
    of = experiment._Experiment(full=False, tiny=True)
    of.most_threads, of.repetitions, of.case = 4, 2, lambda *_, **__: near
    of.sizes = SimpleNamespace(decisions=1, repetitions=2, case=lambda _: near)
    FIGURES[figure](of, ordered_apps.Measured(near, 0.0, rates, waits, []))
    assert near.unawaited() == []


def test_example_a_prediction_never_beats_the_serial_stage():
    capacity = experiment.model_of(1e6, 2e6, serial_share=0.25)
    assert capacity(1) == pytest.approx(1e6) and capacity(10**9) == pytest.approx(4e6, rel=1e-6)
    assert experiment.model_of(1e6, 0.8e6)(16) == pytest.approx(1e6), "two threads that are slower than one promise nothing"


def test_example_every_schedule_is_predicted_from_its_own_rates():
    """Two threads of lp are no faster than one; those of ct are twice as fast, up to what a serial stage of a tenth allows."""
    rates = {("qst", 1): 1e6, ("qst", 2): 1.5e6, ("lp", 1): 2e6, ("lp", 2): 2e6, ("et", 1): 1e6, ("et", 2): 2e6}
    rates |= {("ct", 1): 1e6, ("ct", 2): 2e6}
    waits = {(schedule, threads): Markers(1e6, 1.0, 1.0, 2.0, 10) for schedule in SCHEDULES for threads in (1, 2)}
    of = experiment._Experiment(full=False, tiny=True)
    experiment._schedules(of, ordered_apps.Measured(SimpleNamespace(name="some"), 0.1, rates, waits, []))
    found = {row.case.removeprefix("Fig. 8a, some, "): row for row in of.rows}
    far = {schedule: found[f"{schedule}, 16 threads, predicted"] for schedule in SCHEDULES}
    assert {schedule: row.value for schedule, row in far.items()} == pytest.approx({
        schedule: experiment.model_of(rates[schedule, 1], rates[schedule, 2], 0.1)(16) / 1e6 for schedule in SCHEDULES
    })  # fmt: skip
    assert far["lp"].value == pytest.approx(2.0) and 0 < far["qst"].value < far["ct"].value < 16
    few = {schedule: found[f"{schedule}, break-even number of workers, predicted"] for schedule in SCHEDULES}
    assert few["lp"].value == 1 < few["qst"].value < few["ct"].value == few["et"].value
    assert all(row.note == experiment.PREDICTION for row in (*far.values(), *few.values()))
    assert [line.name for line in of.figures[0].lines if line.predicted] == list(SCHEDULES)
