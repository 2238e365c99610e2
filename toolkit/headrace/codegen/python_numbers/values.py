"""Checks whether numbers fit, and the errors where they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core.errors import TypingError

MOST, LEAST = 2**63 - 1, -(2**63)
TOO_LARGE = "an integer leaves the range of int64"
DOMAIN, RANGE = "math domain error", "math range error"
NAN, INFINITE = "cannot convert float NaN to integer", "a float is too large for an integer of 64 bits"
SHIFT, NEGATIVE_SHIFT = "a shift by 64 bits or more: its result does not fit in int64", "negative shift count"
NEGATIVE_POWER = "an integer to a negative power is a float in Python: write float(x) ** y"
COMPLEX = "a negative number to a power that is not whole: it is complex"
ZERO_POWER = "zero to a negative power"


def is_whole(*kinds: types.Type) -> bool:
    return all(isinstance(kind, types.Integer | types.Boolean) for kind in kinds)


def is_number(*kinds: types.Type) -> bool:
    return all(isinstance(kind, types.Integer | types.Boolean | types.Float) for kind in kinds)


def refuse(what: str, *kinds: types.Type) -> None:
    raise TypingError(f"{what} of {', '.join(str(types.unliteral(kind)) for kind in kinds)}")


def plain(value: Any) -> Any:
    """Return a NumPy number as Python's, whose results are never truncated."""
    return value.item() if isinstance(value, np.generic) else value


def fits(value: Any) -> Any:
    if isinstance(value, int) and not LEAST <= value <= MOST:
        raise OverflowError(TOO_LARGE)
    return value


def wrapped(value: Any) -> Any:
    return (value - LEAST) % 2**64 + LEAST if isinstance(value, int) else value
