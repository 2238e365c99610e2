"""Aggregates over tuples that come as they come (`start(input_order="arrival")`): the bytes of the merged run.

Property    results, types and order are those of `input_order="merged"`, whatever comes first, for any threads and
            changes of them; what depends on the order is refused, with the reason
Oracle      `headrace.reference` in test_oracle.py and test_schedules.py, which have shapes of this; here the run in
            order, and by hand
Cannot see  which source came first in a run: `Steered` sources say so where it matters
"""

import random

import pyarrow as pa
import pytest

import headrace as hr
from headrace.elastic.aggregate.as_they_come import room_ahead
from headrace.errors import AggregateOverflowError, ParameterError
from headrace.windows import Window
from support.workloads import HANG_S, Steered, assert_same, eventually, rows_of

DAY_US = 86_400_000_000


def sources(count=3, rows=400, seed=1, span=4_000):
    draw = random.Random(seed)
    words = ["a", "b", "Bé", "", "z" * 30, None]
    tables = []
    for _ in range(count):
        ts = sorted(draw.randrange(span) for _ in range(rows))
        tables.append(pa.table({
            "ts": ts,
            "k": [draw.choice("xyz") for _ in ts],
            "v": pa.array([draw.choice([None, *range(-9, 9)]) for _ in ts], pa.int64()),
            "w": pa.array([draw.choice(words) for _ in ts]),
            "f": [draw.choice([0.0, -0.0, 1.5, float("nan")]) for _ in ts],
            "at": pa.array([draw.randrange(10**9) for _ in ts], pa.timestamp("us")),
        }))  # fmt: skip
    return tables


def keyed(inputs, **options):
    return hr.stream(inputs, event_time="ts", **options).key_by("k")


@pytest.mark.logic
def test_agree_every_aggregate_that_does_not_depend_on_the_order():
    wanted = {
        "n": hr.count(), "known": hr.count("f"), "total": hr.sum("v"), "least": hr.min("v"), "most": hr.max("v"),
        "mean": hr.mean("v"), "word": hr.min("w"), "last_word": hr.max("w"), "words": hr.count_distinct("w"),
        "floats": hr.count_distinct("f"),
        "set": hr.collect_set("v"), "texts": hr.collect_set("w"), "usual": hr.mode("w"), "often": hr.mode("f"),
        "middle": hr.median("v"), "then": hr.quantile("at", 0.25), "best": hr.top(3, "v"), "by": hr.top(2, "w", by="v"),
        "first_at": hr.min("at"),
    }  # fmt: skip
    query = keyed(sources(rows=150)).window(300, 100).aggregate(**wanted)
    in_order = query.to_arrow(threads=1)
    assert in_order.num_rows > 100
    for threads in (1, 3):
        found = query.to_arrow(threads=threads, input_order="arrival")
        assert found.schema == in_order.schema
        assert_same(rows_of(found), rows_of(in_order), f"{threads} threads")  # NaN is NaN


@pytest.mark.parametrize(
    ("aggregate", "why"),
    [
        (hr.first("v"), "first tuple"),
        (hr.last("v"), "last tuple"),
        (hr.collect_list("v"), "in the order of tuples"),
        (hr.sum("f"), "rounded at every step"),
        (hr.mean("f"), "rounded at every step"),
        (hr.min("f"), "0.0 and -0.0 are equal"),
        (hr.max("f"), "0.0 and -0.0 are equal"),
        (hr.median("f"), "0.0 and -0.0 are equal"),
        (hr.top(2, "f"), "0.0 and -0.0 are equal"),
        (hr.top(2, "v", by="f"), "0.0 and -0.0 are equal"),
    ],
    ids=repr,
)
def test_aggregates_that_depend_on_the_order_are_refused(aggregate, why):
    query = keyed(sources(rows=3)).window(300).aggregate(n=hr.count(), found=aggregate)
    with pytest.raises(ParameterError, match=why) as failed:
        query.start(input_order="arrival")
    assert "found=" in str(failed.value) and "'aggregate'" in str(failed.value)


def test_operators_that_depend_on_the_order_are_refused():
    def update(state, t, emit):
        state.v = t.v or 0

    def output(key, state, emit):
        emit(v=state.v)

    latest = hr.operator(state={"v": "int64"}, emits={"v": "int64"}, update=update, output=output)
    two = sources(2, rows=3)
    left = hr.stream(two[0].select(["ts", "k", "v"]), event_time="ts")
    right = hr.stream(two[1].select(["ts", "k", "w"]), event_time="ts")
    for query, why in (
        (keyed(two).window(300).apply(latest), "its functions"),
        (left.join(right, within=5, on="k"), "pairs"),
        (hr.stream(two, event_time="ts").forward(), "in the order of its input"),
    ):
        with pytest.raises(ParameterError, match=why):
            query.start(input_order="arrival")


def test_options_that_do_not_go_together():
    query = keyed(sources(rows=3)).window(300).aggregate(n=hr.count())
    for options, why in (
        ({"input_order": "any"}, 'give "merged" or "arrival"'),
        ({"input_order": "arrival", "mode": "sn"}, 'mode="sn"'),
        ({"input_order": "arrival", "gate": "scalegate"}, "gate='scalegate'"),
        ({"input_order": {"total": "arrival"}}, "'total'"),
    ):
        with pytest.raises(ParameterError, match=why):
            query.start(**options)


def test_example_one_source_is_in_order_by_itself():
    (table,) = sources(1)
    query = keyed(table).window(300).aggregate(n=hr.count())
    assert query.to_arrow(input_order="arrival").equals(query.to_arrow())


@pytest.mark.logic
def test_example_operators_by_name():
    """The second operator has one input, whose order is that of the first one's results."""
    inner = keyed(sources(2)).window(300).aggregate(n=hr.count())
    query = inner.window(600).aggregate(last=hr.last("n"))
    assert query.operators == ("aggregate", "aggregate2")
    wanted = query.to_arrow()
    assert query.to_arrow(input_order="arrival").equals(wanted)
    assert query.to_arrow(input_order={"aggregate": "arrival"}, threads=2).equals(wanted)


@pytest.mark.logic
def test_example_a_sum_may_leave_its_range_and_come_back():
    """In order such a sum is an error at once; in any order only one that is outside at the end."""
    high = 2**62
    ahead = pa.table({"ts": [1, 2, 3], "k": ["x"] * 3, "v": [high, high, high]})
    back = pa.table({"ts": [4, 5, 6], "k": ["x"] * 3, "v": [-high, -high, 5]})
    query = keyed([ahead, back]).window(10).aggregate(total=hr.sum("v"))
    with pytest.raises(AggregateOverflowError, match="total=sum"):
        query.to_arrow()
    assert query.to_arrow(input_order="arrival")["total"].to_pylist() == [high + 5]
    with pytest.raises(AggregateOverflowError, match="total: a sum of the window that ends at 10"):
        keyed([ahead, ahead]).window(10).aggregate(total=hr.sum("v")).to_arrow(input_order="arrival")


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_agree_a_source_that_is_ahead(threads):
    """What source 0 has within one advance of where source 1 is, is folded while source 1 is silent; no more of it."""
    ahead = pa.table({"ts": list(range(1_000)), "k": ["x", "y"] * 500})
    tables = [ahead, pa.table({"ts": [0, 150, 400, 999], "k": ["x"] * 4})]
    inputs = [Steered(tables[0]), Steered(tables[1], [1, 1, 1, 1])]
    query = keyed(inputs).window(200, 100).aggregate(n=hr.count())
    with query.start(threads=threads, max_threads=3, input_order="arrival") as run:
        inputs[0].let(2)
        inputs[1].let()
        eventually(lambda: run.metrics().operators["aggregate"].processed == 101)
        assert run.metrics().operators["aggregate"].results == 0
        change = run.reconfigure(threads=3 - threads)
        inputs[1].let()
        eventually(lambda: run.metrics().operators["aggregate"].processed == 250 + 2)
        assert change.wait(HANG_S).outcome == "done"
        inputs[1].let_all()
        assert run.wait(HANG_S)
        found = run.to_arrow()
    assert found.equals(keyed(tables).window(200, 100).aggregate(n=hr.count()).to_arrow())


def test_agree_watermarks_of_a_silent_source():
    """A source that only says how far time has come lets windows close; its own rows come later, in time."""
    schema = pa.schema([("ts", pa.int64()), ("k", pa.string())])

    def talks():
        yield pa.record_batch({"ts": list(range(50)), "k": ["x"] * 50}, schema=schema)

    def silent():
        yield pa.RecordBatch.from_pylist([], schema=schema)
        yield hr.Watermark(30)
        yield pa.record_batch({"ts": [30, 31], "k": ["y", "x"]}, schema=schema)

    def query():
        return keyed([talks(), silent()]).window(10).aggregate(n=hr.count())

    assert query().to_arrow(input_order="arrival").equals(query().to_arrow())


@pytest.mark.logic
@pytest.mark.parametrize("window", [("1d", "1d"), ("3d", "1d"), ("7d", "2d")], ids=str)
def test_agree_days_of_a_time_zone(window):
    """Over both changes of the clocks of a year."""
    draw = random.Random(4)
    tables = []
    for _ in range(2):
        ts = sorted(draw.randrange(400 * DAY_US) for _ in range(200))
        tables.append(pa.table({"ts": pa.array(ts, pa.timestamp("us", "UTC")), "k": [draw.choice("xy") for _ in ts]}))
    query = keyed(tables).window(*window, zone="Europe/Paris").aggregate(n=hr.count())
    assert query.to_arrow(input_order="arrival", threads=2).equals(query.to_arrow())


@pytest.mark.parametrize("size, advance", [(1, 1), (5, 2), (60, 20), (7, 3), (1000, 1)])
def test_oracle_room_for_the_windows_ahead(size, advance):
    """However far the watermark is: windows that are open, and those of tuples that may be ahead, have places of their own."""
    lead, slots = room_ahead(Window(size, advance))
    for watermark in range(-50, 50):
        first = (watermark - size) // advance + 1
        last = (watermark + lead - 1) // advance
        assert last - first + 1 <= slots, watermark
