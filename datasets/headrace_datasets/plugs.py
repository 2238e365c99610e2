"""Readings of smart plugs in houses: the form of the DEBS Grand Challenge 2014, which Flumina runs as a case study.

Fitted to 16,814 readings of load, of 470 plugs in 67 households in 10 houses (84 seconds of that challenge): 2 to 14
households in a house, 1 to 14 plugs in a household (7 on average), a reading of each plug every 2 seconds, times in whole
seconds. 68 % of the plugs use nothing; the others use 24 W at the median, quartiles 13 and 68 W, and within those seconds
their loads vary by 7 %. So short a time says nothing about the hours of the day: here each plug has a daily wave of its own.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.events import call_of, stream_of
from headrace_datasets.parameters import explains_arguments, share, whole_number
from headrace_datasets.randomness import stream

SCHEMA = pa.schema({"ts": TIME, **dict.fromkeys(("house", "household", "plug"), pa.int64()), "load": pa.float64()})

START = np.datetime64("2013-09-01T00:00:00", "us").astype(np.int64)
BLOCK_ROWS = 65_536
BLOCKS, HOUSES = range(2)  # random streams
MOST_HOUSES = 1_000
HOUSEHOLDS, PLUGS = (2, 14), (1, 13)
LOAD_W, SPREAD = 24.4, 1.24  # median, and standard deviation of the logarithm
NOISE, WAVE = 0.07, 0.5
DAY_US = 86_400 * 1_000_000


@explains_arguments
def plugs(
    n: int = 1_000_000,
    seed: int = 7,
    rate: float = 200.0,
    *,
    houses: int = 10,
    idle: float = 0.68,
) -> Dataset:
    """Readings of the load of plugs, one plug after another, round after round.

    Parameters
    ----------
    n : int
        Rows.
    seed : int
        Another seed gives other houses.
    rate : float
        Readings a second, evenly spaced.
    houses : int
        Houses are numbered 0 to houses - 1, households within a house, plugs within a household; about 56 plugs a house.
    idle : float
        Share of the plugs that never use anything.

    Returns
    -------
    Dataset
        ts; house, household, plug, int64; load, float64, in watts with three decimals. Event times are whole seconds.

    Raises
    ------
    ValueError
        A parameter is out of its range; the text names it and says what to give.

    Examples
    --------
    >>> from headrace_datasets import plugs
    >>> plugs(n=1_000).schema.names
    ['ts', 'house', 'household', 'plug', 'load']
    """
    made = stream_of(n, seed, rate) | {"houses": whole_number("houses", houses, minimum=1), "idle": share("idle", idle)}
    if made["houses"] > MOST_HOUSES:
        raise ValueError(f"houses is {houses}; give at most {MOST_HOUSES}")
    return Dataset(call_of("plugs", **made), SCHEMA, partial(_blocks, **made))


def generate(n: int, seed: int, rate: float = 200.0, **parameters: Any) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `plugs`, with its parameters, in blocks."""
    return plugs(n, seed, rate, **parameters).batches(BLOCK_ROWS)


def _blocks(n: int, seed: int, rate: float, houses: int, idle: float) -> Iterator[pa.RecordBatch]:
    town = None
    for block, first in enumerate(range(0, n, BLOCK_ROWS)):
        town = _Town(seed, houses, idle) if town is None else town
        # whole blocks are drawn and then cut, so that a smaller n gives the beginning of the same stream
        row = np.arange(first, first + BLOCK_ROWS)
        us = np.floor(row / rate).astype(np.int64) * 1_000_000
        plug = town.order[row % len(town.order)]
        load = town.load(plug, us) * (1.0 + NOISE * stream(seed, BLOCKS, block).standard_normal(BLOCK_ROWS))
        load = np.round(np.maximum(load, 0.0), 3) + 0.0  # + 0.0 turns -0.0 into 0.0
        arrays = [pa.array(START + us).cast(TIME), *(pa.array(ids[plug]) for ids in town.ids), pa.array(load)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA).slice(0, n - first)


class _Town:
    """The plugs, the order in which they are read, and their loads."""

    def __init__(self, seed: int, houses: int, idle: float) -> None:
        rng = stream(seed, HOUSES)
        households = rng.integers(*HOUSEHOLDS, houses, endpoint=True)
        house = np.repeat(np.arange(houses), households)
        household = _counted(households)
        of_household = rng.integers(*PLUGS, len(house), endpoint=True)
        self.ids = [np.repeat(house, of_household), np.repeat(household, of_household), _counted(of_household)]
        count = len(self.ids[0])
        self.order = rng.permutation(count)
        is_used = rng.random(count) >= idle
        self._load = np.where(is_used, LOAD_W * np.exp(SPREAD * rng.standard_normal(count)), 0.0)
        self._phase = rng.uniform(0.0, 2.0 * np.pi, count)

    def load(self, plug: NDArray[np.int64], us: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the loads of plugs at times, without noise, in watts."""
        return self._load[plug] * (1.0 + WAVE * np.sin(2.0 * np.pi * (us % DAY_US) / DAY_US + self._phase[plug]))


def _counted(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the members of groups of these sizes, each group from 0."""
    first = np.cumsum(sizes) - sizes
    return np.arange(sizes.sum()) - np.repeat(first, sizes)
