"""Conditions between a left and a right tuple for which joins have fast kernels."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

import numpy as np

from headrace.arguments import is_number
from headrace.errors import ParameterError
from headrace.expressions.columns import column_name


class Predicate:
    """A condition between a left and a right tuple for which joins have a fast kernel."""

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
    """All of `predicates` hold."""

    predicates: tuple[Predicate, ...]

    @property
    def parts(self):
        return self.predicates

    def __repr__(self):
        return " & ".join(map(repr, self.predicates))


def band(left: str, right: str, width: float) -> BandPredicate:
    """Join where the left stream's column is within `width` of the right stream's.

    Integers are compared exactly, floats as in float64. NaN never matches, nor do two infinities of the same sign, whose
    difference is NaN (`equal` treats them as equal). The difference of two times is that of their numbers, so they must be
    of one unit.

    Parameters
    ----------
    left, right : str
        A column of each stream, of numbers or of times.
    width : float
        From 0, in the columns' unit.

    Raises
    ------
    ParameterError
        `width` is no such number.

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
    """Join where the columns are equal; one name will do if it is the same in both streams.

    The columns are of one kind (numbers, texts, dates, timestamps, ...), but their units
    may differ: 1 s equals 1000 ms. Infinity equals itself, NaN equals nothing.

    Parameters
    ----------
    left : str
        A column of the left stream.
    right : str, optional
        A column of the right stream; by default that of the same name.

    Raises
    ------
    ParameterError
        An argument is no column name.

    Examples
    --------
    >>> equal("id", "user") & band("x", "a", 10)
    equal('id', 'user') & band('x', 'a', 10)
    """
    left = column_name("equal", left)
    return EqualPredicate(left, left if right is None else column_name("equal", right))
