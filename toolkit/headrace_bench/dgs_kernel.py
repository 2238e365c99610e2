"""The event window of `headrace bench dgs` as two loops: over events that are in order, and over several inputs to be merged."""

import numpy as np

from headrace.kernel import kernel
from headrace_bench.event_window import worked

steps = kernel(worked)
"""The work of an event, as the program's own functions do it."""


@kernel
def presorted(is_barrier, x, rounds, sums):
    """Sum values between barriers, over events that are already in order. Returns the number of sums.

    With `rounds` of None a value is only added: Numba leaves the branch out of the compiled loop.
    """
    total = np.int64(0)
    count = 0
    for i in range(x.size):
        if is_barrier[i]:
            sums[count] = total
            count += 1
            total = 0
        elif rounds is None:
            total += x[i]
        else:
            total += steps(x[i], rounds)
    return count


@kernel
def merging(ts, x, first, barriers, rounds, sums):
    """As `presorted`, also in `rounds`, but merges inputs ``ts[first[s] : first[s + 1]]`` and barriers. Returns the number of
    sums."""
    streams = first.size - 1
    at = first[:-1].copy()
    total = np.int64(0)
    for b in range(barriers.size):
        while True:
            least = -1
            for s in range(streams):
                if at[s] < first[s + 1] and (least < 0 or ts[at[s]] < ts[at[least]]):
                    least = s
            if least < 0 or ts[at[least]] > barriers[b]:
                break
            if rounds is None:
                total += x[at[least]]
            else:
                total += steps(x[at[least]], rounds)
            at[least] += 1
        sums[b] = total
        total = 0
    return barriers.size


__all__ = ["merging", "presorted", "steps"]
