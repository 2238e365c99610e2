"""The loop of every worker: take a free leaf, process what may be processed there, go on to the next one.

This file, with `mailbox_kernel` and `tree_kernel`, is included in one module that is compiled once for all
programs; it calls a program's own functions by address (`build`)::

    run_rows(me, c, o, x, s, l, n, tag, i, pieces)  the update function of a tag, on pieces of rows of input i, listed in `l`
    fork_node(me, c, s, l, n, left, right)           a node's state, to its children
    join_node(me, c, s, l, n, left, right)           and back

Progress    No worker waits while a free leaf has something to process: a worker that finds none
            announces that it waits, looks again, and sleeps until an input publishes or leaves are set
            free (W1 to W3 and T2 to T4 of `tree_kernel`; F2, F3 of `mailbox_kernel`, where `add` signals with the last
            publication for those before it that did not, and never blocks before). A worker that passed over a leaf
            because another worker ran it relies on that worker to look again: it does before it sleeps, and wakes the
            others before it parks (W4).
Changes     A planned change is made once its row of the merged input is certain (`merged_rows`). One worker at a time
            determines that, under PLANNING; a worker that finds PLANNING taken relies on its holder to look again before it
            sleeps, after it announced that it waits. A change of threads is made at once. Another plan needs everything at
            rest, so the worker only sets DUE, and goes no further (D1 store_release DUE). Then the thread that replans writes
            PLANNED, which no worker does while that change is due, and takes PLANNING for it (D2): once PLANNED says that
            nothing is left, rows that a worker may be counting need not be kept. At the end of input nothing is left that a
            plan could process: the worker that finds the end puts all planned changes into force, holding PROMISING, without
            which no thread replans.
Promises    The rank below which there will be no more results is promised for all workers at once, under PROMISING,
            in the last ring, which has no records (M3, P1 to P4 of `mailbox_kernel`).
Checked     tests/headrace/synchronization
"""

from headrace.egress.rings import publish, publish_place
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
from headrace.progress import END_OF_TIME, NEVER
from headrace.synchronization.mailbox_kernel import earliest, merged_rows
from headrace.synchronization.tree_kernel import (
    book_time,
    fork_below,
    node_cell,
    rest,
    run_node,
    wanted_above,
)
from headrace.synchronization.words import (
    DATA_EVENT,
    DATA_WAITING,
    DUE,
    LEAVES,
    NEXT_LEAF,
    OVER,
    PLANNED,
    PLANNING,
    PROMISING,
    QUOTA,
    READY,
    REPLANS,
    REST_EVENT,
    REST_WAITING,
    ROOT,
    RUNNING,
    SLICE_BEGAN,
    SLICES,
    SLICES_RUN,
    SPACE_EVENT,
    SPACE_WAITING,
    STARTED,
    STATE,
)
from headrace.workers.changes_kernel import install
from headrace.workers.worker_kernel import (
    BUSY_NS,
    IDLE_NS,
    PARKED_NS,
    SPIN,
    await_stop,
    park,
    stopped,
    turn,
)

IDLE_WAIT_NS = 20_000_000
LEAF_LOOKS = 400
"""Looks of a worker before it sleeps, some 20 us in all: a leaf at rest mostly waits for another that will soon rest."""
PAUSES = 2
"""Between two of these looks."""
YIELD_EVERY = 10
"""After so many of them other threads may have the core, if they need it."""


@kernel
def change(c, x, over):
    """Put into force the planned changes whose row of the merged input has come, or all if `over`, unless another worker does."""
    if load_relaxed(c.words, PLANNED) >= c.plan_at.size - 1 or exchange(c.words, PLANNING, 1) != 0:
        return
    rows = NEVER if over else merged_rows(c, x)
    planned = load_acquire(c.words, PLANNED)
    while c.plan_at[planned] != NEVER and c.plan_at[planned] <= rows:
        row = planned + 1
        if c.rows[row, REPLANS] != 0 and not over:
            store_release(c.words, DUE, planned + 1)  # D1
            break
        install(c, row)
        planned += 1
        store_release(c.words, PLANNED, planned)
    if c.plan_at[planned] == NEVER:
        signal(c.words, SPACE_WAITING, c.signals, SPACE_EVENT)  # rows are not kept for this any more
    exchange(c.words, PLANNING, 0)


@kernel
def come_into_force(c, due):
    """Count a planned change of the plan, which has been made, as in force; called by the thread that replans."""
    while exchange(c.words, PLANNING, 1) != 0:  # D2
        pause()
    install(c, due)
    store_release(c.words, PLANNED, due)
    signal(c.words, SPACE_WAITING, c.signals, SPACE_EVENT)  # rows may not be kept for planned changes any more
    exchange(c.words, PLANNING, 0)


@kernel
def promise_results(c, o, x):
    """Promise up to which rank there will be no more results; the end, if all is done."""
    spins = 0
    while exchange(c.words, PROMISING, 1) != 0:
        spins += 1
        if spins % 100 == 0:
            yield_core()
        pause()
    ts, place = earliest(c)
    last = o.mark.size // CELL - 1
    over = ts == END_OF_TIME and load_acquire(c.words, QUOTA) != 0  # a checkpoint that is due is taken before (Q4)
    while over and load_acquire(c.words, PLANNED) < c.plan_at.size - 1 and not stopped(c):
        change(c, x, True)  # no row reached them: they are applied all the same, before any thread sees the end
        pause()  # another worker may be at it
    if over:
        publish(o, last, 0, ts, ts)  # P4
    else:
        publish_place(o, last, ts - 1, place)  # P4
    exchange(c.words, PROMISING, 0)
    if over and load_relaxed(c.words, OVER) == 0:
        store_release(c.words, OVER, 1)
        signal(c.words, DATA_WAITING, c.signals, DATA_EVENT)
        signal(c.words, REST_WAITING, c.signals, REST_EVENT)  # no checkpoint will follow


@kernel
def look_around(me, c, o, x, s, l):
    """Take every free leaf once. True if something was processed."""
    moved = False
    leaves = c.shape[LEAVES]
    begin = l[NEXT_LEAF]
    for k in range(leaves):
        leaf = c.leaves[(begin + k) % leaves]
        if load_relaxed(c.node, node_cell(leaf, STATE)) != READY:
            continue
        if not compare_exchange(c.node, node_cell(leaf, STATE), READY, RUNNING):  # K1
            continue
        if l[SLICE_BEGAN] == 0:
            l[SLICE_BEGAN] = now_ns()
        count = run_node(me, c, o, x, s, l, leaf, l[SLICE_BEGAN])
        book_time(c, l, leaf, count)
        c.work[leaf, SLICES] += 1
        if count > 0:
            c.meter[me, SLICES_RUN] += 1
        if stopped(c):
            return False
        if wanted_above(c, leaf):
            count += rest(me, c, o, x, s, l, leaf)
        else:
            store_release(c.node, node_cell(leaf, STATE), READY)
            if count > 0:
                signal(c.words, DATA_WAITING, c.signals, DATA_EVENT)  # there may be more work than one worker can do
        if count > 0:
            l[NEXT_LEAF] = (begin + k) % leaves
            moved = True
    if not moved:
        l[SLICE_BEGAN] = 0
    return moved


@kernel
def leaves_now(c):
    """How many leaves may be taken, and how many are at rest or run by others."""
    free = 0
    for k in range(c.shape[LEAVES]):
        if load_relaxed(c.node, node_cell(c.leaves[k], STATE)) == READY:
            free += 1
    return free, c.shape[LEAVES] - free


@kernel
def await_events(me, c, o, x, s, l):
    """Sleep until there may be something to do, or for IDLE_WAIT_NS."""
    turn(c.meter, me, IDLE_NS)
    has_core = load_relaxed(c.words, SPIN) > 0
    for look in range(LEAF_LOOKS):
        free, taken = leaves_now(c)
        if free > 0:
            turn(c.meter, me, BUSY_NS)
            if look_around(me, c, o, x, s, l):
                promise_results(c, o, x)
                return
            turn(c.meter, me, IDLE_NS)
        if taken == 0 and not has_core:
            break  # what is missing comes from an input, which may want this core
        for _ in range(PAUSES):
            pause()
        if not has_core and look % YIELD_EVERY == YIELD_EVERY - 1:
            yield_core()
    ticket = prepare(c.words, DATA_WAITING, c.signals, DATA_EVENT)  # W1
    turn(c.meter, me, BUSY_NS)
    change(c, x, False)
    found = look_around(me, c, o, x, s, l)  # W2
    promise_results(c, o, x)
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
    l : Words
        Private.
    """
    x = borrowed(x)
    if exchange(c.words, STARTED, 1) == 0:
        fork_below(me, c, s, l, c.shape[ROOT])
    while not stopped(c):
        if load_acquire(c.reading, me * CELL) == 0:
            signal(c.words, DATA_WAITING, c.signals, DATA_EVENT)  # W4
            turn(c.meter, me, PARKED_NS)
            park(c, c.reading, me)
            l[SLICE_BEGAN] = 0
            if load_acquire(c.reading, me * CELL) != 0:
                turn(c.meter, me, BUSY_NS)
        elif load_acquire(c.words, OVER) != 0:
            await_stop(me, c)
        else:
            change(c, x, False)
            if look_around(me, c, o, x, s, l):
                promise_results(c, o, x)
            else:
                await_events(me, c, o, x, s, l)
    turn(c.meter, me, PARKED_NS)
    return 0


__all__ = ["come_into_force", "run_worker"]
