"""Events that read or write ten records of a table: the stream of Grep and Sum.

TStream (Zhang et al., ICDE 2020), section VI-A: 10,000 records, ten accesses in each transaction, skewed by Zipf's
law with factor 0.6; a quarter of the transactions reach four partitions (VI-B). The share of reads is what Figure 11(a)
varies.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.events import BLOCK_ROWS, Columns, blocks, call_of, lists, stream_of
from headrace_datasets.keys import Access, Keys
from headrace_datasets.parameters import explains_arguments, share, whole_number

SCHEMA = pa.schema({"ts": TIME, "keys": pa.list_(pa.int64()), "values": pa.list_(pa.int64())})

HIGHEST_VALUE = 1_000_000
MOST_OPERATIONS = 1_000


@explains_arguments
def gs(
    n: int = 1_000_000,
    seed: int = 7,
    rate: float = 100_000.0,
    *,
    records: int = 10_000,
    operations: int = 10,
    reads: float = 0.5,
    skew: float = 0.6,
    hot_share: float = 0.0,
    hot_keys: int = 1,
    multi_share: float | None = 0.25,
    multi_length: int = 4,
    partitions: int = 8,
) -> Dataset:
    """Events of Grep and Sum, each with a list of keys to read or to write.

    Parameters
    ----------
    n : int
        Rows.
    seed : int
        Another seed gives other events and other frequent keys.
    rate : float
        Events a second, with exponential gaps.
    records : int
        Keys are 0 to records - 1.
    operations : int
        Keys in each event. A key may occur twice.
    reads : float
        Share of the events that read.
    skew : float
        Zipf's exponent of the keys; 0: all equally frequent.
    hot_share, hot_keys : float, int
        This share of the drawn keys goes to the `hot_keys` most frequent keys only, in equal parts.
    multi_share : float or None
        Share of the events whose keys lie in several partitions; the keys of any other event lie in one partition. None:
        keys are drawn whatever their partitions.
    multi_length, partitions : int
        How many partitions the former reach (fewer if they have fewer keys); key k lies in partition k % partitions.

    Returns
    -------
    Dataset
        ts; keys, list<int64>; values, list<int64>, from 0 to 1,000,000, one for each key, null in events that read.
        Event times are whole milliseconds.

    Raises
    ------
    ValueError
        A parameter is out of its range; the text names it and says what to give.

    Examples
    --------
    >>> from headrace_datasets import gs
    >>> events = gs(n=1_000, operations=3, reads=0.2).to_arrow()
    >>> events["values"].null_count, len(events["keys"][0])
    (194, 3)
    """
    operations = whole_number("operations", operations, minimum=1)
    if operations > MOST_OPERATIONS:
        raise ValueError(f"operations is {operations}; give at most {MOST_OPERATIONS}")
    made = stream_of(n, seed, rate) | {"operations": operations, "reads": share("reads", reads)}
    access = Access.checked(
        records, skew=skew, hot_share=hot_share, hot_keys=hot_keys, multi_share=multi_share, multi_length=multi_length,
        partitions=partitions,
    )  # fmt: skip
    return Dataset(call_of("gs", **made, **vars(access)), SCHEMA, partial(_blocks, **made, access=access))


def generate(n: int, seed: int, rate: float = 100_000.0, **parameters: Any) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `gs`, with its parameters, in blocks."""
    return gs(n, seed, rate, **parameters).batches(BLOCK_ROWS)


def _blocks(n: int, seed: int, rate: float, operations: int, reads: float, access: Access) -> Iterator[pa.RecordBatch]:
    return blocks(n, seed, rate, SCHEMA, lambda: _columns(Keys(seed, access), operations, reads))


def _columns(keys: Keys, operations: int, reads: float) -> Columns:
    def draw(rng: np.random.Generator) -> list[pa.Array]:
        is_read = rng.random(BLOCK_ROWS) < reads
        touched = keys.draw(rng, BLOCK_ROWS, operations)
        sizes = np.where(is_read, 0, operations)
        values = rng.integers(0, HIGHEST_VALUE, sizes.sum(), endpoint=True)
        return [lists(touched.ravel(), np.full(BLOCK_ROWS, operations)), lists(values, sizes, is_read)]

    return draw
