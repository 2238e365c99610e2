"""Determinism in the operator layer: merge-sort operators with threads and queues of their own.

    injectors -> queues -> merge operators -> instances -> queues -> merge operators -> sinks

Each writer has one queue for each of its readers (`headrace.gates.channels_kernel`, with its ordering argument) and puts a
tuple into the queue of the reader that owns it. A reader with two or more queues is preceded by a merge operator, with its
own thread and one more queue. It merges with the gate's own kernels, so the sides differ in which thread merges, not in how
well it does.

Source      Viper paper, sections 3.1 and 4 (which operators, and where).
Checked     tests/headrace_bench/test_viper.py, test_viper_interleave.py
"""

import numpy as np

from headrace.gates.channels_kernel import (
    NOTHING_DONE,
    OVER,
    PROGRESS,
    await_wake,
    merge_step,
    publish,
    put,
    release,
    room_of,
    ticket,
)
from headrace.gates.membership_kernel import NOTHING
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, load_acquire, load_relaxed, now_ns
from headrace.memory.event_count import cancel
from headrace.references import ROW_MASK, SOURCE_SHIFT
from headrace_bench.experiments.viper_kernel import apply, begin_all, due_in_order, fold_one


@kernel
def inject(q, w, source, ts, order, clock, thread, injectors, per_second, batch, stop):
    """Run an injector: put each tuple into the queue of the instance that owns its car.

    `per_second` tuples of all injectors together, at most `batch` at once; 0 = as fast as the queues take them.
    """
    instances = w.first.shape[0]
    heads = np.zeros(instances, np.int64)
    begin = begin_all(clock)
    done = 0
    while done < ts.size and load_acquire(stop, 0) == 0:
        due = due_in_order(order, done, begin, per_second, batch)
        count = min(due - done, room_of(q, source, injectors, instances))
        if count == 0:
            number = ticket(q, thread)
            if room_of(q, source, injectors, instances) > 0 or load_acquire(stop, 0) != 0:
                cancel(q.sleepers, thread * CELL)
            else:
                await_wake(q, thread, number)
            continue
        at = now_ns()
        for row in range(done, done + count):
            k = w.instance[source, row]
            put(q, k * injectors + source, heads[k], ts[row], source << SOURCE_SHIFT | row, at)  # W1
            heads[k] += 1
        done += count
        publish(q, source, injectors, heads, ts[done - 1])
    publish(q, source, injectors, heads, NOTHING)


@kernel
def merge(q, m, first, to, thread, chunk, stop):
    """Run a merge operator."""
    step = PROGRESS
    while step != OVER and load_acquire(stop, 0) == 0:
        step = merge_step(q, m, first, to, chunk)
        if step == NOTHING_DONE:
            number = ticket(q, thread)
            step = merge_step(q, m, first, to, chunk)
            if step == NOTHING_DONE and load_acquire(stop, 0) == 0:
                await_wake(q, thread, number)
            else:
                cancel(q.sleepers, thread * CELL)


@kernel
def operate_step(q, w, operator, k, r, first, heads, made, chunk):
    """Apply the operator to at most `chunk` tuples of queue `r`; results go to the queues from `first` on.

    ``made[0]`` counts the instance's results. Queue ``first + sink * instances + k`` leads to a sink.
    """
    instances = w.first.shape[0]
    mask = q.ts.shape[1] - 1
    mark = load_acquire(q.mark, r * CELL)  # R1
    head = load_acquire(q.head, r * CELL)  # R2
    tail = load_relaxed(q.tail, r * CELL)
    count = min(head - tail, min(chunk, room_of(q, first + k, instances, instances)))
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
            put(q, to, heads[s], q.ts[r, slot], k << SOURCE_SHIFT | row, now)  # W1
            heads[s] += 1
            made[0] = row + 1
    if count < head - tail:
        mark = q.ts[r, (tail + count - 1) & mask]
    publish(q, first + k, instances, heads, mark)
    release(q, r, tail + count, head)
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
            number = ticket(q, thread)
            step = operate_step(q, w, operator, k, r, first, heads, made, chunk)
            if step == NOTHING_DONE and load_acquire(stop, 0) == 0:
                await_wake(q, thread, number)
            else:
                cancel(q.sleepers, thread * CELL)


@kernel
def receive_step(q, w, r, chunk, waits, sums):
    """Fold at most `chunk` tuples of queue `r` into the hash ``sums[0]``, and count them in ``sums[1]``."""
    mask = q.ts.shape[1] - 1
    mark = load_acquire(q.mark, r * CELL)  # R1
    head = load_acquire(q.head, r * CELL)  # R2
    tail = load_relaxed(q.tail, r * CELL)
    if head == tail:
        return OVER if mark == NOTHING else NOTHING_DONE
    count = min(head - tail, chunk)
    now = now_ns()
    folded = sums[0]
    received = sums[1]
    for i in range(count):
        slot = (tail + i) & mask
        k = q.ref[r, slot] >> SOURCE_SHIFT
        row = q.ref[r, slot] & ROW_MASK
        folded = fold_one(folded, q.ts[r, slot], w.first[k, row], w.second[k, row])
        if received + i < waits.size:
            waits[received + i] = now - w.born[k, row]
    sums[0] = folded
    sums[1] = received + count
    release(q, r, tail + count, head)
    return PROGRESS


@kernel
def receive(q, w, s, r, thread, chunk, waits, ended, stop):
    """Run sink `s` on queue `r`; see `viper_channel_kernel.receive`."""
    sums = np.zeros(2, np.int64)
    step = PROGRESS
    while step != OVER and load_acquire(stop, 0) == 0:
        step = receive_step(q, w, r, chunk, waits, sums)
        if step == NOTHING_DONE:
            number = ticket(q, thread)
            step = receive_step(q, w, r, chunk, waits, sums)
            if step == NOTHING_DONE and load_acquire(stop, 0) == 0:
                await_wake(q, thread, number)
            else:
                cancel(q.sleepers, thread * CELL)
    ended[s, 0] = sums[0]
    ended[s, 1] = sums[1]
