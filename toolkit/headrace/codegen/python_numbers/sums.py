"""``+ - *`` with ``debug=True``, which must fit."""

from __future__ import annotations

import numpy as np
from numba.extending import overload

from headrace.codegen.python_numbers.values import LEAST, MOST, TOO_LARGE, fits, is_whole, plain


def checked_product_fits(x, y):
    return LEAST <= x * y <= MOST


@overload(checked_product_fits)
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
    return fits(plain(x) + plain(y))


def checked_difference(x, y):
    """``x - y``, which must fit."""
    return fits(plain(x) - plain(y))


def checked_product(x, y):
    """``x * y``, which must fit."""
    return fits(plain(x) * plain(y))


@overload(checked_sum)
def _checked_sum(x, y):
    if not is_whole(x, y):
        return lambda x, y: x + y

    def add(x, y):
        a, b = np.int64(x), np.int64(y)
        result = a + b
        if (a ^ result) & (b ^ result) < 0:
            raise OverflowError(TOO_LARGE)
        return result

    return add


@overload(checked_difference)
def _checked_difference(x, y):
    if not is_whole(x, y):
        return lambda x, y: x - y

    def subtract(x, y):
        a, b = np.int64(x), np.int64(y)
        result = a - b
        if (a ^ b) & (a ^ result) < 0:
            raise OverflowError(TOO_LARGE)
        return result

    return subtract


@overload(checked_product)
def _checked_product(x, y):
    if not is_whole(x, y):
        return lambda x, y: x * y

    def multiply(x, y):
        a, b = np.int64(x), np.int64(y)
        if not checked_product_fits(a, b):
            raise OverflowError(TOO_LARGE)
        return a * b

    return multiply


__all__ = ["checked_difference", "checked_product", "checked_product_fits", "checked_sum"]
