"""Sessions, tickets and the like, which overlap in time and have several rows each: all rows in event-time order."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace_datasets.dataset import TIME

Columns = Mapping[str, NDArray]


class Part(NamedTuple):
    """All rows of some sessions that begin one after another.

    Attributes
    ----------
    until : int
        No session of a later part begins before this time; in microseconds.
    columns : mapping of str to array
        With ``ts``, int64, in microseconds. The rows of a session are together; sessions are in the order in which they begin.
    """

    until: int
    columns: Columns


def in_order(parts: Iterator[Part]) -> Iterator[Columns]:
    """Sort rows by ``ts``, stably. Hold back only rows before which rows of later parts may still come."""
    held: Columns | None = None
    for until, columns in parts:
        if held is not None:
            columns = {name: np.concatenate([held[name], values]) for name, values in columns.items()}
        order = np.argsort(columns["ts"], kind="stable")
        ready = int(np.searchsorted(columns["ts"][order], until))
        yield {name: values[order[:ready]] for name, values in columns.items()}
        held = {name: values[order[ready:]] for name, values in columns.items()}


def first_rows(
    n: int, parts: Iterator[Part], schema: pa.Schema, arrays: Callable[[Columns], list[pa.Array]]
) -> Iterator[pa.RecordBatch]:
    """Iterate over the first `n` rows of endless parts; `arrays` returns the columns except ``ts``."""
    if n == 0:
        return
    for columns in in_order(parts):
        batch = pa.RecordBatch.from_arrays([pa.array(columns["ts"]).cast(TIME), *arrays(columns)], schema=schema)
        yield batch.slice(0, n)
        n -= batch.num_rows
        if n <= 0:
            return


class Runs:
    """Rows of consecutive lengths: where each run begins, and which run and place a row has.

    Parameters
    ----------
    sizes : int64[k]
        At least 1.

    Attributes
    ----------
    first : int64[k]
        The first row of each run.
    run, place : int64[rows]

    Examples
    --------
    >>> runs = Runs(np.array([2, 3]))
    >>> runs.first.tolist(), runs.run.tolist(), runs.place.tolist()
    ([0, 2], [0, 0, 1, 1, 1], [0, 1, 0, 1, 2])
    """

    def __init__(self, sizes: NDArray[np.int64]) -> None:
        self.first = np.cumsum(sizes) - sizes
        self.run = np.repeat(np.arange(len(sizes)), sizes)
        self.place = np.arange(len(self.run)) - self.first[self.run]

    def times(self, begins: NDArray[np.float64], gaps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the time of each row: the beginning of its run plus the gaps of the run up to it; the first row has no gap."""
        passed = np.cumsum(np.where(self.place == 0, 0.0, gaps))
        return begins[self.run] + (passed - passed[self.first][self.run])
