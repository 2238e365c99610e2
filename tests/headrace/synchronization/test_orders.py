"""Outputs at once or in order, changes before rows of the merged input, and what is bounded while an input is silent.

Property    with ``order="none"`` outputs are those of one event after another as a multiset, and a silent input holds back
            only what may depend on it; a planned change waits until it is certain which row of the merged input comes
            next, and threads and plans change then; rows and results are kept up to a bound, whichever input is silent
Oracle      loops in plain Python; inputs are held back, so nothing here depends on the clock
Cannot see  interleavings (test_interleave.py), random programs (test_random_programs.py, test_runs.py)
"""

import threading

import pyarrow as pa
import pytest

import headrace as hr
from headrace.apps.keycounter import PARTS
from headrace.apps.keycounter import PROGRAM as keycounter
from headrace.errors import NotSupportedError, ParameterError
from headrace.synchronization import mailbox_kernel
from headrace.synchronization.mailbox_kernel import CAPACITY, MOST_RESULTS, SPAN
from headrace.synchronization.plans import implementation_tags
from headrace.synchronization.tags import part_of
from support import event_window
from support.workloads import eventually

HANG_S = 120
VALUES, TIMES = pa.schema({"ts": pa.int64(), "x": pa.int64()}), pa.schema({"ts": pa.int64()})


def add_and_tell(state, e, emit):
    state.sum += e.x
    if e.x % 5 == 0:
        emit(sum=e.x)


def window():
    return hr.program(**{**event_window.WINDOW, "update": {"value": add_and_tell, "barrier": event_window.close}})


def values(times, x=5):
    times = list(times)
    return pa.table({"ts": times, "x": [x] * len(times)}, VALUES)


def barriers(times):
    return pa.table({"ts": list(times)}, TIMES)


class Silent:
    """A table that comes when it is let."""

    def __init__(self, table):
        self.goes_on = threading.Event()
        self._table = table

    def _batches(self):
        assert self.goes_on.wait(HANG_S)
        yield from self._table.to_batches()

    def reader(self):
        return pa.RecordBatchReader.from_batches(self._table.schema, self._batches())


class Kept:
    """A sink that can be looked at while the run goes on."""

    def __init__(self):
        self.rows = []

    def __call__(self, batch):
        self.rows += batch.to_pylist()


def operator(run, name="program"):
    return run.metrics().operators[name]


def is_full(run, name="program", waiting=0):
    """Whether all that was taken is processed, but so many, and an input waits for room."""
    metrics = operator(run, name)
    return run._execution.sections[name].is_saturated() and metrics.processed == metrics.added - waiting


# -- order


@pytest.mark.parametrize("leaves", [1, 3])
def test_outputs_that_do_not_depend_on_a_silent_input_come_at_once(leaves):
    silent, sink = Silent(values([3, 9])), Kept()
    inputs = {"value": [values(range(1_000)), silent.reader()], "barrier": barriers([])}
    with window().start(inputs, threads=2, leaves=leaves, order="none", sink=sink) as run:
        eventually(lambda: len(sink.rows) == 1_000)
        silent.goes_on.set()
        assert run.wait(HANG_S)
    expected = [*range(1_000), 3, 9]
    assert sorted(row["ts"] for row in sink.rows) == sorted(expected)


def test_outputs_in_order_wait_for_a_silent_input():
    silent, sink = Silent(values([3, 9])), Kept()
    inputs = {"value": [values(range(1_000)), silent.reader()], "barrier": barriers([])}
    with window().start(inputs, threads=2, leaves=3, sink=sink) as run:
        eventually(lambda: operator(run).processed == 1_000)
        assert sink.rows == []
        silent.goes_on.set()
        assert run.wait(HANG_S)
    assert [row["ts"] for row in sink.rows] == sorted([*range(1_000), 3, 9])


def test_an_operator_after_the_program_needs_order():
    given = {"value": values([1, 2]), "barrier": barriers([3])}
    counted = window().over(given).key_by("sum").window(size=10, advance=10).aggregate(n=hr.count())
    with pytest.raises(NotSupportedError, match="order='none': the operator after program needs its input in the order"):
        counted.to_arrow(order="none")
    with pytest.raises(ParameterError, match=r"order='nothing'.*none"):
        window().start(given, order="nothing")


# -- changes before rows of the merged input


def test_a_planned_change_waits_until_its_row_is_certain():
    """Rows of the first input alone do not make it: the silent one may bring earlier ones."""
    program = window()
    silent = Silent(barriers([0, 10_000]))
    streams = {"value": 1, "barrier": 1}
    one, two = (program.plan(streams, leaves=leaves) for leaves in (1, 2))
    inputs = {"value": values(range(1_000)), "barrier": silent.reader()}
    planned = [(500, {"plan": one}), (600, 1), (700, {"plan": two.to_json(), "threads": 2}), (9_000, {"plan": one})]
    with program.start(inputs, threads=2, plan=two.to_json(), reconfigure=planned) as run:
        eventually(lambda: operator(run).added == 1_000)
        assert run.changes == []
        silent.goes_on.set()
        assert run.wait(HANG_S)
        changes = [(change.planned_at, change.after["threads"], change.after["plan"]) for change in run.changes]
        assert [change.outcome for change in run.changes] == ["done"] * 4
        found = run.to_arrow()["sum"].to_pylist()
    assert changes == [(500, 2, one), (600, 1, one), (700, 2, two), (9_000, 2, one)]
    # The input of values is given first, so that the value at 0 comes before the barrier at 0.
    assert found == [5, 5, *[5] * 999, 5 * 999]


def test_planned_plans_are_checked_before_anything_runs():
    program = window()
    inputs = {"value": values([1]), "barrier": barriers([2])}
    with pytest.raises(ParameterError, match="no node owns"):
        program.start(inputs, reconfigure=[(1, {"plan": hr.Plan([hr.PlanNode([("value", 0, 0)])])})])
    with pytest.raises(ParameterError, match="plan='trees'"):
        program.start(inputs, reconfigure=[(1, {"plan": "trees"})])


# -- bounds


@pytest.mark.slow
def test_results_that_wait_for_a_silent_input_are_bounded():
    count = MOST_RESULTS + 3 * CAPACITY
    silent = Silent(values([3]))
    inputs = {"value": [values(range(count)), silent.reader()], "barrier": barriers([])}
    with window().start(inputs, threads=2, leaves=2, sink=hr.discard()) as run:
        eventually(lambda: operator(run).added > MOST_RESULTS and is_full(run))
        assert operator(run).added <= MOST_RESULTS + 2 * CAPACITY + 1
        silent.goes_on.set()
        assert run.wait(HANG_S)
        assert operator(run).results == count + 1


@pytest.mark.slow
def test_rows_behind_one_that_waits_are_bounded():
    """A reset waits for increments of its key, which a silent input may bring; increments of another key pass."""
    a, b = 0, next(key for key in range(1, 100) if part_of(key, PARTS) != part_of(0, PARTS))
    sides = [], []
    for tag in implementation_tags(keycounter, {"inc": 2, "reset": 2}):
        sides[tag.part == part_of(a, PARTS)].append(tag)
    plan = hr.Plan([hr.PlanNode([], [hr.PlanNode(side) for side in sides])])
    count = SPAN + 2 * CAPACITY
    schema = pa.schema({"ts": pa.int64(), "key": pa.int64()})
    rows = pa.table({"ts": range(1, count + 1), "key": [a] + [b] * (count - 1), "kind": ["reset"] + ["inc"] * (count - 1)})
    silent = Silent(pa.table({"ts": [0, count + 1], "key": [a, b]}, schema))
    ends = pa.table({"ts": [count + 2], "key": [b]}, schema)
    inputs = {("inc", "reset"): hr.streams(rows, tag="kind"), "inc": silent.reader(), "reset": ends}
    with keycounter.start(inputs, threads=2, plan=plan) as run:
        eventually(lambda: operator(run, "keycounter").added > SPAN and is_full(run, "keycounter", waiting=2))
        assert operator(run, "keycounter").added == SPAN + 1
        silent.goes_on.set()
        assert run.wait(HANG_S)
        assert run.to_arrow().select(["key", "count"]).to_pylist() == [{"key": a, "count": 1}, {"key": b, "count": count}]


@pytest.mark.slow
@pytest.mark.interpreted
@pytest.mark.parametrize("idle_after", [None, 0.2])
def test_mailboxes_of_one_event_and_sixty_four_leaves_on_two_threads(monkeypatch, idle_after):
    """A silent input that is passed over when it is idle, and one that is not: it holds back what comes after its first."""
    for name in ("CAPACITY", "SPAN", "MOST_RESULTS"):
        monkeypatch.setattr(mailbox_kernel, name, 1)
    silent = Silent(values([2_000], x=1))
    lagging = hr.stream(silent.reader(), event_time="ts", idle_after=idle_after)
    inputs = {"value": [*(values(range(k, 189, 63), x=1) for k in range(63)), lagging], "barrier": barriers(range(0, 189, 20))}
    with window().start(inputs, threads=2, leaves=64, heartbeat=1) as run:
        if idle_after is None:
            eventually(lambda: operator(run).processed > 0)
            assert operator(run).processed < 63 * 3
        else:
            eventually(lambda: operator(run).processed == 63 * 3 + 10)
        silent.goes_on.set()
        assert run.wait(HANG_S)
        found = run.to_arrow()["sum"].to_pylist()
    assert found == [1, *[20] * 9]
