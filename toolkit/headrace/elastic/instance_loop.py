"""The loop every instance runs: read the gate, process, expire, promise, reconfigure.

The loop compiles as one unit, once for each kind of gate, and calls the operator's
kernels by address, once a batch (`build`, `codegen.called`). The operator supplies

    promise(l)                  a time that no later result of this instance precedes
    begin(c, l, s, buffer)      the instance starts, or has another configuration
    hand_over(s, me, joiner)    give a joiner what depends on the order so far
    process(..., row, start, count)     tuples: records of the gate, in order
    advance_time(..., ts)       no tuple below ts will follow
    finish(...)                 the input is over

and the text for how instances share state (`build.SHARING`, `shared_nothing.template`)
supplies `tuples_before`, `process_batch` and `transfer`. Once the run has stopped,
`process`, `process_batch`, `advance_time` and `finish` return -1.

Invariants  I1  between two batches all the instance's work is published:
                outputs, promise, cursor, in this order (a thread that sees the
                cursor past a record also sees the promise after that record)
            I2  a heartbeat or control record ends a batch, and is handled alone
            I3  at a boundary (a control record, or a planned tuple count)
                every member has the same position, watermark and count of
                tuples: heartbeats are part of the order, so time advances
                at the same position everywhere
Source      STRETCH, Algorithms 2 and 4, with the corrections named in
            `epochs`.
"""

from headrace.gates.merged_log_kernel import (
    advance,
    close_membership,
    join_reader,
    lane,
    leave_reader,
    open_membership,
    peek,
)
from headrace.gates.reader_kernel import await_records
from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    borrowed,
    fetch_add,
    load_acquire,
    load_relaxed,
    now_ns,
    pause,
    store_relaxed,
    store_release,
)
from headrace.memory.event_count import signal
from headrace.elastic.batch_kernel import batch_limit, cost_after
from headrace.elastic.loads import LOAD_EVERY_NS, note_load, settle_load
from headrace.elastic.epochs import (
    BEHIND,
    acknowledge,
    await_count,
    await_epoch,
    install,
    members,
)
from headrace.elastic.words import (
    BARRIER,
    BATCH_NS,
    BATCHES,
    CONFIG,
    EPOCH,
    FINISHED,
    LOADED_AT,
    OUTPUTS,
    PASSED,
    TUPLES,
    TURN,
    TURN_BARRIER,
)
from headrace.workers.worker_kernel import (
    BARRIER_EVENT,
    BARRIER_NS,
    BARRIER_WAITING,
    BUSY_NS,
    IDLE_NS,
    PARKED_NS,
    MOST_ENTRIES,
    SPIN,
    await_stop,
    park,
    stopped,
    turn,
    unpark,
)
from headrace.egress.rings import publish, start_mark, switch_behind
from headrace.progress import END_OF_TIME, NEVER
from headrace.references import HEARTBEAT

# What an instance keeps for itself: words of `l`.
(
    HEAD,  # results written
    NEXT_WINDOW,  # the first window that has not expired
    LAST_WINDOW,  # the last window that may hold tuples
    WATERMARK,
    SEEN,  # tuples of the merged input before the next one
    ARRIVAL,  # arrival time of the record that makes results ready
    LOW,  # the first bucket owned
    WIDTH,  # how many are owned, from LOW on
    SCATTERED,  # not 0: LOW and WIDTH do not apply, the owners' table says which are owned
    ME,
    IN_FORCE,  # the configuration
    ENTRIES_AT,  # the addresses of the generated entries, in the order of `build`
) = range(12)

FREE = ENTRIES_AT + MOST_ENTRIES  # the operator's own words begin here

PRIVATE_WORDS = 64
"""The least number of an instance's words; no other instance shares a cache line with them."""


@kernel
def take_configuration(c, l, me):
    """Read which buckets the configuration in force assigns to this instance."""
    config = load_acquire(c.words, CONFIG)
    l[IN_FORCE] = config
    l[LOW] = c.low[config, me]
    l[WIDTH] = c.width[config, me]
    l[SCATTERED] = 1 - c.contiguous[config]
    l[ME] = me


@kernel
def meet(me, g, c, o, s, l, position, planned, next_config):
    """The barrier between two configurations. False if the run stops first."""
    config = l[IN_FORCE]
    epoch = load_acquire(c.words, EPOCH) + 1
    settle_load(me, c, config)
    arrived = now_ns()  # before B2: after it, the other members may be epochs ahead
    before = fetch_add(c.words, BARRIER, 1)  # B2
    if before == 0:
        c.met_at[epoch % c.met_at.size] = arrived
    if before == members(c, config) - 1:
        store_relaxed(c.words, BARRIER, 0)
        install(c, config, next_config, epoch)
        transfer(l, me, c, s, config, next_config, epoch)
        while not open_membership(g):
            pause()
        for r in range(c.member.shape[1]):  # B3
            was = c.member[config, r] != 0
            will = c.member[next_config, r] != 0
            if will and not was:
                store_relaxed(c.start_seen, r * CELL, l[SEEN])
                store_relaxed(c.start_watermark, r * CELL, l[WATERMARK])
                store_relaxed(c.start_planned, r * CELL, planned)
                c.meter[r, PASSED] = l[SEEN]
                hand_over(l, s, me, r)
                start_mark(o, r, promise(l), l[WATERMARK])
                join_reader(g, r, position, epoch + 1)
            elif was and not will:
                leave_reader(g, r)
                start_mark(o, r, END_OF_TIME, END_OF_TIME)
        store_release(c.words, CONFIG, next_config)
        close_membership(g)
        store_release(c.words, EPOCH, epoch)  # B4
        signal(c.words, BARRIER_WAITING, c.event, BARRIER_EVENT)
        for r in range(c.member.shape[1]):
            if c.member[next_config, r] != 0 and c.member[config, r] == 0:
                unpark(c, r)
    else:
        turn(c.meter, me, BARRIER_NS)
        if not await_epoch(c, epoch):  # B5
            return False
        turn(c.meter, me, BUSY_NS)
    take_configuration(c, l, me)
    acknowledge(c, me, epoch)
    return True


@kernel
def meet_for_behind(me, c, o, l, config):
    """The barrier at which a configuration of the downstream operator is put into force. False if the run stops first.

    At this barrier all members have published their work (I1) and the same promise (I3). None sends while one switches.
    """
    done = load_acquire(c.words, TURN)  # before the barrier: no member passes it without this instance
    if fetch_add(c.words, TURN_BARRIER, 1) == members(c, l[IN_FORCE]) - 1:
        store_relaxed(c.words, TURN_BARRIER, 0)
        switch_behind(o, me, config, promise(l))
        store_release(c.words, TURN, done + 1)
        signal(c.words, BARRIER_WAITING, c.event, BARRIER_EVENT)
        return True
    turn(c.meter, me, BARRIER_NS)
    if not await_count(c, TURN, done + 1):
        return False
    turn(c.meter, me, BUSY_NS)
    return True


@kernel
def run_instance(me, g, c, o, x, s, l, buffer):
    """Run until STOP. Returns 0.

    Parameters
    ----------
    me : int
        Worker number.
    g : LogArrays, ScaleGateArrays, ReaderQueues or QueueArrays
        What it reads: a gate, or its own channel or queue.
    c, o : InstanceArrays, OutArrays
    x : int64[sources, n]
        Directories of the stores.
    s : bundle
        The operator's state, shared by all instances, and the columns of its results.
    l : Words
        Private.
    buffer : ndarray or bundle
        Private scratch.
    """
    # Otherwise every call of a kernel would count references to this array, with atomics.
    x = borrowed(x)
    row = lane(g, me)
    batch_ns = load_relaxed(c.words, BATCH_NS)
    activation = 0
    position = 0
    planned = 0
    while not stopped(c):
        active = load_acquire(g.reading, me * CELL)
        if active == 0:
            activation = 0
            turn(c.meter, me, PARKED_NS)
            park(c, g.reading, me)
            continue
        if active != activation:
            activation = active
            turn(c.meter, me, BARRIER_NS)
            # READING is stored before CONFIG and EPOCH: a worker that is awake must not run ahead of them.
            if not await_epoch(c, activation - 1):
                break
            position = load_acquire(g.cursor, me * CELL)
            l[SEEN] = load_relaxed(c.start_seen, me * CELL)
            l[WATERMARK] = load_relaxed(c.start_watermark, me * CELL)
            take_configuration(c, l, me)
            begin(c, l, s, buffer)
            planned = load_relaxed(c.start_planned, me * CELL)
            acknowledge(c, me, activation - 1)
        if l[SEEN] == c.plan_at[planned]:
            planned += 1
            turn(c.meter, me, BUSY_NS)
            publish(o, me, l[HEAD], promise(l), l[WATERMARK])
            if not meet(me, g, c, o, s, l, position, planned, planned):
                break
            begin(c, l, s, buffer)
            continue
        cost = load_relaxed(g.cost, me * CELL)
        start, count = peek(g, me, position, batch_limit(cost, batch_ns))
        if count == 0:
            turn(c.meter, me, IDLE_NS)
            await_records(g, me, position, load_acquire(c.words, SPIN), c.words)
            continue
        begun = turn(c.meter, me, BUSY_NS)
        l[SEEN] = tuples_before(g, l, row, start)
        refs = g.out_ref[row, start : start + count]
        n = 0
        while n < count and refs[n] >= 0:
            n += 1
        n = min(n, c.plan_at[planned] - l[SEEN])
        if n > 0:
            if process_batch(me, g, c, o, x, s, l, buffer, row, start, n) < 0:
                break
            if begun - c.meter[me, LOADED_AT] >= LOAD_EVERY_NS:
                note_load(me, g, c, x, l[IN_FORCE], row, start, n, begun)
            position += n
            l[SEEN] += n
        elif refs[0] == HEARTBEAT:
            ts = g.out_ts[row, start]
            l[ARRIVAL] = g.out_at[row, start]
            if ts == END_OF_TIME:
                # Planned changes that no tuple reached are applied now.
                while c.plan_at[planned] != NEVER:
                    planned += 1
                    if not meet(me, g, c, o, s, l, position, planned, planned):
                        return 0
                    if load_acquire(g.reading, me * CELL) != activation:
                        break
                    begin(c, l, s, buffer)
                if load_acquire(g.reading, me * CELL) != activation:
                    continue  # this instance left, and may have rejoined: start over
                settle_load(me, c, l[IN_FORCE])
                if finish(me, g, c, o, x, s, l, buffer) < 0:
                    break
                l[WATERMARK] = END_OF_TIME
                position += 1
                advance(g, me, position)
                publish(o, me, l[HEAD], END_OF_TIME, END_OF_TIME)
                c.meter[me, OUTPUTS] = l[HEAD]
                turn(c.meter, me, PARKED_NS)
                fetch_add(c.words, FINISHED, 1)
                await_stop(me, c)
                break
            if advance_time(me, g, c, o, x, s, l, buffer, ts) < 0:
                break
            position += 1
        else:
            next_config = -1 - refs[0]
            publish(o, me, l[HEAD], promise(l), l[WATERMARK])
            position += 1
            advance(g, me, position)
            if next_config >= BEHIND:
                if not meet_for_behind(me, c, o, l, next_config - BEHIND):
                    break
                continue
            if not meet(me, g, c, o, s, l, position, planned, next_config):
                break
            begin(c, l, s, buffer)
            continue
        publish(o, me, l[HEAD], promise(l), l[WATERMARK])
        c.meter[me, PASSED] = l[SEEN]  # before the cursor: tuples not counted here are still in the gate
        advance(g, me, position)
        now = turn(c.meter, me, IDLE_NS)
        c.meter[me, TUPLES] += n
        c.meter[me, BATCHES] += 1
        c.meter[me, OUTPUTS] = l[HEAD]
        store_relaxed(g.cost, me * CELL, cost_after(cost, n, now - begun))
    turn(c.meter, me, PARKED_NS)
    return 0
