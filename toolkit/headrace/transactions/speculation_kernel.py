"""SPECULATIVE: events are executed before the writes of earlier ones are known, validated, and executed again.

Executors take blocks of events from two counters, in rising order: to execute them, and to validate those that were
executed. An executor that finds an execution invalid makes its writes estimates, and executes the event again; an event that
reads an estimate waits behind the event that made it, while its executor does something else. Whenever an event has to be
executed or validated again, a counter is lowered.

State       pending[i]  the event's status: which execution, by which executor, READY, EXECUTING, EXECUTED or ABORTING
            order[i]    the first event that waits for i, + 1; behind[i] the next one, + 1
            EXECUTE_AT, VALIDATE_AT     the next event to execute, to validate; LOWERED, how often one was lowered
            TASKS       executors that hold a block, or do what a block led to
            SETTLED     tag of the batch, once its concurrent part is over: all events are executed and valid, or there was
                        no room, or too many executions were invalid
            CURTAILED   tag of the batch, if one executor runs the rest of it: there was no room, an execution raised an
                        exception, or too many were invalid (ABORTED)
Invariants  I1  READY -> EXECUTING by compare_exchange: one executor executes an event at a time. EXECUTING -> EXECUTED
                or ABORTING by that executor; EXECUTED -> ABORTING by compare_exchange; ABORTING -> READY, with the next
                execution's number, by the executor that stored ABORTING, or by the one that took the event from `order`
            I2  an event that waits is in one list, and leaves it once: with `exchange` of its head
            I3  EXECUTE_AT is at or below an event that is READY, or the executor that made it READY lowers it before
                it decrements TASKS. The same holds of VALIDATE_AT and an event that is EXECUTED, and was not validated
                since an earlier version changed
            I4  hence: if no executor has a task, both counters are at the end, and LOWERED is as it was before they were
                read, then all events are executed and valid
Ordering    D1 an event goes into a list, D2 fence, D3 load_acquire pending of the one it waits for;
            D4 exchange pending = EXECUTED (seq_cst), D5 load_acquire order
                    either D3 sees EXECUTED, or D5 sees the list: no event stays in it
            F1 exchange pending = EXECUTED, F2 load_acquire VALIDATE_AT; V1 VALIDATE_AT moves on, V2 fence, V3
            load_acquire pending        either F2 sees the counter past the event, or V3 sees EXECUTED
            L1 an event is made READY, a version an ESTIMATE, L2 fence, L3 the counter is read, and lowered if it is
            past the event              an executor that takes the event from a counter that L3 found low enough sees L1
Progress    The first event that is not settled reads only what is settled: its next execution is valid. No executor
            waits for another; one that finds nothing to do looks again, yields its core, checks STOP.
Source      Block-STM (Gelashvili et al., PPoPP 2023), algorithms 4 and 5. Differs: blocks of events; the executor of a
            block validates it, unless validation is far behind; VALIDATE_AT does not pass an event that is not executed;
            lists of waiting events without locks.
Checked     tests/headrace/transactions/test_speculative.py, test_interleave_speculative.py
"""

from headrace.kernel import kernel
from headrace.memory.atomics import (
    compare_exchange,
    exchange,
    fence,
    fetch_add,
    load_acquire,
    load_relaxed,
    pause,
    store_relaxed,
    store_release,
    yield_core,
)
from headrace.progress import NEVER
from headrace.transactions.key_sets_kernel import SET_AT, SET_END
from headrace.transactions.multiversion_kernel import (
    NODE_WORDS,
    is_valid,
    make_estimates,
)
from headrace.transactions.phases_kernel import LEAST_SPINS, lower
from headrace.transactions.words import (
    ABORTED,
    ABORTS,
    CONFIG,
    COPIES_FROM,
    COPIES_TO,
    COPY_AT,
    COPY_END,
    CURTAILED,
    EXECUTE_AT,
    LAST,
    LOWERED,
    NEXT,
    NODE_AT,
    NODE_END,
    PREFIX,
    SETTLED,
    TAG,
    TASKS,
    THREADS,
    VALIDATE_AT,
    VALIDATIONS,
)
from headrace.workers.worker_kernel import SPIN

READY, EXECUTING, EXECUTED, ABORTING = range(4)
"""Status, in the lowest two bits."""
BY_BITS = 2
"""Bits of a status below the executor's number."""
EXECUTION_BITS = 16
"""Bits of a status below the number of the execution."""
EVENTS_TAKEN = 16
"""Events of a block."""
FAR = 4
"""Blocks by which execution must be ahead before a block is validated by another executor than its own."""

LEAST_ABORTS = 16
"""Aborts of a batch from which on they may be too many, so that it is curtailed."""

NO_TASK, EXECUTE, VALIDATE = range(3)


@kernel
def prepare_speculation(me, c, first, last, tag, threads):
    """Set up an executor's room for a batch, and the status of its slice."""
    c.filling[me, TAG] = tag
    c.filling[me, SET_AT] = c.sets.size * me // threads
    c.filling[me, SET_END] = c.sets.size * (me + 1) // threads
    nodes = c.nodes.size // NODE_WORDS
    c.filling[me, NODE_AT] = nodes * me // threads
    c.filling[me, NODE_END] = nodes * (me + 1) // threads
    copies = load_relaxed(c.words, COPIES_TO) - load_relaxed(c.words, COPIES_FROM)
    c.filling[me, COPY_AT] = load_relaxed(c.words, COPIES_FROM) + copies * me // threads
    c.filling[me, COPY_END] = load_relaxed(c.words, COPIES_FROM) + copies * (me + 1) // threads
    if me == 0:
        store_relaxed(c.words, ABORTED, 0)
    for i in range(first, last):
        c.pending[i] = READY
        c.order[i] = 0
        c.set_at[i] = 0
        c.set_size[i] = 0


@kernel
def lower_counter(c, counter, i):
    """Lower a counter to event `i`, where there is something to do."""
    fence()  # L2
    lower(c.words, counter, i)  # L3
    fetch_add(c.words, LOWERED, 1)


@kernel
def make_ready(c, i):
    """Make event `i` ready to be executed again."""
    status = load_acquire(c.pending, i)
    store_release(c.pending, i, ((status >> EXECUTION_BITS) + 1) << EXECUTION_BITS | READY)  # L1


@kernel
def begin_if_ready(me, c, i):
    """Whether event `i` is now the caller's to execute (I1)."""
    status = load_acquire(c.pending, i)
    if status & 3 != READY:
        return False
    executing = status >> EXECUTION_BITS << EXECUTION_BITS | me << BY_BITS | EXECUTING
    return compare_exchange(c.pending, i, status, executing)


@kernel
def wake_dependents(c, i):
    """Make the events that wait for event `i` ready."""
    if load_acquire(c.order, i) == 0:  # D5
        return
    waiting = exchange(c.order, i, 0)
    least = NEVER
    while waiting != 0:
        j = waiting - 1
        waiting = c.behind[j]
        make_ready(c, j)
        least = min(least, j)
    if least != NEVER:
        lower_counter(c, EXECUTE_AT, least)


@kernel
def wait_behind(c, i, blocker):
    """Have event `i` executed again after `blocker`."""
    status = load_acquire(c.pending, i)
    store_release(c.pending, i, status | ABORTING)
    while True:
        first = load_acquire(c.order, blocker)
        c.behind[i] = first
        if compare_exchange(c.order, blocker, first, i + 1):  # D1
            break
    fence()  # D2
    if load_acquire(c.pending, blocker) & 3 == EXECUTED:  # D3
        wake_dependents(c, blocker)


@kernel
def end_task(c):
    fetch_add(c.words, TASKS, -1)


@kernel
def finish_execution(c, i, is_new):
    """End the execution of event `i`. Returns whether the caller has to validate it."""
    status = load_acquire(c.pending, i)
    exchange(c.pending, i, status - EXECUTING + EXECUTED)  # D4, F1
    wake_dependents(c, i)
    if load_acquire(c.words, VALIDATE_AT) <= i:  # F2
        return False
    if not is_new:
        return True
    lower_counter(c, VALIDATE_AT, i)
    return False


@kernel
def is_contended(c):
    """Count an invalid execution. Returns whether there are so many that one executor alone would be as fast.

    With a aborts for each settled event, each is executed 1 + a times: n executors gain nothing from a = n - 1 on.
    Half of that is taken as the limit, since executors that work on the same rows also wait for each other's caches.
    """
    aborted = fetch_add(c.words, ABORTED, 1) + 1
    if aborted < LEAST_ABORTS:
        return False
    threads = c.rows[load_relaxed(c.words, CONFIG), THREADS]
    return 2 * aborted > (threads - 1) * load_acquire(c.words, VALIDATE_AT)


@kernel
def curtail(me, c):
    """Give up settling all of the batch's events concurrently."""
    store_release(c.words, CURTAILED, c.filling[me, TAG])
    store_release(c.words, SETTLED, c.filling[me, TAG])


@kernel
def validate(me, c, i):
    """Validate event `i`. Returns whether the caller has to execute it again."""
    status = load_acquire(c.pending, i)  # V3
    if status & 3 != EXECUTED:
        return False
    c.filling[me, VALIDATIONS] += 1
    if is_valid(c, c.filling[me, TAG], i):
        return False
    if not compare_exchange(c.pending, i, status, status - EXECUTED + ABORTING):
        return False
    c.filling[me, ABORTS] += 1
    if is_contended(c):
        curtail(me, c)
    make_estimates(c, i)
    make_ready(c, i)
    lower_counter(c, VALIDATE_AT, i + 1)
    return begin_if_ready(me, c, i)


@kernel
def look_whether_settled(me, c, executed):
    """Set SETTLED if there is nothing left to do (I4)."""
    lowered = load_acquire(c.words, LOWERED)
    if load_acquire(c.words, EXECUTE_AT) < executed or load_acquire(c.words, VALIDATE_AT) < executed:
        return
    if load_acquire(c.words, TASKS) == 0 and load_acquire(c.words, LOWERED) == lowered:
        store_release(c.words, SETTLED, c.filling[me, TAG])


@kernel
def take_to_validate(me, c, l, executed, execute_at):
    """Take a block of executed events to validate; one of another executor only if execution is far ahead, or at the end."""
    at = load_acquire(c.words, VALIDATE_AT)
    if at >= executed:
        return False
    status = load_acquire(c.pending, at)
    if status & 3 != EXECUTED:
        return False
    by = status >> BY_BITS & ((1 << (EXECUTION_BITS - BY_BITS)) - 1)
    if by != me and execute_at < executed and execute_at - at < FAR * EVENTS_TAKEN:
        return False
    end = at + 1
    while end < min(executed, at + EVENTS_TAKEN) and load_acquire(c.pending, end) & 3 == EXECUTED:
        end += 1
    fetch_add(c.words, TASKS, 1)
    if not compare_exchange(c.words, VALIDATE_AT, at, end):  # V1
        end_task(c)
        return False
    fence()  # V2
    l[NEXT] = at
    l[LAST] = end
    return True


@kernel
def take_to_execute(c, l, executed):
    """Take a block of events to execute."""
    fetch_add(c.words, TASKS, 1)
    at = fetch_add(c.words, EXECUTE_AT, EVENTS_TAKEN)
    if at >= executed:
        end_task(c)
        return False
    l[NEXT] = at
    l[LAST] = min(executed, at + EVENTS_TAKEN)
    return True


@kernel
def next_task(me, c, l, executed):
    """Take a block to validate or to execute, in `l`; NO_TASK if there is none at the moment."""
    execute_at = load_acquire(c.words, EXECUTE_AT)
    if take_to_validate(me, c, l, executed, execute_at):
        return VALIDATE
    if execute_at < executed:
        if take_to_execute(c, l, executed):
            return EXECUTE
        return NO_TASK
    look_whether_settled(me, c, executed)
    return NO_TASK


@kernel
def find_prefix(me, c, executed):
    """Find PREFIX, how many events of a curtailed batch are settled; called by one executor."""
    tag = c.filling[me, TAG]
    i = 0
    while i < executed and c.pending[i] & 3 == EXECUTED and c.set_size[i] & 1 == 0 and is_valid(c, tag, i):
        i += 1
    store_relaxed(c.words, PREFIX, i)
    store_relaxed(c.words, TASKS, 0)


@kernel
def idle(c, rounds):
    """Pass the time when there is nothing to do."""
    if rounds <= max(LEAST_SPINS, load_relaxed(c.words, SPIN)):
        pause()
    else:
        yield_core()


__all__ = [
    "begin_if_ready",
    "curtail",
    "end_task",
    "find_prefix",
    "finish_execution",
    "idle",
    "next_task",
    "prepare_speculation",
    "validate",
    "wait_behind",
]
