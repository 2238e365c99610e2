"""What the programs of `headrace bench dgs` do, as a loop over one order of events, and over several inputs that it merges."""

import numpy as np

from headrace.kernel import kernel


@kernel
def steps(value, rounds):
    """As `event_window.worked`."""
    x = (value & 0xFFFFFFFF) | 1
    for _ in range(rounds):
        for _ in range(6):
            x ^= (x & 0x7FFFF) << 13
            x ^= x >> 17
            x ^= (x & 0x7FFFFFF) << 5
    return value if x != 0 else value + 1


@kernel
def presorted(is_barrier, x, rounds, sums):
    """Sum values between barriers, of events that are in their order already. How many sums."""
    total = np.int64(0)
    count = 0
    for i in range(x.size):
        if is_barrier[i]:
            sums[count] = total
            count += 1
            total = 0
        else:
            total += steps(x[i], rounds)
    return count


@kernel
def merging(ts, x, first, barriers, rounds, sums):
    """The same of inputs ``ts[first[s] : first[s + 1]]`` and barriers, which it merges. How many sums."""
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
            total += steps(x[at[least]], rounds)
            at[least] += 1
        sums[b] = total
        total = 0
    return barriers.size


__all__ = ["merging", "presorted", "steps"]
