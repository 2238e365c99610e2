"""A checksum of rows by value and place: it tells whether rows that are read again are the same as before.

The sum of rows is the sum of those before any place plus the sum of those after it, so it does not matter in which pieces
rows come. It detects mistakes, such as another file under the same name; it does not protect against forgery.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

_ROW, _COLUMN = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_NOTHING = np.uint64(0x2545F4914F6CDD1D)
_MASK = (1 << 64) - 1


Column = tuple[np.ndarray, np.ndarray | None]
"""Values, and which of them are valid; None: all are."""


def content_sum(first: int, columns: Mapping[str, Column], start: int = 0, stop: int | None = None) -> int:
    """Add rows up, modulo 2**64.

    Parameters
    ----------
    first : int
        Place of the first row of the columns.
    columns : mapping of str to Column
        Columns with values of 8 bytes or less; they are ordered by name.
    start, stop : int
        Range of the columns' rows to be added up.

    Examples
    --------
    >>> x = {"x": (np.array([1, 2, 3]), None)}
    >>> whole, first, rest = content_sum(0, x), content_sum(0, x, 0, 1), content_sum(0, x, 1)
    >>> whole == (first + rest) % 2**64, whole == content_sum(1, x)
    (True, False)
    """
    total = 0
    for number, name in enumerate(sorted(columns)):
        values, valid = columns[name]
        part = np.ascontiguousarray(values[start:stop])
        words = part.view(np.uint64) if part.dtype.itemsize == 8 else part.astype(np.int64).view(np.uint64)
        if valid is not None:
            words = np.where(valid[start:stop] != 0, words, _NOTHING)
        places = np.arange(first + start, first + start + len(words)).astype(np.uint64)
        with np.errstate(over="ignore"):
            mixed = words ^ (places * _ROW + np.uint64(number + 1) * _COLUMN)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
            mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
            mixed ^= mixed >> np.uint64(31)
            total += int(mixed.sum(dtype=np.uint64))
    return total & _MASK


__all__ = ["content_sum"]
