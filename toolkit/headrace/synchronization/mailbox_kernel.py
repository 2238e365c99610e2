"""Mailboxes: the events of each input that wait at each node, and which of them may be processed next.

A *queue*, or mailbox, holds the events of one input and one tag that one node of the plan processes: runs
of rows, which stay in the input's store. All events are ordered by *rank* (ts, input, row).
Dependence is a relation between tags. The *dependents* of a queue are those queues of its node, of the
nodes above and of the nodes below whose tags depend on its tag (by validity V2, no other queue can).

Rule        An event may be processed once no dependent queue has, or may get, an unprocessed event of
            smaller rank: `limit_of`. For a queue with events, its first event counts. An empty queue may get
            the next event of its input, whose ts is not below FRONTIER, and whose row is not below ADMITTED.
Invariants  I1  the runs of a queue are in row order, and so in rank order
            I2  only the input's feeder writes PENDING, COUNTED, WAKE_AT, TAIL, ADMITTED, FRONTIER, and runs from
                TAIL on; only the thread that runs the queue's node writes HEAD, AT, DONE_TS, PASSED
            I3  the thread that runs a node reads queues of the node, of nodes above it, which run only when
                it is at rest (`tree_kernel`), and of nodes below, which are at rest: no other thread moves their HEAD
            I4  the queued event of smallest rank may be processed as soon as every FRONTIER is beyond it:
                progress needs no more than that the inputs go on
            I5  rows of an input are numbered from 0 in the order they are given; published rows are below ADMITTED
            I6  the store keeps the rows of an input from the first one on that is not processed, or whose place
                among all inputs a planned change still needs (`first_kept`): no thread reads earlier rows
Ordering    F1 runs are written, F2 store_release TAIL of every queue written to, then ADMITTED, F3 store_release
            FRONTIER; L0 load_acquire ADMITTED, L1 load_acquire FRONTIER, L2 load_acquire TAIL
                    a thread that sees a frontier sees all events before it in the queues: an empty queue has none. Tails
                    are published one after the other, so a thread may see a later event in one queue of an input before
                    an earlier one in another: if both have the same ts, ADMITTED shows that the later one must wait
            M1 results are written, M2 the ring's head is published (`tree_kernel.process`), M3 store_release HEAD or
            DONE_TS; P1 load_acquire FRONTIER, P2 TAIL, P3 HEAD, DONE_TS, P4 the promise (`plan_kernel`)
                    a queue that P2 and P3 find empty had, at P1, no unprocessed event below FRONTIER, nor one
                    of that ts with a row below ADMITTED, which was read before (L0); any other queue has none below
                    DONE_TS, nor before the first row of its first run. So the promise to the collector
                    is never ahead of a result that is not written
            S0 WAKE_AT of the input's queues, S1 SPACE_WAITING += 1 (`prepare`: a fence), S2 try again, S3 sleep; G1 PASSED,
            a FRONTIER, RELEASED or MERGED moves, or CLOSED is set, G2 fence, G3 SPACE_WAITING is read (`signal`): after
            PASSED only if it is at WAKE_AT or beyond, after FRONTIER or RELEASED only if too many results were held back
                    one of the two fences comes first: S2 sees the room, or G3 sees the waiting input and its WAKE_AT. S2 reads
                    RESULTS before the words that may move: if it misses a move, G3 reads as many results, or more
            K1 load_acquire HEAD of an input's queues, K2 the feeder, which alone writes runs, frees the rows before
            the first run                           M3 -> K1: the reader of a row is done with it
            K3 load_acquire PLANNED, K4 MERGED      the counting thread reads rows from MERGED on, which only
                                                    grows, and none once PLANNED says that nothing is left
            B1 fetch_add RESULTS, before M3 (`tree_kernel.process`); B2 RELEASED
                    the results of processed events are counted, so no more are held back than counted
Bounded     Waiting events, by `CAPACITY` events of each input and `RUNS` runs of each queue. Kept rows, by `SPAN` rows of
            each input from its first kept one on (I6), so up to that many later events of an input may pass
            one that has to wait. Results held back (for the order of events only), by `MOST_RESULTS`: beyond
            that, an input waits unless its FRONTIER is the smallest.
Progress    Before a feeder waits for room it publishes what it wrote (F2, F3). A wake-up every few events would cost more
            than the events do, so it sleeps until half of the events of one of its queues are processed, at the latest
            until a queue is empty: WAKE_AT is the value of PASSED at which it is woken. Inputs do not wait for each other
            in a cycle. Let e be the queued event of smallest rank. An input that waits for room in queues, or
            for its span, has a queued event of rank >= e, so its next event is beyond e. An input that waits for
            results to be released has a FRONTIER above the smallest; the input of the smallest FRONTIER does not wait
            for them. If that FRONTIER is below e, its input has no queued event and no kept row: it may go on, and
            if it is silent, the order of results waits for it. Otherwise e is below all events to come, and is
            processed (I4). If no queue has an event, the input of smallest FRONTIER has all its rows
            MERGED, and may go on. Each of these moves is signalled (G1 to G3).
Source      Kallas, Niksic, Stanford and Alur, "Stream Processing with Dependency-Guided Synchronization",
            section 3.4; heartbeats are FRONTIER
Checked     tests/headrace/synchronization
"""

from headrace.ingress.store import CHUNK, TS
from headrace.ingress.store_kernel import entry_of, place_of
from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    fence,
    fetch_add,
    load_acquire,
    load_relaxed,
    now_ns,
    store_relaxed,
    store_release,
    view_i64,
)
from headrace.memory.event_count import LOST_NS, cancel, doze, prepare, signal
from headrace.progress import END_OF_TIME, NEVER
from headrace.references import SOURCE_SHIFT
from headrace.synchronization.words import (
    ADMITTED,
    AT,
    CLOSED,
    COUNTED,
    COUNTS,
    DATA_EVENT,
    DATA_WAITING,
    DONE_TS,
    END,
    END_DEPENDENT,
    END_QUEUE,
    FIRST,
    FIRST_DEPENDENT,
    FIRST_QUEUE,
    FIRST_TS,
    FRONTIER,
    HEAD,
    INPUT,
    INPUT_CELLS,
    LOST_WAKEUPS,
    MERGED,
    PASSED,
    PENDING,
    PLANNED,
    PUBLISHED,
    QUEUE_CELLS,
    QUEUES,
    RELEASED,
    RESULTS,
    RUN_WORDS,
    RUNS,
    SPACE_EVENT,
    SPACE_WAITING,
    TAIL,
    WAKE_AT,
    WIDTH,
)

CAPACITY = 1 << 18
"""Events of an input that may wait in queues. Where they cost next to nothing, two leaves process a quarter of this many in
80 us, which is less than an input's thread takes to sleep and to wake: with that capacity, they did 0.7 times as much."""
SPAN = 1 << 20
"""Rows of an input that may be kept, from the first one that is not processed on."""
MOST_RESULTS = 1 << 20
"""Results that may be held back before inputs that are ahead of others wait."""
FEW = 8
BLOCK = 64
"""Events compared one by one, and then together, to find where a stretch of one queue ends."""
NEAR = 2
"""Rows looked at one by one before a search of the others in steps that double, and then in halves."""
SAID = 16
"""One publication in so many, and the last, wake workers that wait for events: a woken thread finds the events of all
publications."""
ROOM_WAIT_NS = 2_000_000


@kernel
def input_cell(i, what):
    return i * (INPUT_CELLS * CELL) + what


@kernel
def queue_cell(q, what):
    return q * (QUEUE_CELLS * CELL) + what


@kernel
def run_of(q, number):
    """Where a run of a queue is."""
    return (q * RUNS + (number & (RUNS - 1))) * RUN_WORDS


# -- what a feeder does


@kernel
def publish_events(c, i, ts, count):
    """F2, F3: publish what was written, `count` events, and that no later event has a smaller ts or row.

    True if anything changed: workers that wait for events must be woken.
    """
    for q in range(c.given[i, FIRST_QUEUE], c.given[i, END_QUEUE]):
        tail = c.queue[queue_cell(q, PENDING)]
        if tail != load_relaxed(c.queue, queue_cell(q, TAIL)):
            store_release(c.queue, queue_cell(q, TAIL), tail)  # F2
    store_release(c.input, input_cell(i, ADMITTED), load_relaxed(c.input, input_cell(i, ADMITTED)) + count)
    if ts > load_relaxed(c.input, input_cell(i, FRONTIER)):
        store_release(c.input, input_cell(i, FRONTIER), ts)  # F3, G1
        fence()  # G2
        if load_acquire(c.words, RESULTS) - load_acquire(c.words, RELEASED) > MOST_RESULTS:
            signal(c.words, SPACE_WAITING, c.signals, SPACE_EVENT)  # G3
        return True
    return count > 0


@kernel
def first_kept(c, i):
    """The first row of the input that is still needed. Called by the feeder, or with its lock."""
    row = load_relaxed(c.input, input_cell(i, ADMITTED))
    for q in range(c.given[i, FIRST_QUEUE], c.given[i, END_QUEUE]):
        head = load_acquire(c.queue, queue_cell(q, HEAD))  # K1
        if head < c.queue[queue_cell(q, PENDING)]:
            row = min(row, c.runs[run_of(q, head) + FIRST])
    if load_acquire(c.words, PLANNED) < c.plan_at.size - 1:  # K3
        row = min(row, load_acquire(c.input, input_cell(i, MERGED)))  # K4
    return row


@kernel
def is_ahead(c, i):
    """Whether another input's next event may have a smaller ts."""
    frontier = load_relaxed(c.input, input_cell(i, FRONTIER))
    for other in range(c.given.shape[0]):
        if load_acquire(c.input, input_cell(other, FRONTIER)) < frontier:
            return True
    return False


@kernel
def room_for(c, i):
    """Events of the input that there is room for, in its queues, in its store, and for their results."""
    results = load_acquire(c.words, RESULTS)  # first: who moves RELEASED after this look at it sees as many, or more
    if results - load_acquire(c.words, RELEASED) > MOST_RESULTS and is_ahead(c, i):
        return 0
    waiting = 0
    for q in range(c.given[i, FIRST_QUEUE], c.given[i, END_QUEUE]):
        waiting += c.queue[queue_cell(q, COUNTED)] - load_acquire(c.queue, queue_cell(q, PASSED))
    kept = load_relaxed(c.input, input_cell(i, ADMITTED)) - first_kept(c, i)
    return min(CAPACITY - waiting, SPAN - kept)


@kernel
def end_of_same(queues, at, end):
    """Where the stretch of events from `at` on that go into one queue ends."""
    q = queues[at]
    at += 1
    few = min(end, at + FEW)
    while at < few and queues[at] == q:
        at += 1
    if at < few:
        return at
    while at + BLOCK <= end:
        differ = 0
        for k in range(BLOCK):
            differ |= queues[at + k] ^ q
        if differ != 0:
            break
        at += BLOCK
    while at < end and queues[at] == q:
        at += 1
    return at


@kernel
def add(c, i, ts, queues, start, count, first_row, heartbeat):
    """Put events into their queues.

    Parameters
    ----------
    c : PlanArrays
    i : int
        Input.
    ts : int64[n]
    queues : int32[n]
        Queue of each event; below 0: the event was processed before (`resuming`), and is only counted.
    start, count : int
        Which of them.
    first_row : int
        Row of the first one in the input's store; the others follow.
    heartbeat : int
        Events between two publications.

    Returns
    -------
    int
        How many were taken. Never blocks.
    """
    count = min(count, room_for(c, i))
    taken, said = 0, 0
    published = now_ns()
    while taken < count:
        before = taken
        limit = min(count, taken + heartbeat)
        while taken < limit:
            q = queues[start + taken]
            length = end_of_same(queues, start + taken, start + limit) - start - taken
            if q < 0:
                taken += length
                continue
            place = queue_cell(q, PENDING)
            number = c.queue[place]
            if number - load_acquire(c.queue, queue_cell(q, HEAD)) >= RUNS:
                limit = -1
                break
            at = run_of(q, number)
            c.runs[at + FIRST] = first_row + taken  # F1
            c.runs[at + END] = first_row + taken + length
            c.runs[at + FIRST_TS] = ts[start + taken]
            c.runs[at + PUBLISHED] = published
            c.queue[place] = number + 1
            c.queue[queue_cell(q, COUNTED)] += length
            taken += length
        if taken > before:
            publish_events(c, i, ts[start + taken - 1], taken - before)
            if said % SAID == 0:
                signal(c.words, DATA_WAITING, c.signals, DATA_EVENT)
            said += 1
        if limit < 0:
            break
    if taken > 0:
        signal(c.words, DATA_WAITING, c.signals, DATA_EVENT)  # for the publications that did not signal
    return taken


@kernel
def say_when(c, i):
    """S0: have the thread that runs a node wake the input once half of a queue's events are processed."""
    for q in range(c.given[i, FIRST_QUEUE], c.given[i, END_QUEUE]):
        passed = load_acquire(c.queue, queue_cell(q, PASSED))
        waiting = c.queue[queue_cell(q, COUNTED)] - passed
        store_relaxed(c.queue, queue_cell(q, WAKE_AT), passed + (waiting + 1) // 2 if waiting > 0 else NEVER)


@kernel
def is_due(c, i):
    """Whether enough events are processed to wake the input."""
    for q in range(c.given[i, FIRST_QUEUE], c.given[i, END_QUEUE]):
        if load_acquire(c.queue, queue_cell(q, PASSED)) >= load_relaxed(c.queue, queue_cell(q, WAKE_AT)):
            return True
    return False


@kernel
def passed_of(c, i):
    """Events of the input that are processed."""
    passed = 0
    for q in range(c.given[i, FIRST_QUEUE], c.given[i, END_QUEUE]):
        passed += load_acquire(c.queue, queue_cell(q, PASSED))
    return passed


@kernel
def add_or_wait(c, i, ts, queues, start, count, first_row, heartbeat, stop):
    """Put events into their queues; if none fits, sleep until some may.

    Returns
    -------
    int
        How many were taken; 0 after a sleep, when inputs are called out, or when the run stops: call again, or end.
    """
    taken = add(c, i, ts, queues, start, count, first_row, heartbeat)
    if taken == 0 and count > 0:
        say_when(c, i)  # S0
        ticket = prepare(c.words, SPACE_WAITING, c.signals, SPACE_EVENT)  # S1
        before, passed = room_for(c, i), passed_of(c, i)
        taken = add(c, i, ts, queues, start, count, first_row, heartbeat)  # S2
        if taken == 0 and load_acquire(stop, 0) == 0 and load_acquire(c.words, CLOSED) == 0:
            timed_out = doze(c.signals, SPACE_EVENT, ticket, ROOM_WAIT_NS)  # S3
            # The thread that made room may not have reached G2 yet; if that takes long, the wake-up was lost.
            is_owed = timed_out and (is_due(c, i) or (room_for(c, i) > before and passed_of(c, i) == passed))
            if is_owed and doze(c.signals, SPACE_EVENT, ticket, LOST_NS):
                fetch_add(c.words, LOST_WAKEUPS, 1)
        cancel(c.words, SPACE_WAITING)
        for q in range(c.given[i, FIRST_QUEUE], c.given[i, END_QUEUE]):
            store_relaxed(c.queue, queue_cell(q, WAKE_AT), NEVER)  # it is awake: workers need not wake it
    return taken


@kernel(keep_gil=True)
def call_out(c):
    """Make inputs that wait for room return, and keep others from waiting for it: the plan is about to change."""
    store_release(c.words, CLOSED, 1)  # G1
    signal(c.words, SPACE_WAITING, c.signals, SPACE_EVENT)  # G2, G3


@kernel
def promise(c, i, ts):
    """No later event of the input has a smaller ts. Always taken."""
    if publish_events(c, i, ts, 0):
        signal(c.words, DATA_WAITING, c.signals, DATA_EVENT)
    return 1


@kernel
def release_results(c, count):
    """B2: publish how many results are released in all. Called by the collector."""
    before = load_relaxed(c.words, RELEASED)
    store_release(c.words, RELEASED, count)  # G1
    fence()  # G2
    if load_acquire(c.words, RESULTS) - before > MOST_RESULTS:
        signal(c.words, SPACE_WAITING, c.signals, SPACE_EVENT)  # G3


# -- what the thread that runs a node sees


@kernel
def ts_of(c, x, i, row):
    """The ts of an unprocessed row."""
    return view_i64(x[i, entry_of(row, c.given[i, WIDTH]) + TS], CHUNK)[place_of(row)]


@kernel
def first_of(c, q):
    """The rank of a queue's first event, or of the next it may get: ts, and input and row in one word. And whether it exists."""
    i = c.form[q, INPUT]
    row = load_acquire(c.input, input_cell(i, ADMITTED))  # L0
    frontier = load_acquire(c.input, input_cell(i, FRONTIER))  # L1
    tail = load_acquire(c.queue, queue_cell(q, TAIL))  # L2
    head = c.queue[queue_cell(q, HEAD)]
    if head == tail:
        return frontier, (i << SOURCE_SHIFT) | row, False
    run, at = run_of(q, head), c.queue[queue_cell(q, AT)]
    ts = c.runs[run + FIRST_TS] if at == 0 else load_relaxed(c.queue, queue_cell(q, DONE_TS))  # as `pass_rows` left it
    return ts, (i << SOURCE_SHIFT) | (c.runs[run + FIRST] + at), True


@kernel
def limit_of(c, q):
    """The smallest rank that a dependent queue has or may get: events of the queue below it may be processed."""
    limit_ts, limit_place = END_OF_TIME, (1 << 62)
    for k in range(c.form[q, FIRST_DEPENDENT], c.form[q, END_DEPENDENT]):
        other = c.dependents[k]
        ts, place, _ = first_of(c, other)
        if ts < limit_ts or (ts == limit_ts and place < limit_place):
            limit_ts, limit_place = ts, place
    return limit_ts, limit_place


@kernel
def is_below(ts, place, other_ts, other_place):
    """Whether the first rank comes before the second."""
    return ts < other_ts or (ts == other_ts and place < other_place)


@kernel
def rows_below(c, x, i, row, end, limit_ts, limit_place):
    """The first of rows `row` to `end` whose rank is not below the limit; or the end of the chunk, where the search stops."""
    times = view_i64(x[i, entry_of(row, c.given[i, WIDTH]) + TS], CHUNK)
    first = place_of(row)
    low, high = 0, min(end - row, CHUNK - first)
    while low < high and low < NEAR:  # often only these few are below; the last row is in another cache line
        if not is_below(times[first + low], (i << SOURCE_SHIFT) | (row + low), limit_ts, limit_place):
            return row + low
        low += 1
    if low == high or is_below(times[first + high - 1], (i << SOURCE_SHIFT) | (row + high - 1), limit_ts, limit_place):
        return row + high
    step = NEAR
    while low + step < high:  # most searches end early, and each row looked at further on is in a cache line not read so far
        if not is_below(times[first + low + step], (i << SOURCE_SHIFT) | (row + low + step), limit_ts, limit_place):
            high = low + step
            break
        low += step + 1
        step *= 2
    while low < high:
        middle = (low + high) // 2
        if is_below(times[first + middle], (i << SOURCE_SHIFT) | (row + middle), limit_ts, limit_place):
            low = middle + 1
        else:
            high = middle
    return row + low


@kernel
def is_run_below(c, i, run, limit_ts, limit_place):
    """Whether the rank of a run's first event is below a limit: then so are those of all runs before it in the queue."""
    return is_below(c.runs[run + FIRST_TS], (i << SOURCE_SHIFT) | c.runs[run + FIRST], limit_ts, limit_place)


@kernel
def pass_rows(c, q, head, at, count, bound):
    """M3: `count` events up to event `at` of run `head` are processed, their results written; no other has a ts below `bound`."""
    store_release(c.queue, queue_cell(q, DONE_TS), bound)
    c.queue[queue_cell(q, AT)] = at
    store_release(c.queue, queue_cell(q, HEAD), head)
    passed = load_relaxed(c.queue, queue_cell(q, PASSED)) + count
    store_release(c.queue, queue_cell(q, PASSED), passed)  # G1
    fence()  # G2
    if load_relaxed(c.words, SPACE_WAITING) != 0 and passed >= load_relaxed(c.queue, queue_cell(q, WAKE_AT)):
        signal(c.words, SPACE_WAITING, c.signals, SPACE_EVENT)  # G3


@kernel
def earliest(c):
    """The smallest rank that an unprocessed event of any queue may have: ts, and input and row. For any thread."""
    first_ts, first_place = END_OF_TIME, 0
    for i in range(c.given.shape[0]):
        row = load_acquire(c.input, input_cell(i, ADMITTED))  # L0
        frontier = load_acquire(c.input, input_cell(i, FRONTIER))  # P1
        if is_below(frontier, (i << SOURCE_SHIFT) | row, first_ts, first_place):
            first_ts, first_place = frontier, (i << SOURCE_SHIFT) | row
    # Queues are read after the frontiers (P1): for an empty queue, the frontier of its input counts.
    for q in range(c.shape[QUEUES]):
        tail = load_acquire(c.queue, queue_cell(q, TAIL))  # P2
        head = load_acquire(c.queue, queue_cell(q, HEAD))  # P3
        if head < tail:
            ts = load_acquire(c.queue, queue_cell(q, DONE_TS))
            place = c.form[q, INPUT] << SOURCE_SHIFT
            run = run_of(q, head)
            run_ts = load_acquire(c.runs, run + FIRST_TS)  # acquire: both are read before HEAD is read again
            row = load_acquire(c.runs, run + FIRST)
            if load_acquire(c.queue, queue_cell(q, HEAD)) == head:  # else the run may have been overwritten
                ts = max(ts, run_ts)
                place |= row  # the run's first rows may be processed: only the node's thread knows
            if is_below(ts, place, first_ts, first_place):
                first_ts, first_place = ts, place
    return first_ts, first_place


@kernel
def merged_rows(c, x):
    """How many rows of all inputs no later row can precede: a prefix of the merged input. Called with PLANNING held."""
    ts, place = END_OF_TIME, (1 << 62)
    for i in range(c.given.shape[0]):
        row = load_acquire(c.input, input_cell(i, ADMITTED))  # L0
        frontier = load_acquire(c.input, input_cell(i, FRONTIER))  # L1
        if is_below(frontier, (i << SOURCE_SHIFT) | row, ts, place):
            ts, place = frontier, (i << SOURCE_SHIFT) | row
    total, moved = 0, False
    for i in range(c.given.shape[0]):
        # Read after all frontiers: no row from here on is below them.
        end = load_acquire(c.input, input_cell(i, ADMITTED))
        row = load_relaxed(c.input, input_cell(i, MERGED))
        while row < end:
            found = rows_below(c, x, i, row, end, ts, place)
            if found == row:
                break
            row, moved = found, True
        store_release(c.input, input_cell(i, MERGED), row)
        if c.given[i, COUNTS] != 0:
            total += row
    if moved:
        signal(c.words, SPACE_WAITING, c.signals, SPACE_EVENT)
    return total


__all__ = [
    "CAPACITY",
    "add",
    "add_or_wait",
    "call_out",
    "earliest",
    "first_kept",
    "first_of",
    "is_below",
    "is_run_below",
    "limit_of",
    "merged_rows",
    "pass_rows",
    "promise",
    "queue_cell",
    "release_results",
    "rows_below",
    "run_of",
]
