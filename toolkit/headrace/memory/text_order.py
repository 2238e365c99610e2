"""The order of strings that kernels know by id.

There are three arrays by id: the first eight bytes as a number, the address of all
bytes, and their number. Most strings differ in the first; only those that do not are
compared byte by byte. UTF-8 bytes order as code points do.
"""

from headrace.kernel import kernel
from headrace.memory.atomics import view_u8


@kernel(borrows=True)
def text_less(prefixes, addresses, lengths, a, b):
    """Whether the string of id `a` comes before that of id `b`, by code point."""
    if prefixes[a] != prefixes[b]:
        return prefixes[a] < prefixes[b]
    if a == b:
        return False
    shorter = min(lengths[a], lengths[b])
    if shorter > 8:
        text_a = view_u8(addresses[a], shorter)
        text_b = view_u8(addresses[b], shorter)
        for i in range(8, shorter):
            if text_a[i] != text_b[i]:
                return text_a[i] < text_b[i]
    return lengths[a] < lengths[b]
