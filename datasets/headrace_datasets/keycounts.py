"""Increments of counters by key, and resets: the first example of Flumina (Kallas et al.).

"Stream Processing with Dependency-Guided Synchronization", section 2: a map from keys to counters. Increments of one key
need no order among themselves; a reset of the key depends on all of them.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.events import BLOCK_ROWS, Columns, blocks, call_of, stream_of
from headrace_datasets.keys import STEEPEST
from headrace_datasets.parameters import explains_arguments, number, share, whole_number
from headrace_datasets.randomness import zipf

SCHEMA = pa.schema({"ts": TIME, "key": pa.int64(), "kind": pa.string()})
KINDS = ("inc", "reset")
MOST_KEYS = 1_000_000


@explains_arguments
def keycounts(
    n: int = 1_000_000,
    seed: int = 7,
    rate: float = 100_000.0,
    *,
    keys: int = 1_000,
    skew: float = 0.6,
    resets: float = 0.001,
) -> Dataset:
    """Increments and resets of counters.

    Parameters
    ----------
    n : int
        Rows.
    seed : int
        Another seed gives other events.
    rate : float
        Events a second, with exponential gaps.
    keys : int
        Keys are 0 to keys - 1.
    skew : float
        Zipf's exponent of the keys, of which low numbers are frequent; 0: all equally frequent.
    resets : float
        Share of the events that reset their key.

    Returns
    -------
    Dataset
        ts; key, int64; kind, "inc" or "reset". Event times are whole milliseconds.

    Raises
    ------
    ValueError
        A parameter is out of its range; the text names it and says what to give.

    Examples
    --------
    >>> from headrace_datasets import keycounts
    >>> keycounts(n=3, resets=1).to_arrow()["kind"].to_pylist()
    ['reset', 'reset', 'reset']
    """
    made = stream_of(n, seed, rate) | {"keys": whole_number("keys", keys, minimum=1)}
    if made["keys"] > MOST_KEYS:
        raise ValueError(f"keys is {keys}; give at most {MOST_KEYS}")
    made |= {"skew": number("skew", skew, 0.0, STEEPEST), "resets": share("resets", resets)}
    return Dataset(call_of("keycounts", **made), SCHEMA, partial(_blocks, **made))


def generate(n: int, seed: int, rate: float = 100_000.0, **parameters: Any) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `keycounts`, with its parameters, in blocks."""
    return keycounts(n, seed, rate, **parameters).batches(BLOCK_ROWS)


def _blocks(n: int, seed: int, rate: float, keys: int, skew: float, resets: float) -> Iterator[pa.RecordBatch]:
    def columns() -> Columns:
        kinds, by_key = pa.array(KINDS), zipf(keys, skew)

        def draw(rng: np.random.Generator) -> list[pa.Array]:
            key = by_key.draw(rng, BLOCK_ROWS).astype(np.int64)
            return [pa.array(key), kinds.take(pa.array((rng.random(BLOCK_ROWS) < resets).astype(np.int8)))]

        return draw

    return blocks(n, seed, rate, SCHEMA, columns)
