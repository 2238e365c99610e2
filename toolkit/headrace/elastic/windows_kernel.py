"""Which windows a tuple falls into, and how many tuples in a row fall into the same ones."""

from headrace.ingress.store_kernel import chunk_of, rest_of_chunk
from headrace.kernel import kernel


@kernel
def windows_of(t, size, advance):
    """First and last window of a tuple, and from when on tuples fall into others; all in the units of the window."""
    earliest = (t - size) // advance + 1
    latest = t // advance
    return earliest, latest, min((latest + 1) * advance, earliest * advance + size)


@kernel
def end_of_run(ts, refs, first, turn, rows_follow):
    """Where the run of tuples from `first` on ends: they follow each other in one chunk, and come before `turn`.

    Where of each source all rows are read, one behind the other (`rows_follow`), the last one tells.
    """
    last = ts.size - 1
    ref = refs[first]
    if rows_follow:
        if ts[last] < turn and refs[last] - ref == last - first and chunk_of(refs[last]) == chunk_of(ref):
            return last + 1  # as a rule
    end = first + 1
    stop = min(last + 1, first + rest_of_chunk(ref))
    while end < stop and ts[end] < turn and refs[end] - ref == end - first:
        end += 1
    return end
