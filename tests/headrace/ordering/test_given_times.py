"""Times that stages give themselves, `emit(ts=...)`, before an operator that needs to know how far time has come.

Property    windows behind a pipeline hold what its serial execution gives, though all its outputs are earlier than the
            input is meanwhile, those of `end` too; where outputs have their tuples' times, and nothing else comes, the input's
            progress closes windows
Oracle      `headrace.reference.ordering` and `aggregates`
Cannot see  windows that happen to be closed late: batches of one row, and of all rows, are what makes it likely to be seen
"""

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.reference import ordering as reference
from headrace.reference.aggregates import aggregate
from headrace.reference.keys import column
from headrace.windows import Window
from support.pipelines import some_rows, whole

PAIR = {"key": "int64", "v": "int64"}
STATE = {"key": "int64", "v": "int64", "last": "int64"}
COUNTS = {"n": ("count", None), "v": ("sum", "v")}


def lag(state, t, emit):
    """The times of the outputs rise, and are 400 behind."""
    state.v += 1
    emit_behind(emit, t.ts - 400, t.key, state.v)


def emit_behind(emit, ts, key, v):
    emit(ts=ts, key=key, v=v)


def begin(state, t, emit):
    """The first tuples give something, of their own time; what is left comes at the end, of the last of these times."""
    state.v += 1
    if state.v <= 20:
        emit(key=t.key, v=state.v)
        state.key = t.key
        state.last = t.ts


def rest(state, emit):
    emit(ts=state.last, key=state.key, v=state.v)


@pytest.mark.slow
@pytest.mark.parametrize(("function", "end"), [(lag, None), (begin, rest)])
def test_oracle_windows_behind_times_that_are_given(function, end):
    table = some_rows(np.random.default_rng(3), 1000, 3)
    rows = [(row["ts"], row) for row in table.to_pylist()]
    stage = reference.Stateful(function, dict.fromkeys(STATE, 0), list(PAIR), end=end)
    given = [(row["ts"], row) for row in reference.ordered([rows], [reference.Filter(whole), stage])]
    windows = aggregate([given], Window.parse(50, 50, "ms"), column("key"), COUNTS)
    expected = [{"ts": row.ts, "key": row.key, **row.values} for row in windows]
    for batch_rows in (1, 1000):
        stream = hr.stream(table, event_time="ts", batch_rows=batch_rows).ordered().filter(whole)
        counts = stream.stateful(function, state=STATE, emits=PAIR, end=end).key_by("key").window(50).aggregate(
            n=hr.count(), v=hr.sum("v"))  # fmt: skip
        assert counts.to_arrow(threads=2).to_pylist() == expected, batch_rows


@pytest.mark.slow
def test_windows_behind_tuples_of_their_own_times_are_closed_by_the_input():
    """The last one, too: nothing is given that could be earlier."""

    def batches():
        yield pa.record_batch({"ts": [1], "key": [1], "v": [1]})
        yield pa.record_batch({"ts": [700], "key": [0], "v": [1]})
        while not given:
            yield hr.Watermark(701)

    def odd(t):
        return t.key % 2 == 1

    given = []
    counts = hr.stream(batches(), event_time="ts").ordered().filter(odd).key_by("key").window(50).aggregate(
        n=hr.count(), v=hr.sum("v"))  # fmt: skip
    with counts.start(sink=given.append) as run:
        assert run.wait(120)
    assert given[0].to_pylist() == [{"ts": 50, "key": 1, "n": 1, "v": 1}]
