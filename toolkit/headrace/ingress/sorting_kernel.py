"""Kernels that sort few rows by merging and pack many for NumPy's sort: one call each, where NumPy would need a dozen."""

from __future__ import annotations

from headrace.kernel import kernel


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
