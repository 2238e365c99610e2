"""flights: how many flights leave from or go to each airport, and the worst delay among them.

Real data. f_MK = {origin, dest}; S = a count and the largest `dep_delay` that is known. Event time
is the scheduled departure, ``time_hour`` plus ``minute``, and rows are stably sorted by it.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

import headrace as hr
from headrace.apps.app import EVENT_TIME, App
from headrace.errors import EventTimeError, UnsupportedTypeError
from headrace.reference import apps as reference

TIME = pa.timestamp("us", tz="UTC")
MINUTE_US = 60_000_000


def build(departures: hr.Stream, size: str, advance: str) -> hr.Stream:
    return (
        departures.key_by(airport=("origin", "dest"))
        .window(size, advance)
        .aggregate(flights=hr.count(), worst_delay=hr.max("dep_delay"))
    )


def departures(table: pa.Table) -> pa.Table:
    """Make the input from rows of the file: event time, and the columns that are used.

    Examples
    --------
    >>> rows = pa.table({"time_hour": pa.array([3_600_000_000], TIME), "minute": [5], "origin": ["JFK"],
    ...     "dest": ["LAX"], "dep_delay": [None]})
    >>> departures(rows)["ts"].to_pylist()[0].isoformat()
    '1970-01-01T01:05:00+00:00'
    """
    hour, minute = _instants(table["time_hour"]), _whole(table["minute"], "minute")
    if hour.null_count or minute.null_count:
        missing = "time_hour" if hour.null_count else "minute"
        raise EventTimeError(f"column {missing!r} is null in some rows, so that they have no event time: filter them out")
    ts = pc.add(hour.cast(pa.int64()), pc.multiply(minute, MINUTE_US))
    ends = [table[name].cast(pa.string()) for name in ("origin", "dest")]
    columns = [ts.cast(TIME), *ends, _whole(table["dep_delay"], "dep_delay")]
    made = pa.table(columns, names=[EVENT_TIME, "origin", "dest", "dep_delay"]).combine_chunks()
    # Arrow's sort is stable.
    return made.take(pc.sort_indices(made[EVENT_TIME])).combine_chunks()


def _instants(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        if not pa.types.is_timestamp(column.type):
            try:
                return column.cast(TIME)  # text with a zone, "2013-01-01T10:00:00Z"
            except pa.ArrowInvalid:
                return column.cast(pa.timestamp("us")).cast(TIME)
        return column.cast(pa.timestamp("us", column.type.tz)).cast(TIME)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise EventTimeError(f"column 'time_hour' does not hold times ({error}); cast it to timestamp") from None


def _whole(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return int64; whole floats are accepted, since one missing value makes a pandas column float."""
    try:
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_nan(column), None, column)
        return column.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise UnsupportedTypeError(f"column {name!r} is not whole ({error}); round it, or cast it") from None


def new_york() -> pa.Table:
    """Return every flight that left New York in 2013."""
    from headrace_datasets import flights

    return flights().to_arrow()


APP = App(
    name="flights",
    help="count the flights and the worst delay at each airport",
    left=(
        ("time_hour", "timestamp or text"),
        ("minute", "number"),
        ("origin", "text"),
        ("dest", "text"),
        ("dep_delay", "number"),
    ),
    build=build,
    reference=reference.flights,
    size="1h",
    advance="1h",
    prepare=departures,
    default_input=new_york,
)
