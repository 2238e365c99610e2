"""What the streams of synchronization plans have in common: frequent events, and occasional events of another kind.

The frequent events are the left side, the occasional ones the right. After every `every` left events there is a right event,
with the event time of the last of them; it follows that event in the order of inputs.
"""

from collections.abc import Callable, Iterator
from itertools import count, repeat
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace_datasets.arrivals import Clock
from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.events import call_of, stream_of
from headrace_datasets.parameters import one_of, rate_per_second, whole_number
from headrace_datasets.randomness import stream

START = np.datetime64("2021-06-01T00:00:00", "us").astype(np.int64)
BLOCK_ROWS = 65_536
SIDES = ("left", "right")
TIMES = 2  # random stream, after those of the two sides

Columns = Callable[[np.random.Generator, int], list[pa.Array]]
"""Draws the columns of a side, except ``ts``, for a number of rows."""


def sides_of(n: Any, seed: Any, rate: Any, side: Any, every: Any) -> dict[str, Any]:
    """Return the parameters that every such stream has, checked, or raise ValueError."""
    side = one_of("side", side, SIDES)
    made = stream_of(n, seed, rate) | {"side": side, "every": whole_number("every", every, minimum=1)}
    if side == "right":
        rate_per_second("rate", rate, made["n"] * made["every"])
    return made


def dataset(function: str, made: dict[str, Any], schemas: dict[str, pa.Schema], columns: dict[str, Columns]) -> Dataset:
    """Return a side of a stream.

    Parameters
    ----------
    made : dict
        What `sides_of` returned, and the other parameters.
    schemas, columns : dict
        Those of each side.
    """
    n, seed, rate, side = (made[name] for name in ("n", "seed", "rate", "side"))
    every = made["every"] if side == "right" else 1
    return Dataset(
        call_of(function, **made), schemas[side], lambda: _blocks(n, seed, rate, side, every, schemas[side], columns[side])
    )


def _blocks(
    n: int, seed: int, rate: float, side: str, every: int, schema: pa.Schema, columns: Columns
) -> Iterator[pa.RecordBatch]:
    given = 0
    for block, ts in enumerate(_times(seed, rate)):
        if given == n:
            return
        # whole blocks are drawn and then cut, so that a smaller n gives the beginning of the same stream
        chosen = ts[(every - 1 - block * BLOCK_ROWS) % every :: every]
        if not len(chosen):
            continue
        drawn = columns(stream(seed, SIDES.index(side), block), len(chosen))
        batch = pa.RecordBatch.from_arrays([pa.array(chosen).cast(TIME), *drawn], schema=schema).slice(0, n - given)
        given += batch.num_rows
        yield batch


def _times(seed: int, rate: float) -> Iterator[NDArray[np.int64]]:
    """Iterate over the event times of the left side, in microseconds, a block each."""
    clock = Clock(repeat(np.ones(BLOCK_ROWS)), slot_s=1.0 / rate)
    for block in count():
        gaps = stream(seed, TIMES, block).standard_exponential(BLOCK_ROWS)
        yield START + np.floor(clock.after(gaps) * 1e6).astype(np.int64)
