"""Transactions, and rules that say which are fraudulent: fraud detection of Flumina (Kallas et al.).

"Stream Processing with Dependency-Guided Synchronization", section 4.1: both are integers. A rule closes the sum of the
transactions since the rule before it. From then on a transaction is fraudulent if it equals that sum plus the rule, modulo 1,000.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.occasional import BLOCK_ROWS, dataset, sides_of
from headrace_datasets.parameters import explains_arguments

SCHEMA = pa.schema({"ts": TIME, "value": pa.int64()})

HIGHEST_VALUE = 999_999


@explains_arguments
def frauds(n: int = 1_000_000, seed: int = 7, rate: float = 100_000.0, side: str = "left", *, every: int = 10_000) -> Dataset:
    """Transactions, of which about one in a thousand will be fraudulent, or rules.

    Parameters
    ----------
    n : int
        Rows of this side.
    seed : int
        Both sides of one seed belong together.
    rate : float
        Transactions a second, with exponential gaps.
    side : "left" | "right"
        Transactions, or rules.
    every : int
        There is a rule after every `every` transactions, with the event time of the last of them.

    Returns
    -------
    Dataset
        ts; value, from 0 to 999,999, int64. Event times are microseconds.

    Raises
    ------
    ValueError
        A parameter is out of its range; the text names it and says what to give.

    Examples
    --------
    >>> from headrace_datasets import frauds
    >>> frauds(n=20_000).to_arrow().num_rows, frauds(n=2, side="right").to_arrow().num_rows
    (20000, 2)
    """
    made = sides_of(n, seed, rate, side, every)

    def values(rng: np.random.Generator, count: int) -> list[pa.Array]:
        return [pa.array(rng.integers(0, HIGHEST_VALUE, count, endpoint=True))]

    return dataset("frauds", made, dict.fromkeys(("left", "right"), SCHEMA), dict.fromkeys(("left", "right"), values))


def generate(n: int, seed: int, rate: float = 100_000.0, side: str = "left", **parameters: Any) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `frauds`, with its parameters, in blocks."""
    return frauds(n, seed, rate, side, **parameters).batches(BLOCK_ROWS)
