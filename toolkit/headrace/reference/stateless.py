"""Operators that keep nothing: forward, filter, map, flat_map.

They take and give sources; event times stay as they are. A null predicate
keeps nothing, as in SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from headrace.reference.keys import KeyFunction, key_set
from headrace.reference.order import Payload, Source, merge


def forward(sources: Sequence[Source]) -> list[tuple[int, Payload]]:
    """Give every tuple unchanged, in merged order (Operator 15 as it is meant, see `forward_as_printed`)."""
    return [(t.ts, t.payload) for t in merge(sources)]


def forward_as_printed(sources: Sequence[Source], instances: int) -> list[tuple[int, Payload]]:
    """Give every tuple once for each instance: all of them are responsible for it, and each emits what it gets.

    So the output has as many copies as there are instances, and changes with their number.
    """
    return [(t.ts, t.payload) for t in merge(sources) for _ in range(instances)]


def filter_tuples(source: Source, predicate: Callable[[Payload], bool | None]) -> list[tuple[int, Payload]]:
    """Keep the tuples for which the predicate is true."""
    return [(ts, payload) for ts, payload in source if predicate(payload)]


def map_tuples(source: Source, function: Callable[[Payload], Payload]) -> list[tuple[int, Payload]]:
    """Replace each payload."""
    return [(ts, function(payload)) for ts, payload in source]


def flat_map_tuples(
    source: Source, function: Callable[[Payload], Iterable[Payload]]
) -> list[tuple[int, Payload]]:
    """Replace each payload by any number of payloads, in their order."""
    return [(ts, made) for ts, payload in source for made in function(payload)]


def copy_per_key(source: Source, keys: KeyFunction, name: str) -> list[tuple[int, Payload]]:
    """Copy each tuple once for each of its keys, the key as column `name`, in key order.

    The Map of Corollary 1: A+ is this followed by A with the column as its
    key, J+ this on both inputs followed by J. It copies per key of the *set*;
    the papers' Maps copy per occurrence, which counts more.
    """
    return flat_map_tuples(source, lambda payload: [payload | {name: key} for key in key_set(keys, payload)])
