"""Which workloads there are, and how large each is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from headrace_bench.peers.band_join import band, sides
from headrace_bench.peers.ledger import ledger, orders_of
from headrace_bench.peers.programs import (
    barrier_rows,
    event_window,
    page_view_join,
    update_rows,
    value_rows,
    view_rows,
)
from headrace_bench.peers.sessions import clicks_of, sessions
from headrace_bench.peers.workloads import (
    ROWS_PER_SPAN,
    Work,
    aggregate,
    forward,
    keyed_rows,
    paircount,
    pairs_of,
    wordcount,
)
from headrace_bench.wordcount import make_tweets

PART = 5
"""Slow contestants get one in this many rows."""


def make_works(folder: Path, full: bool, tiny: bool) -> Sequence[Callable[[], tuple[Work, Work]]]:
    """Return a function for each workload, in order; called in turn, it makes the whole workload and its first part."""
    rows, tweets, pairs = (80_000_000, 4_000_000, 20_000_000) if full else (32_000_000, 1_000_000, 5_000_000)
    clicks, orders = (10_000_000, 8_000_000) if full else (2_000_000, 2_000_000)
    window, arriving = (100_000, 200_000) if full else (10_000, 500_000)
    per_span = ROWS_PER_SPAN
    if tiny:
        rows, tweets, pairs, per_span = 20_000, 500, 5_000, 4_000
        window, arriving, clicks, orders = 500, 2_500, 20_000, 5_000

    def both(name: str, make: Callable[..., Work], *tables: pa.Table) -> tuple[Work, Work]:
        first = [table.slice(0, table.num_rows // PART) for table in tables]
        return make(*tables, folder / name), make(*first, folder / f"{name}-part")

    def count_pairs(level: str) -> tuple[Work, Work]:
        return both(f"paircount-{level}", lambda table, place: paircount(level, table, place), pairs_of(level, pairs))

    def join() -> tuple[Work, Work]:
        left, right, size = sides(window, arriving)
        return both("band", lambda one, other, place: band(one, other, size, place), left, right)

    works = [
        lambda: both("aggregate", aggregate, keyed_rows(rows, per_span=per_span)),
        lambda: both("wordcount", wordcount, make_tweets(tweets)),
        lambda: count_pairs("L"),
        lambda: both(
            "forward",
            forward,
            keyed_rows(rows // 4, per_span=per_span),
            keyed_rows(rows // 4, per_span=per_span, seed=8),
        ),
        join,
        lambda: both("window", event_window, value_rows(rows // 4), barrier_rows(rows // 4)),
        lambda: both("pageview", page_view_join, view_rows(rows // 8), update_rows(rows // 8)),
        lambda: both("sessions", sessions, clicks_of(clicks)),
        lambda: both("ledger", ledger, orders_of(orders, 0.5)),
        lambda: both("deposits", ledger, orders_of(orders, 0.0)),
    ]
    if full:
        works.insert(3, lambda: count_pairs("M"))
    return works
