"""Functions of `math` that raise where Python's do."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numba.extending import overload

from headrace.codegen.python_numbers.values import (
    DOMAIN,
    LEAST,
    RANGE,
    TOO_LARGE,
    fits,
    is_number,
    is_whole,
    plain,
    refuse,
)


def _math(name: str, has_poles: bool = False) -> Callable:
    """Make ``checked_math_<name>(x)``, which raises where `math` does, judging by result and argument."""
    function = getattr(math, name)
    overflows = name in ("exp", "exp2", "expm1", "cosh", "sinh", "gamma", "lgamma")

    def call(x):
        return function(x)

    call.__name__ = call.__qualname__ = f"checked_math_{name}"

    @overload(call)
    def typed(x):
        if not is_number(x):
            refuse(f"math.{name}", x)

        def compiled(x):
            value = np.float64(x)
            result = function(value)
            if result != result:
                if value == value:
                    raise ValueError(DOMAIN)
            elif abs(result) == np.inf and abs(value) != np.inf:
                if not overflows or (has_poles and value <= 0.0 and np.floor(value) == value):
                    raise ValueError(DOMAIN)
                raise OverflowError(RANGE)
            return result

        return compiled

    return call


checked_math_sqrt = _math("sqrt")
checked_math_log = _math("log")
checked_math_log2 = _math("log2")
checked_math_log10 = _math("log10")
checked_math_log1p = _math("log1p")
checked_math_exp = _math("exp")
checked_math_exp2 = _math("exp2")
checked_math_expm1 = _math("expm1")
checked_math_sin = _math("sin")
checked_math_cos = _math("cos")
checked_math_tan = _math("tan")
checked_math_asin = _math("asin")
checked_math_acos = _math("acos")
checked_math_acosh = _math("acosh")
checked_math_atanh = _math("atanh")
checked_math_sinh = _math("sinh")
checked_math_cosh = _math("cosh")
checked_math_gamma = _math("gamma", has_poles=True)
checked_math_lgamma = _math("lgamma", has_poles=True)
MATH: dict[str, Callable] = {
    "math.sqrt": checked_math_sqrt,
    "math.log": checked_math_log,
    "math.log2": checked_math_log2,
    "math.log10": checked_math_log10,
    "math.log1p": checked_math_log1p,
    "math.exp": checked_math_exp,
    "math.exp2": checked_math_exp2,
    "math.expm1": checked_math_expm1,
    "math.sin": checked_math_sin,
    "math.cos": checked_math_cos,
    "math.tan": checked_math_tan,
    "math.asin": checked_math_asin,
    "math.acos": checked_math_acos,
    "math.acosh": checked_math_acosh,
    "math.atanh": checked_math_atanh,
    "math.sinh": checked_math_sinh,
    "math.cosh": checked_math_cosh,
    "math.gamma": checked_math_gamma,
    "math.lgamma": checked_math_lgamma,
}
"""Functions of one number that raise in Python."""


def checked_math_pow(x, y):
    """``math.pow(x, y)``."""
    return math.pow(x, y)


@overload(checked_math_pow)
def _checked_math_pow(x, y):
    if not is_number(x, y):
        refuse("math.pow", x, y)

    def power(x, y):
        base, exponent = np.float64(x), np.float64(y)
        result = base**exponent
        if result != result:
            if base == base and exponent == exponent:
                raise ValueError(DOMAIN)
        elif abs(result) == np.inf and abs(base) != np.inf and abs(exponent) != np.inf:
            if base == 0.0:
                raise ValueError(DOMAIN)
            raise OverflowError(RANGE)
        return result

    return power


def checked_ldexp(x, y):
    """``math.ldexp(x, y)``."""
    return math.ldexp(x, y)


@overload(checked_ldexp)
def _checked_ldexp(x, y):
    if not is_number(x) or not is_whole(y):
        refuse("math.ldexp", x, y)

    def scale(x, y):
        value = np.float64(x)
        result = math.ldexp(value, np.int32(min(max(np.int64(y), -5000), 5000)))  # C takes an int of 32 bits
        if abs(result) == np.inf and abs(value) != np.inf:
            raise OverflowError(RANGE)
        return result

    return scale


def checked_gcd(x, y):
    """``math.gcd(x, y)``."""
    return fits(math.gcd(plain(x), plain(y)))


@overload(checked_gcd)
def _checked_gcd(x, y):
    if not is_whole(x, y):
        refuse("math.gcd", x, y)

    def divisor(x, y):
        result = math.gcd(np.int64(x), np.int64(y))
        if result == LEAST:
            raise OverflowError(TOO_LARGE)
        return abs(result)

    return divisor
