"""Arrow columns as contiguous NumPy arrays: without a copy where the layout allows it.

Kernels are compiled once for writable, aligned, contiguous arrays. Arrow's
buffers are read-only, may start anywhere (slices) and, from foreign memory, at
any alignment; the views made here have one NumPy type for all of these. Nothing
writes to them: other columns and processes may share the memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import OverflowInputError, UnsupportedTypeError
from headrace.expressions.operands import is_text
from headrace.expressions.rows import cast, concat, plain, take


class _Memory:
    """Describes foreign memory to NumPy as writable, and keeps its owner alive."""

    def __init__(self, owner: Any, address: int, count: int, dtype: np.dtype):
        self.owner = owner
        self.__array_interface__ = {
            "data": (address, False),
            "shape": (count,),
            "typestr": dtype.str,
            "version": 3,
        }


def view_memory(owner: Any, address: int, count: int, dtype: Any) -> np.ndarray:
    """Return an array over memory that `owner` holds; a copy if it is not aligned.

    Parameters
    ----------
    owner : object
        Referred to by the array, so that the memory outlives it.
    address, count : int
        First byte, and number of items.
    dtype : numpy dtype
    """
    dtype = np.dtype(dtype)
    if count == 0 or address == 0:
        return np.zeros(0, dtype)
    if address % dtype.itemsize:
        raw = np.asarray(_Memory(owner, address, count * dtype.itemsize, np.dtype(np.uint8)))
        return raw.copy().view(dtype)
    return np.asarray(_Memory(owner, address, count, dtype))


def view_buffer(buffer: pa.Buffer | None, offset: int, count: int, dtype: Any) -> np.ndarray:
    """Return items `offset` to `offset + count` of an Arrow buffer."""
    dtype = np.dtype(dtype)
    if buffer is None or count == 0:
        return np.zeros(0, dtype)
    return view_memory(buffer, buffer.address + offset * dtype.itemsize, count, dtype)


def as_arrow(numbers: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Return numbers as an array of a type with the same layout, without a copy and without nulls.

    (`pa.array` and `cast` inspect values and types: some 100 us for a result after
    a pause, where this takes 5.)

    Examples
    --------
    >>> as_arrow(np.array([0, 1]), pa.timestamp("us")).type
    TimestampType(timestamp[us])
    """
    numbers = np.ascontiguousarray(numbers)
    assert numbers.itemsize * 8 == kind.bit_width, (numbers.dtype, kind)
    return pa.Array.from_buffers(kind, numbers.size, [None, pa.py_buffer(numbers)])


def validity(array: pa.Array) -> np.ndarray | None:
    """Return uint8[n], 1 where there is a value; None if no value is null."""
    if array.null_count == 0:
        return None
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.uint8)
    bits = array.buffers()[0]
    if bits is None:
        return None
    first = array.offset // 8
    count = (array.offset + len(array) + 7) // 8 - first
    unpacked = np.unpackbits(view_buffer(bits, first, count, np.uint8), bitorder="little")
    skip = array.offset - 8 * first
    return np.ascontiguousarray(unpacked[skip : skip + len(array)])


def presence(array: pa.Array) -> np.ndarray | None:
    """Return the same as `validity`, for any type: a union has its nulls in its children, runs have them in their values."""
    if pa.types.is_run_end_encoded(array.type):
        known = presence(array.values)
        rows = np.arange(array.offset, array.offset + len(array))
        # Arrow decodes runs of simple types only.
        return None if known is None else known[np.searchsorted(np.asarray(array.run_ends), rows, "right")]
    array = plain(array)
    return bits_of(pc.is_valid(array)) if pa.types.is_union(array.type) else validity(array)


def first_null(array: pa.Array) -> int | None:
    """Return the index of the first null, or None."""
    if array.null_count == 0:
        return None
    valid = validity(array)
    return None if valid is None else int(np.argmin(valid))


def combine(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return one array; several chunks are copied together."""
    if isinstance(array, pa.ChunkedArray):
        return (
            array.chunk(0)
            if array.num_chunks == 1
            else concat(array.chunks or [pa.nulls(0, array.type)])
        )
    return array


def is_string(kind: pa.DataType) -> bool:
    """Whether values are variable-length bytes that the dictionary and the tokeniser can read."""
    return is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def is_list(kind: pa.DataType) -> bool:
    """Whether this is a list type, of any layout."""
    return (
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the value type of a dictionary type; any other type as it is."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def string_spans(array: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the bytes of a string column, and where each string starts and ends in them.

    Returns
    -------
    data, starts, ends : uint8[...], int32[n] or int64[n] twice
    """
    if pa.types.is_string_view(array.type):
        array = cast(array, pa.large_string())
    is_large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, offsets, data = array.buffers()
    bounds = view_buffer(offsets, array.offset, len(array) + 1, np.int64 if is_large else np.int32)
    if bounds.size == 0:
        bounds = np.zeros(len(array) + 1, bounds.dtype)
    return view_buffer(data, 0, 0 if data is None else data.size, np.uint8), bounds[:-1], bounds[1:]


def list_lengths(array: pa.Array) -> np.ndarray:
    """Return int64[n]: the number of elements of each list, 0 for a null list."""
    kind, count = array.type, len(array)
    if pa.types.is_fixed_size_list(kind):
        lengths = np.full(count, kind.list_size, np.int64)
    elif pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        width = np.int64 if pa.types.is_large_list_view(kind) else np.int32
        lengths = view_buffer(array.buffers()[2], array.offset, count, width).astype(np.int64)
    else:
        width = np.int64 if pa.types.is_large_list(kind) else np.int32
        bounds = view_buffer(array.buffers()[1], array.offset, count + 1, width)
        lengths = np.diff(bounds).astype(np.int64) if bounds.size else np.zeros(count, np.int64)
    valid = validity(array)
    # Arrow allows a null list to span elements.
    return lengths if valid is None else np.where(valid.view(np.bool_), lengths, 0)


def list_parts(array: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return the elements of a list column and int64[n + 1] offsets into them; a null list is empty."""
    kind = array.type
    lengths = list_lengths(array)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    values, starts = array.values, _list_starts(array)
    is_view = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    # Null lists rarely span elements. If none does, the lists together hold all elements from the first list to the last.
    if not is_view and (array.null_count == 0 or _span(array) == offsets[-1]):
        return values.slice(int(starts[0]) if starts.size else 0, int(offsets[-1])), offsets
    # Lists may lie in any order and share elements, and null lists may span some. `flatten` would do, but it unifies the
    # dictionary of coded elements with itself, which fails for one with a null, and mistakes half floats for integers.
    places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    if places.size == 0 or (places[-1] - places[0] == places.size - 1 and (np.diff(places) == 1).all()):
        return values.slice(int(places[0]) if places.size else 0, places.size), offsets
    return take(values, places), offsets


def _span(array: pa.Array) -> int:
    """Return how many elements lie between the start of the first list and the end of the last; not for list views."""
    kind, count = array.type, len(array)
    if pa.types.is_fixed_size_list(kind):
        return count * kind.list_size
    width = np.int64 if pa.types.is_large_list(kind) else np.int32
    bounds = view_buffer(array.buffers()[1], array.offset, count + 1, width)
    return int(bounds[-1]) - int(bounds[0]) if bounds.size else 0


def _list_starts(array: pa.Array) -> np.ndarray:
    """Return int64[n]: where each list begins in the values."""
    kind, count = array.type, len(array)
    if pa.types.is_fixed_size_list(kind):
        return (array.offset + np.arange(count, dtype=np.int64)) * kind.list_size
    is_large = pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind)
    return view_buffer(array.buffers()[1], array.offset, count, np.int64 if is_large else np.int32).astype(np.int64)


def integers(
    array: pa.Array, name: str, first_row: int = 0, fix: str = "cast the column to string or float64"
) -> np.ndarray:
    """Return int64[n] of an integer, bool, time, date or duration column, 0 at nulls.

    Without a copy if the column has 64 bits and no nulls.

    Raises
    ------
    OverflowInputError
        If a uint64 is above the range of int64.
    """
    kind = array.type
    if pa.types.is_boolean(kind):
        return _without_nulls(array, bits_of(array)).astype(np.int64)
    if pa.types.is_uint64(kind):
        values = view_buffer(array.buffers()[1], array.offset, len(array), np.uint64)
        values = _without_nulls(array, values)
        if values.size and int(values.max()) > 2**63 - 1:
            row = int(np.argmax(values > 2**63 - 1))
            raise OverflowInputError(
                f"column {name!r}, row ", first_row + row, f": {values[row]} is above the range of int64; {fix}"
            )
        return values.view(np.int64)
    width = kind.bit_width
    sign = "u" if pa.types.is_unsigned_integer(kind) else "i"
    values = _without_nulls(
        array, view_buffer(array.buffers()[1], array.offset, len(array), f"{sign}{width // 8}")
    )
    return values if width == 64 else values.astype(np.int64)


def bits_of(array: pa.Array) -> np.ndarray:
    """Return uint8[n] of a bool column."""
    first = array.offset // 8
    count = (array.offset + len(array) + 7) // 8 - first
    unpacked = np.unpackbits(view_buffer(array.buffers()[1], first, count, np.uint8), bitorder="little")
    skip = array.offset - 8 * first
    return np.ascontiguousarray(unpacked[skip : skip + len(array)])


def _without_nulls(array: pa.Array, values: np.ndarray) -> np.ndarray:
    valid = validity(array)
    # Arrow leaves the value under a null undefined; the engine's input must not depend on it.
    return values if valid is None else np.where(valid.view(np.bool_), values, values.dtype.type(0))


def floats(array: pa.Array) -> np.ndarray:
    """Return float32[n] or float64[n] of a floating column, 0 at nulls; half precision widens to float32."""
    kind = array.type
    if pa.types.is_float16(kind):
        values = view_buffer(array.buffers()[1], array.offset, len(array), np.float16).astype(np.float32)
    else:
        dtype = np.float64 if pa.types.is_float64(kind) else np.float32
        values = view_buffer(array.buffers()[1], array.offset, len(array), dtype)
    return _without_nulls(array, values)


def is_whole(kind: pa.DataType) -> bool:
    """Whether `integers` reads a column of this type."""
    return (
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_date(kind)
        or pa.types.is_time(kind)
        or pa.types.is_duration(kind)
    )


def is_scalar(kind: pa.DataType) -> bool:
    """Whether a user function can read this type: a number or bool; a timestamp or duration, as an integer of its unit."""
    plain = plain_type(kind)
    return (
        pa.types.is_boolean(plain)
        or pa.types.is_integer(plain)
        or pa.types.is_floating(plain)
        or pa.types.is_timestamp(plain)
        or pa.types.is_duration(plain)
    )


def is_number(kind: pa.DataType) -> bool:
    """Whether `values` reads a column of this type."""
    return is_whole(kind) or pa.types.is_floating(kind)


def check_value_type(name: str, kind: pa.DataType) -> None:
    """Raise `UnsupportedTypeError`, with a cast that helps, unless kernels can read the column."""
    if not is_number(plain_type(kind)):
        raise UnsupportedTypeError(f"column {name!r} has type {kind}, which kernels cannot read: {cast_hint(kind)}")


def cast_hint(kind: pa.DataType) -> str:
    """Return advice on a type that is not supported."""
    if pa.types.is_run_end_encoded(kind):
        return "decode it with pyarrow.compute.run_end_decode"
    if pa.types.is_dictionary(kind) and not is_string(kind.value_type):
        return cast_hint(kind.value_type)
    if pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return "cast it to int64 or float64, or to binary as a key"
    if pa.types.is_decimal(kind):
        return (
            "cast it to double (pandas: .astype(float); in Spark SQL 0.5 is a decimal: write 0.5D), or scale it and cast it to"
            " bigint"
        )
    if is_string(plain_type(kind)):
        return "cast it to a number, or use it as a key or as a carried column"
    if is_list(kind):
        return "use it as a key with hr.each(...), or explode it first"
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        return "select the fields you need as columns of their own"
    if pa.types.is_null(kind):
        return "it holds only nulls; cast it to the type it should have"
    return "cast it to int64, float64, bool or string"


def values(array: pa.Array, name: str, narrow: bool = False, first_row: int = 0) -> np.ndarray:
    """Return a contiguous array of a value column, 0 at nulls.

    Parameters
    ----------
    narrow : bool
        Keep integers of at most 32 bits as int32 and float32 as float32 (a
        uint32 still widens), as joins prefer; otherwise int64 and float64.

    Returns
    -------
    int64[n], int32[n], float64[n], float32[n], or uint8[n] for bool
    """
    array = plain(array)
    kind = array.type
    check_value_type(name, kind)
    if pa.types.is_boolean(kind):
        return _without_nulls(array, bits_of(array))
    if pa.types.is_floating(kind):
        out = floats(array)
        return out if narrow or out.dtype == np.float64 else out.astype(np.float64)
    if narrow and kind.bit_width <= 32 and not pa.types.is_uint32(kind):
        if kind.bit_width == 32:
            return _without_nulls(array, view_buffer(array.buffers()[1], array.offset, len(array), np.int32))
        return integers(array, name, first_row).astype(np.int32)
    return integers(array, name, first_row)


def from_values(numbers: np.ndarray, kind: pa.DataType, is_null: np.ndarray | None = None) -> pa.Array:
    """Return a column of type `kind` from the array that `values` made of one, or from a selection of it.

    Parameters
    ----------
    numbers : int64[n], float64[n] or uint8[n]
        Not looked at where null.
    is_null : bool[n], optional

    Examples
    --------
    >>> from_values(np.array([1, 2]), pa.date32(), np.array([False, True])).to_pylist()
    [datetime.date(1970, 1, 2), None]
    """
    bits = None if is_null is None else pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    if pa.types.is_boolean(kind):
        data = np.packbits(numbers != 0, bitorder="little")
    elif pa.types.is_floating(kind):
        data = numbers.astype(f"f{kind.bit_width // 8}", copy=False)
    else:
        data = numbers.astype(f"i{kind.bit_width // 8}", copy=False)  # keeps the low bits, whatever the sign
    return pa.Array.from_buffers(kind, numbers.size, [bits, pa.py_buffer(np.ascontiguousarray(data))])


def value_dtype(kind: pa.DataType, narrow: bool = False) -> np.dtype:
    """Return the dtype that `values` gives for a column of this type."""
    kind = plain_type(kind)
    if pa.types.is_boolean(kind):
        return np.dtype(np.uint8)
    if pa.types.is_floating(kind):
        return np.dtype(np.float64 if pa.types.is_float64(kind) or not narrow else np.float32)
    return np.dtype(
        np.int32 if narrow and kind.bit_width <= 32 and not pa.types.is_uint32(kind) else np.int64
    )


def codes(array: pa.Array) -> pa.Array:
    """Return an array with all nulls in its own validity: a dictionary array whose dictionary has a null entry is decoded."""
    return plain(array) if pa.types.is_dictionary(array.type) and array.dictionary.null_count else array


def drop_null(array: pa.Array) -> pa.Array:
    """Return the values that are not null."""
    valid = validity(array)
    return array if valid is None else take(array, np.flatnonzero(valid))
