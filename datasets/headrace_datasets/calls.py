"""Telephone calls with the places of both ends: the input of the fraud detection in ordered pipelines (Prasaad et al., Figure 1).

Places are as far from the middle of an area as in a sample of call records (bandicoot's: a standard deviation of 0.28 degrees)
and fill a square as evenly, and calls are made at all hours alike. How a phone moves is not the sample's, whose only phone is
anywhere in its square at each call, half a degree from where it was: here each circles its home once a day, at about 11 km, so
that none is faster than 20 km/h. Places are not rounded: between places cut to four digits, as in the sample, a millisecond
makes a high speed. A share of the calls is made far away, with a copy of the caller's card.
"""

import math
from collections.abc import Iterator
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace_datasets.arrivals import Clock, milliseconds_as_us
from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.events import call_of, stream_of
from headrace_datasets.keys import STEEPEST
from headrace_datasets.parameters import explains_arguments, number, share, whole_number
from headrace_datasets.randomness import stream, zipf

PLACES = ("caller_lat", "caller_lon", "callee_lat", "callee_lon")
SCHEMA = pa.schema(
    {"ts": TIME, "caller": pa.int64(), "callee": pa.int64(), "area": pa.int64(), **dict.fromkeys(PLACES, pa.float64())}
)

START = np.datetime64("2024-01-01T00:00:00", "us").astype(np.int64)
BLOCK_ROWS = 65_536
BLOCKS, HOMES = 0, 1  # random streams
FIRST_AREA = 200
MOST_AREAS, MOST_PHONES = 800, 1_000_000
LATITUDES, LONGITUDES = (28.0, 46.0), (-120.0, -72.0)  # of the middles of areas
SPREAD = 0.28
WANDER, DAY_S = 0.1, 86_400.0
FROM_MIDDLE = math.sqrt(3.0 * (SPREAD**2 - WANDER**2 / 2.0))  # of homes, at most: evenly, so that places have the spread
FAR = (6.0, 12.0)  # degrees north or south: 667 km and more
STRIDE = 7_919  # coprime to ten million: consecutive phones have numbers far apart


@explains_arguments
def calls(
    n: int = 1_000_000,
    seed: int = 7,
    rate: float = 100.0,
    *,
    phones: int = 50_000,
    areas: int = 100,
    skew: float = 0.9,
    impossible: float = 0.001,
) -> Dataset:
    """Telephone calls with the places of caller and callee, some of which the caller cannot have reached.

    Parameters
    ----------
    n : int
        Rows.
    seed : int
        Another seed gives other calls and other homes.
    rate : float
        Calls a second, with exponential gaps.
    phones : int
        At least 2. Each phone has a number of ten digits, which begins with its area, and a home there.
    areas : int
        Areas are numbered 200 to 199 + areas.
    skew : float
        Zipf's exponent of callers and callees; 0: all equally frequent.
    impossible : float
        Share of the calls whose caller is more than 600 km from where the phone is. In all other calls no phone moves faster
        than 20 km/h.

    Returns
    -------
    Dataset
        ts; caller, callee, and area of the caller, int64; caller_lat, caller_lon, callee_lat, callee_lon, float64, in degrees.
        Event times are whole milliseconds.

    Raises
    ------
    ValueError
        A parameter is out of its range; the text names it and says what to give.

    Examples
    --------
    >>> from headrace_datasets import calls
    >>> calls(n=1_000).schema.names[:4]
    ['ts', 'caller', 'callee', 'area']
    """
    made = stream_of(n, seed, rate)
    for name, value, least, most in (("phones", phones, 2, MOST_PHONES), ("areas", areas, 1, MOST_AREAS)):
        made[name] = whole_number(name, value, minimum=least)
        if made[name] > most:
            raise ValueError(f"{name} is {value}; give at most {most}")
    made |= {"skew": number("skew", skew, 0.0, STEEPEST), "impossible": share("impossible", impossible)}
    return Dataset(call_of("calls", **made), SCHEMA, partial(_blocks, **made))


def generate(n: int, seed: int, rate: float = 100.0, **parameters: Any) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `calls`, with its parameters, in blocks."""
    return calls(n, seed, rate, **parameters).batches(BLOCK_ROWS)


def _blocks(
    n: int, seed: int, rate: float, phones: int, areas: int, skew: float, impossible: float
) -> Iterator[pa.RecordBatch]:
    clock = Clock(repeat(np.ones(BLOCK_ROWS)), slot_s=1.0 / rate)
    book = None
    for block, first in enumerate(range(0, n, BLOCK_ROWS)):
        book = _Phones(seed, phones, areas) if book is None else book
        rng = stream(seed, BLOCKS, block)
        # whole blocks are drawn and then cut, so that a smaller n gives the beginning of the same stream
        us = milliseconds_as_us(clock.after(rng.standard_exponential(BLOCK_ROWS)))
        caller, callee = (zipf(phones, skew).draw(rng, BLOCK_ROWS).astype(np.int64) for _ in range(2))
        callee = np.where(callee == caller, (callee + 1) % phones, callee)
        (lat, lon), to = book.places(caller, us), book.places(callee, us)
        is_copy = rng.random(BLOCK_ROWS) < impossible
        away = rng.uniform(*FAR, BLOCK_ROWS) * np.where(lat > np.mean(LATITUDES), -1.0, 1.0)
        lat = np.where(is_copy, lat + away, lat)
        columns = [book.number[caller], book.number[callee], book.area[caller], lat, lon, *to]
        arrays = [pa.array(START + us).cast(TIME), *map(pa.array, columns)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA).slice(0, n - first)


class _Phones:
    """Numbers and homes; a phone's place depends on the phone and the time alone, so that it has one place at a time."""

    def __init__(self, seed: int, phones: int, areas: int) -> None:
        rng = stream(seed, HOMES)
        middle = np.column_stack([rng.uniform(*LATITUDES, areas), rng.uniform(*LONGITUDES, areas)])
        of = np.arange(phones) % areas
        self.area = FIRST_AREA + of
        self.number = self.area * 10**7 + (np.arange(phones) * STRIDE + int(rng.integers(10**7))) % 10**7
        self._home = middle[of] + rng.uniform(-FROM_MIDDLE, FROM_MIDDLE, (phones, 2))
        self._phase = rng.uniform(0.0, 2.0 * np.pi, phones)

    def places(self, phone: NDArray[np.int64], us: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return latitudes and longitudes of phones at times."""
        turned = 2.0 * np.pi / DAY_S * (us / 1e6) + self._phase[phone]
        return self._home[phone, 0] + WANDER * np.sin(turned), self._home[phone, 1] + WANDER * np.cos(turned)
