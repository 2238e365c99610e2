"""The tuple buffer as a merged log: the handle that owns the arrays and checks arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.errors import ParameterError
from headrace.gates import log_words
from headrace.gates.allocation import allocate_common, first_bound
from headrace.gates.merged_log_kernel import CONTROL_RESERVE, LogArrays
from headrace.gates.merging_kernel import SCRATCH_ROWS
from headrace.gates.tuple_buffer import TupleBuffer, whole_number
from headrace.memory.cells import aligned, padded_cells, reserved
from headrace.progress import END_OF_TIME, MIN_TIME


def power_of_two_at_least(count: int) -> int:
    return 1 << max(0, count - 1).bit_length()


def allocate(
    sources: int,
    readers: int,
    capacity: int,
    *,
    bound: int | None = None,
    bound_ns: int = 0,
    lead: int = 0,
    ranks: Sequence[int] = (),
    rows: int = 0,
) -> LogArrays:
    """Allocate the arrays of a merged log with all sources feeding and no reader yet.

    Parameters
    ----------
    sources, readers : int
        Slots, at least 1.
    capacity : int
        Most tuples in the log; the slots of control records are added to this.
    bound : int, optional
        A smaller limit than the capacity.
    bound_ns : int
        Limit in nanoseconds of the slowest reader's work; 0 = none.
    lead : int
        If not 0, records are delivered as they arrive, at most this far ahead of the last watermark (`arrival_kernel`).
    ranks : sequence of int
        If not empty, sources give each row so many ranks, by which tuples of equal event time are ordered
        (`content_kernel`); 1 for one that is the address of a string, else 0.
    rows : int
        How many rows of each source have ranks.

    Raises
    ------
    ParameterError
        A size is below 1; or there is a lead but only one source, whose records are in order and themselves
        advance time.
    """
    if lead and sources == 1:
        raise ParameterError(f"lead = {lead}: one source is in order by itself; leave it out, or give sources >= 2")
    common = allocate_common(sources, readers, capacity, bound, bound_ns)
    words = common["words"]
    words[log_words.LIMIT] = first_bound(words)
    words[log_words.LAST_TS] = MIN_TIME
    words[log_words.LEAD] = lead
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
        scratch=aligned(SCRATCH_ROWS * sources, np.int64).reshape(SCRATCH_ROWS, sources),
        rank=reserved(sources * len(ranks) * rows, np.int64).reshape(sources * len(ranks), rows),
        rank_layout=np.array(ranks, np.int64),
    )


class MergedLog(TupleBuffer):
    """The tuple buffer as one merged log that all readers scan; see `TupleBuffer`.

    Parameters
    ----------
    lead : int
        If not 0, the event time by which a tuple may be ahead of the last watermark that readers got. Tuples of several
        sources are then delivered as they arrive, in order only within each source; heartbeats between them, which belong
        to no source, are the watermarks.
    sources, **options
        As for `TupleBuffer`.

    Examples
    --------
    >>> gate = MergedLog(sources=2, readers=1, capacity=16)
    >>> gate.add([1, 5], 0), gate.add([3], 1)
    (2, 1)
    >>> [gate.get(0).ts for _ in range(2)], gate.get(0)
    ([1, 3], None)
    >>> gate = MergedLog(sources=2, lead=10)
    >>> gate.add([1, 5], 0), gate.add([3], 1)
    (2, 1)
    >>> [(record.ts, record.is_tuple) for record in iter(lambda: gate.get(0), None)]
    [(1, False), (3, True), (1, True), (5, True), (3, False)]
    """

    _gate = "log"
    arrays: LogArrays

    def __init__(self, sources: int = 1, *sizes: int, lead: int = 0, **options: Any):
        self._lead = whole_number("lead", lead, 0, END_OF_TIME - 1)
        super().__init__(sources, *sizes, **options)

    def _allocate(self, sources, readers, capacity, bound, bound_ns) -> LogArrays:
        return allocate(sources, readers, capacity, bound=bound, bound_ns=bound_ns, lead=self._lead)


__all__ = ["MergedLog", "allocate"]
