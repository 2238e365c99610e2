"""Determinism in the operator layer: merge-sort operators with threads and queues of their own.

    injectors -> queues -> merge operators -> instances -> queues -> merge operators -> sinks

Each writer has one queue for each of its readers and puts a tuple into the queue of the reader that owns it.
Where a reader has two or more queues, a merge operator stands before it, with a thread of its own and one
more queue. A queue is what a source's ring is in the gate: three columns, positions, a promise. The merge
operator moves tuples with the gate's own kernels, so the sides differ in who merges, not in how well.

State       per queue q   HEAD tuples written, TAIL tuples read, MARK promise: no later tuple has ts < MARK,
                          NOTHING at the end; ts, ref, at [q, i % capacity] the tuples
                          (capacity >= 2)
            per thread    how many sleep on its event (0 or 1), and the event
Invariants  I1  0 <= HEAD - TAIL <= capacity
            I2  one thread writes a queue (HEAD, MARK), one reads it (TAIL)
            I3  a writer's queues all get the same MARK after each batch, whoever got its tuples
            I4  what a stage sends on is sorted by (ts, source, position)
Ordering    W0 load_acquire TAIL, W1 write tuples, W2 store_release HEAD, W3 store_release MARK
            R1 load_acquire MARK, R2 load_acquire HEAD, R3 read tuples, R4 store_release TAIL
                    W2 -> R2: R3 sees W1. R4 -> W0: a slot is rewritten only once it is read.
                    W2 is before W3 and R1 before R2: whoever sees a promise sees all it covers
Waiting     Each thread sleeps on its own event count, signalled after W3 by who writes for it and after R4 by
            who reads from it; a writer only when its reader comes past the middle of a queue, as in the gate.
            What it waits for is tried again between `prepare` and `sleep`.
Progress    No cycle of full and empty queues stops it: of all writers of a stage let j have the smallest
            MARK. By I3 everything j has written is ready wherever it lies, so whoever keeps j waiting can go
            on, unless the stage behind is full; there the same holds, and the last stage always takes.
Source      Viper paper, sections 3.1 and 4 (which operators, and where).
Checked     tests/headrace_bench/test_viper.py, test_viper_interleave.py
"""

from typing import NamedTuple

import numpy as np

from headrace.gates.membership_kernel import NOTHING

# The gate's own: the sides are to differ in who merges, and in nothing else.
from headrace.gates.merged_log_kernel import _fetch_lines, _move_many, _move_two
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, load_acquire, load_relaxed, now_ns, store_release
from headrace.memory.bundle import by_reference
from headrace.memory.event_count import cancel, prepare, signal, sleep
from headrace.references import ROW_MASK, SOURCE_SHIFT
from headrace_bench.experiments.viper_kernel import WAIT_NS, apply, begin_all, due_in_order, fold_one

EVENT = 32
"""int32 words between two events: a pair of cache lines."""

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
    """The queues of one merge operator under the names the gate's kernels know: contiguous rows of `Queues`."""

    ring_ts: np.ndarray  # int64[inputs, capacity]
    ring_ref: np.ndarray
    ring_at: np.ndarray
    out_ts: np.ndarray  # int64[1, capacity]
    out_ref: np.ndarray
    out_at: np.ndarray
    scratch: np.ndarray  # int64[3, inputs], the merge operator's own


@kernel
def _wake(q, thread):
    signal(q.sleepers, thread * CELL, q.event, thread * EVENT)


@kernel
def _ticket(q, thread):
    return prepare(q.sleepers, thread * CELL, q.event, thread * EVENT)


@kernel
def _sleep(q, thread, ticket):
    sleep(q.sleepers, thread * CELL, q.event, thread * EVENT, ticket, WAIT_NS)


@kernel
def _room(q, first, step, count):
    """Tuples that fit the fullest of a writer's queues, whoever gets them."""
    capacity = q.ts.shape[1]
    room = capacity
    for i in range(count):
        r = first + i * step
        room = min(room, capacity - load_relaxed(q.head, r * CELL) + load_acquire(q.tail, r * CELL))  # W0
    return room


@kernel
def _publish(q, first, step, heads, mark):
    """Show a writer's tuples and its promise to all its readers."""
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
            _wake(q, q.reader[r])


@kernel
def _release(q, r, tail, head):
    """Give back what was read of a queue; its writer is woken when that passes the middle."""
    before = load_relaxed(q.tail, r * CELL)
    if tail != before:
        store_release(q.tail, r * CELL, tail)  # R4
        if before <= head - q.ts.shape[1] // 2 < tail:
            _wake(q, q.writer[r])


@kernel
def inject(q, w, source, ts, order, clock, thread, injectors, per_second, stop):
    """Run an injector: put each tuple into the queue of the instance that owns its car.

    `per_second` tuples of all injectors together; 0 = as fast as the queues take them.
    """
    instances = w.first.shape[0]
    mask = q.ts.shape[1] - 1
    heads = np.zeros(instances, np.int64)
    begin = begin_all(clock)
    done = 0
    while done < ts.size and load_acquire(stop, 0) == 0:
        due = due_in_order(order, done, begin, per_second)
        count = min(due - done, _room(q, source, injectors, instances))
        if count == 0:
            ticket = _ticket(q, thread)
            if _room(q, source, injectors, instances) > 0 or load_acquire(stop, 0) != 0:
                cancel(q.sleepers, thread * CELL)
            else:
                _sleep(q, thread, ticket)
            continue
        at = now_ns()
        for row in range(done, done + count):
            k = w.instance[source, row]
            r = k * injectors + source
            slot = heads[k] & mask
            q.ts[r, slot] = ts[row]  # W1
            q.ref[r, slot] = source << SOURCE_SHIFT | row
            q.at[r, slot] = at
            heads[k] += 1
        done += count
        _publish(q, source, injectors, heads, ts[done - 1])
    _publish(q, source, injectors, heads, NOTHING)


@kernel
def merge_step(q, m, first, to, chunk):
    """Move what is ready from queues `first`, `first` + 1, ... to queue `to`, at most `chunk` tuples."""
    inputs = m.scratch.shape[1]
    at, until, key = m.scratch[0], m.scratch[1], m.scratch[2]
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
        key[s] = m.ring_ts[s, at[s] & (capacity - 1)] if at[s] < until[s] else NOTHING
        ready += until[s] - at[s]
    begin = load_relaxed(q.head, to * CELL)
    stop = begin + min(ready, min(chunk, _room(q, to, 1, 1)))
    _fetch_lines(m, begin, stop)
    if inputs == 2:
        end, _ = _move_two(m, limit_ts, limit_source, begin, stop)
    else:
        end, _ = _move_many(m, limit_ts, limit_source, begin, stop)
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
    _wake(q, q.reader[to])
    for s in range(inputs):
        _release(q, first + s, at[s], until[s])
    return OVER if mark == NOTHING else PROGRESS


@kernel
def merge(q, m, first, to, thread, chunk, stop):
    """Run a merge operator."""
    step = PROGRESS
    while step != OVER and load_acquire(stop, 0) == 0:
        step = merge_step(q, m, first, to, chunk)
        if step == NOTHING_DONE:
            ticket = _ticket(q, thread)
            step = merge_step(q, m, first, to, chunk)
            if step == NOTHING_DONE and load_acquire(stop, 0) == 0:
                _sleep(q, thread, ticket)
            else:
                cancel(q.sleepers, thread * CELL)


@kernel
def operate_step(q, w, operator, k, r, first, heads, made, chunk):
    """Apply the operator to what queue `r` has, at most `chunk` tuples; results go to the queues from `first` on.

    ``made[0]`` counts the instance's results. Queue ``first + sink * instances + k`` leads to a sink.
    """
    instances = w.first.shape[0]
    mask = q.ts.shape[1] - 1
    mark = load_acquire(q.mark, r * CELL)  # R1
    head = load_acquire(q.head, r * CELL)  # R2
    tail = load_relaxed(q.tail, r * CELL)
    count = min(head - tail, min(chunk, _room(q, first + k, instances, instances)))
    promised = load_relaxed(q.mark, (first + k) * CELL)
    if count == 0 and (head > tail or mark == promised):
        return NOTHING_DONE
    now = now_ns()
    for i in range(tail, tail + count):
        slot = i & mask
        ref = q.ref[r, slot]
        row = made[0]
        if apply(w, operator, ref >> SOURCE_SHIFT, ref & ROW_MASK, q.at[r, slot], k, row) != 0:
            s = w.sink[k, row]
            to = first + s * instances + k
            place = heads[s] & mask
            q.ts[to, place] = q.ts[r, slot]  # W1
            q.ref[to, place] = k << SOURCE_SHIFT | row
            q.at[to, place] = now
            heads[s] += 1
            made[0] = row + 1
    if count < head - tail:
        mark = q.ts[r, (tail + count - 1) & mask]
    _publish(q, first + k, instances, heads, mark)
    _release(q, r, tail + count, head)
    return OVER if mark == NOTHING else PROGRESS


@kernel
def operate(q, w, operator, k, r, first, thread, chunk, stop):
    """Run instance `k`."""
    heads = np.zeros(w.first.shape[0], np.int64)
    made = np.zeros(1, np.int64)
    step = PROGRESS
    while step != OVER and load_acquire(stop, 0) == 0:
        step = operate_step(q, w, operator, k, r, first, heads, made, chunk)
        if step == NOTHING_DONE:
            ticket = _ticket(q, thread)
            step = operate_step(q, w, operator, k, r, first, heads, made, chunk)
            if step == NOTHING_DONE and load_acquire(stop, 0) == 0:
                _sleep(q, thread, ticket)
            else:
                cancel(q.sleepers, thread * CELL)


@kernel
def receive(q, w, s, r, thread, chunk, waits, ended, stop):
    """Run sink `s` on queue `r`; see `viper_channel_kernel.receive`."""
    mask = q.ts.shape[1] - 1
    folded = np.int64(0)
    received = 0
    while load_acquire(stop, 0) == 0:
        mark = load_acquire(q.mark, r * CELL)  # R1
        head = load_acquire(q.head, r * CELL)  # R2
        tail = load_relaxed(q.tail, r * CELL)
        if head == tail:
            if mark == NOTHING:
                break
            ticket = _ticket(q, thread)
            if (
                load_acquire(q.head, r * CELL) == head
                and load_acquire(q.mark, r * CELL) != NOTHING
                and load_acquire(stop, 0) == 0
            ):
                _sleep(q, thread, ticket)
            else:
                cancel(q.sleepers, thread * CELL)
            continue
        count = min(head - tail, chunk)
        now = now_ns()
        for i in range(count):
            slot = (tail + i) & mask
            k = q.ref[r, slot] >> SOURCE_SHIFT
            row = q.ref[r, slot] & ROW_MASK
            folded = fold_one(folded, q.ts[r, slot], w.first[k, row], w.second[k, row])
            if received + i < waits.size:
                waits[received + i] = now - w.born[k, row]
        received += count
        _release(q, r, tail + count, head)
    ended[s, 0] = folded
    ended[s, 1] = received

