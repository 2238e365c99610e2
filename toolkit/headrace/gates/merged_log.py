"""The tuple buffer as a merged log: the handle that owns the arrays and checks arguments."""

from __future__ import annotations

import numpy as np

from headrace.gates import merged_log_kernel
from headrace.gates.allocation import allocate_common, first_bound
from headrace.gates.merged_log_kernel import CONTROL_RESERVE, LogArrays
from headrace.gates.tuple_buffer import TupleBuffer
from headrace.memory.cells import aligned, padded_cells
from headrace.progress import MIN_TIME


def power_of_two_at_least(count: int) -> int:
    return 1 << max(0, count - 1).bit_length()


def allocate(
    sources: int, readers: int, capacity: int, *, bound: int | None = None, bound_ns: int = 0
) -> LogArrays:
    """Allocate the arrays of a merged log with all sources feeding and no reader yet.

    Parameters
    ----------
    sources, readers : int
        Slots, at least 1.
    capacity : int
        Tuples the log may hold; the slots of control records come on top.
    bound : int, optional
        A smaller limit than the capacity.
    bound_ns : int
        Limit in nanoseconds of the slowest reader's work; 0 = none.
    """
    common = allocate_common(sources, readers, capacity, bound, bound_ns)
    words = common["words"]
    words[merged_log_kernel.LIMIT] = first_bound(words)
    words[merged_log_kernel.LAST_TS] = MIN_TIME
    log = power_of_two_at_least(capacity + CONTROL_RESERVE)
    ring = power_of_two_at_least(max(2, capacity)) if sources > 1 else 1
    return LogArrays(
        **common,
        head=padded_cells(sources),
        merged=padded_cells(sources),
        ring_ts=aligned(sources * ring, np.int64).reshape(sources, ring),
        ring_ref=aligned(sources * ring, np.int64).reshape(sources, ring),
        ring_at=aligned(sources * ring, np.int64).reshape(sources, ring),
        out_ts=aligned(log, np.int64).reshape(1, log),
        out_ref=aligned(log, np.int64).reshape(1, log),
        out_at=aligned(log, np.int64).reshape(1, log),
        scratch=aligned(3 * sources, np.int64).reshape(3, sources),
    )


class MergedLog(TupleBuffer):
    """The tuple buffer as one merged log that all readers scan; see `TupleBuffer`.

    Examples
    --------
    >>> gate = MergedLog(sources=2, readers=1, capacity=16)
    >>> gate.add([1, 5], 0), gate.add([3], 1)
    (2, 1)
    >>> [gate.get(0).ts for _ in range(2)], gate.get(0)
    ([1, 3], None)
    """

    _gate = "log"
    arrays: LogArrays

    def _allocate(self, sources, readers, capacity, bound, bound_ns) -> LogArrays:
        return allocate(sources, readers, capacity, bound=bound, bound_ns=bound_ns)


__all__ = ["MergedLog", "allocate"]
