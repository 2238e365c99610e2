"""Signs; numbers of 32 bits are treated as numbers of 64."""

from __future__ import annotations

import numpy as np
from numba.extending import overload

from headrace.codegen.python_numbers.values import LEAST, TOO_LARGE, fits, is_whole, plain, refuse, wrapped


def checked_negative(x):
    """``-x``; 32 bits are treated as 64."""
    return wrapped(-plain(x))


def checked_magnitude(x):
    """``abs(x)``, likewise."""
    return wrapped(abs(plain(x)))


def checked_invert(x):
    """``~x``; for a bool, the integer that Python gives."""
    return ~int(plain(x))


def checked_exact_negative(x):
    """``-x``, which must fit."""
    return fits(-plain(x))


def checked_exact_magnitude(x):
    """``abs(x)``, which must fit."""
    return fits(abs(plain(x)))


@overload(checked_negative)
def _checked_negative(x):
    return (lambda x: -np.int64(x)) if is_whole(x) else (lambda x: -x)


@overload(checked_magnitude)
def _checked_magnitude(x):
    return (lambda x: abs(np.int64(x))) if is_whole(x) else (lambda x: abs(x))


@overload(checked_invert)
def _checked_invert(x):
    if not is_whole(x):
        refuse("~", x)
    return lambda x: ~np.int64(x)


@overload(checked_exact_negative)
def _checked_exact_negative(x):
    if not is_whole(x):
        return lambda x: -x

    def negative(x):
        if x == LEAST:
            raise OverflowError(TOO_LARGE)
        return -np.int64(x)

    return negative


@overload(checked_exact_magnitude)
def _checked_exact_magnitude(x):
    if not is_whole(x):
        return lambda x: abs(x)

    def magnitude(x):
        if x == LEAST:
            raise OverflowError(TOO_LARGE)
        return abs(np.int64(x))

    return magnitude


__all__ = ["checked_exact_magnitude", "checked_exact_negative", "checked_invert", "checked_magnitude", "checked_negative"]
