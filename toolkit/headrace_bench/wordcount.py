"""Word count inside the engine: encoded keys, deduplicated per tuple, trivial update.

12 words a tuple, Zipf(1.0) over 100,000 words, WA 60 s, WS 120 s. The baseline
is a single-thread compiled loop over the same arrays that does the same work:
two windows per word, expiry included.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.elastic.words import IDS, UPDATES
from headrace.kernel import kernel
from headrace.memory.cells import read_cell
from headrace.references import BUCKETS
from headrace.summary import counted
from headrace_bench.resident import Resident
from headrace_bench.rows import Row, median

WORDS = 100_000
PER_TUPLE = 12
ADVANCE, SIZE = 60_000, 120_000
PERIOD = 600_000
"""Span of the tweets' event times, in ms."""


def make_tweets(n: int) -> pa.Table:
    """Make tweets: ts (ms) and word numbers; no word occurs twice in a tuple."""
    rng = np.random.default_rng(7)
    weights = 1.0 / np.arange(1, WORDS + 1)
    cumulative = np.cumsum(weights / weights.sum())
    words = np.searchsorted(cumulative, rng.random(n * PER_TUPLE)).astype(np.int32)
    words = np.minimum(words, WORDS - 1).reshape(n, PER_TUPLE)
    order = np.sort(words, axis=1)
    order[:, 1:][order[:, 1:] == order[:, :-1]] = -1
    keep = order >= 0
    offsets = np.concatenate(([0], np.cumsum(keep.sum(axis=1)))).astype(np.int32)
    ts = np.sort(rng.integers(0, PERIOD, n))
    return pa.table({"ts": ts, "words": pa.ListArray.from_arrays(offsets, order[keep])})


@kernel
def plain_loop(ts, offsets, keys, counts, rows, out):
    """Run the whole operator on one thread. Returns the number of results; `out` is the sum of their counts."""
    results = 0
    window = ts[0] // ADVANCE - 1
    last = ts[0] // ADVANCE
    for i in range(ts.size):
        t = ts[i]
        latest = t // ADVANCE
        while window * ADVANCE + SIZE <= t:
            if window <= last:
                place = window & 1
                for key in range(rows):
                    p = key * 2 + place
                    if counts[p] != 0:
                        results += 1
                        out[0] += counts[p]
                        counts[p] = 0
            window += 1
        last = latest
        for q in range(offsets[i], offsets[i + 1]):
            p = np.int64(keys[q]) * 2
            counts[p] += 1
            counts[p + 1] += 1
    for w in range(window, last + 1):
        place = w & 1
        for key in range(rows):
            p = key * 2 + place
            if counts[p] != 0:
                results += 1
                out[0] += counts[p]
                counts[p] = 0
    return results


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """Words per second, as ratios to the plain loop of the same run."""
    n, repetitions = (8_000_000, 7) if full else (3_000_000, 3)
    if tiny:
        n, repetitions = 20_000, 1
    table = make_tweets(n)
    stream = (
        hr.stream(table, event_time="ts").key_by(word=hr.each("words")).window(SIZE, ADVANCE).aggregate(n=hr.count())
    )
    probe = Resident(stream, [table], 1)
    store = probe.operator.inlets[0].store
    words = table["words"].combine_chunks()
    total = len(words.values)
    chunks = [store.chunks[number] for number in sorted(store.chunks)]
    keys = np.concatenate([chunk.keys[: chunk.keys_used] for chunk in chunks])
    offsets = words.offsets.to_numpy().astype(np.int64)
    ts = table["ts"].to_numpy()
    id_rows = read_cell(probe.operator.arrays.words, IDS) * BUCKETS
    probe.run()
    expected_sum = 2 * total
    counts = np.zeros(2 * id_rows, np.uint32)
    out = np.zeros(1, np.int64)
    plain_results = plain_loop(ts, offsets, keys, counts, id_rows, out)
    assert out[0] == expected_sum, (out[0], expected_sum)
    assert probe.results == plain_results, (probe.results, plain_results)
    plain: list[float] = []
    times: dict[int, list[float]] = {1: [], 2: [], 4: [], 8: []}
    for _ in range(repetitions):
        begin = time.perf_counter()
        plain_loop(ts, offsets, keys, counts, id_rows, out)
        plain.append(total / (time.perf_counter() - begin) / 1e6)
        for threads in times:
            run = Resident(stream, [table], threads)
            seconds = run.run()
            assert run.results == plain_results and run.meter(UPDATES) == expected_sum
            times[threads].append(total / seconds / 1e6)
    base = median(plain)
    rows = [Row("wordcount", "plain loop, 1 thread", base, "M words/s")]
    for threads, values in times.items():
        rows.append(
            Row("wordcount", f"engine, {counted(threads, 'thread')}", median(values), "M words/s",
                goal=0.9 if threads == 1 else None, goal_is_ratio=True, baseline=base, baseline_name="plain loop")
        )  # fmt: skip
    one, two, eight = median(times[1]), median(times[2]), median(times[8])
    rows.append(Row("wordcount", "engine, 1 thread, absolute goal", one, "M words/s", goal=600))
    rows.append(Row("wordcount", "2 threads over 1", two / one, "x", goal=1.25))
    rows.append(Row("wordcount", "8 threads over 2", eight / two, "x", goal=0.5))
    return rows
