"""The loop that every executor runs: accept a batch, prepare, execute, give results, and again.

This file is included in each generated module (`build`), so that the whole loop
compiles as one unit and is cached as such. The program's kernels supply

    executor_begins(me, c, s, l)    the executor starts, or a configuration came into force
    give_event(me, c, o, x, s, l, i, slot)   the value columns of event `i`

and what the family's file (`whole_kernel`, `operations_kernel`) asks for; that file
supplies

    FAMILY_HERE
    has_sets(c, config)                      whether the phases of preparing are needed
    prepare_batch(me, c, x, s, l, config)    key sets of a slice; the first event that did not fit
    arrange_batch(me, c, l, config)          what is made of all key sets together; False when the run stops
    execute_batch(me, c, x, s, l, config)    run transactions until there is nothing left to take; False as before
    finish_slice(me, c, x, s, l, first, last)

A batch is the events between two punctuations. Its phases, a barrier (`phases_kernel`)
between each and the next:

    punctuate   the leader alone, while the others wait: changes what is due or asked
                for, or accepts the next batch
    prepare     each executor its slice          (not where one executor runs alone)
    arrange     each executor the records it owns       (where the scheme has links)
    execute
    give        each executor its slice: rows into its ring, then its mark

Invariants  I1  the gate has one reader, number 0: whoever leads. Its cursor is the
                place of the first event that was not executed
            I2  after `give` every executor has promised the position of the batch's
                last event, so at a punctuation marks are equal, and the leader may
                move them all
            I3  a change comes into force with an empty batch: who joins or leaves
                does so between two batches, and acknowledges it at once
            I4  a batch ends before the position of a planned change
Ordering    of `phases_kernel` (W1 to R2). The ring's own (`egress.rings`)
Progress    The leader waits for input at `await_input`: woken by sources, by who
            asks for a change or a pause, by STOP. A batch that is begun waits
            for more events no longer than MAX_DELAY, and not while a source waits
            for room, since the gate may hold no more than has been accepted.
Source      TStream, section IV-A: dual-mode scheduling. Differs: the compute mode
            is after the barrier in which the last executor accepts for all.
Checked     tests/headrace/transactions
"""

from headrace.egress.rings import publish, reserve_slot
from headrace.gates.merged_log_kernel import (
    DATA_EVENT,
    READERS_WAITING,
    SOURCES_WAITING,
    advance,
    lane,
    peek,
)
from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    fetch_add,
    load_acquire,
    load_relaxed,
    now_ns,
    pause,
    store_relaxed,
    store_release,
)
from headrace.memory.event_count import cancel, prepare, signal, sleep
from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.references import HEARTBEAT
from headrace.transactions.phases_kernel import (
    acknowledge,
    arrive,
    await_phase,
    await_punctuation,
    hold,
    install,
    is_asked,
    lower,
    meet,
    release,
)
from headrace.transactions.words import (
    ACCEPTING,
    ACTIVATION,
    AT_PHASE,
    BATCHES,
    BEAT,
    CHANGE,
    CHANGE_SEEN,
    CONFIG,
    COUNT,
    CURSOR,
    CURSOR_2,
    END_PLACE,
    EVENTS,
    FAMILY,
    FINISHED,
    FIT,
    HEAD,
    MAX_DELAY,
    NARROW,
    NEVER,
    OVER,
    PHASE,
    PLACE,
    PLANNED,
    POST_NS,
    PREPARE_NS,
    PUNCTUATION,
    RANK_FIRST,
    RANK_LAST,
    REQUEST,
    ROWS,
    SCHEME,
    SEEN,
    SERIAL,
    THREADS,
    TOO_MANY_OPERATIONS,
    TURN,
    WATERMARK,
)
from headrace.workers.worker_kernel import (
    BARRIER_EVENT,
    BARRIER_NS,
    BARRIER_WAITING,
    BUSY_NS,
    IDLE_NS,
    PARKED_NS,
    SPIN,
    WATCH_EVENT,
    WATCHER_WAITING,
    fail,
    park,
    stopped,
    turn,
)

PEEKED = 1024
"""Records of the gate that are looked at in one go."""
INPUT_WAIT_NS = 20_000_000
FILL_WAIT_NS = 200_000
"""How long to wait before looking again whether a source waits for room."""

ACCEPTED, ASKED, ENDED, STOPPED = range(4)


# -- accepting ----------------------------------------------------------------------------------------


@kernel
def await_input(me, g, c, place, timeout_ns):
    """Wait for a record at `place`, or until somebody asks for something, the run stops, or the time is over."""
    turn(c.meter, me, IDLE_NS)
    store_relaxed(c.words, ACCEPTING, now_ns())
    for _ in range(load_relaxed(c.words, SPIN)):
        _, count = peek(g, 0, place, 1)
        if count > 0 or is_asked(c) or stopped(c):
            turn(c.meter, me, BUSY_NS)
            return
        pause()
    ticket = prepare(g.words, READERS_WAITING, g.event, DATA_EVENT)
    _, count = peek(g, 0, place, 1)
    if count > 0 or is_asked(c) or stopped(c):
        cancel(g.words, READERS_WAITING)
    else:
        sleep(g.words, READERS_WAITING, g.event, DATA_EVENT, ticket, timeout_ns)
    turn(c.meter, me, BUSY_NS)


@kernel
def pass_time(c, o, l, ts):
    """The leader moves time on for all executors: no later event is earlier than `ts`."""
    l[WATERMARK] = max(l[WATERMARK], ts - 1)
    threads = c.rows[load_relaxed(c.words, CONFIG), THREADS]
    mark = load_relaxed(c.words, SEEN) - 1
    for r in range(threads):
        publish(o, r, load_relaxed(o.head, r * CELL), mark, ts - 1)


@kernel
def close_batch(g, c, o, l):
    """The batch is over: what was executed leaves the gate."""
    count, executed = load_relaxed(c.words, COUNT), load_relaxed(c.words, FIT)
    if count == 0:
        return
    if executed == count:
        place = load_relaxed(c.words, END_PLACE)
    else:
        place = c.places[executed]
    store_relaxed(c.words, NARROW, 1 if executed == 0 else 0)
    store_release(c.words, SEEN, load_relaxed(c.words, SEEN) + executed)
    store_relaxed(c.words, COUNT, 0)
    store_relaxed(c.words, FIT, 0)
    store_relaxed(c.words, PLACE, place)
    advance(g, 0, place)
    beat = load_relaxed(c.words, BEAT)
    if executed == count and beat > MIN_TIME:
        pass_time(c, o, l, beat)


@kernel
def accept(me, g, c, o, l):
    """Take the next batch from the gate, if there is one: ACCEPTED, ASKED, ENDED or STOPPED."""
    seen = load_relaxed(c.words, SEEN)
    limit = min(c.rows[load_relaxed(c.words, CONFIG), PUNCTUATION], c.refs.size)
    limit = min(limit, c.plan_at[load_relaxed(c.words, PLANNED)] - seen)
    if load_relaxed(c.words, NARROW) != 0:
        limit = 1
    row = lane(g, 0)
    place = load_relaxed(c.words, PLACE)
    count = 0
    beat = MIN_TIME
    begun = 0
    ended = False
    while count < limit and not ended:
        start, ready = peek(g, 0, place, min(PEEKED, limit - count))
        if ready == 0:
            now = now_ns()
            if stopped(c):
                return STOPPED
            if count == 0:
                if beat > MIN_TIME:
                    store_relaxed(c.words, PLACE, place)
                    advance(g, 0, place)
                    pass_time(c, o, l, beat)
                    beat = MIN_TIME
                if is_asked(c):
                    return ASKED
                await_input(me, g, c, place, INPUT_WAIT_NS)
                continue
            left = begun + load_relaxed(c.words, MAX_DELAY) - now
            if left <= 0 or beat > MIN_TIME or is_asked(c) or load_acquire(g.words, SOURCES_WAITING) != 0:
                break
            await_input(me, g, c, place, min(left, FILL_WAIT_NS))
            continue
        if count == 0:
            begun = now_ns()
        for k in range(ready):
            ref = g.out_ref[row, start + k]
            if ref >= 0:
                c.refs[count] = ref
                c.tss[count] = g.out_ts[row, start + k]
                c.ats[count] = g.out_at[row, start + k]
                c.places[count] = place
                count += 1
                beat = MIN_TIME
            elif ref == HEARTBEAT:
                ts = g.out_ts[row, start + k]
                if ts == END_OF_TIME:
                    ended = True
                    break
                beat = ts
            place += 1
        if is_asked(c):
            break
    if count == 0:
        if beat > MIN_TIME:
            store_relaxed(c.words, PLACE, place)
            advance(g, 0, place)
            pass_time(c, o, l, beat)
        return ENDED if ended else ASKED
    store_relaxed(c.words, COUNT, count)
    store_relaxed(c.words, FIT, count)
    store_relaxed(c.words, END_PLACE, place)
    store_relaxed(c.words, BEAT, beat)
    store_relaxed(c.words, CURSOR, 0)
    store_relaxed(c.words, CURSOR_2, 0)
    store_relaxed(c.words, TURN, 0)
    for r in range(c.served.size // CELL):
        store_relaxed(c.served, r * CELL, 0)
    return ACCEPTED


@kernel
def punctuate(me, g, c, o, l):
    """What the leader does while all others wait: one change, or the next batch, or the end."""
    close_batch(g, c, o, l)
    while not stopped(c):
        hold(me, c)
        planned = load_relaxed(c.words, PLANNED)
        due = c.plan_at[planned] <= load_relaxed(c.words, SEEN)
        wanted = load_acquire(c.words, REQUEST)
        if not due and wanted != 0:
            install(c, o, l, wanted - 1, l[WATERMARK])
            store_release(c.words, REQUEST, 0)
            return
        if not due:
            outcome = accept(me, g, c, o, l)
            if outcome == ASKED:
                continue
            if outcome == ENDED and c.plan_at[planned] == NEVER:
                store_release(c.words, OVER, 1)
                signal(c.words, WATCHER_WAITING, c.event, WATCH_EVENT)
            if outcome != ENDED or c.plan_at[planned] == NEVER:
                return
        # It is due, or no event reached it: planned changes are applied all the same.
        store_relaxed(c.words, PLANNED, planned + 1)
        install(c, o, l, c.plan_config[planned], l[WATERMARK])
        return


# -- a batch ------------------------------------------------------------------------------------------


@kernel
def give_slice(me, c, o, x, s, l, first, last):
    """The rows of a slice of the batch. False when the run stops."""
    seen = load_relaxed(c.words, SEEN)
    finish_slice(me, c, x, s, l, first, last)
    for i in range(first, last):
        slot = reserve_slot(o, me, l[HEAD])
        if slot < 0:
            return False
        give_event(me, c, o, x, s, l, i, slot)
        o.primary[me, slot] = seen + i
        o.a[me, slot] = c.refs[i]
        o.b[me, slot] = c.tss[i]
        o.at[me, slot] = c.ats[i]
        l[HEAD] += 1
    return True


@kernel
def run_batch(me, c, o, x, s, l, config):
    """The phases of a batch. False when the run stops."""
    count = load_relaxed(c.words, COUNT)
    threads = c.rows[config, THREADS]
    if has_sets(c, config):
        begun = now_ns()
        l[RANK_FIRST] = count * me // threads
        l[RANK_LAST] = count * (me + 1) // threads
        fit = prepare_batch(me, c, x, s, l, config)
        if fit < l[RANK_LAST]:
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
def end_of_input(me, c, o, l):
    """Promise that nothing will follow, and wait for STOP like a parked executor."""
    publish(o, me, l[HEAD], END_OF_TIME, END_OF_TIME)
    turn(c.meter, me, PARKED_NS)
    fetch_add(c.words, FINISHED, 1)
    signal(c.words, WATCHER_WAITING, c.event, WATCH_EVENT)
    while not stopped(c):
        ticket = prepare(c.words, BARRIER_WAITING, c.event, BARRIER_EVENT)
        if stopped(c):
            cancel(c.words, BARRIER_WAITING)
            break
        sleep(c.words, BARRIER_WAITING, c.event, BARRIER_EVENT, ticket, 1_000_000_000)


@kernel
def run_executor(me, g, c, o, x, s, l):
    """Run until STOP, or until a configuration of another family is in force.

    Parameters
    ----------
    me : int
        Executor number.
    g, c, o : LogArrays or ScaleGateArrays, ControlArrays, OutArrays
    x : int64[sources, n]
        Directories of the stores.
    s : bundle
        The program's: tables, columns of events and of results.
    l : int64[]
        Private; the same array when the executor comes back from another family's loop.

    Returns
    -------
    int
        0: over; 1: enter the loop of the family in force.
    """
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
            if not await_phase(c, active):
                break
            turn(c.meter, me, BUSY_NS)
        config = load_acquire(c.words, CONFIG)
        if c.rows[config, FAMILY] != FAMILY_HERE:
            return 1
        if l[ACTIVATION] == 0:
            l[ACTIVATION] = active
            l[AT_PHASE] = load_acquire(c.words, PHASE)  # it stays until this executor arrives (I3 of the phases)
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
        if arrive(c, l):
            punctuate(me, g, c, o, l)
            release(c, l)
        elif not await_punctuation(me, c, l):
            break
    if l[ACTIVATION] != 0 and load_acquire(c.reading, me * CELL) != l[ACTIVATION]:
        acknowledge(c, l[CHANGE_SEEN])  # it had left at the last change, and slept until the end
    turn(c.meter, me, PARKED_NS)
    return 0
