"""Conditions between a left and a right tuple that joins have fast kernels for."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

import numpy as np

from headrace.arguments import is_number
from headrace.errors import ParameterError
from headrace.expressions.columns import column_name


class Predicate:
    """A condition between a left and a right tuple that the join has a fast kernel for."""

    __slots__ = ()

    def __and__(self, other: object) -> Predicate:
        if not isinstance(other, Predicate):
            raise ParameterError(
                f"{self!r} & {other!r}: only band and equal combine; write the whole condition as one "
                f"function where=lambda l, r: ..."
            )
        return AndPredicate((*self.parts, *other.parts))

    def __or__(self, other: object) -> Predicate:
        raise ParameterError(f"{self!r} | ...: alternatives need a function, where=lambda l, r: ...")

    __ror__ = __or__

    def __invert__(self) -> Predicate:
        raise ParameterError(f"~({self!r}): a negation needs a function, where=lambda l, r: ...")

    def __bool__(self) -> bool:
        raise ParameterError(f"{self!r}: has no truth value of its own; combine predicates with &, not and")

    @property
    def parts(self) -> tuple[Predicate, ...]:
        """The predicates that must all hold."""
        return (self,)


@dataclass(frozen=True)
class BandPredicate(Predicate):
    """abs(l.left - r.right) <= width."""

    left: str
    right: str
    width: int | float

    def __repr__(self):
        return f"band({self.left!r}, {self.right!r}, {self.width!r})"


@dataclass(frozen=True)
class EqualPredicate(Predicate):
    """l.left == r.right."""

    left: str
    right: str

    def __repr__(self):
        return f"equal({self.left!r}, {self.right!r})"


@dataclass(frozen=True)
class AndPredicate(Predicate):
    """Every one of `predicates` holds."""

    predicates: tuple[Predicate, ...]

    @property
    def parts(self):
        return self.predicates

    def __repr__(self):
        return " & ".join(map(repr, self.predicates))


def band(left: str, right: str, width: float) -> BandPredicate:
    """Join where the left stream's column is within `width` of the right stream's.

    Exact for integers, as if computed in float64 for floats; NaN never matches, nor do two infinities of one sign, which are
    NaN apart (`equal` takes these for equal).
    Times of one unit are as far apart as their numbers.

    Parameters
    ----------
    left, right : str
        A column of each stream, of numbers or of times.
    width : float
        From 0, in the columns' unit.

    Raises
    ------
    ParameterError
        A `width` that is no such number.

    Examples
    --------
    >>> band("x", "a", 10) & band("y", "b", 0.5)
    band('x', 'a', 10) & band('y', 'b', 0.5)
    """
    if isinstance(width, np.generic):
        width = width.item()
    if not is_number(width) or math.isnan(width) or width < 0:
        raise ParameterError(f"band({left!r}, {right!r}, width={width!r}): the width must be a number >= 0")
    return BandPredicate(
        column_name("band", left),
        column_name("band", right),
        int(width) if isinstance(width, numbers.Integral) else float(width),
    )


def equal(left: str, right: str | None = None) -> EqualPredicate:
    """Join where the columns are equal; one name if both streams call it the same.

    Columns are of one kind (numbers, texts, dates, timestamps, ...), whose units
    may differ: 1 s equals 1000 ms. Infinity equals itself, NaN nothing.

    Parameters
    ----------
    left : str
        A column of the left stream.
    right : str, optional
        One of the right stream, by default that of the same name.

    Raises
    ------
    ParameterError
        What is no name of a column.

    Examples
    --------
    >>> equal("id", "user") & band("x", "a", 10)
    equal('id', 'user') & band('x', 'a', 10)
    """
    left = column_name("equal", left)
    return EqualPredicate(left, left if right is None else column_name("equal", right))
