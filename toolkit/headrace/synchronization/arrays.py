"""The memory that the workers of a program share: mailboxes, results, and a plan as kernels have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from headrace.egress import rings
from headrace.memory.atomics import CELL, EVENT_CELL
from headrace.memory.bundle import by_reference
from headrace.memory.cells import aligned, padded_cells, publish_cell, reserved
from headrace.progress import END_OF_TIME, MIN_TIME, NEVER
from headrace.runtime.configuration_rows import SPARE_CONFIGURATIONS, change_arrays
from headrace.synchronization import words
from headrace.synchronization.plan_json import MOST_LEAVES
from headrace.workers.arrays import worker_arrays
from headrace.workers.worker_kernel import ROW_WORDS, THREADS

MOST_NODES = 2 * MOST_LEAVES - 1


@by_reference
class PlanArrays(NamedTuple):
    """Shared by the workers of one program. `words` names what cells and columns hold."""

    words: np.ndarray
    event: np.ndarray
    signals: np.ndarray  # int32[3 * EVENT_CELL]
    meter: np.ndarray  # int64[workers, METER_WORDS]
    failure: np.ndarray  # int64[16]
    reading: np.ndarray  # cells[workers]: 0: parked; else active (`changes_kernel`)
    input: np.ndarray  # cells[inputs * INPUT_CELLS]
    given: np.ndarray  # int64[inputs, GIVEN_WORDS]
    queue: np.ndarray  # cells[queues * QUEUE_CELLS]
    runs: np.ndarray  # int64[queues * RUNS * RUN_WORDS]
    out: np.ndarray  # int64[columns, workers + 1, capacity]: of the results
    out_f: np.ndarray  # the same memory as float64
    work: np.ndarray  # int64[nodes, WORK_WORDS]
    # The plan in force.
    shape: np.ndarray  # int64[SHAPE_WORDS]
    tree: np.ndarray  # int64[nodes, TREE_WORDS]
    node: np.ndarray  # cells[nodes * NODE_CELLS]
    leaves: np.ndarray  # int64[leaves]
    form: np.ndarray  # int64[queues, FORM_WORDS]
    dependents: np.ndarray
    owned: np.ndarray  # int64[queues]: queues, by node
    # Configurations.
    rows: np.ndarray  # int64[configurations, ROW_WORDS]
    plan_at: np.ndarray  # int64[planned + 1]: row numbers, then NEVER
    met_at: np.ndarray  # int64[ring]
    done_at: np.ndarray
    installed: np.ndarray  # int64[ring, 2]: configurations before and after


def allocate(
    max_threads: int, widths: Sequence[int], counts: Sequence[bool], queues: int, columns: int, capacity: int, planned: int = 0
) -> PlanArrays:
    """Allocate with no worker active, and no plan.

    Parameters
    ----------
    max_threads : int
    widths : sequence of int
        Of each input's directory entries.
    counts : sequence of bool
        Whether planned changes and checkpoints count the input's rows.
    queues : int
        The most that any plan has.
    columns : int
        Of the results.
    capacity : int
        Records of each result ring.
    planned : int
        Configurations 1 to `planned` come into force before rows.
    """
    given = np.zeros((len(widths), words.GIVEN_WORDS), np.int64)
    given[:, words.WIDTH], given[:, words.COUNTS] = widths, counts
    inputs = padded_cells(len(widths) * words.INPUT_CELLS)
    for number in range(len(widths)):
        inputs[number * words.INPUT_CELLS * CELL + words.FRONTIER] = MIN_TIME
    out = reserved(max(1, columns) * (max_threads + 1) * capacity, np.int64).reshape(max(1, columns), max_threads + 1, capacity)
    workers = worker_arrays(max_threads, words.WORD_COUNT)
    workers["words"][words.QUOTA] = NEVER
    return PlanArrays(
        **workers,
        **change_arrays(planned),
        signals=aligned(3 * EVENT_CELL, np.int32),
        reading=padded_cells(max_threads),
        input=inputs,
        given=given,
        queue=padded_cells(queues * words.QUEUE_CELLS),
        runs=reserved(queues * words.RUNS * words.RUN_WORDS, np.int64),
        out=out,
        out_f=out.view(np.float64),
        work=aligned(MOST_NODES * words.WORK_WORDS, np.int64).reshape(MOST_NODES, words.WORK_WORDS),
        shape=np.zeros(words.SHAPE_WORDS, np.int64),
        tree=np.zeros((MOST_NODES, words.TREE_WORDS), np.int64),
        node=padded_cells(MOST_NODES * words.NODE_CELLS),
        leaves=np.zeros(MOST_LEAVES, np.int64),
        form=np.zeros((queues, words.FORM_WORDS), np.int64),
        dependents=np.zeros(queues * queues, np.int64),
        owned=np.zeros(queues, np.int64),
        rows=np.zeros((1 + planned + SPARE_CONFIGURATIONS, ROW_WORDS), np.int64),
    )


def activate(c: PlanArrays, out: Any, is_ordered: bool = True) -> None:
    """Make the workers of configuration 0 active, before any of them runs.

    Results are released up to what is promised. Where their order does not matter, all times are promised from the start, but
    not the end.
    """
    for worker in range(int(c.rows[0, THREADS])):
        publish_cell(c.reading, worker * CELL, 1)
    rings.start_mark(out, len(c.reading) // CELL, MIN_TIME if is_ordered else END_OF_TIME - 1, MIN_TIME)
    if not is_ordered:
        publish_cell(c.words, words.RELEASED, NEVER)


__all__ = ["MOST_NODES", "PlanArrays", "activate", "allocate"]
