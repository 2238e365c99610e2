"""Determinism in a shared channel: instances and sinks read gates, which merge without threads of their own.

    injectors -> gate -> instances -> gate -> sinks

All instances share the first gate, all sinks the second: STRETCH's tuple buffer TB. An instance reads all of the first
gate and keeps its own cars; a sink reads all of the second and keeps its own segments. (Viper's channel differs: each
reader has its own, and the sender routes, so that no reader reads tuples of another; Viper paper, section 3.3.) The
concurrency is that of the gate (`gates.merged_log_kernel`); this file adds:

Invariants  H1  before an instance waits, and after a batch without results, it promises the time up to which it has
                read: sinks do not wait for an instance that has no results
            H2  all results are added before the batch is released (`advance`) and before that promise
Waiting     For room, as every source does (`gates.source_kernel`).
Progress    An instance that waits for room in the second gate does not stop its peers from reading: their promises
            reach as far as the first gate's log, so the results it has already added become ready, the sinks take
            them, and there is room.
Source      STRETCH, section 5 (TB shared by all instances).
Checked     tests/headrace_bench/test_viper.py, test_viper_interleave.py
"""

import numpy as np

from headrace.gates.merged_log_kernel import advance, peek
from headrace.gates.reader_kernel import await_records
from headrace.gates.source_kernel import add_or_wait, close_or_wait, heartbeat_or_wait
from headrace.kernel import kernel
from headrace.memory.atomics import load_acquire, now_ns
from headrace.progress import END_OF_TIME
from headrace.references import ROW_MASK, SOURCE_SHIFT
from headrace_bench.experiments.viper_kernel import (
    READ,
    apply,
    begin_all,
    due_in_order,
    fold_one,
)


@kernel
def promise(g, source, ts, stop):
    """Tell the readers that `source` adds nothing before `ts` any more."""
    while heartbeat_or_wait(g, source, ts, stop) == 0 and load_acquire(stop, 0) == 0:
        pass


@kernel
def end(g, source, stop):
    """Tell the readers that `source` adds nothing any more."""
    while close_or_wait(g, source, stop) == 0 and load_acquire(stop, 0) == 0:
        pass


@kernel
def inject(g, source, ts, order, clock, per_second, batch, stop):
    """Run an injector: `per_second` tuples of all injectors together, at most `batch` at once.

    0 a second: as fast as the gate takes them.
    """
    begin = begin_all(clock)
    done = 0
    while done < ts.size and load_acquire(stop, 0) == 0:
        due = due_in_order(order, done, begin, per_second, batch)
        done += add_or_wait(g, source, ts, done, due - done, done, stop)
    end(g, source, stop)


@kernel
def operate(g, out, w, operator, k, stop):
    """Run instance `k`: read `g`, apply the operator to the instance's own cars, add the results to `out`."""
    position = 0
    made = 0
    times = np.empty(READ, np.int64)
    own = np.empty(READ, np.int64)
    done = False
    reached = -1
    owes = False
    while not done and load_acquire(stop, 0) == 0:
        start, count = peek(g, k, position, READ)
        if count == 0:
            if owes:
                promise(out, k, reached, stop)  # H1
                owes = False
            else:
                await_records(g, k, position, 0, stop)
            continue
        ts = g.out_ts[0, start : start + count]
        refs = g.out_ref[0, start : start + count]
        at = g.out_at[0, start : start + count]
        mine = 0
        for i in range(count):
            own[mine] = i  # without a branch on the owner, which could not be predicted
            if refs[i] >= 0:
                mine += w.instance[refs[i] >> SOURCE_SHIFT, refs[i] & ROW_MASK] == k
            elif ts[i] == END_OF_TIME:
                done = True
        results = 0
        for j in range(mine):
            i = own[j]
            times[results] = ts[i]
            results += apply(w, operator, refs[i] >> SOURCE_SHIFT, refs[i] & ROW_MASK, at[i], k, made + results)
        sent = 0
        while sent < results and load_acquire(stop, 0) == 0:  # H2
            sent += add_or_wait(out, k, times, sent, results - sent, made + sent, stop)
        made += results
        reached = ts[count - 1]
        position += count
        advance(g, k, position)
        owes = not done and w.first.shape[0] > 1
        if owes and results == 0:
            promise(out, k, reached, stop)  # H1
            owes = False
    end(out, k, stop)


@kernel
def receive(g, w, s, waits, ended, stop):
    """Run sink `s`: fold its results into ``ended[s, 0]`` and count them in ``ended[s, 1]``.

    `waits` is filled with the nanoseconds from each tuple's injection to its result's arrival, as far as it has room.
    """
    position = 0
    folded = np.int64(0)
    received = 0
    own = np.empty(READ, np.int64)
    done = False
    while not done and load_acquire(stop, 0) == 0:
        start, count = peek(g, s, position, READ)
        if count == 0:
            await_records(g, s, position, 0, stop)
            continue
        ts = g.out_ts[0, start : start + count]
        refs = g.out_ref[0, start : start + count]
        mine = 0
        for i in range(count):
            own[mine] = i
            if refs[i] >= 0:
                mine += w.sink[refs[i] >> SOURCE_SHIFT, refs[i] & ROW_MASK] == s
            elif ts[i] == END_OF_TIME:
                done = True
        now = now_ns()
        for j in range(mine):
            k = refs[own[j]] >> SOURCE_SHIFT
            row = refs[own[j]] & ROW_MASK
            folded = fold_one(folded, ts[own[j]], w.first[k, row], w.second[k, row])
            if received + j < waits.size:
                waits[received + j] = now - w.born[k, row]
        received += mine
        position += count
        advance(g, s, position)
    ended[s, 0] = folded
    ended[s, 1] = received
