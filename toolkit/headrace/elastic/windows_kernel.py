"""Which windows a tuple falls into, and how many tuples in a row fall into the same ones."""

from headrace.ingress.store_kernel import chunk_of, rest_of_chunk
from headrace.kernel import kernel


@kernel
def windows_of(t, size, advance):
    """First and last window of a tuple, and the time from which tuples fall into other windows; all in window units."""
    earliest = (t - size) // advance + 1
    latest = t // advance
    return earliest, latest, min((latest + 1) * advance, earliest * advance + size)


@kernel
def end_of_run(ts, refs, first, turn, rows_follow):
    """Where the run of tuples from `first` on ends: consecutive rows of one chunk with times before `turn`.

    If all rows of each source are read, without gaps (`rows_follow`), it is enough to look at the last tuple.
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
