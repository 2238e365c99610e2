"""The order of strings that kernels know by id.

There are three arrays by id: the first eight bytes as a number, the address of all
bytes, and their number. Most strings differ in the first; only those that do not are
compared byte by byte. UTF-8 bytes order as code points do.
"""

import numpy as np

from headrace.kernel import kernel
from headrace.memory.atomics import view_u8


@kernel(borrows=True)
def order_behind_prefix(address_a, length_a, address_b, length_b):
    """Compare two strings whose first eight bytes, padded with zeros, are equal; below 0 if the first comes before the second."""
    shorter = min(length_a, length_b)
    if shorter > 8:
        text_a = view_u8(address_a, shorter)
        text_b = view_u8(address_b, shorter)
        for i in range(8, shorter):
            if text_a[i] != text_b[i]:
                return np.int64(text_a[i]) - np.int64(text_b[i])
    return length_a - length_b


@kernel(borrows=True)
def text_less(prefixes, addresses, lengths, a, b):
    """Whether the string of id `a` comes before that of id `b`, by code point."""
    if prefixes[a] != prefixes[b]:
        return prefixes[a] < prefixes[b]
    if a == b:
        return False
    return order_behind_prefix(addresses[a], lengths[a], addresses[b], lengths[b]) < 0
