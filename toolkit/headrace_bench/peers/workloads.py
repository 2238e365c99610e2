"""The workloads of the peers: input files, the result's columns, and the plain loop that gives the expected result.

A workload's input is one Arrow table for each source, with raw keys or texts: a contestant that reads Arrow is given it as
it is. The same rows are also written to files twice: as Parquet, and as one file of plain little-endian values for each
column, for contestants that read neither. Tweets of word count are texts; pairs of pair count are numbers, made beforehand for
all contestants. No word or pair occurs twice in a tweet. Only the plain loop has encoded input: it shows what the rest costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import headrace as hr
from headrace.kernel import kernel
from headrace.memory.wrapped import wrapped_sum
from headrace_bench.digest import digest, mix, numbers_of, unsigned
from headrace_bench.experiments.q1 import Tweets
from headrace_bench.wordcount import ADVANCE, SIZE, WORDS

KEYS = 10_000
SPAN = 10_000
ROWS_PER_SPAN = 400_000


def _released() -> tuple[float, int, int]:
    raise RuntimeError("the workload was released")


@dataclass
class Work:
    """One workload on one machine, with its files.

    Parameters
    ----------
    name : str
        What is computed.
    unit : str
    tables : list of pa.Table
        One for each source.
    columns : sequence of str
        Columns of the result, integers and texts, in the order in which they are digested.
    loop : function
        Runs the plain loop, on encoded columns: () -> (seconds, digest, rows).
    query : function of streams
        Our query.
    folder : Path
        Where the files of each source are, by its number: `0/parquet/`, and `0/NAME.bin` for each column.
    is_ordered : bool
        Whether the result is a sequence: a row's position is then part of the digest.
    is_paced : bool
        Whether latency is measured, too.
    level : str
        Distinguishes workloads of the same name.
    amount : float
        The size of the input in `unit`; by default its number of rows.
    size : int
        WS of a join, in ms.
    row : str
        What one row of the input is.
    is_program : bool
        Whether our query is a program on a plan.
    """

    name: str
    unit: str
    tables: list[pa.Table]
    columns: Sequence[str]
    loop: Callable[[], tuple[float, int, int]]
    query: Callable[..., Any]
    folder: Path
    is_ordered: bool = False
    is_paced: bool = False
    level: str = ""
    amount: float = 0.0
    size: int = 0
    row: str = "row"
    is_program: bool = False
    tuples: int = field(init=False)
    """Rows of the input."""
    rows: int = field(init=False)
    digest: int = field(init=False)

    def __post_init__(self):
        for number, table in enumerate(self.tables):
            _write(table, self.folder / str(number))
        self.tuples = sum(table.num_rows for table in self.tables)
        self.amount = self.amount or self.tuples
        _, self.digest, self.rows = self.loop()

    @property
    def title(self) -> str:
        """Its name in the table."""
        return f"{self.name} {self.level}".rstrip()

    @property
    def parquet(self) -> list[Path]:
        """Each source as a folder of Parquet files, in the order of event time."""
        return [self.folder / str(number) / "parquet" for number in range(len(self.tables))]

    def digest_of(self, found: pa.Table) -> int:
        """The digest of a peer's result."""
        return digest(found, self.columns, self.is_ordered)

    def release(self) -> None:
        """Release the input, which may be gigabytes; name and unit stay."""
        self.tables, self.loop = [], _released


PARTS = 4


def _write(table: pa.Table, folder: Path) -> None:
    (folder / "parquet").mkdir(parents=True)
    step = -(-table.num_rows // PARTS)
    for part in range(PARTS):
        pq.write_table(table.slice(part * step, step), folder / "parquet" / f"{part}.parquet")
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if pa.types.is_string(column.type):
            _, offsets, data = column.buffers()
            places = np.frombuffer(offsets, np.int32)[: len(column) + 1]
            np.frombuffer(data, np.uint8)[: places[-1]].tofile(folder / f"{name}.bin")
            places.tofile(folder / f"{name}.offsets.bin")
        elif pa.types.is_list(column.type):
            column.values.to_numpy().tofile(folder / f"{name}.bin")
            column.offsets.to_numpy().tofile(folder / f"{name}.offsets.bin")
        else:
            column.to_numpy().tofile(folder / f"{name}.bin")


# -- keyed tumbling aggregate


@kernel
def aggregate_loop(ts, keys, values, sums, counts, out):
    """Sum and count by key in tumbling windows; results are folded into `out` (digest, rows)."""
    end = (ts[0] // SPAN + 1) * SPAN
    for i in range(ts.size):
        if ts[i] >= end:
            _flush(end, sums, counts, out)
            end = (ts[i] // SPAN + 1) * SPAN
        k = keys[i]
        sums[k] += values[i]
        counts[k] += 1
    _flush(end, sums, counts, out)


@kernel
def _flush(end, sums, counts, out):
    for k in range(counts.size):
        if counts[k] != 0:
            out[0] = wrapped_sum(out[0], mix(end, k, sums[k], counts[k], 0))
            out[1] += 1
            sums[k] = 0
            counts[k] = 0


def keyed_rows(n: int, keys: int = KEYS, per_span: int = ROWS_PER_SPAN, seed: int = 7) -> pa.Table:
    """Make rows of ts (ms), key and value, `per_span` of them in 10 s."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": np.arange(n, dtype=np.int64) * SPAN // per_span,
            "key": rng.integers(0, keys, n, dtype=np.int64),
            "value": rng.integers(0, 1000, n, dtype=np.int64),
        }
    )


def aggregate_query(stream: Any) -> Any:
    """Our query."""
    return stream.key_by("key").window(SPAN).aggregate(sum=hr.sum("value"), count=hr.count())


AGGREGATE_SQL = """
    select (ts // 10000 + 1) * 10000 as ts, key, sum(value)::bigint as sum, count(*) as count
    from input0 group by all"""
"""The aggregate in SQL over a table `input0`."""


def aggregate(table: pa.Table, folder: Path) -> Work:
    """Sum and count of `value` by `key` in windows of 10 s."""
    ts, keys, values = (table.column(name).to_numpy() for name in ("ts", "key", "value"))
    sums, counts = np.zeros(int(keys.max()) + 1, np.int64), np.zeros(int(keys.max()) + 1, np.int64)

    def loop() -> tuple[float, int, int]:
        out = np.zeros(2, np.int64)
        begin = time.perf_counter()
        aggregate_loop(ts, keys, values, sums, counts, out)
        return time.perf_counter() - begin, unsigned(out[0]), int(out[1])

    return Work(
        "aggregate",
        "rows",
        [table],
        ("ts", "key", "sum", "count"),
        loop,
        aggregate_query,
        folder,
        is_paced=True,
    )


# -- word and pair count


@kernel
def wordcount_loop(ts, offsets, words, names, counts, out):
    """Count tuples by word (or pair) in two overlapping windows; results are folded into `out` (digest, rows).

    `names` holds each word's number in the digest.
    """
    window = ts[0] // ADVANCE - 1
    last = ts[0] // ADVANCE
    for i in range(ts.size):
        latest = ts[i] // ADVANCE
        while window * ADVANCE + SIZE <= ts[i]:
            if window <= last:
                _flush_words(window, names, counts, out)
            window += 1
        last = latest
        for q in range(offsets[i], offsets[i + 1]):
            p = np.int64(words[q]) * 2
            counts[p] += 1
            counts[p + 1] += 1
    for w in range(window, last + 1):
        _flush_words(w, names, counts, out)


@kernel
def _flush_words(window, names, counts, out):
    place = window & 1
    for word in range(names.size):
        p = word * 2 + place
        if counts[p] != 0:
            out[0] = wrapped_sum(out[0], mix(window * ADVANCE + SIZE, names[word], counts[p], 0, 0))
            out[1] += 1
            counts[p] = 0


def words_to_text(table: pa.Table) -> pa.Table:
    """Turn ``ts, words`` (numbers) into ``ts, text``: the words' names, separated by spaces."""
    lists = table["words"].combine_chunks()
    texts = pc.binary_join(pa.ListArray.from_arrays(lists.offsets, _names_of(WORDS).take(lists.values)), " ")
    return pa.table({"ts": table["ts"], "text": texts})


def _names_of(words: int) -> pa.Array:
    return pa.array([f"word{number}" for number in range(words)])


def wordcount(table: pa.Table, folder: Path) -> Work:
    """How many tweets contain each word of their text, WA 60 s, WS 120 s; `table` has the words as numbers."""
    names = numbers_of(_names_of(WORDS))

    def query(stream: Any) -> Any:
        return stream.key_by(word=hr.words("text")).window(SIZE, ADVANCE).aggregate(count=hr.count())

    return _count("word count", "", "word", words_to_text(table), table, names, query, folder)


def pairs_of(level: str, updates: int) -> pa.Table:
    """Make ``ts, pairs``: the pairs of near words of each tweet, as numbers from 0.

    Parameters
    ----------
    level : {"L", "M", "H"}
        Words at most 3, 10 or 40 apart (section 8.1 of STRETCH).
    updates : int
        Least number of pairs over all tweets.
    """
    tweets = Tweets(f"paircount {level}", updates)
    found, pairs = np.unique(tweets.keys, return_inverse=True)
    offsets = np.concatenate(([0], np.cumsum(tweets.counts))).astype(np.int32)
    lists = pa.ListArray.from_arrays(offsets, pairs.astype(np.int32))
    assert found.size == int(pairs.max()) + 1
    return pa.table({"ts": tweets.ts, "pairs": lists})


def paircount(level: str, table: pa.Table, folder: Path) -> Work:
    """How many tweets contain each pair of near words, WA 60 s, WS 120 s; `table` as by `pairs_of`."""

    def query(stream: Any) -> Any:
        return stream.key_by(pair=hr.each("pairs")).window(SIZE, ADVANCE).aggregate(count=hr.count())

    names = np.arange(pc.max(table["pairs"].combine_chunks().values).as_py() + 1)
    return _count("pair count", level, "pair", table, table, names, query, folder)


def _count(
    name: str,
    level: str,
    key: str,
    table: pa.Table,
    encoded: pa.Table,
    names: np.ndarray,
    query: Callable[..., Any],
    folder: Path,
) -> Work:
    """Count tuples by each element of a list column of `encoded`: numbers whose names in the digest are `names`."""
    ts = encoded.column("ts").to_numpy()
    lists = encoded.column(f"{key}s").combine_chunks()
    offsets, elements = lists.offsets.to_numpy().astype(np.int64), lists.values.to_numpy()
    counts = np.zeros(2 * names.size, np.uint32)

    def loop() -> tuple[float, int, int]:
        out = np.zeros(2, np.int64)
        begin = time.perf_counter()
        wordcount_loop(ts, offsets, elements, names, counts, out)
        return time.perf_counter() - begin, unsigned(out[0]), int(out[1])

    return Work(name, "tweets", [table], ("ts", key, "count"), loop, query, folder, level=level, row="tweet")


# -- forward


@kernel
def forward_loop(ts, keys, values, other_ts, other_keys, other_values, out):
    """Merge two sources by (ts, source); the sequence is folded into `out` (digest, rows)."""
    i = j = 0
    while i < ts.size or j < other_ts.size:
        if j == other_ts.size or (i < ts.size and ts[i] <= other_ts[j]):
            out[0] = wrapped_sum(out[0], mix(out[1], ts[i], keys[i], values[i], 0))
            i += 1
        else:
            out[0] = wrapped_sum(out[0], mix(out[1], other_ts[j], other_keys[j], other_values[j], 0))
            j += 1
        out[1] += 1


def forward(left: pa.Table, right: pa.Table, folder: Path) -> Work:
    """All rows of two sources in merged order (Operator 15)."""
    columns = [table.column(name).to_numpy() for table in (left, right) for name in ("ts", "key", "value")]

    def loop() -> tuple[float, int, int]:
        out = np.zeros(2, np.int64)
        begin = time.perf_counter()
        forward_loop(*columns, out)
        return time.perf_counter() - begin, unsigned(out[0]), int(out[1])

    def query(one: Any, other: Any) -> Any:
        return one.union(other).forward()

    return Work(
        "forward", "rows", [left, right], ("ts", "key", "value"), loop, query, folder, is_ordered=True
    )
