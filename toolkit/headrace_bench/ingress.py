"""Each kind of input: rows a second read and encoded, and word count from text to result.

Hand-over is the work of a run's reading thread. It reads the columns that the
operator needs, validates them, checks the event times and encodes keys, batch by
batch; here the batches are dropped. The baseline of each row is reading only.
Then whole runs of word count, from text to counted windows, are compared with the
hand-over of the same batches; and with runs whose texts are split elsewhere: by Arrow,
by Spark, or upstream, with the words in a column, as texts or encoded.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import headrace as hr
from headrace_bench.rows import Row, median, repeated

QUERIES: dict[str, Callable] = {
    "integer keys": lambda stream: stream.key_by("number").window("1h").aggregate(best=hr.max("chars")),
    "string keys": lambda stream: stream.key_by("user").window("1h").aggregate(best=hr.max("chars")),
    "hashtags of text": lambda stream: stream.key_by(tag=hr.hashtags("text")).window("1h").aggregate(n=hr.count()),
    "words of text": lambda stream: stream.key_by(word=hr.words("text")).window("1h").aggregate(n=hr.count()),
}


def make_table(n: int) -> pa.Table:
    """Make tweets, with the user's number and the length of the text."""
    from headrace_datasets import tweets

    table = tweets(n=n, seed=7, rate=1000.0).to_arrow()
    codes = pc.dictionary_encode(table["user"]).combine_chunks().indices.cast(pa.int64())
    return table.append_column("number", codes).append_column("chars", pc.utf8_length(table["text"]).cast(pa.int64()))


def hand_over(source: Any, query: Callable) -> tuple[float, float, int]:
    """Read the columns that `query` needs of `source`; then read and encode them. Returns the seconds of each, and the rows."""
    planned = query(hr.stream(source, event_time="ts")).plan()
    node = planned.output
    section = node.spec.section(node, planned.branches[node.name], node.spec.options())
    inlet = section.inlets[0]
    seconds = []
    rows = 0
    for is_encoded in (False, True):
        reader = inlet.branch.origin.readers[0]().select(inlet.columns_used)
        rows = 0
        begin = time.perf_counter()
        for batch in reader:
            if is_encoded:
                rows += sum(len(encoded) for encoded in inlet.encode(batch))
            else:
                rows += batch.num_rows
        seconds.append(time.perf_counter() - begin)
    return seconds[0], seconds[1], rows


def end_to_end(source: Any, query: Callable) -> tuple[float, int]:
    """Run a query and drop its results. Returns seconds from start to end, and the number of result rows."""
    stream = query(hr.stream(source, event_time="ts"))
    begin = time.perf_counter()
    with stream.start(threads=1, sink=hr.discard()) as run:
        run.wait()
        return time.perf_counter() - begin, run.metrics().tuples_out


def word_sources(table: pa.Table, frame: Any = None) -> dict[str, Callable[[], Any]]:
    """Tweets whose texts are already split, as a column of words: name -> function that makes a run's source."""
    schema = pa.schema([table.schema.field("ts"), pa.field("words", pa.list_(pa.string()))])

    def split(batch: pa.RecordBatch) -> pa.RecordBatch:
        trimmed = pc.utf8_trim_whitespace(batch["text"])
        filled = pc.not_equal(trimmed, "")  # Arrow would make one empty word of an empty text
        lists = pc.utf8_split_whitespace(trimmed.filter(filled))
        return pa.record_batch([batch["ts"].filter(filled), lists], schema=schema)

    def split_as_read() -> pa.RecordBatchReader:
        batches = table.select(["ts", "text"]).to_batches(max_chunksize=65_536)
        return pa.RecordBatchReader.from_batches(schema, (split(batch) for batch in batches))

    kept = split_as_read().read_all().combine_chunks()
    lists = kept["words"].chunk(0)
    codes = pc.dictionary_encode(lists.values)
    encoded = kept.set_column(1, "words", pa.ListArray.from_arrays(lists.offsets, codes))
    numbers = kept.set_column(1, "words", pa.ListArray.from_arrays(lists.offsets, codes.indices.cast(pa.int64())))
    found: dict[str, Callable[[], Any]] = {
        "split by Arrow as it is read": split_as_read,
        "a column of word lists, as strings": lambda: kept,
        "a column of word lists, dictionary-encoded": lambda: encoded,
        "a column of word lists, as numbers": lambda: numbers,
    }
    if frame is not None:
        tokenised = frame.select("ts", hr.spark.words("text").alias("words"))
        found["split by Spark"] = lambda: tokenised
    return found


def sources(table: pa.Table, folder: str, with_spark: bool) -> dict[str, Any]:
    """The rows in each form of input."""
    import pyarrow.parquet as pq

    path = Path(folder) / "tweets.parquet"
    pq.write_table(table, path, row_group_size=131_072)
    found: dict[str, Any] = {"Arrow table": table, "Parquet file": path, "pandas frame": table.to_pandas()}
    if with_spark:
        spark = hr.spark.session()
        frame = spark.read.parquet(str(path)).coalesce(1)
        assert frame.count() == table.num_rows
        found["Spark DataFrame"] = frame
    return found


def count_words(table: pa.Table) -> int:
    """The number of rows that word count must give, computed in plain Python."""
    hours = pc.cast(table["ts"], pa.int64()).to_numpy() // 3_600_000_000
    texts = table["text"].to_pylist()
    return len({(hour, word) for hour, text in zip(hours, texts, strict=True) for word in text.split()})


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """M rows/s of each hand-over, and seconds of word count end to end."""
    n, repetitions = (4_000_000, 5) if full else (200_000, 3)
    with_spark = True
    if tiny:
        n, repetitions, with_spark = 5_000, 1, has_session()
    rows = []
    table = make_table(n)
    words = count_words(table.slice(0, 200_000))
    assert end_to_end(table.slice(0, 200_000), QUERIES["words of text"])[1] == words
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        forms = sources(table, folder, with_spark)
        for form, source in forms.items():
            for name, query in QUERIES.items():
                if form != "Arrow table" and name not in ("integer keys", "words of text"):
                    continue
                hand_over(source, query)  # compiles, warms the file cache
                times = [hand_over(source, query) for _ in range(repetitions)]
                assert all(rows_read == n for _, _, rows_read in times)
                read, encoded = (n / median([t[i] for t in times]) / 1e6 for i in (0, 1))
                rows.append(
                    Row("ingress", f"{form}, {name}", encoded, "M rows/s", baseline=read, baseline_name="reading only")
                )
        query = QUERIES["words of text"]
        results = None
        for form in ("Arrow table", "Spark DataFrame"):
            if form not in forms:
                continue
            end_to_end(forms[form], query)
            whole, handed = [], []
            for _ in range(repetitions):
                seconds, found = end_to_end(forms[form], query)
                results = found if results is None else results
                assert found == results, (found, results)
                whole.append(seconds)
                handed.append(hand_over(forms[form], query)[1])
            rows.append(
                Row(
                    "ingress",
                    f"{form}, word count end to end",
                    median(whole),
                    "s",
                    "lower",
                    goal=1.3,
                    baseline=median(handed),
                    baseline_name="hand-over",
                    goal_is_ratio=True,
                )
            )
        assert results is not None
        rows += compare_words(table, forms.get("Spark DataFrame"), results, repetitions)
    return rows


def compare_words(table: pa.Table, frame: Any, results: int, repetitions: int) -> list[Row]:
    """Seconds of word count from start to end, by where the texts are split; in turns."""
    ours = "text, split by headrace"
    texts = {ours: table} if frame is None else {ours: table, "text from Spark, split by headrace": frame}
    ways = [(name, lambda source=source: source, QUERIES["words of text"]) for name, source in texts.items()]
    ways += [(name, source, _count_listed) for name, source in word_sources(table, frame).items()]
    seconds: dict[str, list[float]] = {name: [] for name, _, _ in ways}
    for counts in repeated(repetitions):
        for name, source, query in ways:
            took, found = end_to_end(source(), query)
            assert found == results, (name, found, results)
            if counts:
                seconds[name].append(took)
    base = median(seconds[ours])
    return [
        Row("ingress", f"words: {name}", median(times), "s", "lower", baseline=base, baseline_name=ours)
        for name, times in seconds.items()
    ]


def _count_listed(stream: hr.Stream) -> hr.Stream:
    return stream.key_by(word=hr.each("words")).window("1h").aggregate(n=hr.count())


def has_session() -> bool:
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None
