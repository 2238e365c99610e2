"""Views of web pages, and updates of the pages: the page-view join of Flumina (Kallas et al.).

"Stream Processing with Dependency-Guided Synchronization", section 4.1: views are joined with the latest update of their page.
A few pages have most of the views, so that dividing the keys is not enough to share out the work.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.occasional import BLOCK_ROWS, dataset, sides_of
from headrace_datasets.parameters import explains_arguments, share, whole_number

VIEWS = pa.schema({"ts": TIME, "page": pa.int64(), "user": pa.int64()})
UPDATES = pa.schema({"ts": TIME, "page": pa.int64(), "info": pa.int64()})

HOT = 2
HIGHEST_INFO = 99_999
MOST = 1_000_000


@explains_arguments
def pageviews(
    n: int = 1_000_000,
    seed: int = 7,
    rate: float = 100_000.0,
    side: str = "left",
    *,
    every: int = 10_000,
    pages: int = 100,
    hot_share: float = 0.9,
    users: int = 10_000,
) -> Dataset:
    """Views of pages, two of which are hot, or updates of what is known of a page.

    Parameters
    ----------
    n : int
        Rows of this side.
    seed : int
        Both sides of one seed belong together.
    rate : float
        Views a second, with exponential gaps.
    side : "left" | "right"
        Views, or updates.
    every : int
        There is an update after every `every` views, with the event time of the last of them.
    pages : int
        Pages are numbered 0 to pages - 1.
    hot_share : float
        Share of the views, and of the updates, that concern pages 0 and 1; the others concern any page.
    users : int
        Users are numbered 0 to users - 1.

    Returns
    -------
    Dataset
        Left: ts; page, user, int64. Right: ts; page, info (from 1 to 99,999), int64. Event times are microseconds.

    Raises
    ------
    ValueError
        A parameter is out of its range; the text names it and says what to give.

    Examples
    --------
    >>> from headrace_datasets import pageviews
    >>> pageviews(n=1_000).schema.names, pageviews(n=10, side="right").schema.names
    (['ts', 'page', 'user'], ['ts', 'page', 'info'])
    """
    made = sides_of(n, seed, rate, side, every)
    for name, value in (("pages", pages), ("users", users)):
        made[name] = whole_number(name, value, minimum=1)
        if made[name] > MOST:
            raise ValueError(f"{name} is {value}; give at most {MOST}")
    made["hot_share"] = share("hot_share", hot_share)

    def page(rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        is_hot = rng.random(count) < made["hot_share"]
        return np.where(is_hot, rng.integers(0, min(HOT, made["pages"]), count), rng.integers(0, made["pages"], count))

    def views(rng: np.random.Generator, count: int) -> list[pa.Array]:
        return [pa.array(page(rng, count)), pa.array(rng.integers(0, made["users"], count))]

    def updates(rng: np.random.Generator, count: int) -> list[pa.Array]:
        return [pa.array(page(rng, count)), pa.array(rng.integers(1, HIGHEST_INFO, count, endpoint=True))]

    return dataset("pageviews", made, {"left": VIEWS, "right": UPDATES}, {"left": views, "right": updates})


def generate(n: int, seed: int, rate: float = 100_000.0, side: str = "left", **parameters: Any) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `pageviews`, with its parameters, in blocks."""
    return pageviews(n, seed, rate, side, **parameters).batches(BLOCK_ROWS)
