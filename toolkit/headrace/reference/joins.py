"""Joins J and J+: pairs of a left and a right tuple less than WS apart."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from headrace.errors import ParameterError
from headrace.progress import DELTA
from headrace.reference.keys import KeyFunction, has_nan, key_set, no_key
from headrace.reference.order import Payload, Source, Tuple, merge

Predicate = Callable[[Payload, Payload], bool]


class Match(NamedTuple):
    """A pair that joined, under one key.

    Parameters
    ----------
    ts : int
        The later event time + delta.
    key : value, or tuple of values
        ``()`` if there are no keys.
    left, right : dict
        The payloads of the two tuples.
    """

    ts: int
    key: Any
    left: Payload
    right: Payload


def join(
    left: Sequence[Source],
    right: Sequence[Source],
    within: int,
    predicate: Predicate = lambda tl, tr: True,
    keys: tuple[KeyFunction, KeyFunction] = (no_key, no_key),
    *,
    null_keys: str = "error",
) -> list[Match]:
    """Join every pair with ``|tL.ts - tR.ts| < WS`` for which the predicate holds.

    Parameters
    ----------
    left, right : list of Source
        The left input's sources precede the right one's.
    within : int
        WS, at least 1.
    predicate : function
        (left payload, right payload) -> bool.
    keys : (function, function)
        Of the left and of the right payload. A pair joins once for each key
        they share. A key that is NaN or has a part that is, matches nothing.
    null_keys : str
        ``"error"`` or ``"drop"``.

    Returns
    -------
    list of Match
        By (position of the later tuple, position of the earlier one, key);
        each at the later event time + delta.

    Raises
    ------
    ParameterError
        `within` is below 1.
    KeyNullError
        A key is null, and `null_keys` is "error".

    Notes
    -----
    STRETCH (Gulisano et al.), section 2.1: J; Definition 5: J+, with keys.

    Examples
    --------
    >>> quotes, trades = [(1, {"bid": 7}), (4, {"bid": 9})], [(2, {"price": 8})]
    >>> [(match.ts, match.left, match.right) for match in join([quotes], [trades], 2)]
    [(3, {'bid': 7}, {'price': 8})]
    """
    if within < 1:
        raise ParameterError(f"within = {within}: must be at least 1; pairs are less than this apart")
    recent: tuple[deque[Tuple], deque[Tuple]] = (deque(), deque())
    key_sets: dict[int, dict[Any, None]] = {}  # position -> keys, in key order
    matches = []
    for t in merge([*left, *right]):
        side = 0 if t.source < len(left) else 1
        own = dict.fromkeys(key for key in key_set(keys[side], t.payload, null_keys) if not has_nan(key))
        key_sets[t.position] = own
        others = recent[1 - side]
        while others and t.ts - others[0].ts >= within:
            del key_sets[others.popleft().position]
        for other in others:
            tl, tr = (t.payload, other.payload) if side == 0 else (other.payload, t.payload)
            for key in own:
                if key in key_sets[other.position] and predicate(tl, tr):
                    matches.append(Match(t.ts + DELTA, key, tl, tr))  # noqa: PERF401
        recent[side].append(t)
    return matches


def self_join(
    sources: Sequence[Source],
    within: int,
    predicate: Predicate = lambda tl, tr: True,
    keys: tuple[KeyFunction, KeyFunction] = (no_key, no_key),
    *,
    null_keys: str = "error",
) -> list[Match]:
    """Join a stream with itself: it is fed as both inputs.

    So every tuple also meets itself, and each pair occurs in both orders.

    Parameters
    ----------
    sources : list of Source
    within, predicate, keys, null_keys
        As of `join`.

    Examples
    --------
    >>> [(match.left["x"], match.right["x"]) for match in self_join([[(1, {"x": 1}), (2, {"x": 2})]], 5)]
    [(1, 1), (2, 1), (1, 2), (2, 2)]
    """
    return join(sources, sources, within, predicate, keys, null_keys=null_keys)


def equal(left_column: str, right_column: str) -> Predicate:
    """Return the predicate ``tL == tR``, as float64 if either is a float; null and NaN equal nothing.

    Parameters
    ----------
    left_column, right_column : str

    Examples
    --------
    >>> same = equal("id", "of")
    >>> same({"id": 1}, {"of": 1.0}), same({"id": None}, {"of": None})
    (True, False)
    """

    def matches(tl: Payload, tr: Payload) -> bool:
        x, a = tl[left_column], tr[right_column]
        if x is None or a is None:
            return False
        if isinstance(x, float) or isinstance(a, float):
            return float(x) == float(a)
        return x == a

    return matches


def band(left_column: str, right_column: str, width: float) -> Predicate:
    """Return the predicate ``|tL - tR| <= width``.

    Exact if both are integers, otherwise as computed in float64. Null and NaN
    match nothing, nor does infinity itself: it has no distance from anything.

    Parameters
    ----------
    left_column, right_column : str
    width : int or float
        From 0.

    Raises
    ------
    ParameterError
        `width` is negative or NaN.

    Examples
    --------
    >>> near = band("x", "a", 10)
    >>> near({"x": 5}, {"a": 15}), near({"x": 5}, {"a": 16})
    (True, False)
    """
    if not width >= 0:
        raise ParameterError(f"band width = {width!r}: must not be negative or NaN")

    def matches(tl: Payload, tr: Payload) -> bool:
        x, a = tl[left_column], tr[right_column]
        if x is None or a is None:
            return False
        if isinstance(x, float) or isinstance(a, float):
            return abs(float(x) - float(a)) <= float(width)
        return abs(x - a) <= width

    return matches
