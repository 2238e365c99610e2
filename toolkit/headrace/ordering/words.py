"""Names for the cells and columns of a pipeline's shared arrays (`arrays.PipelineArrays`) and private words."""

from headrace.memory.atomics import CELL
from headrace.workers.changes_kernel import CHANGE_WORDS
from headrace.workers.worker_kernel import FIRST_COUNTER, MOST_ENTRIES, THREADS

# Cells of `words`, after the workers' own and those of changes.
PLANNED = (CHANGE_WORDS + 0) * CELL  # planned changes so far
INGESTING = (CHANGE_WORDS + 1) * CELL  # a worker takes records from the gate
PLACE = (CHANGE_WORDS + 2) * CELL  # place of the next record in the gate
INPUT_OVER = (CHANGE_WORDS + 3) * CELL  # the gate has given its last record
GIVEN = (CHANGE_WORDS + 4) * CELL  # rows written into the result ring
OVER = (CHANGE_WORDS + 5) * CELL  # the last row is among them
BLOCKED = (CHANGE_WORDS + 6) * CELL  # the result ring was full when rows were to be written
TEXTS_ASKED = (CHANGE_WORDS + 7) * CELL  # how often the workers were asked which strings the states hold
TEXTS_TOLD = (CHANGE_WORDS + 8) * CELL  # how often that was answered
TEXTS_AT = (CHANGE_WORDS + 9) * CELL  # as of which event time
WORD_COUNT = CHANGE_WORDS + 10

# Cells of `stage`, of each stage.
TAIL, HEAD, NEXT, DRAINING, WORKERS, PROGRESS, END_AT, TICKETS, LATEST = (k * CELL for k in range(9))
STAGE_CELLS = 9
"""TAIL records appended, HEAD claimed, NEXT drained: serial numbers. DRAINING the drainer's flag. WORKERS at work
there, or ALONE. PROGRESS: no later record comes from an earlier event time of the input. END_AT: the serial number of the end
of the stream, NEVER while it is not known. TICKETS: with the lock, the next ticket to drain; DRAINING is the one that is
served. LATEST: event time of the record appended last, of a stage that needs time."""

# Columns of `form`, of each stage: constants of the run.
(
    KIND,
    RING,  # first word of its input in `arena`
    STRIDE,  # words of an input record
    MASK,  # records that the ring holds, - 1
    SLOTS,  # its first slot
    OUT_STRIDE,  # words of an output record
    BUCKETS,  # first bucket
    BUCKET_COUNT,
    KEY,  # word of the key in a record
    QUEUE,  # first word of its buckets' queues, where workers take buckets
    MOST,  # workers at once
    QUEUES,  # how workers share a partitioned stage
    REORDER,  # how workers take turns to drain: NONBLOCKING or LOCKED
    NEEDS_TIME,  # event times must not go back
    RANGES,  # the first of its boundaries in `bounds`, + 1; 0: keys are hashed into its buckets
    MAY_BE_ALONE,  # a worker may take all its buckets at once, where that is faster
) = range(16)
FORM_WORDS = 16

ALONE = 1 << 32 | 1
"""In WORKERS: one worker, which keeps out all others."""
A_COUNT = (1 << 32) - 1
"""The bits of WORKERS that say how many there are."""

STATELESS, PARTITIONED, STATEFUL = range(3)
HYBRID, BY_PARTITION, SHARED = range(3)
NONBLOCKING, LOCKED = range(2)

# Words of a slot: what became of one claim, or of one tuple of a partitioned stage.
DONE, WIDTH, BLOCK, CLASS, COUNT, PASSED = range(6)
SLOT_WORDS = 8

# A word of `tickets`: a record's number within its bucket, modulo 2**TICKET_BITS, and the bucket in the bits above.
TICKET_BITS = 32
TICKET = (1 << TICKET_BITS) - 1

# Words of a bucket.
CLAIMED, SERVED, BUSY = range(3)
BUCKET_WORDS = 16

# Words of a record in a ring, before its columns.
TS, ORIGIN, AT, BEGUN, REF, NULLS, FIRST_COLUMN = range(7)

# Columns of `rows`, a configuration.
SCHEDULE, BATCH = range(THREADS + 1, THREADS + 3)

QST, LP, ET, CT, FIXED, OWN = range(6)
MOST_BATCH = 256

YIELD_EVERY = 200
"""A worker that waits for its turn yields the core after this many checks."""

# Columns of `meter`, after the workers' times.
DECISIONS, FALLBACKS, SLICES = range(FIRST_COUNTER, FIRST_COUNTER + 3)

# Columns of `work`, of each worker and stage.
TUPLES, OUTPUTS, SPENT_NS, DELEGATED, BATCHES, SIZE = range(6)
WORK_WORDS = 8
"""SIZE: the class of a block that would have held the outputs of the last claim."""

# Columns of `known`, of each stage: what is learned during the run. In the last row WINDOW_NS is when the window began.
COST, WINDOW_NS, TAKEN, MADE = range(4)
KNOWN_WORDS = 16
COST_UNIT = 64
"""The cost of a tuple is kept in 64ths of a nanosecond."""

# A worker's private words.
(
    # One load of words that were just written separately would stall: so STAGE, FIRST and LAST are not adjacent.
    STAGE,  # at work
    POSITION,  # of the record at work
    FIRST,  # of the records that its function is called for
    OUT_AT,  # where in the arena the next output goes
    LAST,  # the one after them
    OUT_LIMIT,
    OUT_BLOCK,
    OUT_CLASS,
    TURN,  # where it begins to look for a bucket
    HOLDS,  # 1: the worker holds DRAINING of the stage whose outputs it writes
    CLAIMED_NS,  # when the records at work were claimed, of the first stage
    CHOOSING,  # the stage about which the user's own schedule is asked, + 1; 0: none
    YIELDED_NS,  # when it last yielded its core between two visits of stages
    ENTRIES_AT,  # the addresses of the generated entries, in the order of `build`
) = range(14)
TICKETS_COPIED = ENTRIES_AT + MOST_ENTRIES
PRIVATE_WORDS = TICKETS_COPIED + MOST_BATCH

# Words of `failure`: code.
NULL_KEY, OUT_OF_ORDER = 1, 2
