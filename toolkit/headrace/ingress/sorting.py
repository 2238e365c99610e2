"""Sorting results: whole numbers packed into one word each with their position, the rest by NumPy's fast sort.

NumPy sorts stably by merging, and otherwise with SIMD where the processor has
it. Columns of whole numbers that differ by little (times, positions, most
keys) fit into one word together with the position; sorted, the words tell the
order and leave no ties. For anything else the first column is sorted, and what
is equal is looked at again. Of 60,000 random numbers a position costs 14 ns
packed and 37 otherwise, of 50 different ones 15 and 169 (AVX-512).
A few dozen rows, as a join gives at a time, a kernel of our own sorts: there
the calls cost more than the sorting.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.ingress.sorting_kernel import argsort_few

FEW = 256
"""Rows up to which one call of ours beats NumPy's many."""


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


def argsort(first: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """Return the positions that sort by `first`, then by each of `others`; what is equal keeps its order.

    Parameters
    ----------
    first : int64[n], uint64[n] or float64[n]
        Equal where the bits are: NaN (sorted last) and zero must each have one form.
    others : arrays of n
        Looked at only where all before are equal.

    Examples
    --------
    >>> argsort(np.array([3, 1, 3, 1]), np.array([0, 5, -1, 4])).tolist()
    [3, 1, 2, 0]
    """
    columns = [first, *others]
    if first.size <= FEW and len(columns) <= 3 and all(column.dtype == np.int64 for column in columns):
        copies = [np.array(column) for column in columns]  # one kind of array, so one compiled kernel
        order, scratch = np.empty(first.size, np.int64), np.empty(first.size, np.int64)
        argsort_few(copies[0], copies[1 % len(copies)], copies[-1], order, scratch)
        return order
    if (first[1:] > first[:-1]).all():
        return np.arange(first.size)
    packed = _pack(columns)
    if packed is not None:
        words, position_bits, done = packed
        words.sort()
        order = words & ((1 << position_bits) - 1)
        words >>= position_bits
        is_same = words[1:] == words[:-1]
    else:
        order, done = np.argsort(first), 1
        bits = first[order].view(np.int64)
        is_same = bits[1:] == bits[:-1]
    is_settled = packed is not None and done == len(columns)  # equal ones are in the order of their positions
    if not is_settled and is_same.any():
        is_tied = np.zeros(order.size, np.bool_)
        is_tied[1:] |= is_same
        is_tied[:-1] |= is_same
        tied = np.flatnonzero(is_tied)
        chosen = order[tied]
        group = group_starts(~is_same)[tied]
        order[tied] = chosen[np.lexsort((chosen, *(c[chosen] for c in reversed(columns[done:])), group))]
    return order


def compile_few() -> None:
    """Compile the kernel, so that no result waits for the compiler."""
    argsort(np.array([1, 0]))


def _pack(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, int, int] | None:
    """Put the leading columns and the position into one word each, as many as fit into 63 bits.

    Returns
    -------
    words : int64[n]
    position_bits : int
        The lowest ones, which hold the position.
    columns : int
        How many are in the words.
    """
    count = columns[0].size
    position_bits = bits = max(count - 1, 1).bit_length()
    parts: list[tuple[np.ndarray, int, int]] = []
    for column in columns:
        if column.dtype.kind not in "iu":
            break
        low = int(column.min())
        width = (int(column.max()) - low).bit_length()
        if bits + width > 63:
            break
        bits += width
        parts.append((column, low, width))
    if not parts:
        return None
    words = np.zeros(count, np.int64)
    for column, low, width in parts:
        words <<= width
        # Narrow numbers may be further apart than their kind can say.
        wide = column.astype(np.int64, copy=False) if column.dtype.kind == "i" else column
        words |= (wide - wide.dtype.type(low)).astype(np.int64, copy=False)
    words <<= position_bits
    words |= np.arange(count)
    return words, position_bits, len(parts)
