"""Runs that are stopped while a user's function turns in a loop.

Property    `stop` ends the run, whichever engine calls the function, and however its loops are nested: loops of constant
            bounds, which each end soon, have turns for years together
Cannot see  how soon
"""

import threading
import time

import pyarrow as pa
import pytest

import headrace as hr
from support import event_window
from support.workloads import HANG_S, Steered, eventually

ENDLESS, YEARS, BY_HELPER = 1, 2, 3
ACCOUNTS = hr.table("ACCOUNTS", columns={"b": "int64"}, rows=10)


def mixed(x, a, b):
    return (x * 5 + (a ^ b)) % 1009  # within the range of int64, which ends a run


def short_by_itself(x):
    for a in range(500):
        for b in range(2):
            x = mixed(x, a, b)
    return x


def turns(x):
    """A loop by the value of a row; it gives x where that names none."""
    if x == ENDLESS:
        while True:
            x = mixed(x, 1, 2)
            if x < 0:
                break
    if x == YEARS:
        for a in range(1000):
            for b in range(1000):
                for c in range(1000):
                    for d in range(1000):
                        x = mixed(x, a ^ b, c ^ d)
    if x == BY_HELPER:
        for _ in range(1000):
            for _ in range(1000):
                for _ in range(1000):
                    x = short_by_itself(x)
    return x


def of_a_state(state, t, emit):
    state.n = turns(t.x)
    emit(n=state.n)


def of_a_table(e, t):
    ACCOUNTS[e.k].b += turns(e.x)
    t.emit(n=e.x)


def of_a_program(state, e, emit):
    state.sum += turns(e.x)


def elastic(source):
    operator = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, update=of_a_state)
    return hr.stream(source, event_time="ts").key_by("k").window(10, 10).apply(operator)


def ordering(source):
    return hr.stream(source, event_time="ts").ordered().stateful(of_a_state, state={"n": "int64"}, emits={"n": "int64"})


def transactions(source):
    return hr.stream(source, event_time="ts").transact(of_a_table, emits={"n": "int64"})


def plans(source):
    program = hr.program(**{**event_window.WINDOW, "update": {"value": of_a_program, "barrier": event_window.close}})
    return program.over({"value": source, "barrier": pa.table({"ts": [50]})})


@pytest.mark.slow
@pytest.mark.parametrize("loop", [ENDLESS, YEARS, BY_HELPER], ids=["endless", "for years", "of a helper"])
@pytest.mark.parametrize(
    ("query", "options"),
    [
        pytest.param(elastic, {}, id="elastic"),
        pytest.param(ordering, {}, id="ordering"),
        *[
            pytest.param(transactions, {"scheme": scheme, "punctuation": 1}, id=f"transactions, {scheme}", marks=marks)
            for scheme, marks in (("chains", ()), ("lock", pytest.mark.campaign), ("speculative", pytest.mark.campaign))
        ],
        pytest.param(plans, {}, id="plans"),
    ],
)
def test_stop_ends_a_function_in_its_loop(query, options, loop):
    source = Steered(pa.table({"ts": [1, 60], "x": [loop, 0], "k": [0, 0]}), [1])
    run = query(source).start(threads=1, **options)
    source.let()
    (operator,) = (run[name] for name in run.operators)
    eventually(lambda: operator.metrics().added > 0)
    time.sleep(0.05)  # to be in the loop most times: if it is not, this cannot fail
    assert operator.metrics().in_flight > 0
    run.stop()
    assert run.state == "stopped"
    source.let_all()


@pytest.mark.slow
@pytest.mark.parametrize("loop", [ENDLESS, YEARS, BY_HELPER], ids=["endless", "for years", "of a helper"])
def test_stop_ends_a_function_without_a_state(loop):
    source = Steered(pa.table({"ts": [1, 60], "x": [loop, 0], "k": [0, 0]}), [1])
    stream = hr.stream(source, event_time="ts").map(lambda t: turns(t.x), y="int64")
    before = set(threading.enumerate())
    run = stream.key_by("k").window(10, 10).aggregate(n=hr.count()).start()
    source.let()
    (reader,) = (thread for thread in set(threading.enumerate()) - before if thread.name.endswith("-reader"))
    time.sleep(0.05)
    run.stop()
    source.let_all()
    reader.join(HANG_S)
    assert run.state == "stopped" and not reader.is_alive()
