"""Which event a user function does not come back from, for a run that is stopped, or waited for in vain.

Everything is read while the executors work, so it counts only if the executor is at the same batch afterwards. Of several
events in functions the earliest one is told: a later one may only wait for it, inside its function, where the scheme keeps
versions of rows.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from headrace.memory.cells import read_cell
from headrace.transactions import words
from headrace.workers import worker_kernel
from headrace.workers.spans import counters

LONG_NS = 1_000_000_000
"""A batch takes milliseconds, if user functions end soon; no run is asked how it goes on sooner than a user notices."""


class Unfinished(NamedTuple):
    """An event whose functions have not come to their end."""

    worker: int
    """The executor."""
    cause: int
    """The event's index in the batch."""
    number: int
    """Events of the input before it."""
    since_ns: int
    """When the executor last began to work, after waiting for anything but a lock: not before its batch."""
    busy_ns: int
    """How long it has worked since."""


def find_unfinished(c: Any, private: Sequence[np.ndarray]) -> Unfinished | None:
    """Find the earliest event that an executor is at, of executors that have been at their batch for long.

    Parameters
    ----------
    c : ExecutorArrays
    private : sequence of int64[]
        The executors' own words.
    """
    now, meter, seen = time.monotonic_ns(), counters(c.meter), read_cell(c.words, words.SEEN)
    found = []
    for worker, own in enumerate(private):
        since, cause = int(meter[worker, worker_kernel.SINCE]), int(own[words.CAUSE])
        if meter[worker, worker_kernel.STATE] == worker_kernel.BUSY_NS and now - since >= LONG_NS and cause >= 0:
            found.append(Unfinished(worker, cause, seen + cause, since, now - since))
    return min(found, key=lambda one: one.cause, default=None)


def is_still_at(c: Any, found: Unfinished) -> bool:
    """Whether the executor has not gone on to another batch meanwhile."""
    return int(counters(c.meter)[found.worker, worker_kernel.SINCE]) == found.since_ns


__all__ = ["LONG_NS", "Unfinished", "find_unfinished", "is_still_at"]
