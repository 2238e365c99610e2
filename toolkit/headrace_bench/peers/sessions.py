"""Sessions that put something into the cart and buy nothing (TPCx-BB query 4): an ordered pipeline and its peers.

As `headrace.apps.abandoned`, except that a row has the sum of clicks instead of their mean, since the digest is of integers.
Rows have their position as a column, by which SQL orders rows of equal time; ours does not read it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import headrace_datasets
from headrace.apps.abandoned import CLOSED, SESSION, close_after, was_abandoned
from headrace.kernel import kernel
from headrace.memory.wrapped import wrapped_sum
from headrace_bench.digest import mix, unsigned
from headrace_bench.peers.workloads import Work

TIMEOUT = 3_600_000
"""Milliseconds: a click exactly this long after the last one still continues the session."""
KINDS = ("view", "cart", "buy")
"""Every other kind counts as a view."""

SQL = f"""
    with steps as (
        select *, lag(ts) over (partition by visitor order by position) as before from input0),
    parts as (
        select *, sum(case when before is null or ts - before > {TIMEOUT} then 1 else 0 end)
            over (partition by visitor order by position) as part
        from steps),
    done as (
        select visitor, part, min(position) as position, min(ts) as ts, count(*) as clicks,
            max(case when kind = 'cart' then 1 else 0 end) as carts, max(case when kind = 'buy' then 1 else 0 end) as buys
        from parts group by visitor, part),
    closed as (
        select later.ts, later.position, done.clicks
        from done join done as later on later.visitor = done.visitor and later.part = done.part + 1
        where done.carts = 1 and done.buys = 0)
    select ts, row_number() over (order by position) as sessions,
        cast(sum(clicks) over (order by position rows unbounded preceding) as bigint) as clicks
    from closed order by position"""
"""The query over a table `input0`, for DuckDB and for Spark."""


def clicks_of(n: int) -> pa.Table:
    """Make clicks: ts (ms), visitor, kind and position."""
    made = headrace_datasets.clicks(n=n).to_arrow().select(["ts", "user", "kind"]).combine_chunks()
    made = made.filter(pc.and_(pc.is_valid(made["user"]), pc.is_valid(made["kind"]))).combine_chunks()
    ts = pc.cast(pc.cast(made["ts"], pa.timestamp("ms"), safe=False), pa.int64())
    numbers = pa.array(np.arange(made.num_rows, dtype=np.int64))
    return pa.table({"ts": ts, "visitor": made["user"], "kind": made["kind"].cast(pa.string()), "position": numbers})


@kernel
def sessions_loop(ts, visitors, kinds, last, clicks, seen, out):
    """Close sessions; results are folded into `out` (digest, rows). `kinds`: 0 view, 1 cart, 2 buy; `seen` has a bit for each."""
    pages = 0
    for i in range(ts.size):
        v = visitors[i]
        if clicks[v] > 0 and ts[i] - last[v] > TIMEOUT:
            if seen[v] & 6 == 2:
                pages += clicks[v]
                out[0] = wrapped_sum(out[0], mix(out[1], ts[i], out[1] + 1, pages, 0))
                out[1] += 1
            clicks[v] = 0
            seen[v] = 0
        last[v] = ts[i]
        clicks[v] += 1
        seen[v] |= 1 << kinds[i]


def add_up(state, t, emit):
    state.sessions += 1
    state.clicks += t.clicks
    emit(sessions=state.sessions, clicks=state.clicks)


def query(stream: Any) -> Any:
    """Our query."""
    return (
        stream.ordered()
        .partitioned(close_after(TIMEOUT), by="visitor", state=SESSION, emits=CLOSED)
        .filter(was_abandoned)
        .stateful(
            add_up, state={"sessions": "int64", "clicks": "int64"}, emits={"sessions": "int64", "clicks": "int64"}
        )
    )


def sessions(table: pa.Table, folder: Path) -> Work:
    """Abandoned sessions so far and their clicks, emitted at the click that shows that a session is over; a sequence."""
    ts = table["ts"].to_numpy()
    visitors = pc.dictionary_encode(table["visitor"].combine_chunks()).indices.to_numpy().astype(np.int64)
    kinds = pc.fill_null(pc.index_in(table["kind"].combine_chunks(), pa.array(KINDS)), 0).to_numpy().astype(np.int64)

    def loop() -> tuple[float, int, int]:
        out = np.zeros(2, np.int64)
        of_visitor = [np.zeros(int(visitors.max()) + 1, np.int64) for _ in range(3)]
        begin = time.perf_counter()
        sessions_loop(ts, visitors, kinds, *of_visitor, out)
        return time.perf_counter() - begin, unsigned(out[0]), int(out[1])

    return Work(
        "sessions", "clicks", [table], ("ts", "sessions", "clicks"), loop, query, folder, is_ordered=True, row="click"
    )


__all__ = ["SQL", "clicks_of", "sessions"]
