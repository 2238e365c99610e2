"""Which workloads there are, and how large each is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.bench.peers.band_join import band, sides
from headrace.bench.peers.workloads import (
    ROWS_PER_SPAN,
    Work,
    aggregate,
    forward,
    keyed_rows,
    paircount,
    wordcount,
)
from headrace.bench.wordcount import make_tweets


def make_works(folder: Path, full: bool, tiny: bool) -> Sequence[Callable[[], Work]]:
    """Give the workloads in order, each to be made when its turn has come."""
    rows, tweets, pairs = (20_000_000, 2_000_000, 5_000_000) if full else (4_000_000, 300_000, 500_000)
    window, arriving = (100_000, 200_000) if full else (10_000, 100_000)
    per_span = ROWS_PER_SPAN
    if tiny:
        rows, tweets, pairs, per_span = 20_000, 500, 5_000, 4_000
        window, arriving = 500, 2_500
    works = [
        lambda: aggregate(keyed_rows(rows, per_span=per_span), folder / "aggregate"),
        lambda: wordcount(make_tweets(tweets), folder / "wordcount"),
        lambda: paircount("L", pairs, folder / "paircount-L"),
        lambda: forward(
            keyed_rows(rows // 4, per_span=per_span),
            keyed_rows(rows // 4, per_span=per_span, seed=8),
            folder / "forward",
        ),
        lambda: band(*sides(window, arriving), folder / "band"),
    ]
    if full:
        works.insert(3, lambda: paircount("M", pairs, folder / "paircount-M"))
    return works
