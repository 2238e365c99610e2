"""The memory that the executors of one transactional operator share.

Memory whose size depends on what a batch brings is reserved, not allocated:
pages that are never touched cost nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headrace.egress import rings
from headrace.memory.atomics import CELL
from headrace.memory.bundle import by_reference
from headrace.memory.cells import aligned, padded_cells, publish_cell, reserved
from headrace.progress import MIN_TIME
from headrace.references import BUCKETS
from headrace.runtime.configuration_rows import CHANGES_KEPT, SPARE_CONFIGURATIONS, change_arrays
from headrace.transactions.key_sets_kernel import KNOWN_WORDS
from headrace.transactions.multiversion_kernel import NODE_WORDS
from headrace.transactions.skip_chains_kernel import FINGER_WORDS, LEVELS
from headrace.transactions.words import (
    CAUSE,
    COPIES_FROM,
    COPIES_TO,
    FILLING_WORDS,
    FIRST_PHASE,
    LENGTH_CLASSES,
    MAX_DELAY,
    PHASE,
    PIECE,
    RECORD_WORDS,
    THREADS,
    VERSIONED,
    WORD_COUNT,
)
from headrace.workers.arrays import worker_arrays
from headrace.workers.worker_kernel import ROW_WORDS

MOST_PUNCTUATION = 1 << 17
"""Events between two punctuations, at most: what a batch has room for."""
MOST_NODES = 1 << 24
NODES = 1 << 19
"""Versions that one executor may make in a batch."""


def operations_of(capacity: int, asked: int = 0) -> int:
    """How many operations a batch may have: as asked for, or 16 for each event of a full batch, at least 2**20."""
    return asked or max(16 * capacity, 1 << 20)


@by_reference
class ExecutorArrays(NamedTuple):
    """Shared by the executors of one operator. `words` names what cells and columns hold."""

    words: np.ndarray
    event: np.ndarray
    meter: np.ndarray  # int64[workers, METER_WORDS]
    failure: np.ndarray  # int64[16]
    reading: np.ndarray  # cells[workers]: the phase in which it began; 0: parked
    # The batch, by event.
    refs: np.ndarray  # int64[capacity]
    tss: np.ndarray
    ats: np.ndarray
    places: np.ndarray  # of its record in the gate
    set_at: np.ndarray  # its operations are set_at to set_at + set_size - 1
    set_size: np.ndarray
    pending: np.ndarray  # what it waits for; depends on the scheme
    order: np.ndarray  # events, as a scheme arranges them
    # By operation.
    sets: np.ndarray  # int64[operations]: record << 1 | is_write
    event_of: np.ndarray
    link: np.ndarray  # by scheme
    link_2: np.ndarray
    entries: np.ndarray  # int64[workers * (operations + PIECE)]: operations, as a scheme arranges them
    # By record.
    locks: np.ndarray  # int64[RECORD_WORDS * records]
    tails: np.ndarray  # int64[RECORD_WORDS * records]
    table_rows: np.ndarray  # of `memory`: the rows of all tables, then versions of rows
    table_places: np.ndarray  # int64[tables + 1, 3], its columns named in `words`; empty where each row has one version only
    heads: np.ndarray  # int64[records]: versions of a batch
    # By version, by event.
    nodes: np.ndarray  # int64[NODE_WORDS * versions]
    behind: np.ndarray  # int64[capacity]: the next event that waits for the same one
    # By record, then by operation: chains as skip lists, where requested.
    links: np.ndarray  # int64[LEVELS * (records + operations)]
    # By executor.
    filling: np.ndarray  # int64[workers, FILLING_WORDS]: where its key sets grow
    known: np.ndarray  # int64[workers, KNOWN_WORDS * slots]: operations of a large key set by record
    fingers: np.ndarray  # int64[workers, FINGER_WORDS * records]: of `links`
    part_at: np.ndarray  # int64[workers, BUCKETS + 1]: where the parts that it arranged begin or end
    base: np.ndarray  # int64[workers, workers * workers]: by scheme
    stack: np.ndarray  # int64[workers, capacity]: events that only it may run now
    lengths: np.ndarray  # int64[workers, LENGTH_CLASSES]: records by their number of operations in a batch
    served: np.ndarray  # cells[workers]: events that have left a partition
    offers: np.ndarray  # cells[workers]: a ready event that another executor may take, + 1
    # Configurations.
    rows: np.ndarray  # int64[configurations, ROW_WORDS]
    owner: np.ndarray  # int16[configurations, BUCKETS]
    plan_at: np.ndarray  # int64[planned + 1]: counts of events, then a sentinel
    unsettled: np.ndarray  # int64 cells[ring]: acknowledgements that a change waits for
    met_at: np.ndarray  # int64[ring]: when the executors had met
    installed: np.ndarray  # int64[ring, 3]: configurations before and after, events before it
    done_at: np.ndarray  # int64 cells[ring]


def allocate(
    max_threads: int,
    records: int,
    capacity: int,
    operations: int = 0,
    planned: int = 0,
    *,
    max_delay_ns: int = 10_000_000,
    table_rows: np.ndarray | None = None,
    table_places: np.ndarray | None = None,
    copies: range = range(0),
    skip_lists: bool = False,
) -> ExecutorArrays:
    """Allocate; no executor is active and no configuration is written yet.

    Parameters
    ----------
    max_threads : int
        Most executors that may be active.
    records : int
        Of all tables.
    capacity : int
        Events that a batch may have; a larger punctuation is cut to it.
    operations : int
        Most operations of a batch, and so of a transaction; see `operations_of`.
    planned : int
        Configurations 1 to `planned` come into force at counts of events.
    max_delay_ns : int
        How long an event may wait for its batch to fill.
    table_rows, table_places : int64[n], int64[tables + 1, 3], optional
        As of `memory.TableMemory`, with room for a version for each of the operations; without them "mvlk" is "lock".
    copies : range
        Words of the tables' memory in which copies of rows are made.
    skip_lists : bool
        Operation chains are skip lists.
    """
    operations = operations_of(capacity, operations)
    if table_rows is None or table_places is None:
        table_rows, table_places = np.zeros(0, np.int64), np.zeros((0, 3), np.int64)
    configurations = 1 + planned + SPARE_CONFIGURATIONS
    slots = 1 << (2 * operations - 1).bit_length()

    def column(count: int) -> np.ndarray:
        return reserved(count, np.int64)

    def table(count: int) -> np.ndarray:
        return reserved(max_threads * count, np.int64).reshape(max_threads, count)

    common = worker_arrays(max_threads, WORD_COUNT)
    words = common["words"]
    words[MAX_DELAY] = max_delay_ns
    words[PHASE] = FIRST_PHASE
    words[COPIES_FROM], words[COPIES_TO] = copies.start, copies.stop
    return ExecutorArrays(
        **common,
        **change_arrays(planned, columns=3, are_cells=True),
        reading=padded_cells(max_threads),
        refs=column(capacity), tss=column(capacity), ats=column(capacity), places=column(capacity),
        set_at=column(capacity), set_size=column(capacity), pending=column(capacity), order=column(capacity),
        sets=column(operations), event_of=column(operations), link=column(operations), link_2=column(operations),
        entries=column(max_threads * (operations + PIECE)),
        locks=column(RECORD_WORDS * records),
        tails=column(RECORD_WORDS * records),
        table_rows=table_rows,
        table_places=table_places,
        heads=column(records),
        nodes=column(NODE_WORDS * min(MOST_NODES, max_threads * NODES)),
        behind=column(capacity),
        links=column(LEVELS * (records + operations) if skip_lists else 0),
        filling=aligned(max_threads * FILLING_WORDS, np.int64).reshape(max_threads, FILLING_WORDS),
        known=table(KNOWN_WORDS * slots),
        fingers=table(FINGER_WORDS * records if skip_lists else 0),
        part_at=table(BUCKETS + 1),
        base=table(max_threads * max_threads),
        stack=table(capacity),
        lengths=table(LENGTH_CLASSES),
        served=padded_cells(max_threads),
        offers=padded_cells(max_threads),
        rows=np.zeros((configurations, ROW_WORDS), np.int64),
        owner=np.zeros((configurations, BUCKETS), np.int16),
        unsettled=padded_cells(CHANGES_KEPT + planned),
    )  # fmt: skip


def activate(c: ExecutorArrays, out: Any) -> None:
    """Make the executors of configuration 0 active, before any of them runs."""
    for executor in range(int(c.rows[0, THREADS])):
        publish_cell(c.reading, executor * CELL, FIRST_PHASE)
        rings.start_mark(out, executor, -1, MIN_TIME)


def rows_seen(c: ExecutorArrays, private: np.ndarray) -> dict[int, int]:
    """Which versions of rows an executor's current event sees instead of the tables' rows: record -> where it begins.

    Parameters
    ----------
    c : ExecutorArrays
    private : int64[]
        The executor's words; the executor must not be running.
    """
    if not private[VERSIONED]:
        return {}
    event = int(private[CAUSE])
    operations = slice(int(c.set_at[event]), int(c.set_at[event] + c.set_size[event]))
    return dict(zip((c.sets[operations] >> 1).tolist(), c.link[operations].tolist(), strict=True))


__all__ = ["MOST_PUNCTUATION", "ExecutorArrays", "activate", "allocate", "operations_of", "rows_seen"]
