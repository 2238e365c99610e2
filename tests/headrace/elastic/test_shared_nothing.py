"""Shared-nothing parallelism: the same results as VSN, by copying tuples and moving state.

Property    ``mode="sn"`` gives `headrace.reference`'s rows in its order, bit for
            bit, for aggregates, forward, joins and custom operators, any number
            of threads, planned and live reconfigurations, capacities and gates;
            what was copied and moved is reported, and is nothing under VSN
Oracle      `headrace.reference`; VSN where the input is too long for it
Cannot see  what copying costs: that is a benchmark

One key, windows of size 10 that advance by 5: two window instances, so that is
what moves when the key's bucket does::

    time      0        5        10       15
    l = -1  ----------------------)
    l =  0    [-------------------)
    tuple     a
"""

import random
import threading

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import reference
from headrace.control.mapping import Mapping
from headrace.errors import FunctionError
from headrace.ingress import store
from headrace.ingress.keys import KeyDictionary
from headrace.references import BUCKETS
from headrace.windows import Window
from support.workloads import (
    SEEDED,
    SHAPES,
    Steered,
    assert_same,
    draw_workload,
    eventually,
    examples,
    processed,
    rows_of,
    steer,
)

DRAWN = settings(SEEDED, max_examples=examples(20))
COUNTS = SHAPES[1]
MIXED = next(shape for shape in SHAPES if shape.name.startswith("mixed"))
SINGLE = SHAPES[0]
SN = {"mode": "sn", "max_threads": 8}
CAPACITIES = st.sampled_from([1, 16, 1 << 14])


@st.composite
def schedules(draw, last=120):
    """Planned changes: (tuple count, threads), some beyond the input, some at the same place."""
    places = sorted(draw(st.lists(st.integers(0, last), max_size=5)))
    return [(place, draw(st.integers(1, 8))) for place in places]


def only(run):
    """Metrics of the only operator."""
    (metrics,) = run.metrics().operators.values()
    return metrics


def finished(query, **options):
    """Run to the end; the result and the metrics."""
    with query.start(**options) as run:
        assert run.wait(180)
        return run.to_arrow(), run


def steered(tables, draw):
    """The tables as sources whose batches the test lets through."""
    return [Steered(table, [draw.randint(1, 40) for _ in range(8)]) for table in tables]


def scattered(draw):
    """Members, and a mapping that gives each bucket to any of them: small inputs meet all, too."""
    members = sorted(draw.sample(range(8), draw.randint(1, 8)))
    return {"threads": members, "mapping": Mapping([draw.choice(members) for _ in range(BUCKETS)])}


def lived(query, inputs, draw, **options):
    """Run it while batches come in a drawn order and changes are asked for, and waited for or not."""
    turns = [source for source in inputs for _ in range(source.batches)]
    draw.shuffle(turns)
    with query.start(**SN, **scattered(draw), **options) as run:
        for source in turns:
            source.let()
            if draw.random() < 0.6:
                request = scattered(draw)
                if draw.random() < 0.3:
                    del request["mapping"]
                change = steer(run, **request)
                if draw.random() < 0.5 and change is not None:
                    change.wait(180)
                    assert change.is_settled
        assert run.wait(180)
        for change in run.changes:
            assert change.outcome in ("done", "no change", "superseded", "unneeded")
        return run.to_arrow()


# ------------------------------------------------------------------ aggregates


@pytest.mark.slow
@pytest.mark.parametrize("shape", [COUNTS, MIXED, SINGLE], ids=str)
@DRAWN
@given(seed=st.integers(0, 2**32), threads=st.integers(1, 8), schedule=schedules(), capacity=CAPACITIES)
def test_oracle_aggregates(shape, seed, threads, schedule, capacity):
    workload = draw_workload(shape, seed)
    workload.assert_right(
        workload.query().to_arrow(threads=threads, reconfigure=schedule, capacity=capacity, **SN)
    )


@pytest.mark.slow
@DRAWN
@given(seed=st.integers(0, 2**32), threads=st.integers(1, 8), schedule=schedules())
def test_oracle_aggregates_behind_the_skip_list(seed, threads, schedule):
    workload = draw_workload(COUNTS, seed)
    workload.assert_right(
        workload.query().to_arrow(threads=threads, reconfigure=schedule, gate="scalegate", **SN)
    )


@pytest.mark.slow
@DRAWN
@given(seed=st.integers(0, 2**32))
def test_oracle_aggregates_reconfigured_live(seed):
    draw = random.Random(seed)
    workload = draw_workload(MIXED, seed, most_rows=200)
    inputs = steered(workload.tables(), draw)
    workload.assert_right(lived(workload.query(inputs), inputs, draw))


@pytest.mark.slow
def test_agree_long_input_of_words():
    """Private stores beyond one chunk (16,384 rows) and one key buffer, nulls that begin late, queues that fill."""
    draw = random.Random(11)
    tables = []
    for source in range(2):
        ts = sorted(draw.randrange(9_000) for _ in range(30_000))
        words = [
            [f"w{int(draw.paretovariate(0.6)) % 3_000}" for _ in range(draw.choice([0, 1, 4, 30]))]
            for _ in ts
        ]
        late = [
            None if i > 20_000 * source and draw.random() < 0.1 else draw.randint(-9, 9)
            for i in range(30_000)
        ]
        tables.append(
            pa.table(
                {"ts": ts, "tags": words, "v": pa.array(late, pa.int64()), "x": pa.array(map(float, ts))}
            )
            .append_column("y", pa.array(range(30_000), pa.float32()))
            .append_column("flag", pa.array([w != [] for w in words]))
        )
    query = hr.stream(tables, event_time="ts").key_by(tag=hr.each("tags")).window(200, 100)
    query = query.aggregate(**MIXED.built())
    wanted = rows_of(query.to_arrow(threads=2))
    changes = [(5_000, 8), (5_001, 7), (5_002, 2), (25_000, 1), (52_000, 4), (59_999, 3), (60_000, 5)]
    result, run = finished(query, threads=3, reconfigure=changes, **SN)
    assert_same(rows_of(result), wanted, "shared nothing")
    assert [(c.planned_at, c.to_threads, c.outcome) for c in run.changes] == [
        (at, n, "done") for at, n in changes
    ]
    metrics = only(run)
    assert metrics.added == metrics.processed == 60_000
    assert metrics.transferred_bytes == sum(c.transferred_bytes for c in run.changes) > 0


# --------------------------------------------------------- what copying reports


def test_example_duplication_is_the_number_of_owners_of_a_tuple():
    """Four keys in every tuple, one for each of four instances: four copies; one instance: one."""
    keys: dict[int, str] = {}
    for i in range(100):
        keys.setdefault(_bucket(f"k{i}") * 4 // BUCKETS, f"k{i}")
    rows = [list(keys.values()), [], [keys[0]], list(keys.values())]
    table = pa.table({"ts": [0, 1, 2, 3], "tags": rows})
    query = (
        hr.stream(table, event_time="ts")
        .key_by(tag=hr.each("tags"))
        .window(10, 5)
        .aggregate(n_tuples=hr.count())
    )
    assert only(finished(query, threads=4, **SN)[1]).duplication == (4 + 0 + 1 + 4) / 4
    assert only(finished(query, threads=1, **SN)[1]).duplication == (1 + 0 + 1 + 1) / 4
    assert only(finished(query, threads=4, max_threads=8)[1]).duplication == 1.0


def _bucket(text: str) -> int:
    return int(KeyDictionary(("string",), BUCKETS, 1 << 10).encode(pa.array([text]))[0]) % BUCKETS


@pytest.mark.parametrize("mode", ["sn", "vsn"])
def test_example_bytes_of_a_key_that_moves(mode):
    table = pa.table({"ts": [0, 1, 2], "tags": [["a"], ["a"], ["a"]]})
    source = Steered(table, [2])
    query = (
        hr.stream(source, event_time="ts")
        .key_by(tag=hr.each("tags"))
        .window(10, 5)
        .aggregate(n_tuples=hr.count())
    )
    with query.start(threads=[0], max_threads=3, mode=mode) as run:
        source.let()
        eventually(processed(run, 2))
        moved = run.reconfigure(threads=[2]).wait(180)
        same = run.reconfigure(threads=[1, 2], mapping=Mapping([2] * BUCKETS)).wait(180)
        source.let_all()
        assert run.wait(180)
        assert run.to_arrow().to_pydict() == {"ts": [5, 10], "tag": ["a", "a"], "n_tuples": [3, 3]}
        assert (moved.outcome, same.outcome) == ("done", "done")
        # Two window instances, a count of four bytes each.
        assert moved.transferred_bytes == (8 if mode == "sn" else 0)
        assert (moved.transferred_ns > 0) == (mode == "sn")
        assert same.transferred_bytes == 0


@pytest.mark.logic
def test_example_a_router_for_each_source():
    """Three sources, two instances: three routers copy, and the instances see one order."""
    tables = [pa.table({"ts": [s, 10 + s, 20 + s], "k": [f"{i % 2}" for i in range(3)]}) for s in range(3)]
    sources = [Steered(table, [1]) for table in tables]
    query = hr.stream(sources, event_time="ts").key_by("k").window(100).aggregate(n=hr.count(), first=hr.first("ts"))
    with query.start(threads=2, **SN) as run:
        names = [thread.name for thread in threading.enumerate() if "router" in thread.name]
        assert len(names) == len(set(names)) == 3
        for source in sources:
            source.let_all()
        assert run.wait(180)
        assert run.to_arrow().to_pydict() == {"ts": [100, 100], "k": ["0", "1"], "n": [6, 3], "first": [0, 10]}
        assert only(run).duplication == 1.0


def test_example_instances_that_own_nothing_hold_nothing_back():
    """Eight instances, all keys on one, input still open: what is complete comes out."""
    table = pa.table({"ts": list(range(100)), "tags": [["a"]] * 100})
    source = Steered(table, [60])
    query = (
        hr.stream(source, event_time="ts")
        .key_by(tag=hr.each("tags"))
        .window(10, 5)
        .aggregate(n_tuples=hr.count())
    )
    with query.start(threads=8, mapping=Mapping([5] * BUCKETS), **SN) as run:
        source.let()
        # Windows that end by 59: boundaries 5, 10, ..., 55.
        eventually(lambda: run.metrics().tuples_out == 11)
        eventually(lambda: only(run).watermark == 59)
        eventually(lambda: only(run).processed == 60)  # an instance promises before it takes a batch off its queue
        change = run.reconfigure(threads=3)  # with every source idle it is applied at once
        assert change.wait(180).outcome == "done"
        source.let_all()
        assert run.wait(180)
        assert run.to_arrow().num_rows == 21


# --------------------------------------------------------------------- forward


@DRAWN
@given(seed=st.integers(0, 2**32), schedule=schedules(), capacity=CAPACITIES)
def test_oracle_forward(seed, schedule, capacity):
    draw = random.Random(seed)
    workload = draw_workload(COUNTS, seed)
    tables = workload.tables()
    rows = [(row["ts"], s, i) for s, rows in enumerate(workload.sources) for i, row in enumerate(rows)]
    wanted = [rows_of(tables[source].slice(i, 1))[0] for _, source, i in sorted(rows)]
    inputs = steered(tables, draw)
    query = hr.stream(inputs, event_time="ts").forward()
    result = lived(query, inputs, draw, reconfigure=schedule, capacity=capacity)
    assert_same(rows_of(result), wanted, str(workload))


def test_example_forward_holds_nothing_back():
    """Tuples of one time, one after the other to eight instances: all come out while the input is open."""
    source = Steered(pa.table({"ts": [5] * 100}), [60])
    query = hr.stream(source, event_time="ts").forward()
    with query.start(threads=8, mapping=Mapping([i % 7 for i in range(BUCKETS)]), **SN) as run:
        source.let()
        eventually(lambda: run.metrics().tuples_out == 60)
        source.let_all()
        assert run.wait(180)
        assert run.to_arrow().num_rows == 100
        assert only(run).duplication == 1.0
        assert only(run).transferred_bytes == 0


# ----------------------------------------------------------------------- joins

VALUES = st.integers(0, 12)
NULLABLE = st.none() | VALUES


@st.composite
def sides(draw, names, max_rows=60):
    """One or two sources of one side: times with many ties and gaps, columns with nulls."""
    tables = []
    for _ in range(draw(st.integers(1, 2))):
        n = draw(st.integers(0, max_rows))
        gaps = draw(st.lists(st.sampled_from([0, 0, 1, 2, 7]), min_size=n, max_size=n))
        ts, now = [], -40
        for gap in gaps:
            now += gap
            ts.append(now)
        columns = {
            name: pa.array(draw(st.lists(NULLABLE, min_size=n, max_size=n)), pa.int64()) for name in names
        }
        tables.append(pa.table({"ts": pa.array(ts, pa.int64()), **columns}))
    return tables


def joined(lefts, rights, within):
    left, right = hr.stream(lefts, event_time="ts"), hr.stream(rights, event_time="ts")
    return left.join(right, within, hr.band("x", "a", 1))


def _sources(tables):
    return [[(row.pop("ts"), row) for row in table.to_pylist()] for table in tables]


@pytest.mark.slow
@settings(DRAWN, max_examples=15)
@given(
    sides(["x"]),
    sides(["a", "b"]),
    st.sampled_from([1, 5, 30, 1000]),
    schedules(240),
    CAPACITIES,
    st.integers(0, 2**32),
)
def test_oracle_joins(lefts, rights, within, schedule, capacity, seed):
    def near(left, right):
        return left["x"] is not None and right["a"] is not None and abs(left["x"] - right["a"]) <= 1

    wanted = [
        (match.ts, *match.left.values(), *match.right.values())
        for match in reference.join(_sources(lefts), _sources(rights), within, near)
    ]
    draw = random.Random(seed)
    left, right = steered(lefts, draw), steered(rights, draw)
    query = joined(left, right, within)
    result = lived(query, left + right, draw, reconfigure=schedule, capacity=capacity)
    assert rows_of(result) == wanted


@pytest.mark.slow
def test_agree_joins_whose_windows_span_chunks(monkeypatch):
    """Joiners get the window of tuples they never saw, across chunks of the store, with nulls."""

    class LongPast(store.Chunk):
        """Rows nobody wrote are too old for any window, not what the allocator left there."""

        __slots__ = ()

        def __init__(self, *args):
            super().__init__(*args)
            self.ts[:] = -(2**60)

    monkeypatch.setattr(store, "Chunk", LongPast)
    draw = random.Random(2)
    n = 24_000
    ts = [i // 8 for i in range(n)]
    left = pa.table({"ts": ts, "x": pa.array([draw.randrange(40_000) for _ in ts], pa.int64())})
    values = [None if i > 15_000 and draw.random() < 0.01 else draw.randrange(40_000) for i in range(n)]
    right = pa.table({"ts": ts, "a": pa.array(values, pa.int64()), "b": pa.array(ts, pa.int64())})
    query = joined([left], [right], 1_000)
    wanted = query.to_arrow(threads=2)
    assert wanted.num_rows > 1_000
    changes = [(20_000, 3), (22_000, 1), (22_001, 2), (36_000, 1), (40_000, 8), (47_000, 2)]
    result, run = finished(query, threads=1, reconfigure=changes, **SN)
    assert result.equals(wanted)
    moved = [change.transferred_bytes for change in run.changes]
    assert all(moved) and only(run).transferred_bytes == sum(moved)
    # A tuple goes to every member.
    assert 1.0 < only(run).duplication < 8.0


# ---------------------------------------------------------------------- custom

RUNNING_STATE = {"n": "int64", "total": 100, "least": 1e9, "any": False}


def running(state, t, emit):
    state.n += 1
    state.any = state.any or t.v is None
    state.least = min(state.least, t.w)
    if t.v is not None:
        state.total += t.v
        if t.v > 5:
            emit(n=state.n, total=state.total, least=t.w, any=state.any)
            emit(n=-1, total=t.ts, least=0.0, any=True)


def final(key, state, emit):
    emit(n=state.n, total=state.total, least=state.least, any=state.any)


RUNNING = hr.operator(
    state=RUNNING_STATE,
    emits={"n": "int64", "total": "int64", "least": "float64", "any": "bool"},
    update=running,
    output=final,
)
CUSTOM_SCHEMA = pa.schema(
    {"ts": pa.int64(), "tags": pa.list_(pa.string()), "v": pa.int64(), "w": pa.float64()}
)
CUSTOM_ROWS = st.tuples(
    st.integers(-20, 20),
    st.fixed_dictionaries(
        {
            "tags": st.lists(st.sampled_from(["", "a", "b", "B", "é", "ab", "z"]), max_size=4),
            "v": st.none() | st.integers(-5, 9),
            "w": st.sampled_from([0.5, -0.0, 1e300, 0.1]),
        }
    ),
)


@pytest.mark.logic
@pytest.mark.parametrize("slots", [1, 3])
@DRAWN
@given(
    sources=st.lists(st.lists(CUSTOM_ROWS, max_size=25), min_size=1, max_size=3),
    advance=st.integers(1, 6),
    schedule=schedules(50),
    seed=st.integers(0, 2**32),
)
def test_oracle_custom_operators(slots, sources, advance, schedule, seed):
    """Emissions of updates in order of tuples that no instance sees all of; one window at a time, and three."""
    sources = [sorted(source, key=lambda row: row[0]) for source in sources]
    window = Window(slots * advance, advance)
    wanted = [
        (row.ts, row.key, *row.values.values())
        for row in reference.operator(
            [sources], window, reference.each("tags"), state=RUNNING_STATE, update=running, output=final
        )
    ]
    draw = random.Random(seed)
    tables = [
        pa.Table.from_pylist([{"ts": ts, **row} for ts, row in source], CUSTOM_SCHEMA) for source in sources
    ]
    inputs = steered(tables, draw)
    stream = hr.stream(inputs, event_time="ts").key_by(tag=hr.each("tags"))
    query = stream.window(window.size, window.advance).apply(RUNNING)
    result = lived(query, inputs, draw, reconfigure=schedule)
    assert [tuple(row.values()) for row in result.to_pylist()] == wanted


def failing(state, t, emit):
    state.n += 1
    state.total += 12 // t.v


FAILING = hr.operator(
    state={"n": "int64", "total": "int64"}, emits={"n": "int64"}, update=failing, output=None
)


@pytest.mark.slow
def test_example_a_failing_function_shows_the_tuple_itself():
    """Not its copy: the columns the function does not read are shown too."""
    rows = 20_000
    table = pa.table(
        {"ts": list(range(rows)), "k": [i % 7 for i in range(rows)], "v": [i - 19_000 for i in range(rows)],
         "name": [f"row {i}" for i in range(rows)]}
    )  # fmt: skip
    query = hr.stream(table, event_time="ts").key_by("k").window(100).apply(FAILING)
    with query.start(threads=3, **SN) as run:
        with pytest.raises(FunctionError) as caught:
            run.wait(180)
        assert caught.value.function == "failing"
        assert caught.value.tuple["name"] == "row 19000"


# ------------------------------------------------------------ queries, stopping


def test_oracle_two_operators_in_a_row_changed_one_by_one():
    draw = random.Random(8)
    ts = [i // 5 for i in range(4_000)]
    tags = [[f"t{draw.randrange(60)}"] for _ in ts]
    count = {"n_tuples": ("count", None)}
    rows = [(t, {"tags": names}) for t, names in zip(ts, tags, strict=True)]
    first = reference.aggregate([rows], Window(20, 10), reference.each("tags"), count)
    second = reference.aggregate(
        [reference.as_source(first, "tag")], Window(100, 50), reference.column("tag"), count
    )
    source = Steered(pa.table({"ts": ts, "tags": tags}), [400] * 8)
    query = hr.stream(source, event_time="ts").key_by(tag=hr.each("tags")).window(20, 10)
    # A policy for nulls makes its key a set, as the first operator's is: one compiled shape.
    query = query.aggregate(n_tuples=hr.count()).key_by("tag", nulls="drop").window(100, 50)
    with query.aggregate(n_tuples=hr.count()).start(threads=2, **SN) as run:
        first_name, second_name = run.operators
        for step in range(source.batches):
            source.let()
            steer(run[first_name], threads=1 + step % 5)
            steer(run[second_name], threads=1 + (3 * step) % 8)
        assert run.wait(180)
        assert rows_of(run.to_arrow()) == [(row.ts, row.key, *row.values.values()) for row in second]


@pytest.mark.parametrize("where", ["idle", "full"])
def test_example_stopping_leaves_no_thread(where):
    """The router waits for input, or for room in a queue whose reader waits for the sink."""
    # A result for each tuple: more than the rings and the collector hold, so that while the sink waits, everything does.
    table = pa.table({"ts": list(range(0, 1_000_000, 5)), "tags": [["a"]] * 200_000})
    source = Steered(table, [100])
    query = (
        hr.stream(source, event_time="ts")
        .key_by(tag=hr.each("tags"))
        .window(10, 5)
        .aggregate(n_tuples=hr.count())
    )
    gate = threading.Event()
    run = query.start(
        threads=4, capacity=64, sink=lambda batch: gate.wait(180) if where == "full" else None, **SN
    )
    source.let()
    if where == "full":
        source.let_all()
        eventually(lambda: only(run).depth_tuples >= 16)
        threading.Timer(0.2, gate.set).start()
    run.stop()
    assert run.state == "stopped"
    mine = [t.name for t in threading.enumerate() if "aggregate" in t.name and "reader" not in t.name]
    source.let_all()
    assert mine == []
