"""Sort key ids by the ranks of their keys (`ingress.key_ranks`).

The last key column comes first, since the sorts are stable. Each rank is sorted by bytes, from the least significant one, without
those above the largest difference: two or three passes for keys that lie close together, eight for hashes. Strings are sorted by
their first eight bytes; those that are equal so far are then merged, comparing the rest.

Checked     tests/headrace/elastic/test_passing_content.py
"""

import numpy as np

from headrace.ingress.sorting_kernel import sort_by_bytes
from headrace.kernel import kernel
from headrace.memory.text_order import order_behind_prefix

FEW = 32
"""Up to this many keys are sorted by insertion."""
SIGN = -(2**63)


@kernel
def insert_in_order(count, ids, words):
    """Sort few ids by their words, in place."""
    for i in range(1, count):
        word, key = words[i], ids[i]
        to = i
        while to > 0 and words[to - 1] > word:
            words[to] = words[to - 1]
            ids[to] = ids[to - 1]
            to -= 1
        words[to] = word
        ids[to] = key


@kernel
def put_in_order(count, ids, words, ranks, counts):
    """Sort ids by one rank of their keys, int64[ids]; those of equal rank keep their order. The rest as for `sort_by_ranks`."""
    is_sorted = True
    least = most = np.uint64(0)
    for i in range(count):
        word = np.uint64(ranks[ids[0, i]] ^ SIGN)  # unsigned, and ordered alike
        least = min(least, word) if i > 0 else word
        is_sorted &= word >= most
        most = max(most, word)
        words[0, i] = word
    if is_sorted:
        return
    if count <= FEW:
        insert_in_order(count, ids[0], words[0])
        return
    for i in range(count):
        words[0, i] -= least
    if sort_by_bytes(count, ids, words, most - least, counts) != 0:
        for i in range(count):
            ids[0, i] = ids[1, i]


@kernel
def merge_halves(ids, row, first, middle, end, addresses, lengths):
    """Merge two sorted runs in `row` of `ids`, from `first` and from `middle` on, into the other row."""
    left, right = first, middle
    for to in range(first, end):
        takes_left = right == end
        if left < middle and right < end:
            a, b = ids[row, left], ids[row, right]
            takes_left = order_behind_prefix(addresses[a], lengths[a], addresses[b], lengths[b]) <= 0
        if takes_left:
            ids[1 - row, to] = ids[row, left]
            left += 1
        else:
            ids[1 - row, to] = ids[row, right]
            right += 1


@kernel(seldom=True)
def sort_behind_prefix(ids, first, end, addresses, lengths):
    """Sort ids of strings whose first eight bytes are equal, in row 0 of `ids`; equal strings keep their order."""
    row = 0
    width = 1
    while width < end - first:
        for at in range(first, end, 2 * width):
            merge_halves(ids, row, at, min(at + width, end), min(at + 2 * width, end), addresses, lengths)
        row = 1 - row
        width *= 2
    if row != 0:
        for i in range(first, end):
            ids[0, i] = ids[1, i]


@kernel
def put_strings_in_order(count, ids, words, prefixes, addresses, lengths, counts):
    """Sort ids by one string of their keys; those of equal strings keep their order. As `put_in_order` otherwise."""
    put_in_order(count, ids, words, prefixes, counts)
    first = 0
    while first < count:
        end = first + 1
        while end < count and prefixes[ids[0, end]] == prefixes[ids[0, first]]:
            end += 1
        if end - first > 1:
            sort_behind_prefix(ids, first, end, addresses, lengths)
        first = end


@kernel
def sort_by_ranks(count, ids, words, ranks, layout, counts):
    """Sort the first `count` ids in row 0 of `ids` by the ranks of their keys.

    Parameters
    ----------
    count : int
    ids, words : int32[2, n], uint64[2, n]
        Scratch, but for those ids.
    ranks : int64[ranks, ids]
    layout : int64[ranks]
        1 where a rank is the address of a string, else 0.
    counts : int64[BYTES, BYTE]
        Scratch.
    """
    number = ranks.shape[0] - 1
    while number >= 0:
        if number > 0 and layout[number - 1] != 0:
            put_strings_in_order(count, ids, words, ranks[number - 2], ranks[number - 1], ranks[number], counts)
            number -= 3
        else:
            put_in_order(count, ids, words, ranks[number], counts)
            number -= 1


__all__ = ["sort_by_ranks"]
