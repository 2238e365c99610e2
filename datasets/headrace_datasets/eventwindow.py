"""Values of several streams, and barriers: event-based windowing of Flumina (Kallas et al.).

"Stream Processing with Dependency-Guided Synchronization", section 4.1: streams of integer values, and one of barriers, with
a barrier for every 10,000 values. The query asks for the sum of the values between two barriers.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.occasional import BLOCK_ROWS, dataset, sides_of
from headrace_datasets.parameters import explains_arguments, whole_number

VALUES = pa.schema({"ts": TIME, "x": pa.int64(), "stream": pa.int64()})
BARRIERS = pa.schema({"ts": TIME})

HIGHEST_VALUE = 1_000
MOST_STREAMS = 1_000


@explains_arguments
def eventwindow(
    n: int = 1_000_000,
    seed: int = 7,
    rate: float = 100_000.0,
    side: str = "left",
    *,
    every: int = 10_000,
    streams: int = 2,
) -> Dataset:
    """Values from several streams, or the barriers between them.

    Parameters
    ----------
    n : int
        Rows of this side.
    seed : int
        Both sides of one seed belong together.
    rate : float
        Values a second, of all streams, with exponential gaps.
    side : "left" | "right"
        Values, or barriers.
    every : int
        There is a barrier after every `every` values, with the event time of the last of them. All values with that event time
        come before the barrier.
    streams : int
        Streams are numbered 0 to streams - 1; each value is in any of them.

    Returns
    -------
    Dataset
        Left: ts; x, from 0 to 1,000, and stream, int64. Right: ts. Event times are microseconds.

    Raises
    ------
    ValueError
        A parameter is out of its range; the text names it and says what to give.

    Examples
    --------
    >>> from headrace_datasets import eventwindow
    >>> eventwindow(n=1_000).schema.names, eventwindow(n=10, side="right").schema.names
    (['ts', 'x', 'stream'], ['ts'])
    """
    made = sides_of(n, seed, rate, side, every) | {"streams": whole_number("streams", streams, minimum=1)}
    if made["streams"] > MOST_STREAMS:
        raise ValueError(f"streams is {streams}; give at most {MOST_STREAMS}")

    def values(rng: np.random.Generator, count: int) -> list[pa.Array]:
        x, number = rng.integers(0, HIGHEST_VALUE, count, endpoint=True), rng.integers(0, made["streams"], count)
        return [pa.array(x), pa.array(number)]

    return dataset("eventwindow", made, {"left": VALUES, "right": BARRIERS}, {"left": values, "right": lambda rng, count: []})


def generate(n: int, seed: int, rate: float = 100_000.0, side: str = "left", **parameters: Any) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `eventwindow`, with its parameters, in blocks."""
    return eventwindow(n, seed, rate, side, **parameters).batches(BLOCK_ROWS)
