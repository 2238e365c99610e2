"""Operations on numbers in user functions, as Python has them where machine code would differ.

A processor cuts off what does not fit, says nan where Python raises, and for
some arguments (the integer of a NaN, a shift by 64 bits) every processor says
something else. `rewrite` calls these instead, only where they are needed: not
for a shift or a quotient by a constant, nor for ``+ - *``, which wrap around.
With ``debug=True`` those are checked as well (`checked_sum`, ...).

The plain bodies are what runs with ``NUMBA_DISABLE_JIT=1``, on Python's and
NumPy's numbers alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.core.errors import TypingError
from numba.extending import overload

MOST, LEAST = 2**63 - 1, -(2**63)
_TOO_LARGE = "an integer leaves the range of int64"
_DOMAIN, _RANGE = "math domain error", "math range error"
_NAN, _INFINITE = "cannot convert float NaN to integer", "a float is too large for an integer of 64 bits"
_SHIFT, _NEGATIVE_SHIFT = "a shift by 64 bits or more: its result does not fit in int64", "negative shift count"
_NEGATIVE_POWER = "an integer to a negative power is a float in Python: write float(x) ** y"
_COMPLEX = "a negative number to a power that is not whole: it is complex"
_ZERO_POWER = "zero to a negative power"

__all__ = ["CONVERSIONS", "MATH", "PAIRS"]


def _is_whole(*kinds: types.Type) -> bool:
    return all(isinstance(kind, types.Integer | types.Boolean) for kind in kinds)


def _is_number(*kinds: types.Type) -> bool:
    return all(isinstance(kind, types.Integer | types.Boolean | types.Float) for kind in kinds)


def _refuse(what: str, *kinds: types.Type) -> None:
    raise TypingError(f"{what} of {', '.join(str(types.unliteral(kind)) for kind in kinds)}")


def _plain(value: Any) -> Any:
    """A NumPy number as Python's, whose results are never cut off."""
    return value.item() if isinstance(value, np.generic) else value


def _fits(value: Any) -> Any:
    if isinstance(value, int) and not LEAST <= value <= MOST:
        raise OverflowError(_TOO_LARGE)
    return value


def _wrapped(value: Any) -> Any:
    return (value - LEAST) % 2**64 + LEAST if isinstance(value, int) else value


# --------------------------------------------------------- conversions to integers


def _conversion(name: str, round_float: Callable | None, least: int, most: int, result: Any) -> Callable:
    """Make ``checked_<name>(x)``: a number as an integer within bounds, rounded first if it is a float."""

    def convert(x):
        x = _plain(x)
        if isinstance(x, float):
            if x != x:
                raise ValueError(_NAN)
            whole = int(x if round_float is None else round_float(x)) if math.isfinite(x) else 2**99
        else:
            whole = int(x)
        if not least <= whole <= most:
            raise OverflowError(_INFINITE)
        return result(whole) if result is not np.int64 else whole

    convert.__name__ = convert.__qualname__ = f"checked_{name}"
    low, high = float(least), float(most)  # of 64 bits the upper bound is rounded up: itself too large
    is_wide = most >= 2**53
    cut = np.trunc if round_float is None else round_float

    @overload(convert)
    def typed(x):
        if isinstance(x, types.Float):

            def from_float(x):
                if x != x:
                    raise ValueError(_NAN)
                whole = cut(np.float64(x))
                if whole < low or whole > high or (is_wide and whole >= high):
                    raise OverflowError(_INFINITE)
                return result(whole)

            return from_float
        if not _is_whole(x):
            _refuse(name, x)
        if least <= LEAST and (most >= MOST):
            return lambda x: result(x)

        def from_whole(x):
            if x < least or (not is_wide and x > most):
                raise OverflowError(_TOO_LARGE)
            return result(x)

        return from_whole

    return convert


# Each by its name: the identity of compiled code follows names in the text.
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
}
"""What a function calls with one number -> what it calls instead."""


# ------------------------------------------------------------ powers, shifts, quotients


def checked_power(x, y):
    """``x ** y``; of integers it wraps around."""
    x, y = _plain(x), _plain(y)
    if isinstance(x, int) and isinstance(y, int):
        return _wrapped(pow(x, y, 2**64)) if y >= 0 else _negative_power(x)
    return _float_power(x, y)


def checked_exact_power(x, y):
    """The same, where an integer must not wrap around."""
    x, y = _plain(x), _plain(y)
    if isinstance(x, int) and isinstance(y, int):
        if y >= 0 and abs(x) > 1 and y > 63:
            raise OverflowError(_TOO_LARGE)
        return _fits(x ** (y if abs(x) > 1 else y % 2 + 2 * (y > 0))) if y >= 0 else _negative_power(x)
    return _float_power(x, y)


def _negative_power(x):
    if x == 0:
        raise ZeroDivisionError(_ZERO_POWER)
    raise ValueError(_NEGATIVE_POWER)


def _float_power(x, y):
    result = float(x) ** float(y)
    if isinstance(result, complex):
        raise ValueError(_COMPLEX)
    return result


def _typed_power(x, y, is_exact):
    if not _is_number(x, y):
        _refuse("**", x, y)
    if _is_whole(x, y):

        def whole(x, y):
            base, rest, result = np.int64(x), np.int64(y), np.int64(1)
            if rest < 0:
                if base == 0:
                    raise ZeroDivisionError(_ZERO_POWER)
                raise ValueError(_NEGATIVE_POWER)
            if is_exact and rest > 64 and base != 0 and base != 1 and base != -1:
                raise OverflowError(_TOO_LARGE)
            too_large = False  # the last square of the base is not used
            while rest > 0:
                if rest & 1:
                    if is_exact and (too_large or not _product_fits(result, base)):
                        raise OverflowError(_TOO_LARGE)
                    result *= base
                rest >>= 1
                if is_exact and not _product_fits(base, base):
                    too_large = True
                base *= base
            return result

        return whole

    def power(x, y):
        base, exponent = np.float64(x), np.float64(y)
        if base == 0.0 and -np.inf < exponent < 0.0:
            raise ZeroDivisionError(_ZERO_POWER)
        result = base**exponent
        if result != result and base == base and exponent == exponent:
            raise ValueError(_COMPLEX)
        if abs(result) == np.inf and abs(base) != np.inf and abs(exponent) != np.inf:
            raise OverflowError(_RANGE)
        return result

    return power


@overload(checked_power)
def _checked_power(x, y):
    return _typed_power(x, y, False)


@overload(checked_exact_power)
def _checked_exact_power(x, y):
    return _typed_power(x, y, True)


def checked_left(x, y):
    """``x << y``: up to 63 bits are shifted, and those beyond the 64th are lost."""
    x, y = _plain(x), _plain(y)
    if y < 0:
        raise ValueError(_NEGATIVE_SHIFT)
    if y > 63 and x != 0:
        raise OverflowError(_SHIFT)
    return _wrapped(x << min(y, 63))


def checked_exact_left(x, y):
    """The same, where no bit may be lost."""
    x, y = _plain(x), _plain(y)
    return _fits(checked_left(x, y) if y > 63 or y < 0 else x << y)


def checked_right(x, y):
    """``x >> y``."""
    x, y = _plain(x), _plain(y)
    if y < 0:
        raise ValueError(_NEGATIVE_SHIFT)
    return x >> min(y, 63)


@overload(checked_left)
def _checked_left(x, y):
    if not _is_whole(x, y):
        _refuse("<<", x, y)

    def shift(x, y):
        value, bits = np.int64(x), np.int64(y)
        if bits < 0:
            raise ValueError(_NEGATIVE_SHIFT)
        if bits > 63:
            if value != 0:
                raise OverflowError(_SHIFT)
            return value
        return value << bits

    return shift


@overload(checked_exact_left)
def _checked_exact_left(x, y):
    if not _is_whole(x, y):
        _refuse("<<", x, y)

    def shift(x, y):
        value, bits = np.int64(x), np.int64(y)
        result = checked_left(value, bits)
        if bits <= 63 and result >> bits != value:
            raise OverflowError(_TOO_LARGE)
        return result

    return shift


@overload(checked_right)
def _checked_right(x, y):
    if not _is_whole(x, y):
        _refuse(">>", x, y)

    def shift(x, y):
        bits = np.int64(y)
        if bits < 0:
            raise ValueError(_NEGATIVE_SHIFT)
        return np.int64(x) >> min(bits, 63)

    return shift


def checked_floordiv(x, y):
    """``x // y``; the least integer by -1 does not fit."""
    return _fits(_plain(x) // _plain(y))


def checked_quotient_and_rest(x, y):
    """``divmod(x, y)``, with the same exception."""
    quotient, rest = divmod(_plain(x), _plain(y))
    return _fits(quotient), rest


@overload(checked_floordiv)
def _checked_floordiv(x, y):
    if not _is_whole(x, y):
        return lambda x, y: x // y

    def divide(x, y):
        if y == -1 and x == LEAST:
            raise OverflowError(_TOO_LARGE)
        return x // y

    return divide


@overload(checked_quotient_and_rest)
def _checked_quotient_and_rest(x, y):
    if not _is_whole(x, y):
        return lambda x, y: divmod(x, y)

    def divide(x, y):
        if y == -1 and x == LEAST:
            raise OverflowError(_TOO_LARGE)
        return divmod(x, y)

    return divide


# ------------------------------------------------------------------------ signs


def checked_negative(x):
    """``-x``: of 32 bits as of 64."""
    return _wrapped(-_plain(x))


def checked_magnitude(x):
    """``abs(x)``, likewise."""
    return _wrapped(abs(_plain(x)))


def checked_invert(x):
    """``~x``: of a bool the integer that Python gives."""
    return ~int(_plain(x))


def checked_exact_negative(x):
    """``-x``, which must fit."""
    return _fits(-_plain(x))


def checked_exact_magnitude(x):
    """``abs(x)``, which must fit."""
    return _fits(abs(_plain(x)))


@overload(checked_negative)
def _checked_negative(x):
    return (lambda x: -np.int64(x)) if _is_whole(x) else (lambda x: -x)


@overload(checked_magnitude)
def _checked_magnitude(x):
    return (lambda x: abs(np.int64(x))) if _is_whole(x) else (lambda x: abs(x))


@overload(checked_invert)
def _checked_invert(x):
    if not _is_whole(x):
        _refuse("~", x)
    return lambda x: ~np.int64(x)


@overload(checked_exact_negative)
def _checked_exact_negative(x):
    if not _is_whole(x):
        return lambda x: -x

    def negative(x):
        if x == LEAST:
            raise OverflowError(_TOO_LARGE)
        return -np.int64(x)

    return negative


@overload(checked_exact_magnitude)
def _checked_exact_magnitude(x):
    if not _is_whole(x):
        return lambda x: abs(x)

    def magnitude(x):
        if x == LEAST:
            raise OverflowError(_TOO_LARGE)
        return abs(np.int64(x))

    return magnitude


# ----------------------------------------------------------- + - * with debug=True


def _product_fits(x, y):
    return LEAST <= x * y <= MOST


@overload(_product_fits)
def _typed_product_fits(x, y):
    def fits(x, y):
        # By what would still fit, without the product.
        if x > 0:
            return (LEAST + x - 1) // x <= y <= MOST // x
        if y > 0:
            return (LEAST + y - 1) // y <= x <= MOST // y
        if x == 0 or y == 0:
            return True
        return x != LEAST and y >= -(MOST // -x)

    return fits


def checked_sum(x, y):
    """``x + y``, which must fit."""
    return _fits(_plain(x) + _plain(y))


def checked_difference(x, y):
    """``x - y``, which must fit."""
    return _fits(_plain(x) - _plain(y))


def checked_product(x, y):
    """``x * y``, which must fit."""
    return _fits(_plain(x) * _plain(y))


@overload(checked_sum)
def _checked_sum(x, y):
    if not _is_whole(x, y):
        return lambda x, y: x + y

    def add(x, y):
        a, b = np.int64(x), np.int64(y)
        result = a + b
        if (a ^ result) & (b ^ result) < 0:
            raise OverflowError(_TOO_LARGE)
        return result

    return add


@overload(checked_difference)
def _checked_difference(x, y):
    if not _is_whole(x, y):
        return lambda x, y: x - y

    def subtract(x, y):
        a, b = np.int64(x), np.int64(y)
        result = a - b
        if (a ^ b) & (a ^ result) < 0:
            raise OverflowError(_TOO_LARGE)
        return result

    return subtract


@overload(checked_product)
def _checked_product(x, y):
    if not _is_whole(x, y):
        return lambda x, y: x * y

    def multiply(x, y):
        a, b = np.int64(x), np.int64(y)
        if not _product_fits(a, b):
            raise OverflowError(_TOO_LARGE)
        return a * b

    return multiply


# ------------------------------------------------------------------------- math


def _math(name: str, has_poles: bool = False) -> Callable:
    """Make ``checked_math_<name>(x)``: it raises where `math` does, by what came out and what went in."""
    function = getattr(math, name)
    overflows = name in ("exp", "exp2", "expm1", "cosh", "sinh", "gamma", "lgamma")

    def call(x):
        return function(x)

    call.__name__ = call.__qualname__ = f"checked_math_{name}"

    @overload(call)
    def typed(x):
        if not _is_number(x):
            _refuse(f"math.{name}", x)

        def compiled(x):
            value = np.float64(x)
            result = function(value)
            if result != result:
                if value == value:
                    raise ValueError(_DOMAIN)
            elif abs(result) == np.inf and abs(value) != np.inf:
                if not overflows or (has_poles and value <= 0.0 and np.floor(value) == value):
                    raise ValueError(_DOMAIN)
                raise OverflowError(_RANGE)
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
    if not _is_number(x, y):
        _refuse("math.pow", x, y)

    def power(x, y):
        base, exponent = np.float64(x), np.float64(y)
        result = base**exponent
        if result != result:
            if base == base and exponent == exponent:
                raise ValueError(_DOMAIN)
        elif abs(result) == np.inf and abs(base) != np.inf and abs(exponent) != np.inf:
            if base == 0.0:
                raise ValueError(_DOMAIN)
            raise OverflowError(_RANGE)
        return result

    return power


def checked_ldexp(x, y):
    """``math.ldexp(x, y)``."""
    return math.ldexp(x, y)


@overload(checked_ldexp)
def _checked_ldexp(x, y):
    if not _is_number(x) or not _is_whole(y):
        _refuse("math.ldexp", x, y)

    def scale(x, y):
        value = np.float64(x)
        result = math.ldexp(value, np.int32(min(max(np.int64(y), -5000), 5000)))  # C takes an int of 32 bits
        if abs(result) == np.inf and abs(value) != np.inf:
            raise OverflowError(_RANGE)
        return result

    return scale


def checked_gcd(x, y):
    """``math.gcd(x, y)``."""
    return _fits(math.gcd(_plain(x), _plain(y)))


@overload(checked_gcd)
def _checked_gcd(x, y):
    if not _is_whole(x, y):
        _refuse("math.gcd", x, y)

    def divisor(x, y):
        result = math.gcd(np.int64(x), np.int64(y))
        if result == LEAST:
            raise OverflowError(_TOO_LARGE)
        return abs(result)

    return divisor


PAIRS: dict[str, Callable] = {
    "pow": checked_power,
    "divmod": checked_quotient_and_rest,
    "math.pow": checked_math_pow,
    "math.ldexp": checked_ldexp,
    "math.gcd": checked_gcd,
}
"""Calls with two numbers."""
