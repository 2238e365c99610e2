"""Programs that go on, and programs that end: silent inputs, full mailboxes, many leaves, stops and failures.

Property    what may go on does, though an input is silent, mailboxes are full or leaves are many; nothing waits for
            itself; a stop, Ctrl-C and a function that fails end the run and its threads, and the next run works;
            a failure names function, line and event
Oracle      loops in plain Python
Cannot see  how fast; every interleaving (test_interleave.py does)
"""

import signal
import threading

import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import FunctionError, OverflowInputError, ParameterError
from headrace.synchronization.mailbox_kernel import CAPACITY
from support.event_window import WINDOW, add, close
from support.workloads import eventually

HANG_S = 120

VALUES, TIMES = pa.schema({"ts": pa.int64(), "x": pa.int64()}), pa.schema({"ts": pa.int64()})


def window(**changed):
    return hr.program(**{**WINDOW, **changed})


def values(times):
    times = list(times)
    return pa.table({"ts": times, "x": [1] * len(times)}, VALUES)


def barriers(times):
    return pa.table({"ts": list(times)}, TIMES)


class Silent:
    """An input that gives rows, is silent until it is told to go on, and gives the others."""

    def __init__(self, schema, *tables):
        self.goes_on = threading.Event()
        self._schema, self._tables = schema, tables

    def _batches(self):
        for number, table in enumerate(self._tables):
            if number > 0:
                assert self.goes_on.wait(HANG_S)
            yield from table.to_batches()

    def reader(self):
        return pa.RecordBatchReader.from_batches(self._schema, self._batches())


def passed(run):
    return run.metrics().operators["program"].processed


@pytest.mark.parametrize("heartbeat", [1, 1024])
def test_a_silent_input_holds_back_only_what_may_depend_on_it(heartbeat):
    silent = Silent(TIMES, barriers([10]), barriers([20_000]))
    inputs = {"value": [values(range(5_000)), values(range(5_000))], "barrier": silent.reader()}
    with window().start(inputs, threads=2, leaves=2, heartbeat=heartbeat) as run:
        eventually(lambda: passed(run) == 2 * 11 + 1)
        silent.goes_on.set()
        assert run.wait(HANG_S)
        assert run.to_arrow().to_pylist() == [{"ts": 10, "sum": 22}, {"ts": 20_000, "sum": 10_000 - 22}]


def test_a_result_does_not_wait_for_what_its_own_input_says_next():
    """All events before the barrier are there, and the next one of its input is behind it, whenever it comes."""
    silent = Silent(TIMES, barriers([10]), barriers([10, 20_000]))
    inputs = {"value": [values(range(5_000)), values(range(5_000))], "barrier": silent.reader()}
    with window().start(inputs, threads=2, leaves=2) as run:
        eventually(lambda: run.snapshot().num_rows == 1)
        assert not silent.goes_on.is_set() and run.snapshot().to_pylist() == [{"ts": 10, "sum": 22}]
        silent.goes_on.set()
        assert run.wait(HANG_S)
        assert run.to_arrow()["sum"].to_pylist() == [22, 0, 10_000 - 22]


def beating(is_silent, goes_on):
    """A barrier, two watermarks, and silence; then the last barrier."""
    yield from barriers([10]).to_batches()
    yield from map(hr.Watermark, (1_000, 3_000))
    is_silent.set()
    assert goes_on.wait(HANG_S)
    yield from barriers([20_000]).to_batches()


@pytest.mark.parametrize("heartbeat", ["off", 1024])
def test_what_waits_for_a_silent_input_goes_on_by_its_heartbeats_unless_they_are_off(heartbeat):
    is_silent, goes_on = threading.Event(), threading.Event()
    silent = hr.stream(beating(is_silent, goes_on), event_time="ts")
    due = 11 + 1 if heartbeat == "off" else 3_001 + 1
    with window().start({"value": values(range(5_000)), "barrier": silent}, threads=2, heartbeat=heartbeat) as run:
        assert is_silent.wait(HANG_S)
        eventually(lambda: passed(run) == due)
        assert not run.wait(0.1) and passed(run) == due
        goes_on.set()
        assert run.wait(HANG_S)
        assert run.to_arrow().to_pylist() == [{"ts": 10, "sum": 11}, {"ts": 20_000, "sum": 5_000 - 11}]


def test_what_passes_time_by_heartbeats_is_refused_without_them():
    idle = hr.stream(barriers([10]), event_time="ts", idle_after="1s")
    with pytest.raises(ParameterError, match="idle_after=1.0 s passes time by heartbeats, and heartbeat='off'"):
        window().start({"value": values([1]), "barrier": idle}, heartbeat="off")


@pytest.mark.parametrize("leaves", [1, 2, 3])
def test_full_mailboxes_wait_for_an_input_that_lags(leaves):
    """One value's mailbox fills up, and that of a barrier, many times over; nothing waits in a circle."""
    count = 3 * CAPACITY + 17
    silent = Silent(VALUES, values([]), values([5, 5, count + 9]))
    inputs = {"value": [values(range(count)), silent.reader()], "barrier": barriers(range(1, count, 2))}
    with window().start(inputs, threads=2, leaves=leaves) as run:
        eventually(lambda: run.metrics().operators["program"].added >= 2 * CAPACITY or None)
        eventually(lambda: passed(run) == 2)  # the silent input's may come before the first barrier
        silent.goes_on.set()
        assert run.wait(HANG_S)
        sums = run.to_arrow()["sum"].to_pylist()
    assert sums == [2, 2, 4] + [2] * (count // 2 - 3)


def test_one_barrier_gives_far_more_than_a_ring_holds():
    def many(state, e, emit):
        for i in range(100_000):
            emit(sum=state.sum + i)

    program = window(update={"value": add, "barrier": many})
    found = program.over({"value": [values([1]), values([2, 9])], "barrier": barriers([5])}).to_arrow(threads=2, leaves=2)
    assert found["sum"].to_pylist() == list(range(2, 100_002))


def test_sixty_four_leaves_on_two_threads_with_a_barrier_for_each_row():
    inputs = {"value": [values(range(k, 640, 64)) for k in range(64)], "barrier": barriers(range(640))}
    found = window().over(inputs).to_arrow(threads=2, leaves=64)
    assert found["sum"].to_pylist() == [1] * 640


def test_a_program_starts_again_and_twice_at_a_time():
    stream = window().over({"value": values(range(1_000)), "barrier": barriers(range(0, 1_000, 10))})
    first = stream.to_arrow(threads=2)
    with stream.start(threads=2) as one, stream.start(threads=1) as other:
        assert one.wait(HANG_S) and other.wait(HANG_S)
        assert one.to_arrow().equals(first) and other.to_arrow().equals(first)


# -- ends


def ends_well(run, silent, before):
    """The run's threads are gone, counters are there, and the next run works."""
    silent.goes_on.set()
    eventually(lambda: threading.active_count() <= before)
    assert passed(run) >= 0
    found = window().over({"value": values([1, 2]), "barrier": barriers([3])}).to_arrow()
    assert found["sum"].to_pylist() == [2]


def endless(silent):
    """A run whose mailboxes are full, and which waits for a silent input."""
    inputs = {"value": [values(range(3 * CAPACITY)), silent.reader()], "barrier": barriers(range(0, 3 * CAPACITY, 50))}
    run = window().start(inputs, threads=2, leaves=2)
    eventually(lambda: run.metrics().operators["program"].added >= CAPACITY)
    return run


def test_a_stop_in_the_middle():
    before, silent = threading.active_count(), Silent(VALUES, values([100]), values([200]))
    run = endless(silent)
    run.stop()
    ends_well(run, silent, before)


def test_an_interrupt_in_the_middle():
    before, silent = threading.active_count(), Silent(VALUES, values([100]), values([200]))
    run = endless(silent)
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()  # in here: it may be long before this thread goes on
        run.wait()
    run.stop()
    timer.join()
    ends_well(run, silent, before)


# -- functions that fail


def divides(state, e, emit):
    state.sum += 10 // (e.x - 1)


def too_large(state, e, emit):
    state.sum += 2**62 + e.x


def split_badly(state, left, right, tags_left, tags_right):
    left.sum = state.sum
    right.sum = 0 * (10 // (state.sum - 4))


def merge_badly(into, other):
    into.sum += other.sum + 0 * (10 // (into.sum + other.sum - 4))


def close_on(state, e, emit):
    emit(sum=state.sum)


FORKS = {"sum": "int64", "unused": "float64"}
"""States with floats are forked behind every barrier; others stay joined while that takes less time."""


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"update": {"value": divides, "barrier": close}}, r"value: ZeroDivisionError.*divides.*line \d+.*'x': 1"),
        pytest.param(  # every day: apps/test_synchronization.py, and test_in_locals.py
            {"update": {"value": too_large, "barrier": close}}, r"value: OverflowError.*too_large.*line \d+.*'x': 1",
            marks=pytest.mark.campaign,
        ),
        (
            {"update": {"value": add, "barrier": close_on}, "fork": split_badly, "state": FORKS},
            r"fork: ZeroDivisionError.*split_badly.*line \d+",
        ),
        ({"update": {"value": add, "barrier": close_on}, "join": merge_badly}, r"join: ZeroDivisionError.*merge_badly.*line \d+"),
    ],
    ids=["update", "overflow", "fork", "join"],
)  # fmt: skip
def test_a_function_that_fails_is_named_with_its_line_and_event(changed, words):
    before = threading.active_count()
    inputs = {"value": [values([1, 2, 8, 9]), values([3, 4, 7, 8])], "barrier": barriers([5, 10])}
    run = window(**changed).start(inputs, threads=2, leaves=2)
    with pytest.raises(FunctionError, match=words):
        run.wait(HANG_S)
    run.stop()
    eventually(lambda: threading.active_count() <= before)
    assert window().over(inputs).to_arrow()["sum"].to_pylist() == [4, 4]


def counts_down(state, e, emit):
    state.sum -= 1
    if state.sum == -3:
        state.sum += 10 // (state.sum + 3)


def counts_down_twice(state, e, emit):
    state.sum -= 1
    if state.sum == -3:
        state.sum += 10 // (state.sum + 3)
    elif state.sum < -3:
        state.sum = 2**62 * (e.x + 3)


@pytest.mark.parametrize(
    ("update", "words"),
    [
        (counts_down, r"value: failed when compiled with ZeroDivisionError.*was on the state that the failed call left"),
        (counts_down_twice, r"value: ZeroDivisionError; called again in plain Python, on the state that the failed call.*Over"),
    ],
)
def test_a_second_call_that_does_something_else_is_no_explanation(update, words):
    """The state before the call is not kept, and the message does not pretend that it is."""
    program = window(update={"value": update, "barrier": close})
    with pytest.raises(FunctionError, match=words):
        program.over({"value": values(range(5)), "barrier": barriers([])}).to_arrow()


def keeps(state, e, emit):
    state.sum = e.x  # which plain Python does


def adds_both(state, e, emit):
    state.sum += e.x + e.y


def keeps_once(state, e, emit):
    if state.sum == 0:
        state.sum = 1
        state.sum += e.x
    state.sum = 10 // (state.sum - 1)


@pytest.mark.parametrize(
    ("update", "columns", "words"),
    [
        (add, {"x": [1, None]}, r"^value: column 'x' is null, and it is used: fill it or .* first \(.*line \d+.*'x': None"),
        (keeps, {"x": [1, None]}, r"^value: column 'x' is null, and it is used: .* on tuple {'ts': 2, 'x': None}"),
        (adds_both, {"x": [1, None], "y": [1, None]}, r"^value: columns 'x' and 'y' are null, and one is used: fill it"),
        (adds_both, {"x": [1, 2], "y": [None, 1]}, r"^value: column 'y' is null, .* on tuple {'ts': 1, 'x': 1, 'y': None}"),
        (keeps_once, {"x": [None]}, r"^value: column 'x' is null, .* first; called again .* another error: ZeroDivisionError"),
    ],
)
def test_a_null_that_is_used_is_named_with_its_column(update, columns, words):
    given = {name: pa.array(column, pa.int64()) for name, column in columns.items()}
    program = window(tags={"value": dict.fromkeys(given, "int64"), "barrier": {}}, update={"value": update, "barrier": close})
    with pytest.raises(FunctionError, match=words):
        program.over({"value": pa.table({"ts": range(1, 1 + len(given["x"]))} | given), "barrier": barriers([])}).to_arrow()


def hoard(state, e, emit):
    state.all.append(e.x)


def count_all(state, e, emit):
    emit(sum=len(state.all))


def split_all(state, left, right, tags_left, tags_right):
    left.all = state.all


def merge_all(into, other):
    for x in other.all:
        into.all.append(x)


def test_states_that_grow_beyond_max_state_end_the_run():
    program = window(
        state={"all": hr.list_of("int64")}, update={"value": hoard, "barrier": count_all}, fork=split_all, join=merge_all
    )
    stream = program.over({"value": [values(range(10_000)), values(range(10_000))], "barrier": barriers([10_000])})
    with pytest.raises(OverflowInputError, match="max_state=65536 bytes; pass a larger max_state="):
        stream.to_arrow(threads=2, max_state=1 << 16)
    assert stream.to_arrow(threads=2)["sum"].to_pylist() == [20_000]
