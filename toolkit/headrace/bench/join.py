"""The band join of ScaleJoin and STRETCH, section 8.3: comparisons a second.

|x - a| <= 10 and |y - b| <= 10 on int32 and float32 columns, uniform in
[1, 10000]. A window of W tuples means that each arriving tuple is compared with
the W tuples of the other side that are less than WS older. They are stored
before the run begins, so all of it is steady state, and comparisons a second
are arriving tuples x W / wall time. The baseline is a single-thread compiled
loop over the same columns that gives the same matches.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.bench.resident import Resident, digest_one
from headrace.bench.rows import Row, median
from headrace.gates.merged_log_kernel import SOURCE_SHIFT
from headrace.kernel import kernel
from headrace.operators import membership

WIDTH = 10
BLOCK = 256
LEFT, RIGHT = 0, 1 << SOURCE_SHIFT


def near(left, right):
    """The band as a function of two tuples."""
    return abs(left.x - right.a) <= 10 and abs(left.y - right.b) <= 10.0


def make_sides(window: int, arriving: int, seed: int = 7) -> tuple[pa.Table, pa.Table, int]:
    """Two sides of window + arriving tuples, alternating, and the WS that holds `window` of each."""
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


@kernel
def find(xs, ys, first_ref, x, y, ref, later_ts, out):
    """Compare one tuple with stored ones, a block at a time."""
    low = np.int32(x - WIDTH)
    high = np.int32(x + WIDTH)
    width = np.float32(WIDTH + 0.01)
    y = np.float32(y)
    for start in range(0, xs.size, BLOCK):
        x_block = xs[start : start + BLOCK]
        y_block = ys[start : start + BLOCK]
        found = False
        for i in range(x_block.size):
            found = found | ((x_block[i] >= low) & (x_block[i] <= high) & (abs(y_block[i] - y) <= width))
        if found:
            for i in range(x_block.size):
                if low <= x_block[i] <= high and abs(np.float64(y_block[i]) - np.float64(y)) <= WIDTH:
                    out[0] += 1
                    out[1] += digest_one(ref, first_ref + start + i, later_ts)


@kernel
def plain_loop(x, y, a, b, window, out):
    """Every arriving tuple against the window of the other side, in order. Tuples come left, right, left, ...

    Tuple i of the left is at 2 i, tuple i of the right at 2 i + 1; WS = 2 window.
    """
    for i in range(window, x.size):
        find(a[i - window : i], b[i - window : i], RIGHT + i - window, x[i], y[i], LEFT + i, 2 * i, out)
        first = i - window + 1
        find(x[first : i + 1], y[first : i + 1], LEFT + first, a[i], b[i], RIGHT + i, 2 * i + 1, out)


def plain_pairs(columns: Sequence[np.ndarray], window: int) -> tuple[int, int]:
    """Number and digest of the plain loop's pairs; `columns` are x, y, a, b."""
    found = np.zeros(2, np.int64)
    plain_loop(*columns, window, found)
    return int(found[0]), int(found[1]) & (2**64 - 1)


def band_join(left: pa.Table, right: pa.Table, size: int, index: bool = False) -> Any:
    """The stream of matches; all pairs are compared unless there is an index."""
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
        columns = [t[c].combine_chunks().to_numpy() for t, c in ((left, "x"), (left, "y"), (right, "a"), (right, "b"))]
        found = np.zeros(2, np.int64)
        compared = 2 * arriving * window
        plain = []
        plain_loop(*(column[: window + 1] for column in columns), window, found)  # compiles
        for _ in range(repetitions):
            found[:] = 0
            begin = time.perf_counter()
            plain_loop(*columns, window, found)
            plain.append(compared / (time.perf_counter() - begin) / 1e9)
        base = median(plain)
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
                    assert run.results == found[0], (run.results, int(found[0]))
                    assert run.digest == int(found[1]) & (2**64 - 1), "the join found other pairs than the plain loop"
                    assert abs(run.meter(membership.COMPARISONS) - compared) <= 128 * 2 * arriving
                    values.append(compared / seconds / 1e9)
                of_threads[threads] = median(values)
            if predicate == "function":
                goal = 7.0
            else:
                goal = 12.0 if window <= 100_000 else 10.0
            for threads, value in of_threads.items():
                case = f"{label}, {predicate}, {threads} thread{'s' if threads > 1 else ''}"
                wanted = goal if threads == 1 else None
                rows.append(Row("join", case, value, "G comparisons/s", "higher", wanted, base, "plain loop"))
            ratio = of_threads[2] / of_threads[1]
            rows.append(Row("join", f"{label}, {predicate}, 2 threads over 1", ratio, "x", "higher", 1.6))
    return rows
