"""Checks of arguments. Every complaint names the parameter, the value it had, and what to give instead."""

import difflib
import functools
import inspect
import numbers
import operator
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

LONGEST_STREAM_S = 3_000_000_000
"""About 95 years. A longer stream is taken for a mistake; so timestamps stay clear of their limits."""

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
    if not lowest <= rate <= HIGHEST_RATE:  # NaN is refused, too
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
    if not lowest <= float(value) <= highest:  # NaN is refused, too
        raise ValueError(f"{name} is {value!r}; {fix}")
    return float(value)


def share(name: str, value: Any) -> float:
    """Return `value` as a share, from 0 to 1, or raise ValueError."""
    return number(name, value, 0.0, 1.0)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`, or raise ValueError."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}; give " + " or ".join(repr(choice) for choice in choices))
    return value


def instead(name: str, names: Iterable[str], what: str, write: str) -> str:
    """Say which name to write instead of one that does not exist: the closest, if one is close, and all that exist.

    Examples
    --------
    >>> instead("nn", ["n", "seed"], "the arguments", "{}=")
    'did you mean n=? the arguments are n=, seed='
    """
    names = list(names)
    near = [one for one in difflib.get_close_matches(name.casefold(), names, n=1) if one[0] == name[0].casefold()]
    return "".join(f"did you mean {write.format(one)}? " for one in near) + f"{what} are {', '.join(map(write.format, names))}"


def explains_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function refuse an unknown argument with a TypeError that names the closest argument it has."""
    parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in kwargs.items():
            if name not in parameters:
                other = instead(name, parameters, "the arguments", "{}=")
                raise TypeError(f"{function.__name__}({name}={value!r}): there is no such argument; {other}")
        return function(*args, **kwargs)

    return call
