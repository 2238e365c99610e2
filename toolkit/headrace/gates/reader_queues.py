"""The arrays of `reader_queues_kernel`."""

from __future__ import annotations

import numpy as np

from headrace.gates.allocation import allocate_common
from headrace.gates.merged_log import power_of_two_at_least
from headrace.gates.reader_queues_kernel import LANE, QUEUE_WORDS, RESERVE, ReaderQueues
from headrace.memory.atomics import CELL
from headrace.memory.cells import padded_cells, reserved
from headrace.progress import MIN_TIME


def allocate(
    sources: int, rows: int, capacity: int, bound_ns: int, member: np.ndarray, owner: np.ndarray
) -> ReaderQueues:
    """Allocate empty queues, with all sources feeding, no reader yet, and configuration 0 in force.

    Parameters
    ----------
    sources : int
    rows : int
        Rows that a source may have in use at once, a power of two.
    capacity : int
        Tuples that may wait in each queue.
    bound_ns : int
        The same bound in nanoseconds of the reader's work; 0: no such bound.
    member : uint8[configurations, readers]
    owner : int16[configurations, buckets]
    """
    readers = member.shape[1]
    size = power_of_two_at_least(capacity + RESERVE)
    common = allocate_common(sources, readers, capacity, None, bound_ns)
    words = padded_cells(QUEUE_WORDS)
    words[: common["words"].size] = common["words"]
    told = padded_cells(readers)
    told[::CELL] = MIN_TIME

    def columns(count: int, length: int) -> list[np.ndarray]:
        return [reserved(count * length, np.int64).reshape(count, length) for _ in range(3)]

    ring_ts, ring_ref, ring_at = columns(readers * sources, size)
    out_ts, out_ref, out_at = columns(readers, LANE)
    queues = readers * sources
    return ReaderQueues(
        words=words,
        event=common["event"],
        head=padded_cells(sources),
        mark=common["mark"],
        mark_at=padded_cells(sources),
        feeding=common["feeding"],
        next=padded_cells(sources * -(-readers // CELL)).reshape(sources, -1),
        keys=reserved(sources * rows, np.int32).reshape(sources, rows),
        end=padded_cells(queues),
        taken=padded_cells(queues),
        tail=padded_cells(queues),
        ring_ts=ring_ts,
        ring_ref=ring_ref,
        ring_at=ring_at,
        merged=padded_cells(readers),
        cursor=common["cursor"],
        reading=common["reading"],
        passed=padded_cells(readers),
        told=told,
        cost=common["cost"],
        out_ts=out_ts,
        out_ref=out_ref,
        out_at=out_at,
        member=member,
        owner=owner,
    )


__all__ = ["allocate"]
