"""What the kernels of both gates share: the cells, and who reads while that may change.

State       VERSION  odd while membership changes (a seqlock)
            per reader  READING[r] activation id, 0 = not a reader; COST[r] its
            recent nanoseconds per record
            READERS_WAITING, SOURCES_WAITING with the two events: who sleeps
            LOST_WAKEUPS  sleeps of sources that only the time-out ended, though
            the wake-up was due (see `source_kernel`)
Ordering    V1 (scan) VERSION even, read the readers' cells, VERSION the same
                    without it a scan that passed the slot of a joiner before
                    it joined, and its companion after that had gone on, would
                    take for free what the joiner still reads
Progress    One changes membership at a time, by a try-lock; a scan that meets
            a change says so and never waits for its end.
Checked     tests/headrace/gates (both gates), tests/litmus
"""

import numpy as np

from headrace.kernel import kernel
from headrace.memory.atomics import CELL, compare_exchange, fetch_add, load_acquire, load_relaxed
from headrace.memory.event_count import signal

HEARTBEAT = -1
SOURCE_SHIFT = 48
ROW_MASK = (1 << SOURCE_SHIFT) - 1

# Cells of `words` that both gates have.
VERSION = 3 * CELL
READERS_WAITING = 6 * CELL
SOURCES_WAITING = 7 * CELL
BOUND = 8 * CELL  # tuples that may wait for the slowest reader
BOUND_NS = 9 * CELL  # the same in time: nanoseconds of its work; 0 = no such bound
LOST_WAKEUPS = 12 * CELL
WORD_COUNT = 13

# Indices into `event` (int32), a cache line apart.
DATA_EVENT = 0
SPACE_EVENT = 32

LEAST_BOUND = 16
NOTHING = np.iinfo(np.int64).max


@kernel
def smallest_of_readers(g, at):
    """Smallest of the active readers' cells in `at`, and their largest cost; NOTHING if nobody reads."""
    smallest = NOTHING
    slowest = 0
    for r in range(g.reading.size // CELL):
        if load_acquire(g.reading, r * CELL) != 0:
            smallest = min(smallest, load_acquire(at, r * CELL))
            slowest = max(slowest, load_relaxed(g.cost, r * CELL))
    return smallest, slowest


@kernel
def slowest_reader(g, at):
    """`smallest_of_readers` as of one moment; -1 if nobody reads, or if membership changes just now.

    The end of that change wakes those who found no room.
    """
    before = load_acquire(g.words, VERSION)  # V1
    smallest, slowest = smallest_of_readers(g, at)
    if smallest == NOTHING or before & 1 != 0 or load_acquire(g.words, VERSION) != before:
        return -1, 0
    return smallest, slowest


@kernel
def tuples_allowed(g, cost, sources):
    """How many tuples of each of `sources` may wait for a reader that takes `cost` ns for each: the smaller bound."""
    allowed = load_relaxed(g.words, BOUND)
    target = load_relaxed(g.words, BOUND_NS)
    if target > 0 and cost > 0:
        allowed = min(allowed, max(LEAST_BOUND, target // cost // sources))
    return allowed


@kernel
def begin_change(words):
    """Make VERSION odd. False if somebody else changes membership now."""
    version = load_acquire(words, VERSION)
    return version & 1 == 0 and compare_exchange(words, VERSION, version, version + 1)


@kernel
def open_membership(g):
    """Begin a change of who feeds and who reads; see `begin_change`."""
    return begin_change(g.words)


@kernel
def close_membership(g):
    """Make VERSION even again, and wake who found it odd or may go on now."""
    fetch_add(g.words, VERSION, 1)
    wake_readers(g)
    wake_sources(g)


@kernel
def wake_readers(g):
    """After there is something to read."""
    signal(g.words, READERS_WAITING, g.event, DATA_EVENT)


@kernel
def wake_sources(g):
    """After there is room, or the merge flag is free."""
    signal(g.words, SOURCES_WAITING, g.event, SPACE_EVENT)
