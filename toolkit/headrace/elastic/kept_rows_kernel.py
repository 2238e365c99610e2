"""Which results pass a filter between two operators: those for which all comparisons of one of its alternatives hold.

A comparison is a row of words: the addresses of one or two columns (as long as all rings together), the rows of `valid` that
mark their nulls, how the values are kept, the outcomes that satisfy it, and the constant. So the kernel that evaluates it is
compiled once for all filters. The comparisons of an alternative follow each other.

Checked     tests/headrace/elastic/test_kept_rows.py
"""

import numpy as np

from headrace.kernel import kernel
from headrace.memory.atomics import view_f32, view_f64, view_i32, view_i64, view_u8

VALUES, VALID, KEPT_AS, HOLDS, CONSTANT, OTHER, OTHER_VALID, BEGINS = range(8)
"""Words of a comparison: address of the values; row of `valid`, or -1 if nothing is null; how the values are kept; the outcomes
that satisfy it; the constant, for floats the bits of a float64; or, if not 0, the address of the values compared with, which are
kept alike, and their row of `valid`, or -1; whether another alternative begins with it."""
WORDS = 8

INT64, FLOAT64, BOOL, INT32, FLOAT32 = range(5)
"""How values are kept. BOOL: a byte, which is not 0 for true. All are compared as int64, or as float64."""
KINDS = {"int64": INT64, "float64": FLOAT64, "uint8": BOOL, "int32": INT32, "float32": FLOAT32}
"""By the dtype of the array that keeps them."""

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


@kernel(inline=True)
def whole_at(kept_as, address, row):
    """A whole number or time, or 0 or 1 for a bool."""
    if kept_as == BOOL:
        return np.int64(view_u8(address + row, 1)[0] != 0)
    if kept_as == INT32:
        return np.int64(view_i32(address + 4 * row, 1)[0])
    return view_i64(address + 8 * row, 1)[0]


@kernel(inline=True)
def float_at(kept_as, address, row):
    """A float."""
    if kept_as == FLOAT32:
        return np.float64(view_f32(address + 4 * row, 1)[0])
    return view_f64(address + 8 * row, 1)[0]


@kernel
def outcome_of(comparisons, valid, i, row):
    """The outcome of comparison `i` for a row, numbered over all rings."""
    if is_null(valid, comparisons[i, VALID], row) or is_null(valid, comparisons[i, OTHER_VALID], row):
        return NULL
    kept_as, at, other = comparisons[i, KEPT_AS], comparisons[i, VALUES], comparisons[i, OTHER]
    if kept_as == FLOAT64 or kept_as == FLOAT32:
        number = float_at(kept_as, other, row) if other != 0 else comparisons[i].view(np.float64)[CONSTANT]
        return outcome(float_at(kept_as, at, row), number)
    whole = whole_at(kept_as, other, row) if other != 0 else comparisons[i, CONSTANT]
    return outcome(whole_at(kept_as, at, row), whole)


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
    "BEGINS", "BOOL", "CONSTANT", "EQUAL", "FLOAT32", "FLOAT64", "GREATER", "HOLDS", "INT32", "INT64", "KEPT_AS", "KINDS", "LESS",
    "NULL", "OTHER", "OTHER_VALID", "UNORDERED", "VALID", "VALUES", "WORDS", "is_kept",
]  # fmt: skip
