"""``round(x, n)``, ``math.isclose`` and ``float(x)``."""

from __future__ import annotations

import math

import numpy as np
from numba import types
from numba.extending import overload

from headrace.codegen.python_numbers.values import MOST, TOO_LARGE, fits, is_number, is_whole, plain, refuse

MOST_DIGITS = 22
"""Up to this exponent, powers of ten are exact floats."""
DIGITS = f"round(x, n) of a float: n is between {-MOST_DIGITS} and {MOST_DIGITS} here"
TOLERANCES = "tolerances must be non-negative"
_WHOLE = 2.0**53
"""From here on, floats have no fractional part."""
_SPLIT = 2.0**27 + 1


def checked_round_to(x, n):
    """``round(x, n)``."""
    x, n = plain(x), plain(n)
    if isinstance(x, float) and not -MOST_DIGITS <= n <= MOST_DIGITS:
        raise OverflowError(DIGITS)
    return fits(round(x, n))


@overload(checked_round_to)
def _checked_round_to(x, n):
    if not is_number(x) or not is_whole(n):
        refuse("round", x, n)
    return _round_whole if is_whole(x) else _round_float


def _round_whole(x, n):
    whole = np.int64(x)
    digits = np.int64(n)
    if digits >= 0:
        return whole
    if digits < -18:
        if digits < -19 or -5 * 10**18 <= whole <= 5 * 10**18:
            return np.int64(0)
        raise OverflowError(TOO_LARGE)
    step = np.int64(1)
    for _ in range(-digits):
        step *= 10
    quotient = whole // step
    rest = whole - quotient * step
    if rest > step - rest or (rest == step - rest and quotient % 2 != 0):
        quotient += 1
    if abs(quotient) > MOST // step:  # the least integer is no multiple of ten
        raise OverflowError(TOO_LARGE)
    return quotient * step


def _round_float(x, n):
    value = np.float64(x)
    digits = np.int64(n)
    if digits < -MOST_DIGITS or digits > MOST_DIGITS:
        raise OverflowError(DIGITS)
    power = 1.0
    for _ in range(abs(digits)):
        power *= 10.0
    if value != value or abs(value) == np.inf or value == 0.0:
        return value
    if digits >= 0:
        scaled = value * power
        if abs(scaled) >= _WHOLE:
            return value
        # The rounding error of the product, computed exactly (Dekker), decides values next to a half.
        high = _SPLIT * value
        high = high - (high - value)
        low = value - high
        top = _SPLIT * power
        top = top - (top - power)
        end = power - top
        lost = low * end - (((scaled - high * top) - low * top) - high * end)
        whole = np.rint(scaled)
        beyond = (scaled - whole) + lost
        if beyond > 0.5 or (beyond == 0.5 and whole % 2.0 != 0.0):
            whole += 1.0
        elif beyond < -0.5 or (beyond == -0.5 and whole % 2.0 != 0.0):
            whole -= 1.0
        return math.copysign(whole / power, value)
    quotient = abs(value) / power
    if quotient >= _WHOLE:
        return value
    whole = np.floor(quotient)
    rest = abs(value) % power  # exact
    if whole > 0.0 and rest > power - rest and quotient == whole:
        whole -= 1.0  # the quotient was rounded up
    if rest > power - rest or (rest == power - rest and whole % 2.0 != 0.0):
        whole += 1.0
    return math.copysign(whole * power, value)


def checked_isclose(x, y, relative, absolute):
    """``math.isclose(x, y, rel_tol=relative, abs_tol=absolute)``."""
    return math.isclose(x, y, rel_tol=relative, abs_tol=absolute)


@overload(checked_isclose)
def _checked_isclose(x, y, relative, absolute):
    if not is_number(x, y, relative, absolute):
        refuse("math.isclose", x, y)

    def close(x, y, relative, absolute):
        if relative < 0.0 or absolute < 0.0:
            raise ValueError(TOLERANCES)
        one, other = np.float64(x), np.float64(y)
        if one == other:
            return True
        if abs(one) == np.inf or abs(other) == np.inf:
            return False
        apart = abs(other - one)
        return apart <= abs(relative * other) or apart <= abs(relative * one) or apart <= absolute

    return close


def checked_float(x):
    """``float(x)``."""
    return float(x)


@overload(checked_float)
def _checked_float(x):
    if not is_number(x):
        refuse("float", x)
    if isinstance(x, types.Boolean):
        return lambda x: 1.0 if x else 0.0
    return lambda x: np.float64(x)


__all__ = ["checked_float", "checked_isclose", "checked_round_to"]
