"""Ordering results by (time, key value): key ids do not order like the values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.ingress.keys import KeyDictionary
from headrace.ingress.sorting import argsort, distinct, ranks

FEW_TIMES = 16
"""Up to this many right boundaries in one release, a pass over the records for each is faster than sorting by them."""


def arrange(dictionary: KeyDictionary, ids: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, list[pa.Array]]:
    """Return the positions that sort by time, then by key, and the key columns in that order.

    Parameters
    ----------
    ids : int32[n]
    times : int64[n]

    Examples
    --------
    >>> dictionary = KeyDictionary(("string",))
    >>> ids = dictionary.encode(pa.array(["b", "a", "b"]))
    >>> order, (keys,) = arrange(dictionary, ids, np.array([1, 1, 0]))
    >>> order.tolist(), keys.to_pylist()
    ([2, 1, 0], ['b', 'a', 'b'])
    """
    numbers = dictionary.numbers(ids)
    if numbers is not None:
        # Look up by id only once: where there are many keys, each look-up is a cache miss.
        order = argsort(times, *numbers)
        return order, dictionary.from_numbers([column.take(order) for column in numbers])
    order = _order(dictionary, ids, times)
    return order, dictionary.decode(ids.take(order))


def _order(dictionary: KeyDictionary, ids: np.ndarray, times: np.ndarray) -> np.ndarray:
    if times.min() == times.max():
        return dictionary.argsort(ids)  # the rule: one window ended
    ended = distinct(times)
    if len(ended) > FEW_TIMES:
        return argsort(times, key_ranks(dictionary, ids))
    parts = [np.flatnonzero(times == time) for time in ended]
    return np.concatenate([part[dictionary.argsort(ids[part])] for part in parts])


def key_ranks(dictionary: KeyDictionary | None, ids: np.ndarray) -> np.ndarray:
    """Return the rank of each id's key value among the values."""
    if dictionary is None:
        return np.zeros(len(ids), np.int64)
    return ranks(ids, dictionary.argsort)
