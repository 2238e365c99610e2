"""1T with tuples that arrive at a steady rate: one thread that only joins, and the latency of pairs.

Source      STRETCH, section 8.3: the latency of 1T in Figure 8.
"""

from __future__ import annotations

import numpy as np

from headrace.codegen.parts import EntryCompiler
from headrace.kernel import kernel
from headrace.memory.atomics import nanosleep, now_ns
from headrace_bench.join_kernel import PROBES
from headrace_bench.scalejoin_kernel import note

SLEEP_NS = 50_000
"""Also the shortest sleep of sources with a given rate (`feeding_kernel.due_tuples`)."""


@kernel(pipeline=EntryCompiler)
def join_paced(ts, x, y, other_ts, a, b, size, first, per_second, out, waits):
    """Join as `join_kernel.join_loop`, with tuples that arrive at a steady rate: each pass takes those that have arrived.

    Parameters
    ----------
    ts, x, y, other_ts, a, b, size, first
        As for `join_loop`.
    per_second : int
        Tuples per second of each side; tuple k of either arrives (k - first) / per_second seconds after the beginning.
    out : int64[5]
        Added to, as by `scalejoin_kernel.join_share`.
    waits : int64[n, 3]
        Written, as by `join_share`: from when a tuple was taken until its pairs had been compared.
    """
    i = j = first
    left_from = right_from = 0
    starts, stops = np.zeros((2, PROBES), np.int64), np.zeros((2, PROBES), np.int64)
    begin = now_ns()
    while i < ts.size or j < other_ts.size:
        now = now_ns()
        due = first + (now - begin) * per_second // 1_000_000_000 + 1
        lefts = rights = 0
        while True:
            if i < ts.size and (j == other_ts.size or ts[i] <= other_ts[j]):
                if i >= due or lefts == PROBES:
                    break
                while right_from < j and ts[i] - other_ts[right_from] >= size:
                    right_from += 1
                starts[0, lefts], stops[0, lefts] = right_from, j
                lefts += 1
                i += 1
            elif j < other_ts.size:
                if j >= due or rights == PROBES:
                    break
                while left_from < i and other_ts[j] - ts[left_from] >= size:
                    left_from += 1
                starts[1, rights], stops[1, rights] = left_from, i
                rights += 1
                j += 1
            else:
                break
        if lefts > 0:
            note(a, b, x, y, ts, i - lefts, lefts, starts[0], stops[0], False, 1, 0, now, out, waits)
        if rights > 0:
            note(x, y, a, b, other_ts, j - rights, rights, starts[1], stops[1], True, 1, 0, now, out, waits)
        if lefts + rights == 0:
            nanosleep(SLEEP_NS)
