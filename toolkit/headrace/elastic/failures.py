"""Why a worker of this engine failed: the codes of `worker_kernel.fail`, and what the failure record holds for each."""

from __future__ import annotations

from headrace.progress import MIN_TIME

(
    SUM_OVERFLOW,  # a sum of integers left the range of int64, at or soon after the tuple on record
    COUNT_OVERFLOW,  # the window that ends at the event time on record holds more tuples than its count can represent
    STORED_FULL,  # windows keep more tuples than the operator's limit
    INDEX_FULL,  # a join's index has no block left
    STATE_FULL,  # lists, sets and maps fill `max_state`
) = range(1, 6)

AT_A_BARRIER = MIN_TIME
"""In place of an event time: the failure occurred while state moved from one instance to another."""
