"""Output latency at half of the sustainable rate.

Latency runs from the arrival of the tuple that made a result ready (the gate stamps it in
`add`) to the moment when the collector has sorted and built the result's batch. The
input is already encoded in the store, and compiled sources pace it; gate, instances
and collector are those of every run. The highest rate is measured first, with the
same collector.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.summary import counted
from headrace_bench.join import band_join, make_sides
from headrace_bench.resident import Resident
from headrace_bench.rows import Row, median
from headrace_bench.wordcount import ADVANCE, SIZE, WORDS, make_tweets

THREADS = (1, 2)


def keyed(n: int, keys: int, per_window: int, seed: int = 7) -> pa.Table:
    """Make ts, key and value; a window of 1,000 ms holds `per_window` tuples."""
    rng = np.random.default_rng(seed)
    return pa.table({
        "ts": np.arange(n, dtype=np.int64) * 1000 // per_window,
        "key": rng.integers(0, keys, n, dtype=np.int64),
        "value": rng.integers(0, 1000, n, dtype=np.int64),
    })


def queries(n: int, window: int) -> list[tuple[str, Any, list[pa.Table], int, int]]:
    """For each query: name, stream, tables, rows stored beforehand, number of results or -1."""
    table = keyed(n, 1000, 20_000)
    aggregate = hr.stream(table, event_time="ts").key_by("key").window(1000).aggregate(best=hr.max("value"))
    groups = len(np.unique(np.stack((table["ts"].to_numpy() // 1000, table["key"].to_numpy())), axis=1).T)
    left, right, size = make_sides(window, n // 10)
    tweets = make_tweets(n // 2)
    counted = hr.stream(tweets, event_time="ts").key_by(word=hr.each("words")).window(SIZE, ADVANCE)
    return [
        ("forward", hr.stream(table, event_time="ts").forward(), [table], 0, n),
        ("maximum, 1,000 keys", aggregate, [table], 0, groups),
        (f"join, {window:,} tuples", band_join(left, right, size), [left, right], window, -1),
        (f"word count, bursts of up to {WORDS:,} results", counted.aggregate(n=hr.count()), [tweets], 0, -1),
    ]


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """Milliseconds, p50 and p99, of each query at 1 and 2 threads."""
    n, repetitions, window = (8_000_000, 5, 20_000) if full else (2_000_000, 3, 20_000)
    if tiny:
        n, repetitions, window = 20_000, 1, 500
    rows = []
    for name, stream, tables, stored, results in queries(n, window):
        for threads in THREADS:
            rates = []
            for _ in range(repetitions):
                run = Resident(stream, tables, threads, stored=stored, collect=True)
                rates.append((len(run.ts[0]) - stored) / run.run())
                results = results if results >= 0 else run.results
                assert run.results == results, f"{name}: {run.results} results instead of {results}"
            half = int(median(rates) / 2)
            p50, p99 = [], []
            for _ in range(repetitions):
                run = Resident(stream, tables, threads, stored=stored, collect=True)
                run.run(per_second=half)
                assert run.results == results, f"{name}: {run.results} results instead of {results}"
                summary = run.operator.collector.latency.summary()
                p50.append(summary["p50"])
                p99.append(summary["p99"])
            case = f"{name}, {counted(threads, 'thread')}, {half / 1e6:.2g} M tuples/s"
            rows.append(Row("latency", f"{case}, p50", median(p50), "ms", "lower", 0.5))
            rows.append(Row("latency", f"{case}, p99", median(p99), "ms", "lower", 3.0))
    return rows
