"""Speculative transactions: they run before their reads are known to be final, with the outcome of the order of events.

This file is the part of the family "speculative" in the executors' loop (`executor_kernel`).
It calls by address, of each operator,

    attempt(me, c, x, s, l, i)              executes event `i` on versions; returns an outcome of `multiversion_kernel`
    run_event(me, c, x, s, l, i)            runs all functions of event `i`, in place
    write_versions(me, c, s, l, stop)       writes into the tables the executor's last versions before event `stop`

`speculation_kernel` decides which executor does what. One executor alone runs events in their order, in place. So does executor 0
with the rest of a curtailed batch: from an event that raised an exception, which it now raises for good; from one for which there
was no room; or from the first that was not settled when too many executions were invalid.

Ordering    of statuses, counters and versions: `speculation_kernel`, `multiversion_kernel`. store_release CURTAILED, as of
            SETTLED there, comes before the barrier (`phases_kernel`) behind which all executors read it: they agree on the rest
Checked     tests/headrace/transactions/test_speculative.py, test_interleave_speculative.py
"""

from headrace.kernel import kernel
from headrace.memory.atomics import load_acquire, load_relaxed, now_ns, store_release
from headrace.transactions.multiversion_kernel import (
    NO_ROOM,
    NOTHING_NEW,
    ON_ESTIMATE,
    RAISED,
    WROTE_NEW,
    find_estimate,
)
from headrace.transactions.phases_kernel import meet
from headrace.transactions.speculation_kernel import (
    EXECUTE,
    NO_TASK,
    begin_if_ready,
    curtail,
    end_task,
    find_prefix,
    finish_execution,
    idle,
    next_task,
    prepare_speculation,
    validate,
    wait_behind,
)
from headrace.transactions.words import (
    ALONE,
    AT_PHASE,
    BLOCKER,
    CAUSE,
    CURTAILED,
    EXECUTIONS,
    FIT,
    LAST,
    LOCK_NS,
    NEXT,
    NO_EVENT,
    PREFIX,
    SETTLED,
    SLICE_FIRST,
    SLICE_LAST,
    TAG,
    THREADS,
)
from headrace.workers.worker_kernel import stopped

FAMILY_HERE = 2


@kernel
def has_sets(c, config):
    return c.rows[config, THREADS] > 1


@kernel
def prepare_batch(me, c, x, s, l, config):
    threads = c.rows[config, THREADS]
    prepare_speculation(me, c, l[SLICE_FIRST], l[SLICE_LAST], l[AT_PHASE], threads)
    return l[SLICE_LAST]


@kernel
def arrange_batch(me, c, l, config):
    return True


@kernel
def execute_until_valid(me, c, x, s, l, i):
    """Execute event `i`, which the caller has taken, and validate it if the caller has to. False when the run stops."""
    retry = True
    while retry:
        retry = False
        blocker = find_estimate(c, c.filling[me, TAG], i)
        outcome = ON_ESTIMATE
        if blocker < 0:
            l[CAUSE] = i
            c.filling[me, EXECUTIONS] += 1
            outcome = attempt(me, c, x, s, l, i)
            l[CAUSE] = NO_EVENT
            blocker = c.filling[me, BLOCKER]
        if stopped(c):
            return False
        if outcome == ON_ESTIMATE:
            wait_behind(c, i, blocker)
        elif outcome == NO_ROOM:
            curtail(me, c)
        elif outcome == NOTHING_NEW or outcome == WROTE_NEW or outcome == RAISED:
            if outcome == RAISED:
                store_release(c.words, CURTAILED, c.filling[me, TAG])
            retry = finish_execution(c, i, outcome == WROTE_NEW) and validate(me, c, i)
        else:  # what it has read is no longer valid
            retry = True
    return True


@kernel
def speculate(me, c, x, s, l, executed):
    """Execute and validate until all is settled. False when the run stops."""
    tag = c.filling[me, TAG]
    l[CAUSE] = NO_EVENT
    rounds = 0
    begun = now_ns()
    while load_acquire(c.words, SETTLED) != tag:
        task = next_task(me, c, l, executed)
        if task == NO_TASK:
            if rounds == 0:
                begun = now_ns()
            rounds += 1
            idle(c, rounds)
            if stopped(c):
                return False
            continue
        if rounds > 0:
            c.meter[me, LOCK_NS] += now_ns() - begun
            rounds = 0
        for i in range(l[NEXT], l[LAST]):
            is_mine = begin_if_ready(me, c, i) if task == EXECUTE else validate(me, c, i)
            if is_mine and not execute_until_valid(me, c, x, s, l, i):
                return False
        end_task(c)
    if rounds > 0:
        c.meter[me, LOCK_NS] += now_ns() - begun
    return True


@kernel
def run_in_place(me, c, x, s, l, first, last):
    """Execute events one after another, on the tables."""
    c.filling[me, TAG] = 0
    for i in range(first, last):
        l[CAUSE] = i
        run_event(me, c, x, s, l, i)


@kernel
def execute_batch(me, c, x, s, l, config):
    executed = load_relaxed(c.words, FIT)
    threads = c.rows[config, THREADS]
    if threads == 1:
        run_in_place(me, c, x, s, l, 0, executed)
        return True
    tag = c.filling[me, TAG]
    if not speculate(me, c, x, s, l, executed) or not meet(me, c, l):
        return False
    stop = executed
    is_curtailed = load_acquire(c.words, CURTAILED) == tag
    if is_curtailed:
        if me == 0:
            find_prefix(me, c, executed)
        if not meet(me, c, l):
            return False
        stop = load_relaxed(c.words, PREFIX)
    write_versions(me, c, s, l, stop)
    if is_curtailed:
        if not meet(me, c, l):
            return False
        if me == 0:
            c.filling[me, ALONE] += executed - stop
            run_in_place(me, c, x, s, l, stop, executed)
    return True


@kernel
def finish_slice(me, c, x, s, l, first, last):
    return
