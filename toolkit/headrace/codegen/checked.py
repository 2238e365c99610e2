"""Conversions in generated code that refuse values which would silently be changed.

Numba truncates a float that is stored into an int64 array, and reads whatever
lies under a null. User functions are plain Python, where neither happens, so
every value they store, emit or return passes one of these. The type is checked
while compiling and costs nothing; only int32 and nulls are checked per value.

The plain bodies run with ``NUMBA_DISABLE_JIT=1``.
"""

from __future__ import annotations

import numbers

import numpy as np
from numba import types
from numba.core.errors import TypingError
from numba.extending import overload

__all__ = [
    "checked_bool",
    "checked_float32",
    "checked_float64",
    "checked_int32",
    "checked_int64",
    "checked_present",
    "checked_truth",
]

_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1


def _describe(type_: types.Type) -> str:
    if isinstance(type_, types.NoneType | types.Optional):
        return "None (on some path)"
    if isinstance(type_, types.UnicodeType | types.StringLiteral):
        return "a string"
    if isinstance(type_, types.Array | types.BaseTuple):
        return "a list" if isinstance(type_, types.Array) else "a tuple"
    return f"a {types.unliteral(type_)}"


def _refuse(value: object, declared: str, hint: str = "") -> str:
    what = _describe(value) if isinstance(value, types.Type) else repr(value)
    if value is None or isinstance(value, types.NoneType | types.Optional):
        hint = "; give it a value of that kind on every path"
    if isinstance(value, types.Array | types.BaseTuple):
        hint = "; give one of its elements, or its length"
    return f"{what} is given where {declared} is declared{hint}"


def _is_whole(value: types.Type) -> bool:
    return isinstance(value, types.Integer | types.Boolean | types.IntegerLiteral | types.BooleanLiteral)


def _is_number(value: types.Type) -> bool:
    return _is_whole(value) or isinstance(value, types.Float)


def _python_whole(value, declared):
    if not isinstance(value, numbers.Integral | np.bool_):
        raise TypeError(_refuse(value, declared, "; use int(...) or declare float64"))
    return int(value)


def checked_int64(value):
    """Take an integer or bool; a float is an error while compiling."""
    return np.int64(_python_whole(value, "int64"))


def checked_int32(value):
    """Take an integer or bool that fits in 32 bits."""
    whole = _python_whole(value, "int32")
    if not _INT32_MIN <= whole <= _INT32_MAX:
        raise OverflowError("a value does not fit in int32")
    return np.int32(whole)


def checked_float64(value):
    """Take a number."""
    if not isinstance(value, numbers.Real | np.bool_):
        raise TypeError(_refuse(value, "float64"))
    return np.float64(value)


def checked_float32(value):
    """Take a number, rounded to float32."""
    if not isinstance(value, numbers.Real | np.bool_):
        raise TypeError(_refuse(value, "float32"))
    return np.float32(value)


def checked_bool(value):
    """Take a bool; a number is an error while compiling."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(_refuse(value, "bool", "; compare it, as in x != 0"))
    return bool(value)


def checked_truth(value):
    """Take a bool or number as a condition, as ``if`` does."""
    if not isinstance(value, numbers.Real | np.bool_):
        raise TypeError(_refuse(value, "a condition"))
    return bool(value)


def checked_present(value, valid):
    """Take a value that is not null."""
    if not valid:
        raise ValueError("a null value is used; test it with `is None` first")
    return value


@overload(checked_int64)
def _checked_int64(value):
    if not _is_whole(value):
        raise TypingError(_refuse(value, "int64", "; use int(...) or declare float64"))
    return lambda value: np.int64(value)


@overload(checked_int32)
def _checked_int32(value):
    if not _is_whole(value):
        raise TypingError(_refuse(value, "int32", "; use int(...) or declare float64"))

    def check(value):
        whole = np.int64(value)
        if whole < _INT32_MIN or whole > _INT32_MAX:
            raise OverflowError("a value does not fit in int32")
        return np.int32(whole)

    return check


@overload(checked_float64)
def _checked_float64(value):
    if not _is_number(value):
        raise TypingError(_refuse(value, "float64"))
    return lambda value: np.float64(value)


@overload(checked_float32)
def _checked_float32(value):
    if not _is_number(value):
        raise TypingError(_refuse(value, "float32"))
    return lambda value: np.float32(value)


@overload(checked_bool)
def _checked_bool(value):
    if not isinstance(value, types.Boolean | types.BooleanLiteral):
        raise TypingError(_refuse(value, "bool", "; compare it, as in x != 0"))
    return lambda value: value


@overload(checked_truth)
def _checked_truth(value):
    if not _is_number(value):
        raise TypingError(_refuse(value, "a condition"))
    if isinstance(value, types.Boolean | types.BooleanLiteral):
        return lambda value: value
    return lambda value: value != 0


@overload(checked_present)
def _checked_present(value, valid):
    def check(value, valid):
        if not valid:
            raise ValueError("a null value is used; test it with `is None` first")
        return value

    return check
