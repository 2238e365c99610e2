"""Sales of items whose categories grow or decline: the input of query 15 of TPCx-BB, an ordered pipeline (Prasaad et al.).

Amounts are fitted to what was paid for a line of TPC-DS' store sales (scale factor 0.01), in cents: median 908, quartiles 251
and 2377, 95 % up to 6368, at most 17256 in whole units; hours are those of its shops. There no category has a trend to speak of.
Here, of every four categories, one declines, the next declines half as much, one stays and one grows.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from headrace_datasets.arrivals import SHOP_HOURS, daily, milliseconds_as_us
from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.events import call_of, stream_of
from headrace_datasets.item_categories import MOST_ITEMS, NONE, categories_of, shelves
from headrace_datasets.keys import STEEPEST
from headrace_datasets.parameters import explains_arguments, number, share, whole_number
from headrace_datasets.randomness import stream, zipf

SCHEMA = pa.schema({"ts": TIME, "item": pa.int64(), "amount": pa.int64()})

START = np.datetime64("2024-01-01T00:00:00", "us").astype(np.int64)
BLOCK_ROWS = 65_536
BLOCKS = 0  # random stream; `item_categories` uses 1
MOST_PIECES = 100
HIGHEST_PRICE = 91.0
CENTS = 100.0
MONTH_US = 30 * 86_400 * 1_000_000
STEPS = (-1.0, -0.5, 0.0, 0.5)  # multiples of the trend, by the category's number
FURTHEST = np.log(1_000.0)  # no trend changes amounts by more than this factor


@explains_arguments
def item_sales(
    n: int = 1_000_000,
    seed: int = 7,
    rate: float = 0.1,
    *,
    items: int = 1_000,
    skew: float = 0.3,
    trend: float = 0.02,
    categories: int = 10,
    without: float = 0.02,
) -> Dataset:
    """Sales of single items, whose amounts go up or down with their category.

    Parameters
    ----------
    n : int
        Rows.
    seed : int
        Another seed gives other sales and other categories.
    rate : float
        Sales a second, on average; next to none at night. At the default, a million sales take 116 days.
    items : int
        Items are numbered 0 to items - 1; `item_categories` with as many rows has their categories.
    skew : float
        Zipf's exponent of the items, of which low numbers are frequent; 0: all equally frequent.
    trend : float
        The share by which amounts of categories 4, 8, 12 ... shrink in 30 days. Those of 1, 5, 9 ... shrink by half as much,
        those of 2, 6, 10 ... stay, and those of 3, 7, 11 ... grow by half as much. No amount changes more than a thousandfold.
    categories, without : int, float
        As for `item_categories`.

    Returns
    -------
    Dataset
        ts; item, amount (cents, at least 1), int64. Event times are whole milliseconds.

    Raises
    ------
    ValueError
        A parameter is out of its range; the text names it and says what to give.

    Examples
    --------
    >>> from headrace_datasets import item_categories, item_sales
    >>> sales, shop = item_sales(n=1_000, items=50), item_categories(n=50)
    >>> sales.schema.names, shop.schema.names
    (['ts', 'item', 'amount'], ['ts', 'item', 'category'])
    """
    made = stream_of(n, seed, rate) | {"items": whole_number("items", items, minimum=1)}
    if made["items"] > MOST_ITEMS:
        raise ValueError(f"items is {items}; give at most {MOST_ITEMS}")
    made |= {"skew": number("skew", skew, 0.0, STEEPEST), "trend": share("trend", trend), **shelves(categories, without)}
    if made["trend"] == 1.0:
        raise ValueError("trend is 1: nothing would be left after 30 days; give less")
    return Dataset(call_of("item_sales", **made), SCHEMA, partial(_blocks, **made))


def generate(n: int, seed: int, rate: float = 0.1, **parameters: Any) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `item_sales`, with its parameters, in blocks."""
    return item_sales(n, seed, rate, **parameters).batches(BLOCK_ROWS)


def _blocks(
    n: int, seed: int, rate: float, items: int, skew: float, trend: float, categories: int, without: float
) -> Iterator[pa.RecordBatch]:
    clock = daily(SHOP_HOURS, rate)
    monthly = None
    for block, first in enumerate(range(0, n, BLOCK_ROWS)):
        if monthly is None:
            category = categories_of(items, seed, categories, without)
            steps = np.where(category == NONE, 0.0, np.array(STEPS)[category % len(STEPS)])
            monthly = np.log1p(steps * trend)
        rng = stream(seed, BLOCKS, block)
        # whole blocks are drawn and then cut, so that a smaller n gives the beginning of the same stream
        us = milliseconds_as_us(clock.after(rng.standard_exponential(BLOCK_ROWS)))
        item = zipf(items, skew).draw(rng, BLOCK_ROWS).astype(np.int64)
        # number of pieces, price, the shop's markup, its discount
        pieces, price = rng.integers(1, MOST_PIECES, BLOCK_ROWS, endpoint=True), rng.uniform(1.0, HIGHEST_PRICE, BLOCK_ROWS)
        units = pieces * price * (1.0 + rng.random(BLOCK_ROWS)) * rng.random(BLOCK_ROWS)
        grown = np.exp(np.clip(monthly[item] * (us / MONTH_US), -FURTHEST, FURTHEST))
        amount = np.maximum(np.rint(CENTS * units * grown), 1.0).astype(np.int64)
        arrays = [pa.array(START + us).cast(TIME), pa.array(item), pa.array(amount)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA).slice(0, n - first)
