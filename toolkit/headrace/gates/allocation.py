"""The arrays that both gates have."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.errors import ParameterError
from headrace.gates import membership_kernel
from headrace.memory.atomics import CELL, EVENT_CELL
from headrace.memory.cells import aligned, padded_cells
from headrace.progress import MIN_TIME


def first_bound(words: np.ndarray) -> int:
    """How many tuples may wait while the cost of a tuple is unknown."""
    bound = int(words[membership_kernel.BOUND])
    return min(bound, membership_kernel.FIRST_BOUND) if words[membership_kernel.BOUND_NS] else bound


def allocate_common(sources: int, readers: int, capacity: int, bound: int | None, bound_ns: int) -> dict[str, Any]:
    """Allocate the arrays that `membership_kernel` names, with all sources feeding and no reader yet.

    Raises
    ------
    ParameterError
        If a size is below 1.
    """
    for name, value in (("sources", sources), ("readers", readers), ("capacity", capacity)):
        if value < 1:
            raise ParameterError(f"{name} = {value!r}: a gate needs at least 1; give {name} >= 1")
    words = padded_cells(membership_kernel.WORD_COUNT)
    words[membership_kernel.BOUND] = min(capacity, bound or capacity)
    words[membership_kernel.BOUND_NS] = bound_ns
    mark = padded_cells(sources)
    mark[::CELL] = MIN_TIME
    feeding = padded_cells(sources)
    feeding[::CELL] = 1
    return {
        "words": words,
        "event": aligned(2 * EVENT_CELL, np.int32),
        "mark": mark,
        "feeding": feeding,
        "cursor": padded_cells(readers),
        "reading": padded_cells(readers),
        "cost": padded_cells(readers),
    }
