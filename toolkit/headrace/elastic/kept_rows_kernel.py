"""Which results pass a filter between two operators: those for which all comparisons of one of its alternatives hold.

A comparison is a row of words: the addresses of one or two columns (as long as all rings together), the rows of `valid` that
mark their nulls, the outcomes that satisfy it, and the constant. So the kernel that evaluates it is compiled once for all
filters. The comparisons of an alternative follow each other.
"""

import numpy as np

from headrace.kernel import kernel
from headrace.memory.atomics import view_f64, view_i64

VALUES, VALID, IS_FLOAT, HOLDS, CONSTANT, OTHER, OTHER_VALID, BEGINS = range(8)
"""Words of a comparison: address of the values; row of `valid`, or -1 if nothing is null; whether the values are float64 (else
int64); the outcomes that satisfy it; the constant, for floats its bits; or, if not 0, the address of the values compared with,
and their row of `valid`, or -1; whether another alternative begins with it."""
WORDS = 8

LESS, EQUAL, GREATER, UNORDERED, NULL = 1, 2, 4, 8, 16
"""Outcomes of a comparison. UNORDERED: one of the two is NaN; NULL: one of them is null."""


@kernel(inline=True)
def outcome(value, constant):
    """How a number compares with another one of its type."""
    if value < constant:
        return LESS
    if value > constant:
        return GREATER
    return EQUAL if value == constant else UNORDERED


@kernel
def is_null(valid, column, row):
    """Whether a value is null, in a column whose nulls are in this row of `valid`."""
    return column >= 0 and valid[column, row] == 0


@kernel
def outcome_of(comparisons, valid, i, row):
    """The outcome of comparison `i` for a row, numbered over all rings."""
    if is_null(valid, comparisons[i, VALID], row) or is_null(valid, comparisons[i, OTHER_VALID], row):
        return NULL
    at, other = comparisons[i, VALUES] + 8 * row, comparisons[i, OTHER]
    if comparisons[i, IS_FLOAT] != 0:
        number = view_f64(other + 8 * row, 1)[0] if other != 0 else comparisons[i].view(np.float64)[CONSTANT]
        return outcome(view_f64(at, 1)[0], number)
    whole = view_i64(other + 8 * row, 1)[0] if other != 0 else comparisons[i, CONSTANT]
    return outcome(view_i64(at, 1)[0], whole)


@kernel
def is_kept(comparisons, valid, row):
    """Whether all comparisons of an alternative hold for a row, numbered over all rings."""
    holds = False
    for i in range(comparisons.shape[0]):
        if comparisons[i, BEGINS] != 0:
            if holds:
                return True
            holds = True
        if holds:
            holds = outcome_of(comparisons, valid, i, row) & comparisons[i, HOLDS] != 0
    return holds


__all__ = [
    "BEGINS", "CONSTANT", "EQUAL", "GREATER", "HOLDS", "IS_FLOAT", "LESS", "NULL", "OTHER", "OTHER_VALID", "UNORDERED", "VALID",
    "VALUES", "WORDS", "is_kept",
]  # fmt: skip
