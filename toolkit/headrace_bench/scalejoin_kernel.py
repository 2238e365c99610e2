"""ScaleJoin written for this one join: what each thread does, without an engine around it.

All threads read one merged input. Each of n threads stores every n-th tuple of a side in arrays of its own, and compares
each tuple of the input with those of the other side that it has stored, so each pair is compared by one thread. It
compares with 1T's kernel (`join_kernel`), and waits for the gate as the engine does. There are no keys, epochs,
promises or result rings, and the condition is fixed.

Source      Gulisano et al., ScaleJoin, IEEE Trans. Big Data 7(2); it is Operator 10 of STRETCH.
"""

from __future__ import annotations

import numpy as np

from headrace.codegen.parts import EntryCompiler
from headrace.gates.merged_log_kernel import advance, lane, peek
from headrace.gates.reader_kernel import await_records
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, load_acquire, load_relaxed, now_ns, store_relaxed
from headrace.progress import END_OF_TIME
from headrace.references import HEARTBEAT, SOURCE_SHIFT
from headrace_bench.join_kernel import COUNT, PROBES, ROWS, compare

NOTED, COMPARED = ROWS + 1, ROWS + 2
"""Indices in `out` of the number of recorded waits, and of comparisons made, which another thread may read meanwhile."""
RECORDS = 256
"""Number of records read from the input at a time; tuples that are compared together all come from one read."""


@kernel(pipeline=EntryCompiler)
def join_share(
    g, me, share, ts, x, y, other_ts, a, b, own_ts, own_x, own_y, own_other_ts, own_a, own_b, size, first, spins, out, waits,
    stop,
):
    """Read to the end of the input as one of `share` threads, number `me`.

    Parameters
    ----------
    g : LogArrays
        Left tuples come from source 0, right ones from source 1; a tuple's row is its number within its side.
    ts, x, y, other_ts, a, b, size, first
        As for `join_kernel.join_loop`.
    own_ts, own_x, own_y, own_other_ts, own_a, own_b : arrays
        Storage of this thread's tuples; written after those already there.
    spins : int
        How often it looks for input before it sleeps.
    out : int64[5]
        Counters, added to: see `join_kernel.COUNT`, and `NOTED`.
    waits : int64[n, 3]
        Written, as far as there is room: for each pair the event time of its later tuple, when that tuple arrived, and when it
        had been compared, in nanoseconds. Tuples that are compared together all get the first one's values.
    stop : int64[]
    """
    row, position = lane(g, me), load_acquire(g.cursor, me * CELL)
    left_kept = right_kept = (first - me + share - 1) // share
    left_from = right_from = 0  # the first stored tuple that is less than `size` older
    starts, stops = np.zeros((2, PROBES), np.int64), np.zeros((2, PROBES), np.int64)
    left_at = right_at = np.int64(0)  # when the first tuple that waits to be compared came
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
                    note(own_a, own_b, x, y, ts, i - lefts, lefts, starts[0], stops[0], False, share, me, left_at, out, waits)
                    lefts = 0
                if lefts == 0:
                    left_at = g.out_at[row, n]
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
                    note(
                        own_x, own_y, a, b, other_ts, j - rights, rights, starts[1], stops[1], True, share, me,
                        right_at, out, waits,
                    )  # fmt: skip
                    rights = 0
                if rights == 0:
                    right_at = g.out_at[row, n]
                while left_from < left_kept and other_ts[j] - own_ts[left_from] >= size:
                    left_from += 1
                starts[1, rights], stops[1, rights] = left_from, left_kept
                rights += 1
                if j % share == me:
                    own_other_ts[right_kept], own_a[right_kept], own_b[right_kept] = other_ts[j], a[j], b[j]
                    right_kept += 1
                j += 1
        if lefts > 0:
            note(own_a, own_b, x, y, ts, i - lefts, lefts, starts[0], stops[0], False, share, me, left_at, out, waits)
        if rights > 0:
            note(own_x, own_y, a, b, other_ts, j - rights, rights, starts[1], stops[1], True, share, me, right_at, out, waits)
        position += count
        advance(g, me, position)


@kernel(pipeline=EntryCompiler)
def note(xs, ys, probe_x, probe_y, probe_ts, first, count, starts, stops, is_right, share, me, at, out, waits):
    """Call `compare`, count the comparisons, and record the times of the pairs it finds, as far as there is room."""
    before = out[COUNT]
    compare(xs, ys, probe_x, probe_y, probe_ts, first, count, starts, stops, is_right, share, me, out)
    compared = load_relaxed(out, COMPARED)
    for q in range(count):
        compared += stops[q] - starts[q]
    store_relaxed(out, COMPARED, compared)
    until = min(waits.shape[0], out[NOTED] + out[COUNT] - before)
    if until > out[NOTED]:
        now = now_ns()
        for k in range(out[NOTED], until):
            waits[k, 0], waits[k, 1], waits[k, 2] = probe_ts[first], at, now
        out[NOTED] = until
