"""Ranges of keys, for a partitioned stage without hashed buckets: boundaries, given or taken from a sample.

Both strategies, hash and range, are those of Prasaad, Ramalingam and Rajan, sections 2.1 and 4; the sample is their "profiling
data gathered from sample runs".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from headrace.arguments import is_whole_number
from headrace.errors import ParameterError

MOST_RANGES = 1 << 16
_LEAST, _MOST = -(2**63), 2**63 - 1


def ranges_of(sample: Any, ranges: int) -> list[int]:
    """Find boundaries of ranges with about equally many keys of a sample, for ``partitioned(ranges=)``.

    Parameters
    ----------
    sample : Arrow array, pandas Series, NumPy array or list
        Integers, in any order; nulls are left out.
    ranges : int
        How many ranges; there are fewer if one key has more than a range's share.

    Returns
    -------
    list of int
        Rising boundaries: each is the first key of a range; the range before the first boundary has all lower keys.

    Raises
    ------
    ParameterError
        The number of ranges is impossible, or the sample is not of integers, is empty, or has only one key.

    Examples
    --------
    >>> ranges_of([1, 2, 3, 4, 50, 60, 70, 80], 4)
    [3, 50, 70]
    >>> ranges_of([7] * 100 + [8], 4)
    [8]
    """
    if not is_whole_number(ranges) or not 2 <= ranges <= MOST_RANGES:
        raise ParameterError(f"ranges_of(..., {ranges!r}): give a whole number of ranges, from 2 to {MOST_RANGES:,}")
    try:
        keys = sample if isinstance(sample, pa.Array | pa.ChunkedArray) else pa.array(sample, from_pandas=True)
        if pa.types.is_floating(keys.type):  # what pandas makes of integers with nulls
            keys = keys.cast(pa.int64())
    except (TypeError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ParameterError(f"ranges_of({type(sample).__name__}): give the keys of a sample, integers") from None
    if not pa.types.is_integer(keys.type) or len(keys) == keys.null_count:
        raise ParameterError(f"ranges_of(): the sample has {len(keys)} values of type {keys.type}; give integers")
    found = np.sort(keys.drop_null().cast(pa.int64()).to_numpy(zero_copy_only=False))
    first = np.unique(found[np.arange(1, ranges) * len(found) // ranges])
    above = found[found > found[0]]
    if not above.size:
        raise ParameterError(f"ranges_of(): all keys of the sample are {found[0]}; one key is one range")
    return np.unique(first.clip(above[0])).tolist()  # a boundary at the least key would leave an empty range before it


def check_ranges(boundaries: Any) -> tuple[int, ...]:
    """Return rising boundaries; raise `ParameterError` for anything else."""
    advice = "give integers that rise, such as [10, 20, 30], or hr.ranges_of(sample, 100)"
    try:
        given = list(boundaries)
    except TypeError:
        raise ParameterError(f"ranges={boundaries!r}: {advice}") from None
    for before, key in zip([None, *given], given, strict=False):
        if not is_whole_number(key) or not _LEAST <= key <= _MOST or (before is not None and key <= before):
            raise ParameterError(f"ranges=[..., {key!r}, ...]" + ("" if before is None else f" after {before!r}") + f": {advice}")
    if not 1 <= len(given) < MOST_RANGES:
        raise ParameterError(f"ranges= has {len(given):,} boundaries: give 1 to {MOST_RANGES - 1:,}")
    return tuple(int(key) for key in given)


__all__ = ["check_ranges", "ranges_of"]
