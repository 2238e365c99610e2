"""The tuple buffer as a lock-free skip list: the handle that owns the arrays and checks arguments."""

from __future__ import annotations

import numpy as np

from headrace.gates import scalegate_kernel, skip_list_kernel
from headrace.gates.allocation import allocate_common, first_bound
from headrace.gates.scalegate_kernel import ScaleGateArrays
from headrace.gates.tuple_buffer import TupleBuffer
from headrace.memory.atomics import CELL
from headrace.memory.cells import aligned, padded_cells
from headrace.progress import MIN_TIME

BUFFER = 2048
"""Most records that a reader copies out of the list ahead of what it has consumed."""

_LEAST_POOL = 64  # so that the tallest slots are one in 64


def allocate(
    sources: int, readers: int, capacity: int, *, bound: int | None = None, bound_ns: int = 0
) -> ScaleGateArrays:
    """Allocate the arrays of a ScaleGate with all sources feeding and no reader yet.

    Parameters
    ----------
    sources, readers : int
        Slots, at least 1.
    capacity : int
        Tuples of each source that may wait for the slowest reader.
    bound : int, optional
        A smaller limit than the capacity.
    bound_ns : int
        Limit in nanoseconds of the slowest reader's work; 0 = none.
    """
    common = allocate_common(sources, readers, capacity, bound, bound_ns)
    pool = 1 << max(_LEAST_POOL - 1, capacity).bit_length()  # one more than may wait: a reader stands on it
    head = sources * pool
    common["words"][skip_list_kernel.POOL_SHIFT] = pool.bit_length() - 1
    nodes = aligned((head + 1) * skip_list_kernel.NODE_WORDS, np.int64)
    each = nodes.reshape(head + 1, skip_list_kernel.NODE_WORDS)
    each[:, skip_list_kernel.NEXT :] = skip_list_kernel.NIL
    each[:, skip_list_kernel.STAMP] = -1
    each[head, skip_list_kernel.TS] = MIN_TIME
    each[head, skip_list_kernel.STAMP] = 1
    source = aligned(sources * skip_list_kernel.SOURCE_WORDS, np.int64).reshape(sources, skip_list_kernel.SOURCE_WORDS)
    source[:, skip_list_kernel.LAST] = head
    source[:, skip_list_kernel.FULL_AT] = first_bound(common["words"])
    source[:, skip_list_kernel.FINGER : skip_list_kernel.FINGER + skip_list_kernel.LEVELS] = head
    stand = padded_cells(readers)
    stand[::CELL] = head
    passed = padded_cells(readers)
    passed[::CELL] = 1
    buffer = min(BUFFER, pool)

    def row_per_reader(count: int) -> np.ndarray:
        return aligned(readers * count, np.int64).reshape(readers, count)

    return ScaleGateArrays(
        **common,
        nodes=nodes,
        source=source,
        out_ts=row_per_reader(buffer),
        out_ref=row_per_reader(buffer),
        out_at=row_per_reader(buffer),
        out_node=row_per_reader(buffer),
        stand=stand,
        passed=passed,
        claim=padded_cells(readers),
        delivered=padded_cells(readers),
        reader=row_per_reader(scalegate_kernel.READER_WORDS),
        boundary=aligned(scalegate_kernel.CONTROL_RING, np.int64),
        boundary_epoch=aligned(scalegate_kernel.CONTROL_RING, np.int64),
        boundary_at=aligned(scalegate_kernel.CONTROL_RING, np.int64),
    )


class ScaleGate(TupleBuffer):
    """The tuple buffer as a lock-free skip list; see `TupleBuffer`.

    Its capacity and bounds hold for each source.

    Examples
    --------
    >>> gate = ScaleGate(sources=2, readers=1, capacity=16)
    >>> gate.add([1, 5], 0), gate.add([3], 1)
    (2, 1)
    >>> [gate.get(0).ts for _ in range(2)], gate.get(0)
    ([1, 3], None)
    """

    _gate = "scalegate"
    arrays: ScaleGateArrays

    def _allocate(self, sources, readers, capacity, bound, bound_ns) -> ScaleGateArrays:
        return allocate(sources, readers, capacity, bound=bound, bound_ns=bound_ns)


__all__ = ["ScaleGate", "allocate"]
