"""Page views and frauds as one loop over events that are already in order."""

import numpy as np

from headrace.kernel import kernel
from headrace_bench.dgs_kernel import steps


@kernel
def joined(is_rare, page, what, rounds, out):
    """Join views with the info of their page; `what` is a view's user or an update's info. Returns the number of results."""
    info = np.zeros(1024, np.int64)
    for i in range(page.size):
        out[0, i] = page[i] if is_rare[i] else steps(page[i], rounds)
        out[1, i] = -1 if is_rare[i] else what[i]
        out[2, i] = info[page[i]]
        if is_rare[i]:
            info[page[i]] = what[i]
    return page.size


@kernel
def frauds(is_rare, value, rounds, out):
    """Emit transactions that the last rule's model flags, and rules with the sum before them. Returns the number of results."""
    total, model, count = np.int64(0), np.int64(0), 0
    for i in range(value.size):
        if is_rare[i]:
            out[0, count], out[1, count] = 1, total
            count += 1
            model = (total + value[i]) % 1000
            total = np.int64(0)
        else:
            x = steps(value[i], rounds)
            if x % 1000 == model:
                out[0, count], out[1, count] = 0, x
                count += 1
            total += x
    return count


__all__ = ["frauds", "joined"]
