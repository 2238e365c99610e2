"""The loop of every worker: take records in, choose a stage, work there for a time slice, and again.

This file, with `ingest_kernel` and `work_kernel`, is included in one module that is
compiled once for all pipelines; it calls a pipeline's own functions by address
(`build`)::

    fill_rows(me, c, x, s, l, first, last)        columns of the input, into records of the first ring
    run_stage(me, c, s, l)                        the function of stage l[STAGE], on records l[FIRST] to before l[LAST]
    end_stage(me, c, s, l, stage, position)       what it does at the end of the stream
    hold_texts(c, s, l, ts)                       notes which strings the states hold, as of a time (`held_texts`)
    choose_own(me, c, s, l)                       the stage that the user's own schedule takes

Ordering    of a sleeper    S0 `prepare`; S1 check the stages, then the gate, S2 the first stage again, S3 sleep.
                            A worker that takes records from the gate (T1, T2 of `ingest_kernel`) wakes no other for them:
                            S2 sees them if S1 checked the stage too early for them, and the gate too late
            of one that parks  Its last step may have moved something after the others had checked and gone to sleep. So L1
                            it drains what waits for the room that it made, which no other worker saw, one stage further
                            upstream in each sweep; the others drain what they complete meanwhile. L2 `signal`: the
                            others check stages, gate and OVER again
Progress    No worker waits while there is something to do: one that finds no stage
            schedulable drains what can be drained, and sleeps only if there is neither a
            record in the gate with room for it, nor a schedulable stage. A sleeper is woken by
            a worker that makes a stage schedulable (`wake`), by a source that adds records
            (event counts of the gate), and by the collector when it makes room in the result ring.
Source      Prasaad, Ramalingam and Rajan, section 2.2 (workers and their worklists), section 6 (what they take)
Checked     tests/headrace/ordering/test_interleave_sleeping.py (one worker: every schedule of one preemption; more, sampled),
            with threads: test_oracle.py, test_schedules.py beside it
"""

from headrace.egress.rings import DRAINED_EVENT, INSTANCES_WAITING
from headrace.gates.merged_log_kernel import DATA_EVENT, READERS_WAITING, peek
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, borrowed, load_acquire, load_relaxed, now_ns, pause, yield_core
from headrace.memory.event_count import cancel, prepare, signal, sleep
from headrace.ordering.buffer_kernel import cell, is_in_flight, room_behind, sweep
from headrace.ordering.schedule_kernel import choose, is_schedulable, worklist
from headrace.ordering.words import (
    BATCH,
    BLOCKED,
    DECISIONS,
    FALLBACKS,
    INPUT_OVER,
    MASK,
    NEXT,
    OVER,
    OWN,
    PLACE,
    SCHEDULE,
    SLICES,
    TAIL,
    YIELDED_NS,
)
from headrace.workers.changes_kernel import CONFIG
from headrace.workers.worker_kernel import (
    BUSY_NS,
    IDLE_NS,
    PARKED_NS,
    ROOM_NS,
    SPIN,
    await_stop,
    park,
    stopped,
    turn,
)

WORK_YIELDS = 1000
"""How often an idle worker yields the core and checks for work before it sleeps, while records are in flight: sleeping and being
woken mostly takes longer than waiting for one of these."""
IDLE_YIELDS = 50
"""The same while no record is in flight."""
IDLE_WAIT_NS = 20_000_000
FLIGHT_WAIT_NS = 1_000_000
"""Longest sleep while records are in flight: another worker works on them, and will wake this one."""
YIELD_NS = 100_000
"""A worker yields its core so often, between two visits of stages: where there are more threads than cores, the thread that
collects or one that feeds then waits as long for a core, and not until the next timer interrupt, after 4 ms on many systems."""


@kernel
def has_room(c):
    """Whether the first ring has room."""
    return load_relaxed(c.stage, cell(0, TAIL)) - load_acquire(c.stage, cell(0, NEXT)) <= c.form[0, MASK]


@kernel
def has_work(g, c):
    """Whether some stage is schedulable, or a record can be taken in."""
    for stage in range(c.form.shape[0]):
        if is_schedulable(c, stage):
            return True
    if load_acquire(c.words, INPUT_OVER) == 0 and has_room(c):  # S1
        _, ready = peek(g, 0, load_acquire(c.words, PLACE), 1)  # S1
        if ready > 0:
            return True
    return is_schedulable(c, 0)  # S2


@kernel
def wake(g, c):
    """After work at a stage: wake a sleeping worker, if there is something for it to do."""
    if load_relaxed(g.words, READERS_WAITING) != 0 and has_work(g, c):
        signal(g.words, READERS_WAITING, g.event, DATA_EVENT)


@kernel
def is_over_or_full(c):
    """Whether the end has come out, or the result ring was reported full, so that room is what the worker waits for."""
    return load_acquire(c.words, OVER) != 0 or load_relaxed(c.words, BLOCKED) != 0


@kernel
def await_work(me, g, c, o):
    """Wait until there is something to do, and sleep only for a bounded time."""
    last = c.form.shape[0] - 1
    if load_relaxed(c.words, BLOCKED) != 0:
        turn(c.meter, me, ROOM_NS)
        ticket = prepare(o.words, INSTANCES_WAITING, o.event, DRAINED_EVENT)
        if room_behind(c, o, last) > 0 or stopped(c):
            cancel(o.words, INSTANCES_WAITING)
        else:
            sleep(o.words, INSTANCES_WAITING, o.event, DRAINED_EVENT, ticket, IDLE_WAIT_NS)
        turn(c.meter, me, BUSY_NS)
        return
    turn(c.meter, me, IDLE_NS)
    for _ in range(load_relaxed(c.words, SPIN)):
        if has_work(g, c) or stopped(c):
            turn(c.meter, me, BUSY_NS)
            return
        pause()
    for looks in range(WORK_YIELDS):
        yield_core()
        if has_work(g, c) or stopped(c):
            turn(c.meter, me, BUSY_NS)
            return
        if looks >= IDLE_YIELDS and not is_in_flight(c):
            break
    ticket = prepare(g.words, READERS_WAITING, g.event, DATA_EVENT)  # S0
    if has_work(g, c) or stopped(c) or load_acquire(c.reading, me * CELL) == 0 or is_over_or_full(c):
        cancel(g.words, READERS_WAITING)
        yield_core()  # what there is to do is in the hands of others, as all buckets with work may be
    else:
        timeout = FLIGHT_WAIT_NS if is_in_flight(c) else IDLE_WAIT_NS
        sleep(g.words, READERS_WAITING, g.event, DATA_EVENT, ticket, timeout)  # S3
    turn(c.meter, me, BUSY_NS)


@kernel
def hand_over(g, c, o):
    """Before a worker parks: drain what it would have drained next, and have the others check what else it leaves."""
    for _ in range(c.form.shape[0] + 1):
        if not sweep(c, o):  # L1
            break
    signal(g.words, READERS_WAITING, g.event, DATA_EVENT)  # L2


@kernel
def step(me, g, c, o, x, s, l):
    """Make one decision and carry it out. True if something moved."""
    now = now_ns()
    if now - l[YIELDED_NS] >= YIELD_NS:
        yield_core()
        l[YIELDED_NS] = now
    config = load_acquire(c.words, CONFIG)
    batch = c.rows[config, BATCH]
    found = False
    if worklist(c, 0) < min(2 * batch, c.form[0, MASK] + 1):
        found = ingest(me, g, c, x, s, l)
    if c.rows[config, SCHEDULE] == OWN:
        stage = choose_own(me, c, s, l)
    else:
        stage = choose(me, c, config, now)
    c.meter[me, DECISIONS] += 1
    if stage >= 0 and work(me, c, o, s, l, stage, batch) > 0:
        c.meter[me, SLICES] += 1
        wake(g, c)
        return True
    # No stage was chosen, or the chosen one had nothing to claim: take any that has work, the last stage first.
    for other in range(c.form.shape[0] - 1, -1, -1):
        if is_schedulable(c, other) and work(me, c, o, s, l, other, batch) > 0:
            c.meter[me, FALLBACKS] += 1
            c.meter[me, SLICES] += 1
            wake(g, c)
            return True
    if sweep(c, o):
        wake(g, c)
        return True
    return found


@kernel
def run_worker(me, g, c, o, x, s, l):
    """Run until STOP.

    Parameters
    ----------
    me : int
        Worker number.
    g, c, o : LogArrays, PipelineArrays, OutArrays
    x : int64[sources, n]
        Directories of the stores.
    s : bundle
        The program's: state, strings.
    l : Words
        Private.
    """
    # Each kernel counts the references to its arrays atomically, and all workers would count those to `x` in the same word.
    x = borrowed(x)
    while not stopped(c):
        if load_acquire(c.reading, me * CELL) == 0:
            hand_over(g, c, o)
            turn(c.meter, me, PARKED_NS)
            park(c, c.reading, me)
            if load_acquire(c.reading, me * CELL) != 0:
                turn(c.meter, me, BUSY_NS)
        elif load_acquire(c.words, OVER) != 0:
            signal(g.words, READERS_WAITING, g.event, DATA_EVENT)  # who sleeps there shall see it
            await_stop(me, c)
        elif not step(me, g, c, o, x, s, l):
            await_work(me, g, c, o)
    turn(c.meter, me, PARKED_NS)
    return 0


__all__ = ["run_worker"]
