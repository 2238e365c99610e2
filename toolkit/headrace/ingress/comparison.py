"""How a join compares a left column with a right one: by key id or by number, in which type and unit.

Only values of one kind are ever equal: texts of any layout, bytes, whole numbers and
floats (as float64 where either is a float), truth values, dates, times of day,
instants (a timestamp without a zone is in UTC), durations. Columns of one kind
in different units are compared in the coarser unit; a value that is not whole in
that unit matches nothing, so no value is rounded and none overflows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.errors import SchemaError, UnsupportedTypeError
from headrace.ingress.columns import cast_hint, is_number, is_string, is_text, plain_type, value_dtype

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY = 86_400 * 10**9


@dataclass(frozen=True)
class Comparison:
    """How two columns are compared.

    Attributes
    ----------
    dtype : numpy dtype or None
        The type in which kernels compare numbers: narrow where both columns are, so no value changes.
        None: as keys, by id.
    divisors : (int, int)
        Divisors that bring the left and the right values to one unit.
    """

    dtype: np.dtype | None
    divisors: tuple[int, int] = (1, 1)


def compare_equal(
    left: str, left_kind: pa.DataType, right: str, right_kind: pa.DataType, use: str = "equal()"
) -> Comparison:
    """Return how two columns are compared for equality, or raise with the reason why they cannot be.

    Parameters
    ----------
    use : str
        What the comparison is for, for the error's text.

    Raises
    ------
    SchemaError
        The columns are of different kinds.
    UnsupportedTypeError
        A column's type cannot be compared.

    Examples
    --------
    >>> compare_equal("x", pa.timestamp("s"), "a", pa.timestamp("ms"))
    Comparison(dtype=dtype('int64'), divisors=(1, 1000))
    """
    kinds = (plain_type(left_kind), plain_type(right_kind))
    for name, declared, kind in zip((left, right), (left_kind, right_kind), kinds, strict=True):
        if not (is_string(kind) or is_number(kind)):
            raise UnsupportedTypeError(
                f"{use}: column {name!r} has type {declared}, which a join cannot compare: {cast_hint(kind)}"
            )
    if _family(kinds[0]) != _family(kinds[1]):
        raise SchemaError(
            f"{use}: columns {left!r} and {right!r} have types {left_kind} and {right_kind}; a {_family(kinds[0])} is"
            f" never equal to a {_family(kinds[1])}: cast one to the other's type"
        )
    if is_string(kinds[0]):
        return Comparison(None)
    units = [_unit(kind) for kind in kinds]
    coarser = max(units)
    return Comparison(_common(*kinds), (coarser // units[0], coarser // units[1]))


def compare_band(
    left: str, left_kind: pa.DataType, right: str, right_kind: pa.DataType, width: int | float
) -> Comparison:
    """Return how two columns are compared within a width, given in their own unit; raises as `compare_equal`."""
    use = f"band({left!r}, {right!r}, {width!r})"
    kinds = (plain_type(left_kind), plain_type(right_kind))
    for name, declared, kind in zip((left, right), (left_kind, right_kind), kinds, strict=True):
        if not is_number(kind) or pa.types.is_boolean(kind):
            raise UnsupportedTypeError(
                f"{use}: column {name!r} has type {declared}, which has no distances: use hr.equal(), or"
                f" {'cast it to int64' if pa.types.is_boolean(kind) else cast_hint(kind)}"
            )
    if _family(kinds[0]) != _family(kinds[1]) or _unit(kinds[0]) != _unit(kinds[1]):
        raise SchemaError(
            f"{use}: types {left_kind} and {right_kind} differ, so the width has no unit; cast one to the other's type"
        )
    return Comparison(_common(*kinds))


def _family(kind: pa.DataType) -> str:
    """Return the kind of a type's values: only values of one family are ever equal."""
    for name, is_one in (
        ("text", is_text),
        ("bytes", is_string),
        ("truth value", pa.types.is_boolean),
        ("date", pa.types.is_date),
        ("time of day", pa.types.is_time),
        ("timestamp", pa.types.is_timestamp),
        ("duration", pa.types.is_duration),
    ):
        if is_one(kind):
            return name
    return "number"


def _unit(kind: pa.DataType) -> int:
    """Return the nanoseconds of one unit; 1 for a type that is not a time."""
    if pa.types.is_date(kind):
        return _DAY if pa.types.is_date32(kind) else _NANOSECONDS["ms"]
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind):
        return _NANOSECONDS[kind.unit]
    return 1


def _common(left: pa.DataType, right: pa.DataType) -> np.dtype:
    a, b = value_dtype(left, narrow=True), value_dtype(right, narrow=True)
    if a.kind == "f" or b.kind == "f":
        return np.dtype(np.float32) if a == b == np.float32 else np.dtype(np.float64)
    return a if a == b == np.int32 else np.dtype(np.int64)
