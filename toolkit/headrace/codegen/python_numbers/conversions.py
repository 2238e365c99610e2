"""Conversions of one number: to integers, and `float`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from headrace.codegen.python_numbers.rounding import checked_float
from headrace.codegen.python_numbers.values import (
    INFINITE,
    LEAST,
    MOST,
    NAN,
    TOO_LARGE,
    is_whole,
    plain,
    refuse,
)


def _conversion(name: str, round_float: Callable | None, least: int, most: int, result: Any) -> Callable:
    """Make ``checked_<name>(x)``, which returns a number as an integer within bounds, rounded first if it is a float."""

    def convert(x):
        x = plain(x)
        if isinstance(x, float):
            if x != x:
                raise ValueError(NAN)
            whole = int(x if round_float is None else round_float(x)) if math.isfinite(x) else 2**99
        else:
            whole = int(x)
        if not least <= whole <= most:
            raise OverflowError(INFINITE)
        return result(whole) if result is not np.int64 else whole

    convert.__name__ = convert.__qualname__ = f"checked_{name}"
    low, high = float(least), float(most)  # a bound of 64 bits is rounded up to a value that is itself too large
    is_wide = most >= 2**53
    cut = np.trunc if round_float is None else round_float

    @overload(convert)
    def typed(x):
        if isinstance(x, types.Float):

            def from_float(x):
                if x != x:
                    raise ValueError(NAN)
                whole = cut(np.float64(x))
                if whole < low or whole > high or (is_wide and whole >= high):
                    raise OverflowError(INFINITE)
                return result(whole)

            return from_float
        if not is_whole(x):
            refuse(name, x)
        if least <= LEAST and (most >= MOST):
            return lambda x: result(x)

        def from_whole(x):
            if x < least or (not is_wide and x > most):
                raise OverflowError(TOO_LARGE)
            return result(x)

        return from_whole

    return convert


# Each has a name: the identity of compiled code follows the names in a text.
checked_int = _conversion("int", None, LEAST, MOST, np.int64)
checked_round = _conversion("round", np.rint, LEAST, MOST, np.int64)
checked_floor = _conversion("floor", np.floor, LEAST, MOST, np.int64)
checked_ceil = _conversion("ceil", np.ceil, LEAST, MOST, np.int64)
checked_int8 = _conversion("int8", None, -(2**7), 2**7 - 1, np.int8)
checked_int16 = _conversion("int16", None, -(2**15), 2**15 - 1, np.int16)
checked_narrow_int32 = _conversion("narrow_int32", None, -(2**31), 2**31 - 1, np.int32)
checked_uint8 = _conversion("uint8", None, 0, 2**8 - 1, np.uint8)
checked_uint16 = _conversion("uint16", None, 0, 2**16 - 1, np.uint16)
checked_uint32 = _conversion("uint32", None, 0, 2**32 - 1, np.uint32)
checked_uint64 = _conversion("uint64", None, 0, 2**64 - 1, np.uint64)
CONVERSIONS: dict[str, Callable] = {
    "int": checked_int,
    "math.trunc": checked_int,
    "np.int64": checked_int,
    "round": checked_round,
    "math.floor": checked_floor,
    "math.ceil": checked_ceil,
    "np.int8": checked_int8,
    "np.int16": checked_int16,
    "np.int32": checked_narrow_int32,
    "np.uint8": checked_uint8,
    "np.uint16": checked_uint16,
    "np.uint32": checked_uint32,
    "np.uint64": checked_uint64,
    "float": checked_float,
    "np.float64": checked_float,
}
"""Calls with one number -> what is called instead."""
