"""Determinism in a channel for each reader, as in the Viper paper: each reader merges what is sent to it.

    injectors -> queues -> instances -> queues -> sinks

The queues are those of the operator layer's side (`headrace.gates.channels_kernel`, with its ordering argument), and so are
the steps of operators and sinks. The merge kernel is also the same, but the reader's own thread runs it before it reads. So
the sides differ by one thread and one hop per merge. A reader with one writer reads its queue as on the other side.

Progress    A reader that has no room to send may still merge, and one that has nothing to merge may still send. It sleeps
            only when neither step made progress; its writers and its readers wake it.
Source      Viper paper, section 3.3.
Checked     tests/headrace_bench/test_viper.py, test_viper_interleave.py
"""

import numpy as np

from headrace.gates.channels_kernel import NOTHING_DONE, OVER, PROGRESS, await_wake, merge_step, ticket
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, load_acquire
from headrace.memory.event_count import cancel
from headrace_bench.experiments.viper_operators_kernel import operate_step, receive_step


@kernel
def operate(q, m, before, w, operator, k, r, first, thread, chunk, stop):
    """Run instance `k`: merge the queues from `before` on into its own queue `r`, and read that."""
    heads = np.zeros(w.first.shape[0], np.int64)
    made = np.zeros(1, np.int64)
    step = PROGRESS
    while step != OVER and load_acquire(stop, 0) == 0:
        merged = merge_step(q, m, before, r, chunk)
        step = operate_step(q, w, operator, k, r, first, heads, made, chunk)
        if merged == NOTHING_DONE and step == NOTHING_DONE:
            number = ticket(q, thread)
            merged = merge_step(q, m, before, r, chunk)
            step = operate_step(q, w, operator, k, r, first, heads, made, chunk)
            if merged == NOTHING_DONE and step == NOTHING_DONE and load_acquire(stop, 0) == 0:
                await_wake(q, thread, number)
            else:
                cancel(q.sleepers, thread * CELL)


@kernel
def receive(q, m, before, w, s, r, thread, chunk, waits, ended, stop):
    """Run sink `s`: merge the queues from `before` on into its own queue `r`, and read that."""
    sums = np.zeros(2, np.int64)
    step = PROGRESS
    while step != OVER and load_acquire(stop, 0) == 0:
        merged = merge_step(q, m, before, r, chunk)
        step = receive_step(q, w, r, chunk, waits, sums)
        if merged == NOTHING_DONE and step == NOTHING_DONE:
            number = ticket(q, thread)
            merged = merge_step(q, m, before, r, chunk)
            step = receive_step(q, w, r, chunk, waits, sums)
            if merged == NOTHING_DONE and step == NOTHING_DONE and load_acquire(stop, 0) == 0:
                await_wake(q, thread, number)
            else:
                cancel(q.sleepers, thread * CELL)
    ended[s, 0] = sums[0]
    ended[s, 1] = sums[1]
