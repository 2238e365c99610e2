"""What the kernels of both gates share: the cells, and scans of the readers, whose membership may change.

State       VERSION  the seqlock of membership, see `memory.seqlock`
            per reader  READING[r] activation id, 0 = not a reader; COST[r] its
            recent nanoseconds per record
            READERS_WAITING, SOURCES_WAITING with the two events: sleepers
            LOST_WAKEUPS  sleeps of sources that only the time-out ended, though
            the wake-up was due (see `source_kernel`)
Ordering    V1 to V3 of the seqlock around each scan of the readers' cells
                    without it a scan could read the cells of a joiner before it
                    joined, and those of the reader at whose place it joins after
                    that one had gone on; it would take for free what the joiner
                    still reads
Progress    One thread at a time changes membership, by a try-lock; a scan that
            meets a change reports it and never waits for its end.
Checked     tests/headrace/gates (both gates), tests/litmus
"""

import numpy as np

from headrace.kernel import kernel
from headrace.memory.atomics import CELL, EVENT_CELL, load_acquire, load_relaxed
from headrace.memory.event_count import signal
from headrace.memory.seqlock import begin_change, begin_scan, end_change, is_whole

# Cells of `words` that both gates have.
VERSION = 3 * CELL
READERS_WAITING = 6 * CELL
SOURCES_WAITING = 7 * CELL
BOUND = 8 * CELL  # tuples that may wait for the slowest reader
BOUND_NS = 9 * CELL  # the same in time: nanoseconds of its work; 0 = no such bound
LOST_WAKEUPS = 12 * CELL
WORD_COUNT = 16  # the last three: see `log_words`

# Indices into `event` (int32), a cache line apart.
DATA_EVENT = 0
SPACE_EVENT = EVENT_CELL

LEAST_BOUND = 16
LEAST_BOUND_NS = 16_000_000  # fewer than LEAST_BOUND may be allowed where so many take longer than this
FIRST_BOUND = 64  # while the cost of a tuple is unknown: a requested change begins after these tuples
NOTHING = np.iinfo(np.int64).max


@kernel
def smallest_of_readers(g, at):
    """The smallest of the active readers' cells in `at` (NOTHING if there are none), and their largest cost."""
    smallest = NOTHING
    slowest = 0
    for r in range(g.reading.size // CELL):
        if load_acquire(g.reading, r * CELL) != 0:
            smallest = min(smallest, load_acquire(at, r * CELL))
            slowest = max(slowest, load_relaxed(g.cost, r * CELL))
    return smallest, slowest


@kernel
def slowest_reader(g, at):
    """`smallest_of_readers` as of one moment; -1 if no reader is active, or if membership is changing.

    The end of that change wakes the sources that found no room.
    """
    before = begin_scan(g.words, VERSION)
    smallest, slowest = smallest_of_readers(g, at)
    if smallest == NOTHING or not is_whole(g.words, VERSION, before):
        return -1, 0
    return smallest, slowest


@kernel
def tuples_allowed(g, cost, sources, read):
    """How many tuples of each of `sources` may wait for a reader that takes `cost` ns for each: the smaller bound.

    The bound in time uses the reader's present cost per tuple. Where a tuple is compared with those before it, the waiting
    tuples will cost more. So, except at the beginning, no more may wait than it has `read`.
    """
    allowed = load_relaxed(g.words, BOUND)
    target = load_relaxed(g.words, BOUND_NS)
    if target > 0:
        in_time = FIRST_BOUND
        if cost > 0:
            least = max(1, min(LEAST_BOUND, LEAST_BOUND_NS // cost // sources))
            in_time = min(max(least, target // cost // sources), max(FIRST_BOUND, read))
        allowed = min(allowed, in_time)
    return allowed


@kernel
def open_membership(g):
    """Begin a change of sources or readers. False if another thread changes them now."""
    return begin_change(g.words, VERSION)


@kernel
def close_membership(g):
    """End the change, and wake the threads that it turned away or that may go on now."""
    end_change(g.words, VERSION)
    wake_readers(g)
    wake_sources(g)


@kernel
def wake_readers(g):
    """Wake readers that sleep; call it after publishing."""
    signal(g.words, READERS_WAITING, g.event, DATA_EVENT)


@kernel
def wake_sources(g):
    """Wake sources that sleep; call it after making room, or after freeing the merge flag."""
    signal(g.words, SOURCES_WAITING, g.event, SPACE_EVENT)
