"""Kernels that bring rows from many batches into one array: where each row lies, then its value.

The addresses are of Arrow buffers, which the caller keeps alive.
"""

from __future__ import annotations

from headrace.gates.merged_log_kernel import ROW_MASK, SOURCE_SHIFT
from headrace.kernel import kernel
from headrace.memory.atomics import view_i32, view_i64, view_u8


@kernel
def locate(refs, starts, firsts, hints, batch_of, row_of, is_used):
    """Find the batch of each reference, and its row there.

    Mostly the batch is that of the reference before it of the same source, so
    that one is tried first; then the batches of the source are halved.

    Parameters
    ----------
    refs : int64[n]
        Source and row number.
    starts : int64[sources + 1]
        Where the batches of each source start.
    firsts : int64[batches + 1]
        Row number of each batch's first row, ascending for each source; a number
        of no meaning at the end.
    hints : int64[sources]
        Scratch: the batch that was tried last.
    batch_of : int32[n]
        Out.
    row_of : int64[n]
        Out.
    is_used : bool[batches]
        Out: which of them any reference is to; all False before.
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
def gather_8_bytes(addresses, rows, batch_of, row_of, out):
    """``out[i]`` is the value of the row: int64[n]; `rows` says how many each batch has."""
    for i in range(out.size):
        batch = batch_of[i]
        out[i] = view_i64(addresses[batch], rows[batch])[row_of[i]]


@kernel
def gather_4_bytes(addresses, rows, batch_of, row_of, out):
    """The same for values of four bytes: int32[n]."""
    for i in range(out.size):
        batch = batch_of[i]
        out[i] = view_i32(addresses[batch], rows[batch])[row_of[i]]


@kernel
def gather_1_byte(addresses, rows, batch_of, row_of, out):
    """The same for values of one byte: uint8[n]."""
    for i in range(out.size):
        batch = batch_of[i]
        out[i] = view_u8(addresses[batch], rows[batch])[row_of[i]]
