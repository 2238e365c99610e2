"""What the streams of the transactional applications have in common: events at a steady rate, made in blocks."""

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace_datasets.arrivals import Clock, milliseconds_as_us
from headrace_datasets.dataset import TIME
from headrace_datasets.parameters import rate_per_second, whole_number
from headrace_datasets.randomness import stream

START = np.datetime64("2020-04-20T00:00:00", "us").astype(np.int64)
BLOCK_ROWS = 65_536
BLOCKS = 0  # random stream; `keys` uses 1

Columns = Callable[[np.random.Generator], list[pa.Array]]
"""Draws the columns of a block, except ``ts``."""


def blocks(n: int, seed: int, rate: float, schema: pa.Schema, columns: Callable[[], Columns]) -> Iterator[pa.RecordBatch]:
    """Iterate over events with exponential gaps, in whole milliseconds.

    Parameters
    ----------
    columns : callable
        Returns the function that draws the columns. Called at the first block, since building its tables may take a moment.
    """
    clock = Clock(repeat(np.ones(BLOCK_ROWS)), slot_s=1.0 / rate)  # one arrival expected in each slot
    draw = None
    for block, first in enumerate(range(0, n, BLOCK_ROWS)):
        draw = columns() if draw is None else draw
        rng = stream(seed, BLOCKS, block)
        # whole blocks are drawn and then cut, so that a smaller n gives the beginning of the same stream
        ts = START + milliseconds_as_us(clock.after(rng.standard_exponential(BLOCK_ROWS)))
        batch = pa.RecordBatch.from_arrays([pa.array(ts).cast(TIME), *draw(rng)], schema=schema)
        yield batch.slice(0, n - first)


def lists(elements: NDArray[np.int64], sizes: NDArray[np.integer], is_null: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return lists of these sizes, filled with the elements one after another; the size of a null list must be 0.

    Examples
    --------
    >>> lists(np.array([7, 8]), np.array([2, 0]), np.array([False, True])).to_pylist()
    [[7, 8], None]
    """
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    mask = None if is_null is None else pa.array(is_null)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(elements), mask=mask)


def stream_of(n: Any, seed: Any, rate: Any) -> dict[str, Any]:
    """Return the parameters that every stream has, as numbers, or raise ValueError."""
    n = whole_number("n", n, minimum=0)
    return {"n": n, "seed": whole_number("seed", seed, minimum=0), "rate": rate_per_second("rate", rate, n)}


def call_of(function: str, **parameters: Any) -> str:
    """Return the call with these parameters: the name of the data set."""
    return f"{function}({', '.join(f'{name}={value!r}' for name, value in parameters.items())})"
