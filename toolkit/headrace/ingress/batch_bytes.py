"""Bounding batches in bytes: counting what rows take once they share no values.

A dictionary, a run, a view and a list view hold a long value once and refer to it
often, so few bytes of input may stand for very many values. Slicing a batch costs nothing
while it refers; expanding a slice then makes at most `BATCH_BYTES`, or one row.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from headrace.ingress.columns import view_buffer

BATCH_BYTES = 1 << 26
"""Maximum size of a batch of more than one row."""


def pieces(batch: pa.RecordBatch, rows: int, most_bytes: int = BATCH_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield slices of a valid batch that are bounded in rows and, unless they are a single row, in bytes.

    Examples
    --------
    >>> text = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 0]), pa.array(["x" * 1000, "y"]))
    >>> batch = pa.record_batch({"text": text})
    >>> [piece.num_rows for piece in pieces(batch, 3)], [piece.num_rows for piece in pieces(batch, 3, 1500)]
    ([3, 1], [2, 1, 1])
    """
    for start in range(0, batch.num_rows, rows):
        piece = batch.slice(start, rows)
        if sum(_most(column) for column in piece.columns) <= most_bytes:
            yield piece
            continue
        total = np.cumsum(np.sum([np.broadcast_to(row_bytes(c), piece.num_rows) for c in piece.columns], axis=0))
        first = 0
        while first < piece.num_rows:
            before = int(total[first - 1]) if first else 0
            stop = max(first + 1, int(np.searchsorted(total, before + most_bytes, side="right")))
            yield piece.slice(first, stop - first)
            first = stop


def _most(array: pa.Array) -> int:
    """Return an upper bound of the bytes of an array's rows; it is cheap to compute for most column types."""
    if pa.types.is_dictionary(array.type):
        return len(array) * (longest(array.dictionary) + array.indices.type.bit_width // 8)
    return int(np.sum(row_bytes(array))) if _is_of_any_width(array.type) else len(array) * _width(array.type)


def longest(array: pa.Array) -> int:
    """Return the size of the longest value in bytes."""
    return int(np.max(row_bytes(array), initial=0)) if len(array) else 0


def _is_of_any_width(kind: pa.DataType) -> bool:
    try:
        return kind.bit_width < 0
    except ValueError:
        return not pa.types.is_null(kind)


def _width(kind: pa.DataType) -> int:
    return 0 if pa.types.is_null(kind) else (kind.bit_width + 7) // 8


def row_bytes(array: pa.Array) -> np.ndarray | int:
    """Return how many bytes each row takes by itself, int64[n], or one number if all rows take the same.

    Examples
    --------
    >>> row_bytes(pa.array(["a", "bcd"])).tolist(), row_bytes(pa.array([1, 2], pa.int16()))
    ([1, 3], 2)
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind, count = array.type, len(array)
    if pa.types.is_dictionary(kind):
        return _at(row_bytes(array.dictionary), array.indices)
    if not _is_of_any_width(kind):
        return _width(kind)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _lengths(array, np.int32)
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _lengths(array, np.int64)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        # A view has 16 bytes and begins with the length.
        return view_buffer(array.buffers()[1], 4 * array.offset, 4 * count, np.int32)[::4].astype(np.int64)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return _within(array, np.int32)
    if pa.types.is_large_list(kind):
        return _within(array, np.int64)
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        dtype = np.int32 if pa.types.is_list_view(kind) else np.int64
        starts, sizes = (view_buffer(array.buffers()[i], array.offset, count, dtype) for i in (1, 2))
        first, last = int(np.min(starts, initial=len(array.values))), int(np.max(starts + sizes, initial=0))
        ends, starts = _ends(array.values.slice(first, max(0, last - first))), starts.astype(np.int64) - first
        return ends[starts + sizes] - ends[starts]
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        return np.diff(_ends(array.values.slice(array.offset * size, count * size))[::size]) if size else 0
    if pa.types.is_struct(kind):
        return sum((row_bytes(array.field(i)) for i in range(kind.num_fields)), np.zeros(count, np.int64))
    if pa.types.is_run_end_encoded(kind):
        ends = np.asarray(array.run_ends, np.int64)
        run = np.searchsorted(ends, np.arange(array.offset, array.offset + count), side="right")
        return np.broadcast_to(row_bytes(array.values), len(array.values))[run]
    return -(-array.nbytes // max(1, count))


def _lengths(array: pa.Array, dtype: type) -> np.ndarray:
    bounds = view_buffer(array.buffers()[1], array.offset, len(array) + 1 if len(array) else 0, dtype)
    return np.diff(bounds).astype(np.int64)


def _ends(values: pa.Array) -> np.ndarray:
    """Return int64[n + 1]: total bytes of the values before each value."""
    ends = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.broadcast_to(row_bytes(values), len(values)), out=ends[1:])
    return ends


def _within(lists: pa.Array, dtype: type) -> np.ndarray:
    bounds = view_buffer(lists.buffers()[1], lists.offset, len(lists) + 1 if len(lists) else 0, dtype)
    if bounds.size == 0:
        return np.zeros(0, np.int64)
    first, last = int(bounds[0]), int(bounds[-1])
    return np.diff(_ends(lists.values.slice(first, last - first))[bounds - first])


def _at(sizes: np.ndarray | int, indices: pa.Array) -> np.ndarray | int:
    if isinstance(sizes, int):
        return sizes
    if len(sizes) == 0:
        return 0
    numbers = indices.fill_null(0) if indices.null_count else indices
    return sizes[view_buffer(numbers.buffers()[1], numbers.offset, len(numbers), numbers.type.to_pandas_dtype())]
