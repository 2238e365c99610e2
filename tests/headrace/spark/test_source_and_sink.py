"""DataFrames to Arrow batches and back.

Property    The rows of a DataFrame arrive in the order of its partitions, with
            the types `toArrow()` gives; a result becomes a DataFrame of the
            same rows in the same order, in memory or through Parquet.
Oracle      DataFrame.toArrow(), the Arrow table itself.
Cannot see  Memory held in the JVM beyond the partitions it computes; a cluster.
"""

import datetime
import tempfile
import time
import urllib.parse
from decimal import Decimal
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.errors import (
    InputError,
    NotSupportedError,
    OutputError,
    ParameterError,
    SchemaError,
    UnsupportedTypeError,
)
from headrace.ingress.readers import open_input
from headrace.spark import arrow, sink, source


@pytest.fixture
def frame(spark):
    from pyspark.sql import functions as F

    return spark.range(0, 25_000, 1, 4).select(
        (F.col("id") * 1_000_000).cast("timestamp").alias("ts"),
        F.expr("cast(date_from_unix_date(int(id)) as timestamp_ntz)").alias("local"),
        ((F.col("id") * 7919) % 1000).alias("k.ey"),
        F.when(F.col("id") % 3 != 0, F.concat(F.lit("user "), "id")).alias("user"),
        F.array(F.lit("a"), F.col("id").cast("string")).alias("tags"),
        (F.col("id") / 2).alias("x"),
        (F.col("id") % 2 == 0).alias("b"),
    )


def read(reader):
    return pa.Table.from_batches(reader, reader.schema)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["java", "python"])
def test_agree_with_to_arrow(frame, way, monkeypatch):
    if way == "python":
        monkeypatch.setattr(source, "read_batches", arrow._python_batches)
    reader = open_input(frame, batch_rows=3000)
    expected = frame.toArrow()
    assert reader.rows is None and reader.is_replayable
    for _ in range(2):
        batches = list(reader)
        assert max(batch.num_rows for batch in batches) <= 3000
        assert pa.Table.from_batches(batches).cast(expected.schema).equals(expected)
    part = open_input(frame, columns=["user", "k.ey"])
    assert read(part).cast(expected.select(["user", "k.ey"]).schema).equals(expected.select(["user", "k.ey"]))


def test_example_spark_sorts(frame):
    table = read(open_input(frame, columns=["x", "k.ey"], sort_by="k.ey"))
    keys = table["k.ey"].to_pylist()
    assert keys == sorted(keys) and len(keys) == 25_000
    assert sum(table["x"].to_pylist()) == sum(range(25_000)) / 2


@pytest.mark.slow
def test_agree_ties_do_not_depend_on_partitions(frame):
    from pyspark.sql import functions as F

    tied = frame.withColumn("k.ey", F.col("x").cast("int") % 5).withColumn("map", F.create_map("x", "b"))
    runs = [read(open_input(tied.repartition(n), ["x", "user"], sort_by="k.ey")) for n in (1, 3, 8)]
    assert runs[0].equals(runs[1]) and runs[0].equals(runs[2])


def test_example_selection_afterwards(frame):
    part = open_input(frame, sort_by="k.ey").select(["x"])
    assert part.schema.names == ["x"]
    assert (
        read(part)["x"].to_pylist() == read(open_input(frame, ["k.ey", "x"], sort_by="k.ey"))["x"].to_pylist()
    )


def test_example_a_reader_given_up_half_way(frame):
    for _ in range(3):
        batches = iter(open_input(frame))
        assert next(batches).num_rows
        del batches


@pytest.mark.slow
@pytest.mark.parametrize("way", ["java", "python"])
def test_example_spark_computes_no_more_than_is_read(spark, tmp_path, way, monkeypatch):
    """Each partition leaves a file when it is computed: of twenty, few are while the first is being read."""
    if way == "python":
        monkeypatch.setattr(source, "read_batches", arrow._python_batches)
    folder = str(tmp_path)

    def computed(batches):
        import tempfile

        for batch in batches:
            tempfile.mkstemp(dir=folder)
            yield batch

    rows = spark.range(0, 20_000, 1, 20).mapInArrow(computed, "id long")
    reader = iter(open_input(rows))
    next(reader)
    time.sleep(2)  # it would go on by itself
    assert 1 <= len(list(tmp_path.iterdir())) <= 4
    assert sum(len(batch) for batch in reader) == 19_000
    assert len(list(tmp_path.iterdir())) == 20


def test_example_several_readers_at_once(frame):
    """Batches of eight frames, one from each in turn: none waits for another to end."""
    readers = [iter(open_input(frame, columns=["ts"], batch_rows=1000)) for _ in range(8)]
    rows = 0
    for _ in range(25_000 // 1000 + 8):
        rows += sum(
            batch.num_rows for batch in (next(reader, None) for reader in readers) if batch is not None
        )
    assert rows == 8 * 25_000


def test_example_empty_frames(spark, frame):
    for empty in (
        frame.limit(0),
        frame.where("false"),
        spark.createDataFrame([], "ts timestamp, tags array<string>"),
    ):
        reader = open_input(empty, sort_by="ts")
        assert read(reader).num_rows == 0 and "ts" in reader.schema.names
    assert open_input(frame.limit(0)).schema.field("ts").type == pa.timestamp("us", "UTC")


def test_example_bad_frames(spark, frame):
    from pyspark.sql import functions as F

    with pytest.raises(SchemaError, match="'user_name' does not exist .*the columns are ts, local"):
        open_input(frame, columns=["user_name"])
    with pytest.raises(SchemaError, match="occurs 2 times"):
        open_input(frame.select("ts", "ts"), columns=["ts"])
    with pytest.raises(NotSupportedError, match="lateness="):
        open_input(spark.readStream.format("rate").load(), sort_by="value")
    for failing in (
        frame.select(F.expr("raise_error('boom')").alias("x")),
        frame.select(F.expr("int('1x')")),
    ):
        with pytest.raises(InputError, match="Spark could not produce its rows") as error:
            list(open_input(failing))
        assert "\n" not in str(error.value)
    broken = F.udf(lambda x: 1 // 0, "long")
    with pytest.raises(InputError, match="Spark could not produce its rows: .*ZeroDivisionError: integer division") as error:
        list(open_input(frame.limit(1).select(broken("ts"))))
    assert "\n" not in str(error.value)


def test_example_what_is_no_session_is_said_before_the_run():
    """And one that was stopped; stopping the session of the tests would cost seconds."""
    stopped = SimpleNamespace(createDataFrame=None, _sc=SimpleNamespace(_jsc=None))
    query = hr.stream(RESULT.slice(0, 3), event_time="ts")
    for session, said in ((3, r"to_spark\(3\): give a Spark session"), (stopped, "this Spark session was stopped")):
        with pytest.raises(ParameterError, match=said):
            query.to_spark(session)
        with pytest.raises(ParameterError, match=said):
            sink.to_dataframe(session, RESULT)


RESULT = pa.table(
    {
        "ts": pa.array([1, 2, 2, None], pa.timestamp("us", "UTC")),
        "local": pa.array([1, 2, 3, 4], pa.timestamp("ms")),
        "word": pa.array(["a", None, "c", ""], pa.string()),
        "n": pa.array([1, -2, 3, None], pa.int64()),
        "x": pa.array([1.5, float("nan"), None, 0.0]),
        "tags": pa.array([["a"], [], None, ["b", "c"]], pa.list_(pa.string())),
        "u": pa.array([1, 2, 3, 65535], pa.uint16()),
        "code": pa.array(["p", "q", "p", None]).dictionary_encode(),
        "flag": pa.array([True, False, None, True]),
    }
)


@pytest.mark.slow
@pytest.mark.parametrize("in_memory_bytes", [1 << 30, 0])
def test_agree_results_come_back(spark, in_memory_bytes):
    big = pa.concat_tables([RESULT] * 500).append_column("row", pa.array(range(2000)))
    frame = sink.to_dataframe(spark, big, in_memory_bytes=in_memory_bytes)
    back = frame.toArrow()
    assert back["row"].to_pylist() == list(range(2000))
    for name in big.column_names:
        expected, found = big[name].to_pylist(), back[name].to_pylist()
        assert [str(value) for value in found] == [str(value) for value in expected], name
    assert dict(frame.dtypes)["local"] == "timestamp_ntz" and dict(frame.dtypes)["ts"] == "timestamp"
    again = sink.to_dataframe(spark, iter(big.to_batches(max_chunksize=7)), in_memory_bytes=in_memory_bytes)
    assert again.count() == 2000


def test_example_many_small_batches_are_few_row_groups(spark):
    rows = pa.table({"row": range(5_000)})
    frame = sink.to_dataframe(spark, iter(rows.to_batches(max_chunksize=7)), in_memory_bytes=10_000)
    (file,) = frame.inputFiles()
    assert pq.ParquetFile(urllib.parse.urlparse(file).path).metadata.num_row_groups == 1
    assert frame.toArrow()["row"].to_pylist() == list(range(5_000))


def test_example_empty_results(spark):
    for empty in (RESULT.slice(0, 0), RESULT.slice(0, 0).to_batches()):
        frame = sink.to_dataframe(spark, empty, schema=RESULT.schema)
        assert frame.count() == 0 and frame.columns == RESULT.column_names
    with pytest.raises(OutputError, match="give schema="):
        sink.to_dataframe(spark, [])


def test_example_results_that_spark_lacks(spark):
    for in_memory_bytes in (1 << 20, 0):
        with pytest.raises(OutputError, match="^column 'u' does not fit Spark's int64"):
            sink.to_dataframe(spark, pa.table({"u": pa.array([2**63], pa.uint64())}), in_memory_bytes=in_memory_bytes)
    late = pa.table({"u": pa.array([1] * 100 + [2**63], pa.uint64())}).to_batches(max_chunksize=100)
    with pytest.raises(OutputError, match="^column 'u' does not fit Spark's int64"):
        sink.to_dataframe(spark, iter(late), in_memory_bytes=0)
    with pytest.raises(OutputError, match="'t' does not fit"):
        sink.to_dataframe(spark, pa.table({"t": pa.array([1500], pa.timestamp("ns"))}))
    wide, view = pa.array([Decimal(1)], pa.decimal256(40, 2)), pa.array([[1]], pa.list_view(pa.int64()))
    for lacking in (wide, view, pa.array([[(1, 2, 3)]], pa.list_(pa.month_day_nano_interval()))):
        with pytest.raises(UnsupportedTypeError, match="^column 'w' has type .*, which Spark lacks: cast it"):
            sink.to_dataframe(spark, pa.table({"w": lacking}))
    with pytest.raises(OutputError, match="^column 'u' does not fit Spark's list<item: int64>"):
        sink.to_dataframe(spark, pa.table({"u": pa.array([[2**63]], pa.list_(pa.uint64()))}))


@pytest.mark.parametrize("error", [OSError("No space left on device"), KeyboardInterrupt()], ids=["full disk", "interrupted"])
def test_example_a_result_that_breaks_off_leaves_no_file(monkeypatch, tmp_path, error):
    def breaks_off(writer, table, row_group_size):
        raise error

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(pq.ParquetWriter, "write_table", breaks_off)
    local = SimpleNamespace(createDataFrame=..., _jsc=..., sparkContext=SimpleNamespace(master="local[1]"))
    with pytest.raises((OutputError, KeyboardInterrupt), match="No space left .*; free space or set TMPDIR|^$"):
        sink.to_dataframe(local, pa.table({"row": range(5_000)}), in_memory_bytes=10_000)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("in_memory_bytes", [1 << 20, 0])
def test_agree_types_that_spark_has_wider_ones_for(spark, in_memory_bytes):
    """They are the same in memory and through Parquet, within lists, structs and maps too."""
    table = pa.table({
        "time": pa.array([1000, None], pa.time32("ms")),
        "list": pa.array([[7], None], pa.large_list(pa.uint64())),
        "bytes": pa.array([b"a", None], pa.binary_view()),
        "wide": pa.array([Decimal(1), None], pa.decimal256(20, 2)),
        "inner": pa.array([{"a": 1, "b": ["x"]}, None], pa.struct([("a", pa.uint8()), ("b", pa.list_(pa.string_view()))])),
        "map": pa.array([[("a", 2**32 - 1)], None], pa.map_(pa.string(), pa.uint32())),
        "wait": pa.array([1_500_000, None], pa.duration("us")),
        "waits": pa.array([[7], None], pa.list_(pa.duration("ms"))),
    })  # fmt: skip
    table = pa.concat_tables([table, table, table]).combine_chunks().slice(1, 4)
    through_parquet = table.drop_columns(["time", "wait", "waits"])
    for given in (table, table.select(["wait"]), table.select(["waits"]), through_parquet):
        frame = sink.to_dataframe(spark, given, in_memory_bytes=in_memory_bytes)
        kinds = {"time": "time(6)", "list": "array<bigint>", "bytes": "binary", "wide": "decimal(20,2)"}
        kinds |= {"inner": "struct<a:smallint,b:array<string>>", "map": "map<string,bigint>"}
        kinds |= {"wait": "interval day to second", "waits": "array<interval day to second>"}
        assert dict(frame.dtypes) == {name: kinds[name] for name in given.column_names}
        assert frame.toArrow().to_pylist() == given.to_pylist()


def test_example_decimals_and_dates_pass_through(spark):
    frame = spark.createDataFrame([(Decimal("1.50"), datetime.date(2020, 1, 2))], "d decimal(5,2), day date")
    (batch,) = open_input(frame)
    assert batch.to_pylist() == [{"d": Decimal("1.50"), "day": datetime.date(2020, 1, 2)}]


def test_example_spark_plans_only_columns_that_are_read(spark, monkeypatch):
    """Spark computes constants when it plans, and logs those that fail, though nobody reads them."""
    frame = spark.createDataFrame([(2, "a"), (1, "b")], "ts long, text string").selectExpr("*", "1 div 0 as bad")
    planned, estimate = [], source._partitions_for

    def recorded(frame):
        planned.append(frame.columns)
        return estimate(frame)

    monkeypatch.setattr(source, "_partitions_for", recorded)
    reader = open_input(frame, sort_by="ts")
    assert pa.Table.from_batches(reader.select(["text"]))["text"].to_pylist() == ["b", "a"]
    assert planned == [["text", "ts"]]
