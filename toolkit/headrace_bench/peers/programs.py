"""Two workloads of dependency-guided synchronization: the event window, and the page-view join (Kallas et al., section 4).

Rows are ts, key, value, as in `forward`, so that the same files serve. Event window: values have key 0, barriers key 1; a
barrier gives the sum of the values since the previous barrier. Page-view join: the key is the page; a view's value is its user,
from 0 on; an update's value, below 0, is the page's new info, negated. Both are emitted with the info that held before, 0 at
first. At equal times the left input comes before the right.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.apps.pageview import replicate, unite
from headrace.kernel import kernel
from headrace.memory.wrapped import wrapped_sum
from headrace_bench.digest import mix, unsigned
from headrace_bench.event_window import SAME, close
from headrace_bench.peers.workloads import Work

BETWEEN = 10_000
"""Rows of the left input between two rows of the right."""
PER_MS = 10
PAGES, HOT, HOT_SHARE = 100, 2, 0.9


def value_rows(n: int) -> pa.Table:
    """Make the values of the event window."""
    rng = np.random.default_rng(7)
    return _rows(np.arange(n) // PER_MS, np.zeros(n, np.int64), rng.integers(0, 1_000, n))


def barrier_rows(n: int, between: int = BETWEEN) -> pa.Table:
    """Make a barrier after every `between` of `n` values, at the time of the last of them."""
    ends = _ends(n, between)
    return _rows(ends, np.ones(ends.size, np.int64), np.zeros(ends.size, np.int64))


def view_rows(n: int) -> pa.Table:
    """Make views of pages, most of them of two hot pages."""
    rng = np.random.default_rng(7)
    return _rows(np.arange(n) // PER_MS, _pages(rng, n), rng.integers(0, 10_000, n))


def update_rows(n: int, between: int = BETWEEN) -> pa.Table:
    """Make an update after every `between` of `n` views."""
    rng, ends = np.random.default_rng(8), _ends(n, between)
    return _rows(ends, _pages(rng, ends.size), -rng.integers(1, 100_000, ends.size))


def _ends(n: int, between: int) -> np.ndarray:
    return np.arange(min(between, n) - 1, n, between) // PER_MS


def _pages(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.where(rng.random(n) < HOT_SHARE, rng.integers(0, HOT, n), rng.integers(0, PAGES, n))


def _rows(ts: np.ndarray, keys: np.ndarray, values: np.ndarray) -> pa.Table:
    return pa.table({"ts": ts.astype(np.int64), "key": keys, "value": values})


# -- event window


def add(state, e, emit):
    state.sum += e.value


WINDOW = hr.program(
    name="window", tags={"value": {"value": "int64"}, "barrier": {}}, update={"value": add, "barrier": close}, **SAME
)


@kernel
def window_loop(ts, values, barriers, out):
    """Sums between barriers; results are folded into `out` (digest, rows)."""
    i, total = 0, np.int64(0)
    for b in range(barriers.size):
        while i < ts.size and ts[i] <= barriers[b]:
            total += values[i]
            i += 1
        out[0] = wrapped_sum(out[0], mix(barriers[b], total, 0, 0, 0))
        out[1] += 1
        total = np.int64(0)


def event_window(left: pa.Table, right: pa.Table, folder: Path) -> Work:
    """Sums of values between barriers."""
    ts, values, barriers = (one[name].to_numpy() for one, name in ((left, "ts"), (left, "value"), (right, "ts")))

    def loop() -> tuple[float, int, int]:
        out = np.zeros(2, np.int64)
        begin = time.perf_counter()
        window_loop(ts, values, barriers, out)
        return time.perf_counter() - begin, unsigned(out[0]), int(out[1])

    def query(one: Any, other: Any, streams: int = 1) -> Any:
        return WINDOW.over({"value": hr.streams(one, streams), "barrier": other})

    return Work("event window", "rows", [left, right], ("ts", "sum"), loop, query, folder, is_program=True)


# -- page-view join


def view(state, e, emit):
    emit(page=e.key, user=e.value, info=state.info.get(e.key, 0))


def update(state, e, emit):
    emit(page=e.key, user=-1, info=state.info.get(e.key, 0))
    state.info[e.key] = -e.value


PAGE_VIEWS = hr.program(
    name="pageview",
    tags={
        hr.tag("view", by="key", parts=PAGES): {"key": "int64", "value": "int64"},
        hr.tag("update", by="key", parts=PAGES): {"key": "int64", "value": "int64"},
    },
    depends=[("update", "update"), ("update", "view")],
    state={"info": hr.map_of("int64", "int64")},
    emits={"page": "int64", "user": "int64", "info": "int64"},
    update={"view": view, "update": update},
    fork=replicate,
    join=unite,
)


@kernel
def join_loop(ts, pages, users, other_ts, other_pages, values, out):
    """Join views and updates with the info that held before; results are folded into `out` (digest, rows)."""
    info = np.zeros(PAGES, np.int64)
    i = j = 0
    while i < ts.size or j < other_ts.size:
        if j == other_ts.size or (i < ts.size and ts[i] <= other_ts[j]):
            out[0] = wrapped_sum(out[0], mix(ts[i], pages[i], users[i], info[pages[i]], 0))
            i += 1
        else:
            out[0] = wrapped_sum(out[0], mix(other_ts[j], other_pages[j], -1, info[other_pages[j]], 0))
            info[other_pages[j]] = -values[j]
            j += 1
        out[1] += 1


def page_view_join(left: pa.Table, right: pa.Table, folder: Path) -> Work:
    """Views and updates of pages, each with the info of its page that held before."""
    columns = [table[name].to_numpy() for table in (left, right) for name in ("ts", "key", "value")]

    def loop() -> tuple[float, int, int]:
        out = np.zeros(2, np.int64)
        begin = time.perf_counter()
        join_loop(*columns, out)
        return time.perf_counter() - begin, unsigned(out[0]), int(out[1])

    def query(one: Any, other: Any, streams: int = 1) -> Any:
        return PAGE_VIEWS.over({"view": hr.streams(one, streams), "update": other})

    columns_of_result = ("ts", "page", "user", "info")
    return Work("page-view join", "rows", [left, right], columns_of_result, loop, query, folder, is_program=True)
