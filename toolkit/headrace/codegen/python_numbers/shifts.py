"""Shifts."""

from __future__ import annotations

import numpy as np
from numba.extending import overload

from headrace.codegen.python_numbers.values import (
    NEGATIVE_SHIFT,
    SHIFT,
    TOO_LARGE,
    fits,
    is_whole,
    plain,
    refuse,
    wrapped,
)


def checked_left(x, y):
    """``x << y``: up to 63 bits are shifted, and those beyond the 64th are lost."""
    x, y = plain(x), plain(y)
    if y < 0:
        raise ValueError(NEGATIVE_SHIFT)
    if y > 63 and x != 0:
        raise OverflowError(SHIFT)
    return wrapped(x << min(y, 63))


def checked_exact_left(x, y):
    """The same, where no bit may be lost."""
    x, y = plain(x), plain(y)
    return fits(checked_left(x, y) if y > 63 or y < 0 else x << y)


def checked_right(x, y):
    """``x >> y``."""
    x, y = plain(x), plain(y)
    if y < 0:
        raise ValueError(NEGATIVE_SHIFT)
    return x >> min(y, 63)


@overload(checked_left)
def _checked_left(x, y):
    if not is_whole(x, y):
        refuse("<<", x, y)

    def shift(x, y):
        value, bits = np.int64(x), np.int64(y)
        if bits < 0:
            raise ValueError(NEGATIVE_SHIFT)
        if bits > 63:
            if value != 0:
                raise OverflowError(SHIFT)
            return value
        return value << bits

    return shift


@overload(checked_exact_left)
def _checked_exact_left(x, y):
    if not is_whole(x, y):
        refuse("<<", x, y)

    def shift(x, y):
        value, bits = np.int64(x), np.int64(y)
        result = checked_left(value, bits)
        if bits <= 63 and result >> bits != value:
            raise OverflowError(TOO_LARGE)
        return result

    return shift


@overload(checked_right)
def _checked_right(x, y):
    if not is_whole(x, y):
        refuse(">>", x, y)

    def shift(x, y):
        bits = np.int64(y)
        if bits < 0:
            raise ValueError(NEGATIVE_SHIFT)
        return np.int64(x) >> min(bits, 63)

    return shift


__all__ = ["checked_exact_left", "checked_left", "checked_right"]
