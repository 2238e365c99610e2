"""Kernels that gather rows from many batches into one array: first the place of each row, then its value.

The addresses are those of Arrow buffers, which the caller keeps alive.
"""

from __future__ import annotations

from headrace.kernel import kernel
from headrace.memory.atomics import view_i32, view_i64, view_u8
from headrace.references import ROW_MASK, SOURCE_SHIFT

BITS = 0
"""Stands for the width of a value that is one bit."""


@kernel
def locate(refs, starts, firsts, hints, batch_of, row_of, is_used):
    """Find the batch of each reference, and its row there.

    Mostly the batch is that of the previous reference of the same source, so
    that one is tried first; then a binary search goes over the source's batches.

    Parameters
    ----------
    refs : int64[n]
        Source and row number.
    starts : int64[sources + 1]
        Where the batches of each source start.
    firsts : int64[batches + 1]
        Row number of each batch's first row, ascending for each source; the last
        entry has no meaning.
    hints : int64[sources]
        Scratch: the batch that was tried last.
    batch_of : int32[n]
        Out.
    row_of : int64[n]
        Out.
    is_used : bool[batches]
        Out: whether any reference points into the batch; all False before.
    """
    for source in range(hints.size):
        hints[source] = starts[source]
    for i in range(refs.size):
        source, row = refs[i] >> SOURCE_SHIFT, refs[i] & ROW_MASK
        low, end = hints[source], starts[source + 1]
        if row < firsts[low] or (low + 1 < end and row >= firsts[low + 1]):
            low, high = starts[source], end
            while high - low > 1:
                middle = (low + high) >> 1
                if firsts[middle] <= row:
                    low = middle
                else:
                    high = middle
            hints[source] = low
        is_used[low] = True
        batch_of[i] = low
        row_of[i] = row - firsts[low]


@kernel
def gather(addresses, offsets, rows, widths, starts, batch_of, row_of, out):
    """Gather the values of each column into one array; all columns in one call, since most results are few rows.

    Parameters
    ----------
    addresses : int64[columns, batches]
        Where a batch's values begin; 0 where no row is asked for.
    offsets : int64[columns, batches]
        For a column of bits: the bit of the first row.
    rows : int64[batches]
        Number of rows of each batch.
    widths : int64[columns]
        Bytes of a value: 8, 4 or 1; `BITS`; others are left out.
    starts : int64[columns]
        Byte of `out` at which the column begins, a multiple of 8.
    batch_of, row_of : int32[n], int64[n]
        From `locate`.
    out : int64
        Address of the memory for all of it.
    """
    n = batch_of.size
    for c in range(widths.size):
        width, to = widths[c], out + starts[c]
        if width == 8:
            values = view_i64(to, n)
            for i in range(n):
                batch = batch_of[i]
                values[i] = view_i64(addresses[c, batch], rows[batch])[row_of[i]]
        elif width == 4:
            halves = view_i32(to, n)
            for i in range(n):
                batch = batch_of[i]
                halves[i] = view_i32(addresses[c, batch], rows[batch])[row_of[i]]
        elif width == 1:
            small = view_u8(to, n)
            for i in range(n):
                batch = batch_of[i]
                small[i] = view_u8(addresses[c, batch], rows[batch])[row_of[i]]
        elif width == BITS:
            packed = view_u8(to, (n + 7) >> 3)
            for i in range(n):
                batch = batch_of[i]
                at = offsets[c, batch] + row_of[i]
                bit = (view_u8(addresses[c, batch], (at >> 3) + 1)[at >> 3] >> (at & 7)) & 1
                if i & 7 == 0:
                    packed[i >> 3] = bit
                else:
                    packed[i >> 3] |= bit << (i & 7)
