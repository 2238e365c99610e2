"""Aggregate functions over the values of one window and key, in input order.

Nulls are skipped. What is left may be nothing: then ``count`` and ``distinct``
give 0 and all others null. The order of the values is the order of the input,
so a sum of floats has one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.errors import AggregateOverflowError
from headrace.reference.keys import canonical

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


OF_NOTHING = {"count": 0, "distinct": 0}
FUNCTIONS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "count": len,
    "sum": sum_in_order,
    "min": smallest,
    "max": largest,
    "mean": mean,
    "first": first,
    "last": last,
    "distinct": distinct,
}


def apply(function: str, values: Sequence[Any], ignore_nan: bool = False) -> Any:
    """Apply a function of `FUNCTIONS` to values that may contain None.

    With `ignore_nan`, ``min`` and ``max`` treat NaN as null.
    """
    present = [value for value in values if value is not None]
    if ignore_nan and function in ("min", "max"):
        present = [value for value in present if value == value]
    return FUNCTIONS[function](present) if present else OF_NOTHING.get(function)
