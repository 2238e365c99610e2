"""Bids for items, new prices, additional quantities: the stream of Online Bidding.

TStream (Zhang et al., ICDE 2020), section VI-A: 10,000 items; bids (one item), alterations of prices and additions of
quantities (twenty items each) are 6 to 1 to 1; items are skewed by Zipf's law with factor 0.6, and a quarter of the
transactions with several items reach four partitions (VI-B). The paper does not say how many bids are too low. Here a share of
the events offers less than any price; no other bid is rejected as long as items are added as fast as bids take them.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.events import BLOCK_ROWS, Columns, blocks, call_of, lists, stream_of
from headrace_datasets.keys import Access, Keys
from headrace_datasets.parameters import explains_arguments, number, share, whole_number

LIST = pa.list_(pa.int64())
SCHEMA = pa.schema({"ts": TIME, "kind": pa.string(), "items": LIST, "prices": LIST, "quantities": LIST})

KINDS = ("bid", "alter", "top")
LOWEST_PRICE, HIGHEST_PRICE = 50, 150  # asking prices: 100 at first, then set by alterations
HIGHEST_QUANTITY = 5  # of 1,000 in stock at first: as many are added as bids take
MOST_ITEMS = 1_000


@explains_arguments
def ob(
    n: int = 1_000_000,
    seed: int = 7,
    rate: float = 100_000.0,
    *,
    records: int = 10_000,
    ratio: Sequence[float] = (6, 1, 1),
    items: int = 20,
    rejected: float = 0.01,
    skew: float = 0.6,
    hot_share: float = 0.0,
    hot_keys: int = 1,
    multi_share: float | None = 0.25,
    multi_length: int = 4,
    partitions: int = 8,
) -> Dataset:
    """Events of Online Bidding: bids, alterations of prices, additions of quantities.

    Parameters
    ----------
    n : int
        Rows.
    seed : int
        Another seed gives other events and other frequent items.
    rate : float
        Events a second, with exponential gaps.
    records : int
        Items are 0 to records - 1.
    ratio : three numbers
        Bids to alterations to additions.
    items : int
        Items in the list of an alteration or addition. An item may occur twice.
    rejected : float
        Share of the events that are bids below every price. Not more than the share of bids.
    skew : float
        Zipf's exponent of the items; 0: all equally frequent.
    hot_share, hot_keys : float, int
        This share of the drawn items goes to the `hot_keys` most frequent items only, in equal parts.
    multi_share : float or None
        Share of the alterations and additions whose items lie in several partitions; the items of any other lie in one
        partition. None: items are drawn whatever their partitions.
    multi_length, partitions : int
        How many partitions the former reach; item k lies in partition k % partitions.

    Returns
    -------
    Dataset
        ts; kind, "bid", "alter" or "top"; items, prices and quantities, list<int64>. A list that the kind does not use is
        null: quantities of alterations, prices of additions. Event times are whole milliseconds.

    Raises
    ------
    ValueError
        A parameter is out of its range; the text names it and says what to give.

    Examples
    --------
    >>> from headrace_datasets import ob
    >>> events = ob(n=1_000, items=3).to_arrow()
    >>> kinds, sizes = events["kind"].to_pylist(), [len(items) for items in events["items"].to_pylist()]
    >>> kinds.count("bid"), sizes.count(1), sizes.count(3)
    (744, 744, 256)
    """
    items = whole_number("items", items, minimum=1)
    if items > MOST_ITEMS:
        raise ValueError(f"items is {items}; give at most {MOST_ITEMS}")
    ratio, rejected = _checked_ratio(ratio), share("rejected", rejected)
    if rejected * sum(ratio) > ratio[0]:
        raise ValueError(
            f"rejected is {rejected}, more than bids have by ratio={ratio}, and only bids are rejected; give at most"
            f" {ratio[0] / sum(ratio):g}"
        )
    made = stream_of(n, seed, rate) | {"ratio": ratio, "items": items, "rejected": rejected}
    access = Access.checked(
        records, skew=skew, hot_share=hot_share, hot_keys=hot_keys, multi_share=multi_share, multi_length=multi_length,
        partitions=partitions,
    )  # fmt: skip
    return Dataset(call_of("ob", **made, **vars(access)), SCHEMA, partial(_blocks, **made, access=access))


def _checked_ratio(ratio: Any) -> tuple[float, ...]:
    fix = "give three numbers, such as (6, 1, 1): bids to alterations to additions"
    if isinstance(ratio, str | bytes) or not isinstance(ratio, Sequence | np.ndarray) or len(ratio) != len(KINDS):
        raise ValueError(f"ratio is {ratio!r}; {fix}")
    parts = tuple(number(f"ratio[{at}]", part, 0.0, 1e9) for at, part in enumerate(ratio))
    if sum(parts) == 0:
        raise ValueError(f"ratio is {ratio!r}, all of them 0; {fix}")
    return parts


def generate(n: int, seed: int, rate: float = 100_000.0, **parameters: Any) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `ob`, with its parameters, in blocks."""
    return ob(n, seed, rate, **parameters).batches(BLOCK_ROWS)


def _blocks(
    n: int, seed: int, rate: float, ratio: tuple[float, ...], items: int, rejected: float, access: Access
) -> Iterator[pa.RecordBatch]:
    return blocks(n, seed, rate, SCHEMA, lambda: _columns(Keys(seed, access), ratio, items, rejected))


def _columns(keys: Keys, ratio: tuple[float, ...], items: int, rejected: float) -> Columns:
    kinds = pa.array(KINDS)
    until = np.cumsum(ratio)[:2] / sum(ratio)

    def draw(rng: np.random.Generator) -> list[pa.Array]:
        what = rng.random(BLOCK_ROWS)
        kind = np.searchsorted(until, what, side="right")
        is_bid = kind == 0
        sizes = np.where(is_bid, 1, items)
        offsets = np.cumsum(sizes) - sizes
        touched = np.empty(sizes.sum(), np.int64)
        touched[offsets[is_bid]] = keys.draw(rng, int(is_bid.sum()), 1)[:, 0]
        touched[offsets[~is_bid][:, None] + np.arange(items)] = keys.draw(rng, int((~is_bid).sum()), items)

        prices = rng.integers(LOWEST_PRICE, HIGHEST_PRICE, len(touched), endpoint=True)
        prices[offsets[is_bid]] += HIGHEST_PRICE - LOWEST_PRICE  # enough for any asking price
        is_low = what < rejected
        prices[offsets[is_low]] = rng.integers(0, LOWEST_PRICE, is_low.sum())
        quantities = rng.integers(1, HIGHEST_QUANTITY, len(touched), endpoint=True)
        of = np.repeat(kind, sizes)
        return [
            kinds.take(pa.array(kind)),
            lists(touched, sizes),
            lists(prices[of != 2], np.where(kind == 2, 0, sizes), kind == 2),
            lists(quantities[of != 1], np.where(kind == 1, 0, sizes), kind == 1),
        ]

    return draw
