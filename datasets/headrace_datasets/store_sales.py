"""Shop tickets, a line for each item scanned: the input of query 1 of TPCx-BB, run as an ordered pipeline (Prasaad et al.).

Fitted to the store sales of TPC-DS at scale factor 0.01 (28,810 lines): 8 to 16 lines a ticket, each number equally likely; open
from 8 to 21, with the same busy hours; frequencies of items differ by a small factor. There a ticket has one time and no item
twice. Here scanning takes time, so that tickets overlap in time and cross the full hour, and some items are scanned twice.
"""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from headrace_datasets.arrivals import SHOP_HOURS, daily, milliseconds_as_us
from headrace_datasets.dataset import TIME, Dataset
from headrace_datasets.events import call_of, stream_of
from headrace_datasets.interleaved import Columns, Part, Runs, first_rows
from headrace_datasets.keys import STEEPEST
from headrace_datasets.parameters import LOWEST_RATE, explains_arguments, number, share, whole_number
from headrace_datasets.randomness import stream, zipf

SCHEMA = pa.schema({"ts": TIME, "ticket": pa.int64(), "item": pa.int64()})

START = np.datetime64("2024-01-01T00:00:00", "us").astype(np.int64)
FEWEST_LINES, MOST_LINES = 8, 16
GAP_S = 4.0
TICKETS = 5_000  # in a part
MOST_ITEMS = 1_000_000
HIGHEST_RATE = 10_000.0  # tickets that overlap in time are held in memory


@explains_arguments
def store_sales(
    n: int = 1_000_000,
    seed: int = 7,
    rate: float = 1.0,
    *,
    items: int = 1_000,
    skew: float = 0.3,
    twice: float = 0.03,
    nulls: float = 0.01,
) -> Dataset:
    """Lines of shop tickets, from several tills at once.

    Parameters
    ----------
    n : int
        Rows.
    seed : int
        Another seed gives other tickets.
    rate : float
        Lines a second, on average, at most 10,000; next to none at night. At the default, a million lines take 12 days.
    items : int
        Items are numbered 0 to items - 1.
    skew : float
        Zipf's exponent of the items, of which low numbers are frequent; 0: all equally frequent.
    twice : float
        Share of the lines, without the first of each ticket, that repeat the item of the line before.
    nulls : float
        Share of the lines whose item is not known.

    Returns
    -------
    Dataset
        ts; ticket (numbered in the order in which tickets begin), int64; item, int64 or null. A ticket has 8 to 16 lines, four
        seconds apart on average. Event times are whole milliseconds.

    Raises
    ------
    ValueError
        A parameter is out of its range; the text names it and says what to give.

    Examples
    --------
    >>> from headrace_datasets import store_sales
    >>> store_sales(n=1_000).schema.names
    ['ts', 'ticket', 'item']
    """
    made = stream_of(n, seed, rate) | {"items": whole_number("items", items, minimum=1)}
    number("rate", made["rate"], LOWEST_RATE, HIGHEST_RATE)
    if made["items"] > MOST_ITEMS:
        raise ValueError(f"items is {items}; give at most {MOST_ITEMS}")
    made |= {"skew": number("skew", skew, 0.0, STEEPEST), "twice": share("twice", twice), "nulls": share("nulls", nulls)}
    return Dataset(call_of("store_sales", **made), SCHEMA, partial(_blocks, **made))


def generate(n: int, seed: int, rate: float = 1.0, **parameters: Any) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of `store_sales`, with its parameters, in blocks."""
    return store_sales(n, seed, rate, **parameters).batches()


def _blocks(n: int, seed: int, **parameters: Any) -> Iterator[pa.RecordBatch]:
    def arrays(columns: Columns) -> list[pa.Array]:
        return [pa.array(columns["ticket"]), pa.array(columns["item"], mask=columns["is_null"])]

    return first_rows(n, _parts(seed, **parameters), SCHEMA, arrays)


def _parts(seed: int, rate: float, items: int, skew: float, twice: float, nulls: float) -> Iterator[Part]:
    clock = daily(SHOP_HOURS, rate / ((FEWEST_LINES + MOST_LINES) / 2))
    by_item = zipf(items, skew)
    for part in itertools.count():
        rng = stream(seed, part)
        begins_s = clock.after(rng.standard_exponential(TICKETS))
        runs = Runs(rng.integers(FEWEST_LINES, MOST_LINES, TICKETS, endpoint=True))
        rows = len(runs.run)
        seconds = runs.times(begins_s, GAP_S * rng.standard_exponential(rows))
        item = by_item.draw(rng, rows).astype(np.int64)
        again = np.flatnonzero((rng.random(rows) < twice) & (runs.place > 0))
        item[again] = item[again - 1]
        yield Part(
            int(START + milliseconds_as_us(begins_s[-1:])[0]),
            {
                "ts": START + milliseconds_as_us(seconds),
                "ticket": part * TICKETS + runs.run,
                "item": item,
                "is_null": rng.random(rows) < nulls,
            },
        )
