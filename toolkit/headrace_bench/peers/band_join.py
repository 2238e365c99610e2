"""The band join of ScaleJoin and STRETCH, section 8.3: |x - a| <= 10 and |y - b| <= 10, less than WS apart.

Rates count the comparisons that a join without an index makes for the result,
one for every pair less than WS apart. A contestant that skips some makes fewer.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace_bench.digest import unsigned
from headrace_bench.join import columns_of, make_sides
from headrace_bench.join_kernel import COUNT, ROWS, WIDTH, join_loop
from headrace_bench.peers.workloads import Work


def sides(window: int, arriving: int) -> tuple[pa.Table, pa.Table, int]:
    """Make two sides of window + arriving tuples, each with its number. Returns them and the WS that holds `window` of each."""
    left, right, size = make_sides(window, arriving)
    numbers = pa.array(np.arange(left.num_rows, dtype=np.int64))
    return left.append_column("left", numbers), right.append_column("right", numbers), size


def comparisons(ts: np.ndarray, other_ts: np.ndarray, size: int) -> int:
    """The number of pairs less than `size` apart."""
    low = np.searchsorted(other_ts, ts - size, side="right")
    return int((np.searchsorted(other_ts, ts + size) - low).sum())


def band(left: pa.Table, right: pa.Table, size: int, folder: Path) -> Work:
    """All pairs within the band and less than `size` apart."""
    columns = columns_of(left, right)

    def loop() -> tuple[float, int, int]:
        out = np.zeros(3, np.int64)
        begin = time.perf_counter()
        join_loop(*columns, size, 0, out)
        return time.perf_counter() - begin, unsigned(out[ROWS]), int(out[COUNT])

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
