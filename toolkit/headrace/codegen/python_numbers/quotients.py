"""Whole quotients."""

from __future__ import annotations

from numba.extending import overload

from headrace.codegen.python_numbers.values import LEAST, TOO_LARGE, fits, is_whole, plain


def checked_floordiv(x, y):
    """``x // y``; raises for the least integer divided by -1, which does not fit."""
    return fits(plain(x) // plain(y))


def checked_quotient_and_rest(x, y):
    """``divmod(x, y)``, with the same exception."""
    quotient, rest = divmod(plain(x), plain(y))
    return fits(quotient), rest


@overload(checked_floordiv)
def _checked_floordiv(x, y):
    if not is_whole(x, y):
        return lambda x, y: x // y

    def divide(x, y):
        if y == -1 and x == LEAST:
            raise OverflowError(TOO_LARGE)
        return x // y

    return divide


@overload(checked_quotient_and_rest)
def _checked_quotient_and_rest(x, y):
    if not is_whole(x, y):
        return lambda x, y: divmod(x, y)

    def divide(x, y):
        if y == -1 and x == LEAST:
            raise OverflowError(TOO_LARGE)
        return divmod(x, y)

    return divide


__all__ = ["checked_floordiv", "checked_quotient_and_rest"]
