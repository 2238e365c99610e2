"""Runs that are stopped, or given up waiting for, while a transaction function does not come back.

Property    under every scheme: the event that does not end is told, not one that waits for it, with its rows, and with the
            function and the line where it turns; the next run works
Cannot see  how long an event must take to be told: here none is too short; a function that cannot be stopped, since the
            loops of all look whether the run stops
"""

import re
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import RunStoppedError
from headrace.transactions import unfinished
from support.workloads import eventually

accounts = hr.table("accounts", columns={"balance": "int64"}, rows=8, first={"balance": 100})
ENDLESS = 10
IS_UNFINISHED = "event 2 of the input, counted from 0, is unfinished"
EVENTS = {"ts": pa.array([1, 2, 3, 4, 5], pa.timestamp("us")), "source": [0, 1, 2, 1, 2], "target": [5, 6, 7, 3, 3]}


def events(*amounts):
    return pa.table(EVENTS | {"amount": amounts})


def takes(e, t):  # an operation, in the chain of its row
    accounts[e.source].balance -= e.amount
    while e.amount == ENDLESS:
        accounts[e.source].balance = (accounts[e.source].balance + e.amount) % 1_009  # takes
    t.emit(balance=accounts[e.source].balance)


def pays(e, t):  # it runs whole
    if accounts[e.source].balance < e.amount:
        t.reject()
    accounts[e.source].balance -= e.amount
    accounts[e.target].balance += e.amount
    while e.amount == ENDLESS:
        accounts[e.target].balance = (accounts[e.target].balance + e.amount) % 1_009  # pays
    t.emit(balance=accounts[e.source].balance)


def is_in_loop(function, text):
    """Whether the text names a line of the function's loop, which has two."""
    lines = Path(__file__).read_text().splitlines()
    (second,) = (number for number, line in enumerate(lines, 1) if line.endswith(f"# {function.__name__}"))
    return f'(function "{function.__name__}", file "{__file__}", line ' in text and (
        f", line {second - 1}) on" in text or f", line {second}) on" in text
    )


def told_of(run, function):
    """What is told of an event in the function's loop; "" if nothing is."""
    return next((text for text in run._execution.unfinished() if is_in_loop(function, text)), "")


CASES = {
    "chains": (takes, {"scheme": "chains"}),
    "chains, one thread": (takes, {"scheme": "chains", "threads": 1}),
    "skip lists": (takes, {"scheme": "chains", "chains": "skiplist"}),
    "chains of whole transactions": (pays, {"scheme": "chains", "sharing": "everything"}),
    "lock": (pays, {"scheme": "lock"}),
    "mvlk": (pays, {"scheme": "mvlk"}),
    "partition": (pays, {"scheme": "partition"}),
    "serial": (pays, {"scheme": "serial", "threads": 1}),
    "speculative": (pays, {"scheme": "speculative"}),
}


@pytest.mark.parametrize("case", CASES)
def test_example_an_event_that_does_not_end(case, monkeypatch):
    function, options = CASES[case]
    monkeypatch.setattr(unfinished, "LONG_NS", 0)
    options = {"threads": 2, "max_threads": 2, "punctuation": 5} | options

    def ledger(*amounts):
        return hr.stream(events(*amounts), event_time="ts").transact(function, emits={"balance": "int64"})

    run = ledger(1, 2, ENDLESS, 3, 4).start(**options)
    try:
        # Another event may be told as long as its functions have not ended, and this one while its keys are named.
        told = eventually(lambda: told_of(run, function))
        assert re.match(rf"{IS_UNFINISHED}: its executor \(\d\) has been busy for \d+\.\d s", told)
        assert "on tuple {'ts': 3 (1970-01-01 00:00:00.000003), 'source': 2, 'target': 7, 'amount': 10}" in told
        assert f"with accounts[2]{', accounts[7]' if function is pays else ''} (" in told
        assert IS_UNFINISHED in repr(run)
    finally:
        run.stop()
    with pytest.raises(RunStoppedError, match=r"stop\(\) was called; event 2 of the input") as stopped:
        run.wait()
    assert is_in_loop(function, str(stopped.value))
    assert ledger(1, 2, 3, 4, 5).to_arrow(**options)["balance"].to_pylist() == [99, 98, 97, 94, 92]


def test_example_an_interrupt_while_it_is_waited_for(monkeypatch):
    """The run goes on, as after any interrupt outside a `with`."""
    monkeypatch.setattr(unfinished, "LONG_NS", 0)
    run = hr.stream(events(1, 2, ENDLESS, 3, 4), event_time="ts").transact(pays, emits={"balance": "int64"}).start(threads=1)
    try:
        eventually(lambda: told_of(run, pays))
        over = run._execution.over
        monkeypatch.setattr(over, "wait", interrupted(over.wait))
        with pytest.raises(KeyboardInterrupt) as caught:
            run.wait()
        (note,) = caught.value.__notes__
        assert note.startswith(f"headrace: {IS_UNFINISHED}:")
        assert run.state == "running"
    finally:
        monkeypatch.undo()
        run.stop()


def interrupted(wait):
    """Like `wait`, but the main thread gets a Ctrl-C there; the run has threads that wait, too."""

    def meanwhile(seconds):
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return wait(seconds)

    return meanwhile
