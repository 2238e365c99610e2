"""What a pipeline may hold: states up to `max_state`, and outputs that wait for those of a slow tuple.

Property    a list, a set or a map of any stage that outgrows `max_state`, and a key too many, end the run with an error that
            names the stage, its function, the limit and how to raise it; the same query runs again. Outputs wait for no
            more than `capacity` tuples; if even these do not fit in memory, an error says so
Oracle      plain Python
Cannot see  how much memory the system grants: it is made small here
"""

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import OverflowInputError
from headrace.memory.cells import read_cell
from headrace.ordering import arrays, pool_kernel, words
from headrace.ordering.measuring import stage_cell
from support.workloads import eventually

# -- states

LIST, SET, MAP, KEYS = range(4)
PARTITIONED, STATEFUL = range(2)
LIMIT = 1 << 16
ROWS = 10_000
HELD = {"all": hr.list_of("int64"), "seen": hr.set_of("int64"), "by": hr.map_of("int64", "int64")}


def keep(state, what, x):
    if what == LIST:
        state.all.append(x)
    elif what == SET:
        state.seen.add(x)
    elif what == MAP:
        state.by[x] = x


def held(state):
    return len(state.all) + len(state.seen) + len(state.by)


def by_key(state, t, emit):
    if t.stage == PARTITIONED:
        keep(state, t.what, t.x)
    emit(stage=t.stage, what=t.what, x=t.x, n=held(state))


def in_one(state, t, emit):
    if t.stage == STATEFUL:
        keep(state, t.what, t.x)
    emit(n=t.n + held(state))


def hoarding(stage, what):
    """Rows of which one stage keeps all, in one kind of container; with KEYS it has a state for each of them."""
    x = np.arange(ROWS)
    table = pa.table({
        "ts": x, "x": x, "key": x if what == KEYS else x * 0, "stage": np.full(ROWS, stage), "what": np.full(ROWS, what),
    })  # fmt: skip
    chain = hr.stream(table, event_time="ts").ordered().partitioned(
        by_key, by="key", buckets=4, state=HELD, emits=dict.fromkeys(("stage", "what", "x", "n"), "int64")
    )
    return chain.stateful(in_one, state=HELD, emits={"n": "int64"})


def full(stage, function, pipeline):
    """The error about a stage that outgrows `LIMIT`."""
    code = function.__code__
    return (
        f'{stage}: what it keeps does not fit (function "{code.co_name}", file "{code.co_filename}", line {code.co_firstlineno}):'
        f" together the stages of {pipeline} keep more than max_state={LIMIT} bytes; pass a larger max_state=, or keep less"
    )


@pytest.mark.slow
def test_states_beyond_their_limit():
    """All in one test, since it is one compilation. What has failed runs again, with more memory."""
    for stage, what in [(PARTITIONED, kind) for kind in (LIST, SET, MAP, KEYS)] + [(STATEFUL, kind) for kind in (LIST, SET, MAP)]:
        query = hoarding(stage, what)
        function = in_one if stage == STATEFUL else by_key
        with pytest.raises(OverflowInputError) as caught:
            query.to_arrow(threads=2, max_state=LIMIT)
        assert str(caught.value) == full(function.__name__, function, "in_one"), (stage, what)
        found = query.to_arrow(threads=2)["n"].to_pylist()
        assert found == ([0] * ROWS if what == KEYS else list(range(1, ROWS + 1))), (stage, what)


def counts(state, t, emit):
    state.n += 1
    emit(n=state.n)


def fills(state, emit):
    for i in range(ROWS):
        state.all.append(i)
    emit(ts=2, n=len(state.all))


@pytest.mark.slow
def test_at_the_end_of_the_stream_the_function_that_ran_then_is_named():
    """And the stage by its own name, which neither function has."""
    query = hr.stream(pa.table({"ts": [1]}), event_time="ts").ordered().stateful(
        counts, state={"n": 0, "all": hr.list_of("int64")}, emits={"n": "int64"}, end=fills, name="last"
    )  # fmt: skip
    with pytest.raises(OverflowInputError) as caught:
        query.to_arrow(max_state=LIMIT)
    assert str(caught.value) == full("last", fills, "last")
    assert query.to_arrow()["n"].to_pylist() == [1, ROWS]


# -- outputs that wait

MANY = 1_000
ENDLESS = 2**62
SLOW = 20_000_000
"""Steps of a tuple that takes a tenth of a second."""


def multiply(t, emit):
    n = x = 0
    while n < t.steps:
        n += 1
        x = (x * 5 + n) % 1_009
    for i in range(MANY):
        emit(v=t.x * MANY + i, last=x)


def multiplied(rows, steps):
    """A stage that makes a thousand of each tuple; the first one takes so many steps."""
    table = pa.table({"ts": range(rows), "x": range(rows), "steps": [steps] + [1] * (rows - 1)})
    return hr.stream(table, event_time="ts").ordered().flat_map(multiply, emits={"v": "int64", "last": "int64"})


def all_of(rows):
    return list(range(MANY * rows))


@pytest.mark.parametrize("reorder", ["nonblocking", "lock"])
def test_outputs_wait_for_no_more_tuples_than_the_capacity(reorder):
    """While the first tuple is at work, others are taken until their stage has `capacity` of them. Stop ends all of it."""
    capacity = 16
    query = multiplied(500, ENDLESS)
    run = query.start(threads=2, max_threads=2, batch=1, capacity=capacity, reorder=reorder, sink=hr.discard())
    (section,) = run._execution.sections.values()
    stage = run["multiply"].stages["multiply"]
    eventually(lambda: stage.metrics().taken == capacity - 1)
    figures = stage.metrics()
    assert (figures.waiting, figures.backlog) == (capacity, 0)
    assert stage_cell(section, 0, words.TAIL) == capacity and stage_cell(section, 0, words.NEXT) == 0
    outputs = (capacity - 1) * MANY * section.arrays.form[0, words.OUT_STRIDE]  # in words
    assert outputs < read_cell(section.arrays.arena, pool_kernel.HANDED_OUT) < 3 * outputs
    run.stop()
    assert run.state == "stopped" and run.metrics().tuples_out == 0


def test_outputs_that_wait_come_in_order():
    found = multiplied(300, SLOW).to_arrow(threads=4, max_threads=4, batch=1, capacity=64)
    assert found["v"].to_pylist() == all_of(300)


def test_outputs_that_wait_and_do_not_fit_in_memory(monkeypatch):
    """The error ends the tuple for which they wait, too. With a smaller capacity they fit, and without the limit as well."""
    with monkeypatch.context() as small:
        small.setattr(arrays, "POOL_WORDS", 1 << 18)
        said = (
            r"multiply: outputs that wait for those of earlier tuples take more than the 2,097,152 bytes that could be reserved"
            r" for them. They wait for up to capacity=64 tuples of each stage: pass a smaller capacity=, or emit fewer outputs"
        )
        with pytest.raises(OverflowInputError, match=said):
            multiplied(500, ENDLESS).to_arrow(threads=2, max_threads=2, batch=1, capacity=64)
        found = multiplied(100, SLOW).to_arrow(threads=2, max_threads=2, batch=1, capacity=8)
        assert found["v"].to_pylist() == all_of(100)
        small.setattr(arrays, "POOL_WORDS", 1 << 13)
        with pytest.raises(OverflowInputError, match="up to capacity=2 tuples of each stage: emit fewer outputs for each tuple"):
            multiplied(5, 1).to_arrow(capacity=2)
    assert multiplied(100, 1).to_arrow(threads=2, capacity=64)["v"].to_pylist() == all_of(100)
