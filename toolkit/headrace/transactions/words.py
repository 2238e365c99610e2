"""Names for the cells and columns of the executors' shared arrays (`arrays.ExecutorArrays`) and private words."""

from headrace.memory.atomics import CELL
from headrace.workers.worker_kernel import FIRST_COUNTER, MOST_ENTRIES, THREADS, WORKER_WORDS

# Cells of `words`, after the workers' own.
CONFIG = (WORKER_WORDS + 0) * CELL  # row in force
PHASE = (WORKER_WORDS + 1) * CELL  # barriers passed so far
ARRIVED = (WORKER_WORDS + 2) * CELL  # executors at the next barrier
COUNT = (WORKER_WORDS + 3) * CELL  # events of the batch as accepted
FIT = (WORKER_WORDS + 4) * CELL  # events of the batch that are executed
SEEN = (WORKER_WORDS + 5) * CELL  # events before the batch
PLACE = (WORKER_WORDS + 6) * CELL  # of the batch's first record in the gate
END_PLACE = (WORKER_WORDS + 7) * CELL  # of the first record behind it
BEAT = (WORKER_WORDS + 8) * CELL  # time of a heartbeat behind its last event
OVER = (WORKER_WORDS + 9) * CELL  # the input has ended
FINISHED = (WORKER_WORDS + 10) * CELL  # executors that have seen the end of input
CHANGE = (WORKER_WORDS + 11) * CELL  # changes so far
PLANNED = (WORKER_WORDS + 12) * CELL  # planned changes among them
REQUEST = (WORKER_WORDS + 13) * CELL  # requested row, + 1; 0: none
PAUSE = (WORKER_WORDS + 14) * CELL  # ticket of the thread that wants the executors to pause (odd), or to go on (even)
PAUSED = (WORKER_WORDS + 15) * CELL  # the ticket for which they pause
NARROW = (WORKER_WORDS + 16) * CELL  # the next batch has one event: it may need all room for key sets
MAX_DELAY = (WORKER_WORDS + 17) * CELL  # nanoseconds
RESTING = (WORKER_WORDS + 18) * CELL  # when the leader of this punctuation first had nothing to do, 0: not yet
CURSOR = (WORKER_WORDS + 19) * CELL  # the next of what executors share; CURSOR_2: of a second group of them
CURSOR_2 = (WORKER_WORDS + 20) * CELL
TURN = (WORKER_WORDS + 21) * CELL  # the event that takes its places in the queues next
TASKS = (WORKER_WORDS + 22) * CELL  # `speculation_kernel` says what these are
SETTLED = (WORKER_WORDS + 23) * CELL
CURTAILED = (WORKER_WORDS + 24) * CELL
PREFIX = (WORKER_WORDS + 25) * CELL  # events of a curtailed batch that are settled
COPIES_FROM = (WORKER_WORDS + 26) * CELL  # where in the rows' memory copies begin,
COPIES_TO = (WORKER_WORDS + 27) * CELL  # and where they end
ABORTED = (WORKER_WORDS + 28) * CELL  # executions of a batch that were not valid
SNAPSHOT_AT = (WORKER_WORDS + 29) * CELL  # events before the next regular snapshot; 0: none
HUNGRY = (WORKER_WORDS + 30) * CELL  # executors with nothing to do, which would take a ready event of another one
WORD_COUNT = WORKER_WORDS + 31

EXECUTE_AT, VALIDATE_AT, LOWERED = CURSOR, CURSOR_2, TURN
"""What speculation uses these for: they are 0 when a batch begins."""

NO_EVENT = -1
"""The current event of an executor that waits for others before it may take one: it is in no user function."""

OUT_OF_EVENTS, STOP_SEEN = -1, -2
"""What an executor gets instead of the next event of a transaction that runs whole: none is left; the run stops."""

FIRST_PHASE = 1
"""An executor is activated with the number of the phase that it begins in: never 0."""

# Columns of `rows`.
SCHEME, SHARING, PUNCTUATION, FAMILY = range(THREADS + 1, THREADS + 5)

CHAINS, LOCK, MVLK, PARTITION, NONE, SERIAL, SPECULATIVE = range(7)
SHARED_NOTHING, SHARED_EVERYTHING, SHARED_SOCKET = range(3)
WHOLE, OPERATIONS, SPECULATION = range(3)
FAMILIES = ("whole", "operations", "speculative")

# Columns of `meter`, after the workers' times.
(
    EVENTS,
    BATCHES,
    ROWS,  # written into its ring
    NOTED,  # operations of its key sets
    PREPARE_NS,  # key sets, and what a scheme makes of them
    LOCK_NS,  # waiting for another transaction
    POST_NS,
    VERSIONS,  # of rows, that it began
) = range(FIRST_COUNTER, FIRST_COUNTER + 8)

# The word of an operation: event << EVENT_SHIFT | turn of its loop << TURN_SHIFT | site.
TURN_SHIFT = 8
EVENT_SHIFT = 42
MOST_SITES = 1 << TURN_SHIFT
MOST_TURNS = 1 << EVENT_SHIFT - TURN_SHIFT
"""More than the operations that a batch has room for."""

RECORD_WORDS = 4
"""Words of each record, in `locks` and in `tails`."""
FIRST_RECORD, ROWS_AT, ROW_SIZE = range(3)
"""Columns of `table_places`: a row for each table, and the last one for the versions of rows behind the tables."""
FILLING_WORDS = 32

# Columns of `filling` of an executor that speculates (`multiversion_kernel`); those of key sets are the first ones.
(
    TAG,  # of the batch; 0: rows are found in the tables
    BLOCKED,  # what ends the execution
    BLOCKER,  # the event whose estimate it was
    COPY_AT,  # where the next copy goes,
    COPY_END,
    NODE_AT,  # the next node,
    NODE_END,
    POLLS,  # turns of loops
    EXECUTIONS,  # so far
    VALIDATIONS,
    ABORTS,
    ALONE,  # events executed in place, after the settled part of a curtailed batch
) = range(16, 28)
COMBINING, COMBINED, LEFT_BEFORE, REST = range(28, 32)
"""Columns of `filling` of executors that leave out what is overwritten (`combining_kernel`)."""
PIECE = 256
"""Operations of chains that an executor lines up at a time, behind those of all slices in `entries`."""
LENGTH_CLASSES = 64
"""Of `lengths`: a record with n operations in a batch counts in class (bits of n)."""

# Words of `failure`: code.
TOO_MANY_OPERATIONS = 1

# An executor's private words.
(
    HEAD,  # results written
    AT_PHASE,  # barriers that it has passed
    CAUSE,  # the current event, by its index in the batch; or NO_EVENT
    SLICE_FIRST,  # its slice of the batch as accepted,
    SLICE_LAST,
    NEXT,  # the events that only it may take: from here
    LAST,  # to here
    DEPTH,  # of its stack
    PART,  # whose part of the batch it goes through
    WATERMARK,
    ACTIVATION,  # the phase in which it was activated; 0: parked
    CHANGE_SEEN,  # changes that it has seen, + 1
    VERSIONED,  # whether the current batch is executed on versions of rows
    EXPECTED,  # the operation whose row will be opened next, probably
    EXPECTED_END,  # one past the last operation of its event
    ENTRIES_AT,  # the addresses of the operator's entries, in the order of `build`
) = range(16)

FREE = ENTRIES_AT + MOST_ENTRIES  # the operator's own words begin here

PRIVATE_WORDS = 64
"""Of an executor, at least: no other one shares a cache line of them."""
