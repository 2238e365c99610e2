"""``+ - *`` with ``debug=True``, whose results must fit.

A processor reports whether the result fits with one more instruction. Finding out from the operands, as with
``(x ^ sum) & (y ^ sum) < 0``, takes four, and for a product two divisions.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from headrace.codegen.python_numbers.values import LEAST, MOST, TOO_LARGE, fits, is_whole, plain


def _compile_exact(operation):
    """Make a function that returns a result that may be truncated, and whether it is."""

    @intrinsic
    def exact(typing_context, x, y):
        pair = types.Tuple((types.int64, types.boolean))

        def generate(context, builder, signature, args):
            found = getattr(builder, operation)(*args)
            result, is_cut = builder.extract_value(found, 0), builder.extract_value(found, 1)
            return context.make_tuple(builder, pair, (result, is_cut))

        return pair(types.int64, types.int64), generate

    return exact


_sum = _compile_exact("sadd_with_overflow")
_difference = _compile_exact("ssub_with_overflow")
_product = _compile_exact("smul_with_overflow")


def checked_product_fits(x, y):
    return LEAST <= x * y <= MOST


@overload(checked_product_fits)
def _typed_product_fits(x, y):
    return lambda x, y: not _product(x, y)[1]


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
        result, is_cut = _sum(np.int64(x), np.int64(y))
        if is_cut:
            raise OverflowError(TOO_LARGE)
        return result

    return add


@overload(checked_difference)
def _checked_difference(x, y):
    if not is_whole(x, y):
        return lambda x, y: x - y

    def subtract(x, y):
        result, is_cut = _difference(np.int64(x), np.int64(y))
        if is_cut:
            raise OverflowError(TOO_LARGE)
        return result

    return subtract


@overload(checked_product)
def _checked_product(x, y):
    if not is_whole(x, y):
        return lambda x, y: x * y

    def multiply(x, y):
        result, is_cut = _product(np.int64(x), np.int64(y))
        if is_cut:
            raise OverflowError(TOO_LARGE)
        return result

    return multiply


__all__ = ["checked_difference", "checked_product", "checked_product_fits", "checked_sum"]
