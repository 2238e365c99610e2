"""How records refer to tuples and keys.

A gate carries records ``(ts, ref)`` of two int64. What ``ref`` says::

    ref >= 0              a tuple: source << 48 | row, rows counted from 0 in each source
    ref == HEARTBEAT      no tuple of this source below ts will follow
    ref == -(1 + epoch)   control: from here on epoch (>= 1) is in force

A heartbeat of `progress.END_OF_TIME` ends a source.

A key is known by a dense id. Its low bits are the key's bucket, a stable hash of
the key's value; a mapping assigns buckets to instances.
"""

from __future__ import annotations

BUCKET_BITS = 10
BUCKETS = 1 << BUCKET_BITS
BUCKET_MASK = BUCKETS - 1

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


def epoch_of(ref: int) -> int:
    """Return the epoch that a control record's ``ref`` begins; 0 of a heartbeat, below it of a tuple."""
    return -1 - ref
