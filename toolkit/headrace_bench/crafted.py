"""Keys that somebody chose to be bad: their stable hashes, which anybody can compute, all end alike.

A table that took the place of a key from that hash would walk past all of them for
each. The stable hash is a chain of steps that can be undone, so such keys need no search.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.ingress.hashing import P1, P2, P3

ALIKE_BITS = 24
"""Low bits in which the hashes are alike."""

_LENGTH = 8
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_ASCII = np.uint64(0x8080808080808080)


def words_of(hashes: np.ndarray) -> np.ndarray:
    """Return the uint64[n] whose stable hashes, as keys of eight bytes, these are: `hashing.mix` backwards.

    Examples
    --------
    >>> from headrace.ingress.hashing import mix
    >>> [int(mix(word, 8)) for word in words_of(np.array([5, 2**63], np.uint64))]
    [5, 9223372036854775808]
    """
    with np.errstate(over="ignore"):
        h = hashes ^ (hashes >> np.uint64(29)) ^ (hashes >> np.uint64(58))
        h = h * np.uint64(pow(int(P3), -1, 2**64))
        h = h ^ (h >> np.uint64(32))
        return h * np.uint64(pow(int(P2), -1, 2**64)) - np.uint64(_LENGTH) * P1


def _hashes(first: int, count: int) -> np.ndarray:
    """Different hashes, all 0 in the low bits, of any bucket."""
    with np.errstate(over="ignore"):
        return (np.arange(first, first + count, dtype=np.uint64) * _SPREAD) << np.uint64(ALIKE_BITS)


def integers(count: int) -> np.ndarray:
    """Return int64[count], all different, whose hashes end alike.

    Examples
    --------
    >>> np.unique(integers(1000)).size
    1000
    """
    return words_of(_hashes(0, count)).view(np.int64)


def of_bucket_0(count: int) -> np.ndarray:
    """Return int64[count], all different, that are of the first bucket, whatever the number of buckets up to 2**20.

    Examples
    --------
    >>> from headrace.ingress.hashing import bucket_of, mix
    >>> {int(bucket_of(mix(word, 8), 10)) for word in of_bucket_0(100).view(np.uint64)}
    {0}
    """
    return words_of(np.arange(count, dtype=np.uint64)).view(np.int64)


def texts(count: int) -> pa.StringArray:
    """Return strings of eight ASCII characters whose hashes end alike, all different.

    Examples
    --------
    >>> found = texts(100)
    >>> len(found.unique()), found[7].as_py().isascii()
    (100, True)
    """
    found, first = np.zeros(0, np.uint64), 0
    while found.size < count:
        words = words_of(_hashes(first, 1 << 20))
        first += 1 << 20
        found = np.concatenate((found, words[words & _ASCII == 0]))
    data = found[:count]
    offsets = np.arange(count + 1, dtype=np.int32) * _LENGTH
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data))


def same_hash(count: int) -> pa.BinaryArray:
    """Return binary strings of 16 bytes, all different, whose whole stable hashes are equal.

    Examples
    --------
    >>> from headrace.ingress.hashing import hash_long
    >>> strings = [np.frombuffer(string.as_py(), np.uint8) for string in same_hash(3)]
    >>> len({bytes(string) for string in strings}), len({int(hash_long(string, 0, 16)) for string in strings})
    (3, 1)
    """
    with np.errstate(over="ignore"):
        first = np.arange(count, dtype=np.uint64)
        state = (np.uint64(2 * _LENGTH) * P1) ^ (first * P2)
        state = ((state << np.uint64(29)) | (state >> np.uint64(35))) * P3
        # The second round's input is to be the same state, 0, for all.
        second = state * np.uint64(pow(int(P2), -1, 2**64))
    data = np.stack((first, second), axis=1)
    offsets = np.arange(count + 1, dtype=np.int32) * 2 * _LENGTH
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
