"""Transactions that run whole, one event after another as the scheme allows.

This file is the part of the family "whole" in the executors' loop (`executor_kernel`).
It calls by address, of each operator,

    prepare_events(me, c, x, s, l, first, last)   writes key sets; returns the first event that did not fit, or `last`
    run_event(me, c, x, s, l, i)                  runs all functions of event `i`, in place; where l[VERSIONED] is set,
                                                  on the rows that `versions_kernel.place_of` gives
    run_events(me, c, x, s, l, first, last)       the same for each of these events

All schemes call the same `run_event`, so the user's code is compiled once: they are
chosen by data (`schemes_kernel`).
"""

from headrace.kernel import kernel
from headrace.memory.atomics import load_relaxed
from headrace.transactions.key_sets_kernel import begin_region, begin_set, end_set, note
from headrace.transactions.schemes_kernel import (
    arrange_batch,
    arrange_slice,
    begin_taking,
    has_sets,
    is_free,
    let_go,
    settle_slice,
    take,
)
from headrace.transactions.words import (
    CAUSE,
    FIT,
    LAST,
    NEXT,
    NO_EVENT,
    OUT_OF_EVENTS,
    SLICE_FIRST,
    SLICE_LAST,
)

FAMILY_HERE = 0


@kernel
def prepare_batch(me, c, x, s, l, config):
    begin_region(c, me, l[SLICE_FIRST], l[SLICE_LAST])
    fit = prepare_events(me, c, x, s, l, l[SLICE_FIRST], l[SLICE_LAST])
    arrange_slice(me, c, l, config, fit)
    return fit


@kernel
def execute_batch(me, c, x, s, l, config):
    begin_taking(me, c, l, config)
    if is_free(c, l, config):
        # A call for each event takes longer than a short transaction.
        run_events(me, c, x, s, l, l[NEXT], l[LAST])
        return True
    executed = load_relaxed(c.words, FIT)
    l[CAUSE] = NO_EVENT
    while True:
        i = take(me, c, l, config, executed)
        if i < 0:
            return i == OUT_OF_EVENTS
        l[CAUSE] = i
        run_event(me, c, x, s, l, i)
        let_go(me, c, l, config, i)
        l[CAUSE] = NO_EVENT


@kernel
def finish_slice(me, c, x, s, l, first, last):
    settle_slice(c, l, first, last)
