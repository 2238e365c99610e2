"""Steps between two operators that the sender applies to the results it passes on: column selections, and comparison filters.

A selected column, under whatever name, is read where it was written. A filter is made of comparisons, of a column with a number
or with another column, of `is_null`, `is_not_null` and `is_in`, all joined by ``&``, ``|`` and ``~``. It is brought into the form
of alternatives, in each of which some comparisons have to hold. What is null makes a comparison unknown, and so its negation; a
row is kept only where the filter is true, which is where an alternative is.

The outcome of a comparison has to be Arrow's (`headrace.expressions`), which is certain for few types only: an int64 column and
a whole number in int64, compared as they are; a float64 column and a number, where a whole number is rounded to float64, NaN
equals nothing and -0.0 is 0.0; and two columns that are both int64 or both float64. Narrower types, times, int64 compared with
floats, and everything else are left to Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headrace.elastic.kept_rows_kernel import EQUAL, GREATER, LESS, NULL, UNORDERED
from headrace.expressions import Expression
from headrace.expressions.columns import Binary, Column, IsIn, Literal, Unary
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
    """Whether it is of floats; otherwise it is of whole numbers or times."""
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
        equal = [_comparison(Binary("==", part.operand, Literal(value)), names, schema, is_negated) for value in part.values]
        if not equal or any(one.is_float for one in equal):
            raise _LeftToArrow(f"{part!r} is no comparison of a column of int64 with some numbers")
        return [equal] if is_negated else [[one] for one in equal]
    if isinstance(part, Unary) and part.operator in ("is_null", "is_not_null") and isinstance(part.operand, Column):
        column = names[part.operand.name]
        holds = NULL if (part.operator == "is_null") != is_negated else _NOT_NULL
        return [[Condition(column, pa.types.is_floating(schema.field(column).type), holds)]]
    return [[_comparison(part, names, schema, is_negated)]]


def _comparison(part: Expression, names: Mapping[str, str], schema: pa.Schema, is_negated: bool) -> Condition:
    """A comparison, or its negation."""
    left, right, operator = (part.left, part.right, part.operator) if isinstance(part, Binary) else (part, part, "")
    if isinstance(left, Literal):
        left, right, operator = right, left, _TURNED.get(operator, operator)
    if operator not in _HOLDS or not isinstance(left, Column) or not isinstance(right, Literal | Column):
        raise _LeftToArrow(f"{part!r} is no comparison of a column with a constant or another column")
    column = names[left.name]
    kind = schema.field(column).type
    if kind not in (pa.int64(), pa.float64()):
        raise _LeftToArrow(f"{part!r} compares {kind}, and only int64 and float64 are compared there")
    is_float = kind == pa.float64()
    holds = _HOLDS[operator] ^ (_NOT_NULL if is_negated else 0)
    if isinstance(right, Column):
        other = names[right.name]
        if schema.field(other).type != kind:
            raise _LeftToArrow(f"{part!r} compares {kind} with {schema.field(other).type}")
        return Condition(column, is_float, holds, other=other)
    constant = right.value
    is_whole = type(constant) is int and -(2**63) <= constant < 2**63
    if not is_whole and not (is_float and type(constant) is float):
        raise _LeftToArrow(f"{part!r} compares {'float64' if is_float else 'int64'} with a constant of another type")
    return Condition(column, is_float, holds, int(np.float64(constant).view(np.int64)) if is_float else constant)


__all__ = ["Between", "Condition", "between"]
