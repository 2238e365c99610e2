"""Event time as integers: its ends and its smallest step.

Event times stay below 2**62 in magnitude, window size included, so that no
boundary computed from one overflows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MIN_TIME = -(2**62)
"""Watermark before any tuple: below every event time."""

END_OF_TIME = 2**62
"""Watermark after the last tuple: above every event time and window boundary."""

NEVER = 2**63 - 1
"""What is still to come at such a place, time or count does not come."""

DELTA = 1
"""The smallest step of event time, the papers' delta: one unit of the column."""


@dataclass(frozen=True)
class Watermark:
    """What a source yields between its batches to promise that no more of its rows will be earlier than `time`.

    Windows that end by then can close while the source is silent, and it holds back no other source. A row that is earlier
    all the same is late, and handled by `late=` of `hr.stream`; a watermark with a lower time than the one before is an error.

    Parameters
    ----------
    time : int, datetime, pandas.Timestamp or numpy.datetime64
        A number is in the unit of the stream's event time, microseconds for timestamps; a time without a zone is UTC.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> def readings():
    ...     yield pa.record_batch({"ts": [1, 4], "sensor": [7, 7]})
    ...     yield hr.Watermark(10)  # and may be silent now: the first ten are counted
    ...     yield pa.record_batch({"ts": [12], "sensor": [7]})
    >>> hr.stream(readings(), event_time="ts").key_by("sensor").window(10).aggregate(n=hr.count()).to_arrow().to_pydict()
    {'ts': [10, 20], 'sensor': [7, 7], 'n': [2, 1]}

    Notes
    -----
    STRETCH (Gulisano et al.), section 2.3: these are explicit watermarks; the event time of a row is an implicit one.
    """

    time: Any
