"""Kernels that sort: few rows by merging, in one call where NumPy would need a dozen; many by the digits of a word for each row.

Sorting by digits starts with the least significant one and keeps the order of rows whose digits are equal. It takes a pass
for each digit, however many rows there are.
"""

from __future__ import annotations

import numpy as np

from headrace.kernel import kernel

DIGIT_BITS = 10
"""Of packed words: more would take fewer passes, which write to more places than the caches and the TLB follow."""
DIGITS = 1 << DIGIT_BITS
MOST_PASSES = 7
BYTE = 256
BYTES = 8
WHOLE, UNSIGNED, FLOAT = range(3)
_SIGN = -(2**63)


@kernel
def argsort_few(first, second, third, order, scratch):
    """Find the positions that sort by `first`, then `second`, then `third`; equal rows keep their order.

    Runs that are sorted already, mostly one from each instance, are merged in pairs.

    Parameters
    ----------
    first, second, third : int64[n]
    order : int64[n]
        Out.
    scratch : int64[n]
    """
    n = first.size
    for i in range(n):
        order[i] = i
    while True:
        runs, low = 0, 0
        while low < n:
            middle = _run_end(first, second, third, order, low)
            high = _run_end(first, second, third, order, middle) if middle < n else n
            left, right, to = low, middle, low
            while left < middle or right < high:
                a, b = order[min(left, middle - 1)], order[min(right, n - 1)]
                if right == high or (left < middle and not _is_before(first, second, third, b, a)):
                    scratch[to] = a
                    left += 1
                else:
                    scratch[to] = b
                    right += 1
                to += 1
            low = high
            runs += 1
        for i in range(n):
            order[i] = scratch[i]
        if runs <= 1:
            return


@kernel
def _is_before(first, second, third, a, b):
    if first[a] != first[b]:
        return first[a] < first[b]
    if second[a] != second[b]:
        return second[a] < second[b]
    return third[a] < third[b]


@kernel
def _run_end(first, second, third, order, low):
    """Return where the sorted run that begins at `low` ends."""
    end = low + 1
    while end < order.size and not _is_before(first, second, third, order[end], order[end - 1]):
        end += 1
    return end


@kernel
def pack(columns, lows, widths, position_bits, words):
    """Write the columns' bits above `lows` and the position into one word for each row.

    Parameters
    ----------
    columns : tuple of four int64[n]
        The most significant one first; any array where `widths` is 0.
    lows, widths : int64[4]
        Least value of each column, and the number of bits of the differences from it.
    words : int64[n]
        Out.
    """
    first, second, third, fourth = columns
    masks = (1 << widths) - 1
    for i in range(words.size):
        word = (first[i] - lows[0]) & masks[0]
        word = (word << widths[1]) | ((second[i] - lows[1]) & masks[1])
        word = (word << widths[2]) | ((third[i] - lows[2]) & masks[2])
        word = (word << widths[3]) | ((fourth[i] - lows[3]) & masks[3])
        words[i] = (word << position_bits) | i


@kernel
def sort_packed(words, spare, low, bits, counts):
    """Sort non-negative words by `bits` bits from bit `low` on; words that are equal there keep their order.

    Parameters
    ----------
    words : int64[n]
        Sorted in place, or overwritten.
    spare : int64[n]
        Scratch.
    low, bits : int
    counts : int64[MOST_PASSES, DIGITS]
        Scratch.

    Returns
    -------
    bool
        Whether the sorted words are in `spare`.
    """
    if bits == 0:
        return False
    passes = (bits + DIGIT_BITS - 1) // DIGIT_BITS
    width = (bits + passes - 1) // passes  # digits of equal width
    mask = (1 << width) - 1
    for p in range(passes):
        for digit in range(mask + 1):
            counts[p, digit] = 0
    for i in range(words.size):
        rest = words[i] >> low
        for p in range(passes):
            counts[p, rest & mask] += 1
            rest >>= width
    source, target = words, spare
    for p in range(passes):
        _to_starts(counts[p], mask + 1)
        shift = low + p * width
        for i in range(source.size):
            digit = (source[i] >> shift) & mask
            to = counts[p, digit]
            counts[p, digit] = to + 1
            target[to] = source[i]
        source, target = target, source
    return passes % 2 == 1


@kernel
def argsort_wide(numbers, kind, words, order, counts):
    """Find the positions that sort numbers of 64 bits; equal ones keep their order.

    Parameters
    ----------
    numbers : int64[n]
        Their bits.
    kind : {WHOLE, UNSIGNED, FLOAT}
    words, order : uint64[2, n], int64[2, n]
        Scratch; the positions are in the row of `order` that is returned.
    counts : int64[BYTES, BYTE]
        Scratch.

    Returns
    -------
    int
    """
    least, most = ~np.uint64(0), np.uint64(0)
    for i in range(numbers.size):
        # Unsigned, and ordered alike: the bits of negative floats are ordered in reverse.
        flip = np.int64(0) if kind == UNSIGNED else np.int64(-1) if kind == FLOAT and numbers[i] < 0 else np.int64(_SIGN)
        word = np.uint64(numbers[i] ^ flip)
        least, most = min(least, word), max(most, word)
        words[0, i] = word
    for i in range(numbers.size):
        words[0, i] -= least
        order[0, i] = i
    return sort_by_bytes(numbers.size, order, words, most - least, counts)


@kernel
def sort_by_bytes(count, items, words, most, counts):
    """Sort items by their words, from the least significant byte on; those of equal words keep their order.

    Parameters
    ----------
    count : int
        At most n.
    items, words : integers[2, n], uint64[2, n]
        In row 0; the other row is scratch. The items in order are in the row that is returned.
    most : uint64
        Upper bound of the words. Bytes above it are left out.
    counts : int64[BYTES, BYTE]
        Scratch.

    Returns
    -------
    int
    """
    passes = 0
    while passes < BYTES and most >> np.uint64(8 * passes) != 0:
        passes += 1
    for p in range(passes):
        for digit in range(BYTE):
            counts[p, digit] = 0
    for i in range(count):
        rest = words[0, i]
        for p in range(passes):
            counts[p, rest & np.uint64(BYTE - 1)] += 1
            rest >>= np.uint64(8)
    row = 0
    for p in range(passes):
        shift = np.uint64(8 * p)
        if count == 0 or counts[p, (words[0, 0] >> shift) & np.uint64(BYTE - 1)] == count:
            continue  # all have this digit
        _to_starts(counts[p], BYTE)
        for i in range(count):
            digit = (words[row, i] >> shift) & np.uint64(BYTE - 1)
            to = counts[p, digit]
            counts[p, digit] = to + 1
            words[1 - row, to] = words[row, i]
            items[1 - row, to] = items[row, i]
        row = 1 - row
    return row


@kernel
def _to_starts(counts, digits):
    """Turn the number of rows with each digit into where the first of them goes."""
    before = 0
    for digit in range(digits):
        with_digit = counts[digit]
        counts[digit] = before
        before += with_digit
