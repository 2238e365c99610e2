"""Steps between two operators that the sender applies to the results it passes on: column selections, and comparison filters.

A selected column, under whatever name, is read where it was written. A filter is made of columns of bools, of comparisons of a
column with a constant or with another column, of `is_null`, `is_not_null` and `is_in`, all joined by ``&``, ``|`` and ``~``. It
is brought into the form of alternatives, in each of which some comparisons have to hold. What is null makes a comparison unknown,
and so its negation; a row is kept only where the filter is true, which is where an alternative is.

The outcome of a comparison has to be Arrow's (`headrace.expressions`), which is certain for these:

- whole numbers of up to 64 bits, but for uint64, with a whole number in int64: compared as int64;
- floats of 32 or 64 bits with a number: compared as float64, to which a whole number is rounded; NaN equals nothing, and -0.0
  is 0.0;
- bools with a constant, False being less than True;
- timestamps and days with a constant that `headrace.expressions` takes for one of their type; timestamps in ns with one in us;
- two columns of one of these types, or of the same type of times.

Times of other units than the constant's, whole numbers compared with floats, and everything else are left to Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.elastic.kept_rows_kernel import EQUAL, GREATER, LESS, NULL, UNORDERED
from headrace.expressions import Expression
from headrace.expressions.columns import Binary, Column, IsIn, Literal, Unary
from headrace.expressions.operands import as_type, constant
from headrace.plan.steps import FilterStep, SelectStep, Step

_HOLDS = {
    "<": LESS, "<=": LESS | EQUAL, "==": EQUAL, "!=": LESS | GREATER | UNORDERED, ">": GREATER, ">=": GREATER | EQUAL,
}  # fmt: skip
"""The outcomes that satisfy a comparison."""
_NOT_NULL = LESS | EQUAL | GREATER | UNORDERED
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_MOST = 64
"""The most comparisons of all alternatives together: their number may grow fast as a filter is rewritten."""


class Condition(NamedTuple):
    """A comparison that rows have to satisfy."""

    column: str
    """Its name in the operator before."""
    is_float: bool
    """Whether it is of floats; otherwise it is of whole numbers, bools or times."""
    holds: int
    """The outcomes that satisfy it: a sum of `LESS`, `EQUAL`, `GREATER`, `UNORDERED`, `NULL`."""
    constant: int = 0
    """As the kernel reads it: for floats, the bits."""
    other: str = ""
    """Name of the column that it is compared with, instead of the constant."""
    begins: bool = False
    """Whether another alternative begins with it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are compared."""
        return (self.column, self.other) if self.other else (self.column,)


class Between(NamedTuple):
    """What the steps between two operators do."""

    names: Mapping[str, str]
    """Column names after the steps: their names before them."""
    conditions: tuple[Condition, ...]
    """Those of all alternatives, one of which has to hold; none: rows are not filtered."""
    why_not: str = ""
    """Why the sender cannot apply the steps; "" if it can."""


class _LeftToArrow(Exception):
    """The sender cannot evaluate a filter, for this reason."""


def between(steps: Sequence[Step], schema: pa.Schema) -> Between:
    """Analyse what steps do to results of this schema.

    Examples
    --------
    >>> from headrace.expressions import col, lit
    >>> steps = [FilterStep((col("n") > 1) | (lit(2.5) >= col("x"))), SelectStep((("ts", col("ts")), ("m", col("n"))))]
    >>> found = between(steps, pa.schema({"ts": pa.int64(), "n": pa.int64(), "x": pa.float64()}))
    >>> dict(found.names), [(condition.column, condition.begins) for condition in found.conditions]
    ({'ts': 'ts', 'm': 'n'}, [('n', True), ('x', True)])
    >>> between([FilterStep(col("n") > 0.5)], pa.schema({"n": pa.int64()})).why_not
    "col('n') > 0.5 compares int64 with a constant of another type"
    """
    names = {name: name for name in schema.names}
    alternatives: list[list[Condition]] = [[]]
    for step in steps:
        if isinstance(step, SelectStep):
            chosen = {}
            for name, expression in step.columns:
                if not isinstance(expression, Column):
                    return Between({}, (), f"select() computes {name!r}")
                chosen[name] = names[expression.name]
            names = chosen
        elif isinstance(step, FilterStep):
            try:
                alternatives = _all_of(alternatives, _alternatives(step.condition, names, schema))
            except _LeftToArrow as why:
                return Between({}, (), str(why))
            except RecursionError:
                return Between({}, (), "the filter has too many operations within each other")
        else:
            return Between({}, (), "a function computes, or chooses, tuples or keys")
    return Between(names, tuple(one._replace(begins=i == 0) for each in alternatives for i, one in enumerate(each)))


def _all_of(left: list[list[Condition]], right: list[list[Condition]]) -> list[list[Condition]]:
    """The alternatives of two conditions that both have to hold."""
    found = [[*first, *second] for first in left for second in right]
    if sum(map(len, found)) > _MOST:
        raise _LeftToArrow(f"the filter has more than {_MOST} comparisons, written as alternatives")
    return found


def _alternatives(
    part: Expression, names: Mapping[str, str], schema: pa.Schema, is_negated: bool = False
) -> list[list[Condition]]:
    """The alternatives of a condition, or of its negation."""
    if isinstance(part, Binary) and part.operator in ("&", "|"):
        left = _alternatives(part.left, names, schema, is_negated)
        right = _alternatives(part.right, names, schema, is_negated)
        return _all_of(left, right) if (part.operator == "&") != is_negated else left + right
    if isinstance(part, Unary) and part.operator == "~":
        return _alternatives(part.operand, names, schema, not is_negated)
    if isinstance(part, IsIn):
        if not part.values or not (isinstance(part.operand, Column) and _is_whole(_kind(part.operand, names, schema))):
            raise _LeftToArrow(f"{part!r} is no comparison of a column of whole numbers with some of them")
        equal = [_comparison(Binary("==", part.operand, Literal(value)), names, schema, is_negated) for value in part.values]
        return [equal] if is_negated else [[one] for one in equal]
    if isinstance(part, Unary) and part.operator in ("is_null", "is_not_null") and isinstance(part.operand, Column):
        holds = NULL if (part.operator == "is_null") != is_negated else _NOT_NULL
        is_float = pa.types.is_floating(_kind(part.operand, names, schema))
        return [[Condition(names[part.operand.name], is_float, holds)]]
    if isinstance(part, Column):  # of bools, or it would be no condition
        part = Binary("==", part, Literal(True))
    return [[_comparison(part, names, schema, is_negated)]]


def _kind(column: Column, names: Mapping[str, str], schema: pa.Schema) -> pa.DataType:
    return schema.field(names[column.name]).type


def _is_whole(kind: pa.DataType) -> bool:
    """Whether all values of this type are whole numbers in int64."""
    return pa.types.is_integer(kind) and not pa.types.is_uint64(kind)


def _comparison(part: Expression, names: Mapping[str, str], schema: pa.Schema, is_negated: bool) -> Condition:
    """A comparison, or its negation."""
    left, right, operator = (part.left, part.right, part.operator) if isinstance(part, Binary) else (part, part, "")
    if isinstance(left, Literal):
        left, right, operator = right, left, _TURNED.get(operator, operator)
    if operator not in _HOLDS or not isinstance(left, Column) or not isinstance(right, Literal | Column):
        raise _LeftToArrow(f"{part!r} is no comparison of a column with a constant or another column")
    kind = _kind(left, names, schema)
    is_float = kind in (pa.float64(), pa.float32())
    if not (is_float or _is_whole(kind) or pa.types.is_boolean(kind) or pa.types.is_temporal(kind)):
        raise _LeftToArrow(f"{part!r} compares {kind}; whole numbers in int64, floats, bools and times are compared there")
    holds = _HOLDS[operator] ^ (_NOT_NULL if is_negated else 0)
    if isinstance(right, Column):
        other = _kind(right, names, schema)
        if other != kind:
            raise _LeftToArrow(f"{part!r} compares {kind} with {other}")
        return Condition(names[left.name], is_float, holds, other=names[right.name])
    number = _number(right.value, kind)
    if number is None:
        raise _LeftToArrow(f"{part!r} compares {kind} with a constant of another type")
    return Condition(names[left.name], is_float, holds, number)


def _number(value: Any, kind: pa.DataType) -> int | None:
    """A constant beside a column of this type, as the kernel reads it; None if it is not certain how Arrow compares it."""
    is_whole = type(value) is int and -(2**63) <= value < 2**63
    if pa.types.is_floating(kind):
        return int(np.float64(value).view(np.int64)) if is_whole or type(value) is float else None
    if pa.types.is_integer(kind):
        return value if is_whole else None
    if pa.types.is_boolean(kind):
        return int(value) if type(value) is bool else None
    time = as_type(constant(value), kind)
    if pa.types.is_timestamp(kind) and kind.unit == "ns" and time.type == pa.timestamp("us", kind.tz):
        try:
            time = time.cast(kind)
        except pa.ArrowInvalid:  # outside of what ns can say
            return None
    return time.value if time.type == kind else None


__all__ = ["Between", "Condition", "between"]
