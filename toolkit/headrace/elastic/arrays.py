"""What the instances of one operator share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headrace.elastic.epochs import BATCH, EPOCH_RING, WORD_COUNT
from headrace.memory.atomics import EVENT_CELL
from headrace.memory.bundle import by_reference
from headrace.memory.cells import aligned, padded_cells
from headrace.progress import NEVER
from headrace.references import BUCKETS
from headrace.workers.worker_kernel import METER_WORDS, PARK_EVENT

DEFAULT_BATCH_NS = 200_000


@by_reference
class InstanceArrays(NamedTuple):
    """Shared by the workers of one operator."""

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
    plan_config: np.ndarray
    pending: np.ndarray  # int64 cells[ring]
    met_at: np.ndarray  # int64[ring]: first arrival at the barrier
    reached_at: np.ndarray  # int64[ring]: last arrival
    installed: np.ndarray  # int64[ring, 2]: configurations before and after
    load_at: np.ndarray  # int64[ring, workers]: what the workers' load had come to
    done_at: np.ndarray  # int64 cells[ring]
    acknowledged: np.ndarray  # per worker: epoch it runs in
    failure: np.ndarray  # int64[16]
    meter: np.ndarray  # int64[workers, METER_WORDS]
    load: np.ndarray  # int64[workers, BUCKETS]: the worker's load by bucket, as sampled (`loads`)
    layout: np.ndarray  # int64[sources, 3]: where `loads` finds a tuple's keys, and what load is


def allocate(
    workers: int, configurations: int, planned: int, sources: int = 1, batch_ns: int = DEFAULT_BATCH_NS
) -> InstanceArrays:
    """Allocate with configuration 0 in force and nobody active."""
    words = padded_cells(WORD_COUNT)
    words[BATCH] = batch_ns
    plan_at = np.full(planned + 1, NEVER)
    ring = EPOCH_RING + planned  # all planned ones may be over before anybody takes note of the first
    return InstanceArrays(
        words=words,
        event=aligned(PARK_EVENT + EVENT_CELL * workers, np.int32),
        member=np.zeros((configurations, workers), np.uint8),
        low=np.zeros((configurations, workers), np.int64),
        width=np.zeros((configurations, workers), np.int64),
        contiguous=np.zeros(configurations, np.uint8),
        owner=np.zeros((configurations, BUCKETS), np.int16),
        start_seen=padded_cells(workers),
        start_watermark=padded_cells(workers),
        start_planned=padded_cells(workers),
        plan_at=plan_at,
        plan_config=np.zeros(planned + 1, np.int64),
        pending=padded_cells(ring),
        met_at=np.zeros(ring, np.int64),
        reached_at=np.zeros(ring, np.int64),
        installed=np.zeros((ring, 2), np.int64),
        load_at=np.zeros((ring, workers), np.int64),
        done_at=padded_cells(ring),
        acknowledged=padded_cells(workers),
        failure=np.zeros(16, np.int64),
        meter=aligned(workers * METER_WORDS, np.int64).reshape(workers, METER_WORDS),
        load=aligned(workers * BUCKETS, np.int64).reshape(workers, BUCKETS),
        layout=np.zeros((sources, 3), np.int64),
    )


__all__ = ["DEFAULT_BATCH_NS", "InstanceArrays", "allocate"]
