"""Results of the values that a window collected: quantiles, the most frequent value, the k best.

No memory is allocated at the end of a window: a quantile is found by selection in
place, and the k best, kept in a heap all along, are sorted in place.

Pivots are drawn at random, from the arena's seed: an attacker who chooses the data
cannot choose an order that makes selection slow. No result depends on them.

Checked     tests/headrace/elastic/test_collected.py
"""

from __future__ import annotations

import math

import numpy as np

from headrace.kernel import kernel
from headrace.memory.arena import COUNT, FIRST, SEED
from headrace.memory.lists_kernel import list_append, word_less
from headrace.memory.maps_kernel import VALUE
from headrace.memory.words import ALL_BUT_SIGN, NAN_RANK, float_rank

_SIGN = -(2**63)
_FEW = 12
"""Up to this many words are sorted rather than partitioned."""
WORD, BY = range(2)
"""Words of a pair of `top`: the value, and the word it is ranked by."""
PAIR_SHIFT = 1
PAIR_WORDS = 1 << PAIR_SHIFT


@kernel(borrows=True)
def rank_floats(arena, first, count):
    """Turn the bits of floats into integers of the same order, in place, without NaNs. Returns how many are left."""
    at = np.int64(first)
    end = np.int64(first + count)
    while at < end:
        rank = float_rank(arena[at])
        if rank == NAN_RANK:
            end -= 1
            arena[at] = arena[end]
        else:
            arena[at] = rank
            at += 1
    return end - first


@kernel(borrows=True)
def float_of_rank(rank):
    """The float that has this rank in `rank_floats`; 0.0 for -0.0."""
    return np.int64(rank ^ ((rank >> 63) & ALL_BUT_SIGN)).view(np.float64)


@kernel(borrows=True)
def select(arena, first, count, k):
    """Reorder words so that none before the one at `k` is larger, and none after it is smaller."""
    low = np.int64(first)
    high = np.int64(first + count)
    place = np.int64(first + k)
    drawn = np.uint64(arena[SEED]) | np.uint64(1)
    while high - low > _FEW:
        drawn ^= drawn << np.uint64(13)
        drawn ^= drawn >> np.uint64(7)
        drawn ^= drawn << np.uint64(17)
        pivot = arena[low + np.int64((drawn >> np.uint64(1)) % np.uint64(high - low))]
        less = low  # words from `low` to `less` are less than the pivot
        at = low  # words from `less` to `at` are equal to it
        more = high  # words from `more` on are greater
        while at < more:
            word = arena[at]
            if word < pivot:
                arena[at] = arena[less]
                arena[less] = word
                less += 1
                at += 1
            elif word > pivot:
                more -= 1
                arena[at] = arena[more]
                arena[more] = word
            else:
                at += 1
        if place < less:
            high = less
        elif place >= more:
            low = more
        else:
            return
    for at in range(low + 1, high):
        word = arena[at]
        to = at
        while to > low and arena[to - 1] > word:
            arena[to] = arena[to - 1]
            to -= 1
        arena[to] = word


@kernel(borrows=True)
def around(arena, first, count, q):
    """The two of `count` words (at least one) between which a quantile lies, and the fraction of the way to the second."""
    place = q * np.float64(count - 1)
    below = np.int64(math.floor(place))
    part = place - np.float64(below)
    select(arena, first, count, below)
    low = arena[first + below]
    high = low
    if below + 1 < count:
        high = arena[first + below + 1]
        for at in range(first + below + 2, first + count):
            high = min(high, arena[at])
    return low, high, part


@kernel(borrows=True)
def distance(low, high):
    """The distance from an integer to a larger one, as a float, rounded once."""
    return np.float64(np.uint64(np.int64(high ^ _SIGN)) - np.uint64(np.int64(low ^ _SIGN)))


@kernel(borrows=True)
def quantile_of_integers(arena, first, count, q):
    """Quantile of integers; 0 if there are none."""
    if count == 0:
        return 0.0
    low, high, part = around(arena, first, count, q)
    if part == 0.0 or low == high:
        return np.float64(low)
    return min(np.float64(low) + distance(low, high) * part, np.float64(high))


@kernel(borrows=True)
def quantile_of_times(arena, first, count, q, step):
    """Quantile of times or durations, all multiples of `step`, rounded to one (halves away from zero); 0 if there are none."""
    if count == 0:
        return np.int64(0)
    low, high, part = around(arena, first, count, q)
    if part == 0.0 or low == high:
        return np.int64(low)
    low, high = low // step, high // step
    exact = distance(low, high) * part
    whole = np.int64(math.floor(exact))
    rest = exact - np.float64(whole)
    result = np.int64(low + whole)
    if rest > 0.5 or (rest == 0.5 and result >= 0):
        result += 1
    return min(result, np.int64(high)) * step


@kernel(borrows=True)
def quantile_of_floats(arena, first, count, numbers, q, ignore_nan):
    """Quantile of floats that `rank_floats` has turned into ranks; NaN if there are none.

    Parameters
    ----------
    count, numbers : int
        How many values there are with NaNs, and without.
    ignore_nan : bool
        Skip NaNs; otherwise the result is NaN if there is one.
    """
    if numbers == 0 or (numbers < count and not ignore_nan):
        return np.nan
    low_rank, high_rank, part = around(arena, first, numbers, q)
    low = float_of_rank(low_rank)
    high = float_of_rank(high_rank)
    if part == 0.0 or low == high:
        return low
    if math.isinf(high - low):  # the difference overflows, or one of them is infinite
        return low * (1.0 - part) + high * part
    return min(low + (high - low) * part, high)


@kernel(borrows=True)
def most_frequent(arena, heads, at, order, prefixes, addresses, lengths):
    """The key with the largest count in a map of counts, the first in order if there are several; 0 if there is none."""
    first = heads[at + FIRST]
    stride = VALUE + 1  # a count is one word
    best = np.int64(0)
    most = np.int64(0)
    for i in range(heads[at + COUNT]):
        place = first + stride * i
        key = arena[place]
        count = arena[place + VALUE]
        if count > most or (count == most and word_less(key, best, order, prefixes, addresses, lengths)):
            best = key
            most = count
    return best


@kernel(borrows=True)
def precedes(word, by, other, other_by, order, prefixes, addresses, lengths, by_order, by_prefixes, by_addresses, by_lengths):
    """Whether a word comes before another: by the word it is ranked by, the larger first, then by its own value.

    Values that compare as equal (0.0 and -0.0, NaNs) are ordered by their bits.
    """
    if word_less(other_by, by, by_order, by_prefixes, by_addresses, by_lengths):
        return True
    if word_less(by, other_by, by_order, by_prefixes, by_addresses, by_lengths):
        return False
    if word_less(word, other, order, prefixes, addresses, lengths):
        return True
    return word < other and not word_less(other, word, order, prefixes, addresses, lengths)


@kernel(borrows=True)
def put_pair(arena, first, i, word, by):
    """Write pair `i` of the pairs that begin at `first`."""
    place = first + PAIR_WORDS * i
    arena[place + WORD] = word
    arena[place + BY] = by


@kernel(borrows=True)
def sink(
    arena, first, count, word, by,
    order, prefixes, addresses, lengths, by_order, by_prefixes, by_addresses, by_lengths,
):  # fmt: skip
    """Replace the root of a heap of `count` pairs by another pair, and sift it down; the root is the last in order."""
    i = np.int64(0)
    while 2 * i + 1 < count:
        below = 2 * i + 1
        child = first + PAIR_WORDS * below
        other = child + PAIR_WORDS
        if below + 1 < count and precedes(
            arena[child + WORD], arena[child + BY], arena[other + WORD], arena[other + BY],
            order, prefixes, addresses, lengths, by_order, by_prefixes, by_addresses, by_lengths,
        ):  # fmt: skip
            below += 1
            child = other
        if not precedes(
            word, by, arena[child + WORD], arena[child + BY],
            order, prefixes, addresses, lengths, by_order, by_prefixes, by_addresses, by_lengths,
        ):  # fmt: skip
            break
        put_pair(arena, first, i, arena[child + WORD], arena[child + BY])
        i = below
    put_pair(arena, first, i, word, by)


@kernel(borrows=True)
def keep_best(
    free, arena, lists, heads, at, k, word, by,
    order, prefixes, addresses, lengths, by_order, by_prefixes, by_addresses, by_lengths,
):  # fmt: skip
    """Add a pair to the k best, a heap whose root is the last of them in order. Returns 0, or -1 if there is no room."""
    count = heads[at + COUNT] >> PAIR_SHIFT
    if count == k:
        first = heads[at + FIRST]
        if precedes(
            word, by, arena[first + WORD], arena[first + BY],
            order, prefixes, addresses, lengths, by_order, by_prefixes, by_addresses, by_lengths,
        ):  # fmt: skip
            sink(
                arena, first, count, word, by,
                order, prefixes, addresses, lengths, by_order, by_prefixes, by_addresses, by_lengths,
            )  # fmt: skip
        return 0
    if list_append(free, arena, lists, heads, at, word) < 0 or list_append(free, arena, lists, heads, at, by) < 0:
        return -1
    first = heads[at + FIRST]
    i = count
    while i > 0:
        above = (i - 1) >> 1
        parent = first + PAIR_WORDS * above
        if not precedes(
            arena[parent + WORD], arena[parent + BY], word, by,
            order, prefixes, addresses, lengths, by_order, by_prefixes, by_addresses, by_lengths,
        ):  # fmt: skip
            break
        put_pair(arena, first, i, arena[parent + WORD], arena[parent + BY])
        i = above
    put_pair(arena, first, i, word, by)
    return 0


@kernel(borrows=True)
def order_best(
    arena, heads, at,
    order, prefixes, addresses, lengths, by_order, by_prefixes, by_addresses, by_lengths,
):  # fmt: skip
    """Sort the pairs of a heap in place, best first; afterwards it is not a heap."""
    first = heads[at + FIRST]
    count = heads[at + COUNT] >> PAIR_SHIFT
    while count > 1:
        count -= 1
        last = first + PAIR_WORDS * count
        word, by = arena[last + WORD], arena[last + BY]
        put_pair(arena, first, count, arena[first + WORD], arena[first + BY])
        sink(
            arena, first, count, word, by,
            order, prefixes, addresses, lengths, by_order, by_prefixes, by_addresses, by_lengths,
        )  # fmt: skip
