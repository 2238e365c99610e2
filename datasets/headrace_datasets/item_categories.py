"""The category of each item: the other input of query 15 of TPCx-BB, beside `item_sales`.

In TPC-DS at scale factor 0.01, each of ten categories has 12 to 25 of the 180 items. Here an item is in each category with the
same probability, and some items are in none.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.events import call_of
from headrace_datasets.parameters import explains_arguments, share, whole_number
from headrace_datasets.randomness import stream

SCHEMA = pa.schema({"ts": TIME, "item": pa.int64(), "category": pa.int64()})

LISTED = np.datetime64("2023-12-31T00:00:00", "us").astype(np.int64)
"""When the first item was listed: the day before the first sale."""
BLOCK_ROWS = 65_536
CATEGORIES = 1  # random stream; `item_sales` uses 0
MOST_ITEMS = 1_000_000
MOST_CATEGORIES = 1_000
NONE = 0


@explains_arguments
def item_categories(n: int = 1_000, seed: int = 7, *, categories: int = 10, without: float = 0.02) -> Dataset:
    """Items with their categories, those of `item_sales` with the same seed and parameters.

    Parameters
    ----------
    n : int
        Rows: items 0 to n - 1, a row each.
    seed : int
        Another seed gives other categories.
    categories : int
        Categories are numbered 1 to categories.
    without : float
        Share of the items that are in no category.

    Returns
    -------
    Dataset
        ts, when the item was listed, before the first sale (nothing else depends on it); item, int64; category, int64 or null.

    Raises
    ------
    ValueError
        A parameter is out of its range; the text names it and says what to give.

    Examples
    --------
    >>> from headrace_datasets import item_categories
    >>> item_categories(n=3, without=0).to_arrow()["item"].to_pylist()
    [0, 1, 2]
    """
    n = whole_number("n", n, minimum=0)
    if n > MOST_ITEMS:
        raise ValueError(f"n is {n}; give at most {MOST_ITEMS}")
    made = {"n": n, "seed": whole_number("seed", seed, minimum=0), **shelves(categories, without)}
    return Dataset(call_of("item_categories", **made), SCHEMA, partial(_blocks, **made))


def generate(n: int, seed: int, **parameters: Any) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `item_categories`, with its parameters, in blocks."""
    return item_categories(n, seed, **parameters).batches(BLOCK_ROWS)


def shelves(categories: Any, without: Any) -> dict[str, Any]:
    """Return the parameters of the categories, as numbers, or raise ValueError."""
    number = whole_number("categories", categories, minimum=1)
    if number > MOST_CATEGORIES:
        raise ValueError(f"categories is {number}; give at most {MOST_CATEGORIES}")
    return {"categories": number, "without": share("without", without)}


def categories_of(items: int, seed: int, categories: int, without: float) -> NDArray[np.int64]:
    """Return int64[items], the category of each item; `NONE` for items in no category."""
    blocks = [_block(block, seed, categories, without) for block in range(-(-items // BLOCK_ROWS))]
    return np.concatenate([np.zeros(0, np.int64), *blocks])[:items]


def _block(block: int, seed: int, categories: int, without: float) -> NDArray[np.int64]:
    rng = stream(seed, CATEGORIES, block)
    category = rng.integers(1, categories, BLOCK_ROWS, endpoint=True)
    return np.where(rng.random(BLOCK_ROWS) < without, NONE, category)


def _blocks(n: int, seed: int, categories: int, without: float) -> Iterator[pa.RecordBatch]:
    for block, first in enumerate(range(0, n, BLOCK_ROWS)):
        item = np.arange(first, first + BLOCK_ROWS)
        category = _block(block, seed, categories, without)
        ts = pa.array(LISTED + item * 1_000).cast(TIME)
        arrays = [ts, pa.array(item), pa.array(category, mask=category == NONE)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA).slice(0, n - first)
