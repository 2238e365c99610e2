"""Tuples of several sources, unmerged and merged: what sorting costs where nothing depends on the order.

The sources have interleaved event times and 100,000 keys; windows are two advances long. The operator is measured by itself,
over data that is already encoded (`resident`), and in a whole run. Before anything is timed, the results of both orders are
compared, those of whole runs byte by byte. In the last case windows are so short that 40 tuples put a source one advance ahead,
where it has to wait: skipping the merge gains nothing there.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.summary import counted
from headrace_bench.resident import Resident
from headrace_bench.rows import Row, median

KEYS = 100_000
SOURCES = (2, 4, 8)
ORDERS = ("merged", "arrival")
SPAN = 1_000_000
QUERIES: dict[str, dict[str, Any]] = {
    "count": {"n": hr.count()},
    "sum, least, greatest": {"total": hr.sum("v"), "least": hr.min("v"), "most": hr.max("v")},
}


def make_sources(count: int, rows: int, seed: int = 3) -> list[pa.Table]:
    """Make `count` tables with `rows` rows together; their sorted event times cover one span."""
    rng = np.random.default_rng(seed)
    each = rows // count
    return [
        pa.table({
            "ts": np.sort(rng.integers(0, SPAN, each)),
            "k": rng.integers(0, KEYS, each),
            "v": rng.integers(-1000, 1000, each),
        })
        for _ in range(count)
    ]  # fmt: skip


def query(inputs: Any, aggregates: dict[str, Any], advance: int) -> Any:
    """Aggregate by key, over windows of two advances."""
    return hr.stream(inputs, event_time="ts").key_by("k").window(2 * advance, advance).aggregate(**aggregates)


def _resident(name: str, tables: list[pa.Table], aggregates: dict[str, Any], advance: int, threads: int, repetitions: int) -> Row:
    """M tuples/s of the operator by itself."""
    stream = query(tables, aggregates, advance)
    first = Resident(stream, tables, threads)
    first.run()
    rows = sum(len(table) for table in tables)
    speed: dict[str, list[float]] = {order: [] for order in ORDERS}
    for _ in range(repetitions):
        for order in ORDERS:
            run = Resident(stream, tables, threads, like=first, input_order=order)
            speed[order].append(rows / run.run() / 1e6)
            assert (run.results, run.digest) == (first.results, first.digest), f"{name}, {order}: other results"
    merged, arrival = (median(speed[order]) for order in ORDERS)
    return Row("arrival", name, arrival, "M tuples/s", baseline=merged, baseline_name="merged")


def _whole(tables: list[pa.Table], aggregates: dict[str, Any], repetitions: int) -> Row:
    """Seconds of a run from tables to a table."""
    counts = query(tables, aggregates, SPAN // 10)
    results = [counts.to_arrow(threads=1, input_order=order) for order in ORDERS]
    assert results[0].equals(results[1]), "other results"
    seconds: dict[str, list[float]] = {order: [] for order in ORDERS}
    for _ in range(repetitions):
        for order in ORDERS:
            begin = time.perf_counter()
            counts.to_arrow(threads=1, input_order=order)
            seconds[order].append(time.perf_counter() - begin)
    merged, arrival = (median(seconds[order]) for order in ORDERS)
    case = f"a whole run, {len(tables)} sources, count, 1 thread"
    return Row("arrival", case, arrival, "s", "lower", baseline=merged, baseline_name="merged")


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """Tuples per second in arrival order, compared with merged order."""
    rows, repetitions = (8_000_000, 9) if full else (2_000_000, 5)
    if tiny:
        rows, repetitions = 8_000, 1
    found = []
    for count in SOURCES:
        tables = make_sources(count, rows)
        for name, aggregates in QUERIES.items():
            for threads in (1, 2):
                case = f"{name}, {count} sources, {counted(threads, 'thread')}"
                found.append(_resident(case, tables, aggregates, SPAN // 10, threads, repetitions))
    tables = make_sources(4, rows)
    short = max(1, SPAN * 40 // (rows // 4))
    found.append(_resident("count, 4 sources, 1 thread, short windows", tables, QUERIES["count"], short, 1, repetitions))
    found.append(_whole(tables, QUERIES["count"], repetitions))
    return found
