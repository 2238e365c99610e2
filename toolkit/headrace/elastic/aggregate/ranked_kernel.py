"""The results of a window in order of their keys, for a gate that merges what several instances give by content.

Key ids do not order as keys do; the ranks of keys do (`KeyDictionary.ranks`), one for each column of the key. Each instance sorts
the keys that it owns and that have a window instance, and emits these. Included in the module of an aggregate whose results are
wanted so (`template`).

Keys are sorted by the last rank first, since the sorts are stable. Each goes by bytes, from the least significant one, and skips
those above the largest difference: two or three passes for keys that lie close together, eight for hashes.

Source      STRETCH, section 5 (TB_out: results of equal event time are ordered by content).
Checked     tests/headrace/elastic/test_passing_content.py
"""

# ruff: noqa: F821  (names of `aggregate_kernel`)

import numpy as np

from headrace.elastic.instance_loop import IN_FORCE, LOW, SCATTERED, WIDTH
from headrace.elastic.words import IDS
from headrace.kernel import kernel
from headrace.memory.atomics import load_acquire
from headrace.references import BUCKETS

FEW = 32
"""Up to this many keys are sorted by insertion."""
BYTE = 256
SIGN = -(2**63)


@kernel
def find_keys(me, c, s, l, rows, place, ids):
    """Write to `ids` the owned keys that have a window instance in `place`; it has room for one more. Returns how many."""
    found = 0
    owner = c.owner[l[IN_FORCE]]
    for row in range(rows):
        first = row * BUCKETS
        if l[SCATTERED] == 0:
            for bucket in range(l[LOW], l[LOW] + l[WIDTH]):
                ids[found] = first + bucket
                found += s.counts[(first + bucket) * SLOTS + place] != 0
        else:
            for bucket in range(BUCKETS):
                ids[found] = first + bucket
                found += (s.counts[(first + bucket) * SLOTS + place] != 0) & (owner[bucket] == me)
    return found


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
def sort_by_word(count, ids, words, most, starts):
    """Sort ids by their words, of which `most` is the largest. Returns the row of `ids` that has them in order."""
    row = 0
    shift = np.uint64(0)
    while shift < np.uint64(64) and most >> shift != np.uint64(0):
        for digit in range(BYTE):
            starts[digit] = 0
        for i in range(count):
            starts[(words[row, i] >> shift) & np.uint64(BYTE - 1)] += 1
        before = 0
        for digit in range(BYTE):
            with_digit = starts[digit]
            starts[digit] = before
            before += with_digit
        for i in range(count):
            digit = (words[row, i] >> shift) & np.uint64(BYTE - 1)
            to = starts[digit]
            starts[digit] = to + 1
            words[1 - row, to] = words[row, i]
            ids[1 - row, to] = ids[row, i]
        row = 1 - row
        shift += np.uint64(8)
    return row


@kernel
def put_in_order(count, ids, words, ranks, starts):
    """Sort `count` ids in row 0 of `ids` by one rank of their keys; those of equal rank keep their order.

    Parameters
    ----------
    ids, words : int32[2, n], uint64[2, n]
        Scratch, but for those ids.
    ranks : int64[ids]
    starts : int64[BYTE]
        Scratch.
    """
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
    if sort_by_word(count, ids, words, most - least, starts) != 0:
        for i in range(count):
            ids[0, i] = ids[1, i]


@kernel
def emit_by_rank(me, c, o, s, l, buffer, place, boundary):
    """Emit a window's results for the keys owned, in the order of the keys' ranks."""
    ids, words = s.sorted_ids[2 * me : 2 * me + 2], s.sorted_words[2 * me : 2 * me + 2]
    found = find_keys(me, c, s, l, load_acquire(c.words, IDS), place, ids[0])
    for number in range(s.ranks.shape[0] - 1, -1, -1):
        put_in_order(found, ids, words, s.ranks[number], s.sorted_starts[me])
    return emit(me, o, s, l, ids[0, :found], np.int64(0), place, boundary)
