"""Sorts results: by the time of their events, then by input and row, then as they came.

A worker gives its results in order while it stays with one queue, so a release is a few sorted runs, which are merged.
Where there are many runs, as with many queues whose events alternate, a radix sort by time is used: times of one release are
close together, and it costs a third of a comparison sort. Results of equal time are then moved to their places one by one;
there are seldom many.
"""

from headrace.kernel import kernel

MOST_RUNS = 16
"""Most runs that are merged, in four passes at most; for more runs, the radix sort is faster."""
DIGIT = 11
"""Bits of a time in one digit of the radix sort."""
MOST_BITS = 3 * DIGIT
"""Times that are further apart are left to a comparison sort."""
MOVES = 4
"""Moves per result, among results of equal time, before these are left to a comparison sort too."""


@kernel
def is_before(primary, a, b, one, other):
    if primary[one] != primary[other]:
        return primary[one] < primary[other]
    if a[one] != a[other]:
        return a[one] < a[other]
    return b[one] < b[other]


@kernel
def runs_of(primary, a, b, places, starts):
    """Find where the sorted runs after the first begin. Returns how many runs there are, or one more than `starts` holds."""
    starts[0] = 0
    runs = 1
    before = places[0]
    for k in range(1, places.size):
        place = places[k]
        if is_before(primary, a, b, place, before):
            if runs == starts.size:
                return runs + 1
            starts[runs] = k
            runs += 1
        before = place
    return runs


@kernel
def merge(primary, a, b, places, merged, low, middle, high):
    """Merge two adjacent runs into one at the same place of another array."""
    i, j, k = low, middle, low
    if middle < high:
        one, other = places[i], places[j]
        time, other_time = primary[one], primary[other]
        while True:
            if other_time < time or (other_time == time and is_before(primary, a, b, other, one)):
                merged[k] = other
                k += 1
                j += 1
                if j == high:
                    break
                other = places[j]
                other_time = primary[other]
            else:
                merged[k] = one
                k += 1
                i += 1
                if i == middle:
                    break
                one = places[i]
                time = primary[one]
    merged[k : k + middle - i] = places[i:middle]
    k += middle - i
    merged[k : k + high - j] = places[j:high]


@kernel
def merge_all(primary, a, b, places, scratch, starts, runs):
    """Merge runs two by two, until one is left in `places`."""
    n, passes = places.size, 0
    while runs > 1:
        for r in range(0, runs, 2):
            low = starts[r]
            middle = starts[r + 1] if r + 1 < runs else n
            high = starts[r + 2] if r + 2 < runs else n
            if passes % 2 == 0:
                merge(primary, a, b, places, scratch, low, middle, high)
            else:
                merge(primary, a, b, scratch, places, low, middle, high)
            starts[r // 2] = low
        runs = (runs + 1) // 2
        passes += 1
    if passes % 2 != 0:
        places[:] = scratch


@kernel
def put_in_order(primary, a, b, places, scratch, counts, starts):
    """Sort places of results into the order of the results; equal ones keep their order.

    Parameters
    ----------
    primary, a, b : int64[...]
        Columns of results.
    places : int64[n]
        Of those to be ordered, of which there is at least one; rewritten.
    scratch : int64[n]
    counts : int64[2 ** DIGIT]
    starts : int64[MOST_RUNS]

    Returns
    -------
    bool
        False if there are many runs, and times are too far apart or too many of them equal: `places` then has all of them, in
        any order.
    """
    runs = runs_of(primary, a, b, places, starts)
    if runs <= starts.size:
        merge_all(primary, a, b, places, scratch, starts, runs)
        return True
    n = places.size
    low = high = primary[places[0]]
    for k in range(n):
        time = primary[places[k]]
        low, high = min(low, time), max(high, time)
    width = high - low
    if width < 0 or width >> MOST_BITS != 0:
        return False
    shift = 0
    while width >> shift != 0:
        counts[:] = 0
        for k in range(n):
            counts[((primary[places[k]] - low) >> shift) & ((1 << DIGIT) - 1)] += 1
        total = 0
        for digit in range(1 << DIGIT):
            count = counts[digit]
            counts[digit] = total
            total += count
        for k in range(n):
            place = places[k]
            digit = ((primary[place] - low) >> shift) & ((1 << DIGIT) - 1)
            scratch[counts[digit]] = place
            counts[digit] += 1
        places[:] = scratch
        shift += DIGIT
    moves = MOVES * n
    for k in range(1, n):
        place, to = places[k], k
        while to > 0 and moves > 0 and is_before(primary, a, b, place, places[to - 1]):
            places[to] = places[to - 1]
            to -= 1
            moves -= 1
        places[to] = place
    return moves > 0


__all__ = ["DIGIT", "MOST_RUNS", "put_in_order"]
