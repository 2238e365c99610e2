"""The books of a run balance at every moment, whatever it does.

Property    arrived = processed + in flight + read ahead + dropped + set aside, of random queries with filters,
            late rows, null keys, several sources and reconfigurations; at full speed under both gates and both modes,
            in the campaign of random queries too; what the buckets were given is what was counted; nobody sleeps
            beside what it waits for
Oracle      rows counted by hand; a source that the test holds still
Planted     a lost, a doubled, an uncounted row; load that nobody books
Cannot see  a wrong count of something that has no second place where it is counted (live keys)
"""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.gates import membership_kernel
from headrace.metrics.balance import Balance
from headrace.runtime.feeding import Feeder
from headrace.runtime.gate_inlet import GateInlet
from support.books import assert_found, check, check_end, counting, watched
from support.campaign import rarely
from support.workloads import SCHEMA, SEEDED, Steered, eventually, steer

WAYS = [("log", "vsn"), ("scalegate", "vsn"), ("log", "sn"), ("scalegate", "sn")]
DRAWN = settings(SEEDED, max_examples=15)


def test_example_books():
    books = Balance(arrived=100, gained=5, processed=60, waiting=7, in_gate=8, dropped=10, set_aside=9, filtered=11)
    assert books.holds and bool(books) and (books.in_flight, books.read_ahead) == (8, 7)
    assert str(books) == (
        "100 arrived + 5 gained = 60 processed + 8 in flight + 7 read ahead + 10 dropped + 9 set aside + 11 filtered"
    )
    assert not Balance(100, 5, 61, 7, 8, 10, 9, 11)
    wrong = Balance(10, 0, 11, -1, 0, 0, 0, 0, ("1 rows were counted that never arrived",))
    assert not wrong.holds and str(wrong).endswith("; 1 rows were counted that never arrived")


# -- random queries ----------------------------------------------------------------------------------


def draw_rows(draw, count, lateness):
    """Times out of order, within the lateness and beyond it."""
    rows = []
    for i in range(count):
        row = dict.fromkeys(SCHEMA.names)
        row |= {
            "ts": i // 3 - draw.randint(0, lateness) - (draw.randint(1, 30) if draw.random() < 0.1 else 0),
            "n": draw.randint(0, 9),
            "home": None if draw.random() < 0.2 else draw.choice("abcdef"),
            "tags": [draw.choice("abcdefgh") for _ in range(draw.randint(0, 4))],
            "v": draw.randint(0, 99),
        }
        rows.append(row)
    return rows


def count_late(rows, lateness):
    """Rows behind the largest time before them by more than the lateness."""
    late, highest = [], None
    for row in rows:
        if highest is not None and row["ts"] < highest - lateness:
            late.append(row)
        highest = row["ts"] if highest is None else max(highest, row["ts"])
    return late


def query_of(draw, sources, keys, lateness, policy, least):
    stream = hr.stream(sources, event_time="ts", lateness=lateness, late=policy, batch_rows=draw.choice([3, 50]))
    if least:
        stream = stream.filter(hr.col("n") >= least)
    keyed = stream.key_by(home="home", nulls="drop") if keys == "home" else stream.key_by(home=hr.each("tags"))
    return keyed.window(8, 4).aggregate("counts", n=hr.count())


@pytest.mark.slow
@pytest.mark.parametrize(("gate", "mode"), [WAYS[0], *rarely(WAYS[3])])
@DRAWN
@given(seed=st.integers(0, 2**32))
def test_property_books_of_random_queries(gate, mode, seed):
    """Sources are let through batch by batch, so the run is looked at while it waits as well as while it works."""
    draw = random.Random(seed)
    lateness, policy = draw.randint(0, 6), draw.choice(["drop", "side"])
    sources = [draw_rows(draw, draw.randint(0, 120), lateness) for _ in range(draw.randint(1, 3))]
    late = [row for rows in sources for row in count_late(rows, lateness)]
    least = draw.choice([0, 0, 5, 10])
    keys = draw.choice(["home", "tags"])
    steered = [Steered(pa.Table.from_pylist(rows, SCHEMA), [draw.randint(1, 40)] * 6) for rows in sources]
    query = query_of(draw, steered, keys, lateness, policy, least)
    threads = draw.randint(1, 4)
    capacity = draw.choice([1, 16, 1 << 14])
    with query.start(threads=threads, max_threads=4, gate=gate, mode=mode, capacity=capacity) as run:
        before = None
        for source in draw.sample(steered, len(steered)):
            for _ in range(source.batches):
                source.let()
                before = check(run.metrics(), before)
                if draw.random() < 0.2:
                    steer(run, threads=draw.choice([1, 2, 4, [0, 3]]))
        metrics = watched(run, draw)
    check_end(metrics, sum(map(len, sources)))
    counts = metrics.operators["counts"]
    assert (metrics.dropped, metrics.set_aside) == ((len(late), 0) if policy == "drop" else (0, len(late)))
    is_late = {id(row) for row in late}
    on_time = [row for rows in sources for row in rows if id(row) not in is_late]
    kept = [row for row in on_time if row["n"] >= least]
    assert (counts.filtered, counts.added) == (len(on_time) - len(kept), len(kept))
    if keys == "home":
        assert counts.null_keys == sum(row["home"] is None for row in kept)
        assert counts.updates == 2 * sum(row["home"] is not None for row in kept)


@pytest.mark.slow
@pytest.mark.parametrize(("gate", "mode"), [WAYS[0], WAYS[3]])
def test_property_books_at_full_speed(gate, mode):
    """Many tuples, looked at as often as can be, while threads come and go; two sources, two operators."""
    n = 150_000
    tables = [pa.table({"ts": np.arange(n) // 10, "k": np.arange(n) % 500}, SCHEMA_K) for _ in range(2)]
    first = hr.stream(tables, event_time="ts").filter(hr.col("k") < 400).key_by("k", nulls="drop").window(100, 50)
    second = first.aggregate("first", n=hr.count()).filter(hr.col("n") > 0).key_by("n", nulls="drop").window(100, 50)
    query = second.aggregate("second", m=hr.count())
    with query.start(threads=2, max_threads=4, gate=gate, mode=mode, rate=2 * n) as run:
        metrics = watched(run, random.Random(1))
    check_end(metrics, 2 * n)
    one, two = metrics.operators["first"], metrics.operators["second"]
    assert one.filtered == 2 * n // 5 and one.updates == 2 * one.added
    assert two.balance.arrived == one.results and two.added + two.filtered == one.results


@pytest.mark.parametrize(("gate", "mode"), [WAYS[0], WAYS[3], *rarely(WAYS[1], WAYS[2])])
def test_property_a_saturated_run_loses_no_wake_up(gate, mode):
    """Sources wait for room again and again, and the reader that makes room wakes them: no sleep ends by its time-out."""
    n = 40_000
    tables = [pa.table({"ts": np.arange(n) // 10, "k": np.arange(n) % 500}, SCHEMA_K) for _ in range(2)]
    for sources in (2, 1):
        first = hr.stream(tables[:sources], event_time="ts").filter(hr.col("k") < 400).key_by("k", nulls="drop").window(100, 50)
        query = first.aggregate("first", n=hr.count())
        with query.start(threads=2, max_threads=4, gate=gate, mode=mode, capacity=64) as run:
            metrics = watched(run, random.Random(2))
            gate_arrays = run._operators["first"].section.gate
        check_end(metrics, n * sources)
        assert gate_arrays.event[membership_kernel.SPACE_EVENT] > 10, "nobody had to wait for room"


SCHEMA_K = pa.schema({"ts": pa.int64(), "k": pa.int64()})


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["vsn", *rarely("sn")])
def test_property_books_of_joins_forwarding_and_functions(mode):
    """Every kind of operator, and a flat_map that makes rows."""
    n = 20_000
    left = pa.table({"ts": np.arange(n), "x": np.arange(n) % 97})
    right = pa.table({"ts": np.arange(n), "a": np.arange(n) % 89})
    sides = hr.stream(left, event_time="ts"), hr.stream(right, event_time="ts")

    def update(state, t, emit):
        state.most = max(state.most, t.x)

    def output(key, state, emit):
        emit(most=state.most)

    def twice(t, emit):
        if t.x < 9:
            emit(again=t.x)
            emit(again=t.x)

    largest = hr.operator(state={"most": "int64"}, emits={"most": "int64"}, update=update, output=output)
    queries = {
        "join": sides[0].join(sides[1], 200, hr.band("x", "a", 1), index=False),
        "forward": sides[0].flat_map(twice, again="int64").forward(),
        "custom": sides[0].key_by("x").window(500, 250).apply(largest),
    }
    for kind, query in queries.items():
        with query.start(threads=2, max_threads=3, mode=mode, reconfigure=[(n // 2, 3)]) as run:
            metrics = watched(run, random.Random(2), 3)
        check_end(metrics)
        (operator,) = metrics.operators.values()
        assert operator.updates > 0, kind
        ready, latest = operator.latency_ms, operator.latest_latency_ms
        assert latest == ({} if kind == "custom" else ready)
        if kind == "join":
            assert operator.comparisons > 10 * n and operator.state_bytes > 0
            assert min(operator.bucket_load) > 0.5 * max(operator.bucket_load)
        if kind == "forward":
            once = int((np.arange(n) % 97 < 9).sum())
            assert operator.balance.gained + n == operator.added + operator.filtered and operator.added == 2 * once
            assert np.ptp(operator.bucket_load) <= 2  # one more or less for each of the two mappings


# -- planted mistakes --------------------------------------------------------------------------------


def run_to_the_end():
    """Two workers; one leaves at a planned place, and another joins later."""
    n = 8_000
    table = pa.table({"ts": np.arange(n) // 10, "k": np.arange(n) % 100})
    stream = hr.stream(table, event_time="ts", batch_rows=1000).filter(hr.col("k") < 90).key_by("k").window(10)
    with stream.aggregate("counts", n=hr.count()).start(
        threads=2, max_threads=3, reconfigure=[(n // 3, [0]), (n // 2, [0, 2])]
    ) as run:
        assert run.wait(180)
        check_end(run.metrics(), n)


def a_joiner_without_tuples():
    """A worker that joins when nothing follows has passed what came before it joined."""
    source = Steered(pa.table({"ts": range(1000), "k": [i % 5 for i in range(1000)]}), [500])
    with counting(source).start(threads=1, max_threads=2) as run:
        try:
            source.let()
            eventually(lambda: run.metrics().operators["counts"].processed == 500)
            assert run.reconfigure(threads=2).wait(180).outcome == "done"
            assert check(run.metrics()).operators["counts"].processed == 500
        finally:
            source.let_all()
        assert run.wait(180)


MISTAKES = {
    "a tuple is skipped": (
        run_to_the_end,
        [("            l[SEEN] += n\n        elif", "            l[SEEN] += max(1, n - 1)\n        elif")],
        "still in flight",
    ),
    "a tuple counts twice": (
        run_to_the_end,
        [("        c.meter[me, PASSED] = l[SEEN]  #", "        c.meter[me, PASSED] = l[SEEN] + 1  #")],
        "never added",
    ),
    "a joiner does not say where it begins": (
        a_joiner_without_tuples,
        [("                c.meter[r, PASSED] = l[SEEN]\n", "")],
        "neither processed nor in the gate",
    ),
    "a leaver keeps load that no bucket got": (
        run_to_the_end,
        [("    settle_load(me, c, config)\n", ""), (">= LOAD_EVERY_NS:", ">= 10**18:")],
        "bucket_load",
    ),
    "load is given twice": (
        run_to_the_end,
        [
            (
                "                settle_load(me, c, l[IN_FORCE])\n",
                "                settle_load(me, c, l[IN_FORCE])\n                c.load[me, 0] += 1\n",
            )
        ],
        "bucket_load",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistake_is_found(monkeypatch, hangs_are_short, mistake):
    assert_found(monkeypatch, *MISTAKES[mistake])


def test_agree_without_a_mistake():
    run_to_the_end()
    a_joiner_without_tuples()


def test_planted_a_port_that_loses_a_row(monkeypatch):
    whole = GateInlet.encode

    def encode(inlet, *arguments):
        for piece in whole(inlet, *arguments):
            piece.ts = piece.ts[:-1]
            yield piece

    monkeypatch.setattr(GateInlet, "encode", encode)
    with pytest.raises(AssertionError, match="still in flight"):
        run_to_the_end()


def test_planted_a_filter_that_does_not_count(monkeypatch):
    whole = Feeder.encode

    def encode(feed, *arguments):
        filtered = feed.books.filtered
        encoded = whole(feed, *arguments)
        feed.books.filtered = filtered
        return encoded

    monkeypatch.setattr(Feeder, "encode", encode)
    with pytest.raises(AssertionError, match="still in flight"):
        run_to_the_end()
