"""The arrays through which workers of any engine park, book their time and report failures, as `worker_kernel` names them."""

from __future__ import annotations

import numpy as np

from headrace.memory.atomics import EVENT_CELL
from headrace.memory.cells import aligned, padded_cells
from headrace.workers.worker_kernel import FAILURE_WORDS, METER_WORDS, PARK_EVENT


def worker_arrays(workers: int, word_count: int) -> dict[str, np.ndarray]:
    """Allocate these arrays, by name, as part of the arrays that the workers of an engine share.

    Parameters
    ----------
    workers : int
        Maximum number of workers.
    word_count : int
        Cells of ``words``: `worker_kernel.WORKER_WORDS` and the engine's own.

    Examples
    --------
    >>> {name: str(array.dtype) for name, array in worker_arrays(2, 5).items()}
    {'words': 'int64', 'event': 'int32', 'meter': 'int64', 'failure': 'int64'}
    """
    return {
        "words": padded_cells(word_count),
        "event": aligned(PARK_EVENT + EVENT_CELL * workers, np.int32),
        "meter": aligned(workers * METER_WORDS, np.int64).reshape(workers, METER_WORDS),
        "failure": np.zeros(FAILURE_WORDS, np.int64),
    }


__all__ = ["worker_arrays"]
