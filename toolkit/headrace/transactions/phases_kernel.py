"""The barrier between the phases of a batch, and what executors learn of each other there.

All executors of the configuration in force meet between two phases. The last
one to arrive is the leader: it alone works (`punctuate`, in the executors'
loop) or does nothing, and then releases the others.

State       PHASE: barriers passed so far; ARRIVED: executors at the next one; per
            executor AT_PHASE, the phase that it is in (private); reading[r],
            the phase in which r began, 0 while it is parked
Invariants  I1  between two releases CONFIG does not change, so all executors
                of a phase agree on how many they are
            I2  only the leader writes shared words between the last arrival
                and the release
            I3  PHASE is never more than AT_PHASE + 1 of an active executor:
                the next barrier waits for it. So a joiner that wakes late
                finds PHASE as it was when it was let in
Ordering    W1 what a phase writes, W2 fetch_add ARRIVED (acq_rel), W3 the leader
            stores ARRIVED = 0, and what it publishes, W4 store_release PHASE;
            R1 load_acquire PHASE, R2 what the next phase reads
                    W1 -> W2 of all -> W4 -> R1: R2 sees what every executor wrote
            W4, then `signal`; waiters look at PHASE again between `prepare` and
            `sleep` (see `event_count`): no executor sleeps through a release
            A leader's store of `reading` comes before W4, and a joiner loads PHASE
            after `reading`: so it does not go on before W4
            The leader stores SEEN, then loads SNAPSHOT_AT. The thread that copies the tables loads both, and stores the
            next SNAPSHOT_AT when it has the copy: from when a snapshot is due until that store, no executor runs an event
Progress    All wait for the slowest executor. A wait is `SPIN` pauses, then a number of
            yields of the core, and only then sleep: an executor that is woken comes late
            to the next barrier, so the others sleep there, and so on. All waits end on
            STOP.
Checked     tests/headrace/transactions/test_interleave.py, test_interleave_parts.py, test_executors.py
"""

from headrace.egress.rings import start_mark
from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    compare_exchange,
    fetch_add,
    load_acquire,
    load_relaxed,
    nanosleep,
    now_ns,
    pause,
    store_relaxed,
    store_release,
    yield_core,
)
from headrace.memory.event_count import cancel, prepare, signal, sleep
from headrace.memory.seqlock import begin_change, end_change
from headrace.progress import END_OF_TIME
from headrace.transactions.words import (
    ARRIVED,
    AT_PHASE,
    CHANGE,
    CONFIG,
    LOCK_NS,
    OVER,
    PAUSE,
    PAUSED,
    PHASE,
    REQUEST,
    RESTING,
    SEEN,
    SNAPSHOT_AT,
    THREADS,
)
from headrace.workers.worker_kernel import (
    AFTER,
    BARRIER_EVENT,
    BARRIER_NS,
    BARRIER_WAITING,
    BEFORE,
    BUSY_NS,
    IDLE_NS,
    SEEN_AT,
    SINCE,
    SPIN,
    STATE,
    WAIT_NS,
    WATCH_EVENT,
    WATCHER_WAITING,
    stopped,
    turn,
    unpark,
)

LEAST_SPINS = 8
"""Pauses before the core is yielded for the first time: they take about as long as a yield."""
PHASE_YIELDS = 1000
"""Times that an executor that waits for the others yields its core after these pauses, before it sleeps: as long as another
executor is mostly at work on what is missing, sleeping and being woken takes longer.

Half a millisecond, where no other thread wants the core: longer than one executor still works at a usual batch when another has
finished. With 50, two executors ran 1.1 times as many independent transactions of 0.8 us as one, without any locks, since each
in turn woke up late; now 1.9 times.
"""
LONG = 1000
"""Rounds of a wait for a lock after which the executor dozes instead of yielding its core."""
DOZE_NS = 50_000


@kernel
def arrive(c):
    """W2. True for the leader, which must `release`; the others `await_phase`."""
    threads = c.rows[load_relaxed(c.words, CONFIG), THREADS]
    if fetch_add(c.words, ARRIVED, 1) == threads - 1:  # W2
        store_relaxed(c.words, ARRIVED, 0)  # W3
        return True
    return False


@kernel
def release(c, l):
    """W4: let the others go on."""
    l[AT_PHASE] += 1
    store_release(c.words, PHASE, l[AT_PHASE])  # W4
    signal(c.words, BARRIER_WAITING, c.event, BARRIER_EVENT)


@kernel
def rest_with_leader(me, c):
    """From when the leader first had nothing to do, waiting for it does not count as synchronization.

    A wait within a batch began after that, and stays what it is.
    """
    since = load_relaxed(c.words, RESTING)
    begun = c.meter[me, SINCE]
    if since > begun and c.meter[me, STATE] == BARRIER_NS:
        c.meter[me, BARRIER_NS] += since - begun
        c.meter[me, SINCE] = since
        c.meter[me, STATE] = IDLE_NS


@kernel
def await_phase(me, c, phase):
    """Wait until `phase` has begun. False when the run stops first."""
    spins = max(LEAST_SPINS, load_relaxed(c.words, SPIN))
    for _ in range(spins):
        if load_acquire(c.words, PHASE) >= phase:  # R1
            return True
        pause()
    for _ in range(PHASE_YIELDS):
        if load_acquire(c.words, PHASE) >= phase:  # R1
            return True
        yield_core()
    while True:
        rest_with_leader(me, c)  # at once, since the wait may be long, and its state is shown
        ticket = prepare(c.words, BARRIER_WAITING, c.event, BARRIER_EVENT)
        over = stopped(c)
        if load_acquire(c.words, PHASE) >= phase:  # R1
            cancel(c.words, BARRIER_WAITING)
            return True
        if over:
            cancel(c.words, BARRIER_WAITING)
            return False
        sleep(c.words, BARRIER_WAITING, c.event, BARRIER_EVENT, ticket, WAIT_NS)


@kernel
def meet(me, c, l):
    """A barrier at which the leader has nothing to do. False when the run stops first."""
    if arrive(c):
        release(c, l)
        return not stopped(c)
    turn(c.meter, me, BARRIER_NS)
    l[AT_PHASE] += 1
    going_on = await_phase(me, c, l[AT_PHASE])
    turn(c.meter, me, BUSY_NS)
    return going_on


@kernel
def await_punctuation(me, c, l):
    """Wait for the leader. False when the run stops first."""
    turn(c.meter, me, BARRIER_NS)
    l[AT_PHASE] += 1
    going_on = await_phase(me, c, l[AT_PHASE])
    rest_with_leader(me, c)
    turn(c.meter, me, BUSY_NS)
    return going_on


@kernel
def await_value(me, c, words, index, value):
    """Wait until a cell that only grows has reached `value`. False when the run stops first."""
    # The long wait is a function of its own, so that this one is inlined: a call for each operation costs more than the load.
    return load_acquire(words, index) >= value or await_long(me, c, words, index, value)


@kernel
def await_long(me, c, words, index, value):
    """Wait for a cell that had not reached `value`. False when the run stops first."""
    begun = now_ns()
    rounds = 0
    spins = max(LEAST_SPINS, load_relaxed(c.words, SPIN))
    going_on = True
    while going_on and load_acquire(words, index) < value:
        rounds += 1
        if rounds <= spins:
            pause()
        else:
            if rounds <= LONG:
                yield_core()
            else:
                nanosleep(DOZE_NS)
            going_on = not stopped(c)
    c.meter[me, LOCK_NS] += now_ns() - begun
    return going_on


@kernel
def lower(words, index, value):
    """Make a cell at most `value`."""
    while True:
        before = load_acquire(words, index)
        if before <= value or compare_exchange(words, index, before, value):
            return


# -- changes ------------------------------------------------------------------------------------------


@kernel
def install(c, o, l, config, ts):
    """Put configuration `config` into force, as the leader; the release lets its members in, and others out.

    `ts` is the time promised so far: no later event is earlier.
    """
    before = load_relaxed(c.words, CONFIG)
    change = load_relaxed(c.words, CHANGE) + 1
    old, new = c.rows[before, THREADS], c.rows[config, THREADS]
    at = change % c.met_at.size
    c.met_at[at] = now_ns()
    c.installed[at, BEFORE] = before
    c.installed[at, AFTER] = config
    c.installed[at, SEEN_AT] = load_relaxed(c.words, SEEN)
    store_relaxed(c.done_at, at * CELL, 0)
    store_release(c.unsettled, at * CELL, max(old, new))
    if old != new:
        while not begin_change(o.membership, 0):
            pause()
        for r in range(old, new):
            start_mark(o, r, load_relaxed(c.words, SEEN) - 1, ts)
        for r in range(new, old):
            start_mark(o, r, END_OF_TIME, END_OF_TIME)
        end_change(o.membership, 0)
    store_release(c.words, CONFIG, config)
    for r in range(old, new):
        store_release(c.reading, r * CELL, l[AT_PHASE] + 1)
        unpark(c, r)
    for r in range(new, old):
        store_release(c.reading, r * CELL, 0)
    store_release(c.words, CHANGE, change)


@kernel
def acknowledge(c, change):
    """An executor runs under the configuration of `change`, or has left; the last one concerned stamps the time."""
    at = change % c.met_at.size
    if fetch_add(c.unsettled, at * CELL, -1) == 1:
        store_release(c.done_at, at * CELL, now_ns())
        signal(c.words, WATCHER_WAITING, c.event, WATCH_EVENT)


@kernel
def is_asked(c):
    """Whether a change or a pause is requested."""
    return load_acquire(c.words, REQUEST) != 0 or load_acquire(c.words, PAUSE) & 1 == 1


@kernel
def is_snapshot_due(c):
    """Whether enough events were executed for the tables to be copied, in a pause between two batches."""
    at = load_acquire(c.words, SNAPSHOT_AT)
    return at != 0 and at <= load_acquire(c.words, SEEN)


@kernel
def is_held(c):
    """Whether the executors have to pause."""
    return load_acquire(c.words, PAUSE) & 1 == 1 or is_snapshot_due(c)


@kernel
def rest(me, c):
    """The leader has nothing to do until there is input, or a pause is over."""
    now = turn(c.meter, me, IDLE_NS)
    if load_relaxed(c.words, RESTING) == 0:
        store_relaxed(c.words, RESTING, now)


@kernel
def hold(me, c):
    """Keep the leader here while a pause is requested, or a snapshot is due."""
    while is_held(c) and not stopped(c):
        rest(me, c)
        store_release(c.words, PAUSED, load_acquire(c.words, PAUSE))
        signal(c.words, WATCHER_WAITING, c.event, WATCH_EVENT)
        asked = load_acquire(c.words, PAUSED)
        ticket = prepare(c.words, BARRIER_WAITING, c.event, BARRIER_EVENT)
        if load_acquire(c.words, PAUSE) != asked or not is_held(c) or stopped(c):
            cancel(c.words, BARRIER_WAITING)
        else:
            sleep(c.words, BARRIER_WAITING, c.event, BARRIER_EVENT, ticket, WAIT_NS)
    turn(c.meter, me, BUSY_NS)


@kernel
def watch(c, change, timeout_ns):
    """Sleep until change number `change` is complete, the run stops, or the time is up."""
    at = change % c.met_at.size
    ticket = prepare(c.words, WATCHER_WAITING, c.event, WATCH_EVENT)
    if stopped(c) or (load_acquire(c.words, CHANGE) >= change and load_acquire(c.done_at, at * CELL) != 0):
        cancel(c.words, WATCHER_WAITING)
        return
    sleep(c.words, WATCHER_WAITING, c.event, WATCH_EVENT, ticket, timeout_ns)


@kernel
def ask_for(c, config):
    """Ask the next leader to install configuration `config`, whose row is written; wake readers of the gate afterwards."""
    store_release(c.words, REQUEST, config + 1)


@kernel
def ask_pause(c):
    """Ask the executors to pause. Returns the ticket for `end_pause`, or 0 if another thread makes them pause."""
    before = load_acquire(c.words, PAUSE)
    if before & 1 == 0 and compare_exchange(c.words, PAUSE, before, before + 1):
        return before + 1
    return 0


@kernel
def end_pause(c, ticket):
    """Let the executors go on."""
    store_release(c.words, PAUSE, ticket + 1)
    signal(c.words, BARRIER_WAITING, c.event, BARRIER_EVENT)


@kernel
def watch_pause(c, ticket, timeout_ns):
    """Sleep until the executors pause for `ticket`, the input has ended, the run stops, or the time is up."""
    event = prepare(c.words, WATCHER_WAITING, c.event, WATCH_EVENT)
    if stopped(c) or load_acquire(c.words, OVER) != 0 or load_acquire(c.words, PAUSED) == ticket:
        cancel(c.words, WATCHER_WAITING)
        return
    sleep(c.words, WATCHER_WAITING, c.event, WATCH_EVENT, event, timeout_ns)


@kernel
def watch_snapshot(c, timeout_ns):
    """Sleep until a snapshot is due, the input has ended, the run stops, or the time is up."""
    event = prepare(c.words, WATCHER_WAITING, c.event, WATCH_EVENT)
    if stopped(c) or load_acquire(c.words, OVER) != 0 or is_snapshot_due(c):
        cancel(c.words, WATCHER_WAITING)
        return
    sleep(c.words, WATCHER_WAITING, c.event, WATCH_EVENT, event, timeout_ns)


@kernel
def end_snapshot(c, following):
    """The tables are copied: let the executors go on until `following` events are executed."""
    store_release(c.words, SNAPSHOT_AT, following)
    signal(c.words, BARRIER_WAITING, c.event, BARRIER_EVENT)
