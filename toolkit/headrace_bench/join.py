"""The band join of ScaleJoin and STRETCH, section 8.3: comparisons a second.

|x - a| <= 10 and |y - b| <= 10 on int32 and float32 columns, uniform in
[1, 10000]. A window of W tuples means that each arriving tuple is compared with
the W tuples of the other side that are less than WS older. The first windows are
stored before the run begins, so the whole run is in steady state, and comparisons
per second are arriving tuples x W / wall time. The baseline is a compiled loop on one
thread over the same columns (`join_kernel`): it gives the same matches, uses the same
vectors and compares as many tuples in a pass as the engine.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.elastic import words
from headrace.summary import counted
from headrace_bench.join_kernel import COUNT, REFERENCES, WIDTH, join_loop
from headrace_bench.join_paced_kernel import join_paced
from headrace_bench.resident import Resident
from headrace_bench.rows import Row, median
from headrace_bench.scalejoin_kernel import COMPARED, NOTED

MOST_WAITS = 1 << 20
"""Number of pairs whose latency is kept."""


def near(left, right):
    """The band as a function of two tuples."""
    return abs(left.x - right.a) <= 10 and abs(left.y - right.b) <= 10.0


def make_sides(window: int, arriving: int, seed: int = 7) -> tuple[pa.Table, pa.Table, int]:
    """Make two sides of window + arriving tuples, alternating in time. Returns them and the WS that holds `window` of each."""
    rng = np.random.default_rng(seed)
    n = window + arriving
    tables = []
    for first, (integer, real) in enumerate((("x", "y"), ("a", "b"))):
        columns = {
            "ts": np.arange(n, dtype=np.int64) * 2 + first,
            integer: rng.integers(1, 10_001, n, dtype=np.int32),
            real: rng.uniform(1, 10_000, n).astype(np.float32),
        }
        tables.append(pa.table(columns))
    return tables[0], tables[1], 2 * window


def columns_of(left: pa.Table, right: pa.Table) -> list[np.ndarray]:
    """The columns of both sides that `join_loop` takes."""
    names = ((left, "ts"), (left, "x"), (left, "y"), (right, "ts"), (right, "a"), (right, "b"))
    return [table[name].combine_chunks().to_numpy() for table, name in names]


def plain_pairs(columns: Sequence[np.ndarray], size: int, first: int) -> tuple[int, int]:
    """Number and digest of the plain loop's pairs, from tuple `first` of each side on."""
    found = np.zeros(3, np.int64)
    join_loop(*columns, size, first, found)
    return pairs_in(found)


def pairs_in(found: np.ndarray) -> tuple[int, int]:
    """Number and digest of the pairs that a loop has added to `found`."""
    return int(found[COUNT]), int(found[REFERENCES]) & (2**64 - 1)


def late_waits(noted: np.ndarray) -> np.ndarray:
    """What `scalejoin_kernel.note` recorded, in nanoseconds, for the later half of the pairs: without the sources' start."""
    late = noted[noted[:, 0] >= np.median(noted[:, 0])] if len(noted) else noted
    return late[:, 2] - late[:, 1]


def plain_rate(columns: Sequence[np.ndarray], size: int, window: int, repetitions: int) -> float:
    """Median comparisons/s of the plain loop on one thread with full windows: 1T."""
    found = np.zeros(3, np.int64)
    join_loop(*(column[: window + 1] for column in columns), size, window, found)  # compiles
    compared = 2 * (columns[0].size - window) * window
    rates = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        join_loop(*columns, size, window, found)
        rates.append(compared / (time.perf_counter() - begin))
    return median(rates)


def plain_waits(
    columns: Sequence[np.ndarray], size: int, first: int, per_second: int
) -> tuple[np.ndarray, tuple[int, int]]:
    """Feed the plain loop at a steady rate and measure the latency of pairs, from when the later tuple was taken.

    Returns
    -------
    int64[n]
        Nanoseconds, of the later half of the pairs.
    (int, int)
        Pairs and digest.
    """
    found, waits = np.zeros(COMPARED + 1, np.int64), np.zeros((MOST_WAITS, 3), np.int64)
    join_paced(*(column[: first + 1] for column in columns), size, first, per_second, found, waits)  # compiles
    found[:] = 0
    join_paced(*columns, size, first, per_second, found, waits)
    return late_waits(waits[: int(found[NOTED])]), pairs_in(found)


def band_join(left: pa.Table, right: pa.Table, size: int, index: bool = False) -> Any:
    """The stream of matches; without an index all pairs are compared."""
    where = hr.band("x", "a", WIDTH) & hr.band("y", "b", WIDTH)
    return hr.stream(left, event_time="ts").join(hr.stream(right, event_time="ts"), size, where=where, index=index)


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """G comparisons/s of each window, predicate and number of threads."""
    work = 40e9 if full else 4e9
    repetitions = 5 if full else 3
    windows = (20_000, 100_000, 1_000_000)
    if tiny:
        work, repetitions, windows = 1e6, 1, (2_000,)
    rows = []
    for window in windows:
        arriving = max(64, int(work / window / 2))
        left, right, size = make_sides(window, arriving)
        columns = columns_of(left, right)
        compared = 2 * arriving * window
        base = plain_rate(columns, size, window, repetitions) / 1e9
        pairs = plain_pairs(columns, size, window)
        label = f"{window:,} tuples"
        rows.append(Row("join", f"{label}, plain loop, 1 thread", base, "G comparisons/s"))
        streams = {
            "band": band_join(left, right, size),
            "function": hr.stream(left, event_time="ts").join(hr.stream(right, event_time="ts"), size, where=near),
        }
        for predicate, stream in streams.items():
            first = None
            of_threads = {}
            for threads in (1, 2, 8):
                values = []
                for _ in range(repetitions):
                    run = Resident(stream, [left, right], threads, like=first, stored=window)
                    first = first or run
                    seconds = run.run()
                    assert (run.results, run.digest) == pairs, "the join found other pairs than the plain loop"
                    assert abs(run.meter(words.COMPARISONS) - compared) <= 128 * 2 * arriving
                    values.append(compared / seconds / 1e9)
                of_threads[threads] = median(values)
            if predicate == "function":
                goal = 7.0
            else:
                goal = 12.0 if window <= 100_000 else 10.0
            for threads, value in of_threads.items():
                case = f"{label}, {predicate}, {counted(threads, 'thread')}"
                wanted = goal if threads == 1 else None
                rows.append(Row("join", case, value, "G comparisons/s", "higher", wanted, base, "plain loop"))
            ratio = of_threads[2] / of_threads[1]
            rows.append(Row("join", f"{label}, {predicate}, 2 threads over 1", ratio, "x", "higher", 1.6))
    return rows
