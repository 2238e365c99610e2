"""Runs Spark Structured Streaming in its own process; takes requests from `on_spark`.

Requests: ``load FOLDER...``, ``run WORKLOAD RESULT_FILE [SIZE]``, ``query WORKLOAD RESULT_FILE`` (a batch), ``begin
WORKLOAD FOLDER CHECKPOINT``. A source is a folder of Parquet files, one to a micro-batch, and, where there are windows,
a last file with a single row far in the future: Spark emits a window when the watermark has passed it, and knows no end
of input. The answer to a run has the seconds from the first row to the last result, which is the time of all batches as
reported by Spark, and the processor time of this process and the virtual machine.
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as f

from headrace.spark import session
from headrace_bench.peers.sessions import SQL as SESSIONS_SQL
from headrace_bench.taken import Watch, java_of

FUTURE_S = 10_000_000


def aggregate(rows):
    grouped = rows.withWatermark("at", "0 seconds").groupBy(f.window("at", "10 seconds"), "key")
    return grouped.agg(f.sum("value").alias("sum"), f.count(f.lit(1)).alias("count")).select(
        (f.unix_millis("window.end")).alias("ts"), "key", "sum", "count"
    )


def count(rows, key, elements):
    keys = rows.select("at", f.explode(elements).alias(key)).withWatermark("at", "0 seconds")
    grouped = keys.groupBy(f.window("at", "120 seconds", "60 seconds"), key)
    return grouped.agg(f.count(f.lit(1)).alias("count")).select(
        (f.unix_millis("window.end")).alias("ts"), key, "count"
    )


def band_join(left, right, size):
    # Spark joins two streams only by an equality: by cells of x, ten wide, with each right row in three of them.
    # A row at time 0 counts as late, whatever the watermark: so both sides are shifted by one unit.
    left, right = (each.withColumn("at", f.timestamp_millis(f.col("ts") + 1)) for each in (left, right))
    cells = left.withWatermark("at", "0 seconds").withColumn("cell", f.floor(f.col("x") / 10))
    beside = f.explode(f.array(*(f.floor(f.col("a") / 10) + step for step in (-1, 0, 1))))
    near = right.withWatermark("at", "0 seconds").withColumn("cell", beside)
    l, r = cells.alias("l"), near.alias("r")
    width = f.expr(f"interval {size / 1000:.3f} seconds")
    pairs = l.join(
        r,
        (f.col("l.cell") == f.col("r.cell"))
        & (f.col("l.at") > f.col("r.at") - width)
        & (f.col("l.at") < f.col("r.at") + width)
        & (f.abs(f.col("x") - f.col("a")) <= 10)
        & (f.abs(f.col("y").cast("double") - f.col("b").cast("double")) <= 10),
    )
    return pairs.select((f.greatest("l.ts", "r.ts") + 1).alias("ts"), "left", "right")


QUERIES = {
    "aggregate": aggregate,
    "word_count": lambda rows: count(rows, "word", f.split("text", " ")),
    "pair_count": lambda rows: count(rows, "pair", f.col("pairs")),
    "band_join": band_join,
}

BATCH_QUERIES = {"sessions": SESSIONS_SQL}


def copy(source: Path, target: Path, with_end: bool) -> None:
    """Copy a source's files, dated so that Spark reads them in order, and add the row in the future if `with_end`."""
    target.mkdir(parents=True)
    files = sorted(source.glob("*.parquet"))
    for number, file in enumerate(files):
        shutil.copyfile(file, target / file.name)
        _date(target / file.name, number)
    if not with_end:
        return
    last = pq.read_table(files[-1])
    row = last.slice(last.num_rows - 1)
    far = pa.array([row.column("ts")[0].as_py() + FUTURE_S * 1000])
    end = target / "end.parquet"
    pq.write_table(row.set_column(row.column_names.index("ts"), "ts", far), end)
    _date(end, len(files))


def _date(file: Path, number: int) -> None:
    at = time.time() - 1000 + number
    os.utime(file, (at, at))


def read(spark, folder: str):
    """The rows of a folder as a stream, one file per micro-batch; column `at` is their event time."""
    schema = spark.read.parquet(folder).schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)
    return rows.withColumn("at", f.timestamp_millis("ts"))


def run(spark, folder: Path, workload: str, result: str, *numbers: str) -> tuple[float, float]:
    """Run the streaming query over all files, and write its result. Returns seconds and processor seconds."""
    sources = [read(spark, str(source)) for source in sorted(folder.iterdir())]
    checkpoint = tempfile.mkdtemp(prefix="headrace-bench-")
    try:
        watch = Watch(java_of(spark))
        query = (
            QUERIES[workload](*sources, *map(int, numbers))
            .writeStream.format("memory")
            .queryName("found")
            .outputMode("append")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        cpu_s = watch.taken().cpu_s
        batches = [p["durationMs"]["triggerExecution"] for p in query.recentProgress]
        pq.write_table(spark.table("found").toArrow(), result)
        spark.catalog.dropTempView("found")
    finally:
        shutil.rmtree(checkpoint, ignore_errors=True)
    return sum(batches) / 1000, cpu_s


def query(spark, folder: Path, workload: str, result: str) -> tuple[float, float]:
    """Run a batch query over all files but the one in the future, and write its result. Returns seconds and processor seconds."""
    watch = Watch(java_of(spark))
    for number, source in enumerate(sorted(folder.iterdir())):
        spark.read.parquet(f"{source}/[0-9]*.parquet").createOrReplaceTempView(f"input{number}")
    found = spark.sql(BATCH_QUERIES[workload]).toArrow()
    taken = watch.taken()
    pq.write_table(found, result)
    return taken.seconds, taken.cpu_s


def begin(spark, workload: str, folder: str, checkpoint: str) -> None:
    """Start a continuing query, from a checkpoint if there is one, and wait for its first batch with rows."""
    writer = QUERIES[workload](read(spark, folder)).writeStream.format("noop").outputMode("append")
    writer = writer.option("checkpointLocation", checkpoint)
    query = writer.start()
    while not any(progress["numInputRows"] for progress in query.recentProgress):
        if query.exception() is not None:
            raise query.exception()
        time.sleep(0.01)


def main(threads: int, partitions: int) -> None:
    spark = session(
        "headrace bench peers",
        master=f"local[{threads}]",
        config={
            "spark.sql.shuffle.partitions": partitions,
            "spark.sql.streaming.stateStore.providerClass": (
                "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
            ),
            "spark.sql.streaming.metricsEnabled": False,
            "spark.sql.streaming.numRecentProgressUpdates": 10_000,
        },
    )
    print("@ok", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    try:
        for line in sys.stdin:
            words = line.split()
            try:
                if words[0] == "load":
                    shutil.rmtree(folder / "input", ignore_errors=True)
                    for number, source in enumerate(words[1:]):
                        copy(Path(source), folder / "input" / str(number), with_end=len(words) == 2)
                    print("@ok", flush=True)
                elif words[0] == "begin":
                    begin(spark, *words[1:])
                    print("@ok", flush=True)
                elif words[0] == "query":
                    seconds, cpu_s = query(spark, folder / "input", *words[1:])
                    print(f"@ok {seconds} {cpu_s}", flush=True)
                elif words[0] == "run":
                    seconds, cpu_s = run(spark, folder / "input", *words[1:])
                    print(f"@ok {seconds} {cpu_s}", flush=True)
            except Exception as error:
                print(f"@error {type(error).__name__}: {' '.join(str(error).split())[:300]}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
