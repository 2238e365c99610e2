"""Ordering results by (time, key value): key ids do not order like the values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from headrace.ingress.keys import KeyDictionary
from headrace.ingress.sorting import argsort, distinct, fits, ranks

FEW_TIMES = 16
"""Up to this many right boundaries in one release, a pass over the records for each is faster than sorting by them, unless times
and keys fit into one word: 400,000 results of three windows with keys of 29 bits took 185 ns each, and take 55."""


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
        order = None if fits(times, *numbers) else _by_time(times, lambda rows: argsort(*(column[rows] for column in numbers)))
        if order is None:
            order = argsort(times, *numbers)
        return order, dictionary.from_numbers([column.take(order) for column in numbers])
    order = _by_time(times, lambda rows: dictionary.argsort(ids[rows]))
    if order is None:
        order = argsort(times, key_ranks(dictionary, ids))
    return order, dictionary.decode(ids.take(order))


def _by_time(times: np.ndarray, sort: Callable[[np.ndarray | slice], np.ndarray]) -> np.ndarray | None:
    """Return the positions that sort by time, and those of one time by what `sort` says of their keys; None if times are many."""
    if times.min() == times.max():
        return sort(slice(None))  # the rule: one window ended
    ended = distinct(times)
    if len(ended) > FEW_TIMES:
        return None
    parts = [np.flatnonzero(times == time) for time in ended]
    return np.concatenate([part[sort(part)] for part in parts])


def key_ranks(dictionary: KeyDictionary | None, ids: np.ndarray) -> np.ndarray:
    """Return the rank of each id's key value among the values."""
    if dictionary is None:
        return np.zeros(len(ids), np.int64)
    return ranks(ids, dictionary.argsort)
