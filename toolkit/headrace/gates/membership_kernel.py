"""What the kernels of both gates share: the cells, and which threads read, while that may change.

State       VERSION  the seqlock of membership, see `memory.seqlock`
            per reader  READING[r] activation id, 0 = not a reader; COST[r] its
            recent nanoseconds per record
            READERS_WAITING, SOURCES_WAITING with the two events: sleepers
            LOST_WAKEUPS  sleeps of sources that only the time-out ended, though
            the wake-up was due (see `source_kernel`)
Ordering    V1 to V3 of the seqlock around each scan of the readers' cells
                    without it a scan that passed the slot of a joiner before
                    it joined, and its companion after that had gone on, would
                    take for free what the joiner still reads
Progress    One changes membership at a time, by a try-lock; a scan that meets
            a change says so and never waits for its end.
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
LEAST_BOUND_NS = 16_000_000  # so many take no longer, though they be fewer then
FIRST_BOUND = 64  # while nobody knows what a tuple costs: a change that is asked for begins behind them
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

    Of the bound in time that is the cost of those it takes now. Where each meets what came before it, those that wait
    become dearer: so they are never more than it has `read`, but for the first ones.
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
    """End the change, and wake the threads that were turned away by it or may go on now."""
    end_change(g.words, VERSION)
    wake_readers(g)
    wake_sources(g)


@kernel
def wake_readers(g):
    """Wake readers that sleep; call it after publishing."""
    signal(g.words, READERS_WAITING, g.event, DATA_EVENT)


@kernel
def wake_sources(g):
    """Wake sources that sleep; call it after making room, or after the merge flag is free."""
    signal(g.words, SOURCES_WAITING, g.event, SPACE_EVENT)
