"""Results that a custom operator passes on to the next operator's gate, or takes from it: the bytes that the collector gives.

Property    what only `output` emits, any number of results per window, is passed on as an aggregate's results are, and such
            an operator takes those of an aggregate with its key: results, types and order are those of
            `passing="collector"`, for every kind of window, any threads and changes of them at both operators; keys mean the
            same while a window has them; what cannot be passed on is not, and says why
Oracle      the run through collectors; `headrace.reference` for custom operators in test_custom.py
Planted     here: what `update` emits for windows that overlap taken for results in order of event time
Cannot see  the kernels between the two, which are those of test_passing.py and test_passing_filter.py; what `update` emits for
            other windows: test_passing_update.py
"""

import random

import pyarrow as pa
import pytest

import headrace as hr
from headrace.elastic.custom.compiled import CompiledCustom
from headrace.elastic.section import OUTPUT_CAPACITY
from headrace.errors import FunctionError
from support.books import changed_and_watched, check_end
from support.passing import GATE, both_ways, check_is_collected, check_is_passed, check_stops_in_the_middle
from support.workloads import HANG_S, Steered

FLOATS = (0.0, -0.0, 1.5, -2.25, float("inf"))


def table(rows=3_000, seed=1, keys=8, span=6_000):
    draw = random.Random(seed)
    ts = sorted(draw.randrange(-span // 2, span // 2) for _ in range(rows))
    return pa.table({
        "ts": ts,
        "k": [draw.choice("äbc") + str(draw.randrange(keys)) for _ in ts],
        "j": pa.array([draw.randrange(5) for _ in ts], pa.int32()),
        "v": [draw.choice([None, *range(-9, 9)]) for _ in ts],
        "f": [draw.choice(FLOATS) for _ in ts],
    })  # fmt: skip


def note(state, t):
    if t.v is not None:
        state.total += t.v
    state.largest = max(state.largest, t.f)
    state.n += 1


def report(key, state, emit):
    for i in range(state.n % 4):  # none, or up to three
        emit(n=state.n, part=state.total - i, largest=state.largest, narrow=i, is_even=state.n % 2 == 0, when=1_000 * state.n)


def of_kept(key, state, emit):
    for one in state.tuples:
        if one.v is not None and one.v >= 0:
            emit(n=len(state.tuples), part=one.v, largest=one.f, narrow=1, is_even=True, when=one.ts)


EMITS = {
    "n": "int64", "part": "int64", "largest": "float64", "narrow": "int32", "is_even": "bool", "when": "timestamp[ms, tz=UTC]",
}  # fmt: skip
SUMMED = hr.operator(
    state={"total": "int64", "largest": float("-inf"), "n": "int64"}, emits=EMITS, update=note, output=report, name="upper"
)
KEPT = hr.operator(emits=EMITS, output=of_kept, name="upper")


def upper(source, size=20, advance=None, operator=SUMMED, keys=("k", "j"), **options):
    return hr.stream(source, event_time="ts").key_by(*keys).window(size, advance, **options).apply(operator)


LOWER = {
    "rows": hr.count(), "n": hr.sum("n"), "part": hr.sum("part"), "least": hr.min("part"), "mean": hr.mean("n"),
    "middle": hr.median("part"), "sets": hr.collect_set("part"), "known": hr.count("largest"),
    "floats": hr.count_distinct("largest"), "latest": hr.max("when"),
}  # fmt: skip
"""All that does not depend on the order of tuples: a window of a key may give several results."""
BELOW = {
    "the same key": lambda s: s.key_by("k", "j").window(300, 100).aggregate("lower", **LOWER),
    "the key's columns in another order": lambda s: s.key_by("j", "k").window(300, 100).aggregate("lower", **LOWER),
    "another key": lambda s: s.key_by("j").window(300, 100).aggregate("lower", **LOWER),
    "no key": lambda s: s.window(60).aggregate("lower", **LOWER),
    "filter and select": lambda s: s.filter((hr.col("n") > 1) & (hr.col("largest") >= 0))
    .select("ts", "k", p="part", n="n").key_by("k").window(200).aggregate("lower", p=hr.max("p"), n=hr.sum("n")),
    "a bool and a narrow column decide": lambda s: s.filter(
        hr.col("is_even") & (hr.col("narrow") < 2) | ~hr.col("is_even") & (hr.col("largest") >= 0)
    ).key_by("k", "j").window(300, 100).aggregate("lower", **LOWER),
}  # fmt: skip
WINDOWS = {
    "tumbling": {},
    "sliding": {"advance": 5},
    "single": {"advance": 5, "instances": "single"},
    "kept tuples": {"advance": 10, "operator": KEPT},
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
    assert both_ways(query, threads=3).num_rows > 50
    check_is_passed(query, rows=3_000)


@pytest.mark.slow
def test_agree_more_results_of_one_window_than_a_ring_holds():
    n = OUTPUT_CAPACITY + 30_000
    one = pa.table({"ts": [0] * n, "k": ["a"] * n, "j": pa.array([1] * n, pa.int32()), "v": [1] * n, "f": [0.5] * n})
    query = BELOW["no key"](upper(one, operator=KEPT))
    assert both_ways(query, threads=2)["rows"].to_pylist() == [n]


@pytest.mark.slow
def test_agree_planned_changes():
    changes = [(0, [3]), (1, [0, 1]), (200, 4), (201, [2]), (499, [2, 3]), (10**9, 1)]
    both_ways(BELOW["another key"](upper(table(500))), threads=2, max_threads=4, reconfigure=changes)


@pytest.mark.slow
@pytest.mark.parametrize("below", ["the same key", "a bool and a narrow column decide"])
@pytest.mark.parametrize("window", ["sliding", "single"])
def test_agree_while_both_operators_are_reconfigured(window, below):
    draw = random.Random(1)
    given = table(20_000, 1, span=40_000)
    source = Steered(given, [50] * 400)
    query = BELOW[below]
    with query(upper(source, **WINDOWS[window])).start(threads=2, max_threads=4, **GATE) as run:
        last = changed_and_watched(run, [source], draw)
    check_end(last, rows=20_000)
    assert run.to_arrow().equals(query(upper(given, **WINDOWS[window])).to_arrow(passing="collector"))


@pytest.mark.slow
def test_agree_a_key_lives_as_long_as_any_window_has_it(monkeypatch):
    """Keys are gone from the upper operator's windows long before they are from the lower one's."""
    from headrace.ingress import keys

    monkeypatch.setattr(keys, "_LEAST_RECYCLED", 16)
    ts = list(range(0, 60_000, 3))
    parts = pa.table({
        "ts": ts, "k": [f"k{t // 300 % 40}-{t % 20}" for t in ts], "j": pa.array([1] * len(ts), pa.int32()), "v": ts,
        "f": [0.5] * len(ts),
    })  # fmt: skip
    for operator in (SUMMED, KEPT):
        below = upper(parts, operator=operator).key_by("k", "j").window(30_000, 10_000).aggregate("lower", **LOWER)
        both_ways(below, threads=2, max_keys=900)


@pytest.mark.logic
def test_agree_two_inputs():
    def count(state, t):
        state.n += 1 + 10 * t.input

    def give(key, state, emit):
        emit(n=state.n)

    operator = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, update=count, output=give)
    left, right = (hr.stream(table(400, seed), event_time="ts").key_by("k") for seed in (1, 2))
    stream = hr.inputs(left, right).window(50).apply(operator, name="upper")
    both_ways(stream.key_by("k").window(300).aggregate("lower", n=hr.sum("n"), most=hr.max("n")), threads=2)


@pytest.mark.logic
def test_example_by_itself_it_goes_where_no_order_can_show():
    """A sum of what may be negative might leave int64 in one order only, so it goes through the gate only if asked for."""
    stream = upper(table(200))
    for asked, way in (({"n": hr.count(), "most": hr.max("part")}, "gate: "), ({"part": hr.sum("part")}, "collector: part=")):
        with stream.window(60).aggregate("lower", **asked).start() as run:
            assert run.wait(HANG_S)
            assert run["lower"].takes.startswith(way), run["lower"].takes


def on_tuple(state, t, emit):
    state.n += 1
    emit(n=state.n)


def collect(state, t):
    state.all.append(t.ts)


def list_of_all(key, state, emit):
    emit(n=len(state.all), all=state.all)


EMITTING = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, update=on_tuple)
TIMES = hr.list_of("int64")
LISTS = hr.operator(state={"all": TIMES}, emits={"n": "int64", "all": TIMES}, update=collect, output=list_of_all)
COLLECTED = {
    "lists": (LISTS, {"n": hr.max("n")}, "gives lists"),
    "a narrow column": (SUMMED, {"n": hr.max("narrow")}, "column 'narrow'"),
    "a bool": (SUMMED, {"n": hr.max("is_even")}, "column 'is_even'"),
    "a key": (SUMMED, {"n": hr.count_distinct("k")}, "column 'k'"),
    "ties": (SUMMED, {"n": hr.first("n")}, "first tuple in order"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", COLLECTED)
def test_example_what_goes_through_a_collector_says_why(what):
    operator, asked, why = COLLECTED[what]
    stream = hr.stream(table(200), event_time="ts").key_by("k", "j").window(20).apply(operator, name="upper")
    query = stream.key_by("k", "j").window(60).aggregate("lower", **asked)
    check_is_collected(query, "lower", why)


@pytest.mark.logic
def test_planted_results_of_update_taken_for_ordered_ones_are_found(monkeypatch):
    """One tuple gives results for several windows, and the next tuple for the earliest of them again."""
    stream = hr.stream(table(400), event_time="ts").key_by("k").window(20, 5).apply(EMITTING, name="upper")
    query = stream.window(10).aggregate("lower", n=hr.max("n"), rows=hr.count())
    collected = query.to_arrow(passing="auto")
    monkeypatch.setattr(CompiledCustom, "why_collected", "")
    assert not query.to_arrow(passing="auto").equals(collected)


def counts(state, t):
    state.n += 1


# -- a custom operator that takes the results of an aggregate --------------------------------------------


def add(state, t):
    state.n += t.n
    state.ties += t.total is None
    if t.largest is not None:
        state.largest = max(state.largest, t.largest)
    state.last = t.total if t.total is not None else -t.ts


def give_all(key, state, emit):
    for i in range(state.n % 3):
        emit(n=state.n, nulls=state.ties, largest=state.largest, last=state.last - i + key[1])


def give_kept(key, state, emit):
    for one in state.tuples:
        emit(n=one.n, nulls=len(state.tuples), largest=0.0, last=one.ts if one.total is None else one.total)


TAKEN = {"n": "int64", "nulls": "int64", "largest": "float64", "last": "int64"}
TAKERS = {
    "tumbling": ({}, {"update": add, "output": give_all}),
    "sliding": ({"advance": 20}, {"update": add, "output": give_all}),
    "single": ({"advance": 20, "instances": "single"}, {"update": add, "output": give_all}),
    "kept tuples": ({"advance": 50}, {"output": give_kept}),
}  # fmt: skip


def taking(source, what="tumbling", keys=("j", "g"), between=lambda s: s, name="lower"):
    """Aggregates by a key of two numbers, whose results a custom operator takes."""
    above = hr.stream(source, event_time="ts").key_by("g", "j").window(20, 10)
    rows = above.aggregate("upper", n=hr.count(), total=hr.sum("v"), largest=hr.max("f"), text=hr.max("k"))
    options, functions = TAKERS[what]
    state = {"n": "int64", "ties": "int64", "largest": float("-inf"), "last": "int64"} if "update" in functions else None
    operator = hr.operator(state=state, emits=TAKEN, **functions)
    return between(rows).key_by(*keys).window(100, options.get("advance"), instances=options.get("instances", "multi")).apply(
        operator, name
    )


def numbered(*args, **kwargs):
    """The table with a second key of numbers."""
    made = table(*args, **kwargs)
    draw = random.Random(7)
    return made.append_column("g", pa.array([draw.randrange(12) for _ in range(made.num_rows)], pa.int64()))


@pytest.mark.slow
@pytest.mark.parametrize("keys", [("g", "j"), ("j", "g")], ids=",".join)
@pytest.mark.parametrize("what", TAKERS)
def test_agree_where_it_takes_results(what, keys):
    query = taking(numbered(), what, keys)
    assert both_ways(query, threads=3).num_rows > 200
    with query.start(threads=2) as run:
        assert run.wait(HANG_S)
        check_end(run.metrics(), rows=3_000)
        assert run["lower"].takes.startswith("gate: "), run["lower"].takes


@pytest.mark.slow
def test_agree_where_it_takes_results_behind_a_filter():
    query = taking(numbered(), "kept tuples", between=lambda s: s.filter(hr.col("n") > 1).select("ts", "g", "j", "n", "total"))
    assert both_ways(query, threads=3).num_rows > 50
    query = taking(numbered(), "tumbling", between=lambda s: s.filter(hr.col("total") >= 0))
    assert both_ways(query, threads=2).num_rows > 50


@pytest.mark.slow
def test_agree_three_in_a_row():
    """The custom operator takes results and passes its own on."""
    totals = taking(numbered()).window(500).aggregate("totals", n=hr.max("n"), rows=hr.count(), nulls=hr.count_distinct("nulls"))
    both_ways(totals, threads=2)
    with totals.start(threads=2) as run:
        assert run.wait(HANG_S)
        assert [run[name].takes.split(":")[0] for name in ("lower", "totals")] == ["gate", "gate"]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["sliding", "kept tuples"])
def test_agree_taking_while_both_operators_are_reconfigured(what):
    draw = random.Random(2)
    given = numbered(20_000, 1, span=40_000)
    source = Steered(given, [50] * 400)
    with taking(source, what).start(threads=2, max_threads=4, **GATE) as run:
        last = changed_and_watched(run, [source], draw)
    check_end(last, rows=20_000)
    assert run.to_arrow().equals(taking(given, what).to_arrow(passing="collector"))


@pytest.mark.slow
def test_agree_keys_that_functions_read_come_and_go(monkeypatch):
    """A key's value stays what it was until its last window is over, although ids are used again."""
    from headrace.ingress import keys

    monkeypatch.setattr(keys, "_LEAST_RECYCLED", 16)
    ts = list(range(0, 60_000, 3))
    parts = pa.table({
        "ts": ts, "k": ["a"] * len(ts), "g": [t // 300 * 7 for t in ts], "j": pa.array([t % 20 for t in ts], pa.int32()),
        "v": ts, "f": [0.5] * len(ts),
    })  # fmt: skip
    assert both_ways(taking(parts), threads=2, max_keys=900).num_rows > 1_000


def counts_ties(state, t):
    state.n += 1


def says(key, state, emit):
    emit(n=state.n)


def reads_text(state, t):
    state.n += t.text == "a"


DAYS = {"size": "2d", "advance": "1d", "zone": "Europe/Rome"}
ENCODED = {  # behind windows of local days, two of which may end at one time
    "strings": ({"update": reads_text, "output": says}, ("g", "k"), {"size": "20s"}, "strings"),
    "another key": ({"update": counts_ties, "output": says}, ("g",), DAYS, "one tuple after the other"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", ENCODED)
def test_example_what_it_does_not_take_says_why(what):
    functions, keys, window, why = ENCODED[what]
    given = numbered(300)
    given = given.set_column(given.schema.names.index("ts"), "ts", given["ts"].cast(pa.timestamp("s", "UTC")))
    above = hr.stream(given, event_time="ts").key_by("g", "k").window(**window)
    rows = above.aggregate("upper", text=hr.max("k"), n=hr.count())
    operator = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, **functions)
    query = rows.key_by(*keys).window("60s").apply(operator, "lower")
    check_is_collected(query, "lower", why)


@pytest.mark.slow
def test_failure_of_update_names_what_it_took():
    """The row is still where the operator before wrote it."""

    def divides(state, t):
        state.n += 100 // (t.n - 3) if t.total is not None else 0

    above = hr.stream(numbered(2_000), event_time="ts").key_by("g", "j").window(20)
    rows = above.aggregate("upper", n=hr.count(), total=hr.sum("v"))
    operator = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, update=divides, output=says)
    query = rows.key_by("g", "j").window(100).apply(operator, "lower")
    told = []
    for way in (GATE, {"passing": "collector"}):
        with pytest.raises(FunctionError, match="divi") as caught:
            query.to_arrow(threads=1, **way)
        told.append((caught.value.line, caught.value.tuple["n"], caught.value.tuple["ts"]))
    assert told[0] == told[1]
    with pytest.raises(FunctionError, match="divi"):
        query.to_arrow(threads=3, **GATE)


# -- ends ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_failure_of_output_ends_both():
    def divides(key, state, emit):
        emit(n=100 // (state.n - 3))

    failing = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, update=counts, output=divides)
    stream = hr.stream(table(2_000, keys=3), event_time="ts").key_by("k").window(20).apply(failing, name="upper")
    with pytest.raises(FunctionError, match="divi"):
        stream.window(60).aggregate("lower", n=hr.max("n")).to_arrow(threads=2, **GATE)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.slow
def test_stop_in_the_middle(full):
    """Also where nobody takes results, and all that is before them is full: `output` then waits inside a window."""
    made = table(50_000, keys=2_000, span=200_000)
    check_stops_in_the_middle(lambda source: BELOW["no key"](upper(source, operator=KEPT)), made, full)


@pytest.mark.logic
def test_agree_times_that_are_emitted():
    found = both_ways(upper(table(400)).window(1_000).aggregate("lower", latest=hr.max("when")), threads=2)
    assert found.schema.field("latest").type == pa.timestamp("ms", "UTC") and found.num_rows > 3
