"""Event time: from a column to int64 in the stream's unit, checked, and back.

Inside the engine a timestamp column is in microseconds, as an instant if it has a
zone and in UTC if not; an integer column is taken as it is. Nothing is
rounded: a time that is not whole in the unit is an error.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.errors import (
    DisorderError,
    EventTimeError,
    OutputError,
    OverflowInputError,
    SchemaError,
    UnsupportedTypeError,
)
from headrace.ingress import columns
from headrace.kernel import kernel
from headrace.names import instead
from headrace.progress import END_OF_TIME
from headrace.summary import duration_text
from headrace.windows import DEFAULT_TIME_UNIT, TIMESTAMP_UNIT

SORT_FIX = "sort the input (sort=True), or allow disorder with lateness=...; late= says what becomes of rows beyond it"
NANOSECOND_FIX = (
    "round it down to microseconds (pandas: .dt.floor('us'); Arrow: pyarrow.compute.floor_temporal(ts, unit='microsecond');"
    " polars: .dt.truncate('1us')), or cast it to int64 and set time_unit='ns'"
)
"""Advice on times with nanoseconds; the command line, which has no such parameters, gives other advice."""
NULL_TIME_FIX = "fill it, or filter such rows out"

_NAT = -(2**63)
_INTEGER = pa.int64()
_TO_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def check_event_time(schema: pa.Schema, column: str) -> pa.DataType:
    """Return the type of the event-time column, or raise with the reason why it cannot be one.

    Raises
    ------
    SchemaError
        If there is no such column, or two of that name.
    EventTimeError
        If it is neither a timestamp nor an integer column.
    """
    kind = field_type(schema, column, "event_time")
    if pa.types.is_timestamp(kind) or pa.types.is_integer(kind):
        return kind
    if pa.types.is_floating(kind):
        fix = "fill or drop missing times (one NaN makes a pandas integer column double) and cast it to int64"
    elif pa.types.is_date(kind) or columns.is_string(kind):
        fix = "cast it to timestamp (pandas: pandas.to_datetime; Spark: to_timestamp)"
    elif pa.types.is_decimal(kind):
        fix = "cast it to int64 (Spark: bigint)"
    else:
        fix = "give a timestamp or integer column"
    raise EventTimeError(f"event_time column {column!r} has type {kind}: {fix}")


def field_type(schema: pa.Schema, column: str, use: str) -> pa.DataType:
    """Return the type of a column that must exist exactly once."""
    found = schema.get_all_field_indices(column)
    if len(found) == 1:
        return schema.field(found[0]).type
    if found:
        raise SchemaError(f"{use} column {column!r} occurs {len(found)} times: rename the others")
    raise SchemaError(f"{use} column {column!r} does not exist: {instead(column, schema.names, 'the columns', '{}')}")


def time_unit_of(kind: pa.DataType, time_unit: str = DEFAULT_TIME_UNIT) -> str:
    """Return the stream's unit: microseconds for timestamps, `time_unit` for integers."""
    return TIMESTAMP_UNIT if pa.types.is_timestamp(kind) else time_unit


def time_text(ts: int, kind: pa.DataType) -> str:
    """Return an event time as errors show it: for a timestamp column as date and time in its zone.

    Parameters
    ----------
    ts : int
        In the stream's unit: for timestamps, microseconds.
    kind : pa.DataType
        Of the column.

    Examples
    --------
    >>> time_text(1_767_227_746_000_000, pa.timestamp("ns", "Asia/Tokyo")), time_text(17, pa.int64())
    ('2026-01-01 09:35:46+09:00', '17')
    """
    if not pa.types.is_timestamp(kind):
        return str(ts)
    try:
        return str(pa.scalar(int(ts), pa.timestamp("us", kind.tz)).as_py())
    except (ValueError, OverflowError, LookupError, pa.ArrowException):  # a year that Python does not have, or an unknown zone
        return f"{np.datetime64(int(ts), 'us')} UTC"


def span_text(count: int, kind: pa.DataType) -> str:
    """Return a difference of event times as errors show it: for timestamps with its unit.

    Examples
    --------
    >>> span_text(90_000_000, pa.timestamp("ms")), span_text(90, pa.int64())
    ('90s', '90')
    """
    return duration_text(count, TIMESTAMP_UNIT) if pa.types.is_timestamp(kind) else str(count)


def event_times(array: pa.Array, column: str, first_row: int = 0) -> np.ndarray:
    """Return int64[n] event times of a timestamp or integer column, without a copy if it has that form.

    Parameters
    ----------
    array : pa.Array
    column : str
        For error texts.
    first_row : int
        Row number of the first one, for error texts.

    Raises
    ------
    EventTimeError
        A null, NaT, or a nanosecond that is no whole microsecond.
    OverflowInputError
        A time that does not fit int64 in the stream's unit.
    """
    if array.null_count:
        row = first_row + columns.first_null(array)
        raise EventTimeError(f"event_time column {column!r} is null at row ", row, f": {NULL_TIME_FIX}")
    kind = array.type
    if not pa.types.is_timestamp(kind):
        return columns.integers(array, column, first_row, "correct it, or count it in a coarser time unit")
    ts = columns.view_buffer(array.buffers()[1], array.offset, len(array), np.int64)
    if kind.unit == "us" or ts.size == 0:
        return ts
    if kind.unit == "ns":
        whole = np.empty(ts.size, np.int64)
        index = divide_nanoseconds(ts, whole)
        if index >= 0 and ts[index] != _NAT:  # NaT is no whole microsecond either
            time = f"{time_text(int(whole[index]), kind)} and {ts[index] % 1000} ns"
            raise EventTimeError(
                f"event_time column {column!r} is {time} at row ", first_row + index, f", no whole microsecond: {NANOSECOND_FIX}"
            )
        if index < 0:
            return whole
    if ts.min() == _NAT:
        row = first_row + int(np.argmin(ts))
        raise EventTimeError(f"event_time column {column!r} is NaT at row ", row, f": {NULL_TIME_FIX}")
    factor = _TO_MICROSECONDS[kind.unit]
    bound = (2**63 - 1) // factor
    is_outside = (ts > bound) | (ts < -bound)
    if is_outside.any():
        index = int(np.argmax(is_outside))
        raise OverflowInputError(
            f"event_time column {column!r} is {ts[index]} {kind.unit} at row ",
            first_row + index,
            f": beyond int64 microseconds; correct it, or cast it to int64 and set time_unit={kind.unit!r}",
        )
    return ts * factor


@kernel
def divide_nanoseconds(ns, us):
    """Write whole microseconds to `us`; returns the first index with a remainder (-1: none)."""
    found = -1
    for i in range(ns.size - 1, -1, -1):
        us[i] = ns[i] // 1000
        if us[i] * 1000 != ns[i]:
            found = i
    return found


@kernel
def is_falling(ts):
    """Whether some time is below its predecessor; vectorised, it takes a quarter of the time of `scan_times`."""
    before, after = ts[:-1], ts[1:]
    found = False
    for i in range(after.size):
        found |= after[i] < before[i]
    return found


@kernel
def scan_times(ts, previous):
    """Return the first index below its predecessor (-1: none), the smallest and the largest time."""
    disorder = -1
    low, high = ts[0], ts[0]
    last = previous
    for i in range(ts.size):
        if ts[i] < last and disorder < 0:
            disorder = i
        last = ts[i]
        low, high = min(low, last), max(high, last)
    return disorder, low, high


def check_range(
    ts: np.ndarray, column: str, window_size: int = 0, first_row: int = 0, kind: pa.DataType = _INTEGER
) -> None:
    """Raise unless every ``|ts| + window_size < 2**62``."""
    if ts.size == 0:
        return
    _check_bounds(ts, int(ts.min()), int(ts.max()), column, window_size, first_row, kind)


def _check_bounds(
    ts: np.ndarray, low: int, high: int, column: str, window_size: int, first_row: int, kind: pa.DataType
) -> None:
    bound = END_OF_TIME - window_size
    if -bound < low and high < bound:
        return
    index = int(np.argmax((ts <= -bound) | (ts >= bound)))
    value = int(ts[index])
    row = first_row + index
    if value == _NAT and pa.types.is_timestamp(kind):
        raise EventTimeError(f"event_time column {column!r} is NaT at row ", row, f": {NULL_TIME_FIX}")
    unit = f" {TIMESTAMP_UNIT}" if pa.types.is_timestamp(kind) else ""
    window = f" + window size ({span_text(window_size, kind)})" if window_size else ""
    raise OverflowInputError(
        f"event_time column {column!r} is {time_text(value, kind)} at row ",
        row,
        f": |event time|{window} must be below 2**62{unit}; correct it or use a coarser time unit",
    )


def check_sorted(
    ts: np.ndarray,
    column: str,
    previous: int,
    window_size: int = 0,
    first_row: int = 0,
    kind: pa.DataType = _INTEGER,
) -> None:
    """Raise `DisorderError` unless times do not fall, from `previous` on; check their range too.

    The least integer is NaT in a column of timestamps, and too small in one of integers: `kind` is its type.
    """
    if ts.size == 0:
        return
    disorder, low, high = -1, int(ts[0]), int(ts[-1])
    if low < previous or is_falling(ts):
        disorder, low, high = scan_times(ts, previous)
    _check_bounds(ts, low, high, column, window_size, first_row, kind)
    if disorder >= 0:
        before = int(ts[disorder - 1]) if disorder else previous
        raise DisorderError(
            f"event_time column {column!r}, row ",
            first_row + disorder,
            f": {time_text(int(ts[disorder]), kind)} comes after {time_text(before, kind)}; {SORT_FIX}",
        )


def shared_time_type(kinds: Sequence[pa.DataType]) -> pa.DataType:
    """Return a type for the times of all of several inputs: the first one's, wider or finer where others are.

    Timestamps keep the zone of the first input.

    Examples
    --------
    >>> shared_time_type([pa.timestamp("s", "UTC"), pa.timestamp("ms")]), shared_time_type([pa.int32(), pa.int64()])
    (TimestampType(timestamp[ms, tz=UTC]), DataType(int64))
    """
    first = kinds[0]
    if not pa.types.is_timestamp(first):
        return first if all(kind.equals(first) for kind in kinds) else _INTEGER
    units = {kind.unit if pa.types.is_timestamp(kind) else TIMESTAMP_UNIT for kind in kinds}
    # Nanoseconds hold a narrower range of years than the others, and within the engine times are whole microseconds.
    finest = first.unit if len(units) == 1 else "ms" if units == {"s", "ms"} else TIMESTAMP_UNIT
    return pa.timestamp(finest, first.tz)


def output_time_type(kind: pa.DataType, step: int = 1) -> pa.DataType:
    """Return the type for result times that are multiples of `step` in the stream's unit.

    The input's own type if it can hold them (a window that advances by 500 ms
    has right boundaries that a timestamp in seconds cannot hold), else
    microseconds with the same zone.

    Raises
    ------
    UnsupportedTypeError
        An integer of 8 or 16 bits, which result times would soon leave.
    """
    if pa.types.is_integer(kind) and kind.bit_width < 32:
        raise UnsupportedTypeError(
            f"the event time has type {kind}, which the times of results (ends of windows, later tuples of joins) do not"
            f" fit in: cast it to int32 or int64 before hr.stream()"
        )
    if pa.types.is_timestamp(kind) and kind.unit in _TO_MICROSECONDS and step % _TO_MICROSECONDS[kind.unit]:
        return pa.timestamp("us", kind.tz)
    return kind


def restore_times(ts: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Return event times as a column of type `kind`, the inverse of `event_times`.

    Raises
    ------
    OutputError
        If a time is not whole, or out of range, in that type.
    """
    ts = np.ascontiguousarray(ts, np.int64)
    try:
        own, is_same = _own_kind(kind)
        times = columns.as_arrow(ts, own)
        return times if is_same else times.cast(kind)
    except pa.ArrowInvalid as error:
        raise OutputError(
            f"result times do not fit {kind}: {error}; cast the input's event time to a wider type"
        ) from None


@functools.lru_cache(maxsize=64)
def _own_kind(kind: pa.DataType) -> tuple[pa.DataType, bool]:
    """Return the type that such times have inside the engine, and whether it is the same type."""
    own = pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else pa.int64()
    return own, kind.equals(own)
