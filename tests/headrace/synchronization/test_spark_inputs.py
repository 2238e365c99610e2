"""Programs whose inputs are Spark DataFrames, and rows whose stream is told by a name.

Property    a program gives what it gives of the same rows in Arrow: one DataFrame a stream, one whose columns name stream or tag,
            sorted by Spark, resumed, live; times are the same in every session's zone; what is wrong is said
Oracle      the same run over Arrow tables, which test_runs compares with the reference
Cannot see  what Spark does with rows of equal times in several partitions
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.errors import CheckpointError, EventTimeError, ParameterError, SchemaError
from headrace.synchronization import inputs
from headrace.synchronization.inputs import Input, Router
from planted_mistakes import planted
from support import event_window

HANG_S = 180
WINDOW = hr.program(**event_window.WINDOW)
VALUES = [pa.table({"ts": np.arange(i, 600, 2), "x": np.arange(300) % (7 - i)}) for i in range(2)]
BARRIERS = pa.table({"ts": np.arange(99, 600, 100)})
NAMED = pa.concat_tables(
    [table.append_column("sensor", pa.array([name] * 300)) for table, name in zip(VALUES, ("left", "right"), strict=True)]
).sort_by("ts")
INPUTS = {"value": VALUES, "barrier": BARRIERS}
ON = {"leaves": 2, "threads": 2, "max_threads": 2}


def expected():
    return WINDOW.over(INPUTS).to_arrow(**ON)


# -- streams by name


class Texts:
    """Strings by their numbers."""

    names = ("right", "left", "a", "b", "c")

    def decode(self, ids):
        return [pa.array([self.names[i] for i in ids])]


def router(streams):
    program = WINDOW
    bound = WINDOW.over(INPUTS)._node.spec.bind()
    assert program.tags["value"].by is None
    return Router(Input(("value",), None, streams, "sensor", (0,), names_streams=True), bound, Texts(), "input 1")


def routed(of, *ids):
    return of.route({"sensor": (np.array(ids), None)}, len(ids)).tolist()


def test_example_each_of_the_first_names_has_a_stream_of_its_own():
    """In the order in which they come, over all batches; then names share the streams, each always the same one."""
    few = router(3)
    assert routed(few, 1, 1, 0, 1) == [0, 0, 1, 0] and routed(few, 2, 0) == [2, 1]
    later = routed(few, 3, 4, 3, 1)
    assert later[0] == later[2] and later[3] == 0 and set(later) <= {0, 1, 2}
    assert routed(few, 4, 3) == [later[1], later[0]]


def test_example_a_planted_mistake_the_first_name_of_the_alphabet_has_the_first_stream():
    assert routed(router(2), 1, 0) == [0, 1]
    with planted(inputs, "np.argsort(first)", "np.arange(first.size)"):
        assert routed(router(2), 1, 0) == [1, 0]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_agree_a_column_names_the_stream(count, tmp_path):
    named = {"value": hr.streams(NAMED, count, by="sensor"), "barrier": BARRIERS}
    with WINDOW.start(named, checkpoint=tmp_path / "kept", checkpoint_every=150, **ON) as run:
        assert run.wait(HANG_S)
        assert run.to_arrow().equals(expected())
    with WINDOW.resume(run.checkpoints[-2], named, plan="flat", **ON) as run:
        assert run.wait(HANG_S)
        assert run.to_arrow().equals(expected())


@pytest.mark.parametrize("names", [[None] * 600, [1.5] * 600], ids=["null", "float"])
def test_example_what_names_no_stream(names):
    table = NAMED.set_column(2, "sensor", pa.array(names, pa.string() if names[0] is None else None))
    with pytest.raises(SchemaError, match="sensor is null in row 0|is double, .* has to be an integer or a string"):
        WINDOW.over({"value": hr.streams(table, 2, by="sensor"), "barrier": BARRIERS}).to_arrow(**ON)


# -- through Spark


def test_agree_dataframes(spark):
    """A stream a DataFrame; one that has both, sorted by Spark; one that has both tags; results back as a DataFrame."""
    left, right, barriers, both = map(spark.createDataFrame, (*VALUES, BARRIERS, NAMED))
    tagged = pa.concat_tables(
        [table.append_column("kind", pa.array([kind] * len(table)))
         for table, kind in ((NAMED, "value"), (BARRIERS, "barrier"))], promote_options="default",
    ).sort_by("ts")  # fmt: skip
    shuffled = hr.stream(both.repartition(3), event_time="ts", sort=True)
    for given in (
        {"value": [left, right], "barrier": barriers},
        {"value": hr.stream([left, right], event_time="ts"), "barrier": barriers},
        {"value": hr.streams(shuffled, 2, by="sensor"), "barrier": BARRIERS},
        {("value", "barrier"): hr.streams(spark.createDataFrame(tagged), 2, tag="kind")},
    ):
        assert WINDOW.over(given).to_arrow(**ON).to_pylist() == expected().to_pylist(), given
    back = WINDOW.over({"value": [left, right], "barrier": barriers}).to_spark(spark, **ON)
    assert back.toArrow().to_pylist() == expected().to_pylist()


def test_agree_times_in_every_zone(spark):
    """An hour that a zone skips, and a session's zone: instants stay what they are."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    found = []
    try:
        for each in ("UTC", "Europe/Berlin", "America/New_York"):
            spark.conf.set("spark.sql.session.timeZone", each)
            values = spark.sql("select timestamp_seconds(1711846000 + id * 600) ts, id x from range(30) order by id")
            ends = spark.sql("select timestamp_seconds(1711846001 + id * 3600) ts from range(5) order by id")
            table = WINDOW.over({"value": values, "barrier": ends}).to_arrow(**ON)
            found.append((table.schema.field("ts").type, table["ts"].cast(pa.int64()).to_pylist(), table["sum"].to_pylist()))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    seconds = [1711846001 + 3600 * i for i in range(5)]
    sums = [0, 21, 57, 93, 129]
    assert found == [(pa.timestamp("us", "UTC"), [1_000_000 * each for each in seconds], sums)] * 3


def test_agree_resumed_from_dataframes(spark, tmp_path):
    left, right, barriers = map(spark.createDataFrame, (*VALUES, BARRIERS))
    with WINDOW.start({"value": [left, right], "barrier": barriers}, checkpoint=tmp_path, checkpoint_every=200, **ON) as run:
        assert run.wait(HANG_S)
    for given in ({"value": [left, right], "barrier": barriers}, INPUTS):
        with WINDOW.resume(tmp_path, given, leaves=1) as run:
            assert run.wait(HANG_S)
            assert run.to_arrow().equals(expected())
    others = {"value": [left.selectExpr("ts", "x + 1 as x"), right], "barrier": barriers}
    refused = pytest.raises(CheckpointError, match=r"source 1 \(DataFrame\): its first .* rows are not those")
    with refused, WINDOW.resume(tmp_path, others, leaves=1) as run:
        run.wait(HANG_S)
        run.to_arrow()


def test_example_a_live_dataframe_beside_a_table(spark, tmp_path):
    """Sums come as soon as the files with the values before them are there, while the query runs."""
    incoming = tmp_path / "in"
    incoming.mkdir()
    values = spark.readStream.schema("ts long, x long").option("maxFilesPerTrigger", 1).parquet(str(incoming))
    with WINDOW.start({"value": values, "barrier": BARRIERS}, **ON) as run:
        for part in range(3):
            pq.write_table(pa.table({"ts": range(part * 200, (part + 1) * 200), "x": [1] * 200}), tmp_path / f"{part}.parquet")
            (tmp_path / f"{part}.parquet").rename(incoming / f"{part}.parquet")
            until = 2 * part + 1  # the barrier at the end of the file waits for what comes behind
            while run.state == "running" and run.snapshot().num_rows < until:
                run.wait(0.05)
        assert run.state == "running"
        assert run.snapshot()["sum"].to_pylist()[:5] == [100] * 5
        run.stop()


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("select 1L ts, 2L y", SchemaError, "input 1, of tag 'value': there is no column 'x'; the columns are 'ts', 'y'"),
        ("select 1L t, 2L x", SchemaError, "event_time column 'ts' does not exist"),
        ("select 1L ts, 'a' x", SchemaError, "column 'x' is string, and tag 'value' of the program has int64"),
        ("select 1L ts, 1.5D x", SchemaError, "column 'x' is double, and tag 'value' of the program has int64"),
        ("select date'2024-01-01' ts, 1L x", EventTimeError, "cast it to timestamp"),
        ("select timestamp_seconds(1) ts, 1L x", SchemaError, "event times are in 'ms', those of the first input in 'us'"),
        ("select if(id = 3, null, id) ts, id x from range(5)", EventTimeError, "is null at row 3"),
    ],
)
def test_example_wrong_dataframes(spark, sql, error, message):
    with pytest.raises(error, match=message):
        WINDOW.over({"value": spark.sql(sql), "barrier": BARRIERS}).to_arrow(**ON)


def test_example_what_is_no_dataframe_and_one_without_rows(spark):
    frame = spark.createDataFrame(VALUES[0])
    for wrong in (frame.x, frame.rdd):
        with pytest.raises(ParameterError, match="is of type (Column|RDD): give a Spark DataFrame"):
            WINDOW.over({"value": wrong, "barrier": BARRIERS})
    none = spark.createDataFrame([], "ts long, x long")
    found = WINDOW.over({"value": [none, frame], "barrier": BARRIERS}).to_arrow(**ON)
    assert found.equals(WINDOW.over({"value": VALUES[0], "barrier": BARRIERS}).to_arrow(**ON))
