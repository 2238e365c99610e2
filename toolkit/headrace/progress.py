"""Event time as integers: its ends, and the records of a gate that are not tuples.

A gate carries records ``(ts, ref)`` of two int64. What ``ref`` says::

    ref >= 0              a tuple: source << 48 | row, rows counted from 0 in each source
    ref == HEARTBEAT      no tuple of this source below ts will follow
    ref == -(1 + epoch)   control: from here on epoch (>= 1) is in force

Event times stay below 2**62 in magnitude, window size included, so that no
boundary computed from one overflows. A heartbeat of `END_OF_TIME` ends a source.
"""

from __future__ import annotations

MIN_TIME = -(2**62)
"""Watermark before anything is known: below every event time."""

END_OF_TIME = 2**62
"""Watermark after the last tuple: above every event time and window boundary."""

DELTA = 1
"""The smallest step of event time, the papers' delta: one unit of the column."""

FIRST_EPOCH = 0
"""The epoch a run starts in; requests make 1, 2, 3 ..."""

HEARTBEAT = -1
SOURCE_SHIFT = 48
ROW_MASK = (1 << SOURCE_SHIFT) - 1


def tuple_reference(source: int, row: int) -> int:
    """Return the ``ref`` of a row of a source."""
    return source << SOURCE_SHIFT | row


def source_of(ref: int) -> int:
    """Return the source index in the ``ref`` of a tuple."""
    return ref >> SOURCE_SHIFT


def row_of(ref: int) -> int:
    """Return the row number in the ``ref`` of a tuple."""
    return ref & ROW_MASK


def control_reference(epoch: int) -> int:
    """Return the ``ref`` of the control record that begins `epoch` (>= 1)."""
    return -1 - epoch


def epoch_of(ref: int) -> int:
    """Return the epoch that a control record's ``ref`` begins."""
    return -1 - ref
