"""Names of the cells and columns that instances share: those of `arrays.InstanceArrays`."""

from headrace.memory.atomics import CELL
from headrace.workers.worker_kernel import FIRST_COUNTER, WORKER_WORDS

# Cells of `words`, after the workers' own.
CONFIG = (WORKER_WORDS + 0) * CELL
EPOCH = (WORKER_WORDS + 1) * CELL
BARRIER = (WORKER_WORDS + 2) * CELL
IDS = (WORKER_WORDS + 3) * CELL  # rows of BUCKETS key ids in use: ids are < IDS * BUCKETS
FINISHED = (WORKER_WORDS + 4) * CELL  # instances that have seen the end of input
BATCH_NS = (WORKER_WORDS + 5) * CELL  # nanoseconds that an instance may work on a batch; never changes
TURN = (WORKER_WORDS + 6) * CELL  # changes of the downstream operator that were put into force here
TURN_BARRIER = (WORKER_WORDS + 7) * CELL
WORD_COUNT = WORKER_WORDS + 8

# Counters in `meter`, after the workers' times.
(
    TUPLES,
    UPDATES,
    COMPARISONS,
    BATCHES,
    OUTPUTS,
    PASSED,  # tuples of the merged input before its position
    LOADED,  # how much of the load the buckets have been given (`loads`)
    LOADED_AT,  # when the load was last sampled
) = range(FIRST_COUNTER, FIRST_COUNTER + 8)

# Columns of `layout`: how the keys of a source's tuples are found (`loads`), the width of its store's directory, and
# the counter that measures load.
LOAD_HOW, LOAD_WIDTH, LOAD_METER = range(3)
