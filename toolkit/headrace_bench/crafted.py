"""Values crafted to be bad (hash collisions), beside random ones.

Keys: their stable hashes, which anyone can compute, all end in the same bits. A hash table
that placed keys by that hash would probe past all other keys for each key. The stable hash
is a chain of invertible steps, so such keys can be computed without a search.

Joins: all values are in cells of one bucket of the index, which anyone can compute as
well. An index with a fixed number of cells for each bucket would compare each tuple with
its share of the whole window.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.elastic.join.index_kernel import BUCKET_SHIFT, COORDINATE_BITS
from headrace.elastic.join.indexed import FACTORS
from headrace.expressions import Predicate
from headrace.ingress.hashing import P1, P2, P3
from headrace.ingress.keys import KeyDictionary, key_kind
from headrace.references import BUCKET_BITS
from headrace_bench.resident import Resident
from headrace_bench.rows import Row, median, repeated

ALIKE_BITS = 24
"""Number of low bits in which the hashes are equal."""

_LENGTH = 8
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_ASCII = np.uint64(0x8080808080808080)


def words_of(hashes: np.ndarray) -> np.ndarray:
    """Return the uint64[n] that, as keys of eight bytes, have these stable hashes: the inverse of `hashing.mix`.

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
    """Return int64[count], all different, whose hashes end in the same bits.

    Examples
    --------
    >>> np.unique(integers(1000)).size
    1000
    """
    return words_of(_hashes(0, count)).view(np.int64)


def of_bucket_0(count: int) -> np.ndarray:
    """Return int64[count], all different, that lie in the first bucket, for any number of buckets up to 2**20.

    Examples
    --------
    >>> from headrace.ingress.hashing import bucket_of, mix
    >>> {int(bucket_of(mix(word, 8), 10)) for word in of_bucket_0(100).view(np.uint64)}
    {0}
    """
    return words_of(np.arange(count, dtype=np.uint64)).view(np.int64)


def texts(count: int) -> pa.StringArray:
    """Return different strings of eight ASCII characters whose hashes end in the same bits.

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
        # The second word must bring every string to the same state, 0.
        second = state * np.uint64(pow(int(P2), -1, 2**64))
    data = np.stack((first, second), axis=1)
    offsets = np.arange(count + 1, dtype=np.int32) * 2 * _LENGTH
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def of_one_cell_bucket(count: int) -> np.ndarray:
    """Return int64[count], all different, from 0 to 2**31: cells of a join's index that all lie in its bucket 0.

    As values of an equality condition they lie in that bucket, too.

    Examples
    --------
    >>> found = of_one_cell_bucket(1000)
    >>> numbers = (found * FACTORS[0] & (2**COORDINATE_BITS - 1)) >> BUCKET_SHIFT
    >>> np.unique(found).size, set((numbers & (2**BUCKET_BITS - 1)).tolist())
    (1000, {0})
    """
    # Choose products whose bucket bits are 0, then undo the multiplication by the factor, which is odd.
    number = np.arange(count, dtype=np.int64)
    low, high = number & ((1 << BUCKET_SHIFT) - 1), number >> BUCKET_SHIFT
    inverse = pow(FACTORS[0], -1, 2**COORDINATE_BITS)
    product = (high << (BUCKET_SHIFT + BUCKET_BITS)) | low
    return (product * np.int64(inverse)) & (2**COORDINATE_BITS - 1)


_CELL = 21
"""Number of integers in a cell of the band `_WIDTH`."""
_WIDTH = 10


def compare_keys(counts: Sequence[int], repetitions: int) -> list[Row]:
    """M keys/s of inserting new keys, crafted against the stable hash and random; in turns."""
    rows = []
    rng = np.random.default_rng(7)
    for count in counts:
        numbers = pa.array(rng.integers(-(2**63), 2**63 - 1, count))
        names = pa.array(np.char.mod("%08x", rng.permutation(2**24)[:count]))
        for name, bad, good in (
            ("integers", pa.array(integers(count)), numbers),
            ("strings", texts(count), names),
        ):
            seconds: dict[bool, list[float]] = {True: [], False: []}
            for counts in repeated(repetitions):
                for is_bad, keys in ((True, bad), (False, good)):
                    dictionary = KeyDictionary((key_kind(keys.type) or "",))
                    begin = time.perf_counter()
                    dictionary.encode(keys)
                    if counts:
                        seconds[is_bad].append(time.perf_counter() - begin)
                    assert dictionary.size == count
            rows.append(_row(f"{count:,} crafted {name} as keys", count, "M keys/s", seconds))
    return rows


def join_sides(values: np.ndarray) -> list[pa.Table]:
    """Two sides with the same values in different orders: no two tuples of one side are near each other."""
    order = np.random.default_rng(11).permutation(values.size)
    times = np.arange(values.size, dtype=np.int64)
    return [
        pa.table({"ts": 2 * times, "x": values}),
        pa.table({"ts": 2 * times + 1, "a": values[order]}),
    ]


def compare_joins(counts: Sequence[int], repetitions: int) -> list[Row]:
    """M tuples/s of a join whose window holds all tuples, for values of one bucket of its index and for random ones; in turns."""
    rows = []
    rng = np.random.default_rng(7)
    conditions: dict[str, tuple[Predicate, int]] = {
        "an equi-join": (hr.equal("x", "a"), 1),
        "a band join": (hr.band("x", "a", _WIDTH), _CELL),
    }
    for count in counts:
        bad = of_one_cell_bucket(count)
        good = rng.choice(2**31, count, replace=False)
        for name, (where, scale) in conditions.items():
            first: dict[bool, Resident] = {}
            seconds: dict[bool, list[float]] = {True: [], False: []}
            for counts in repeated(repetitions):
                for is_bad, values in ((True, bad), (False, good)):
                    tables = join_sides(values * scale)
                    left, right = (hr.stream(table, event_time="ts") for table in tables)
                    run = Resident(left.join(right, 4 * count, where=where), tables, 1, like=first.get(is_bad))
                    first.setdefault(is_bad, run)
                    took = run.run()
                    if counts:
                        seconds[is_bad].append(took)
                    # Each value matches only itself: in a band of width ten, its neighbours lie in other cells.
                    assert run.results == count, (name, is_bad, run.results)
            rows.append(_row(f"{count:,} crafted integers in {name}", 2 * count, "M tuples/s", seconds))
    return rows


def _row(case: str, count: int, unit: str, seconds: dict[bool, list[float]]) -> Row:
    found, baseline = (count / median(seconds[is_bad]) / 1e6 for is_bad in (True, False))
    return Row(
        "crafted", case, found, unit, goal=0.5, baseline=baseline, baseline_name="random values", goal_is_ratio=True
    )


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """Rates of crafted values compared with those of random ones; the goal is at least half."""
    repetitions = 5 if full else 3
    counts = (1_000,) if tiny else (160_000, 1_000_000)
    return compare_keys(counts, repetitions) + compare_joins(counts, repetitions)
