"""What to compute over the tuples of a window. Descriptions only: the kernels are in `operators`."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.expressions.columns import column_name


@dataclass(frozen=True)
class Aggregate:
    """What to compute over the tuples of a window.

    Attributes
    ----------
    kind : str
        count, sum, min, max, mean, first, last or count_distinct.
    column : str or None
        None for the count of tuples.
    ignore_nan : bool
        min and max pass over NaN instead of giving NaN.
    """

    kind: str
    column: str | None = None
    ignore_nan: bool = False

    def __repr__(self):
        column = "" if self.column is None else repr(self.column)
        return f"{self.kind}({column}{', ignore_nan=True' if self.ignore_nan else ''})"


def count(column: str | None = None) -> Aggregate:
    """Count tuples, or the non-null values of a column; int64."""
    return Aggregate("count", None if column is None else column_name("count", column))


def sum(column: str) -> Aggregate:
    """Add the non-null values, in input order: int64 with overflow an error, or float64."""
    return Aggregate("sum", column_name("sum", column))


def min(column: str, ignore_nan: bool = False) -> Aggregate:
    """Find the smallest non-null value, of the column's type: strings by code point; NaN if there is one, unless
    `ignore_nan`."""
    return Aggregate("min", column_name("min", column), bool(ignore_nan))


def max(column: str, ignore_nan: bool = False) -> Aggregate:
    """Find the largest non-null value, of the column's type: strings by code point; NaN if there is one, unless
    `ignore_nan`."""
    return Aggregate("max", column_name("max", column), bool(ignore_nan))


def mean(column: str) -> Aggregate:
    """Average the non-null values; float64. Integers sum exactly (in 128 bits), floats in input order."""
    return Aggregate("mean", column_name("mean", column))


def first(column: str) -> Aggregate:
    """Keep the first non-null value, of the column's type."""
    return Aggregate("first", column_name("first", column))


def last(column: str) -> Aggregate:
    """Keep the last non-null value, of the column's type."""
    return Aggregate("last", column_name("last", column))


def count_distinct(column: str) -> Aggregate:
    """Count different non-null values; NaN equals NaN, -0.0 equals 0.0; int64."""
    return Aggregate("count_distinct", column_name("count_distinct", column))
