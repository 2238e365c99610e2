"""Preparing the operands of expressions for Arrow: common types, constants, errors in the user's words.

`expression` is what the user wrote, for messages.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import (
    HeadraceError,
    InputError,
    OverflowInputError,
    ParameterError,
    UnsupportedTypeError,
)

_BEYOND_INT64 = re.compile(r"Integer value (\d+) not in range: 0 to 9223372036854775807$")
"""Arrow's message for a uint64 that does not fit in int64."""
_BEYOND_FLOAT64 = re.compile(r"Integer value (-?\d+) not in range: -?\d+ to 9007199254740992$")
_AS_FLOAT = "add 0.0 to the integer first, which makes it float64"
"""A cast would not help: it refuses an integer that float64 has to round, as it does most of this size."""

_WIDER = pa.decimal128(20)
"""Holds every int64 and every uint64."""

Value = Any
"""A column, or a constant: pa.Array or pa.Scalar."""


def is_text(type_: pa.DataType) -> bool:
    """Whether it is a string column of any layout but a dictionary."""
    return pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)


def call(expression: object, function: Callable, *arguments: Any, **options: Any) -> Any:
    """Call Arrow, and raise its errors in the user's words."""
    try:
        return function(*arguments, **options)
    except HeadraceError:
        raise
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError, TypeError) as error:
        types = ", ".join(str(argument.type) for argument in arguments)
        raise UnsupportedTypeError(f"{expression!r}: not defined for {types}; use .cast(...)") from error
    except pa.ArrowInvalid as error:
        text = str(error).splitlines()[0]
        if "overflow" in text:
            raise OverflowInputError(f"{expression!r}: integer overflow; {_AS_FLOAT}") from error
        beyond = _BEYOND_INT64.match(text)
        if beyond is not None:
            raise OverflowInputError(f"{expression!r}: {beyond[1]} is above the range of int64; {_AS_FLOAT}") from error
        inexact = _BEYOND_FLOAT64.match(text)
        if inexact is not None:
            raise InputError(f"{expression!r}: {inexact[1]} may not be kept exactly; add 0.0 instead, which rounds") from error
        raise InputError(f"{expression!r}: {text}") from error


def condition(expression: object, value: Value) -> Value:
    """Return an operand of `&`, `|` or `~`: true, false or null."""
    if pa.types.is_null(value.type):
        return value.cast(pa.bool_())
    if not pa.types.is_boolean(value.type):
        raise UnsupportedTypeError(
            f"{expression!r}: & | ~ take conditions, not {value.type}; "
            f"put brackets around each comparison, as in (a > 1) & (b > 2)"
        )
    return value


def widened(expression: object, value: Value) -> Value:
    """Return small integers as int64, so that ``int32 + 1`` does not overflow earlier than Python expects."""
    if pa.types.is_integer(value.type) and value.type != pa.int64():
        return call(expression, lambda side: side.cast(pa.int64()), value)
    return value


def mixed(left: Value, right: Value) -> tuple[Value, Value]:
    """Return an integer beside a float as float64, rounded where it has more than 53 bits."""
    floating = [pa.types.is_floating(side.type) for side in (left, right)]
    if any(floating) and not all(floating):
        left, right = (
            pc.cast(side, pa.float64(), safe=False) if pa.types.is_integer(side.type) else side
            for side in (left, right)
        )
    return left, right


def as_float(expression: object, value: Value, other: Value) -> Value:
    """Return an operand of `/` as a float."""
    if pa.types.is_floating(value.type) and value.type != pa.float16():
        return value
    if pa.types.is_integer(value.type) or pa.types.is_null(value.type) or value.type == pa.float16():
        return pc.cast(value, pa.float64(), safe=False)
    raise UnsupportedTypeError(f"{expression!r}: not defined for {value.type}, {other.type}; use .cast(...)")


def common_type(expression: object, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the type in which `is_in` compares numbers of two types."""
    if pa.types.is_floating(left) or pa.types.is_floating(right):
        if all(pa.types.is_floating(side) or pa.types.is_integer(side) for side in (left, right)):
            return pa.float64()
    elif pa.types.is_integer(left) and pa.types.is_integer(right):
        return pa.int64()
    raise UnsupportedTypeError(f"{expression!r}: a {left} is never one of {right} values; cast the column")


def value_set(values: list[Any], target: pa.DataType | None) -> pa.Array:
    """Return constants as an array, of a column's type if that is given."""
    if target is None:
        return pa.array(values)
    return pa.array([as_type(constant(value), target).as_py() for value in values], target)


def those_among(kind: pa.DataType, values: list[int]) -> list[int]:
    """Return the constants that an integer of a type may equal: those within uint64 for uint64, else within int64."""
    low, high = (0, 2**64) if pa.types.is_uint64(kind) else (-(2**63), 2**63)
    return [value for value in values if low <= value < high]


def constant(value: Any) -> pa.Scalar:
    """Return a constant; a whole number beyond int64 has type uint64."""
    return pa.scalar(value, pa.uint64() if type(value) is int and value >= 2**63 else None)


def signed_and_not(left: Value, right: Value) -> tuple[Value, Value]:
    """Return uint64 and signed integers in a type for both: int64 if that holds all of the values, else a decimal."""
    is_mixed = any(pa.types.is_uint64(side.type) for side in (left, right)) and any(
        pa.types.is_signed_integer(side.type) for side in (left, right)
    )
    if not is_mixed:
        return left, right
    try:
        return pc.cast(left, pa.int64()), pc.cast(right, pa.int64())
    except pa.ArrowInvalid:
        return pc.cast(left, _WIDER), pc.cast(right, _WIDER)


def as_type(constant: pa.Scalar, target: pa.DataType) -> pa.Scalar:
    """Read a constant as a column's type: a date written as text, a local time without zone as UTC."""
    if pa.types.is_timestamp(target) and pa.types.is_string(constant.type):
        try:
            moment = datetime.datetime.fromisoformat(constant.as_py())
        except ValueError as error:
            raise ParameterError(
                f"{constant.as_py()!r}: not a time; write it in ISO 8601, as in '2013-01-31 12:00'"
            ) from error
        constant = pa.scalar(moment)
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(constant.type):
        if (constant.type.tz is None) != (target.tz is None):
            # A time without a zone is UTC, on either side, as for event times.
            unit = constant.type.unit
            return constant.cast(pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit, target.tz))
        return constant
    if is_text(target) and pa.types.is_string(constant.type):
        return constant.cast(target)
    if pa.types.is_uint64(target) and pa.types.is_integer(constant.type) and constant.is_valid and constant.as_py() >= 0:
        return constant.cast(target)  # otherwise the whole column would have to be cast
    return constant


def comparable(expression: object, left: Value, right: Value) -> tuple[Value, Value]:
    """Return the operands of `==` or `<`: a constant gets the type of the column beside it."""
    if isinstance(right, pa.Scalar) and not isinstance(left, pa.Scalar):
        right = as_type(right, left.type)
    elif isinstance(left, pa.Scalar) and not isinstance(right, pa.Scalar):
        left = as_type(left, right.type)
    textual = [is_text(side.type) for side in (left, right) if not pa.types.is_null(side.type)]
    if len(textual) == 2 and textual[0] != textual[1]:
        # Arrow would silently cast 5 to "5", or fail on "a"; the user means neither.
        raise UnsupportedTypeError(
            f"{expression!r}: compares {left.type} with {right.type}; write the constant as the column's type"
        )
    return left, right


def half_to_even(expression: object, value: Value) -> Value:
    """Round to whole numbers, ties to the even one; NaN, or a value beyond int64, is an error."""
    if pa.types.is_integer(value.type) or pa.types.is_null(value.type):
        return value
    if not pa.types.is_floating(value.type):
        raise UnsupportedTypeError(f"{expression!r}: not defined for {value.type}; use .cast(...)")
    rounded = pc.round(value.cast(pa.float64()), round_mode="half_to_even")
    try:
        return rounded.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise InputError(f"{expression!r}: NaN, or beyond int64, has no whole number; filter such rows out first") from error


def divide_down(expression: object, operator: str, left: Value, right: Value) -> Value:
    """Divide with rounding towards minus infinity; Arrow's own rounds towards zero."""
    for side in (left.type, right.type):
        if not (pa.types.is_integer(side) or pa.types.is_floating(side) or pa.types.is_null(side)):
            raise UnsupportedTypeError(
                f"{expression!r}: not defined for {left.type}, {right.type}; use .cast(...)"
            )
    integers = not (pa.types.is_floating(left.type) or pa.types.is_floating(right.type))
    target = pa.int64() if integers else pa.float64()
    scalars = isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar)
    count = 1 if scalars else len(right if isinstance(left, pa.Scalar) else left)
    left, right = pc.cast(left, target, safe=False), pc.cast(right, target, safe=False)
    left = pa.repeat(left, count) if isinstance(left, pa.Scalar) else left
    right = pa.repeat(right, count) if isinstance(right, pa.Scalar) else right
    valid = np.asarray(pc.and_(pc.is_valid(left), pc.is_valid(right)))
    # Null slots hold arbitrary values; 1 divides everything.
    a, b = (np.asarray(pc.fill_null(side, 1)) for side in (left, right))
    a, b = np.where(valid, a, 1), np.where(valid, b, 1)
    if integers and (b == 0).any():
        raise InputError(f"{expression!r}: division by zero; filter such rows out first")
    if integers and operator == "//" and ((b == -1) & (a == np.iinfo(np.int64).min)).any():
        raise OverflowInputError(f"{expression!r}: integer overflow; {_AS_FLOAT}")
    with np.errstate(all="ignore"):
        values = np.floor_divide(a, b) if operator == "//" else np.remainder(a, b)
    result = pa.array(values, target, mask=~valid)
    return result[0] if scalars else result
