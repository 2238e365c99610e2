"""Steps between two operators that the sender applies to the results it passes on: column selections, and comparison filters.

A selected column, under whatever name, is read where it was written. A filter is one comparison of a column with a number, or
several joined by `&`. Its outcome has to be Arrow's (`headrace.expressions`), which is certain for two pairs of types only: an
int64 column and a whole number in int64, compared as they are; and a float64 column and a number, where a whole number is
rounded to float64, NaN equals nothing and -0.0 is 0.0. Narrower types, times, int64 columns compared with floats, and everything
else are left to Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headrace.elastic.kept_rows_kernel import EQUAL, GREATER, LESS, UNORDERED
from headrace.expressions import Expression
from headrace.expressions.columns import Binary, Column, Literal
from headrace.plan.steps import FilterStep, SelectStep, Step

_HOLDS = {
    "<": LESS, "<=": LESS | EQUAL, "==": EQUAL, "!=": LESS | GREATER | UNORDERED, ">": GREATER, ">=": GREATER | EQUAL,
}  # fmt: skip
"""The outcomes that satisfy a comparison."""
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Condition(NamedTuple):
    """A comparison that rows have to satisfy."""

    column: str
    """Its name in the operator before."""
    is_float: bool
    """Whether it is float64; otherwise it is int64."""
    holds: int
    """The outcomes that satisfy it: a sum of `LESS`, `EQUAL`, `GREATER`, `UNORDERED`."""
    constant: int
    """As the kernel reads it: for floats, the bits."""


class Between(NamedTuple):
    """What the steps between two operators do."""

    names: Mapping[str, str]
    """Column names after the steps: their names before them."""
    conditions: tuple[Condition, ...]
    why_not: str = ""
    """Why the sender cannot apply the steps; "" if it can."""


def between(steps: Sequence[Step], schema: pa.Schema) -> Between:
    """Analyse what steps do to results of this schema.

    Examples
    --------
    >>> from headrace.expressions import col, lit
    >>> steps = [FilterStep((col("n") > 1) & (lit(2.5) >= col("x"))), SelectStep((("ts", col("ts")), ("m", col("n"))))]
    >>> found = between(steps, pa.schema({"ts": pa.int64(), "n": pa.int64(), "x": pa.float64()}))
    >>> dict(found.names), [(condition.column, condition.is_float) for condition in found.conditions]
    ({'ts': 'ts', 'm': 'n'}, [('n', False), ('x', True)])
    >>> between([FilterStep(col("n") > 0.5)], pa.schema({"n": pa.int64()})).why_not
    "col('n') > 0.5 compares int64 with a constant of another type"
    """
    names = {name: name for name in schema.names}
    conditions: list[Condition] = []
    for step in steps:
        if isinstance(step, SelectStep):
            chosen = {}
            for name, expression in step.columns:
                if not isinstance(expression, Column):
                    return Between({}, (), f"select() computes {name!r}")
                chosen[name] = names[expression.name]
            names = chosen
        elif isinstance(step, FilterStep):
            for part in _parts(step.condition):
                condition = _condition(part, names, schema)
                if isinstance(condition, str):
                    return Between({}, (), condition)
                conditions.append(condition)
        else:
            return Between({}, (), "a function computes, or chooses, tuples or keys")
    return Between(names, tuple(conditions))


def _parts(condition: Expression) -> list[Expression]:
    """The comparisons joined by `&`, all of which must hold."""
    if isinstance(condition, Binary) and condition.operator == "&":
        return [*_parts(condition.left), *_parts(condition.right)]
    return [condition]


def _condition(part: Expression, names: Mapping[str, str], schema: pa.Schema) -> Condition | str:
    """The condition for a comparison, or why it is left to Arrow."""
    left, right, operator = (part.left, part.right, part.operator) if isinstance(part, Binary) else (part, part, "")
    if isinstance(left, Literal):
        left, right, operator = right, left, _TURNED.get(operator, operator)
    if operator not in _HOLDS or not isinstance(left, Column) or not isinstance(right, Literal):
        return f"{part!r} is no comparison of a column with a constant"
    column, constant = names[left.name], right.value
    kind = schema.field(column).type
    if kind not in (pa.int64(), pa.float64()):
        return f"{part!r} compares {kind}, and only int64 and float64 are compared there"
    is_float = kind == pa.float64()
    is_whole = type(constant) is int and -(2**63) <= constant < 2**63
    if not is_whole and not (is_float and type(constant) is float):
        return f"{part!r} compares {'float64' if is_float else 'int64'} with a constant of another type"
    word = int(np.float64(constant).view(np.int64)) if is_float else constant
    return Condition(column, is_float, _HOLDS[operator], word)


__all__ = ["Between", "Condition", "between"]
