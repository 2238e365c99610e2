"""Key-by functions f_MK: the set of keys of a tuple.

A key function takes a payload and returns an iterable of keys. A repeated key
counts once; a tuple without keys contributes nothing, yet still advances time.

Source      STRETCH (Gulisano et al.), Definition 4: f_MK.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from headrace.errors import KeyNullError, ParameterError
from headrace.reference.order import Payload, key_order

KeyFunction = Callable[[Payload], Iterable[Any]]

_NAN = float("nan")  # one object: dicts and sets find it by identity, so NaN keys are equal


def no_key(payload: Payload) -> list[Any]:
    """All tuples have the one key ``()``.

    Parameters
    ----------
    payload : dict

    Examples
    --------
    >>> no_key({"x": 1})
    [()]
    """
    return [()]


def column(name: str) -> KeyFunction:
    """Return a function whose key is the value of a column.

    Parameters
    ----------
    name : str

    Examples
    --------
    >>> column("k")({"k": "a", "x": 1})
    ['a']
    """
    return lambda payload: [payload[name]]


def each(name: str) -> KeyFunction:
    """Return a function whose keys are the elements of a list column; a null list is a null key.

    Parameters
    ----------
    name : str

    Examples
    --------
    >>> each("tags")({"tags": ["a", "b"]}), each("tags")({"tags": None})
    (['a', 'b'], [None])
    """
    return lambda payload: [None] if payload[name] is None else payload[name]


def columns(*functions: KeyFunction) -> KeyFunction:
    """Return a function whose keys are tuples, one part from each function, in all combinations.

    Parameters
    ----------
    *functions : function (payload)
        Each returns keys.

    Examples
    --------
    >>> list(columns(column("k"), each("tags"))({"k": 1, "tags": ["a", "b"]}))
    [(1, 'a'), (1, 'b')]
    """
    return lambda payload: itertools.product(*(function(payload) for function in functions))


def key_set(keys: KeyFunction, payload: Payload, null_keys: str = "error") -> list[Any]:
    """Return the distinct keys of a tuple, in key order.

    Parameters
    ----------
    null_keys : str
        ``"error"`` raises `KeyNullError` at a null key, or a key with a null
        part; ``"drop"`` leaves such keys out.
    """
    if null_keys not in ("error", "drop"):
        raise ParameterError(f"null_keys = {null_keys!r}: give 'error' or 'drop'")
    found = set()
    for key in keys(payload):
        if not _has_null(key):
            found.add(canonical(key))
        elif null_keys == "error":
            raise KeyNullError(
                f"key {key!r} of tuple {payload!r}: null; filter it out or give null_keys='drop'"
            )
    return sorted(found, key=key_order)


def canonical(value: Any) -> Any:
    """Return the one representative of equal values: NaN equals NaN, -0.0 equals 0.0."""
    if isinstance(value, tuple):
        return tuple(canonical(part) for part in value)
    if isinstance(value, float):
        return _NAN if value != value else value + 0.0  # -0.0 + 0.0 is 0.0
    return value


def has_nan(key: Any) -> bool:
    """Whether a key is NaN or has a part that is."""
    return any(map(has_nan, key)) if isinstance(key, tuple) else key != key


def _has_null(key: Any) -> bool:
    return any(map(_has_null, key)) if isinstance(key, tuple) else key is None
