"""Converting columns of a batch to arrays for the loop, and computed arrays to columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.codegen.batch_texts import BatchTexts, reads_as_text
from headrace.codegen.kinds import Scalar, cannot_read


def unreadable(type_: pa.DataType) -> str | None:
    """Return why a function cannot read such a column; None if it can."""
    if pa.types.is_boolean(type_) or type_ in (pa.float64(), pa.float32()):
        return None
    if pa.types.is_integer(type_) and type_ != pa.uint64():
        return None
    if pa.types.is_timestamp(type_) or pa.types.is_duration(type_) or reads_as_text(type_):
        return None
    return cannot_read(type_)


def values_of(column: pa.Array, is_event_time: bool = False) -> np.ndarray:
    """Return the values as a read-only array, arbitrary where null. Times are integers: the event time in microseconds."""
    type_ = column.type
    if pa.types.is_timestamp(type_) and is_event_time:
        column = column.cast(pa.timestamp("us", type_.tz)).view(pa.int64())
    elif pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        column = column.view(pa.int64())
    elif pa.types.is_boolean(type_):
        column = column.cast(pa.uint8())
    elif pa.types.is_integer(type_) and type_ not in (pa.int64(), pa.int32()):
        column = column.cast(pa.int64())
    dtype = column.type.to_pandas_dtype()
    buffer = column.buffers()[1]
    if buffer is None or len(column) == 0:
        array = np.empty(0, dtype)
    else:
        array = np.frombuffer(buffer, dtype, len(column), column.offset * np.dtype(dtype).itemsize)
    # Read-only for every batch: a writable array would be another type to the compiler.
    array.flags.writeable = False
    return array


def validity_of(column: pa.Array) -> np.ndarray:
    """Return which values are not null, as a read-only array."""
    valid = pc.is_valid(column).to_numpy(zero_copy_only=False).view(np.uint8)
    valid.flags.writeable = False
    return valid


def as_column(array: np.ndarray, kind: Scalar, texts: BatchTexts | None) -> pa.Array:
    """Return the values that functions computed as a column."""
    if kind.in_functions == "string":
        assert texts is not None
        return texts.decode(array)
    if kind.in_functions == "bool":
        array = array.view(np.bool_)
    column = pa.array(array)
    return column.view(kind.arrow) if pa.types.is_temporal(kind.arrow) else column


def seen_value(value: pa.Scalar, is_event_time: bool) -> Any:
    """Return the value as a function sees it."""
    if value.is_valid and (pa.types.is_timestamp(value.type) or pa.types.is_duration(value.type)):
        return (value.cast(pa.timestamp("us", value.type.tz)) if is_event_time else value).value
    return value.as_py()


def enlarged(array: np.ndarray, room: int) -> np.ndarray:
    """Return the same values with room for more."""
    larger = np.empty(room, array.dtype)
    larger[: array.size] = array
    return larger
