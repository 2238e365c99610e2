"""The content of a result as one number, whatever the order of its rows.

Each row is mixed into 64 bits, and these numbers are added up. The compiled loops, the Java jobs and this
file compute the same digest. Results of streams, ours and Flink's, are digested as they arrive and are not
kept; those of peers that hand over all rows at once are digested here, after the clock has stopped. A text
counts as a number: its bytes are the coefficients of a polynomial in 31, modulo 2**64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.kernel import kernel
from headrace.memory.wrapped import wrapped_product, wrapped_sum

WEIGHTS = (0x1E3779B97F4A7C15, 0x3F58476D1CE4E5B9, 0x14D049BB133111EB, 0x2545F4914F6CDD1D, 0x27D4EB2F165667C5)
"""One odd factor for each column."""
_MASK = 2**64 - 1
_W0, _W1, _W2, _W3, _W4 = WEIGHTS


@kernel
def mix(a, b, c, d, e):
    """Mix one row of up to five integers; a missing column is 0."""
    left = wrapped_sum(wrapped_product(a, _W0), wrapped_product(b, _W1))
    right = wrapped_sum(wrapped_product(c, _W2), wrapped_product(d, _W3))
    return _scrambled(wrapped_sum(wrapped_sum(left, right), wrapped_product(e, _W4)))


@kernel
def _scrambled(mixed):
    return wrapped_product(mixed ^ (mixed >> 29), _W1)


@kernel
def fold(columns, weights, position, position_weight):
    """Add up the mixed rows of five columns; the first row's position is `position`.

    A missing column has the weight 0.
    """
    a, b, c, d, e = columns
    total = np.int64(0)
    for i in range(a.size):
        mixed = wrapped_sum(wrapped_product(position + i, position_weight), wrapped_product(a[i], weights[0]))
        mixed = wrapped_sum(mixed, wrapped_sum(wrapped_product(b[i], weights[1]), wrapped_product(c[i], weights[2])))
        mixed = wrapped_sum(mixed, wrapped_sum(wrapped_product(d[i], weights[3]), wrapped_product(e[i], weights[4])))
        total = wrapped_sum(total, _scrambled(mixed))
    return total


@kernel
def fold_texts(offsets, data, out):
    """Compute each text's number; its bytes are those of `data` from ``offsets[i]`` to ``offsets[i + 1]``."""
    for i in range(out.size):
        number = np.int64(0)
        for p in range(offsets[i], offsets[i + 1]):
            number = wrapped_sum(wrapped_product(number, 31), data[p])
        out[i] = number


def numbers_of(column: pa.Array) -> np.ndarray:
    """A column as int64: integers as they are, texts by their numbers; nulls count as -1."""
    if column.null_count:
        return numbers_of(column.fill_null(-1))
    if pa.types.is_dictionary(column.type):
        return numbers_of(column.dictionary)[column.indices.to_numpy()]
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column.to_numpy()
    offset_type = np.int32 if pa.types.is_string(column.type) else np.int64
    _, offsets, data = column.buffers()
    numbers = np.empty(len(column), np.int64)
    places = np.frombuffer(offsets, offset_type)[column.offset : column.offset + len(column) + 1]
    fold_texts(places, np.frombuffer(data or b"", np.uint8), numbers)
    return numbers


class Folded:
    """A sink that digests each batch as it arrives, and does not keep it.

    Parameters
    ----------
    columns : sequence of str
        Integers or texts, at most five; four if the result is a sequence.
    is_ordered : bool
        Whether a row's position is mixed in, before its columns.
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
        """The digest of all rows so far."""
        return unsigned(self._total)

    def write(self, batch: pa.RecordBatch) -> None:
        """Digest the next rows."""
        columns = [numbers_of(batch.column(name)) for name in self._columns]
        columns += columns[:1] * (len(WEIGHTS) - len(columns))
        self._total += int(fold(tuple(columns), self._weights, self.rows, self._position_weight))
        self.rows += batch.num_rows

    def progress(self, watermark: int) -> None:
        """Nothing to do: a watermark has no rows."""

    def close(self) -> None:
        """Nothing to do: all rows are digested."""


def unsigned(total: int) -> int:
    """Return a sum of `mix` as `digest` gives it: an unsigned number of 64 bits."""
    return int(total) & _MASK


def digest(table: pa.Table, columns: Sequence[str], is_ordered: bool = False) -> int:
    """Digest all rows of a result; columns are texts, integers, or floats with integer values.

    Examples
    --------
    >>> rows = pa.table({"ts": [1, 2], "key": [3, 4]})
    >>> digest(rows, ["ts", "key"]) == digest(rows.take([1, 0]), ["ts", "key"])
    True
    """
    folded = Folded(columns, is_ordered)
    kinds = [(name, table.schema.field(name).type) for name in columns]
    texts = {name: pa.string() for name, kind in kinds if not (pa.types.is_integer(kind) or pa.types.is_floating(kind))}
    whole = table.select(columns).cast(pa.schema([(name, texts.get(name, pa.int64())) for name in columns]))
    for batch in whole.to_batches():
        folded.write(batch)
    return folded.digest
