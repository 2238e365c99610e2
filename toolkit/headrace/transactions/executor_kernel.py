"""The loop that every executor runs: accept a batch, prepare, execute, give results, and again.

This file and that of a family of schemes (`whole_kernel`, `operations_kernel`, `speculative_kernel`)
are included in one module, which is compiled once for all operators. It calls an operator's own
functions by address (`build`): what the family's file asks for, and

    executor_begins(me, c, s, l)    the executor starts, or a configuration came into force
    give_events(me, c, o, x, s, l, i, slot, count)   the value columns of `count` events from `i` on, from `slot` of the ring on

The family's file supplies

    FAMILY_HERE
    has_sets(c, config)                      whether the phases of preparing are needed
    prepare_batch(me, c, x, s, l, config)    writes the key sets of a slice; returns the first event that did not fit
    arrange_batch(me, c, l, config)          builds what needs all slices' key sets; False when the run stops
    execute_batch(me, c, x, s, l, config)    runs transactions until none is left to take; False when the run stops
    finish_slice(me, c, x, s, l, first, last)   what is left to do for a slice before its rows are given

A batch is the events between two punctuations. Its phases, a barrier (`phases_kernel`)
between each and the next:

    punctuate   the leader alone, while the others wait (`accept_kernel`)
    prepare     each executor its slice                             (if `has_sets`)
    arrange     each executor its share of what spans slices        (likewise)
    execute
    give        each executor its slice: rows into its ring, then its mark

Invariants  I1  the gate has one reader, number 0: the leader. Its cursor is the
                place of the first event that was not executed
            I2  after `give` every executor has promised the position of the batch's
                last event, so at a punctuation marks are equal, and the leader may
                move them all
            I3  a change comes into force with an empty batch: an executor joins or
                leaves between two batches, and acknowledges it at once
            I4  a batch ends before the position of a planned change
Ordering    as in `phases_kernel` (W1 to R2), and in the ring (`egress.rings`)
Progress    All wait for the leader, which waits for input (`accept_kernel`).
Source      TStream, section IV-B: dual-mode scheduling. Differs: the compute mode
            begins after the barrier in which the last executor accepts for all; an
            event's timestamp is its position in the input, not drawn at arrival.
Checked     tests/headrace/transactions
"""

from headrace.egress.rings import publish, reserve_slots, ring_slot
from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    borrowed,
    load_acquire,
    load_relaxed,
    now_ns,
)
from headrace.transactions.accept_kernel import end_of_input, punctuate
from headrace.transactions.phases_kernel import (
    acknowledge,
    arrive,
    await_phase,
    await_punctuation,
    lower,
    meet,
    release,
)
from headrace.transactions.words import (
    ACTIVATION,
    AT_PHASE,
    BATCHES,
    CHANGE,
    CHANGE_SEEN,
    CONFIG,
    COUNT,
    EVENTS,
    FAMILY,
    FIT,
    HEAD,
    OVER,
    PHASE,
    POST_NS,
    PREPARE_NS,
    ROWS,
    SEEN,
    SLICE_FIRST,
    SLICE_LAST,
    THREADS,
    TOO_MANY_OPERATIONS,
    WATERMARK,
)
from headrace.workers.worker_kernel import (
    BARRIER_NS,
    BUSY_NS,
    PARKED_NS,
    fail,
    park,
    stopped,
    turn,
)


@kernel
def give_slice(me, c, o, x, s, l, first, last):
    """Give the rows of a slice of the batch. False when the run stops."""
    seen = load_relaxed(c.words, SEEN)
    finish_slice(me, c, x, s, l, first, last)
    i = first
    while i < last:
        count = reserve_slots(o, me, l[HEAD], last - i)
        if count < 0:
            return False
        slot = ring_slot(o, l[HEAD])
        give_events(me, c, o, x, s, l, i, slot, count)
        for k in range(count):
            o.primary[me, slot + k] = seen + i + k
            o.a[me, slot + k] = c.refs[i + k]
            o.b[me, slot + k] = c.tss[i + k]
            o.at[me, slot + k] = c.ats[i + k]
        i += count
        l[HEAD] += count
    return True


@kernel
def run_batch(me, c, o, x, s, l, config):
    """Go through the phases of a batch. False when the run stops."""
    count = load_relaxed(c.words, COUNT)
    threads = c.rows[config, THREADS]
    if has_sets(c, config):
        begun = now_ns()
        l[SLICE_FIRST] = count * me // threads
        l[SLICE_LAST] = count * (me + 1) // threads
        fit = prepare_batch(me, c, x, s, l, config)
        if fit < l[SLICE_LAST]:
            if count == 1:
                fail(c, TOO_MANY_OPERATIONS, me, c.refs[0], c.tss[0], 0, 0)
                return False
            lower(c.words, FIT, fit)
        c.meter[me, PREPARE_NS] += now_ns() - begun
        if not meet(me, c, l):
            return False
        if not arrange_batch(me, c, l, config):
            return False
    executed = load_relaxed(c.words, FIT)
    if executed > 0:
        if not execute_batch(me, c, x, s, l, config):
            return False
        if threads > 1 and not meet(me, c, l):
            return False
        begun = now_ns()
        first, last = executed * me // threads, executed * (me + 1) // threads
        if not give_slice(me, c, o, x, s, l, first, last):
            return False
        l[WATERMARK] = max(l[WATERMARK], c.tss[executed - 1] - 1)
        publish(o, me, l[HEAD], load_relaxed(c.words, SEEN) + executed - 1, l[WATERMARK])
        c.meter[me, POST_NS] += now_ns() - begun
        c.meter[me, EVENTS] += last - first
        c.meter[me, BATCHES] += 1
        c.meter[me, ROWS] = l[HEAD]
    return True


@kernel
def run_executor(me, g, c, o, x, s, l):
    """Run until STOP, or until a configuration of another family is in force.

    Parameters
    ----------
    me : int
        Executor number.
    g, c, o : LogArrays, ExecutorArrays, OutArrays
    x : int64[sources, n]
        Directories of the stores.
    s : bundle
        The operator's: tables, columns of events and of results.
    l : Words
        Private; the same when the executor comes back from another family's loop.

    Returns
    -------
    int
        0: over; 1: enter the loop of the family in force.
    """
    # Kernels count references to their arrays atomically, and all executors would count those to `x` in one word.
    x = borrowed(x)
    while not stopped(c):
        active = load_acquire(c.reading, me * CELL)
        if active != l[ACTIVATION] and l[ACTIVATION] != 0:  # it has left, and may be back already
            l[ACTIVATION] = 0
            acknowledge(c, l[CHANGE_SEEN])
        if active == 0:
            turn(c.meter, me, PARKED_NS)
            park(c, c.reading, me)
            continue
        if l[ACTIVATION] == 0:
            turn(c.meter, me, BARRIER_NS)
            if not await_phase(me, c, active):
                break
            turn(c.meter, me, BUSY_NS)
        config = load_acquire(c.words, CONFIG)
        if c.rows[config, FAMILY] != FAMILY_HERE:
            return 1
        if l[ACTIVATION] == 0:
            l[ACTIVATION] = active
            l[AT_PHASE] = load_acquire(c.words, PHASE)  # PHASE stays until this executor arrives (I3 of the phases)
            l[HEAD] = load_relaxed(o.head, me * CELL)
            l[WATERMARK] = load_relaxed(o.mark_ts, me * CELL)
        change = load_acquire(c.words, CHANGE)
        if l[CHANGE_SEEN] != change + 1:
            l[CHANGE_SEEN] = change + 1
            executor_begins(me, c, s, l)
            if change > 0:
                acknowledge(c, change)
        if load_acquire(c.words, OVER) != 0:
            end_of_input(me, c, o, l)
            break
        if load_relaxed(c.words, COUNT) > 0 and not run_batch(me, c, o, x, s, l, config):
            break
        if arrive(c):
            punctuate(me, g, c, o, l)
            release(c, l)
        elif not await_punctuation(me, c, l):
            break
    if l[ACTIVATION] != 0 and load_acquire(c.reading, me * CELL) != l[ACTIVATION]:
        acknowledge(c, l[CHANGE_SEEN])  # it had left at the last change, and slept until the end
    turn(c.meter, me, PARKED_NS)
    return 0
