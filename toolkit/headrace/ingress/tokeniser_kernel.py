"""Kernels that cut UTF-8 text into words, and make the ordered pairs of a row's words.

White space is what Python's ``str.split()`` takes for it. Its UTF-8 forms::

    09..0D  1C..20                  one byte
    C2 85   C2 A0                   U+0085, U+00A0
    E1 9A 80                        U+1680
    E2 80 80..8A  A8 A9 AF          U+2000..U+200A, U+2028, U+2029, U+202F
    E2 81 9F                        U+205F
    E3 80 80                        U+3000
"""

from __future__ import annotations

import numpy as np

from headrace.kernel import kernel

_PLAIN, _SPACE, _LEAD = 0, 1, 2
BYTE_CLASS = np.zeros(256, np.uint8)
BYTE_CLASS[[*range(9, 14), *range(28, 33)]] = _SPACE
BYTE_CLASS[[0xC2, 0xE1, 0xE2, 0xE3]] = _LEAD
_HASH_SIGN, _LAST_ASCII = 0x23, 0x7F


@kernel
def wide_space(data, position, end):
    """Return the length in bytes of the white space that starts at a lead byte, 0 if none does."""
    left = end - position
    first = data[position]
    if first == 0xC2:
        return 2 if left >= 2 and (data[position + 1] == 0x85 or data[position + 1] == 0xA0) else 0
    if left < 3:
        return 0
    second, third = data[position + 1], data[position + 2]
    if first == 0xE1:
        return 3 if second == 0x9A and third == 0x80 else 0
    if first == 0xE3:
        return 3 if second == 0x80 and third == 0x80 else 0
    if second == 0x80:
        is_space = 0x80 <= third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF
        return 3 if is_space else 0
    return 3 if second == 0x81 and third == 0x9F else 0


@kernel
def find_words(data, starts, ends, only_hashtags, marks, word_starts, word_ends, offsets):
    """Write where each word starts and ends, and the offsets of each text's words among them.

    It makes two passes over each text, while the text is in the first-level cache. The first
    notes the bytes that may begin white space, without a branch; the second
    looks only at those. (A loop over bytes with a branch at each word's ends
    costs 15 ns a word, this 6.)

    Parameters
    ----------
    data, starts, ends
        Text i is ``data[starts[i]:ends[i]]``.
    only_hashtags : bool
        Keep only words that start with ``#`` and have more characters, without that ``#``.
    marks : int64[at least the bytes of the longest text]
        Scratch.
    word_starts, word_ends : int[k]
        Written; k at least half of the bytes of the texts, rounded up for each, plus one.
    offsets : int32[n + 1]
        Written.

    Returns
    -------
    int
        Number of words found.
    """
    count = 0
    offsets[0] = 0
    for i in range(starts.size):
        start = np.int64(starts[i])
        end = np.int64(ends[i])
        text = data[start:end]
        found = 0
        for j in range(text.size):
            marks[found] = j
            found += BYTE_CLASS[text[j]] != _PLAIN
        base = start
        for k in range(found):
            position = base + marks[k]
            width = 1
            if data[position] > _LAST_ASCII:
                width = wide_space(data, position, end)
                if width == 0:
                    continue
            word_starts[count] = start
            word_ends[count] = position
            count += position > start
            start = position + width
        if end > start:
            word_starts[count] = start
            word_ends[count] = end
            count += 1
        if only_hashtags:
            count = _keep_hashtags(data, offsets[i], count, word_starts, word_ends)
        offsets[i + 1] = count
    return count


@kernel
def _keep_hashtags(data, first, count, word_starts, word_ends):
    kept = first
    for j in range(first, count):
        start, end = word_starts[j], word_ends[j]
        word_starts[kept] = start + 1
        word_ends[kept] = end
        kept += data[start] == _HASH_SIGN and end - start > 1
    return kept


@kernel
def count_pairs(offsets, distance, pair_offsets):
    """Write the offsets of each row's pairs ``i < j``, ``j - i <= distance``; returns how many there are."""
    total = np.int64(0)
    pair_offsets[0] = 0
    for i in range(offsets.size - 1):
        words = np.int64(offsets[i + 1]) - offsets[i]
        reach = min(distance, max(words - 1, 0))
        # The first words - reach have `reach` partners each, the others one fewer each time.
        total += reach * (words - reach) + reach * (reach - 1) // 2
        pair_offsets[i + 1] = total
    return total


@kernel
def fill_pairs(ids, offsets, distance, pairs):
    """Write the pairs of each row's words, int32[k, 2], in the order of i, then j."""
    count = 0
    for row in range(offsets.size - 1):
        end = offsets[row + 1]
        for i in range(offsets[row], end):
            for j in range(i + 1, min(np.int64(end), i + 1 + distance)):
                pairs[count, 0] = ids[i]
                pairs[count, 1] = ids[j]
                count += 1
