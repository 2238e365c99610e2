"""What the executors of one transactional operator share, and the configurations they run under.

A configuration is a row of tables: how many executors, which scheme, how chains
are shared, how many events a batch has, the owner of each bucket of records. Row 0
is in force at the start, then come the planned ones, then spare rows for
requests. Executors 0 to threads - 1 are active; the others are parked.

Memory whose size depends on what a batch brings is reserved, not allocated: what
is never touched costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from headrace.control.mapping import Mapping
from headrace.egress import rings
from headrace.memory.atomics import CELL, EVENT_CELL
from headrace.memory.bundle import by_reference
from headrace.memory.cells import aligned, padded_cells, publish_cell, read_cell, reserved
from headrace.progress import MIN_TIME, NEVER
from headrace.references import BUCKETS
from headrace.runtime.configuration_rows import CHANGES_KEPT, SPARE_CONFIGURATIONS
from headrace.transactions.skip_chains_kernel import FINGER_WORDS, LEVELS
from headrace.transactions.words import (
    CAUSE,
    CHAINS,
    CONFIG,
    COPIES_FROM,
    COPIES_TO,
    FAMILIES,
    FAMILY,
    FILLING_WORDS,
    FIRST_PHASE,
    LENGTH_CLASSES,
    LOCK,
    MAX_DELAY,
    MVLK,
    NONE,
    OPERATIONS,
    PARTITION,
    PHASE,
    PIECE,
    PUNCTUATION,
    RECORD_WORDS,
    SCHEME,
    SERIAL,
    SHARED_EVERYTHING,
    SHARED_NOTHING,
    SHARED_SOCKET,
    SHARING,
    SPECULATION,
    SPECULATIVE,
    THREADS,
    VERSIONED,
    WHOLE,
    WORD_COUNT,
)
from headrace.workers.worker_kernel import METER_WORDS, PARK_EVENT, ROW_WORDS

SCHEMES = ("chains", "lock", "mvlk", "partition", "none", "serial", "speculative")
SHARINGS = ("nothing", "everything", "socket")
CHAIN_KINDS = ("radix", "skiplist")

_SCHEME_NUMBERS = dict(zip(SCHEMES, (CHAINS, LOCK, MVLK, PARTITION, NONE, SERIAL, SPECULATIVE), strict=True))
_SHARING_NUMBERS = dict(zip(SHARINGS, (SHARED_NOTHING, SHARED_EVERYTHING, SHARED_SOCKET), strict=True))
_FAMILY_NUMBERS = dict(zip(FAMILIES, (WHOLE, OPERATIONS, SPECULATION), strict=True))

MOST_PUNCTUATION = 1 << 17
"""Events between two punctuations, at most: what a batch has room for."""
MOST_NODES = 1 << 24
NODES = 1 << 19
"""Versions that a batch may have, of an executor."""


@dataclass(frozen=True)
class Configuration:
    """All that is in force at an operator.

    Parameters
    ----------
    threads : int
        Executors 0 to threads - 1 are active.
    scheme : str
        One of `SCHEMES`.
    sharing : str
        One of `SHARINGS`: what executors take each other's work from, where a scheme has such work.
    punctuation : int
        Events of a batch.
    mapping : Mapping
        Which executor owns which buckets of records.
    """

    threads: int
    scheme: str
    sharing: str
    punctuation: int
    mapping: Mapping


def family_of(scheme: str, can_split: bool) -> str:
    """Which executors' loop runs a scheme: "whole", "operations" or "speculative".

    Parameters
    ----------
    scheme : str
    can_split : bool
        No operation of a transaction depends on what another one reads.

    Examples
    --------
    >>> family_of("chains", can_split=True), family_of("chains", can_split=False), family_of("lock", True)
    ('operations', 'whole', 'whole')
    """
    if scheme == "speculative":
        return scheme
    return "operations" if scheme == "chains" and can_split else "whole"


def operations_of(capacity: int, asked: int = 0) -> int:
    """How many operations a batch may have: as asked for, or 16 for each event of a full batch, at least 2**20."""
    return asked or max(16 * capacity, 1 << 20)


def order_of(scheme: str, has_versions: bool) -> str:
    """Which scheme keeps transactions in order where this one is asked for.

    Parameters
    ----------
    scheme : str
    has_versions : bool
        There may be several versions of a row: no table has lists, sets, maps or arrays.

    Examples
    --------
    >>> order_of("mvlk", has_versions=True), order_of("mvlk", has_versions=False)
    ('mvlk', 'lock')

    Notes
    -----
    "none" too: two threads that make room in one set at the same time do not only give wrong results, they break the memory
    of the whole process.
    """
    return "lock" if scheme in ("mvlk", "none") and not has_versions else scheme


@by_reference
class ControlArrays(NamedTuple):
    """Shared by the executors of one operator. `words` names what cells and columns hold."""

    words: np.ndarray
    event: np.ndarray
    meter: np.ndarray  # int64[workers, METER_WORDS]
    failure: np.ndarray  # int64[16]
    reading: np.ndarray  # per worker: activation id, 0 = parked
    # The batch, by event.
    refs: np.ndarray  # int64[capacity]
    tss: np.ndarray
    ats: np.ndarray
    places: np.ndarray  # of its record in the gate
    set_at: np.ndarray  # its operations are set_at to set_at + set_size - 1
    set_size: np.ndarray
    pending: np.ndarray  # what it waits for, by scheme
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
    table_rows: np.ndarray  # of `memory`: the rows of all tables, behind them versions of rows
    table_places: np.ndarray  # int64[tables + 1, 3], its columns by `words`; no row where there is one version only
    heads: np.ndarray  # int64[records]: versions of a batch
    # By version, by event.
    nodes: np.ndarray  # int64[4 * versions]
    behind: np.ndarray  # int64[capacity]: the next event that waits for the same one
    # By record, then by operation: chains as skip lists, where these were asked for.
    links: np.ndarray  # int64[LEVELS * (records + operations)]
    # By executor.
    filling: np.ndarray  # int64[workers, FILLING_WORDS]: where its key sets grow
    known: np.ndarray  # int64[workers, 2 * slots]: operations of a large key set by record
    fingers: np.ndarray  # int64[workers, FINGER_WORDS * records]: of `links`
    part_at: np.ndarray  # int64[workers, BUCKETS + 1]: parts of what it arranged
    base: np.ndarray  # int64[workers, workers * workers]: by scheme
    stack: np.ndarray  # int64[workers, capacity]: events that only it may run now
    lengths: np.ndarray  # int64[workers, LENGTH_CLASSES]: records by how many operations a batch had on them
    served: np.ndarray  # cells[workers]: events that have left a partition
    offers: np.ndarray  # cells[workers]: a ready event that another executor may take, + 1
    # Configurations.
    rows: np.ndarray  # int64[configurations, ROW_WORDS]
    owner: np.ndarray  # int16[configurations, BUCKETS]
    plan_at: np.ndarray  # int64[planned + 1]: counts of events, then a sentinel
    plan_config: np.ndarray
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
) -> ControlArrays:
    """Allocate with nobody active and no configuration written.

    Parameters
    ----------
    max_threads : int
        Executors there may be.
    records : int
        Of all tables.
    capacity : int
        Events that a batch may have; a larger punctuation is cut to it.
    operations : int
        That a batch may have, and so a transaction; see `operations_of`.
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
    ring = CHANGES_KEPT + planned
    slots = 1 << (2 * operations - 1).bit_length()

    def column(count: int) -> np.ndarray:
        return reserved(count, np.int64)

    def table(count: int) -> np.ndarray:
        return reserved(max_threads * count, np.int64).reshape(max_threads, count)

    words = padded_cells(WORD_COUNT)
    words[MAX_DELAY] = max_delay_ns
    words[PHASE] = FIRST_PHASE
    words[COPIES_FROM], words[COPIES_TO] = copies.start, copies.stop
    return ControlArrays(
        words=words,
        event=aligned(PARK_EVENT + EVENT_CELL * max_threads, np.int32),
        meter=aligned(max_threads * METER_WORDS, np.int64).reshape(max_threads, METER_WORDS),
        failure=np.zeros(16, np.int64),
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
        nodes=column(4 * min(MOST_NODES, max_threads * NODES)),
        behind=column(capacity),
        links=column(LEVELS * (records + operations) if skip_lists else 0),
        filling=aligned(max_threads * FILLING_WORDS, np.int64).reshape(max_threads, FILLING_WORDS),
        known=table(2 * slots),
        fingers=table(FINGER_WORDS * records if skip_lists else 0),
        part_at=table(BUCKETS + 1),
        base=table(max_threads * max_threads),
        stack=table(capacity),
        lengths=table(LENGTH_CLASSES),
        served=padded_cells(max_threads),
        offers=padded_cells(max_threads),
        rows=np.zeros((configurations, ROW_WORDS), np.int64),
        owner=np.zeros((configurations, BUCKETS), np.int16),
        plan_at=np.full(planned + 1, NEVER),
        plan_config=np.zeros(planned + 1, np.int64),
        unsettled=padded_cells(ring),
        met_at=np.zeros(ring, np.int64),
        installed=np.zeros((ring, 3), np.int64),
        done_at=padded_cells(ring),
    )  # fmt: skip


def write_configuration(c: ControlArrays, row: int, configuration: Configuration, can_split: bool = False) -> None:
    """Fill one row of the tables the executors read."""
    c.rows[row, THREADS] = configuration.threads
    c.rows[row, SCHEME] = _SCHEME_NUMBERS[order_of(configuration.scheme, len(c.table_places) > 0)]
    c.rows[row, SHARING] = _SHARING_NUMBERS[configuration.sharing]
    c.rows[row, PUNCTUATION] = configuration.punctuation
    c.rows[row, FAMILY] = _FAMILY_NUMBERS[family_of(configuration.scheme, can_split)]
    c.owner[row] = configuration.mapping.owners


def plan_configuration(c: ControlArrays, index: int, at: int, configuration: Configuration, can_split: bool = False) -> None:
    """Have configuration row ``index + 1`` come into force before event `at`; `at` must not fall."""
    write_configuration(c, index + 1, configuration, can_split)
    c.plan_at[index], c.plan_config[index] = at, index + 1


def activate(c: ControlArrays, out: Any) -> None:
    """Make the executors of configuration 0 active, before any of them runs."""
    for executor in range(int(c.rows[0, THREADS])):
        publish_cell(c.reading, executor * CELL, FIRST_PHASE)
        rings.start_mark(out, executor, -1, MIN_TIME)


def rows_seen(c: ControlArrays, private: np.ndarray) -> dict[int, int]:
    """Which rows the event at work at an executor sees, where those are not the tables': record -> where it begins.

    Parameters
    ----------
    c : ControlArrays
    private : int64[]
        The executor's words; it does not go on.
    """
    if not private[VERSIONED]:
        return {}
    event = int(private[CAUSE])
    operations = slice(int(c.set_at[event]), int(c.set_at[event] + c.set_size[event]))
    return dict(zip((c.sets[operations] >> 1).tolist(), c.link[operations].tolist(), strict=True))


def family_in_force(c: ControlArrays) -> str:
    """The family of the configuration in force: which loop an executor enters."""
    return FAMILIES[int(c.rows[int(read_cell(c.words, CONFIG)), FAMILY])]


__all__ = [
    "CHAIN_KINDS",
    "SCHEMES",
    "SHARINGS",
    "Configuration",
    "ControlArrays",
    "activate",
    "allocate",
    "family_in_force",
    "family_of",
    "operations_of",
    "plan_configuration",
    "rows_seen",
    "write_configuration",
]
