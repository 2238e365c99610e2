"""The memory that the workers of one pipeline share: rings of records and results, queues, and figures of each stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from headrace.egress import rings
from headrace.memory.atomics import CELL
from headrace.memory.bundle import by_reference
from headrace.memory.cells import aligned, padded_cells, publish_cell, reserved, reserved_or_less
from headrace.ordering import pool_kernel
from headrace.ordering.binding import Bound
from headrace.ordering.words import (
    BUCKET_COUNT,
    BUCKET_WORDS,
    BUCKETS,
    BY_PARTITION,
    END_AT,
    FIRST_COLUMN,
    FORM_WORDS,
    HYBRID,
    KEY,
    KIND,
    KNOWN_WORDS,
    LATEST,
    LOCKED,
    MASK,
    MAY_BE_ALONE,
    MOST,
    NEEDS_TIME,
    NONBLOCKING,
    OUT_STRIDE,
    PARTITIONED,
    PROGRESS,
    QUEUE,
    QUEUES,
    RANGES,
    REORDER,
    RING,
    SHARED,
    SLOT_WORDS,
    SLOTS,
    STAGE_CELLS,
    STATEFUL,
    STATELESS,
    STRIDE,
    WORD_COUNT,
    WORK_WORDS,
)
from headrace.progress import MIN_TIME, NEVER
from headrace.runtime.configuration_rows import SPARE_CONFIGURATIONS, change_arrays
from headrace.workers.arrays import worker_arrays
from headrace.workers.worker_kernel import ROW_WORDS, THREADS

AUTO = "auto"
"""Queues as "hybrid", and a worker takes all buckets of a stage at once where that is faster."""
QUEUE_KINDS = {AUTO: HYBRID, "hybrid": HYBRID, "partitioned": BY_PARTITION, "shared": SHARED}
REORDERS = {"nonblocking": NONBLOCKING, "lock": LOCKED}
_KINDS = {"partitioned": PARTITIONED, "stateful": STATEFUL}

POOL_WORDS = 1 << 32
"""Words of address space reserved for outputs that wait; fewer where the system grants less. A page is allocated when written."""
_LEAST_POOL_WORDS = 1 << 20


@by_reference
class PipelineArrays(NamedTuple):
    """Shared by the workers of one pipeline. `words` names what cells and columns hold."""

    words: np.ndarray
    event: np.ndarray
    meter: np.ndarray  # int64[workers, METER_WORDS]
    failure: np.ndarray  # int64[16]
    reading: np.ndarray  # cells[workers]: 0: parked; else active (`changes_kernel`)
    stage: np.ndarray  # cells[stages * STAGE_CELLS]
    form: np.ndarray  # int64[stages, FORM_WORDS]
    slots: np.ndarray  # int64[slots * SLOT_WORDS]
    arena: np.ndarray  # input records of all stages, then outputs that wait
    arena_f: np.ndarray  # the same memory as float64
    pool: np.ndarray  # cells: free blocks by class
    bucket: np.ndarray  # int64[buckets * BUCKET_WORDS], each on its own cache lines
    bucket_tail: np.ndarray  # int64[buckets]: records appended to each so far
    tickets: np.ndarray  # int64[slots]: a record's bucket, and its number within the bucket
    queue: np.ndarray  # serial numbers by bucket, where workers take buckets
    bounds: np.ndarray  # int64[boundaries]: where ranges of keys begin, for all stages
    out: np.ndarray  # int64[columns, capacity]: the results
    work: np.ndarray  # int64[workers, stages, WORK_WORDS]
    known: np.ndarray  # int64[stages + 1, KNOWN_WORDS]
    tuning: np.ndarray  # int64[8]
    # Configurations.
    rows: np.ndarray  # int64[configurations, ROW_WORDS]
    fixed: np.ndarray  # int64[configurations, workers]: the stage that a worker is allotted to; -1: none
    plan_at: np.ndarray  # int64[planned + 1]: row numbers, then NEVER
    met_at: np.ndarray  # int64[ring]
    done_at: np.ndarray
    installed: np.ndarray  # int64[ring, 2]: configurations before and after


def allocate(
    bound: Bound,
    max_threads: int,
    capacity: int,
    results: int,
    *,
    queues: str = AUTO,
    reorder: str = "nonblocking",
    tuning: Sequence[int] = (0, 0, 0, 1, NEVER),
    planned: int = 0,
) -> PipelineArrays:
    """Allocate with no worker active and no configuration written.

    Parameters
    ----------
    bound : Bound
        The stages.
    max_threads : int
        Most workers.
    capacity : int
        Records of each stage's ring, a power of two.
    results : int
        Records of the result ring.
    queues, reorder : str
        Of `QUEUE_KINDS` and `REORDERS`.
    tuning : sequence of int
        As `schedule_kernel` names its columns.
    planned : int
        Configurations 1 to `planned` come into force before rows.
    """
    stages = bound.stages
    form = np.zeros((len(stages), FORM_WORDS), np.int64)
    words = buckets = queue = 0
    bounds: list[int] = []
    for number, one in enumerate(stages):
        form[number, KIND] = _KINDS.get(one.stage.kind, STATELESS)
        form[number, [RING, STRIDE, MASK, SLOTS]] = CELL + words, one.stride, capacity - 1, number * capacity
        form[number, OUT_STRIDE] = FIRST_COLUMN + len(one.emitted)
        form[number, [QUEUES, REORDER]] = QUEUE_KINDS[queues], REORDERS[reorder]
        form[number, MAY_BE_ALONE] = queues == AUTO and one.stage.kind == "partitioned"
        form[number, MOST] = 1 if one.stage.kind == "stateful" else one.stage.buckets or max_threads
        form[number, [BUCKETS, BUCKET_COUNT, QUEUE]] = buckets, one.stage.buckets, queue
        form[number, NEEDS_TIME] = one.stage.forget is not None
        if one.stage.ranges:
            form[number, RANGES] = len(bounds) + 1
            bounds.extend(one.stage.ranges)
        if one.stage.by:
            form[number, KEY] = one.key
        words += capacity * one.stride
        buckets += one.stage.buckets
        queue += capacity * one.stage.buckets if queues == "partitioned" else 0
    configurations = 1 + planned + SPARE_CONFIGURATIONS
    arena = _pool(words)
    stage = padded_cells(len(stages) * STAGE_CELLS)
    for number in range(len(stages)):
        stage[number * STAGE_CELLS * CELL + PROGRESS] = MIN_TIME
        stage[number * STAGE_CELLS * CELL + END_AT] = NEVER
        stage[number * STAGE_CELLS * CELL + LATEST] = MIN_TIME
    known = aligned((len(stages) + 1) * KNOWN_WORDS, np.int64).reshape(-1, KNOWN_WORDS)
    columns = len(stages[-1].emitted)
    return PipelineArrays(
        **worker_arrays(max_threads, WORD_COUNT),
        **change_arrays(planned),
        reading=padded_cells(max_threads),
        stage=stage,
        form=form,
        slots=reserved(len(stages) * capacity * SLOT_WORDS, np.int64),
        arena=arena,
        arena_f=arena.view(np.float64),
        pool=padded_cells(pool_kernel.CLASSES),
        bucket=aligned(max(1, buckets) * BUCKET_WORDS, np.int64),
        bucket_tail=np.zeros(max(1, buckets), np.int64),
        tickets=reserved(len(stages) * capacity, np.int64),
        queue=reserved(max(1, queue), np.int64),
        bounds=np.array(bounds or [0], np.int64),
        out=reserved(max(1, columns) * results, np.int64).reshape(-1, results),
        work=aligned(max_threads * len(stages) * WORK_WORDS, np.int64).reshape(max_threads, len(stages), WORK_WORDS),
        known=known,
        tuning=np.array([*tuning, *[0] * (8 - len(tuning))], np.int64),
        rows=np.zeros((configurations, ROW_WORDS), np.int64),
        fixed=np.full((configurations, max_threads), -1),
    )


def _pool(taken: int) -> np.ndarray:
    """Reserve memory whose first words are in use; the rest begins on a cache line of its own, and so does each block."""
    taken = -(-taken // CELL) * CELL
    arena = reserved_or_less(POOL_WORDS, _LEAST_POOL_WORDS + taken, np.int64)
    arena[pool_kernel.HANDED_OUT] = taken
    return arena


def activate(c: PipelineArrays, out: Any) -> None:
    """Make the workers of configuration 0 active, before any of them runs."""
    for worker in range(int(c.rows[0, THREADS])):
        publish_cell(c.reading, worker * CELL, 1)
    rings.start_mark(out, 0, -1, MIN_TIME)


__all__ = ["AUTO", "QUEUE_KINDS", "REORDERS", "PipelineArrays", "activate", "allocate"]
