"""What `update` emits, passed on to the next operator's gate: the bytes that the collector gives.

Property    where windows do not overlap, results that `update` emits, ahead of the watermark, are passed on as those of
            `output` are: results, types and order are those of `passing="collector"`, for any threads and changes of them at
            both operators; nobody waits for ever, however many results there are of one window; what cannot be passed on is
            not, and says why
Oracle      the run through collectors; `headrace.reference` for custom operators in test_custom.py
Planted     here: results taken by the ticks of the rings; a gate that puts them in order of event time
Cannot see  the kernels between the two under each schedule: test_passing_interleave.py
"""

import random

import pyarrow as pa
import pytest

import headrace as hr
from headrace.elastic.aggregate.compiled import CompiledAggregate
from headrace.elastic.custom.compiled import CompiledCustom
from headrace.elastic.section import OUTPUT_CAPACITY, ElasticSection
from support.books import changed_and_watched, check_end
from support.passing import GATE, both_ways, check_is_collected, check_is_passed, check_stops_in_the_middle
from support.workloads import HANG_S, Steered, eventually


def table(rows=3_000, seed=1, keys=8, span=6_000):
    draw = random.Random(seed)
    ts = sorted(draw.randrange(-span // 2, span // 2) for _ in range(rows))
    return pa.table({
        "ts": ts,
        "k": [draw.choice("äbc") + str(draw.randrange(keys)) for _ in ts],
        "j": pa.array([draw.randrange(5) for _ in ts], pa.int32()),
        "v": [draw.choice([None, *range(-9, 9)]) for _ in ts],
    })  # fmt: skip


def alarm(state, t, emit):
    state.n += 1
    if t.v is not None and t.v > state.largest:
        state.largest = t.v
        emit(n=state.n, v=t.v, share=t.v / state.n, up=t.v > 0)


def rest(key, state, emit):
    if state.n % 2 == 0:
        emit(n=-state.n, v=state.largest, share=0.5, up=state.n > 2)


def of_kept(state, t, emit):
    emit(n=len(state.tuples), v=t.ts, share=0.0, up=t.v is not None and t.v > 0)


STATE, EMITS = {"n": "int64", "largest": -100}, {"n": "int64", "v": "int64", "share": "float64", "up": "bool"}
UPDATE = hr.operator(state=STATE, emits=EMITS, update=alarm, name="upper")
BOTH = hr.operator(state=STATE, emits=EMITS, update=alarm, output=rest, name="upper")
KEPT = hr.operator(emits=EMITS, update=of_kept, keep_tuples=True, name="upper")


def upper(source, size=20, operator=BOTH, **options):
    return hr.stream(source, event_time="ts").key_by("k", "j").window(size, **options).apply(operator)


LOWER = {
    "rows": hr.count(), "n": hr.sum("n"), "v": hr.sum("v"), "least": hr.min("n"), "mean": hr.mean("v"),
    "middle": hr.median("n"), "sets": hr.collect_set("v"), "shares": hr.count_distinct("share"),
}  # fmt: skip
BELOW = {
    "the same key": lambda s: s.key_by("k", "j").window(300, 100).aggregate("lower", **LOWER),
    "another key": lambda s: s.key_by("j").window(300, 100).aggregate("lower", **LOWER),
    "no key, short windows": lambda s: s.window(7).aggregate("lower", **LOWER),
    "filter and select": lambda s: s.filter((hr.col("n") > 1) & (hr.col("share") >= 0))
    .select("ts", "k", p="v", n="n").key_by("k").window(200).aggregate("lower", p=hr.max("p"), n=hr.sum("n")),
    "a bool decides": lambda s: s.filter(hr.col("up")).key_by("k", "j").window(300, 100).aggregate("lower", **LOWER),
}  # fmt: skip
WINDOWS = {
    "tumbling": {},
    "single": {"advance": 5, "instances": "single"},
    "of update alone": {"operator": UPDATE},
    "kept tuples, single": {"advance": 10, "operator": KEPT, "instances": "single"},
}


PAIRS = [
    pytest.param(window, below, marks=() if window == "tumbling" or below == "the same key" else pytest.mark.campaign)
    for window in WINDOWS for below in BELOW
]  # fmt: skip
"""All; `make test` takes each window and each operator below at least once, as each pair is compiled anew."""


@pytest.mark.slow
@pytest.mark.parametrize(("window", "below"), PAIRS)
def test_agree_with_the_collector(window, below):
    query = BELOW[below](upper(table(), **WINDOWS[window]))
    assert both_ways(query, threads=3).num_rows > 5
    check_is_passed(query, rows=3_000)


@pytest.mark.logic
def test_agree_on_one_thread():
    """The gate has one source, which is in order by itself."""
    query = BELOW["the same key"](upper(table(500)))
    assert query.to_arrow(**GATE).equals(query.to_arrow(passing="collector"))


@pytest.mark.slow
@pytest.mark.parametrize("keys", [1, 40])
def test_agree_more_results_of_one_window_than_a_ring_holds(keys):
    """They come before the window ends: the instance that writes them has to go on, and so has one that has none."""
    n = 3 * OUTPUT_CAPACITY
    ts = [i * 5 // n for i in range(n)] + [2_000]
    many = pa.table({
        "ts": ts, "k": [f"k{i % keys}" for i in range(n + 1)], "j": pa.array([1] * (n + 1), pa.int32()), "v": range(n + 1),
    })  # fmt: skip
    query = BELOW["the same key"](upper(many, 1_000, operator=UPDATE))
    assert sum(both_ways(query, threads=2)["rows"].to_pylist()) == 3 * (n + 1)


@pytest.mark.slow
def test_agree_planned_changes():
    changes = [(0, [3]), (1, [0, 1]), (200, 4), (201, [2]), (499, [2, 3]), (10**9, 1)]
    both_ways(BELOW["another key"](upper(table(500), 400)), threads=2, max_threads=4, reconfigure=changes)


@pytest.mark.slow
@pytest.mark.parametrize("window", ["tumbling", "single"])
@pytest.mark.parametrize(
    ("size", "below"), [(20, "the same key"), (20, "a bool decides"), (5_000, "the same key"), (5_000, "a bool decides")]
)
def test_agree_while_both_operators_are_reconfigured(window, size, below):
    """In long windows, results are far ahead of the watermark when instances join, leave and come back."""
    draw = random.Random(1)
    given = table(20_000, 1, span=40_000)
    source = Steered(given, [50] * 400)
    options = WINDOWS[window] | {"size": size}
    query = BELOW[below]
    with query(upper(source, **options)).start(threads=2, max_threads=4, **GATE) as run:
        last = changed_and_watched(run, [source], draw)
    check_end(last, rows=20_000)
    assert run.to_arrow().equals(query(upper(given, **options)).to_arrow(passing="collector"))


@pytest.mark.slow
def test_agree_a_key_lives_as_long_as_any_window_has_it(monkeypatch):
    from headrace.ingress import keys

    monkeypatch.setattr(keys, "_LEAST_RECYCLED", 16)
    ts = list(range(0, 60_000, 3))
    parts = pa.table({
        "ts": ts, "k": [f"k{t // 300 % 40}-{t % 20}" for t in ts], "j": pa.array([1] * len(ts), pa.int32()), "v": ts,
    })  # fmt: skip
    both_ways(upper(parts, 100).key_by("k").window(30_000, 10_000).aggregate("lower", **LOWER), threads=2, max_keys=900)


def one_key():
    """Only one instance has results, and all of one window."""
    return pa.table({"ts": range(2_000), "k": ["a"] * 2_000, "j": pa.array([1] * 2_000, pa.int32()), "v": range(2_000)})


@pytest.mark.slow
def test_example_results_are_read_before_their_window_ends():
    """The next operator has them as they come, whatever the watermark: nothing waits in the rings."""
    source = Steered(one_key(), [500] * 4)
    query = upper(source, 100_000, operator=KEPT)
    with query.window(200_000).aggregate("lower", rows=hr.count()).start(threads=2, **GATE) as run:
        source.let(2)
        eventually(lambda: run.metrics().operators["lower"].processed > 900)
        source.let_all()
        assert run.wait(HANG_S)
    assert run.to_arrow()["rows"].to_pylist() == [2_000]


@pytest.mark.slow
def test_example_tuples_are_kept_until_the_operator_has_read_them(monkeypatch):
    """The next operator may be told the end of a window, and so may have nothing to wait for, long before that is over."""
    released, release = [], ElasticSection.release

    def noted(self, watermark):
        if self.name == "upper":
            released.append((watermark, self.collector.watermark))
        release(self, watermark)

    monkeypatch.setattr(ElasticSection, "release", noted)
    source = Steered(table(2_000, span=4_000), [500] * 4)
    query = BELOW["the same key"](upper(source, 1_000, operator=KEPT))
    with query.start(threads=2, **GATE) as run:
        source.let(2)
        eventually(lambda: run.metrics().operators["lower"].processed > 900)
        eventually(lambda: len(released) > 0)
        source.let_all()
        assert run.wait(HANG_S)
    assert [pair for pair in released if pair[0] > pair[1]] == []


@pytest.mark.slow
@pytest.mark.parametrize("full", [False, True])
def test_example_it_stops_in_the_middle(full):
    query = lambda source: upper(source, 500, operator=KEPT).window(50).aggregate("lower", rows=hr.count())  # noqa: E731
    check_stops_in_the_middle(query, table(50_000, span=100_000), full)


ASKED = {"n": hr.max("n")}
COLLECTED = {
    "windows that overlap": (lambda: upper(table(200), advance=5).window(60).aggregate("lower", **ASKED), "windows overlap"),
    "days above": (
        lambda: upper(days(), "1d", zone="Europe/Paris").window("2d").aggregate("lower", **ASKED), "days of a time zone",
    ),
    "days below": (
        lambda: upper(days()).window("1d", zone="Europe/Paris").aggregate("lower", **ASKED), "'upper' gives results ahead",
    ),
    "too many windows": (lambda: upper(table(200), 50_000).window(5).aggregate("lower", **ASKED), "10,001 of its windows"),
    "order": (lambda: upper(table(200)).window(60).aggregate("lower", n=hr.last("n")), "last tuple in order"),
}  # fmt: skip


def days():
    given = table(200)
    return given.set_column(0, "ts", pa.array(given["ts"].to_pylist(), pa.timestamp("us", "UTC")))


@pytest.mark.slow
@pytest.mark.parametrize("what", COLLECTED)
def test_example_what_goes_through_a_collector_says_why(what):
    make, why = COLLECTED[what]
    check_is_collected(make(), "lower", why)


@pytest.mark.logic
def test_planted_ticks_taken_for_event_times_are_found(monkeypatch):
    query = BELOW["no key, short windows"](upper(table(400)))
    collected = query.to_arrow(passing="collector")
    monkeypatch.setattr(CompiledCustom, "time_field", "")
    assert not query.to_arrow(**GATE, threads=1).equals(collected)


@pytest.mark.slow
def test_planted_a_gate_that_waits_for_their_order_is_found(monkeypatch):
    """Results of an instance stay in its ring, since another one may still give some that are earlier."""
    monkeypatch.setattr(CompiledAggregate, "take_ahead", lambda self, by: None)
    source = Steered(one_key(), [500] * 4)
    query = upper(source, 100_000, operator=KEPT)
    with query.window(200_000).aggregate("lower", rows=hr.count()).start(threads=2, **GATE) as run:
        source.let(2)
        eventually(lambda: run.metrics().operators["upper"].results >= 999)
        assert run.metrics().operators["lower"].processed == 0
        source.let_all()
        assert run.wait(HANG_S)
