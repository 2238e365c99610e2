"""What a stop discards, in numbers.

Property    once a run was stopped, or has failed, what was in flight, read ahead and made but not given out is said by
            `metrics().discarded` and in the text of the balance; the books hold; a run that goes on, or has ended by
            itself, discards nothing
Oracle      a sink that takes nothing on: every row that was read is then in one place that is known
Cannot see  state of windows that were open: those are no results yet
"""

import json
import threading

import pyarrow as pa
import pytest

import headrace as hr
from headrace.metrics.balance import Balance, Discarded
from support.workloads import Steered, eventually, is_stuck

ROWS = 1_000
TABLE = pa.table({"ts": range(ROWS), "k": [0] * ROWS})
LARGE = pa.table({"ts": range(300_000), "k": [0] * 300_000})
WAYS = [("log", "vsn"), ("scalegate", "vsn"), ("log", "sn")]


class Blocked:
    """A sink that keeps the collector waiting with the first batch, until the run is over."""

    def __init__(self):
        self.let_go, self.is_reached = threading.Event(), threading.Event()

    def __call__(self, batch):
        self.is_reached.set()
        self.let_go.wait()


def stopped(run, sink):
    """Stop a run whose sink waits, and let that go only then."""
    threading.Thread(target=lambda: (run._execution.over.wait(), sink.let_go.set()), daemon=True).start()
    run.stop()
    return run.metrics()


@pytest.mark.slow
@pytest.mark.parametrize(("gate", "mode"), WAYS)
def test_results_that_were_not_given_out(gate, mode):
    """All rows are processed, each is a result, and the first batch of results is all that came out."""
    sink, steered = Blocked(), Steered(TABLE, [10, 100])
    with hr.stream(iter(steered), event_time="ts").forward().start(sink=sink, gate=gate, mode=mode) as run:
        steered.let(2)
        eventually(sink.is_reached.is_set)
        steered.let_all()
        eventually(lambda: run.metrics().operators["forward"].processed == ROWS)
        assert run.metrics().discarded == Discarded(0, 0, 0)
        metrics = stopped(run, sink)
    given = metrics.operators["forward"].results
    assert 0 < given < ROWS and metrics.discarded == Discarded(0, 0, ROWS - given)
    assert metrics.holds and metrics.discarded.rows == 0
    said = f"stopped: 0 in flight, 0 read ahead and {ROWS - given:,} results discarded"
    assert str(metrics.operators["forward"].balance) == f"1,000 arrived = 1,000 processed + 0 discarded; {said}"


@pytest.mark.parametrize(("gate", "mode"), WAYS)
def test_rows_in_flight_and_read_ahead(gate, mode):
    """The sink holds up the collector, that the instance, that the gate, and that the source."""
    sink = Blocked()
    query = hr.stream(LARGE, event_time="ts").forward()
    with query.start(sink=sink, gate=gate, mode=mode, capacity=1 << 12) as run:
        eventually(lambda: is_stuck(run))
        metrics = stopped(run, sink)
    (operator,) = metrics.operators.values()
    assert metrics.holds and operator.balance.is_stopped
    assert metrics.discarded.in_flight == operator.added - operator.processed > 0
    assert metrics.discarded.read_ahead == metrics.tuples_in - operator.added > 0
    assert metrics.discarded.results > 0
    assert metrics.discarded.rows + operator.processed == metrics.tuples_in
    assert f" processed + {metrics.discarded.rows:,} discarded; stopped: " in str(operator.balance)
    assert "in flight +" not in str(operator.balance)
    assert json.loads(json.dumps(metrics.to_dict()))["discarded"] == metrics.discarded._asdict()


def test_rows_between_operators():
    """What the first operator has given, and the second has not taken, is read ahead of the second."""
    sink = Blocked()
    first = hr.stream(LARGE, event_time="ts").forward("first")
    with first.forward("second").start(sink=sink, capacity=1 << 12) as run:
        eventually(lambda: is_stuck(run, "second") and run.metrics().operators["second"].balance.waiting > 0)
        metrics = stopped(run, sink)
    books = {name: operator.balance for name, operator in metrics.operators.items()}
    assert metrics.holds and books["second"].discarded.read_ahead > 0
    assert metrics.discarded == Discarded(*map(sum, zip(*(b.discarded for b in books.values()), strict=True)))


def test_a_failed_run():
    def breaks_off():
        yield TABLE.to_batches()[0]
        raise KeyError("gone")

    with hr.stream(breaks_off(), event_time="ts").forward().start(rate=1) as run:
        eventually(lambda: run.state == "failed")
        run.stop()
        metrics = run.metrics()
    assert metrics.holds and metrics.discarded.rows + metrics.operators["forward"].processed == ROWS


def test_nothing_is_discarded_by_a_run_that_ends_by_itself():
    with hr.stream(TABLE, event_time="ts").forward().start() as run:
        run.wait()
        run.stop()
        metrics = run.metrics()
    assert metrics.discarded == Discarded() and not any(metrics.discarded)
    assert str(metrics.operators["forward"].balance) == "1,000 arrived = 1,000 processed + 0 in flight"


def test_example_text():
    books = Balance(2_010, 0, 10, 1_000, 995, 5, 0, 0, unreleased=7, is_stopped=True)
    assert str(books) == (
        "2,010 arrived = 10 processed + 1,995 discarded + 5 dropped;"
        " stopped: 995 in flight, 1,000 read ahead and 7 results discarded"
    )
    assert books.discarded.rows == 1_995 and books.holds
    assert str(Balance(5, 0, 5, 0, 0, 0, 0, 0, is_stopped=True)).endswith("; stopped: nothing discarded")
