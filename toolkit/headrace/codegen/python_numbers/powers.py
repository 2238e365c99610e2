"""Powers."""

from __future__ import annotations

import numpy as np
from numba.extending import overload

from headrace.codegen.python_numbers.sums import checked_product_fits
from headrace.codegen.python_numbers.values import (
    COMPLEX,
    NEGATIVE_POWER,
    RANGE,
    TOO_LARGE,
    ZERO_POWER,
    fits,
    is_number,
    is_whole,
    plain,
    refuse,
    wrapped,
)


def checked_power(x, y):
    """``x ** y``; of integers it wraps around."""
    x, y = plain(x), plain(y)
    if isinstance(x, int) and isinstance(y, int):
        return wrapped(pow(x, y, 2**64)) if y >= 0 else _negative_power(x)
    return _float_power(x, y)


def checked_exact_power(x, y):
    """The same, where an integer must not wrap around."""
    x, y = plain(x), plain(y)
    if isinstance(x, int) and isinstance(y, int):
        if y >= 0 and abs(x) > 1 and y > 63:
            raise OverflowError(TOO_LARGE)
        return fits(x ** (y if abs(x) > 1 else y % 2 + 2 * (y > 0))) if y >= 0 else _negative_power(x)
    return _float_power(x, y)


def _negative_power(x):
    if x == 0:
        raise ZeroDivisionError(ZERO_POWER)
    raise ValueError(NEGATIVE_POWER)


def _float_power(x, y):
    result = float(x) ** float(y)
    if isinstance(result, complex):
        raise ValueError(COMPLEX)
    return result


def _typed_power(x, y, is_exact):
    if not is_number(x, y):
        refuse("**", x, y)
    if is_whole(x, y):

        def whole(x, y):
            base, rest, result = np.int64(x), np.int64(y), np.int64(1)
            if rest < 0:
                if base == 0:
                    raise ZeroDivisionError(ZERO_POWER)
                raise ValueError(NEGATIVE_POWER)
            if is_exact and rest > 64 and base != 0 and base != 1 and base != -1:
                raise OverflowError(TOO_LARGE)
            too_large = False  # whether the base has overflowed: its last square is not used
            while rest > 0:
                if rest & 1:
                    if is_exact and (too_large or not checked_product_fits(result, base)):
                        raise OverflowError(TOO_LARGE)
                    result *= base
                rest >>= 1
                if is_exact and not checked_product_fits(base, base):
                    too_large = True
                base *= base
            return result

        return whole

    def power(x, y):
        base, exponent = np.float64(x), np.float64(y)
        if base == 0.0 and -np.inf < exponent < 0.0:
            raise ZeroDivisionError(ZERO_POWER)
        result = base**exponent
        if result != result and base == base and exponent == exponent:
            raise ValueError(COMPLEX)
        if abs(result) == np.inf and abs(base) != np.inf and abs(exponent) != np.inf:
            raise OverflowError(RANGE)
        return result

    return power


@overload(checked_power)
def _checked_power(x, y):
    return _typed_power(x, y, False)


@overload(checked_exact_power)
def _checked_exact_power(x, y):
    return _typed_power(x, y, True)


__all__ = ["checked_exact_power", "checked_power"]
