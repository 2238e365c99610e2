"""Snapshots that are taken by themselves.

Property    by count: of exactly n, 2n, ... events, and equal to what the serial definition makes of those, for any scheme,
            threads, punctuation and changes; by the clock: equal to what it makes of their positions. The newest ones are
            there after a run has failed; tables of a run that is over are there, whatever follows the transactions
Oracle      `headrace.reference.transactions` on the first events
Cannot see  how long a copy takes; schedules that real threads do not meet: test_interleave.py
"""

import random
import threading

import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import FunctionError, MissingAttributeError, ParameterError, RunStoppedError
from headrace.runtime.run import Execution
from headrace.transactions.section import TransactionSection
from headrace.transactions.snapshots import KEPT
from support.campaign import rarely
from support.transacted import SCHEMES, in_python, plain
from support.workloads import HANG_S

HOLD = hr.table("hold", columns={"n": "int64", "x": "int64"}, rows=6, first={"n": 9})
NAMED = hr.table("named", key="name", data=pa.table({"name": ["a", "b"], "n": [0, 0]}), unknown="insert")


SCHEMA = pa.schema({name: pa.string() if name == "name" else pa.int64() for name in ("ts", "k", "j", "d", "name", "by")})


def moves(e, t):
    if HOLD[e.j].n < e.d:
        t.reject()
    HOLD[e.j].n -= e.d
    HOLD[e.k].n += 10 // e.by
    HOLD[e.k].x = e.ts
    NAMED[e.name].n += 1


def drawn(rng, count):
    rows = [
        {"ts": ts, "k": rng.randrange(7), "j": rng.randrange(6), "d": rng.randrange(4), "name": rng.choice("abcdef"), "by": 1}
        for ts in range(count)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def ledger(events):
    return hr.stream(events, event_time="ts").transact(moves)


def same_tables(taken, events):
    """Assert that a snapshot is what plain Python makes of the events before its position."""
    _, tables = in_python([moves], events.slice(0, taken.position))
    assert tables.keys() == taken.keys()
    for name, rows in tables.items():
        assert plain(taken[name].to_arrow().to_pylist()) == plain(rows), (name, taken.position)


@pytest.mark.logic
@pytest.mark.parametrize("runs", [2, *rarely(8)])
def test_oracle_snapshots_by_count(runs):
    """So many of each scheme."""
    rng = random.Random(5)
    for scheme in SCHEMES:
        for _ in range(runs):
            count, every = rng.choice([0, 40, 150]), rng.choice([1, 7, 30, 50, 500])
            events = drawn(rng, count)
            planned = sorted((rng.randrange(count + 1), rng.randrange(1, 4)) for _ in range(3))
            with ledger(events).start(
                scheme=scheme, threads=rng.choice([1, 2, 3]), max_threads=3, punctuation=rng.choice([1, 8, 60]),
                reconfigure=planned, snapshot_every=every,
            ) as run:  # fmt: skip
                run.wait()
            positions = list(range(every, count + 1, every))[-KEPT:]
            assert [taken.position for taken in run.snapshots] == positions
            for taken in run.snapshots:
                same_tables(taken, events)


@pytest.mark.logic
def test_oracle_snapshots_by_the_clock():
    events = drawn(random.Random(6), 400)
    with ledger(events).start(threads=2, punctuation=3, rate=4_000, snapshot_every="2ms") as run:
        run.wait()
    assert 0 < run.snapshots[0].position < run.snapshots[1].position <= 400
    for taken in run.snapshots:
        same_tables(taken, events)


@pytest.mark.logic
def test_example_a_run_that_fails_leaves_its_snapshots():
    rows = drawn(random.Random(7), 100).to_pylist()
    rows[63] |= {"by": 0, "d": 0, "k": 1}
    events = pa.Table.from_pylist(rows, SCHEMA)
    run = ledger(events).start(threads=2, punctuation=30, snapshot_every=20)
    with pytest.raises(FunctionError, match="ZeroDivisionError"):
        run.wait()
    assert [taken.position for taken in run.snapshots] == [40, 60]
    for taken in run.snapshots:
        same_tables(taken, events)
    with pytest.raises(MissingAttributeError, match=r"run\.snapshots\[-1\] is <tables after 60 events: hold"):
        run.tables  # noqa: B018
    with pytest.raises((RunStoppedError, FunctionError)) as caught:
        run.snapshot()
    assert "run.snapshots[-1] is <tables after 60 events" in str(caught.value)
    assert len(run["moves"].snapshots) == 2
    run.stop()


@pytest.mark.logic
def test_example_no_snapshots_are_taken_unless_asked_for():
    with ledger(drawn(random.Random(8), 20)).start() as run:
        run.wait()
    assert run.snapshots == ()

@pytest.mark.logic
def test_tables_are_there_when_what_follows_has_ended_first(monkeypatch):
    """The run is not over before its transactions are: what follows them may give its last result before that."""
    section_finished, close_results = Execution.section_finished, TransactionSection._close_results
    has_ended, states = threading.Event(), []

    def noted(run, section):
        section_finished(run, section)
        if "counts" in section.operators:
            has_ended.set()

    def late(section):
        assert has_ended.wait(HANG_S)
        states.append(section._run.state)
        close_results(section)

    monkeypatch.setattr(Execution, "section_finished", noted)
    monkeypatch.setattr(TransactionSection, "_close_results", late)
    events = drawn(random.Random(8), 150)
    counts = ledger(events).window(50).aggregate("counts", n=hr.count())
    with counts.start(scheme="serial") as run:
        assert run.wait(HANG_S)
        assert states == ["running"]
        _, tables = in_python([moves], events)
        assert {name: plain(run.tables[name].to_arrow().to_pylist()) for name in tables} == {
            name: plain(rows) for name, rows in tables.items()
        }


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "soon", "0s", "10", [3], 2**63], ids=str)
def test_bad_input(wrong):
    with pytest.raises(ParameterError, match="snapshot_every=") as caught:
        ledger(drawn(random.Random(9), 1)).start(snapshot_every=wrong)
    text = str(caught.value)
    assert "\n" not in text and "give a whole number of events from 1, or a duration" in text
