"""Aggregate functions over the values of one window and key, in input order.

Nulls are skipped. What is left may be nothing: then ``count`` and ``distinct``
give 0, ``collect_list`` and ``collect_set`` an empty list, and all others null. The
order of the values is the order of the input, so a sum of floats has one answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from headrace.errors import AggregateOverflowError
from headrace.reference.keys import canonical
from headrace.reference.order import key_order

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def sum_in_order(values: Sequence[Any]) -> Any:
    """Add up, from zero: ints as int64 (leaving its range is an error), floats as float64.

    The range is checked after every addition: the engine keeps no more. Not the builtin ``sum``: it
    compensates rounding errors from Python 3.12 on.
    """
    total: Any = 0.0 if isinstance(values[0], float) else 0
    for value in values:
        total += value
        if isinstance(total, int) and not INT64_MIN <= total <= INT64_MAX:
            raise AggregateOverflowError(f"sum = {total}: outside int64; cast the column to float64")
    return total


def mean(values: Sequence[Any]) -> float:
    """Divide the sum by the number of values: of ints the exact sum, of any size, rounded once."""
    if isinstance(values[0], float):
        return sum_in_order(values) / len(values)
    total = 0
    for value in values:
        total += value
    return total / len(values)


def smallest(values: Sequence[Any]) -> Any:
    """Return the first of the smallest values (strings by code point), or NaN if there is one."""
    result = values[0]
    for value in values:
        if value < result or value != value:
            result = value
        if result != result:
            break
    return result


def largest(values: Sequence[Any]) -> Any:
    """Return the first of the largest values (strings by code point), or NaN if there is one."""
    result = values[0]
    for value in values:
        if value > result or value != value:
            result = value
        if result != result:
            break
    return result


def first(values: Sequence[Any]) -> Any:
    """Return the first value that is not null."""
    return values[0]


def last(values: Sequence[Any]) -> Any:
    """Return the last value that is not null."""
    return values[-1]


def distinct(values: Sequence[Any]) -> int:
    """Count the different values: NaN equals NaN, -0.0 equals 0.0."""
    return len({canonical(value) for value in values})


def collect_list(values: Sequence[Any]) -> list[Any]:
    """Return the values in the order of the input."""
    return list(values)


def collect_set(values: Sequence[Any]) -> list[Any]:
    """Return the different values in their order: NaN equals NaN and comes last, -0.0 equals 0.0."""
    return sorted({canonical(value) for value in values}, key=key_order)


def mode(values: Sequence[Any]) -> Any:
    """Return the most frequent value; of several the first one in their order, where NaN comes last."""
    counts: dict[Any, int] = {}
    for value in values:
        counts[canonical(value)] = counts.get(canonical(value), 0) + 1
    return min(counts, key=lambda value: (-counts[value], key_order(value)))


def quantile(values: Sequence[Any], q: float) -> float:
    """Return the interpolated value at ``q * (n - 1)`` of the sorted values; NaN if there is one, 0.0 for -0.0."""
    if any(value != value for value in values):
        return math.nan
    ordered = sorted(canonical(value) for value in values)
    place = q * (len(ordered) - 1)
    below = ordered[math.floor(place)]
    above = ordered[min(math.floor(place) + 1, len(ordered) - 1)]
    part = place - math.floor(place)
    if part == 0 or below == above:
        return float(below)
    distance = float(above - below)
    if math.isinf(distance):  # too far apart, or infinite themselves
        return below * (1 - part) + above * part
    return min(float(below) + distance * part, float(above))


def top(pairs: Sequence[tuple[Any, Any]], k: int) -> list[Any] | None:
    """Return the values of the k pairs (value, by) where `by` is largest; of equal ones the smaller values first.

    A pair of which either is None is skipped; NaN is larger than all numbers. None if no pair is left.
    """

    def place(value: Any) -> Any:
        return (key_order(value), math.copysign(1.0, value)) if isinstance(value, float) and value == 0 else (key_order(value),)

    present = [(value, canonical(by)) for value, by in pairs if value is not None and by is not None]
    present.sort(key=lambda pair: place(pair[0]))
    present.sort(key=lambda pair: key_order(pair[1]), reverse=True)  # stable
    return [value for value, _ in present[:k]] or None


OF_NOTHING: dict[str, Callable[[], Any]] = {"count": int, "distinct": int, "collect_list": list, "collect_set": list}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "count": len,
    "sum": sum_in_order,
    "min": smallest,
    "max": largest,
    "mean": mean,
    "first": first,
    "last": last,
    "distinct": distinct,
    "collect_list": collect_list,
    "collect_set": collect_set,
    "quantile": quantile,
    "mode": mode,
    "top": top,
}


def apply(function: str, values: Sequence[Any], ignore_nan: bool = False, *more: Any) -> Any:
    """Apply a function of `FUNCTIONS` to values that may contain None; `more` are its other arguments.

    With `ignore_nan`, ``min``, ``max`` and ``quantile`` treat NaN as null.
    """
    present = [value for value in values if value is not None]
    if ignore_nan and function in ("min", "max", "quantile"):
        present = [value for value in present if value == value]
    if not present:
        return OF_NOTHING[function]() if function in OF_NOTHING else None
    return FUNCTIONS[function](present, *more)
