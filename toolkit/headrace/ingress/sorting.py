"""Sorting results by columns of whole numbers or floats, with the position as the last one.

Columns in a small range (times, positions, most keys) fit into one word together with the position. These words are sorted by
the digits that the columns fill (`sorting_kernel`), which gives the order and leaves no ties. For anything else the first
column is sorted by its bytes, and equal values are sorted by the next. NumPy's sorts compare: of packed words of 22 bits and a
position, 10,000 take it 24 ns each and 400,000 take 44, and sorting by digits takes 5; to sort as many words of 64 bits takes
33 and 62 ns, and 14 and 15 by bytes (AMD EPYC with AVX-512).
A few dozen rows, as a join gives at a time, are sorted by a kernel that merges: for so few, NumPy's calls cost more than the
sorting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from headrace.ingress import sorting_kernel as kernels

FEW = 256
"""Rows up to which one call of the kernel that merges is faster than the many NumPy calls."""
MANY = 600
"""Rows from which sorting by digits is faster than NumPy's sorts."""
_DENSE = 16
"""Ids per row up to which a table with a place for each id is faster than sorting the rows' ids."""
_AT_ONCE = 4
"""Maximum number of columns that are packed together."""
_KINDS = {np.dtype(np.int64): kernels.WHOLE, np.dtype(np.uint64): kernels.UNSIGNED, np.dtype(np.float64): kernels.FLOAT}
_MANY_TIED = 1 / 4
"""If more than this share of the rows is tied, all rows are sorted again, by columns packed into words."""


def group_starts(is_new: np.ndarray) -> np.ndarray:
    """Return, for each of n positions, where its group of equal ones starts.

    Parameters
    ----------
    is_new : bool[n - 1]
        Whether position i + 1 begins a group.
    """
    starts = np.zeros(is_new.size + 1, np.int64)
    starts[1:] = np.where(is_new, np.arange(1, is_new.size + 1), 0)
    return np.maximum.accumulate(starts)


def distinct(numbers: np.ndarray) -> np.ndarray:
    """Return the distinct values of whole numbers, in order.

    (`numpy.unique` hashes numbers since NumPy 2.3: for 64,000 different ids of a dictionary, which are 1,024 apart, it
    takes 34 ms, and for a million 2 s, where sorting takes 0.8 and 17 ms.)

    Examples
    --------
    >>> distinct(np.array([2048, 0, 2048])).tolist()
    [0, 2048]
    """
    ordered = _sorted(numbers)
    is_first = np.ones(ordered.size, np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


def _sorted(numbers: np.ndarray) -> np.ndarray:
    """Return whole numbers in order."""
    if numbers.size < MANY or numbers.dtype.kind != "i":
        return np.sort(numbers)
    low = int(numbers.min())
    bits = (int(numbers.max()) - low).bit_length()
    if bits > 63:
        return np.sort(numbers)
    words = numbers.astype(np.int64)
    words -= low
    ordered = _sort_packed(words, 0, bits)
    ordered += low
    return ordered.astype(numbers.dtype, copy=False)


def _sort_packed(words: np.ndarray, low: int, bits: int) -> np.ndarray:
    """Return int64[n], non-negative words sorted by `bits` bits from bit `low` on; the bits below are those of the positions."""
    if words.size < MANY:
        words.sort()
        return words
    spare = np.empty_like(words)
    counts = np.empty((kernels.MOST_PASSES, kernels.DIGITS), np.int64)
    return spare if kernels.sort_packed(words, spare, low, bits, counts) else words


def _argsort_wide(column: np.ndarray) -> np.ndarray:
    """Return the positions that sort one column of any kind; equal values keep their order."""
    if column.size < MANY or column.dtype not in _KINDS:
        return np.argsort(column, kind="stable")
    order = np.empty((2, column.size), np.int64)
    counts = np.empty((kernels.BYTES, kernels.BYTE), np.int64)
    numbers = np.ascontiguousarray(column).view(np.int64)
    return order[kernels.argsort_wide(numbers, _KINDS[column.dtype], np.empty(order.shape, np.uint64), order, counts)]


def ranks(ids: np.ndarray, sort: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return int64[n]: for each id, the rank of the value it stands for.

    Parameters
    ----------
    ids : int32[n]
        Dense ids, at least 0.
    sort : callable
        Returns the positions that sort distinct ids, int32[k], by the values they stand for.

    Examples
    --------
    >>> words = np.array(["b", "c", "a"])
    >>> ranks(np.array([0, 2, 0, 1], np.int32), lambda ids: np.argsort(words[ids])).tolist()
    [1, 0, 1, 2]
    """
    size = int(ids.max(initial=-1)) + 1
    if size > _DENSE * ids.size:
        different = distinct(ids)
        found = np.empty(different.size, np.int64)
        found[sort(different)] = np.arange(different.size)
        return found[np.searchsorted(different, ids)]
    occurs = np.zeros(size, np.bool_)
    occurs[ids] = True
    different = np.flatnonzero(occurs).astype(np.int32)
    found = np.empty(size, np.int64)
    found[different[sort(different)]] = np.arange(different.size)
    return found[ids]


def argsort(first: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """Return the positions that sort by `first`, then by each of `others`; equal rows keep their order.

    Parameters
    ----------
    first, others : arrays of n
        Whole numbers of any width, or float64: equal where the bits are, so NaN (sorted last) and
        zero must each have one form. `others` are compared only where all columns before are equal.

    Examples
    --------
    >>> argsort(np.array([3, 1, 3, 1]), np.array([0, 5, -1, 4])).tolist()
    [3, 1, 2, 0]
    """
    columns = [first, *others]
    if first.size <= FEW and len(columns) <= 3 and all(column.dtype == np.int64 for column in columns):
        copies = [np.array(column) for column in columns]  # arrays of one type, so one compiled kernel
        order, scratch = np.empty(first.size, np.int64), np.empty(first.size, np.int64)
        kernels.argsort_few(copies[0], copies[1 % len(copies)], copies[-1], order, scratch)
        return order
    if (first[1:] > first[:-1]).all():
        return np.arange(first.size)
    packed = _pack(columns)
    if packed is None:
        order, done = _argsort_wide(first), 1
        if len(columns) == 1:
            return order
        bits = first[order].view(np.int64)
        is_same = bits[1:] == bits[:-1]
    else:
        words, position_bits, bits, done = packed
        words = _sort_packed(words, position_bits, bits)
        positions = (1 << position_bits) - 1
        if done == len(columns):
            words &= positions
            return words
        order = words & positions
        words >>= position_bits
        is_same = words[1:] == words[:-1]
    return _settle(order, is_same, columns[done:]) if is_same.any() else order


def _settle(order: np.ndarray, is_same: np.ndarray, columns: Sequence[np.ndarray]) -> np.ndarray:
    """Order the rows that are equal so far by `columns`.

    Parameters
    ----------
    order : int64[n]
        Sorted by the preceding columns, then by position.
    is_same : bool[n - 1]
        Whether the rows at places i and i + 1 of `order` are equal in those columns.
    """
    if is_same.all():
        return argsort(*columns)
    is_tied = np.zeros(order.size, np.bool_)
    is_tied[1:] |= is_same
    is_tied[:-1] |= is_same
    tied = np.flatnonzero(is_tied)
    groups = group_starts(~is_same)
    if tied.size > _MANY_TIED * order.size:
        # Sort all rows by the other columns, then stably by group: both sorts can pack columns into words.
        others = argsort(*columns)
        group_of = np.empty(order.size, np.int64)
        group_of[order] = groups
        return others[argsort(group_of[others])]
    chosen = order[tied]
    order[tied] = chosen[np.lexsort((chosen, *(c[chosen] for c in reversed(columns)), groups[tied]))]
    return order


def compile_kernels() -> None:
    """Compile the kernels, so that no result waits for the compiler."""
    for count in (2, MANY):
        numbers = np.arange(count)[::-1].copy()
        argsort(numbers)
        _argsort_wide(numbers)


def fits(*columns: np.ndarray) -> bool:
    """Whether `argsort` sorts by these columns at once: the rows are few, or each fits into a word together with its position."""
    if columns[0].size <= FEW:
        return True
    bits = (columns[0].size - 1).bit_length()
    for column in columns:
        if column.dtype.kind not in "iu":
            return False
        bits += (int(column.max()) - int(column.min())).bit_length()
    return bits <= 63 and len(columns) <= _AT_ONCE


def _pack(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, int, int, int] | None:
    """Pack as many leading columns as fit, at most `_AT_ONCE`, and the position into a word of 63 bits for each row.

    Returns
    -------
    words : int64[n]
    position_bits : int
        Number of lowest bits, which hold the position.
    bits : int
        Number of bits above them, which hold the columns.
    columns : int
        Number of columns in the words.
    """
    count = columns[0].size
    position_bits = bits = max(count - 1, 1).bit_length()
    parts: list[np.ndarray] = []
    lows, widths = np.zeros(_AT_ONCE, np.int64), np.zeros(_AT_ONCE, np.int64)
    for column in columns[:_AT_ONCE]:
        if column.dtype.kind not in "iu":
            break
        low = int(column.min())
        width = (int(column.max()) - low).bit_length()
        if bits + width > 63:
            break
        bits += width
        if column.dtype != np.int64:
            # The difference of narrow integers may exceed their type, and an unsigned value may exceed int64.
            wide = column.astype(np.int64, copy=False) if column.dtype.kind == "i" else column - column.dtype.type(low)
            low, column = low if column.dtype.kind == "i" else 0, wide.astype(np.int64, copy=False)
        lows[len(parts)], widths[len(parts)] = low, width
        parts.append(np.ascontiguousarray(column))
    if not parts:
        return None
    words = np.empty(count, np.int64)
    done = len(parts)
    kernels.pack((*parts, *(parts[:1] * (_AT_ONCE - done))), lows, widths, position_bits, words)
    return words, position_bits, bits - position_bits, done
