"""ScaleJoin written for this one join: what each thread does, without an engine around it.

All threads read one merged input. Each stores every so many-th tuple of a side in arrays of its own, and compares
each tuple of the input with those of the other side that it has stored: so each pair is compared by one thread. It
compares by 1T's kernel (`join_kernel`), and waits for the gate as the engine does. There is no key, no epoch,
no promise, no result ring, and no function that could be another one.

Source      Gulisano et al., ScaleJoin, IEEE Trans. Big Data 7(2); STRETCH, Operator 10, which it is there.
"""

from __future__ import annotations

import numpy as np

from headrace.codegen.parts import EntryCompiler
from headrace.gates.merged_log_kernel import advance, lane, peek
from headrace.gates.reader_kernel import await_records
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, load_acquire
from headrace.progress import END_OF_TIME
from headrace.references import HEARTBEAT, SOURCE_SHIFT
from headrace_bench.join_kernel import PROBES, compare

RECORDS = 256
"""Of the input at a time; what is compared together does not reach from one to the next."""


@kernel(pipeline=EntryCompiler)
def join_share(
    g, me, share, ts, x, y, other_ts, a, b, own_ts, own_x, own_y, own_other_ts, own_a, own_b, size, first, spins, out, stop
):
    """Read to the end of the input as one of `share` threads, number `me`.

    Parameters
    ----------
    g : LogArrays
        Left tuples are of source 0, right ones of source 1; rows are numbers of their side.
    ts, x, y, other_ts, a, b, size, first
        As of `join_kernel.join_loop`.
    own_ts, own_x, own_y, own_other_ts, own_a, own_b : arrays
        Room for what this thread stores; written, but for what is there already.
    spins : int
        Looks before it sleeps.
    out : int64[3]
        Added to: see `join_kernel.COUNT`.
    stop : int64[]
    """
    row, position = lane(g, me), load_acquire(g.cursor, me * CELL)
    left_kept = right_kept = (first - me + share - 1) // share
    left_from = right_from = 0  # of the stored ones, the first that is less than `size` older
    starts, stops = np.zeros((2, PROBES), np.int64), np.zeros((2, PROBES), np.int64)
    i = j = first
    is_over = False
    while not is_over and load_acquire(stop, 0) == 0:
        start, count = peek(g, me, position, RECORDS)
        if count == 0:
            await_records(g, me, position, spins, stop)
            continue
        lefts = rights = 0
        for n in range(start, start + count):
            ref = g.out_ref[row, n]
            if ref < 0:
                is_over = is_over or (ref == HEARTBEAT and g.out_ts[row, n] == END_OF_TIME)
            elif ref >> SOURCE_SHIFT == 0:
                if lefts == PROBES:
                    compare(own_a, own_b, x, y, ts, i - lefts, lefts, starts[0], stops[0], False, share, me, out)
                    lefts = 0
                while right_from < right_kept and ts[i] - own_other_ts[right_from] >= size:
                    right_from += 1
                starts[0, lefts], stops[0, lefts] = right_from, right_kept
                lefts += 1
                if i % share == me:
                    own_ts[left_kept], own_x[left_kept], own_y[left_kept] = ts[i], x[i], y[i]
                    left_kept += 1
                i += 1
            else:
                if rights == PROBES:
                    compare(own_x, own_y, a, b, other_ts, j - rights, rights, starts[1], stops[1], True, share, me, out)
                    rights = 0
                while left_from < left_kept and other_ts[j] - own_ts[left_from] >= size:
                    left_from += 1
                starts[1, rights], stops[1, rights] = left_from, left_kept
                rights += 1
                if j % share == me:
                    own_other_ts[right_kept], own_a[right_kept], own_b[right_kept] = other_ts[j], a[j], b[j]
                    right_kept += 1
                j += 1
        if lefts > 0:
            compare(own_a, own_b, x, y, ts, i - lefts, lefts, starts[0], stops[0], False, share, me, out)
        if rights > 0:
            compare(own_x, own_y, a, b, other_ts, j - rights, rights, starts[1], stops[1], True, share, me, out)
        position += count
        advance(g, me, position)
