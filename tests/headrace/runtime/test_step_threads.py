"""Stateless steps on threads of their own.

Property    results, late rows, books and errors are the same for any number of threads, whichever is done first.
Oracle      `headrace.reference`, and the run in which the reader applies the steps.
Not seen    what it brings.
"""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace import reference
from headrace.errors import FunctionError, KeyNullError, LateRowError, ParameterError
from headrace.ingress.readers import open_input
from headrace.runtime import step_threads
from headrace.runtime.step_threads import HANDOVER_NS, Job, StepCosts
from headrace.windows import Window

WAIT_S = 60
ROWS = 4000


def table(seed=1, rows=ROWS):
    rng = np.random.default_rng(seed)
    return pa.table({"ts": np.sort(rng.integers(0, 500, rows)), "k": rng.integers(0, 9, rows), "x": rng.integers(0, 4, rows)})


def parts(t, emit):
    for part in range(t.x):
        emit(part=part * t.k)


def query(sources, **options):
    given = hr.stream(sources, event_time="ts", batch_rows=97, **options)
    steps = given.filter(lambda t: t.k != 4).flat_map(parts, part="int64").filter(hr.col("part") < 14)
    return steps.key_by("k").window(20, 10).aggregate(n=hr.count(), sum=hr.sum("part"))


def expected(tables):
    sources = []
    for one in tables:
        rows = [(row.pop("ts"), row) for row in one.to_pylist()]
        rows = reference.filter_tuples(rows, lambda t: t["k"] != 4)
        rows = reference.flat_map_tuples(rows, lambda t: [t | {"part": part * t["k"]} for part in range(t["x"])])
        sources.append(reference.filter_tuples(rows, lambda t: t["part"] < 14))
    values = {"n": ("count", None), "sum": ("sum", "part")}
    found = reference.aggregate(sources, Window(20, 10), reference.column("k"), values)
    return [{"ts": row.ts, "k": row.key} | row.values for row in found]


@pytest.mark.slow
@pytest.mark.parametrize("sources", [1, 3, 11], ids="{} sources".format)
def test_oracle_any_number_of_threads_gives_the_reference(sources):
    """Of eleven sources, several share a thread that feeds them, and it waits for none of their steps."""
    tables = [table(seed, ROWS // sources) for seed in range(sources)]
    wanted = expected(tables)
    for count in (1, 2, 4):
        with query(tables).start(threads=2, step_threads=count) as run:
            assert run.wait(WAIT_S)
            assert run.to_arrow().to_pylist() == wanted
            metrics = run.metrics()
            assert metrics.operators["aggregate"].balance.holds, metrics.operators["aggregate"].balance
            assert metrics.tuples_in == sum(one.num_rows for one in tables)


def test_agree_the_batch_done_first_does_not_come_first(monkeypatch):
    """Of each two batches the first one is done only after the second: so two threads are at work, and order is kept."""
    jobs, done = [], [threading.Event() for _ in range(100)]
    made, plain = Job.__init__, Job.run

    def make(self, *arguments):
        made(self, *arguments)
        jobs.append(self)

    def run(self):
        number = jobs.index(self)
        if number % 2 == 0 and self.batch.num_rows == 97:
            assert done[number + 1].wait(WAIT_S)
        plain(self)
        done[number].set()

    wanted = expected([table()])
    monkeypatch.setattr(Job, "__init__", make)
    monkeypatch.setattr(Job, "run", run)
    assert query(table()).to_arrow(step_threads=2).to_pylist() == wanted
    assert len(jobs) == -(-ROWS // 97)


def test_agree_disorder_watermarks_and_late_rows():
    rows = table()
    order = np.argsort(np.arange(ROWS) + np.random.default_rng(3).integers(0, 300, ROWS), kind="stable")
    said = rows.take(pa.array(order)).append_column("said", pa.array([False] * ROWS))
    found = []
    for count in (1, 3):
        with query(said, lateness=3, late="side", watermarks="said").start(step_threads=count) as run:
            assert run.wait(WAIT_S)
            found.append((run.to_arrow(), run.late, run.metrics().set_aside))
    assert found[0] == found[1] and found[0][2] > 0


def test_example_a_watermark_stays_behind_the_rows_before_it():
    def given():
        yield pa.record_batch({"ts": [1, 4], "k": [1, 1]})
        yield hr.Watermark(10)
        yield pa.record_batch({"ts": [12], "k": [1]})

    counts = hr.stream(given(), event_time="ts").filter(lambda t: t.k > 0).key_by("k").window(10).aggregate(n=hr.count())
    assert counts.to_arrow(step_threads=2)["n"].to_pylist() == [2, 1]


def test_example_a_source_that_may_be_idle_applies_its_steps_itself(monkeypatch):
    monkeypatch.setattr(step_threads.StepThreads, "give", lambda self, job: pytest.fail("given away"))
    assert query(table(), idle_after=60).to_arrow(step_threads=2).to_pylist() == expected([table()])


@pytest.mark.parametrize("count", [1, 2, "auto"])
def test_example_errors_are_the_same(count):
    rows = pa.table({"ts": range(100), "k": [None if i == 77 else i for i in range(100)], "x": range(100)})
    given = hr.stream(rows, event_time="ts", batch_rows=10)

    def inverse(t, emit):
        emit(part=1 // (t.x - 55))

    with pytest.raises(FunctionError, match="55"):
        given.map(inverse, part="int64").key_by("x").window(10).aggregate(n=hr.count()).to_arrow(step_threads=count)
    even = given.filter(lambda t: t.x > 30)
    with pytest.raises(KeyNullError, match="row 77"):
        even.key_by("k").window(10).aggregate(n=hr.count()).to_arrow(step_threads=count)
    falling = iter([pa.record_batch({"ts": [5], "x": [1]}), hr.Watermark(9), pa.record_batch({"ts": [7], "x": [1]})])
    late = hr.stream(falling, event_time="ts").filter(lambda t: t.x > 0).key_by("x").window(10).aggregate(n=hr.count())
    with pytest.raises(LateRowError, match="row 1: 7 is before 9"):
        late.to_arrow(step_threads=count)


def test_example_a_function_that_does_not_return_ends_with_the_run():
    def endless(t, emit):
        i = 0
        while i >= 0:
            i = (i + 1) % 1000
        emit(part=i)

    seen = threading.Event()

    def given():
        yield pa.record_batch({"ts": [1], "k": [1]})
        seen.set()
        yield pa.record_batch({"ts": [2], "k": [1]})

    source = open_input(given(), schema=pa.schema({"ts": pa.int64(), "k": pa.int64()}))
    query = hr.stream(source, event_time="ts").map(endless, part="int64").key_by("k").window(10).aggregate(n=hr.count())
    run = query.start(step_threads=2)
    assert seen.wait(WAIT_S)
    run.stop()
    assert run.state == "stopped"


# -- as many as steps are worth


MS = 1_000_000


def costs_of(most, *batches):
    """Costs of batches, milliseconds of the rest and of the steps of each, and how many threads were worth it after each."""
    costs, threads = StepCosts(most), []
    for rest, steps in batches:
        costs.note_rest(round(rest * MS))
        costs.note_steps(round(steps * MS))
        threads.append(costs.threads())
    return threads


def test_example_what_steps_are_worth():
    assert costs_of(8, *[(1, 0.9)] * 5) == [1] * 5, "less than the rest"
    assert costs_of(8, *[(1, 1.1)] * 5) == [1, 1, 2, 2, 2]
    assert costs_of(8, *[(1, 4.5)] * 3) == [1, 1, 5]
    assert costs_of(4, *[(1, 100)] * 3) == [1, 1, 4], "there are no more"
    assert costs_of(1, *[(1, 100)] * 5) == [1] * 5
    assert costs_of(8, *[(0, 2 * HANDOVER_NS / MS)] * 3) == [1, 1, 8], "nothing else is done"
    assert costs_of(8, *[(0.001, HANDOVER_NS / MS / 2)] * 5) == [1] * 5, "not worth handing over"


def test_example_steps_that_become_cheap():
    """They stay with other threads while they cost half of the rest: a cost near the border does not go to and fro."""
    threads = costs_of(8, *[(1, 3)] * 4, *[(1, 0.6)] * 20)
    assert threads[3] == 3 and threads[-1] == 2
    threads = costs_of(8, *[(1, 3)] * 4, *[(1, 0.3)] * 20)
    assert threads[-1] == 1


@pytest.mark.parametrize("sources", [1, 3, 11], ids="{} sources".format)
def test_oracle_whatever_is_decided(monkeypatch, sources):
    """Between any two batches the steps may go to others, come back, and go to more."""
    turns = iter([1, 1, 2, 3, 1, 1, 2, 1] * 10_000)
    monkeypatch.setattr(StepCosts, "threads", lambda self: next(turns))
    monkeypatch.setattr(step_threads, "usable_cores", lambda: 3)
    tables = [table(seed, ROWS // sources) for seed in range(sources)]
    with query(tables).start(threads=2, step_threads="auto") as run:
        assert run.wait(WAIT_S)
        assert run.to_arrow().to_pylist() == expected(tables)
        assert run.metrics().operators["aggregate"].balance.holds
        assert run.step_threads == 3


def heavy(t, emit):
    total = 0
    for i in range(20_000):
        total = (total * 31 + i) % 1_000_003
    emit(part=total)


def test_example_heavy_steps_get_threads_and_light_ones_none(monkeypatch):
    monkeypatch.setattr(step_threads, "usable_cores", lambda: 3)
    rows = table()
    light = hr.stream(rows, event_time="ts", batch_rows=97).filter(hr.col("x") > 0).key_by("k").window(20).aggregate(n=hr.count())
    monkeypatch.setattr(step_threads, "HANDOVER_NS", 10**12)  # whatever a clock says
    with light.start(step_threads="auto") as run:
        assert run.wait(WAIT_S) and run.step_threads == 0
    monkeypatch.setattr(step_threads, "HANDOVER_NS", 0)
    monkeypatch.setattr(step_threads.StepCosts, "note_rest", lambda self, ns: None)
    costly = hr.stream(rows, event_time="ts", batch_rows=97).map(heavy, part="int64").key_by("k").window(20, 10)
    costly = costly.aggregate(n=hr.count(), sum=hr.sum("part"))  # the operator of `query`
    with costly.start(step_threads="auto") as run:
        assert run.wait(WAIT_S) and run.step_threads == 3
        assert run.to_arrow().equals(costly.to_arrow())


@pytest.mark.parametrize("count", [0, 1.5, True, "many", 10**9])
def test_example_how_many_threads_there_may_be(count):
    with pytest.raises(ParameterError, match="step_threads="):
        query(table()).start(step_threads=count)


def test_example_steps_behind_an_operator_get_no_threads():
    """A number that is asked for is refused; what is left to a measurement is not, nor is one thread."""
    counted = hr.stream(table(), event_time="ts").key_by("k").window(20).aggregate(n=hr.count())
    behind = counted.filter(hr.col("n") > 1)
    again = behind.key_by("k").window(100).aggregate("again", n=hr.count())
    for one in (counted, behind, again):
        with pytest.raises(ParameterError, match=r"^step_threads=2: only steps .* between a source and the first operator"):
            one.start(step_threads=2)
    for count in (1, "auto"):
        with behind.start(step_threads=count) as run:
            assert run.wait(WAIT_S) and run.step_threads == 0
