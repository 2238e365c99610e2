"""Structured Streaming into a running engine, and out of it again.

Property    what a run makes of a streaming DataFrame is what it makes of the
            same rows as a batch, whatever the micro-batches were, and after a
            query that failed and was started again: no row lost, none twice
Oracle      the engine on the sorted table; Spark's own count of rows
Cannot see  a cluster; a process that dies
"""

import datetime
import json
import threading
import time
from unittest.mock import MagicMock

import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import InputError, LateRowError, NotSupportedError, ParameterError
from headrace.spark import streaming
from headrace.spark.streaming import LiveInput
from support.spark_files import write_json
from support.workloads import eventually

SCHEMA = "ts long, k string"
ROWS = [(i, f"key {i % 7}") for i in range(300)]


def write(folder, number, rows):
    write_json(folder, number, [{"ts": t, "k": k} for t, k in rows])


def counts(source, **options):
    return hr.stream(source, event_time="ts", **options).key_by("k").window(50, 25).aggregate(n=hr.count())


@pytest.fixture
def expected():
    return counts(pa.table({"ts": [t for t, _ in ROWS], "k": [k for _, k in ROWS]})).to_arrow()


@pytest.fixture
def incoming(tmp_path):
    folder = tmp_path / "incoming"
    folder.mkdir()
    return folder


def frame_of(spark, folder, **options):
    return spark.readStream.schema(SCHEMA).options(maxFilesPerTrigger=1, **options).json(str(folder))


def nothing_runs(spark):
    return eventually(lambda: not spark.streams.active, 180)


@pytest.mark.slow
@pytest.mark.parametrize("disorder", [0, 40])
def test_agree_files_one_by_one(spark, incoming, expected, disorder):
    rows = list(ROWS)
    for i in range(0, len(rows) - disorder, 60):  # turned round in blocks: as late as the block is long
        rows[i : i + disorder] = rows[i : i + disorder][::-1]
    for number in range(6):
        write(incoming, number, rows[50 * number : 50 * number + 50])
    live = hr.spark.live(frame_of(spark, incoming), trigger={"availableNow": True})
    with counts(live, lateness=disorder or None).start(threads=2, max_threads=4) as run:
        run.reconfigure(threads=4)
        assert run.wait(120)
        assert run.to_arrow().equals(expected)
        assert live.last_batch == 5
        assert run.metrics().tuples_in == 300
    nothing_runs(spark)


def test_agree_files_that_come_while_it_runs(spark, incoming, expected):
    """A streaming DataFrame as it is; results so far are a DataFrame at any time."""
    write(incoming, 0, ROWS[:150])
    with counts(frame_of(spark, incoming)).start() as run:
        eventually(lambda: run.metrics().tuples_out > 0, 180)
        so_far = run.snapshot_to_spark(spark)
        assert 0 < so_far.count() < expected.num_rows
        write(incoming, 1, ROWS[150:])
        eventually(lambda: run.metrics().tuples_in == 300, 180)
        eventually(lambda: run.snapshot().num_rows > so_far.count(), 180)
        part = run.snapshot()
        assert part.combine_chunks().equals(expected.slice(0, part.num_rows).combine_chunks())
        assert run.state == "running"
        run.stop()
    nothing_runs(spark)


def test_example_the_watermark_is_handed_over(spark, incoming):
    """Its delay is the lateness; a row that is later still meets `late`."""
    base = datetime.datetime(2026, 1, 1)
    seconds = [0, 10, 5, 30, 22, 60, 1]
    (incoming / "0.json").write_text(
        "".join(json.dumps({"ts": (base + datetime.timedelta(seconds=s)).isoformat(), "k": "a"}) + "\n" for s in seconds)
    )
    frame = spark.readStream.schema("ts timestamp, k string").json(str(incoming)).withWatermark("ts", "10 seconds")
    live = hr.spark.live(frame, trigger={"availableNow": True})
    assert live.delay_us("ts") == 10_000_000 and live.delay_us("k") is None
    stream = hr.stream(live, event_time="ts", late="side").key_by("k").window("1min").aggregate(n=hr.count())
    with stream.start() as run:
        assert run.wait(180)
        assert run.to_arrow()["n"].to_pylist() == [5, 1]
        assert run.late.num_rows == 1 and run.metrics().set_aside == 1
    late = hr.spark.live(frame, trigger={"availableNow": True})
    strict = hr.stream(late, event_time="ts").key_by("k").window("1min").aggregate(n=hr.count())
    with strict.start() as run, pytest.raises(LateRowError):
        run.wait(180)
    nothing_runs(spark)


def keeps_waiting(live, long_s=2.0):
    """Whether no batch is taken for so long, though one has come and the next is there."""
    first = live.last_batch
    time.sleep(long_s)  # Spark would have made another batch
    return first >= 1 and live._queue.full() and live.last_batch == first


@pytest.mark.slow
def test_example_rate_source_and_back_pressure(spark, monkeypatch):
    """The engine takes 400 rows/s of a source that makes 20,000: Spark is kept waiting with the batch in its hands.

    To stop it then is no failure that Spark's log should tell of; afterwards the log is what it was.
    """
    from pyspark.sql import functions as F

    frame = spark.readStream.format("rate").option("rowsPerSecond", 20_000).load()
    live = hr.spark.live(frame.select(F.col("value").alias("ts")))
    # Partitions of the rate source take turns; 60,000 rows may wait for their place, then the pace holds.
    with hr.stream(live, event_time="ts", lateness=60_000).forward().start(rate=400.0, sink=hr.discard()):
        eventually(lambda: keeps_waiting(live), 180)
        assert live.query.isActive
        before, during = log_level(spark), []
        end = live.query.stop
        monkeypatch.setattr(live.query, "stop", lambda: (end(), during.append(log_level(spark))))
    nothing_runs(spark)
    eventually(lambda: during == ["OFF"] and log_level(spark) == before != "OFF")


def log_level(spark):
    name = "org.apache.spark.sql.execution.streaming"
    return spark._jvm.org.apache.logging.log4j.LogManager.getLogger(name).getLevel().toString()


def test_example_a_dead_virtual_machine_counts_no_longer_as_hushed(monkeypatch):
    """Otherwise the log of the one that takes its place would never be hushed."""
    from pyspark.sql.types import StructType

    monkeypatch.setattr(streaming, "has_died", lambda: True)
    monkeypatch.setattr(streaming._HushedLog, "_count", 0)
    frame = MagicMock(isStreaming=True, schema=StructType().add("ts", "long"))
    live = LiveInput(frame)
    live._hushed = streaming._HushedLog(frame.sparkSession)
    assert streaming._HushedLog._count == 1
    live.stop()
    assert list(live) == []
    assert streaming._HushedLog._count == 0
    levels = frame.sparkSession._jvm.org.apache.logging.log4j.core.config.Configurator.setLevel
    assert levels.call_count == 1  # a call to what has died would fill the screen


class FailsAfterHandingOver(LiveInput):
    """Batch 1 is handed over, but Spark does not get to note it."""

    def _deliver(self, frame, batch_id):
        repeated = batch_id <= self.last_batch
        super()._deliver(frame, batch_id)
        if batch_id == 1 and not repeated:
            raise OSError("the disk of the checkpoint is full")


class FailsBeforeHandingOver(LiveInput):
    failed = False

    def _deliver(self, frame, batch_id):
        if batch_id == 1 and not self.failed:
            self.failed = True
            raise OSError("the network is gone")
        super()._deliver(frame, batch_id)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [FailsAfterHandingOver, FailsBeforeHandingOver])
def test_agree_a_query_that_fails_is_started_again(spark, incoming, expected, kind):
    for number in range(4):
        write(incoming, number, ROWS[75 * number : 75 * number + 75])
    live = kind(frame_of(spark, incoming), trigger={"availableNow": True}, restarts=1)
    with counts(live).start() as run:
        assert run.wait(120)
        assert run.to_arrow().equals(expected)
        assert run.metrics().tuples_in == 300
    assert live.restarted == 1
    nothing_runs(spark)


def test_example_a_query_that_fails_for_good_fails_the_run(spark, incoming):
    for number in range(3):
        write(incoming, number, ROWS[100 * number : 100 * number + 100])
    live = FailsBeforeHandingOver(frame_of(spark, incoming))
    with counts(live).start() as run:
        with pytest.raises(InputError, match=r"failed after batch 0.*the network is gone"):
            run.wait(180)
        assert run.state == "failed"
    nothing_runs(spark)


def test_agree_the_next_run_goes_on_where_the_checkpoint_says(spark, incoming, tmp_path):
    checkpoint = str(tmp_path / "checkpoint")
    taken = []
    for number in (0, 1):
        write(incoming, number, ROWS[150 * number : 150 * number + 150])
        live = hr.spark.live(frame_of(spark, incoming), checkpoint=checkpoint, trigger={"availableNow": True})
        with hr.stream(live, event_time="ts").forward().start() as run:
            assert run.wait(180)
            taken += run.to_arrow()["ts"].to_pylist()
    assert taken == [t for t, _ in ROWS]


@pytest.mark.slow
def test_example_what_a_stopped_run_had_taken_is_not_taken_again(spark, incoming, tmp_path):
    """As the module says: the next run begins after the batches handed over, or with the last one again."""
    for number in range(6):
        write(incoming, number, ROWS[50 * number : 50 * number + 50])
    checkpoint = str(tmp_path / "checkpoint")
    live = hr.spark.live(frame_of(spark, incoming), checkpoint=checkpoint)
    rate = hr.rates.phases([(0.6, 40), (600, 0), (1, 40)])  # a part of the first batch, however late Spark brings the second
    with hr.stream(live, event_time="ts").forward().start(rate=rate) as run:
        eventually(lambda: run.metrics().tuples_out >= 20 and live.last_batch >= 1, 180)
        run.stop()
        put_out = run.metrics().tuples_out
    nothing_runs(spark)
    again = hr.spark.live(frame_of(spark, incoming), checkpoint=checkpoint, trigger={"availableNow": True})
    with hr.stream(again, event_time="ts").forward().start() as run:
        assert run.wait(180)
        taken = run.to_arrow()["ts"].to_pylist()
    begins = (len(ROWS) - len(taken)) // 50
    assert taken == [t for t, _ in ROWS[50 * begins :]]
    assert begins in (live.last_batch, live.last_batch + 1) and 50 * begins > put_out


@pytest.mark.slow
def test_agree_spark_follows_the_results(spark, incoming, tmp_path, expected):
    """In by a stream of Spark's, out by another one."""
    for number in range(3):
        write(incoming, number, ROWS[100 * number : 100 * number + 100])
    out = tmp_path / "out"
    live = hr.spark.live(frame_of(spark, incoming), trigger={"availableNow": True})
    with counts(live).start(sink=hr.parquet_directory(out, every_s=0.05, rows_per_file=10)) as run:
        assert run.wait(180)
    followed = spark.readStream.schema("ts long, k string, n long").parquet(str(out))
    seen = []
    query = followed.writeStream.foreachBatch(lambda frame, _: seen.append(frame.toArrow()))
    query = query.option("checkpointLocation", str(tmp_path / "followed")).trigger(availableNow=True).start()
    assert query.awaitTermination(180)
    rows = pa.concat_tables(seen).sort_by([("ts", "ascending"), ("k", "ascending")])
    assert rows.cast(expected.schema).combine_chunks().equals(expected.combine_chunks())


def test_example_bad_parameters(spark, incoming):
    frame = frame_of(spark, incoming)
    with pytest.raises(ParameterError, match=r"not a streaming DataFrame.*hr\.stream"):
        hr.spark.live(spark.range(3))
    with pytest.raises(ParameterError, match="restarts = -1"):
        hr.spark.live(frame, restarts=-1)
    with pytest.raises(NotSupportedError, match="lateness="):
        hr.stream(frame, event_time="ts", sort=True)
    assert not [t for t in threading.enumerate() if "headrace" in t.name]
