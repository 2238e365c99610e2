"""Names for the cells and columns of the workers' shared arrays (`arrays.PlanArrays`) and private words."""

from headrace.memory.atomics import CELL, EVENT_CELL
from headrace.workers.changes_kernel import CHANGE_WORDS
from headrace.workers.worker_kernel import FIRST_COUNTER, MOST_ENTRIES, THREADS

# Cells of `words`, after the workers' own and those of changes.
STARTED = (CHANGE_WORDS + 0) * CELL  # a worker gives, or gave, the first state to the leaves
PLANNED = (CHANGE_WORDS + 1) * CELL  # planned changes so far
PLANNING = (CHANGE_WORDS + 2) * CELL  # a thread installs a planned change
PROMISING = (CHANGE_WORDS + 3) * CELL  # a thread computes what is promised to the collector
OVER = (CHANGE_WORDS + 4) * CELL  # every event is processed, and every result written
DATA_WAITING = (CHANGE_WORDS + 5) * CELL  # workers that wait for events
SPACE_WAITING = (CHANGE_WORDS + 6) * CELL  # inputs that wait for room
LOST_WAKEUPS = (CHANGE_WORDS + 7) * CELL  # see `mailbox_kernel`
RESTS = (CHANGE_WORDS + 8) * CELL  # leaves come to rest whatever they may process: everything is to be joined
HELD = (CHANGE_WORDS + 9) * CELL  # everything is joined: a change of plan or a checkpoint may begin
RESULTS = (CHANGE_WORDS + 10) * CELL  # results written
RELEASED = (CHANGE_WORDS + 11) * CELL  # results released, by the collector; NEVER if none is held back
DUE = (CHANGE_WORDS + 12) * CELL  # planned changes so far, and the change of plan that is due
CLOSED = (CHANGE_WORDS + 13) * CELL  # inputs are called out, and give no rows: everything is to be at rest
QUOTA = (CHANGE_WORDS + 14) * CELL  # events that may be processed before everything comes to rest; NEVER: any number
REST_WAITING = (CHANGE_WORDS + 15) * CELL  # whether a thread waits until the quota is used up
WORD_COUNT = CHANGE_WORDS + 16

# Indices into `signals`.
DATA_EVENT, SPACE_EVENT, REST_EVENT = (k * EVENT_CELL for k in range(3))

# Cells of `input`, of each input.
FRONTIER, ADMITTED = 0, 1
MERGED = CELL
INPUT_CELLS = 2
"""FRONTIER: no later event of the input has a smaller ts; ADMITTED: events published, rows 0 to ADMITTED - 1. They share a
cell: the input's feeder writes both, and threads that check whether more may come read both. MERGED: rows whose place in the
merged input is certain; written by the worker that installs planned changes, while there are any."""

# Columns of `given`, of each input: constants of the run.
WIDTH, FIRST_QUEUE, END_QUEUE, COUNTS = range(4)
GIVEN_WORDS = 8
"""WIDTH of an entry of its store's directory. FIRST_QUEUE to END_QUEUE its queues. COUNTS: planned changes
and checkpoints count its rows; they do not count ticks."""

# Cells of `queue`, of each queue.
TAIL, PENDING, HEAD = (k * CELL for k in range(3))
QUEUE_CELLS = 3
"""TAIL: runs published, PENDING: runs written, by the input's feeder. HEAD: runs consumed."""
AT, DONE_TS, PASSED = HEAD + 1, HEAD + 2, HEAD + 3
"""AT: processed events of the first run; DONE_TS: no unprocessed event of the queue has a smaller ts; PASSED: events processed.
They share the cell of HEAD: the thread that runs the queue's node writes all four, and each cell of its own would be a cache line
more that moves to another core at a join and back at a fork."""
COUNTED = PENDING + 1
"""Events written into the queue; in the cell of PENDING, written by the feeder."""
WAKE_AT = PENDING + 2
"""Value of PASSED at which a feeder that waits for room is woken; in the cell of PENDING, written by the feeder."""

# Columns of `form`, of each queue: constants while a plan is in force.
INPUT, NODE, TAG, FIRST_DEPENDENT, END_DEPENDENT, ENTRY_TAG = range(6)
FORM_WORDS = 8
"""ENTRY_TAG: number that stands for the tag where its events take only the entries of their own key; -1 if they do not."""

# Words of a run: rows FIRST to END - 1 of the input, the ts of the first one, when it was published.
FIRST, END, FIRST_TS, PUBLISHED = range(4)
RUN_WORDS = 4
RUNS = 1 << 12
"""Runs of a queue; a power of two."""

# Columns of `tree`, of each node, in postorder: constants while a plan is in force.
PARENT, LEFT, RIGHT, BELOW, OWN_QUEUES, END_OWN = range(6)
TREE_WORDS = 8
"""BELOW: the nodes below are BELOW to the node's own number. OWN_QUEUES to END_OWN: its part of `owned`."""

# Cells of `node`, of each node.
STATE, RESTING, JOINED = 0, CELL, CELL + 1
NODE_CELLS = 2
"""STATE of a leaf: what it does. RESTING of an inner node: how many of its children are at rest. JOINED of an inner node:
the states of all below are in it, or in the topmost node above it that has JOINED too."""
READY, RUNNING, AT_REST = range(3)

# Cells of `shape`: constants while a plan is in force.
NODES, LEAVES, QUEUES, ROOT, STAYS = range(5)
SHAPE_WORDS = 8
"""STAYS: the state of an inner node may stay joined where few events come between two of its own."""

# Columns of `rows`, a configuration.
REPLANS = THREADS + 1
"""It comes with another plan; a worker does not install it by itself."""

# Columns of `work`, of each node: what was done there, written by the thread that runs it.
EVENTS, JOINS, FORKS, SPENT_NS, SLICES, COPIED, SPARED, STAYED, DECLINED = range(9)
WORK_WORDS = 16
"""COPIED and SPARED: bytes of states that forks and joins moved, and that they left in place. STAYED: turns in which the state
stayed joined. DECLINED: turns left before it may do so again."""

# Columns of `meter`, after the workers' times.
SLICES_RUN, RESTS_IN_VAIN = range(FIRST_COUNTER, FIRST_COUNTER + 2)

# A worker's private words.
(
    KIND,  # of the function that runs
    NUMBER,  # of its tag, or of the node
    POSITION,  # row of the event at work
    SOURCE,  # its input
    OUT_HEAD,  # results written
    COUNT,  # results of the event at work
    ARRIVED,  # when the piece at work was published
    NEXT_LEAF,  # where the next look for a leaf begins
    AT_NODE,  # the node whose state an update has
    SLICE_BEGAN,  # when the slice at work began: at the end of the one before, or 0 after a wait
    ENTRIES_AT,  # the addresses of the generated entries, in the order of `build`
) = range(11)
PIECE = ENTRIES_AT + MOST_ENTRIES
PIECE_WORDS, PIECES = 3, 256
PRIVATE_WORDS = PIECE + PIECE_WORDS * (PIECES + 1)
"""From PIECE on, for each piece of events in a call of an update: its first row, the row behind its last, and when it was
published; behind PIECES of them there is room for one more."""
UPDATE, FORK, JOIN = range(1, 4)
"""What KIND says; 0 while no function is called."""

# Columns of a result, as `give` writes it: those of the ring (`egress.rings`), then its values.
RESULT_TS, RESULT_PLACE, RESULT_NUMBER, RESULT_ARRIVED, FIRST_RESULT_VALUE = range(5)
"""RESULT_PLACE: source and row of the event. RESULT_NUMBER: number among the event's results, from 0. RESULT_ARRIVED: when it was
published."""
