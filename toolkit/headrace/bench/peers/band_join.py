"""The band join of ScaleJoin and STRETCH, section 8.3: |x - a| <= 10 and |y - b| <= 10, less than WS apart.

A rate is given in comparisons that a join without an index makes for the
result: every pair less than WS apart. Whoever skips some makes fewer.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.bench.join import BLOCK, WIDTH, make_sides
from headrace.bench.peers.digest import mix, unsigned
from headrace.bench.peers.workloads import Work
from headrace.kernel import kernel


@kernel
def join_loop(ts, x, y, other_ts, a, b, size, out):
    """Each tuple against those of the other side that came before it; results are folded into `out` (digest, rows)."""
    i = j = 0  # tuples of each side that have come
    left_from = right_from = 0  # the first that is less than `size` older
    while i < ts.size or j < other_ts.size:
        if j == other_ts.size or (i < ts.size and ts[i] <= other_ts[j]):
            while right_from < j and ts[i] - other_ts[right_from] >= size:
                right_from += 1
            find(a[right_from:j], b[right_from:j], right_from, x[i], y[i], i, ts[i], False, out)
            i += 1
        else:
            while left_from < i and other_ts[j] - ts[left_from] >= size:
                left_from += 1
            find(x[left_from:i], y[left_from:i], left_from, a[j], b[j], j, other_ts[j], True, out)
            j += 1


@kernel
def find(xs, ys, first, x, y, number, ts, is_right, out):
    """Compare one tuple with stored ones: a block at a time, then exactly those of a block that may match."""
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
                    stored = first + start + i
                    left, right = (stored, number) if is_right else (number, stored)
                    out[0] += mix(ts + 1, left, right, 0, 0)
                    out[1] += 1


def sides(window: int, arriving: int) -> tuple[pa.Table, pa.Table, int]:
    """Two sides of window + arriving tuples, each with its number, and the WS that holds `window` of each."""
    left, right, size = make_sides(window, arriving)
    numbers = pa.array(np.arange(left.num_rows, dtype=np.int64))
    return left.append_column("left", numbers), right.append_column("right", numbers), size


def comparisons(ts: np.ndarray, other_ts: np.ndarray, size: int) -> int:
    """Pairs less than `size` apart."""
    low = np.searchsorted(other_ts, ts - size, side="right")
    return int((np.searchsorted(other_ts, ts + size) - low).sum())


def band(left: pa.Table, right: pa.Table, size: int, folder: Path) -> Work:
    """All pairs within the band and less than `size` apart."""
    names = ((left, "ts"), (left, "x"), (left, "y"), (right, "ts"), (right, "a"), (right, "b"))
    columns = [table.column(name).combine_chunks().to_numpy() for table, name in names]

    def loop() -> tuple[float, int, int]:
        out = np.zeros(2, np.int64)
        begin = time.perf_counter()
        join_loop(*columns, size, out)
        return time.perf_counter() - begin, unsigned(out[0]), int(out[1])

    def query(one: Any, other: Any, index: bool = True) -> Any:
        where = hr.band("x", "a", WIDTH) & hr.band("y", "b", WIDTH)
        return one.join(other, size, where=where, index=index)

    return Work(
        "band join",
        "G comparisons",
        [left, right],
        ("ts", "left", "right"),
        loop,
        query,
        folder,
        level=f"of {size // 2:,} a side",
        amount=comparisons(columns[0], columns[3], size) / 1e9,
        size=size,
    )
