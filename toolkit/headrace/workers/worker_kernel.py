"""A worker's life: it parks while it is not active, books how it spends its time, and reports failures.

The kernels take the arrays that the workers of one engine share as a named tuple, which
may have further fields, with the fields

    words    int64 cells, of which the first `WORKER_WORDS` are these
    event    int32[PARK_EVENT + EVENT_CELL * workers]: futex words, a cache line apart
    meter    int64[workers, METER_WORDS]: counters that only their worker writes, and its latest spans
    failure  int64[FAILURE_WORDS]: the first failure

which `arrays.worker_arrays` allocates.

State       STOP; FAILED (0, 1 while the first failure is written, 2); meter: STATE is
            the number of the counter to which a worker's time SINCE its last turn belongs
Invariants  I1  STOP is never cleared
            I2  only the thread that turned FAILED from 0 to 1 writes `failure`
Ordering    F1 compare_exchange FAILED 0 -> 1 (acq_rel), F2 `failure` is written, F3
            store_release FAILED = 2; R1 load_acquire FAILED == 2, R2 `failure` is read
                    F2 -> F3 -> R1 -> R2: a failure is read whole
            T1 a span is written, T2 store_release SPANS; a reader takes SPANS before
            and after it copies the ring, and leaves out spans overwritten meanwhile
            (`spans`). The end of the last span may move on while it reads
            P1 load_acquire of the worker's futex word, P2 check whether it is active or STOP is set; P3
            futex_wait compares the word. `unpark` adds to the word after the change that it
            announces was stored: either it comes before P1 and P2 sees the change, or P3 does not sleep
Progress    No thread sleeps longer than PARK_NS, even if a wake-up is lost.
Checked     tests/headrace/elastic/test_barrier.py, tests/headrace/ordering/test_interleave_sleeping.py (parking, STOP),
            tests/litmus
"""

from __future__ import annotations

from headrace.cores import usable_cores
from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    EVENT_CELL,
    compare_exchange,
    fetch_add,
    futex_wait,
    futex_wake,
    load_acquire,
    now_ns,
    store_release,
)
from headrace.memory.event_count import cancel, prepare, signal, sleep

SPINS = 40
"""Pauses of a worker that finds no input, before it sleeps."""

# Cells of `words`; an engine's own follow.
STOP = 0 * CELL
FAILED = 1 * CELL
SPIN = 2 * CELL  # pauses before sleeping (`spins_for`)
BARRIER_WAITING = 3 * CELL  # workers that wait for the others
WATCHER_WAITING = 4 * CELL
WORKER_WORDS = 5

# Private words of each worker for the addresses of generated entries (`codegen.called`): as many as there may be entries.
MOST_ENTRIES = 8

# Columns of `rows`, where each row is a configuration; an engine's own follow.
THREADS = 0
"""Workers 0 to THREADS - 1 are active."""
ROW_WORDS = 8

# Columns of `installed`, of each change: configurations before and after it, and, in some engines, the events before it.
BEFORE, AFTER, SEEN_AT = range(3)

# Indices into `event`.
BARRIER_EVENT = 0
WATCH_EVENT = 1 * EVENT_CELL
PARK_EVENT = 2 * EVENT_CELL  # worker r parks at PARK_EVENT + r * EVENT_CELL

SPANS_KEPT = 1024
"""Of each worker: a ring of its latest spans."""
SPAN_STATE, SPAN_BEGIN, SPAN_END = range(3)
SPAN_WORDS = 3
_COUNTERS = 16
METER_WORDS = _COUNTERS + SPANS_KEPT * SPAN_WORDS
"""Of each worker, a multiple of a cache line: its counters, then its latest spans."""
LEAST_SPAN_NS = 20_000
"""A shorter time is no span of its own: the spans around it are joined if they are of the same state."""

PARK_NS = 1_000_000_000
WAIT_NS = 20_000_000

# Words per worker in `meter`. The first five are the times it spent in each state; STATE is the number of its present
# one, SINCE when it began (`turn`). An engine's counters follow.
(
    PARKED_NS,  # not active: of no interest
    BUSY_NS,
    IDLE_NS,  # waiting for input
    ROOM_NS,  # waiting for room in its output ring
    BARRIER_NS,  # waiting for other workers
    STATE,
    SINCE,
    SPANS,  # spans so far; the last `SPANS_KEPT` follow the counters
    FIRST_COUNTER,
) = range(9)

# Words of `failure`.
FAILURE_CODE, FAILURE_WORKER, FAILURE_REF, FAILURE_TS, FAILURE_KEY, FAILURE_STAGE = range(6)
FAILURE_WORDS = 16


@kernel
def turn(meter, me, state):
    """Book the time since the last turn; from now on worker `me` is in `state`. Returns the time."""
    now = now_ns()
    was, since = meter[me, STATE], meter[me, SINCE]
    meter[me, was] += now - since
    if now - since >= LEAST_SPAN_NS and since > 0:
        _keep_span(meter[me], was, since, now)
    meter[me, STATE] = state
    meter[me, SINCE] = now
    return now


@kernel
def _keep_span(words, state, begin, end):
    """T1: write the span in which the worker was in a state, or extend the last one."""
    count = words[SPANS]
    last = _COUNTERS + (count - 1) % SPANS_KEPT * SPAN_WORDS
    if count > 0 and words[last + SPAN_STATE] == state and begin - words[last + SPAN_END] < LEAST_SPAN_NS:
        words[last + SPAN_END] = end
        return
    at = _COUNTERS + count % SPANS_KEPT * SPAN_WORDS
    words[at + SPAN_STATE] = state
    words[at + SPAN_BEGIN] = begin
    words[at + SPAN_END] = end
    store_release(words, SPANS, count + 1)  # T2


@kernel
def stopped(c):
    return load_acquire(c.words, STOP) != 0


@kernel
def park(c, reading, me):
    """Sleep on the worker's own futex word until it is active or the run stops."""
    word = PARK_EVENT + me * EVENT_CELL
    ticket = load_acquire(c.event, word)
    if load_acquire(reading, me * CELL) == 0 and not stopped(c):
        futex_wait(c.event, word, ticket, PARK_NS)


@kernel
def await_stop(me, c):
    """Wait for STOP like a parked worker, once everything is done."""
    turn(c.meter, me, PARKED_NS)
    while not stopped(c):
        ticket = prepare(c.words, BARRIER_WAITING, c.event, BARRIER_EVENT)
        if stopped(c):
            cancel(c.words, BARRIER_WAITING)
            break
        sleep(c.words, BARRIER_WAITING, c.event, BARRIER_EVENT, ticket, PARK_NS)


@kernel
def unpark(c, worker):
    fetch_add(c.event, PARK_EVENT + worker * EVENT_CELL, 1)
    futex_wake(c.event, PARK_EVENT + worker * EVENT_CELL, 1)


@kernel
def fail(c, code, me, ref, ts, key, stage):
    """Record the first failure and stop every worker."""
    if compare_exchange(c.words, FAILED, 0, 1):
        c.failure[FAILURE_WORKER] = me
        c.failure[FAILURE_REF] = ref
        c.failure[FAILURE_TS] = ts
        c.failure[FAILURE_KEY] = key
        c.failure[FAILURE_STAGE] = stage
        c.failure[FAILURE_CODE] = code
        store_release(c.words, FAILED, 2)
    stop_workers(c)


@kernel
def stop_workers(c):
    """Set STOP and wake all waiting threads."""
    store_release(c.words, STOP, 1)
    signal(c.words, BARRIER_WAITING, c.event, BARRIER_EVENT)
    signal(c.words, WATCHER_WAITING, c.event, WATCH_EVENT)
    for r in range(c.meter.shape[0]):
        unpark(c, r)


def spins_for(active: int) -> int:
    """Return how many pauses a worker makes before it sleeps: none if as many workers are active as there are cores."""
    return SPINS if active < usable_cores() else 0
