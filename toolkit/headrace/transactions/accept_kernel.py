"""What the leader of a punctuation does: close the batch, make changes that are due or requested, accept the next one.

Nothing here depends on the operator, so this file is compiled once. The gate is the merged log, here with one reader.

Invariants  of `executor_kernel`: I1 to I4. Everything here but `end_of_input` is done
            by the leader, while all others wait (I2 of `phases_kernel`)
Ordering    await_input: W1 look, W2 READERS_WAITING += 1 and a ticket
            (`event_count.prepare`), W3 look again, W4 sleep until DATA_EVENT changes.
            A thread that adds records, asks for a change or a pause, or stops the run
            signals DATA_EVENT afterwards
Progress    The leader waits for input at `await_input`. A batch that has begun waits
            for more events no longer than MAX_DELAY, and not while a source waits
            for room: the gate may be full of events that were already accepted.
Checked     tests/headrace/transactions
"""

from headrace.egress.rings import publish
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
from headrace.memory.event_count import (
    cancel,
    prepare,
    signal,
    sleep,
)
from headrace.progress import END_OF_TIME, MIN_TIME, NEVER
from headrace.references import HEARTBEAT
from headrace.transactions.phases_kernel import hold, install, is_asked, rest
from headrace.transactions.words import (
    BEAT,
    CONFIG,
    COUNT,
    CURSOR,
    CURSOR_2,
    END_PLACE,
    FINISHED,
    FIT,
    HEAD,
    HUNGRY,
    MAX_DELAY,
    NARROW,
    OVER,
    PLACE,
    PLANNED,
    PUNCTUATION,
    REQUEST,
    RESTING,
    SEEN,
    SNAPSHOT_AT,
    THREADS,
    TURN,
    WATERMARK,
)
from headrace.workers.worker_kernel import (
    BUSY_NS,
    PARKED_NS,
    SPIN,
    WATCH_EVENT,
    WATCHER_WAITING,
    await_stop,
    stopped,
    turn,
)

PEEKED = 1024
"""Records of the gate that are looked at in one go."""
INPUT_WAIT_NS = 20_000_000
FILL_WAIT_NS = 200_000
"""How long to wait before looking again whether a source waits for room."""

ACCEPTED, ASKED, ENDED, STOPPED = range(4)


@kernel
def await_input(me, g, c, place, timeout_ns):
    """Wait for a record at `place`, or until a change or a pause is requested, the run stops, or the time is up."""
    rest(me, c)
    for _ in range(load_relaxed(c.words, SPIN)):
        _, count = peek(g, 0, place, 1)  # W1
        if count > 0 or is_asked(c) or stopped(c):
            turn(c.meter, me, BUSY_NS)
            return
        pause()
    ticket = prepare(g.words, READERS_WAITING, g.event, DATA_EVENT)  # W2
    _, count = peek(g, 0, place, 1)  # W3
    if count > 0 or is_asked(c) or stopped(c):
        cancel(g.words, READERS_WAITING)
    else:
        sleep(g.words, READERS_WAITING, g.event, DATA_EVENT, ticket, timeout_ns)  # W4
    turn(c.meter, me, BUSY_NS)


@kernel
def pass_time(c, o, l, ts):
    """Advance the watermark of all executors, as the leader: no event still to come is earlier than `ts`."""
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
    """Take the next batch from the gate, if there is one. Returns ACCEPTED, ASKED, ENDED or STOPPED."""
    seen = load_relaxed(c.words, SEEN)
    limit = min(c.rows[load_relaxed(c.words, CONFIG), PUNCTUATION], c.refs.size)
    limit = min(limit, c.plan_at[load_relaxed(c.words, PLANNED)] - seen)
    if load_relaxed(c.words, NARROW) != 0:
        limit = 1
    snapshot_at = load_relaxed(c.words, SNAPSHOT_AT)
    if snapshot_at != 0:
        limit = min(limit, snapshot_at - seen)
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
    store_relaxed(c.words, HUNGRY, 0)
    store_relaxed(c.words, TURN, 0)
    for r in range(c.served.size // CELL):
        store_relaxed(c.served, r * CELL, 0)
    return ACCEPTED


@kernel
def punctuate(me, g, c, o, l):
    """What the leader does while all others wait: one change, or the next batch, or the end."""
    close_batch(g, c, o, l)
    store_relaxed(c.words, RESTING, 0)
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
        # The planned change is due, or the input ended before it: it is applied in both cases.
        store_relaxed(c.words, PLANNED, planned + 1)
        install(c, o, l, planned + 1, l[WATERMARK])
        return


@kernel
def end_of_input(me, c, o, l):
    """Promise that nothing will follow, and wait for STOP like a parked executor."""
    publish(o, me, l[HEAD], END_OF_TIME, END_OF_TIME)
    turn(c.meter, me, PARKED_NS)
    fetch_add(c.words, FINISHED, 1)
    signal(c.words, WATCHER_WAITING, c.event, WATCH_EVENT)
    await_stop(me, c)


__all__ = ["end_of_input", "punctuate"]
