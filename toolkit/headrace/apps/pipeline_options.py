"""Shared parts of the ordered applications: options, and durations as the integers that stages compute with."""

from __future__ import annotations

from headrace.apps.app import Option, read_whole
from headrace.ordering.stages import DEFAULT_BUCKETS, MOST_BUCKETS
from headrace.stream import Stream
from headrace.stream.streams import unit_of
from headrace.windows import Duration, Window, parse_duration

MOST = (1 << 31) - 1
"""Rows of a ranking, or views of a user: more than anybody has."""


def in_unit(stream: Stream, duration: Duration, name: str) -> int:
    """Return a duration in the unit of the stream's event times.

    Examples
    --------
    >>> import headrace as hr
    >>> import pyarrow as pa
    >>> in_unit(hr.stream(pa.table({"ts": [1]}), event_time="ts"), "1min", "timeout")
    60000
    """
    return parse_duration(duration, unit_of(stream), name)


def width_of(stream: Stream, size: Duration) -> int:
    """Return the size of an hour or a day, at least 1, in the unit of the stream's event times."""
    return Window.parse(size, size, unit_of(stream)).size


def whole_option(name: str, default: int, help: str, most: int = MOST) -> Option:
    """Return an option that is a whole number from 1 on."""

    def read(text: str) -> int:
        number = read_whole(text, most)
        if number is None:
            raise ValueError(f"give a whole number from 1 to {most}")
        return number

    return Option(name, default, read, f"{help} (default {default})")


BUCKETS = whole_option("buckets", DEFAULT_BUCKETS, "buckets into which keys of a partitioned stage are hashed", MOST_BUCKETS)


def timeout_option(default: str) -> Option:
    """``--timeout``, the longest pause within a session."""
    return Option("timeout", default, str, f"longest pause within a session (default {default})")
