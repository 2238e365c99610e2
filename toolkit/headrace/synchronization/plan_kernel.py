"""The loop of every worker: take a leaf that is free, process what may be processed there, and the next one.

This file, with `mailbox_kernel` and `tree_kernel`, is included in one module that is compiled once for all
programs; what a program's functions do it calls by address (`build`)::

    run_rows(me, c, o, x, s, l, n, tag, i, first, last)   the update function of a tag, on these rows of input i
    fork_node(me, c, s, l, n, left, right)                a node's state, to its children
    join_node(me, c, s, l, n, left, right)                and back

Progress    Nobody waits while there is a leaf that is free and has something to process: who finds none looks
            again after he said that he waits, and sleeps until an input publishes or leaves are set
            free (W1 to W3 and T2 to T4 of `tree_kernel`; F2, F3 of `mailbox_kernel`).
Promises    What results there may still be is promised for all workers at once, under PROMISING, in the
            last ring, which has no records (M3, P1 to P4 of `mailbox_kernel`).
Checked     tests/headrace/synchronization
"""

from headrace.egress.rings import publish
from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    borrowed,
    compare_exchange,
    exchange,
    load_acquire,
    load_relaxed,
    now_ns,
    pause,
    store_release,
    yield_core,
)
from headrace.memory.event_count import cancel, prepare, signal, sleep
from headrace.progress import END_OF_TIME
from headrace.synchronization.mailbox_kernel import counted_rows, earliest
from headrace.synchronization.tree_kernel import fork_below, node_cell, rest, run_node, wanted_above
from headrace.synchronization.words import (
    DATA_EVENT,
    DATA_WAITING,
    LEAVES,
    NEVER,
    NEXT_LEAF,
    OVER,
    PLANNED,
    PLANNING,
    PROMISING,
    READY,
    ROOT,
    RUNNING,
    SLICES,
    SLICES_RUN,
    SPENT_NS,
    STARTED,
    STATE,
)
from headrace.workers.changes_kernel import install
from headrace.workers.worker_kernel import BUSY_NS, IDLE_NS, PARKED_NS, SPIN, await_stop, park, stopped, turn

IDLE_WAIT_NS = 20_000_000


@kernel
def change(c, rows):
    """Let the planned changes that come before so many rows be in force, unless somebody else does."""
    if load_relaxed(c.words, PLANNED) >= c.plan_at.size - 1 or exchange(c.words, PLANNING, 1) != 0:
        return
    planned = load_relaxed(c.words, PLANNED)
    while c.plan_at[planned] != NEVER and c.plan_at[planned] <= rows:
        install(c, c.plan_row[planned])
        planned += 1
        store_release(c.words, PLANNED, planned)
    exchange(c.words, PLANNING, 0)


@kernel
def promise_results(c, o):
    """Say up to which time there will be no more results; the end, if all is done."""
    spins = 0
    while exchange(c.words, PROMISING, 1) != 0:
        spins += 1
        if spins % 100 == 0:
            yield_core()
        pause()
    bound = earliest(c)
    last = o.mark.size // CELL - 1
    over = bound == END_OF_TIME
    while over and load_acquire(c.words, PLANNED) < c.plan_at.size - 1 and not stopped(c):
        change(c, NEVER)  # no row reached them: they are applied all the same, before anybody hears of the end
    publish(o, last, 0, bound if over else bound - 1, bound if over else bound - 1)
    exchange(c.words, PROMISING, 0)
    if over and load_relaxed(c.words, OVER) == 0:
        store_release(c.words, OVER, 1)
        signal(c.words, DATA_WAITING, c.signals, DATA_EVENT)


@kernel
def look_around(me, c, o, x, s, l):
    """Take every leaf that is free, once. True if something was processed, or a leaf came to rest."""
    moved = False
    leaves = c.shape[LEAVES]
    begin = l[NEXT_LEAF]
    for k in range(leaves):
        leaf = c.leaves[(begin + k) % leaves]
        if load_relaxed(c.node, node_cell(leaf, STATE)) != READY:
            continue
        if not compare_exchange(c.node, node_cell(leaf, STATE), READY, RUNNING):  # K1
            continue
        begun = now_ns()
        count = run_node(me, c, o, x, s, l, leaf)
        c.work[leaf, SPENT_NS] += now_ns() - begun
        c.work[leaf, SLICES] += 1
        if count > 0:
            c.meter[me, SLICES_RUN] += 1
        if stopped(c):
            return False
        if wanted_above(c, x, leaf):
            count += rest(me, c, o, x, s, l, leaf)
        else:
            store_release(c.node, node_cell(leaf, STATE), READY)
            if count > 0 and load_relaxed(c.words, DATA_WAITING) != 0:
                signal(c.words, DATA_WAITING, c.signals, DATA_EVENT)  # there may be more to do than one can
        if count > 0:
            l[NEXT_LEAF] = (begin + k) % leaves
            moved = True
    return moved


@kernel
def await_events(me, c, o, x, s, l):
    """Sleep until there may be something to do, or a moment."""
    turn(c.meter, me, IDLE_NS)
    for _ in range(load_relaxed(c.words, SPIN)):
        pause()
    ticket = prepare(c.words, DATA_WAITING, c.signals, DATA_EVENT)  # W1
    turn(c.meter, me, BUSY_NS)
    found = look_around(me, c, o, x, s, l)  # W2
    promise_results(c, o)
    if found or stopped(c) or load_acquire(c.reading, me * CELL) == 0 or load_acquire(c.words, OVER) != 0:
        cancel(c.words, DATA_WAITING)
        return
    turn(c.meter, me, IDLE_NS)
    sleep(c.words, DATA_WAITING, c.signals, DATA_EVENT, ticket, IDLE_WAIT_NS)  # W3
    turn(c.meter, me, BUSY_NS)


@kernel
def run_worker(me, c, o, x, s, l):
    """Run until STOP.

    Parameters
    ----------
    me : int
        Worker number.
    c, o : PlanArrays, OutArrays
    x : int64[inputs, n]
        Directories of the stores.
    s : bundle
        The program's: states, strings.
    l : int64[]
        Private.
    """
    x, l = borrowed(x), borrowed(l)
    if exchange(c.words, STARTED, 1) == 0:
        fork_below(me, c, s, l, c.shape[ROOT])
    while not stopped(c):
        if load_acquire(c.reading, me * CELL) == 0:
            turn(c.meter, me, PARKED_NS)
            park(c, c.reading, me)
            if load_acquire(c.reading, me * CELL) != 0:
                turn(c.meter, me, BUSY_NS)
        elif load_acquire(c.words, OVER) != 0:
            await_stop(me, c)
        else:
            change(c, counted_rows(c))
            if look_around(me, c, o, x, s, l):
                promise_results(c, o)
            else:
                await_events(me, c, o, x, s, l)
    turn(c.meter, me, PARKED_NS)
    return 0


__all__ = ["run_worker"]
