"""The two inputs of a band join, as ScaleJoin and STRETCH measure it.

STRETCH (Gulisano et al.), section 8.3, query Q3: L is ``<ts, x int, y float>``, R is ``<ts, a int, b float, c
double, d bool>``, with x, y, a, b uniform on [1, 10000]. Under the predicate |x - a| <= 10 and |y - b| <= 10
one comparison in about 250,000 gives an output; exactly one in 238,315, since 21 integers lie within 10 of an
integer.
"""

from collections.abc import Iterator
from functools import partial
from itertools import repeat

import numpy as np
import pyarrow as pa

from headrace_datasets.arrivals import Clock, milliseconds_as_us
from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.parameters import explains_arguments, one_of, rate_per_second, whole_number
from headrace_datasets.randomness import stream

LEFT = pa.schema({"ts": TIME, "x": pa.int32(), "y": pa.float32()})
RIGHT = pa.schema({"ts": TIME, "a": pa.int32(), "b": pa.float32(), "c": pa.float64(), "d": pa.bool_()})

LOWEST, HIGHEST = 1, 10_000
SIDES = ("left", "right")

START = np.datetime64("2018-10-01T00:00:00", "us").astype(np.int64)
BLOCK_ROWS = 65_536


@explains_arguments
def joins(n: int = 1_000_000, seed: int = 7, rate: float = 1_000.0, side: str = "left") -> Dataset:
    """One input of the band join of ScaleJoin.

    Parameters
    ----------
    n : int
        Rows.
    seed : int
        Both sides of one seed start at the same time and are independent of each other.
    rate : float
        Tuples a second on this side, with exponential gaps.
    side : "left" | "right"
        Which of the two inputs.

    Returns
    -------
    Dataset
        Left: ts, x int32, y float32. Right: ts, a int32, b float32, c float64, d bool. Event times are whole
        milliseconds.

    Raises
    ------
    ValueError
        A parameter is out of its range; the text names it and says what to give.

    Examples
    --------
    >>> from headrace_datasets import joins
    >>> joins(n=1_000, side="right").schema.names
    ['ts', 'a', 'b', 'c', 'd']
    """
    generate(n, seed, rate, side)  # checks the arguments now, not when rows are asked for
    schema = LEFT if side == "left" else RIGHT
    return Dataset(
        f"joins(n={n}, seed={seed}, rate={rate}, side={side!r})",
        schema,
        partial(generate, n, seed, rate, side),
    )


def generate(n: int, seed: int, rate: float = 1_000.0, side: str = "left") -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `joins` in blocks."""
    n, seed = whole_number("n", n, minimum=0), whole_number("seed", seed, minimum=0)
    rate, side = rate_per_second("rate", rate, n), one_of("side", side, SIDES)
    return _blocks(n, seed, rate, side)


def _blocks(n: int, seed: int, rate: float, side: str) -> Iterator[pa.RecordBatch]:
    clock = Clock(repeat(np.ones(BLOCK_ROWS)), slot_s=1.0 / rate)  # one arrival expected in each slot
    for block, first in enumerate(range(0, n, BLOCK_ROWS)):
        rng = stream(seed, SIDES.index(side), block)
        # whole blocks are drawn and then cut, so that a smaller n gives the beginning of the same stream
        ts = START + milliseconds_as_us(clock.after(rng.standard_exponential(BLOCK_ROWS)))
        integers = rng.integers(LOWEST, HIGHEST, BLOCK_ROWS, dtype=np.int32, endpoint=True)
        floats = LOWEST + (HIGHEST - LOWEST) * rng.random(BLOCK_ROWS, dtype=np.float32)
        columns = [pa.array(ts).cast(TIME), pa.array(integers), pa.array(floats)]
        if side == "left":
            batch = pa.RecordBatch.from_arrays(columns, schema=LEFT)
        else:
            columns += [pa.array(rng.random(BLOCK_ROWS)), pa.array(rng.random(BLOCK_ROWS) < 0.5)]
            batch = pa.RecordBatch.from_arrays(columns, schema=RIGHT)
        yield batch.slice(0, n - first)
