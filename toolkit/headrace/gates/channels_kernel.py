"""A channel for each reader: queues from each sender to each reader, which merges what is sent to it.

    senders -> a queue from each to each reader -> the reader merges its own queues

The sender routes: a tuple goes into the queue of the reader that owns it, so no reader reads what another one owns.
With one sender the channel is a queue; with more, the reader moves what is ready from its queues into a merged one,
by the kernels with which a gate merges (`merging_kernel`). Readers tell senders how far they are by TAIL: a sender
that is ahead by a queue's capacity waits (acknowledged flow control).

State       per queue q   HEAD tuples written, TAIL tuples read, MARK promise: no later tuple has ts < MARK,
                          NOTHING at the end; ts, ref, at [q, i % capacity] the tuples
                          (capacity >= 2)
            per thread    its event, and how many sleep on it (0 or 1)
Invariants  I1  0 <= HEAD - TAIL <= capacity
            I2  one thread writes a queue (HEAD, MARK), and one reads it (TAIL)
            I3  a writer's queues all get the same MARK after each batch, whichever readers got its tuples
            I4  what a stage sends on is sorted by (ts, source, position)
Ordering    W0 load_acquire TAIL, W1 write tuples, W2 store_release HEAD, W3 store_release MARK
            R1 load_acquire MARK, R2 load_acquire HEAD, R3 read tuples, R4 store_release TAIL
                    W2 -> R2: R3 sees W1. R4 -> W0: a slot is rewritten only once it is read.
                    W2 is before W3 and R1 before R2: a reader that sees a promise sees all it covers
Waiting     Each thread sleeps on its own event count, signalled after W3 by its writer and after R4 by
            its reader; a writer is woken only when its reader passes the middle of a queue, as in the gate.
            Between `ticket` and `await_wake` it checks again for what it waits for.
Progress    Full and empty queues cannot deadlock: of all writers of a stage, let j have the smallest
            MARK. By I3 everything j has written is ready, in every queue, so the reader that keeps j waiting can
            go on, unless the next stage is full; there the same holds, and the last stage always takes.
Source      Viper paper, section 3.3: for each reader, an SPSC queue with one source, and a merging structure with
            more. Differs: the reader merges, not the thread that adds (ScaleGate).
Checked     tests/headrace/gates/test_channels.py, tests/headrace_bench/test_viper.py, test_viper_interleave.py
"""

from typing import NamedTuple

import numpy as np

from headrace.gates.membership_kernel import NOTHING
from headrace.gates.merging_kernel import NEXT_AT, NEXT_TS, UNTIL, fetch_lines, move_many, move_two
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, EVENT_CELL, load_acquire, load_relaxed, store_release
from headrace.memory.bundle import by_reference
from headrace.memory.event_count import prepare, signal, sleep

WAIT_NS = 1_000_000
"""A sleeper wakes and checks at least this often."""

# What a step of a stage returns.
NOTHING_DONE, PROGRESS, OVER = range(3)


@by_reference
class Queues(NamedTuple):
    """All queues of a run. Cells are ``CELL`` int64 words apart."""

    head: np.ndarray
    tail: np.ndarray
    mark: np.ndarray
    ts: np.ndarray  # int64[queues, capacity]
    ref: np.ndarray
    at: np.ndarray  # monotonic ns
    reader: np.ndarray  # int64[queues]: threads
    writer: np.ndarray
    sleepers: np.ndarray  # per thread
    event: np.ndarray


@by_reference
class Merged(NamedTuple):
    """Queues that are merged, contiguous rows of `Queues`, under the names that the gate's kernels use."""

    ring_ts: np.ndarray  # int64[inputs, capacity]
    ring_ref: np.ndarray
    ring_at: np.ndarray
    out_ts: np.ndarray  # int64[1, capacity]
    out_ref: np.ndarray
    out_at: np.ndarray
    scratch: np.ndarray  # int64[SCRATCH_ROWS, inputs], of the reader that merges


@kernel
def wake(q, thread):
    signal(q.sleepers, thread * CELL, q.event, thread * EVENT_CELL)


@kernel
def ticket(q, thread):
    return prepare(q.sleepers, thread * CELL, q.event, thread * EVENT_CELL)


@kernel
def await_wake(q, thread, number):
    sleep(q.sleepers, thread * CELL, q.event, thread * EVENT_CELL, number, WAIT_NS)


@kernel
def room_of(q, first, step, count):
    """How many tuples fit into the fullest of a writer's queues: this many have room, whichever reader gets them."""
    capacity = q.ts.shape[1]
    room = capacity
    for i in range(count):
        r = first + i * step
        room = min(room, capacity - load_relaxed(q.head, r * CELL) + load_acquire(q.tail, r * CELL))  # W0
    return room


@kernel
def publish(q, first, step, heads, mark):
    """Publish a writer's tuples and its promise to all its readers."""
    for i in range(heads.size):
        r = first + i * step
        news = False
        if load_relaxed(q.head, r * CELL) != heads[i]:
            store_release(q.head, r * CELL, heads[i])  # W2
            news = True
        if load_relaxed(q.mark, r * CELL) < mark:
            store_release(q.mark, r * CELL, mark)  # W3
            news = True
        if news:
            wake(q, q.reader[r])


@kernel
def release(q, r, tail, head):
    """Free what was read of a queue; its writer is woken when that passes the middle."""
    before = load_relaxed(q.tail, r * CELL)
    if tail != before:
        store_release(q.tail, r * CELL, tail)  # R4
        if before <= head - q.ts.shape[1] // 2 < tail:
            wake(q, q.writer[r])


@kernel
def put(q, r, head, ts, ref, at):
    """W1: write one tuple into a queue, as number `head`; the caller has made sure that there is room."""
    slot = head & (q.ts.shape[1] - 1)
    q.ts[r, slot] = ts
    q.ref[r, slot] = ref
    q.at[r, slot] = at


@kernel
def send(q, source, sources, ts, refs, owners, start, count, at, heads):
    """Send tuples to the readers that own them: as many as have room whichever readers get them.

    Parameters
    ----------
    q : Queues
        Queue ``reader * sources + source`` leads from a source to a reader.
    source, sources : int
    ts : int64[n]
        Event times, non-decreasing over all calls.
    refs, owners : int64[n]
        The reference of each tuple, and the reader that owns it.
    start, count : int
        Which of them to send.
    at : int
        When they arrived, monotonic ns.
    heads : int64[readers]
        Private to the source: tuples written into each of its queues.

    Returns
    -------
    int
        How many were taken.
    """
    count = min(count, room_of(q, source, sources, heads.size))
    for row in range(start, start + count):
        k = owners[row]
        put(q, k * sources + source, heads[k], ts[row], refs[row], at)
        heads[k] += 1
    if count > 0:
        publish(q, source, sources, heads, ts[start + count - 1])
    return count


@kernel
def merge_step(q, m, first, to, chunk):
    """Move what is ready from queues `first`, `first` + 1, ... to queue `to`, at most `chunk` tuples."""
    inputs = m.scratch.shape[1]
    at, until, next_ts = m.scratch[NEXT_AT], m.scratch[UNTIL], m.scratch[NEXT_TS]
    capacity = q.ts.shape[1]
    limit_ts = NOTHING
    limit_source = 0
    for s in range(inputs):
        mark = load_acquire(q.mark, (first + s) * CELL)  # R1
        if mark < limit_ts:
            limit_ts = mark
            limit_source = s
    ready = 0
    for s in range(inputs):
        at[s] = load_relaxed(q.tail, (first + s) * CELL)
        until[s] = load_acquire(q.head, (first + s) * CELL)  # R2
        next_ts[s] = m.ring_ts[s, at[s] & (capacity - 1)] if at[s] < until[s] else NOTHING
        ready += until[s] - at[s]
    begin = load_relaxed(q.head, to * CELL)
    stop = begin + min(ready, min(chunk, room_of(q, to, 1, 1)))
    fetch_lines(m, begin, stop)
    if inputs == 2:
        end, _ = move_two(m, limit_ts, limit_source, begin, stop)
    else:
        end, _ = move_many(m, limit_ts, limit_source, begin, stop)
    mark = load_relaxed(q.mark, to * CELL)
    promised = mark
    if end < stop or end - begin == ready:
        mark = max(mark, limit_ts)  # all that was ready is moved
    elif end > begin:
        mark = max(mark, m.out_ts[0, (end - 1) & (capacity - 1)])
    if end == begin and mark == promised:
        return NOTHING_DONE
    if end > begin:
        store_release(q.head, to * CELL, end)  # W2
    store_release(q.mark, to * CELL, mark)  # W3
    wake(q, q.reader[to])
    for s in range(inputs):
        release(q, first + s, at[s], until[s])
    return OVER if mark == NOTHING else PROGRESS
