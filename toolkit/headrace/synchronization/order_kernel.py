"""The order of results: by the time of their events, which lie close together, then by input and row, then as they came.

Times of one release differ by little, and those of a worker are almost in order: to count how many have each digit is a
third of what a sort that compares costs. What is equal in time is moved to its place by hand, and seldom is there much.
"""

from headrace.kernel import kernel

DIGIT = 11
"""Bits of a time that are looked at together."""
MOST_BITS = 3 * DIGIT
"""Times that are further apart are left to a sort that compares."""
MOVES = 4
"""Moves for each result, of those equal in time, before that is left to a sort that compares, too."""


@kernel
def is_before(primary, a, b, one, other):
    if primary[one] != primary[other]:
        return primary[one] < primary[other]
    if a[one] != a[other]:
        return a[one] < a[other]
    return b[one] < b[other]


@kernel
def put_in_order(primary, a, b, places, scratch, counts):
    """Put places of results into the order of these; what is equal keeps its order.

    Parameters
    ----------
    primary, a, b : int64[...]
        Columns of results.
    places : int64[n]
        Of those to be ordered, of which there is at least one; rewritten.
    scratch : int64[n]
    counts : int64[2 ** DIGIT]

    Returns
    -------
    bool
        False if they are too far apart, or too many are equal in time: `places` has all of them, in any order.
    """
    n = places.size
    low = high = before = primary[places[0]]
    is_sorted = True
    for k in range(n):
        time = primary[places[k]]
        is_sorted = is_sorted and time >= before
        low, high, before = min(low, time), max(high, time), time
    width = high - low
    if not is_sorted and (width < 0 or width >> MOST_BITS != 0):
        return False
    shift = 0
    while not is_sorted and width >> shift != 0:
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


__all__ = ["DIGIT", "put_in_order"]
