"""Transactions as single operations, each in the chain of its record (`chains_kernel`, or `skip_chains_kernel`).

This file is the part of the family "operations" in the executors' loop (`executor_kernel`).
It calls by address, of each operator,

    prepare_operations(me, c, x, s, l, first, last)   notes operations; returns the first event that did not fit, or `last`
    run_operations(me, c, x, s, l, first, last, executed)   runs those of `entries`, up to the first of event `executed`
    finish_events(me, c, x, s, l, first, last)   after all operations of the batch, before the events' rows are given
"""

from headrace.kernel import kernel
from headrace.memory.atomics import load_relaxed
from headrace.transactions.chains_kernel import bounds_of, sort_by_part, take_part
from headrace.transactions.combining_kernel import LEFT_OUT, begin_combining, end_combining
from headrace.transactions.flow_kernel import class_of
from headrace.transactions.key_sets_kernel import (
    FIRST_OPERATION,
    SET_AT,
    begin_region,
    begin_set,
    end_set,
    note_operation,
)
from headrace.transactions.skip_chains_kernel import (
    LEVELS,
    clear_head,
    forget_slice,
    has_skip_lists,
    insert_slice,
)
from headrace.transactions.words import (
    EVENT_SHIFT,
    FIT,
    PART,
    PIECE,
    SLICE_FIRST,
    SLICE_LAST,
    THREADS,
)

FAMILY_HERE = 1


@kernel
def has_sets(c, config):
    return True


@kernel
def prepare_batch(me, c, x, s, l, config):
    first, last = l[SLICE_FIRST], l[SLICE_LAST]
    begin_region(c, me, first, last)
    begin_combining(c, me, not has_skip_lists(c))
    fit = prepare_operations(me, c, x, s, l, first, last)
    end_combining(c, me)
    if c.rows[config, THREADS] > 1:
        if has_skip_lists(c):
            insert_slice(me, c, l, config)
        else:
            sort_by_part(me, c, config)
    else:  # they are in the order of events already
        at = c.filling[0, FIRST_OPERATION]
        for o in range(at, c.filling[0, SET_AT]):
            if c.link[o] != LEFT_OUT:
                c.entries[at] = o
                at += 1
        c.part_at[0, 0] = at
    return fit


@kernel
def arrange_batch(me, c, l, config):
    if has_skip_lists(c) and c.rows[config, THREADS] > 1 and load_relaxed(c.words, FIT) == 0:
        forget_slice(me, c, config)
    return True


@kernel
def run_chains(me, c, x, s, l, p, threads, executed):
    """Run the chains of a part, one after another: their operations are lined up in the executor's piece of `entries`."""
    piece = c.sets.size + me * PIECE
    filled = 0
    for slice_of in range(threads):
        begun = c.part_at[slice_of, p]
        while begun != 0:
            record = c.sets[begun - 1] >> 1
            length = 0
            at = c.links[record * LEVELS]
            while at != 0:
                if c.link[at - 1] >> EVENT_SHIFT < executed:
                    c.entries[piece + filled] = at - 1
                    filled += 1
                    length += 1
                    if filled == PIECE:
                        run_operations(me, c, x, s, l, piece, piece + filled, executed)
                        filled = 0
                at = c.links[(c.heads.size + at - 1) * LEVELS]
            if length > 0:
                c.lengths[me, class_of(length)] += 1
            clear_head(c, record)
            begun = c.link_2[begun - 1]
    run_operations(me, c, x, s, l, piece, piece + filled, executed)


@kernel
def execute_batch(me, c, x, s, l, config):
    executed = load_relaxed(c.words, FIT)
    threads = c.rows[config, THREADS]
    l[PART] = -1
    while True:
        if threads == 1:
            p = 0 if l[PART] < 0 else -1
            l[PART] = 0
        else:
            p = take_part(me, c, l, config)
        if p < 0:
            return True
        if threads > 1 and has_skip_lists(c):
            run_chains(me, c, x, s, l, p, threads, executed)
            continue
        for slice_of in range(threads):
            begin, end = bounds_of(c, config, slice_of, p)
            run_operations(me, c, x, s, l, begin, end, executed)


@kernel
def finish_slice(me, c, x, s, l, first, last):
    finish_events(me, c, x, s, l, first, last)
