"""Cars that report their speed on road segments: the stream of Toll Processing.

TStream (Zhang et al., ICDE 2020), sections VI-A and VI-B: 100 segments, skewed by Zipf's law with factor 0.2. `tp` generates such
reports; `position_reports` reads those of Linear Road, generated (`linear_road`) or from a file.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.events import BLOCK_ROWS, Columns, blocks, call_of, stream_of
from headrace_datasets.keys import Access, Keys
from headrace_datasets.parameters import explains_arguments, whole_number
from headrace_datasets.randomness import stream

SCHEMA = pa.schema({"ts": TIME, "vehicle": pa.int64(), "segment": pa.int64(), "speed": pa.int64()})

SLOWEST_MPH, FASTEST_MPH = 25.0, 55.0  # mean speeds of segments: on some a toll is due, on others not
SPEED_SD = 10.0
HIGHEST_MPH = 100
SPEEDS = 2  # random stream; `events` and `keys` use 0 and 1


@explains_arguments
def tp(
    n: int = 1_000_000,
    seed: int = 7,
    rate: float = 100_000.0,
    *,
    records: int = 100,
    vehicles: int = 10_000,
    skew: float = 0.2,
    hot_share: float = 0.0,
    hot_keys: int = 1,
) -> Dataset:
    """Events of Toll Processing: speeds of vehicles on road segments.

    Parameters
    ----------
    n : int
        Rows.
    seed : int
        Another seed gives other events and other frequent segments.
    rate : float
        Events a second, with exponential gaps.
    records : int
        Segments are 0 to records - 1. Each has a mean speed of its own, 25 to 55 miles an hour.
    vehicles : int
        Vehicles are numbered 0 to vehicles - 1, all equally frequent, each on any segment.
    skew : float
        Zipf's exponent of the segments; 0: all equally frequent.
    hot_share, hot_keys : float, int
        This share of the events goes to the `hot_keys` most frequent segments only, in equal parts.

    Returns
    -------
    Dataset
        ts, vehicle, segment, speed (0 to 100 miles an hour), int64. Event times are whole milliseconds.

    Raises
    ------
    ValueError
        A parameter is out of its range; the text names it and says what to give.

    Examples
    --------
    >>> from headrace_datasets import tp
    >>> tp(n=1_000).schema.names
    ['ts', 'vehicle', 'segment', 'speed']
    """
    made = stream_of(n, seed, rate) | {"vehicles": whole_number("vehicles", vehicles, minimum=1)}
    if made["vehicles"] >= 2**63:
        raise ValueError(f"vehicles is {vehicles}; give less than 2**63")
    access = Access.checked(records, skew=skew, hot_share=hot_share, hot_keys=hot_keys)
    shown = {name: getattr(access, name) for name in ("records", "skew", "hot_share", "hot_keys")}
    return Dataset(call_of("tp", **made, **shown), SCHEMA, partial(_blocks, **made, access=access))


def generate(n: int, seed: int, rate: float = 100_000.0, **parameters: Any) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `tp`, with its parameters, in blocks."""
    return tp(n, seed, rate, **parameters).batches(BLOCK_ROWS)


def _blocks(n: int, seed: int, rate: float, vehicles: int, access: Access) -> Iterator[pa.RecordBatch]:
    return blocks(n, seed, rate, SCHEMA, lambda: _columns(seed, vehicles, access))


def _columns(seed: int, vehicles: int, access: Access) -> Columns:
    keys = Keys(seed, access)
    mean = stream(seed, SPEEDS).uniform(SLOWEST_MPH, FASTEST_MPH, access.records)

    def draw(rng: np.random.Generator) -> list[pa.Array]:
        segment = keys.draw(rng, BLOCK_ROWS, 1)[:, 0]
        vehicle = rng.integers(0, vehicles, BLOCK_ROWS)
        speed = np.clip(np.rint(mean[segment] + SPEED_SD * rng.standard_normal(BLOCK_ROWS)), 0, HIGHEST_MPH)
        return [pa.array(vehicle), pa.array(segment), pa.array(speed.astype(np.int64))]

    return draw
