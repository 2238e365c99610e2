"""What a run says about itself is true while it runs, at its end, and when it fails.

Property    the books balance at every moment: of random queries with filters, late rows, null keys, several sources
            and reconfigurations, under both gates and both modes; workers' times add up to the time that passed;
            what the buckets were given is what was counted
Oracle      rows counted by hand; the clock; a source or sink that the test holds still
Planted     a lost, a doubled, an uncounted row; time and load that nobody books
Cannot see  a wrong count of something that has no second place where it is counted (live keys)
"""

import random
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.elasticity.reconfiguration import Reconfigurer
from headrace.engine.measuring import EXACT_PLACES, count_places
from headrace.engine.port import Port
from headrace.engine.sources import SourceThreads
from headrace.errors import HeadraceError
from headrace.gates import membership_kernel
from headrace.operators import build, membership
from support.workloads import SCHEMA, SEEDED, Steered, eventually, steer

WAYS = [("log", "vsn"), ("scalegate", "vsn"), ("log", "sn"), ("scalegate", "sn")]
DRAWN = settings(SEEDED, max_examples=25)


# -- checks ------------------------------------------------------------------------------------------


def check(metrics, before=None):
    """What must hold of any snapshot, and between two."""
    for name, operator in metrics.operators.items():
        assert operator.balance.holds, f"{name}: {operator.balance}"
        assert 0 <= operator.in_flight == operator.depth_tuples <= operator.balance.in_flight
        assert operator.depth_ms >= 0 and operator.live_windows >= 0
        shares = zip(operator.busy_share, operator.idle_share, operator.blocked_share, strict=True)
        for worker, three in enumerate(shares):
            assert min(three) >= 0 and sum(three) <= 1 + 1e-9
            spent = operator.busy_ns[worker] + operator.idle_ns[worker] + operator.blocked_ns[worker]
            assert sum(three) == pytest.approx(1.0 if spent else 0.0)
        assert 0 <= min(operator.bucket_load) and sum(operator.bucket_load) <= sum(operator.load)
        assert min(operator.watermark_gap.values()) >= 0
        if before is not None:
            then = before.operators[name]
            for counter in ("added", "processed", "results", "updates", "comparisons", "filtered"):
                assert getattr(operator, counter) >= getattr(then, counter), counter
            assert (np.array(operator.bucket_load) >= np.array(then.bucket_load)).all()
    return metrics


def check_end(metrics, rows=None):
    """Nothing is in flight any more, and all load has been given to buckets."""
    check(metrics)
    assert metrics.state == "finished"
    for operator in metrics.operators.values():
        assert operator.balance.in_flight == 0 and operator.added == operator.processed
        assert sum(operator.bucket_load) == sum(operator.load)
        assert operator.live_windows == 0 or operator.comparisons
        assert operator.lost_wakeups == 0, "somebody slept until the time was over beside what it waited for"
    if rows is not None:
        first = next(iter(metrics.operators.values()))
        assert metrics.tuples_in == first.balance.arrived == rows
        assert first.added + first.filtered + metrics.dropped + metrics.set_aside == rows


def watched(run, draw, most_threads=4):
    """Look again and again, and reconfigure now and then, until the run is over."""
    before = None
    while not run.wait(0):
        before = check(run.metrics(), before)
        if draw.random() < 0.2:
            steer(run, threads=draw.choice([1, 2, most_threads, [0, most_threads - 1]]))
        time.sleep(draw.choice([0, 0, 1e-4, 1e-3]))
    return run.metrics()


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
@pytest.mark.parametrize(("gate", "mode"), WAYS)
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


@pytest.mark.parametrize(("gate", "mode"), WAYS)
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


@pytest.mark.parametrize(("gate", "mode"), WAYS)
def test_property_a_saturated_run_loses_no_wake_up(gate, mode):
    """Sources wait for room again and again, and whoever makes room wakes them: no sleep lasts until its time is over."""
    n = 40_000
    tables = [pa.table({"ts": np.arange(n) // 10, "k": np.arange(n) % 500}, SCHEMA_K) for _ in range(2)]
    for sources in (2, 1):
        first = hr.stream(tables[:sources], event_time="ts").filter(hr.col("k") < 400).key_by("k", nulls="drop").window(100, 50)
        query = first.aggregate("first", n=hr.count())
        with query.start(threads=2, max_threads=4, gate=gate, mode=mode, capacity=64) as run:
            metrics = watched(run, random.Random(2))
            gate_arrays = run._operators["first"].gate
        check_end(metrics, n * sources)
        assert gate_arrays.event[membership_kernel.SPACE_EVENT] > 10, "nobody had to wait for room"


SCHEMA_K = pa.schema({"ts": pa.int64(), "k": pa.int64()})


@pytest.mark.parametrize("mode", ["vsn", "sn"])
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
            assert np.ptp(operator.bucket_load) <= 1


# -- time --------------------------------------------------------------------------------------------


def spent(then, now):
    """Busy, idle and blocked ns of each worker between two snapshots of an operator."""
    return [
        [b - a for a, b in zip(getattr(then, f"{kind}_ns"), getattr(now, f"{kind}_ns"), strict=True)]
        for kind in ("busy", "idle", "blocked")
    ]


def two_looks(run, name, seconds=0.3):
    """Two snapshots, and at least and at most how many ns lie between them."""
    marks = [time.monotonic_ns()]
    then = run.metrics()
    marks.append(time.monotonic_ns())
    time.sleep(seconds)
    marks.append(time.monotonic_ns())
    now = run.metrics()
    marks.append(time.monotonic_ns())
    return then.operators[name], now.operators[name], marks[2] - marks[1], marks[3] - marks[0]


def counting(source):
    return hr.stream(source, event_time="ts").key_by("k").window(10).aggregate("counts", n=hr.count())


def an_idle_worker():
    """Two active workers and a parked one; what they do at the moment counts, however long it has lasted."""
    source = Steered(pa.table({"ts": range(1000), "k": [i % 5 for i in range(1000)]}), [500])
    with counting(source).start(threads=2, max_threads=3) as run:
        try:
            source.let()
            eventually(lambda: run.metrics().operators["counts"].processed == 500)
            meter = run._operators["counts"].control.meter
            eventually(lambda: (meter[:2, membership.STATE] == membership.IDLE_NS).all())
            then, now, least, most = two_looks(run, "counts")
            busy, idle, blocked = spent(then, now)
            assert all(least <= ns <= most for ns in idle[:2]) and idle[2] == 0
            assert busy == blocked == [0, 0, 0]
        finally:
            source.let_all()
        assert run.wait(60)


def workers_held_up():
    """The sink waits. Worker 0 owns everything and waits for room in its ring; so worker 1 waits at the barrier."""
    opened = threading.Event()
    table = pa.table({"ts": range(400_000)})
    with hr.stream(table, event_time="ts").forward().start(
        threads=2, max_threads=3, mapping=hr.Mapping([0] * 1024), sink=lambda batch: opened.wait(60)
    ) as run:
        try:
            meter = run._operators["forward"].control.meter

            def is_held_up(worker):
                """For a while: before the buffers behind it are full it waits for moments only."""
                since = time.monotonic_ns() - meter[worker, membership.SINCE]
                return meter[worker, membership.STATE] == membership.BLOCKED_NS and since > 300_000_000

            eventually(lambda: is_held_up(0), 60)
            run.reconfigure(threads=3)
            eventually(lambda: is_held_up(1), 5)
            then, now, least, most = two_looks(run, "forward")
            busy, idle, blocked = spent(then, now)
            assert all(least <= ns <= most for ns in blocked[:2])
            assert busy == idle == [0, 0, 0]
        finally:
            opened.set()
        assert run.wait(60)
        check_end(run.metrics())


def test_example_a_worker_without_input_is_idle():
    an_idle_worker()


def test_example_workers_behind_a_sink_that_waits_are_blocked():
    workers_held_up()


def test_property_every_nanosecond_of_an_active_worker_is_booked_once():
    """Paced, with reconfigurations that leave the members as they are."""
    n = 400_000
    table = pa.table({"ts": np.arange(n) // 10, "k": np.arange(n) % 100})
    with counting(table).start(threads=2, max_threads=2, rate=n / 20) as run:
        eventually(lambda: run.metrics().operators["counts"].processed > 0)
        for i in range(4):
            then, now, least, most = two_looks(run, "counts", 0.1)
            assert all(least <= ns <= most for ns in np.sum(spent(then, now), axis=0))
            run.reconfigure(mapping=hr.Mapping([(b + i) % 2 for b in range(1024)]))
        run.rate = None
        assert run.wait(60)
        at_end = run.metrics()
        time.sleep(0.05)
        later = run.metrics()
        assert (later.at_ns, later.operators["counts"].idle_ns) == (at_end.at_ns, at_end.operators["counts"].idle_ns)


# -- the rest ----------------------------------------------------------------------------------------


def test_example_which_source_holds_time_back():
    """Four tuples of each; then only the left one goes on::

        left    0 1 2 3 ........ 103
        right   0 1 2 3              the window that ends at 10 waits for it
    """
    left = Steered(pa.table({"ts": [0, 1, 2, 3, 100, 101, 102, 103], "k": [1] * 8}), [4])
    right = Steered(pa.table({"ts": [0, 1, 2, 3, 100, 101, 102, 103], "k": [1] * 8}), [4])
    with counting([left, right]).start(threads=2) as run:

        def now():
            return check(run.metrics()).operators["counts"]

        assert now().holds_back is None and set(now().watermark_gap.values()) == {0}
        names = list(now().watermark_gap)
        assert len(set(names)) == 2
        left.let()
        eventually(lambda: now().watermark_gap == {names[0]: 0, names[1]: 3}, 60)  # it has said nothing yet
        assert now().holds_back == names[1]
        right.let()
        eventually(lambda: now().holds_back is None, 60)
        left.let()
        eventually(lambda: now().watermark_gap == {names[0]: 0, names[1]: 100}, 60)
        assert now().holds_back == names[1]
        right.let(2)  # and its end
        eventually(lambda: now().watermark_gap[names[1]] == 0, 60)
        assert now().holds_back is None  # the left one has said as much
        left.let_all()
        assert run.wait(60)


def test_example_windows_and_depth_while_they_wait():
    """Keys 0..9 in windows [0, 10) and [10, 20); then tuples that wait for the other source."""
    first = Steered(pa.table({"ts": [*range(20), 1000], "k": [*range(10)] * 2 + [0]}), [20])
    other = Steered(pa.table({"ts": [15, 2000], "k": [0, 0]}), [1])
    with counting([first, other]).start() as run:

        def now():
            return check(run.metrics()).operators["counts"]

        first.let()
        eventually(lambda: now().added == 20, 60)
        assert now().depth_tuples == 20  # not ready: the other source may still be earlier
        other.let()
        eventually(lambda: now().processed == 17, 60)  # 0..15, and the other's 15; ties go by source
        eventually(lambda: now().depth_tuples == 4, 60)  # a source counts what it added after adding it
        assert now().live_windows == 6 and now().live_keys == 10
        first.let_all()
        other.let_all()
        assert run.wait(60)
        check_end(run.metrics(), 23)


@pytest.mark.parametrize("places", [1, 1000, EXACT_PLACES, EXACT_PLACES + 1, 300_001])
def test_oracle_places_are_counted(places):
    """Exactly while there are few; of many a part is looked at, spread over all of them."""
    present = (np.random.default_rng(places).random(places + 500) < 0.3).astype(np.uint32)
    present[: places // 2] = 1
    true = int(present[:places].sum())
    counted = count_places(present, places)
    assert counted == true if places <= EXACT_PLACES else abs(counted - true) < 0.03 * true
    assert count_places(present, 10**9) >= counted  # no more than there are


@pytest.mark.parametrize("how", ["asked for", "planned"])
def test_example_workers_spin_only_while_a_core_is_free(how, monkeypatch):
    """Two cores: one thread may spin before it sleeps, and nobody may beside another."""
    monkeypatch.setattr(membership.os, "cpu_count", lambda: 2)
    source = Steered(pa.table({"ts": np.arange(40), "k": np.arange(40) % 5}, SCHEMA_K), [10] * 4)
    planned = [(5, 2), (15, 1)] if how == "planned" else []
    query = hr.stream(source, event_time="ts").key_by("k", nulls="drop").window(100, 50).aggregate("first", n=hr.count())
    with query.start(threads=1, max_threads=4, reconfigure=planned) as run:

        def spins():
            return int(run._operators["first"].control.words[membership.SPIN])

        assert spins() == membership.SPINS
        for threads in (2, 1):
            if not planned:
                run.reconfigure(threads=threads)
            source.let()
            eventually(lambda threads=threads: spins() == (0 if threads == 2 else membership.SPINS))
        for _ in range(source.batches - 2):
            source.let()
        assert run.wait(60)


def test_example_a_failed_run_stays_readable():
    def batches():
        yield pa.record_batch({"ts": list(range(100)), "k": [1] * 100})
        raise KeyError("gone")

    with counting(batches()).start(threads=2) as run:
        with pytest.raises(HeadraceError, match="gone"):
            run.wait(60)
        metrics = check(run.metrics())
        assert metrics.state == "failed" and metrics.tuples_in == 100
        assert metrics.operators["counts"].balance.arrived == 100
        assert metrics.to_pandas()["balance_holds"].all()


def test_example_a_handle_gives_its_operators_metrics():
    with counting(pa.table({"ts": range(50), "k": [1] * 50})).start() as run:
        assert run.wait(60)
        assert run["counts"].metrics() == run.metrics().operators["counts"]


# -- what the numbers mean ----------------------------------------------------------------------------


def latency_of_two_results():
    """A window that waits half a second for the tuple that closes it, and a result that waits for the sink."""
    source = Steered(pa.table({"ts": [0, 1, 2, 10, 20], "k": ["a"] * 5}), [3, 1, 1])
    is_taken, may_go_on = threading.Event(), threading.Event()

    def sink(batch):
        is_taken.set()
        assert may_go_on.wait(60)

    query = hr.stream(source, event_time="ts").key_by("k").window(10).aggregate("counts", n=hr.count())
    with query.start(threads=1, sink=sink) as run:
        try:
            source.let()
            eventually(lambda: run.metrics().operators["counts"].processed == 3)
            time.sleep(0.5)
            before = time.monotonic()
            source.let()
            assert is_taken.wait(60)
            at_most = time.monotonic() - before
            first = run.metrics().operators["counts"].latency_ms["max"]
            source.let()
            eventually(lambda: run.metrics().operators["counts"].processed == 5)
            since = time.monotonic()
            time.sleep(0.3)
            at_least = time.monotonic() - since
        finally:
            may_go_on.set()
            source.let_all()
        assert run.wait(60)
        second = run.metrics().operators["counts"].latency_ms["max"]
    # Bins of the histogram are a few per cent wide.
    assert 0 < first <= 1e3 * at_most * 1.1 + 0.1, "not from the tuple that made the result ready"
    assert second >= 1e3 * at_least * 0.9, "not until the result is given out"


def test_example_latency_is_from_the_tuple_that_made_a_result_ready():
    latency_of_two_results()


def balanced_load_and_changes(mode="vsn"):
    """Keys spread evenly, and instances that come and go: the imbalance is that of each configuration."""
    n = 120_000
    table = pa.table({"ts": np.arange(n) // 10, "k": np.random.default_rng(3).integers(0, 20_000, n)})
    query = hr.stream(table, event_time="ts").key_by("k").window(1000).aggregate("counts", n=hr.count())
    for changes in ([(n // 2, 2)], [(n - n // 100, 1)], [(n // 3, 4), (n // 2, 2)]):
        with query.start(threads=4 if changes[0][1] == 1 else 1, max_threads=4, mode=mode, reconfigure=changes) as run:
            assert run.wait(60)
            counts = run.metrics().operators["counts"]
            assert counts.imbalance_cv < 0.1 and 1 <= counts.imbalance_max_mean < 1.2, (changes, counts.imbalance_cv)
    one_key = pa.table({"ts": np.arange(n) // 10, "k": np.zeros(n, np.int64)})
    query = hr.stream(one_key, event_time="ts").key_by("k").window(1000).aggregate("counts", n=hr.count())
    with query.start(threads=1, max_threads=2, mode=mode, reconfigure=[(n // 2, 2)]) as run:
        assert run.wait(60)
        # Half of the load alone, where nothing can be uneven; half with an instance that gets nothing.
        assert run.metrics().operators["counts"].imbalance_cv == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("mode", ["vsn", "sn"])
def test_example_imbalance_is_of_each_configuration(mode):
    balanced_load_and_changes(mode)


def paced():
    """Rows that were read count as input when they are taken, not before."""
    table = pa.table({"ts": range(10_000)})
    with hr.stream(table, event_time="ts").forward().start(rate=400.0, sink=hr.discard()) as run:
        eventually(lambda: run.metrics().tuples_out >= 100)
        metrics = run.metrics()
        assert metrics.tuples_in == 10_000 and metrics.waiting > 5_000
        # The player keeps its rate from the first tuple on, a slice ahead of it at most.
        assert 100 <= metrics.input_per_s <= 1_000, metrics.input_per_s


def test_example_input_rate_of_a_paced_run():
    paced()


def test_example_a_snapshot_in_which_the_run_ends_is_of_its_end(monkeypatch):
    """Else the next one would find that no time had passed for the workers."""
    with counting(pa.table({"ts": range(1000), "k": [0] * 1000})).start(rate=100.0) as run:
        measured = type(run["counts"]._operator).metrics

        def ends_meanwhile(operator, *arguments):
            found = measured(operator, *arguments)
            run.stop()
            return found

        monkeypatch.setattr(type(run["counts"]._operator), "metrics", ends_meanwhile)
        metrics = run.metrics()
        assert metrics.state == "stopped"
        later = run.metrics()
        assert metrics.at_ns == later.at_ns and metrics.seconds == later.seconds
        assert metrics.operators["counts"].idle_ns == later.operators["counts"].idle_ns


def test_planted_loads_that_are_not_noted_at_a_change(monkeypatch):
    monkeypatch.setattr(Reconfigurer, "_note_loads", lambda self: None)
    with pytest.raises(AssertionError):
        balanced_load_and_changes()


def test_planted_an_input_rate_of_what_was_read(monkeypatch):
    monkeypatch.setattr(SourceThreads, "taken", property(lambda self: self.rows))
    with pytest.raises(AssertionError):
        paced()


# -- planted mistakes --------------------------------------------------------------------------------


def plant(monkeypatch, changes):
    """Change the text of the instances' module."""
    whole = build.assemble

    def changed(*arguments):
        text = whole(*arguments)
        for old, new in changes:
            assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times: the mistake is out of date"
            text = text.replace(old, new)
        return text

    monkeypatch.setattr(build, "assemble", changed)


def run_to_the_end():
    """Two workers; one leaves at a planned place, and another joins later."""
    n = 20_000
    table = pa.table({"ts": np.arange(n) // 10, "k": np.arange(n) % 100})
    stream = hr.stream(table, event_time="ts", batch_rows=1000).filter(hr.col("k") < 90).key_by("k").window(10)
    with stream.aggregate("counts", n=hr.count()).start(
        threads=2, max_threads=3, reconfigure=[(n // 3, [0]), (n // 2, [0, 2])]
    ) as run:
        assert run.wait(60)
        check_end(run.metrics(), n)


def a_joiner_without_tuples():
    """A worker that joins when nothing follows has passed what came before it joined."""
    source = Steered(pa.table({"ts": range(1000), "k": [i % 5 for i in range(1000)]}), [500])
    with counting(source).start(threads=1, max_threads=2) as run:
        try:
            source.let()
            eventually(lambda: run.metrics().operators["counts"].processed == 500)
            assert run.reconfigure(threads=2).wait(60).outcome == "done"
            assert check(run.metrics()).operators["counts"].processed == 500
        finally:
            source.let_all()
        assert run.wait(60)


MISTAKES = {
    "latency from the first tuple of a window on": (
        latency_of_two_results,
        [("l[ARRIVAL] = g.out_at[row, start + i]", "l[ARRIVAL] = g.out_at[row, 0]")],
        "not from the tuple",
    ),
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
    "waiting for input is booked as work": (
        an_idle_worker,
        [
            (
                "            turn(c.meter, me, IDLE_NS)\n            await_records",
                "            turn(c.meter, me, BUSY_NS)\n            await_records",
            )
        ],
        "still not so",
    ),
    "waiting at the barrier is booked as work": (
        workers_held_up,
        [("        turn(c.meter, me, BLOCKED_NS)\n        if not await_epoch", "        if not await_epoch")],
        "still not so",
    ),
}


def test_agree_without_a_mistake():
    run_to_the_end()
    a_joiner_without_tuples()


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistake_is_found(monkeypatch, mistake):
    scenario, changes, what = MISTAKES[mistake]
    plant(monkeypatch, changes)
    with pytest.raises(AssertionError, match=what):
        scenario()


def test_planted_a_port_that_loses_a_row(monkeypatch):
    whole = Port.feed

    def feed(port, encoded):
        encoded.ts = encoded.ts[:-1]
        whole(port, encoded)

    monkeypatch.setattr(Port, "feed", feed)
    with pytest.raises(AssertionError, match="still in flight"):
        run_to_the_end()


def test_planted_a_filter_that_does_not_count(monkeypatch):
    whole = Port.encode

    def encode(port, *arguments):
        filtered = port.filtered
        encoded = whole(port, *arguments)
        port.filtered = filtered
        return encoded

    monkeypatch.setattr(Port, "encode", encode)
    with pytest.raises(AssertionError, match="still in flight"):
        run_to_the_end()
