"""Operators that keep nothing: forward, filter, map, flat_map.

They take and give sources; event times stay as they are. A null predicate
keeps nothing, as in SQL.

Source      STRETCH (Gulisano et al.), section 2.1 (M), Operator 15 (forward) and Corollary 1 (`copy_per_key`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from headrace.reference.keys import KeyFunction, key_set
from headrace.reference.order import Payload, Source, merge


def forward(sources: Sequence[Source]) -> list[tuple[int, Payload]]:
    """Give every tuple unchanged, in merged order (Operator 15 as it is meant, see `forward_as_printed`).

    Parameters
    ----------
    sources : list of Source

    Examples
    --------
    >>> forward([[(1, {"x": 1}), (3, {"x": 2})], [(2, {"x": 3})]])
    [(1, {'x': 1}), (2, {'x': 3}), (3, {'x': 2})]
    """
    return [(t.ts, t.payload) for t in merge(sources)]


def forward_as_printed(sources: Sequence[Source], instances: int) -> list[tuple[int, Payload]]:
    """Give every tuple once for each instance: all of them are responsible for it, and each emits what it gets.

    So the output has as many copies as there are instances, and changes with their number.

    Parameters
    ----------
    sources : list of Source
    instances : int
        From 1.

    Examples
    --------
    >>> forward_as_printed([[(1, {"x": 1})]], instances=2)
    [(1, {'x': 1}), (1, {'x': 1})]
    """
    return [(t.ts, t.payload) for t in merge(sources) for _ in range(instances)]


def filter_tuples(source: Source, predicate: Callable[[Payload], bool | None]) -> list[tuple[int, Payload]]:
    """Keep the tuples for which the predicate is true.

    Parameters
    ----------
    source : Source
    predicate : function (payload)
        Returns a bool, or None for null.

    Examples
    --------
    >>> filter_tuples([(1, {"x": 1}), (2, {"x": 5})], lambda t: t["x"] > 2)
    [(2, {'x': 5})]
    """
    return [(ts, payload) for ts, payload in source if predicate(payload)]


def map_tuples(source: Source, function: Callable[[Payload], Payload]) -> list[tuple[int, Payload]]:
    """Replace each payload.

    Parameters
    ----------
    source : Source
    function : function (payload)
        Returns the new payload.

    Examples
    --------
    >>> map_tuples([(1, {"x": 1}), (2, {"x": 5})], lambda t: {"twice": 2 * t["x"]})
    [(1, {'twice': 2}), (2, {'twice': 10})]
    """
    return [(ts, function(payload)) for ts, payload in source]


def flat_map_tuples(
    source: Source, function: Callable[[Payload], Iterable[Payload]]
) -> list[tuple[int, Payload]]:
    """Replace each payload by any number of payloads, in their order.

    Parameters
    ----------
    source : Source
    function : function (payload)
        Returns the new payloads.

    Examples
    --------
    >>> flat_map_tuples([(1, {"x": 2}), (2, {"x": 0})], lambda t: [{"part": part} for part in range(t["x"])])
    [(1, {'part': 0}), (1, {'part': 1})]
    """
    return [(ts, made) for ts, payload in source for made in function(payload)]


def copy_per_key(source: Source, keys: KeyFunction, name: str) -> list[tuple[int, Payload]]:
    """Copy each tuple once for each of its keys, the key as column `name`, in key order.

    The Map of Corollary 1: A+ is this followed by A with the column as its
    key, J+ this on both inputs followed by J. It copies per key of the *set*;
    the papers' Maps copy per occurrence, which counts more.

    Parameters
    ----------
    source : Source
    keys : function (payload)
        f_MK.
    name : str

    Examples
    --------
    >>> copy_per_key([(1, {"text": "tea so tea"})], lambda t: t["text"].split(), "word")
    [(1, {'text': 'tea so tea', 'word': 'so'}), (1, {'text': 'tea so tea', 'word': 'tea'})]
    """
    return flat_map_tuples(source, lambda payload: [payload | {name: key} for key in key_set(keys, payload)])
