"""Text of the condition on a pair, exact whatever the types, and of the loads that it needs."""

from __future__ import annotations

from collections.abc import Callable

from headrace.codegen.text import indent
from headrace.elastic.join.shape import Band, JoinShape, Side, exact_width

VIEWS = {"int64": "view_i64", "int32": "view_i32", "float64": "view_f64", "float32": "view_f32", "uint8": "view_u8"}
"""Kernel that views an address as an array, by dtype."""

Value = Callable[[int], str]
"""Gives the text of a column's value."""


def exact_band(band: Band, x: str, y: str, width: str) -> str:
    """Write the condition of a band on two values, without overflow or rounding."""
    if band.is_equal:
        return f"{x} == {y}"
    if band.dtype.startswith("float"):
        return f"abs(np.float64({x}) - np.float64({y})) <= {width}"
    if band.dtype == "int64":
        # No overflow: the difference of two int64, larger minus smaller, fits uint64.
        difference = f"(np.uint64({x}) - np.uint64({y}) if {x} >= {y} else np.uint64({y}) - np.uint64({x}))"
        return f"{difference} <= {width}"
    return f"abs(np.int64({x}) - np.int64({y})) <= {width}"


def exact_parts(shape: JoinShape, values: tuple[Value, Value], keys: tuple[str, str]) -> list[str]:
    """Write the conditions on a pair, apart from the user's predicate.

    Parameters
    ----------
    values : tuple of callable
        For the left and the right tuple: gives the text of a column's value.
    keys : tuple of str
        For each of the two: the text of its key.
    """
    left, right = values
    parts = [f"{keys[0]} == {keys[1]}"] if shape.on_keys else []
    return parts + [
        exact_band(band, left(band.left), right(band.right), f"buffer.{exact_width(number)}[0]")
        for number, band in enumerate(shape.bands)
    ]


def exact(shape: JoinShape, values: tuple[Value, Value], keys: tuple[str, str]) -> str:
    """Write the whole condition on a pair; see `exact_parts`."""
    parts = exact_parts(shape, values, keys)
    if shape.user is not None:
        parts.append(user_call(shape, values))
    return " and ".join(f"({part})" for part in parts)


def user_call(shape: JoinShape, values: tuple[Value, Value]) -> str:
    """Write the call of the user's predicate."""
    assert shape.user is not None
    arguments = [values[0](i) for i in shape.user.left] + [values[1](i) for i in shape.user.right]
    return f"user_predicate({', '.join([*shape.user.memory, *arguments])})"


def in_order(side: Side, own, other) -> tuple:
    """Put what belongs to `side` and what belongs to the other side into the order left, right."""
    return (own, other) if side.name == "left" else (other, own)


def column_view(side: Side, column: int) -> str:
    """Write the view of a stored column: `x`, `source` and `entry` say where."""
    return f"{VIEWS[side.dtypes[column]]}(x[source, entry + values_at({column})], CHUNK)"


_LOAD = '''
@kernel
def load_{side}(x, ref, k, buffer):
    """Load the compared values of a {side} tuple, number `k` of those that probe; false if one is null: it matches nothing."""
    source, entry, at = locate(ref, {width})
{load}
    return True

'''


def load_text(side: Side, more: list[str]) -> str:
    """Write the kernel that loads a tuple of this side; the lines `more` end it."""
    lines = [f"buffer.{side.keys}[k] = view_i32(x[source, entry + KEYS], CHUNK)[at]"]
    for column in range(len(side.dtypes)):
        lines += [
            f"valid = x[source, entry + validity_at({column})]",
            "if valid != 0 and view_u8(valid, CHUNK)[at] == 0:",
            "    return False",
            f"buffer.{side.values(column)}[k] = {column_view(side, column)}[at]",
        ]
    return _LOAD.format(side=side.name, width=side.width, load=indent(lines + more, 1))
