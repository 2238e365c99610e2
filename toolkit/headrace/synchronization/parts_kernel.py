"""Which part of a keyed tag a key belongs to: the stable hash of its value (`ingress.hashing`), modulo the parts.

A part is written into plans and checkpoints, so this must not change.
"""

import numpy as np

from headrace.ingress.hashing import SHORT, hash_long, load_short, mix
from headrace.kernel import kernel


@kernel
def part_of_word(word, parts):
    """Return the part of a number: an integer, a bool as 0 or 1, a time in its unit."""
    return np.int64(mix(np.uint64(word), SHORT) % np.uint64(parts))


@kernel
def part_of_text(data, start, length, parts):
    """Return the part of a string: UTF-8 in ``data[start : start + length]``."""
    h = mix(load_short(data, start, length), length) if length <= SHORT else hash_long(data, start, length)
    return np.int64(h % np.uint64(parts))


@kernel
def parts_of_words(words, parts, found):
    """Write the part of each number.

    Parameters
    ----------
    words : int64[n]
    parts : int
    found : int64[n]
        Written.
    """
    for i in range(words.size):
        found[i] = part_of_word(words[i], parts)


@kernel
def parts_of_texts(data, offsets, parts, found):
    """Write the part of each string.

    Parameters
    ----------
    data : uint8[bytes]
    offsets : int64[n + 1]
        String i is ``data[offsets[i] : offsets[i + 1]]``.
    parts : int
    found : int64[n]
        Written.
    """
    for i in range(found.size):
        found[i] = part_of_text(data, offsets[i], offsets[i + 1] - offsets[i], parts)
