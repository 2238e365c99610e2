"""One suite for both gates, through their handles: Table II, order, bounds, controls, bad arguments.

Property    what every reader gets is the merge of the sources by (ts, source,
            position), each tuple once, as soon as no earlier one can come.
Oracle      `sorted`, and Definition 3 with ties for readiness.
Cannot see  races: one thread at a time calls here. test_interleave.py explores
            schedules, tests/litmus runs real threads.
"""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import DisorderError, EventTimeError, InputError, ParameterError
from headrace.gates import MergedLog, ScaleGate, membership_kernel, merged_log_kernel, scalegate_kernel
from headrace.gates.variants import source_kernels
from headrace.memory.atomics import CELL
from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.references import HEARTBEAT, SOURCE_SHIFT
from support.both_gates import both, drain


def merged(*sources):
    return sorted((t, s, row) for s, ts in enumerate(sources) for row, t in enumerate(ts))


def keys(records):
    return [(r.ts, r.source, r.row) for r in records if r.is_tuple]


# -- examples ----------------------------------------------------------------------------------------


@both
def test_example_readiness_with_ties(Gate):
    """A tuple is ready when it is <= (smallest promise, smallest source that has it)::

        source 0   1     3  3
        source 1      2  3        promises 3 and 3: ready up to (3, 0)
                            ^ (3, 1) is not: source 0 may still add a 3
    """
    gate = Gate(sources=2, readers=1, capacity=16)
    assert gate.add([1, 3, 3], 0) == 3
    assert gate.get(0) is None
    assert gate.add([2, 3], 1) == 2
    assert keys(drain(gate, 0)) == [(1, 0, 0), (2, 1, 0), (3, 0, 1), (3, 0, 2)]
    assert gate.add(3, 0) == 1
    assert keys(drain(gate, 0)) == [(3, 0, 3)]
    assert gate.heartbeat(0, 4)
    assert keys(drain(gate, 0)) == [(3, 1, 1)]


@both
def test_example_three_sources_one_idle(Gate):
    """The idle source holds time back until it sends heartbeats."""
    gate = Gate(sources=3, readers=2, capacity=16)
    gate.add([1, 5], 0)
    gate.add([2, 4], 2)
    assert gate.get(0) is None
    assert gate.heartbeat(1, 4)
    for reader in (0, 1):
        records = drain(gate, reader)
        assert keys(records) == [(1, 0, 0), (2, 2, 0)]
        assert [(r.ts, r.ref) for r in records if r.is_heartbeat] == [(4, HEARTBEAT)]
    assert gate.heartbeat(1, 4), "a promise already given is no news"
    assert gate.heartbeat(1, 9)
    assert keys(drain(gate, 0)) == [(4, 2, 1)]


@both
def test_example_the_first_end_comes_after_every_tuple(Gate):
    gate = Gate(sources=2, readers=1, capacity=16)
    gate.add([1], 0)
    assert gate.close(0)
    gate.add([2, 7], 1)
    assert [r.is_end for r in drain(gate, 0)] == [False, False, False]
    assert gate.close(1)
    records = drain(gate, 0)
    assert [r.is_end for r in records] == [True, True]
    assert records[0].ts == END_OF_TIME


@both
def test_example_bound_and_back_pressure(Gate):
    """Bound 4: the slowest of two readers decides what is taken."""
    gate = Gate(sources=1, readers=2, capacity=8, bound=4)
    assert gate.add([1, 2, 3, 4, 5, 6], 0) == 4
    assert gate.add(5, 0) == 0
    assert not gate.heartbeat(0, 5)
    assert len(drain(gate, 0)) == 4
    assert gate.add(5, 0) == 0, "reader 1 has read nothing"
    assert gate.get(1).ts == 1
    assert gate.get(1).ts == 2
    assert gate.add([5, 6, 7], 0) == 2
    assert keys(drain(gate, 1)) == [(3, 0, 2), (4, 0, 3), (5, 0, 4), (6, 0, 5)]


@both
@pytest.mark.parametrize("sources", [1, 3])
def test_example_a_control_behind_a_full_gate(Gate, sources):
    """A control takes no room, needs no source to move, and all readers meet it at one position."""
    gate = Gate(sources=sources, readers=2, capacity=4)
    for source in range(sources):
        while gate.add(1 + source, source):
            pass
    before = [keys(drain(gate, 0)), keys([gate.get(1)])]
    assert gate.control(1)
    assert gate.control(2)
    assert [r.epoch for r in drain(gate, 0)] == [1, 2]
    rest = drain(gate, 1)
    assert [r.epoch for r in rest[-2:]] == [1, 2]
    assert before[1] + keys(rest) == before[0]


@both
def test_example_a_control_with_every_source_idle(Gate):
    gate = Gate(sources=2, readers=2, capacity=4)
    assert gate.control(7)
    for reader in (0, 1):
        record = gate.get(reader)
        assert (record.epoch, record.ts, record.is_tuple) == (7, MIN_TIME, False)
        assert gate.get(reader) is None


@both
def test_example_many_controls_without_a_reader_that_moves(Gate):
    """Their number is bounded too: then `control` says that it must be called again."""
    gate = Gate(sources=1, readers=1, capacity=4)
    gate.add([1, 2, 3, 4], 0)
    placed = 0
    while gate.control(placed + 1):
        placed += 1
    assert 8 <= placed <= 128
    records = drain(gate, 0)
    assert keys(records) == [(t, 0, t - 1) for t in (1, 2, 3, 4)]
    assert [r.epoch for r in records if r.epoch] == list(range(1, placed + 1))
    assert gate.control(placed + 1)


@both
def test_example_added_readers_start_where_the_caller_is_inclusive(Gate):
    """Errata, "Trigger tuple": the tuple the caller gets next is the joiner's first one too."""
    gate = Gate(sources=1, readers=1, max_readers=3, capacity=16)
    gate.add([1, 2, 3], 0)
    assert gate.get(0).ts == 1
    assert gate.add_readers([1, 2], j=0)
    assert gate.readers == {0, 1, 2}
    assert [r.ts for r in drain(gate, 1)] == [2, 3]
    assert gate.get(0).ts == 2
    assert gate.remove_readers([0, 2])
    assert gate.get(0) is None and gate.get(2) is None
    gate.add([4], 0)
    assert gate.get(1).ts == 4
    assert gate.add_readers([0], j=1)
    gate.add([5], 0)
    assert gate.get(0).ts == 5 and gate.get(1).ts == 5


@pytest.mark.slow
@both
def test_example_table_two_says_who_succeeds(Gate):
    gate = Gate(sources=1, readers=1, max_sources=3, max_readers=3, capacity=16)
    assert gate.add_readers([1], 0) and not gate.add_readers([1], 0)
    assert gate.add_readers([1, 2], 0), "it adds all that are not readers yet"
    assert gate.remove_readers([1, 2]) and not gate.remove_readers([1, 2])
    assert not gate.add_readers([], 0) and not gate.remove_readers([])
    assert gate.add_sources([1]) and not gate.add_sources([1])
    assert gate.add_sources([1, 2]) and gate.sources == {0, 1, 2}
    assert gate.remove_sources([2, 1]) and not gate.remove_sources([2, 1])


@both
def test_example_a_reader_that_leaves_makes_room(Gate):
    gate = Gate(sources=1, readers=2, capacity=4)
    assert gate.add([1, 2, 3, 4], 0) == 4
    drain(gate, 0)
    assert gate.add(5, 0) == 0
    assert gate.remove_readers([1])
    assert gate.add(5, 0) == 1


@both
def test_example_a_new_source_comes_after_everything_delivered(Gate):
    gate = Gate(sources=1, max_sources=2, readers=1, capacity=16)
    gate.add([1, 5], 0)
    assert keys(drain(gate, 0)) == [(1, 0, 0), (5, 0, 1)]
    assert gate.add_sources([1])
    assert gate.floor(1) == 5
    with pytest.raises(DisorderError, match="below 5"):
        gate.add(4, 1)
    gate.add([5, 8], 1)
    gate.add([6, 9], 0)
    assert keys(drain(gate, 0)) == [(5, 1, 0), (6, 0, 2), (8, 1, 1)]


@both
def test_example_a_new_source_with_a_lower_index_and_equal_time(Gate):
    """(5, 0) would come before the delivered (5, 1): it starts above 5."""
    gate = Gate(sources=2, readers=1, capacity=16)
    assert gate.remove_sources([0])
    gate.add([5], 1)
    assert keys(drain(gate, 0)) == [(5, 1, 0)]
    assert gate.add_sources([0])
    assert gate.floor(0) == 6


@both
def test_example_a_removed_source_is_flushed_and_its_slot_used_again(Gate):
    gate = Gate(sources=2, readers=1, capacity=16)
    gate.add([1, 3], 0)
    gate.add([2], 1)
    assert keys(drain(gate, 0)) == [(1, 0, 0), (2, 1, 0)]
    assert gate.remove_sources([1])
    assert keys(drain(gate, 0)) == [(3, 0, 1)]
    with pytest.raises(ParameterError, match="j = 1: not a source"):
        gate.add(9, 1)
    assert gate.add_sources([1])
    gate.add([7], 1)
    gate.add([8], 0)
    assert keys(drain(gate, 0)) == [(7, 1, 1)]


@both
def test_example_a_closed_source_that_is_removed_may_come_back(Gate):
    gate = Gate(sources=2, readers=1, capacity=16)
    gate.close(1)
    assert gate.remove_sources([1])
    gate.add([3], 0)
    drain(gate, 0)
    if gate.add_sources([1]):  # its end of input may stand in the way: then it says so
        assert gate.add(max(3, gate.floor(1)), 1) == 1
    assert gate.add(9, 0) == 1


def test_example_both_gates_have_the_same_kernels():
    """A compiled worker is written for one and put on the other by its name."""
    only = {"LogArrays", "unread_rows"}  # the latter is asked by instances that pass results on, into a log
    assert set(merged_log_kernel.__all__) - only == set(scalegate_kernel.__all__) - {"ScaleGateArrays"}
    for kernels in (merged_log_kernel, scalegate_kernel):
        cells = [getattr(kernels, n) for n in ("END", "FLAG", "AGAIN", "FLOOR", "LAST_TS", "LIMIT", "LAST_SOURCE",
            "CONTROL_FLAG", "PROPOSED", "CONFIRMED", "POOL_SHIFT") if hasattr(kernels, n)]  # fmt: skip
        shared = [getattr(membership_kernel, n) for n in ("VERSION", "READERS_WAITING", "SOURCES_WAITING", "BOUND", "BOUND_NS")]
        assert len({*cells, *shared}) == len(cells) + len(shared)


@both
def test_example_memory_is_bounded(Gate):
    """A million tuples through a gate of 64: the arrays are used round and round."""
    gate = Gate(sources=2, readers=2, capacity=64)
    kernels, g = gate._kernels, gate.arrays
    count = 20_000
    ts = np.arange(count, dtype=np.int64)
    done, position, seen = [0, 0], [0, 0], [[], []]
    while min(position) < 2 * count - 1:
        for s in (0, 1):
            done[s] += gate._sources.add(g, s, ts, done[s], min(50, count - done[s]), done[s])
        for r in (0, 1):
            start, n = kernels.peek(g, r, position[r], 40)
            row = kernels.lane(g, r)
            seen[r].append(g.out_ref[row, start : start + n].copy())
            position[r] += n
            kernels.advance(g, r, position[r])
    expected = np.ravel([np.arange(count), (1 << SOURCE_SHIFT) + np.arange(count)], order="F")[: 2 * count - 1]
    for r in (0, 1):
        assert np.array_equal(np.concatenate(seen[r]), expected)


@both
@pytest.mark.parametrize("sources", [1, 2])
def test_example_a_lost_wake_up_is_counted(Gate, sources):
    """A thread that sleeps until the time is over is counted if it should have been woken, and only then."""
    gate = Gate(sources=sources, readers=1, capacity=16)
    waiting = source_kernels("log" if Gate is MergedLog else "scalegate")
    words, stop = gate.arrays.words, np.zeros(1, np.int64)
    for source in reversed(range(sources)):
        while gate.add(1 + source, source):
            pass

    def sleep(ticket):
        waiting.sleep_unless(gate.arrays, 0, ticket, 0, stop)
        return words[membership_kernel.LOST_WAKEUPS], words[membership_kernel.SOURCES_WAITING]

    assert sleep(waiting.announce(gate.arrays)) == (0, 0), "the gate is still full"
    ticket = waiting.announce(gate.arrays)
    words[membership_kernel.SOURCES_WAITING] -= 1  # as if it had not announced itself
    drain(gate, 0)
    words[membership_kernel.SOURCES_WAITING] += 1
    assert sleep(ticket) == (1, 0)
    for source in reversed(range(sources)):
        while gate.add(3 + source, source):
            pass
    ticket = waiting.announce(gate.arrays)
    drain(gate, 0)
    assert sleep(ticket) == (1, 0), "it was woken"


# -- bad arguments -----------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    "name, value",
    [
        *[(n, v) for n in ("sources", "readers", "capacity") for v in (0, -1, 1.5, "2", None, True)],
        ("max_sources", 0),
        ("max_readers", 1.0),
        ("bound", 0),
        ("bound", 17),
        ("bound_ns", -1),
    ],
)
def test_example_a_bad_size_names_its_parameter(Gate, name, value):
    with pytest.raises(ParameterError, match=f"^{name} = "):
        Gate(**{"sources": 1, "readers": 1, "capacity": 16, name: value})


@both
@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda g: g.add(1, 2), ParameterError, "^j = 2: out of range; give 0 to 1"),
        (lambda g: g.add(1, True), ParameterError, "^j = True"),
        (lambda g: g.add(1.5, 0), ParameterError, "^t = 1.5"),
        (lambda g: g.add("now", 0), ParameterError, "^t = 'now'"),
        (lambda g: g.add(END_OF_TIME, 0), EventTimeError, "^t = "),
        (lambda g: g.add(-(2**62), 0), EventTimeError, "^t = "),
        (lambda g: g.add([2, 1], 0), DisorderError, "2 comes before 1 at source 0; sort each source"),
        (lambda g: (g.add(5, 0), g.add(4, 0)), DisorderError, "below 5"),
        (lambda g: (g.heartbeat(0, 5), g.add(4, 0)), DisorderError, "below 5"),
        (lambda g: (g.close(0), g.add(4, 0)), ParameterError, "closed"),
        (lambda g: (g.close(0), g.close(0)), ParameterError, "closed"),
        (lambda g: g.heartbeat(0, END_OF_TIME), ParameterError, "^ts = "),
        (lambda g: g.get(5), ParameterError, "^j = 5"),
        (lambda g: g.get(-1), ParameterError, "^j = -1"),
        (lambda g: g.control(0), ParameterError, "^epoch = 0"),
        (lambda g: g.add_readers([9], 0), ParameterError, "^readers = 9"),
        (lambda g: g.add_readers(1, 0), ParameterError, "^readers = 1: give a list"),
        (lambda g: (g.remove_readers([0]), g.add_readers([0], 0)), ParameterError, "^j = 0: not a reader"),
        (lambda g: g.remove_readers([-1]), ParameterError, "^readers = -1"),
        (lambda g: g.add_sources([2]), ParameterError, "^sources = 2"),
        (lambda g: g.remove_sources("a"), ParameterError, "^sources = 'a'"),
    ],
)
def test_example_a_bad_argument_names_its_parameter(Gate, call, error, text):
    gate = Gate(sources=2, readers=1, capacity=16)
    with pytest.raises(error, match=text) as caught:
        call(gate)
    assert isinstance(caught.value, InputError)
    # The gate works on.
    assert gate.control(1)
    assert gate.readers in ({0}, set())


# -- oracle ------------------------------------------------------------------------------------------


class Model:
    """Everything in plain lists; a record is ready as the definition says."""

    def __init__(self, sources):
        self.records = [[] for _ in range(sources)]  # (ts, position, what)
        self.mark = [MIN_TIME] * sources

    def ready(self):
        limit = min((m, s) for s, m in enumerate(self.mark))
        every = sorted((t, s, p, what) for s, rs in enumerate(self.records) for p, (t, what) in enumerate(rs))
        return [(t, what) for t, s, _, what in every if (t, s) <= limit]


@st.composite
def scripts(draw):
    sources, readers = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    actions = st.one_of(
        st.tuples(st.just("add"), st.integers(0, sources - 1), st.lists(st.integers(0, 3), min_size=1, max_size=5)),
        st.tuples(st.just("heartbeat"), st.integers(0, sources - 1), st.integers(0, 6)),
        st.tuples(st.just("read"), st.integers(0, readers - 1), st.integers(1, 6)),
        st.tuples(st.just("control"), st.none(), st.none()),
    )
    capacity = draw(st.sampled_from([1, 3, 8, 100]))
    return sources, readers, capacity, draw(st.integers(-50, 50)), draw(st.lists(actions, max_size=60))


@both
@pytest.mark.parametrize("sources", [2, 3, 5])
@pytest.mark.parametrize("block", [1, 7, 40])
def test_oracle_long_runs_of_one_source(Gate, sources, block):
    """Sources that take turns in blocks of time, equal times at the seams: runs are moved as a whole."""
    rng = np.random.default_rng(block)
    ts = np.sort(rng.integers(0, 200, 600))
    owner = rng.integers(0, sources, 600)[np.arange(600) // block]
    streams = [ts[owner == s].tolist() for s in range(sources)]
    gate = Gate(sources, 1, 1024)
    for s, times in enumerate(streams):
        assert gate.add(times, s) == len(times)
        gate.close(s)
    assert keys(drain(gate, 0)) == merged(*streams)


@pytest.mark.slow
@both
@settings(max_examples=120, deadline=None)
@given(script=scripts())
def test_oracle_random_calls(Gate, script):
    """Prefix property: what a reader has got is a prefix of the model's order, controls aside."""
    sources, readers, capacity, first, actions = script
    gate, model = Gate(sources, readers, capacity), Model(sources)
    now = [first] * sources
    rows = [0] * sources
    got = [[] for _ in range(readers)]
    epochs = 0
    closed = [False] * sources

    def read(reader, most):
        for _ in range(most):
            record = gate.get(reader)
            if record is None:
                return False
            what = ("control", record.epoch) if record.epoch else (record.ts, record.ref)
            got[reader].append(what)
        return True

    for what, who, value in actions:
        if what == "add":
            times = [int(t) for t in now[who] + np.cumsum(value)]
            taken = gate.add(times, who)
            for t in times[:taken]:
                model.records[who].append((t, who << SOURCE_SHIFT | rows[who]))
                rows[who] += 1
                now[who] = model.mark[who] = t
        elif what == "heartbeat":
            ts = now[who] + value
            news = ts > model.mark[who]
            if gate.heartbeat(who, ts) and news:
                model.records[who].append((ts, HEARTBEAT))
                now[who] = model.mark[who] = ts
        elif what == "read":
            read(who, value)
        elif gate.control(epochs + 1):
            epochs += 1
    while not all(closed):
        for s in range(sources):
            if not closed[s] and gate.close(s):
                closed[s] = True
                model.records[s].append((END_OF_TIME, HEARTBEAT))
                model.mark[s] = END_OF_TIME + 1
        for reader in range(readers):
            read(reader, 1 << 30)
    before = None
    while before != (before := [len(records) for records in got]):
        for reader in range(readers):
            read(reader, 1 << 30)
    expected = model.ready()
    for records in got:
        assert [r for r in records if r[0] != "control"] == expected
        assert [r[1] for r in records if r[0] == "control"] == list(range(1, epochs + 1))
        assert records == got[0]


@both
@settings(max_examples=40, deadline=None)
@given(
    streams=st.lists(st.lists(st.integers(0, 9), max_size=12).map(sorted), min_size=2, max_size=4),
    late=st.lists(st.integers(0, 9), min_size=1, max_size=6).map(sorted),
    when=st.integers(0, 10),
)
def test_oracle_sources_and_readers_come_and_go(Gate, streams, late, when):
    """One more source joins after `when` reads and leaves again; a reader joins with it."""
    count = len(streams)
    gate = Gate(count, 1, 64, max_sources=count + 1, max_readers=2)
    for s, ts in enumerate(streams):
        gate.add([t for t in ts if t < 5], s)
        gate.heartbeat(s, 5)
    got = [gate.get(0) for _ in range(when)]
    got = [r for r in got if r is not None]
    assert gate.add_sources([count]) and gate.add_readers([1], 0)
    met = len(got)
    floor = gate.floor(count)
    added = [max(t, floor) for t in late]
    gate.add(added, count)
    for s, ts in enumerate(streams):
        gate.add([t for t in ts if t >= 5], s)
        gate.close(s)
    assert gate.remove_sources([count])
    got += drain(gate, 0)
    assert drain(gate, 1) == got[met:]
    assert keys(got) == merged(*streams, added)
    assert got[-1].is_end


# -- exactly one of concurrent callers ---------------------------------------------------------------


@both
@pytest.mark.parametrize("method", ["add_readers", "remove_readers", "add_sources", "remove_sources"])
def test_example_exactly_one_of_concurrent_callers_succeeds(Gate, method):
    """Eight threads call the same; Table II: one gets True."""
    for _ in range(40):
        gate = Gate(sources=4, readers=4, capacity=8, max_sources=8, max_readers=8)
        chosen = [4, 5] if method.startswith("add") else [2, 3]
        arguments = (chosen, 0) if method == "add_readers" else (chosen,)
        gathering = threading.Barrier(8)
        results = []

        def call(gate=gate, arguments=arguments, gathering=gathering, results=results):
            gathering.wait()
            results.append(getattr(gate, method)(*arguments))

        threads = [threading.Thread(target=call, daemon=True) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(results) == [False] * 7 + [True]
        members = gate.readers if "readers" in method else gate.sources
        assert members == ({0, 1, 2, 3, 4, 5} if method.startswith("add") else {0, 1})


def test_example_cells_are_padded():
    for gate in (MergedLog(2, 2, 8), ScaleGate(2, 2, 8)):
        assert CELL * 8 == 128
        for name in ("mark", "cursor", "reading", "feeding"):
            cells = getattr(gate.arrays, name)
            assert cells.size == 2 * CELL and cells.ctypes.data % 128 == 0, name
