"""What a source does: add tuples, promise, end; and how it waits for room.

All gates share this text, and the engine, the benchmarks and the tests share
this wait. A gate's own `add_records` says how it takes records. Written for the
merged log; `headrace.gates.variants` puts it on other gates.

Ordering    W1 try; W2 SOURCES_WAITING += 1, draw the ticket, fence
            (`event_count.prepare`); W3 try again; W4 sleep until SPACE_EVENT changes
            (reader)  advance: store_release CURSOR, fence, read SOURCES_WAITING
                    if the reader's fence comes before that of W2, W3 sees the cursor;
                    else the reader sees the waiting source and wakes it. Without
                    W3, a reader that goes on between W1 and W2 would see no waiting source,
                    and W4 would sleep at an empty gate until its time-out
            Other events that make room also wake: a merge that drains a ring, and
            the end of placing a control record or of a change of membership, which
            turned W1 and W3 away.
Progress    W4 ends after `ROOM_WAIT_NS`, unless readers have gone far enough to wake
            the sleeper (`is_wakeup_due`) and gave no signal: a reader may have lost
            its core before it could. If no signal comes for `LOST_NS` either, it is a
            lost wake-up: LOST_WAKEUPS counts these. `stop` is read between W2
            and W4: the thread that sets it signals SPACE_EVENT afterwards.
Checked     tests/headrace/gates/test_interleave.py, tests/litmus/test_gates.py
"""

import numpy as np

from headrace.gates.membership_kernel import LOST_WAKEUPS, NOTHING, SOURCES_WAITING, SPACE_EVENT
from headrace.gates.merged_log_kernel import add_records, is_wakeup_due
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, fetch_add, load_acquire, load_relaxed, now_ns
from headrace.memory.event_count import LOST_NS, cancel, doze, prepare
from headrace.progress import END_OF_TIME
from headrace.references import HEARTBEAT, SOURCE_SHIFT

ROOM_WAIT_NS = 2_000_000
TURN_NS = 1_000_000
"""How long `add_in_turn` goes on. Between two calls the caller counts what was taken, so counts are that old at most."""


@kernel
def add(g, source, ts, start, count, first_row):
    """Publish tuples ``ts[start:start+count]``, rows `first_row`, `first_row` + 1, ...

    Returns
    -------
    int
        How many were taken, 0 when the gate is full. Never blocks.
    """
    return add_records(g, source, ts, start, count, (source << SOURCE_SHIFT) | first_row, 1, -NOTHING)


@kernel
def heartbeat(g, source, ts):
    """Promise that no later record of `source` has a smaller ts. 1 if taken, 0 if full."""
    if load_relaxed(g.mark, source * CELL) >= ts:
        return 1
    single = np.empty(1, np.int64)
    single[0] = ts
    return add_records(g, source, single, 0, 1, HEARTBEAT, 0, ts)


@kernel
def close_source(g, source):
    """End the input of `source` by a last heartbeat. 1 if taken, 0 if full."""
    if load_relaxed(g.mark, source * CELL) > END_OF_TIME:
        return 1
    single = np.empty(1, np.int64)
    single[0] = END_OF_TIME
    return add_records(g, source, single, 0, 1, HEARTBEAT, 0, END_OF_TIME + 1)


@kernel
def announce(g):
    """W2: say that a source is about to sleep. Returns the ticket; try again before `sleep_unless`."""
    return prepare(g.words, SOURCES_WAITING, g.event, SPACE_EVENT)


@kernel
def sleep_unless(g, source, ticket, taken, stop):
    """W4, unless W3 took something or the run stops."""
    if taken == 0 and load_acquire(stop, 0) == 0 and doze(g.event, SPACE_EVENT, ticket, ROOM_WAIT_NS):
        if is_wakeup_due(g, source) and doze(g.event, SPACE_EVENT, ticket, LOST_NS):
            fetch_add(g.words, LOST_WAKEUPS, 1)
    cancel(g.words, SOURCES_WAITING)


@kernel
def add_or_wait(g, source, ts, start, count, first_row, stop):
    """Add tuples; if none fits, sleep until some may.

    Parameters
    ----------
    g : LogArrays, or those of another gate
    source, ts, start, count, first_row
        As for `add`.
    stop : int64[]
        ``stop[0]`` is not 0 once no thread is to sleep any more.

    Returns
    -------
    int
        How many were taken; 0 after a sleep, or when the run stops: call again, or end.
    """
    taken = add(g, source, ts, start, count, first_row)  # W1
    if taken == 0:
        ticket = announce(g)
        taken = add(g, source, ts, start, count, first_row)  # W3
        sleep_unless(g, source, ticket, taken, stop)
    return taken


@kernel
def add_in_turn(g, source, ts, start, count, first_row, stop):
    """As `add_or_wait`, again and again until all tuples are taken, the run stops, or `TURN_NS` have passed.

    While the gate is full, room for a fraction of a millisecond of work comes at a time. A caller in Python that is woken for
    each has to wait for the lock of the interpreter, and the readers for the caller: two threads of an operator that takes
    85 ns a tuple processed 14.6 M tuples/s that way on two cores, and 15.8 M in turns, where the gate holds 0.25 ms of work.
    """
    taken = 0
    begin = now_ns()
    while taken < count and load_acquire(stop, 0) == 0 and now_ns() - begin < TURN_NS:
        taken += add_or_wait(g, source, ts, start + taken, count - taken, first_row + taken, stop)
    return taken


@kernel
def heartbeat_or_wait(g, source, ts, stop):
    """Promise that no later record of `source` has a smaller ts. 1 if taken, 0 as in `add_or_wait`."""
    taken = heartbeat(g, source, ts)
    if taken == 0:
        ticket = announce(g)
        taken = heartbeat(g, source, ts)
        sleep_unless(g, source, ticket, taken, stop)
    return taken


@kernel
def close_or_wait(g, source, stop):
    """End the input of `source`. 1 if taken, 0 as in `add_or_wait`."""
    taken = close_source(g, source)
    if taken == 0:
        ticket = announce(g)
        taken = close_source(g, source)
        sleep_unless(g, source, ticket, taken, stop)
    return taken


__all__ = ["ROOM_WAIT_NS", "add", "add_in_turn", "add_or_wait", "close_or_wait", "close_source", "heartbeat", "heartbeat_or_wait"]
