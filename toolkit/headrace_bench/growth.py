"""The cost of a tuple as a stream, its keys and the overlap of its windows grow.

The cost of a tuple should not depend on how many came before. It does depend on the number of
keys once their state no longer fits the caches; the plain loop, which is the baseline, has the same
state and the same cache misses. The cost also grows with WS/WA, since a tuple updates every window that
contains it; it grows slowly, because the windows of a key are adjacent in memory.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.elastic import words
from headrace.kernel import kernel
from headrace_bench.resident import Resident
from headrace_bench.rows import Row, median

SLIDE = 1000
"""Advance of every window here, in units of event time; by default 20 tuples come in each unit."""
PER_SLIDE = 20_000


def make_rows(n: int, keys: int, per_slide: int = PER_SLIDE, seed: int = 7) -> pa.Table:
    """Make times, uniform keys and values, with `per_slide` tuples per advance of the window."""
    rng = np.random.default_rng(seed)
    return pa.table({
        "ts": np.arange(n, dtype=np.int64) * SLIDE // per_slide,
        "key": rng.integers(0, keys, n, dtype=np.int64),
        "value": rng.integers(0, 1000, n, dtype=np.int64),
    })


def query(table: pa.Table, overlap: int = 1) -> Any:
    """Sum, minimum and maximum of the value by key."""
    stream = hr.stream(table, event_time="ts").key_by("key").window(overlap * SLIDE, SLIDE)
    return stream.aggregate(total=hr.sum("value"), low=hr.min("value"), high=hr.max("value"))


def expected(table: pa.Table, overlap: int = 1) -> tuple[int, int]:
    """The number of result rows and of window updates, computed with NumPy."""
    slides = table["ts"].to_numpy() // SLIDE
    keys = table["key"].to_numpy()
    span = int(keys.max()) + 1
    first = np.unique(slides * span + keys)  # one group per advance and key; it lies in `overlap` windows
    windows = np.unique(np.concatenate([first - back * span for back in range(overlap)]))
    return len(windows), len(slides) * overlap


@kernel
def plain_loop(ts, keys, values, total, low, high):
    """The same aggregates in a loop without windows or results: the cost of the state alone."""
    for i in range(ts.size):
        key = keys[i]
        total[key] += values[i]
        low[key] = min(low[key], values[i])
        high[key] = max(high[key], values[i])


def _loop_seconds(table: pa.Table, keys: int) -> float:
    columns = [table[name].to_numpy() for name in ("ts", "key", "value")]
    state = [np.zeros(keys, np.int64), np.full(keys, 1 << 40), np.full(keys, -1)]
    plain_loop(*(column[:1] for column in columns), *state)
    begin = time.perf_counter()
    plain_loop(*columns, *state)
    return time.perf_counter() - begin


def _seconds(table: pa.Table, overlap: int, threads: int, like: Resident | None = None) -> tuple[float, Resident]:
    run = Resident(query(table, overlap), [table], threads, like=like)
    seconds = run.run()
    found = run.results, run.meter(words.UPDATES)
    assert found == expected(table, overlap), f"{found} rows and updates instead of {expected(table, overlap)}"
    return seconds, run


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """Nanoseconds per tuple on one thread, and the gain from a second thread."""
    n, repetitions = (4_000_000, 5) if full else (2_000_000, 2)
    if tiny:
        n, repetitions = 40_000, 1
    rows = _longer(n, (1, 10, 100, 1000) if full else (1, 2) if tiny else (1, 10, 25), repetitions)
    rows += _more_keys(n, (1_000, 10_000) if tiny else (10**3, 10**4, 10**5, 10**6, *(10**7,) * full), repetitions)
    rows += _more_overlap(n, (1, 3) if tiny else (1, 2, 6, 12, 60), repetitions)
    return rows


def _longer(n: int, lengths: tuple[int, ...], repetitions: int) -> list[Row]:
    table = make_rows(n, 1000)
    period = n // PER_SLIDE * SLIDE
    costs: dict[int, list[float]] = {}
    results, updates = expected(table)
    first: Resident | None = None
    for _ in range(repetitions):
        for cycles in lengths:
            run = Resident(query(table), [table], 1, like=first)
            first = first or run
            run.start(period=period, cycles=cycles)
            seconds = run.wait()
            assert run.results == results * cycles, f"{run.results} rows instead of {results * cycles}"
            assert run.meter(words.UPDATES) == updates * cycles, "updates lost"
            costs.setdefault(cycles, []).append(seconds / (n * cycles) * 1e9)
    base = median(costs[lengths[0]])
    return [
        Row("growth", f"{n * cycles:,} tuples", median(costs[cycles]), "ns/tuple", "lower",
            goal=1.2 if cycles > 1 else None, goal_is_ratio=cycles > 1,
            baseline=base if cycles > 1 else None, baseline_name=f"{n:,} tuples" if cycles > 1 else None)
        for cycles in lengths
    ]  # fmt: skip


def _more_keys(n: int, counts: tuple[int, ...], repetitions: int) -> list[Row]:
    rows = []
    for keys in counts:
        table = make_rows(n, keys, per_slide=n)  # one window: only the cost of updates is left
        times: dict[str, list[float]] = {"loop": [], "1": [], "2": []}
        first: Resident | None = None
        for _ in range(repetitions):
            times["loop"].append(_loop_seconds(table, keys))
            for threads in (1, 2):
                seconds, run = _seconds(table, 1, threads, first)
                first = first or run
                times[str(threads)].append(seconds)
        loop, one, two = (median(times[case]) / n * 1e9 for case in ("loop", "1", "2"))
        rows.append(Row("growth", f"{keys:,} keys", one, "ns/tuple", "lower", baseline=loop, baseline_name="plain loop"))
        rows.append(Row("growth", f"{keys:,} keys, 2 threads over 1", one / two, "x", goal=1.6 if one >= 5 else 1.25))
    return rows


def _more_overlap(n: int, overlaps: tuple[int, ...], repetitions: int) -> list[Row]:
    table = make_rows(n, 1000)
    costs: dict[int, list[float]] = {}
    first: dict[int, Resident] = {}
    for _ in range(repetitions):
        for overlap in overlaps:
            seconds, run = _seconds(table, overlap, 1, first.get(overlap))
            first.setdefault(overlap, run)
            costs.setdefault(overlap, []).append(seconds / n * 1e9)
    base = median(costs[overlaps[0]])
    return [
        Row("growth", f"WS/WA = {overlap}", median(costs[overlap]), "ns/tuple", "lower",
            baseline=base if overlap > 1 else None, baseline_name="WS/WA = 1" if overlap > 1 else None)
        for overlap in overlaps
    ]  # fmt: skip
