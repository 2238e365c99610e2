"""Checks of arguments. Every complaint names the parameter, the value it had, and what to give instead."""

import numbers
import operator
from typing import Any

LONGEST_STREAM_S = 3_000_000_000
"""About 95 years. Longer streams are taken for a mistake, and timestamps stay clear of their limits."""

LOWEST_RATE, HIGHEST_RATE = 0.001, 1e9
"""Rows per second that a generator can be asked for."""


def whole_number(name: str, value: Any, minimum: int) -> int:
    """Return `value` as an int of at least `minimum`, or raise ValueError."""
    fix = f"give an integer of at least {minimum}"
    if isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}, a truth value; {fix}")
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}, of type {type(value).__name__}; {fix}") from None
    if number < minimum:
        raise ValueError(f"{name} is {number}; {fix}")
    return number


def rate_per_second(name: str, value: Any, rows: int, lowest: float = LOWEST_RATE) -> float:
    """Return `value` as a rate that gives `rows` rows within `LONGEST_STREAM_S`, or raise ValueError."""
    fix = f"give a number of rows per second from {lowest:g} to {HIGHEST_RATE:g}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ValueError(f"{name} is {value!r}, of type {type(value).__name__}; {fix}")
    rate = float(value)
    if not lowest <= rate <= HIGHEST_RATE:  # NaN is not, either
        raise ValueError(f"{name} is {value!r}; {fix}")
    if rows > rate * LONGEST_STREAM_S:
        raise ValueError(
            f"{name} is {value!r}: n={rows} rows would span more than 95 years; "
            f"give a rate of at least {rows / LONGEST_STREAM_S:.3g} rows per second, or a smaller n"
        )
    return rate


def number(name: str, value: Any, lowest: float, highest: float) -> float:
    """Return `value` as a float from `lowest` to `highest`, or raise ValueError."""
    fix = f"give a number from {lowest:g} to {highest:g}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ValueError(f"{name} is {value!r}, of type {type(value).__name__}; {fix}")
    if not lowest <= float(value) <= highest:  # NaN is not, either
        raise ValueError(f"{name} is {value!r}; {fix}")
    return float(value)


def share(name: str, value: Any) -> float:
    """Return `value` as a share of all, from 0 to 1, or raise ValueError."""
    return number(name, value, 0.0, 1.0)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`, or raise ValueError."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}; give " + " or ".join(repr(choice) for choice in choices))
    return value
