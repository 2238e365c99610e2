"""The content of a result as one number, whatever the order of its rows.

Each row is mixed into 64 bits, the rows are added up. The compiled loops, the
Java jobs and this file compute the same. Streams are digested as their results
come, ours and Flink's, and nothing of them is kept; peers that hand over all of
their rows are digested here, after the clock has stopped.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.kernel import kernel

WEIGHTS = (0x1E3779B97F4A7C15, 0x3F58476D1CE4E5B9, 0x14D049BB133111EB, 0x2545F4914F6CDD1D, 0x27D4EB2F165667C5)
"""One odd factor for each column."""
_MASK = 2**64 - 1
_W0, _W1, _W2, _W3, _W4 = WEIGHTS


@kernel
def mix(a, b, c, d, e):
    """One row of up to five integers; a column that is not there is 0."""
    return _scrambled(
        np.int64(a) * _W0 + np.int64(b) * _W1 + np.int64(c) * _W2 + np.int64(d) * _W3 + np.int64(e) * _W4
    )


@kernel
def _scrambled(mixed):
    return (mixed ^ (mixed >> 29)) * _W1


@kernel
def fold(columns, weights, position, position_weight):
    """Add up the mixed rows of five columns; the first row's position is `position`.

    A column that is not there has the weight 0.
    """
    a, b, c, d, e = columns
    total = np.int64(0)
    for i in range(a.size):
        mixed = (position + i) * position_weight + np.int64(a[i]) * weights[0] + np.int64(b[i]) * weights[1]
        mixed += np.int64(c[i]) * weights[2] + np.int64(d[i]) * weights[3] + np.int64(e[i]) * weights[4]
        total += _scrambled(mixed)
    return total


class Folded:
    """Where a stream's results end: each batch is digested as it comes, and let go.

    Parameters
    ----------
    columns : sequence of str
        Integers, at most five; four if the result is a sequence.
    is_ordered : bool
        A row's position is mixed in, before its columns.
    """

    def __init__(self, columns: Sequence[str], is_ordered: bool = False):
        self._columns = columns
        self._position_weight = WEIGHTS[0] if is_ordered else 0
        self._weights = np.zeros(len(WEIGHTS), np.int64)
        self._weights[: len(columns)] = WEIGHTS[is_ordered : is_ordered + len(columns)]
        self._total = 0
        self.rows = 0

    @property
    def digest(self) -> int:
        """Of all rows so far."""
        return unsigned(self._total)

    def write(self, batch: pa.RecordBatch) -> None:
        """Take the next rows."""
        columns = [batch.column(name).to_numpy() for name in self._columns]
        columns += columns[:1] * (len(WEIGHTS) - len(columns))
        self._total += int(fold(tuple(columns), self._weights, self.rows, self._position_weight))
        self.rows += batch.num_rows

    def progress(self, watermark: int) -> None:
        """Time passes without results."""

    def close(self) -> None:
        """The stream is over."""


def unsigned(total: int) -> int:
    """Give a sum of `mix` the form of `digest`."""
    return int(total) & _MASK


def digest(table: pa.Table, columns: Sequence[str], is_ordered: bool = False) -> int:
    """Digest all rows of a result; its columns are integers, or numbers that are whole.

    Examples
    --------
    >>> rows = pa.table({"ts": [1, 2], "key": [3, 4]})
    >>> digest(rows, ["ts", "key"]) == digest(rows.take([1, 0]), ["ts", "key"])
    True
    """
    folded = Folded(columns, is_ordered)
    whole = table.select(columns).cast(pa.schema([(name, pa.int64()) for name in columns]))
    for batch in whole.to_batches():
        folded.write(batch)
    return folded.digest
