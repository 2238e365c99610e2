"""The arrays that the instances of one operator share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headrace.elastic.words import BATCH_NS, WORD_COUNT
from headrace.memory.bundle import by_reference
from headrace.memory.cells import aligned, padded_cells
from headrace.references import BUCKETS
from headrace.runtime.configuration_rows import CHANGES_KEPT, SPARE_CONFIGURATIONS, change_arrays
from headrace.workers.arrays import worker_arrays

DEFAULT_BATCH_NS = 200_000


@by_reference
class InstanceArrays(NamedTuple):
    """The arrays that the instances of one operator share; `words` names their cells and columns."""

    words: np.ndarray
    event: np.ndarray
    member: np.ndarray  # uint8[configurations, workers]
    low: np.ndarray  # int64[configurations, workers]: first bucket owned, contiguous mappings
    width: np.ndarray  # int64[configurations, workers]
    contiguous: np.ndarray  # uint8[configurations]
    owner: np.ndarray  # int16[configurations, BUCKETS]
    start_seen: np.ndarray  # per worker: tuples before its start
    start_watermark: np.ndarray
    start_planned: np.ndarray  # planned changes before its start
    plan_at: np.ndarray  # int64[planned + 1]: tuple counts, then a sentinel
    pending: np.ndarray  # int64 cells[ring]
    met_at: np.ndarray  # int64[ring]: first arrival at the barrier
    reached_at: np.ndarray  # int64[ring]: last arrival
    installed: np.ndarray  # int64[ring, 2]: configurations before and after
    load_at: np.ndarray  # int64[ring, workers]: each worker's load counter at the change
    done_at: np.ndarray  # int64 cells[ring]
    acknowledged: np.ndarray  # per worker: epoch it runs in
    failure: np.ndarray  # int64[16]
    meter: np.ndarray  # int64[workers, METER_WORDS]
    load: np.ndarray  # int64[workers, BUCKETS]: the worker's load by bucket, as sampled (`loads`)
    layout: np.ndarray  # int64[sources, 3]: how `loads` finds a tuple's keys, and which counter is the load


def allocate(max_threads: int, sources: int = 1, planned: int = 0, batch_ns: int = DEFAULT_BATCH_NS) -> InstanceArrays:
    """Allocate the arrays, with no instance active and no configuration written.

    Parameters
    ----------
    max_threads : int
        The most instances there may be.
    sources : int
        Sources of the gate they read.
    planned : int
        Configurations 1 to `planned` come into force at planned tuple counts.
    batch_ns : int
        How long an instance may work on a batch, in nanoseconds.
    """
    common = worker_arrays(max_threads, WORD_COUNT)
    common["words"][BATCH_NS] = batch_ns
    configurations, ring = 1 + planned + SPARE_CONFIGURATIONS, CHANGES_KEPT + planned
    return InstanceArrays(
        **common,
        **change_arrays(planned, are_cells=True),
        member=np.zeros((configurations, max_threads), np.uint8),
        low=np.zeros((configurations, max_threads), np.int64),
        width=np.zeros((configurations, max_threads), np.int64),
        contiguous=np.zeros(configurations, np.uint8),
        owner=np.zeros((configurations, BUCKETS), np.int16),
        start_seen=padded_cells(max_threads),
        start_watermark=padded_cells(max_threads),
        start_planned=padded_cells(max_threads),
        pending=padded_cells(ring),
        reached_at=np.zeros(ring, np.int64),
        load_at=np.zeros((ring, max_threads), np.int64),
        acknowledged=padded_cells(max_threads),
        load=aligned(max_threads * BUCKETS, np.int64).reshape(max_threads, BUCKETS),
        layout=np.zeros((sources, 3), np.int64),
    )


__all__ = ["DEFAULT_BATCH_NS", "InstanceArrays", "allocate"]
