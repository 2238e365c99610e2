"""Deposits and transfers between accounts and assets: the stream of the Streaming Ledger.

TStream (Zhang et al., ICDE 2020), section VI-A: tables of 10,000 accounts and as many assets, half of the events
transfers (four records), half deposits (two), keys skewed by Zipf's law with factor 0.6; a quarter of the transactions
reach four partitions (VI-B). The paper does not say how many transfers fail. Here a share of the events is overdrafts, which no
balance covers; of all others, none fails in five million events, unless nearly all are transfers and very skewed.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.events import BLOCK_ROWS, Columns, blocks, call_of, stream_of
from headrace_datasets.keys import Access, Keys
from headrace_datasets.parameters import explains_arguments, share

WHO = ("source", "target", "source_asset", "target_asset")
SCHEMA = pa.schema(
    [
        ("ts", TIME),
        ("kind", pa.string()),
        *((name, pa.int64()) for name in WHO),
        ("amount", pa.int64()),
        ("quantity", pa.int64()),
    ]
)

HIGHEST_AMOUNT = 10  # of 10,000 at first: a balance does not run out by chance
OVERDRAFT = 10**12  # and above: more than any balance ever holds


@explains_arguments
def sl(
    n: int = 1_000_000,
    seed: int = 7,
    rate: float = 100_000.0,
    *,
    records: int = 10_000,
    transfers: float = 0.5,
    rejected: float = 0.01,
    skew: float = 0.6,
    hot_share: float = 0.0,
    hot_keys: int = 1,
    multi_share: float | None = 0.25,
    multi_length: int = 4,
    partitions: int = 8,
) -> Dataset:
    """Events of the Streaming Ledger: deposits, and transfers of money and assets.

    Parameters
    ----------
    n : int
        Rows.
    seed : int
        Another seed gives other events and other frequent keys.
    rate : float
        Events a second, with exponential gaps.
    records : int
        Accounts are 0 to records - 1, and so are assets.
    transfers : float
        Share of the events that are transfers; the others are deposits.
    rejected : float
        Share of the events that are transfers of more than the source can have: half of them exceed the balance, half the
        quantity. Not more than `transfers`.
    skew : float
        Zipf's exponent of the keys; 0: all equally frequent.
    hot_share, hot_keys : float, int
        This share of the drawn keys goes to the `hot_keys` most frequent keys only, in equal parts.
    multi_share : float or None
        Share of the events whose keys lie in several partitions; the keys of any other event lie in one partition. None:
        keys are drawn whatever their partitions.
    multi_length, partitions : int
        How many partitions the former reach (a deposit at most two); key k lies in partition k % partitions.

    Returns
    -------
    Dataset
        ts; kind, "deposit" or "transfer"; source, target, source_asset, target_asset, amount, quantity, int64. The
        sources are null in deposits. Amounts and quantities are 0 to 10, and 10**12 or more in overdrafts. Event times
        are whole milliseconds.

    Raises
    ------
    ValueError
        A parameter is out of its range; the text names it and says what to give.

    Examples
    --------
    >>> from headrace_datasets import sl
    >>> events = sl(n=1_000, transfers=0.2).to_arrow()
    >>> events["kind"].to_pylist().count("transfer")
    194
    """
    transfers, rejected = share("transfers", transfers), share("rejected", rejected)
    if rejected > transfers:
        raise ValueError(
            f"rejected is {rejected}, more than transfers={transfers}, and only transfers are rejected; give at most as much"
        )
    made = stream_of(n, seed, rate) | {"transfers": transfers, "rejected": rejected}
    access = Access.checked(
        records, skew=skew, hot_share=hot_share, hot_keys=hot_keys, multi_share=multi_share, multi_length=multi_length,
        partitions=partitions,
    )  # fmt: skip
    return Dataset(call_of("sl", **made, **vars(access)), SCHEMA, partial(_blocks, **made, access=access))


def generate(n: int, seed: int, rate: float = 100_000.0, **parameters: Any) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `sl`, with its parameters, in blocks."""
    return sl(n, seed, rate, **parameters).batches(BLOCK_ROWS)


def _blocks(
    n: int, seed: int, rate: float, transfers: float, rejected: float, access: Access
) -> Iterator[pa.RecordBatch]:
    return blocks(n, seed, rate, SCHEMA, lambda: _columns(Keys(seed, access), transfers, rejected))


def _columns(keys: Keys, transfers: float, rejected: float) -> Columns:
    kinds = pa.array(["deposit", "transfer"])

    def draw(rng: np.random.Generator) -> list[pa.Array]:
        what = rng.random(BLOCK_ROWS)
        is_transfer, is_overdraft = what < transfers, what < rejected
        # targets first: if a row's keys lie in several partitions, the two keys of a deposit lie in two
        target, target_asset, source, source_asset = keys.draw(rng, BLOCK_ROWS, 4).T
        amount, quantity = rng.integers(0, HIGHEST_AMOUNT, (2, BLOCK_ROWS), endpoint=True)
        of_balance = rng.random(BLOCK_ROWS) < 0.5
        amount[is_overdraft & of_balance] += OVERDRAFT
        quantity[is_overdraft & ~of_balance] += OVERDRAFT
        return [
            kinds.take(pa.array(is_transfer.astype(np.int8))),
            pa.array(source, mask=~is_transfer),
            pa.array(target),
            pa.array(source_asset, mask=~is_transfer),
            pa.array(target_asset),
            pa.array(amount),
            pa.array(quantity),
        ]

    return draw
