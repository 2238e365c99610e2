"""Pipelines that could hang: they end by themselves, their backlog is bounded, and `stop` ends them at any moment.

Property    rings of two records, a hot key, a stage that drops all, one that makes a thousand of each tuple, a slow tuple,
            one that fails, all with more workers than cores: each run ends, no stage holds more than its ring, and `stop`
            returns. Of a stream that does not end, tuples of all keys go on to come out beside those of a hot one
Oracle      `headrace.reference.ordering`; that a run ends at all
Cannot see  how soon a stop is answered: no test looks at the clock
"""

import itertools
import threading
import time

import numba
import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.cores import usable_cores
from headrace.errors import FunctionError
from headrace.ordering import words
from headrace.ordering.measuring import stage_cell
from support.pipelines import SHAPES, nothing, some_rows, whole
from support.workloads import Steered, eventually

HANG_S = 120
WORKERS = usable_cores() + 2


def rows_of(count, keys=5, seed=1):
    return some_rows(np.random.default_rng(seed), count, keys)


def ends(call):
    """Call a function in a thread and return its exception, if it raises one; fail if it does not return."""
    raised = []

    def body():
        try:
            call()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join(HANG_S)
    assert not thread.is_alive()
    return raised[0] if raised else None


def stops(run):
    """Stop a run; fail if that does not return."""
    assert ends(run.stop) is None and run.state == "stopped"


QUEUES = pytest.mark.parametrize("queues", ["auto", "hybrid", "partitioned", "shared"])


@QUEUES
def test_one_hot_key_in_rings_of_two(queues):
    table = rows_of(4000, keys=1)
    chain = SHAPES["six stages"].on(hr.stream(table, event_time="ts"))
    found = chain.to_arrow(threads=WORKERS, max_threads=WORKERS, capacity=2, queues=queues, batch=1)
    assert found.to_pylist() == SHAPES["six stages"].expected([table])


def thousand(t, emit):
    for i in range(1000):
        emit(v=i + t.x)


def test_a_stage_that_multiplies_by_a_thousand_and_one_that_drops_everything():
    table = rows_of(300)
    many = hr.stream(table, event_time="ts").ordered().filter(whole).flat_map(thousand, emits={"v": "int64"})
    some = sum(row["x"] is not None and row["key"] is not None for row in table.to_pylist())
    assert many.to_arrow(threads=WORKERS, max_threads=WORKERS, capacity=2).num_rows == 1000 * some
    assert many.filter(nothing).to_arrow(threads=WORKERS, max_threads=WORKERS, capacity=2).num_rows == 0


STEPS = 20_000_000
"""Of a slow tuple: a tenth of a second and more, since each step needs the one before."""


def slow_one(t, emit):
    if t.x == 7:
        n = 0
        for i in range(STEPS):
            n = (3 * n + i) % 1_000_003
        emit(v=n)
    else:
        emit(v=t.x)


@numba.njit
def of_the_slow_one():
    n = 0
    for i in range(STEPS):
        n = (3 * n + i) % 1_000_003
    return n


@pytest.mark.parametrize("reorder", ["nonblocking", "lock"])
def test_one_slow_tuple(reorder):
    """Tuples after it are done before it, and leave after it."""
    table = pa.table({"ts": list(range(2000)), "x": [7 if i == 50 else i % 5 for i in range(2000)]})
    stream = hr.stream(table, event_time="ts").ordered().flat_map(slow_one, emits={"v": "int64"})
    found = stream.to_arrow(threads=WORKERS, max_threads=WORKERS, capacity=16, batch=1, reorder=reorder)
    assert found["v"].to_pylist() == [of_the_slow_one() if i == 50 else i % 5 for i in range(2000)]


# -- a hot key


COLD = 20


def hot_and_cold():
    """Nine of ten tuples have key 0, the tenth one of twenty others; without an end."""
    for first in itertools.count(step=200):
        at = np.arange(first, first + 200)
        yield pa.record_batch({"ts": at, "key": np.where(at % 10 == 0, 1 + at // 10 % COLD, 0)})


def numbered(state, t, emit):
    x = state.x
    for i in range(300 if t.key == 0 else 30):
        x = (x * 5 + i) % 1_009
    state.x = x
    state.n += 1
    emit(key=t.key, n=state.n)


def in_all(state, t, emit):
    state.all += 1
    emit(key=t.key, n=t.n, all=state.all)


@QUEUES
@pytest.mark.parametrize("threads", [1, 2, WORKERS])
def test_cold_keys_beside_a_hot_one_are_not_starved_nor_is_it(queues, threads):
    """On a stream that never ends: the bucket of the hot key is never empty, and all keys' tuples go on to come out."""
    stream = hr.stream(hot_and_cold(), event_time="ts").ordered().partitioned(
        numbered, by="key", buckets=8, state={"n": 0, "x": 0}, emits={"key": "int64", "n": "int64"}
    )
    stream = stream.stateful(in_all, state={"all": 0}, emits={"key": "int64", "n": "int64", "all": "int64"})
    came, of_key = [], np.zeros(1 + COLD, np.int64)

    def take(batch):
        came.append(batch)
        of_key[:] += np.bincount(batch["key"].to_numpy(), minlength=1 + COLD)

    options = {"threads": threads, "max_threads": threads, "batch": 16, "capacity": 64, "queues": queues}
    run = stream.start(**options, sink=take)
    eventually(lambda: of_key.min() > 50)
    before = of_key.copy()
    eventually(lambda: (of_key > 2 * before).all())
    stops(run)
    found = pa.Table.from_batches(came)
    at = np.arange(found.num_rows)
    assert np.array_equal(found["all"], 1 + at) and np.array_equal(found["key"], np.where(at % 10 == 0, 1 + at // 10 % COLD, 0))
    assert np.array_equal(found["n"], np.where(at % 10 == 0, 1 + at // 10 // COLD, at - at // 10))


# -- backlog and stop


def slow(stream):
    return stream.ordered().flat_map(slow_one, emits={"v": "int64"})


def dropped(stream):
    return stream.ordered().filter(whole).flat_map(thousand, emits={"v": "int64"}).filter(nothing)


@pytest.mark.parametrize(
    ("chain", "keys", "capacity"),
    [
        pytest.param(SHAPES["six stages"].on, 50, 2, id="rings of two"),
        pytest.param(SHAPES["six stages"].on, 1, 64, id="one hot key"),
        pytest.param(SHAPES["nothing left"].on, 50, 64, id="all dropped"),
        pytest.param(dropped, 50, 2, id="a thousand of each"),
        pytest.param(slow, 50, 4, id="slow tuples"),
    ],
)
def test_backlog_is_bounded_and_stop_answers(chain, keys, capacity):
    """The input has not ended: whatever waits, waits in rings of a known size, and the run can be stopped."""
    table = rows_of(20_000, keys=keys).drop_null()
    source = Steered(table, [table.num_rows])
    options = {"threads": WORKERS, "max_threads": WORKERS, "capacity": capacity, "sink": hr.discard()}
    run = chain(hr.stream(source, event_time="ts")).start(**options)
    (operator,) = (run[name] for name in run.operators)
    source.let()
    eventually(lambda: operator.metrics().processed > 0)
    (section,) = run._execution.sections.values()
    for _ in range(100):
        for stage in range(len(operator.stages)):
            tail = stage_cell(section, stage, words.TAIL)  # first: what leaves between the two looks makes it less, not more
            assert tail - stage_cell(section, stage, words.NEXT) <= capacity, stage
        time.sleep(0.001)
    stops(run)
    left = [thread.name for thread in threading.enumerate() if operator.name in thread.name]
    assert [name for name in left if not name.endswith("reader")] == [], "its threads have ended, except the source's reader"


ENDLESS = 2**62


def slow_state(state, t, emit):
    n = 0
    while n < t.steps:
        n += 1
        state.x = (state.x * 5 + n) % 1_009
    emit(x=state.x // t.by)


def one_key(steps, by=1):
    """A stage whose tuples have one key; the first one takes so many steps, and its result is divided by `by`."""
    rows = 200
    table = pa.table({"ts": range(rows), "key": [0] * rows, "steps": [steps] + [0] * (rows - 1), "by": [by] + [1] * (rows - 1)})
    return hr.stream(table, event_time="ts").ordered().partitioned(
        slow_state, by="key", buckets=4, state={"x": 0}, emits={"x": "int64"}
    )


@QUEUES
def test_stop_ends_a_slow_tuple_and_those_that_wait_for_it(queues):
    """The first tuple never ends: other workers leave theirs to its worker, or wait for their turn."""
    options = {"threads": WORKERS, "max_threads": WORKERS, "batch": 1, "capacity": 2, "queues": queues}
    run = one_key(ENDLESS).start(**options, sink=hr.discard())

    def is_full_and_at_work():
        figures = run["slow_state"].stages["slow_state"].metrics()
        return figures.backlog + figures.waiting == 2 and figures.at_work > 0

    eventually(is_full_and_at_work)
    time.sleep(0.05)  # to be in the loop most times
    assert is_full_and_at_work(), "nothing leaves the ring"
    stops(run)
    assert run.metrics().tuples_out == 0


@QUEUES
def test_a_slow_tuple_that_fails_ends_those_that_wait_for_it(queues):
    options = {"threads": WORKERS, "max_threads": WORKERS, "batch": 1, "capacity": 2, "queues": queues}
    error = ends(lambda: one_key(2_000_000, by=0).to_arrow(**options))
    assert isinstance(error, FunctionError) and "slow_state: ZeroDivisionError" in str(error)
    assert error.tuple["steps"] == 2_000_000
    assert one_key(2_000_000).to_arrow(**options).num_rows == 200
