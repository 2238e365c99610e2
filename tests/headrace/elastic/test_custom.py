"""The custom operator O+: equal to the reference, whatever the threads, gates and reconfigurations.

Oracle: `headrace.reference.operator`, row by row and bit by bit; for Corollary 1
and Theorem 2 the built-in operators. The shape of an operator decides what is
compiled, so shapes are few and fixed, and the input, the window within a shape,
the threads and the planned reconfigurations are drawn.
Cannot see: schedules that real threads do not happen to take; these are
`test_interleave_*` of the gates and of membership.

Windows of shape "overlapping", size 5 and advance 2 (slots 3)::

    time      0  1  2  3  4  5  6  7
    l = 0     [--------------)                 boundary 5
    l = 1           [--------------)           boundary 7
    tuple              x                       emits for 3 (l = -1), 5 and 7, but 5 is
                                               released only once no tuple can be before 5
"""

import inspect
import math
import random
import threading

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import reference
from headrace.windows import Window
from support.drawn import schedules, sources, stream, table, windows
from support.workloads import HANG_S, eventually, examples

QUICK = settings(deadline=None, max_examples=examples(25), suppress_health_check=list(HealthCheck))
QUICKER = settings(QUICK, max_examples=examples(15))


def rows_of(query, **options):
    return [tuple(row.values()) for row in query.to_arrow(**options).to_pylist()]


def expected(result, parts=1):
    key = {0: lambda key: (), 1: lambda key: (key,), 2: tuple}[parts]
    return [(row.ts, *key(row.key), *row.values.values()) for row in result]


# --------------------------------------------------- overlapping, many keys


def running(state, t, emit):
    state.n += 1
    state.any = state.any or t.b
    state.least = min(state.least, t.y)
    if t.x is not None:
        state.total += t.x
        if t.x > 5:
            emit(n=state.n, total=state.total, least=t.y, any=state.any)
            emit(n=-1, total=t.ts, least=0.0, any=t.input == 0)


def final(key, state, emit):
    emit(n=state.n, total=state.total, least=state.least, any=state.any)
    if state.total > 10:
        emit(n=0, total=0, least=-1.0, any=False)


RUNNING_STATE = {"n": "int64", "total": 100, "least": math.inf, "any": False}
RUNNING = hr.operator(
    state=RUNNING_STATE,
    emits={"n": "int64", "total": "int64", "least": "float64", "any": "bool"},
    update=running,
    output=final,
)


@pytest.mark.slow
@QUICK
@given(sources(), windows(3), schedules())
def test_oracle_overlapping_windows_of_many_keys(drawn, window, schedule):
    result = reference.operator(
        [drawn], window, reference.each("ks"), state=RUNNING_STATE, update=running, output=final
    )
    query = stream(drawn).key_by(tag=hr.each("ks")).window(window.size, window.advance).apply(RUNNING)
    assert rows_of(query, **schedule) == expected(result)


# ------------------------------------------- tumbling, one key that is read


def rising(state, t, emit):
    if t.x is not None and t.x > state.top:
        state.top = t.x
        emit(top=state.top, key=0, half=t.x / 2)


def closing(key, state, emit):
    for i in range(state.top):
        if (key + i) % 3 == 0:
            emit(top=i, key=key, half=0.0)


RISING_STATE = {"top": "int32"}
RISING = hr.operator(
    state=RISING_STATE,
    emits={"top": "int32", "key": "int64", "half": "float32"},
    update=rising,
    output=closing,
)


@pytest.mark.logic
@QUICK
@given(sources(), windows(1), schedules())
def test_oracle_windows_side_by_side_of_an_integer_key(drawn, window, schedule):
    result = reference.operator(
        [drawn], window, reference.column("k"), state=RISING_STATE, update=rising, output=closing
    )
    query = stream(drawn).key_by("k").window(window.size, window.advance).apply(RISING)
    assert rows_of(query, **schedule) == expected(result)


# ------------------------------------------------- one instance that slides


def latest(state, t, emit):
    """Keep the number of tuples and the last two event times."""
    state.n += 1
    state.before = state.last
    state.last = t.ts
    if t.x is not None:
        state.weight += t.y
        emit(n=state.n, last=state.last, weight=state.weight)


def showing(key, state, emit):
    emit(n=state.n, last=key[0], weight=state.weight)
    emit(n=state.before, last=state.last, weight=0.5 if key[1] else 1.5)


def sliding(key, state, left):
    if state.before < left:
        state.n = 1
    state.weight = state.weight / 2 + left + key[0]


LATEST_STATE = {"n": "int64", "before": -(2**40), "last": -(2**40), "weight": "float64"}
LATEST = hr.operator(
    state=LATEST_STATE,
    emits={"n": "int64", "last": "int64", "weight": "float64"},
    update=latest,
    output=showing,
    slide=sliding,
)


@pytest.mark.logic
@QUICK
@given(sources(), windows(4), schedules())
def test_oracle_one_instance_per_key_slides(drawn, window, schedule):
    keys = reference.columns(reference.column("k"), reference.column("b"))
    result = reference.operator(
        [drawn],
        window,
        keys,
        instances="single",
        state=LATEST_STATE,
        update=latest,
        output=showing,
        slide=sliding,
    )
    query = (
        stream(drawn).key_by("k", "b").window(window.size, window.advance, instances="single").apply(LATEST)
    )
    assert rows_of(query, **schedule) == expected(result, parts=2)


# --------------------------------------------------------------- two inputs

PRICES = pa.schema({"time": pa.int64(), "k": pa.int64(), "y": pa.int32(), "bid": pa.float64()})
PRICE_ROWS = st.tuples(
    st.integers(-20, 20),
    st.fixed_dictionaries(
        {
            "k": st.sampled_from([-1, 0, 10]),
            "y": st.integers(-9, 9),
            "bid": st.none() | st.floats(allow_nan=False),
        }
    ),
)


def meeting(state, t, emit):
    if t.input == 0:
        state.bids += 1
        if t.bid is not None:
            state.bid = t.bid
            emit(n=t.y + state.bids, at=t.ts, bid=t.bid)
    elif state.bids > 0:
        emit(n=state.bids, at=t.ts, bid=state.bid + t.y)


def nothing_to_say(key, state, emit):
    if state.bids == 0:
        emit(n=-1, at=key, bid=0.0)


MEETING_STATE = {"bids": "int64", "bid": "float64"}
MEETING = hr.operator(
    state=MEETING_STATE,
    emits={"n": "float64", "at": "int64", "bid": "float64"},
    update=meeting,
    output=nothing_to_say,
)


@pytest.mark.logic
@QUICK
@given(
    st.lists(st.lists(PRICE_ROWS, max_size=15), min_size=1, max_size=2), sources(2), windows(2), schedules()
)
def test_oracle_two_inputs_with_columns_of_their_own(prices, drawn, window, schedule):
    prices = [sorted(source, key=lambda row: row[0]) for source in prices]
    result = reference.operator(
        [prices, drawn],
        window,
        reference.column("k"),
        state=MEETING_STATE,
        update=meeting,
        output=nothing_to_say,
    )
    bids = hr.stream(
        [
            pa.Table.from_pylist([{"time": ts, **payload} for ts, payload in source], PRICES)
            for source in prices
        ],
        event_time="time",
    )
    both = hr.inputs(bids.key_by("k"), stream(drawn).key_by(k=("k",)))
    query = both.window(window.size, window.advance).apply(MEETING)
    assert rows_of(query, **schedule) == expected(result)


# ------------------------------------------------------------------- no key


def pairs_of(state, t, emit):
    state.n += 1
    for i in range(state.n % 3):
        emit(n=state.n, i=i)


@pytest.mark.logic
@QUICK
@given(sources(), windows(2), schedules())
def test_oracle_no_key_and_no_output(drawn, window, schedule):
    query = stream(drawn).window(window.size, window.advance).apply(PAIRS_OF)
    result = reference.operator([drawn], window, state={"n": "int64"}, update=pairs_of)
    assert rows_of(query, **schedule) == expected(result, parts=0)


PAIRS_OF = hr.operator(state={"n": "int64"}, emits={"n": "int64", "i": "int32"}, update=pairs_of)


# ------------------------------------------- Corollary 1, Theorem 2: A+ and J+


def sum_up(state, t, emit):
    if t.x is not None:
        state.seen += 1
        state.total += t.x


def total(key, state, emit):
    emit(seen=state.seen, total=state.total)


SUMS = hr.operator(
    state={"seen": "int64", "total": "int64"},
    emits={"seen": "int64", "total": "int64"},
    update=sum_up,
    output=total,
)


@pytest.mark.logic
@QUICKER
@given(sources(), windows(3), schedules())
def test_agree_a_plus_is_a_map_followed_by_a(drawn, window, schedule):
    """O+ as A+, the built-in A+, and O+ as A on a copy of each tuple for each of its keys."""
    tagged = stream(drawn).key_by(tag=hr.each("ks")).window(window.size, window.advance)
    copies = [
        [
            (ts, {"tag": p["tag"], "x": p["x"]})
            for ts, p in reference.copy_per_key(s, reference.each("ks"), "tag")
        ]
        for s in drawn
    ]
    schema = pa.schema({"ts": pa.int64(), "tag": pa.string(), "x": pa.int64()})
    copied = stream(copies, schema).key_by(tag=("tag",)).window(window.size, window.advance)
    aggregates = {"seen": hr.count("x"), "total": hr.sum("x")}
    custom = rows_of(tagged.apply(SUMS), **schedule)
    # A sum of nothing is null to the aggregate; the state of O+ began at 0.
    built_in = [(*row[:3], row[3] or 0) for row in rows_of(tagged.aggregate(**aggregates), **schedule)]
    assert custom == built_in
    assert rows_of(copied.apply(SUMS), **schedule) == custom


JOIN_SCHEMA = pa.schema({"ts": pa.int64(), "ks": pa.list_(pa.string()), "x": pa.int64()})
JOIN_ROWS = st.tuples(
    st.integers(-20, 20),
    st.fixed_dictionaries({"ks": st.lists(st.sampled_from("abc"), max_size=3), "x": st.integers(0, 9)}),
)


def join_latest(state, t, emit):
    """J+ with a state of fixed size: the tuple meets the latest one of the other input, within one window."""
    if t.input == 0:
        if state.right >= 0:
            emit(left=t.x, right=state.right)
        state.left = t.x
    else:
        if state.left >= 0:
            emit(left=state.left, right=t.x)
        state.right = t.x


JOIN_STATE = {"left": -1, "right": -1}
JOIN_LATEST = hr.operator(state=JOIN_STATE, emits={"left": "int64", "right": "int64"}, update=join_latest)


@pytest.mark.logic
@QUICKER
@given(
    st.lists(JOIN_ROWS, max_size=20),
    st.lists(JOIN_ROWS, max_size=20),
    windows(2),
    schedules(),
)
def test_agree_j_plus_is_a_map_followed_by_j(left, right, window, schedule):
    left, right = (sorted(rows, key=lambda row: row[0]) for rows in (left, right))
    keyed = [stream([rows], JOIN_SCHEMA).key_by(tag=hr.each("ks")) for rows in (left, right)]
    schema = pa.schema({"ts": pa.int64(), "tag": pa.string(), "x": pa.int64()})
    copies = [
        stream([[(ts, {"tag": p["tag"], "x": p["x"]}) for ts, p in copied]], schema).key_by(tag=("tag",))
        for copied in (reference.copy_per_key(rows, reference.each("ks"), "tag") for rows in (left, right))
    ]
    result = reference.operator(
        [[left], [right]], window, reference.each("ks"), state=JOIN_STATE, update=join_latest
    )
    for streams in (keyed, copies):
        query = hr.inputs(*streams).window(window.size, window.advance).apply(JOIN_LATEST)
        assert rows_of(query, **schedule) == expected(result)


# ------------------------------------------------------- order, and downstream


@pytest.mark.logic
@QUICKER
@given(sources(), windows(3), schedules())
def test_oracle_an_aggregate_after_a_custom_operator(drawn, window, schedule):
    """What is held back arrives in order: a stateful operator downstream notices if not."""
    query = (
        stream(drawn).key_by(tag=hr.each("ks")).window(window.size, window.advance).apply(RUNNING)
        .key_by("any").window(5).aggregate(rows=hr.count(), first=hr.first("n"), last=hr.last("least"))
    )  # fmt: skip
    middle = reference.operator(
        [drawn], window, reference.each("ks"), state=RUNNING_STATE, update=running, output=final
    )
    result = reference.aggregate(
        [reference.as_source(middle, "tag")],
        Window(5, 5),
        reference.column("any"),
        {"rows": ("count", None), "first": ("first", "n"), "last": ("last", "least")},
    )
    assert rows_of(query, **schedule) == expected(result)


@pytest.mark.slow
def test_example_side_by_side_an_emission_does_not_wait_for_its_boundary():
    """Windows of 1000: the source gives the next batch only once the first one's emissions are out."""
    arrived = []
    seen = threading.Event()

    def batches():
        yield pa.record_batch({"ts": [1, 2, 3], "k": [7, 7, 7], "x": [3, 1, 5]})
        yield pa.record_batch({"ts": [4], "k": [8], "x": [0]})
        assert seen.wait(180), "the emissions were held back"
        yield pa.record_batch({"ts": [2000], "k": [7], "x": [1]})

    def sink(batch):
        arrived.extend(batch.column("top").to_pylist())
        if len(arrived) >= 2:
            seen.set()

    schema = pa.schema({"ts": pa.int64(), "k": pa.int64(), "x": pa.int64()})
    reader = pa.RecordBatchReader.from_batches(schema, batches())
    query = hr.stream(reader, event_time="ts").key_by("k").window(1000).apply(RISING)
    with query.start(threads=2, sink=sink) as run:
        run.wait()
    assert arrived[:2] == [3, 5]


# ----------------------------------------------------------------- failures


def fails(state, t, emit):
    state.n += 1
    emit(n=state.n)
    state.rest = 100 // (state.n - 5)  # fails in update
    while t.x == 99:
        state.rest = state.rest * 1


def fails_at_expiry(key, state, emit):
    emit(n=1)
    emit(n=7 % (state.n - 4))  # fails in output


FAILS = hr.operator(
    state={"n": "int64", "rest": "int64"}, emits={"n": "int64"}, update=fails, output=fails_at_expiry
)


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def failing(keys, **columns):
    table = pa.table({"k": keys, "ts": list(range(len(keys))), **({"x": [0] * len(keys)} | columns)})
    return hr.stream(table, event_time="ts").key_by("k").window(100).apply(FAILS)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
def test_example_a_failing_update_shows_its_line_and_the_tuple(threads):
    """`n` was 4 and became 5 before the failure: the function is called again on the state it found."""
    query = failing(["a", "b"] * 10, text=[f"row {i}" for i in range(20)])
    with pytest.raises(hr.errors.FunctionError, match="ZeroDivisionError") as caught:
        query.to_arrow(threads=threads)
    error = caught.value
    assert (error.function, error.file) == ("fails", __file__)
    assert error.line == line_of(fails, "# fails in update")
    # With several threads either key's fifth tuple may be met first.
    key = error.tuple["key"]
    fifth = {"a": 8, "b": 9}[key]
    assert error.tuple == {"input": 0, "k": key, "ts": fifth, "x": 0, "text": f"row {fifth}", "key": key}


def test_example_a_failing_output_shows_the_window():
    with pytest.raises(hr.errors.FunctionError, match="ZeroDivisionError") as caught:
        failing(["c"] * 4).to_arrow(threads=2)
    assert caught.value.line == line_of(fails_at_expiry, "# fails in output")
    assert caught.value.tuple == {"ts": 100, "key": "c", "state.n": 4, "state.rest": -100}


def test_example_a_function_that_never_returns_can_be_stopped():
    with failing(["a"], x=[99]).start(threads=1) as run:
        assert not run.wait(0.3)
        run.stop()
    eventually(lambda: not run._execution.pool.alive)


def mixes_types(state, t, emit):
    emit(n=state.n)
    state.n = t.y  # the wrong line


@pytest.mark.slow
def test_example_a_function_that_does_not_compile_shows_its_line():
    operator = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, update=mixes_types)
    query = (
        stream([[(1, {"ks": [], "k": 1, "x": 1, "y": 0.5, "b": True})]]).key_by("k").window(5).apply(operator)
    )
    with pytest.raises(hr.errors.FunctionError, match="a float64 is given where int64 is declared") as caught:
        query.to_arrow()
    assert (caught.value.file, caught.value.line) == (__file__, line_of(mixes_types, "# the wrong line"))


# --------------------------------------------------------------- long inputs


@pytest.mark.slow
def test_agree_a_long_input_with_changes_and_recycled_keys():
    """More keys over time than live at once, batches of many chunks, results that fill the rings."""
    rng = random.Random(3)
    count = 60_000
    rows = pa.table(
        {
            "ts": sorted(rng.randrange(400_000) for _ in range(count)),
            "k": [rng.randrange(300) + i // 60 * 300 for i in range(count)],
            "x": [rng.randrange(100) for _ in range(count)],
        }
    )
    query = hr.stream(rows, event_time="ts").key_by("k").window(600, 250).apply(LONG)
    one = query.to_arrow(threads=1)
    assert one.num_rows > 3 * count
    for schedule in (
        {"threads": 3},
        {"threads": 1, "max_threads": 8, "reconfigure": [(9_000, 5), (30_000, 2)]},
    ):
        assert query.to_arrow(**schedule).equals(one)
    result = reference.operator(
        [[[(row["ts"], row) for row in rows.slice(0, 2_000).to_pylist()]]],
        Window(600, 250),
        reference.column("k"),
        state={"n": "int64", "x": "int64"},
        update=tell_each,
        output=tell_all,
    )
    # The first windows are complete in the first tuples already.
    sure = [row for row in expected(result) if row[0] <= rows.column("ts")[1_999].as_py()]
    assert [tuple(row.values()) for row in one.slice(0, len(sure)).to_pylist()] == sure


def tell_each(state, t, emit):
    state.n += 1
    state.x += t.x
    emit(n=state.n, x=t.x)


def tell_all(key, state, emit):
    emit(n=key, x=state.x)


LONG = hr.operator(
    state={"n": "int64", "x": "int64"}, emits={"n": "int64", "x": "int64"}, update=tell_each, output=tell_all
)


@pytest.mark.logic
@pytest.mark.parametrize(("gate", "mode"), [("scalegate", "vsn"), ("log", "sn")])
def test_agree_gates_modes_and_heartbeats(gate, mode):
    """Filtered rows become heartbeats, which count as ticks: alike for every instance."""

    @settings(QUICKER, max_examples=examples(25))
    @given(sources(), windows(1), schedules())
    def check(drawn, window, schedule):
        query = (
            stream(drawn).filter(hr.col("b")).key_by("k").window(window.size, window.advance).apply(RISING)
        )
        kept = [reference.filter_tuples(source, lambda payload: payload["b"]) for source in drawn]
        result = reference.operator(
            [kept], window, reference.column("k"), state=RISING_STATE, update=rising, output=closing
        )
        assert rows_of(query, gate=gate, mode=mode, **schedule) == expected(result)

    check()


@pytest.mark.logic
def test_example_time_without_tuples_costs_nothing_where_instances_slide():
    """The same shape with WS = WA * 9e14: before the first tuple, and after the last, there is nothing to slide.

    Sliding through them all would take days.
    """
    rows = table([(0, {"ks": [], "k": 1, "x": None, "y": 1.0, "b": True})])
    keyed = hr.stream(rows, event_time="ts").filter(hr.col("x").is_not_null()).key_by("k", "b")
    keyed.window(4, 1, instances="single").apply(LATEST).to_arrow()
    with keyed.window(900_000_000_000_000, 1, instances="single").apply(LATEST).start() as run:
        assert run.wait(HANG_S)
        assert run.to_arrow().num_rows == 0
