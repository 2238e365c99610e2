"""Which results pass a filter between two operators: those for which all its comparisons hold.

A comparison is a row of words: the address of its column (as long as all rings together), the row of `valid` that marks
nulls, the outcomes that satisfy it, and the constant. So the kernel that evaluates it is compiled once for all filters.
"""

import numpy as np

from headrace.kernel import kernel
from headrace.memory.atomics import view_f64, view_i64

VALUES, VALID, IS_FLOAT, HOLDS, CONSTANT = range(5)
"""Words of a comparison: address of the values; row of `valid`, or -1 if nothing is null; whether the values are float64 (else
int64); the outcomes that satisfy it; the constant, for floats its bits."""
WORDS = 5

LESS, EQUAL, GREATER, UNORDERED = 1, 2, 4, 8
"""Outcomes of a comparison. UNORDERED: one of the two is NaN."""


@kernel(inline=True)
def outcome(value, constant):
    """How a number compares with another one of its type."""
    if value < constant:
        return LESS
    if value > constant:
        return GREATER
    return EQUAL if value == constant else UNORDERED


@kernel
def is_kept(comparisons, valid, row):
    """Whether all comparisons hold for a row, numbered over all rings: a comparison with null does not, as in SQL."""
    for i in range(comparisons.shape[0]):
        column = comparisons[i, VALID]
        if column >= 0 and valid[column, row] == 0:
            return False
        at = comparisons[i, VALUES] + 8 * row
        if comparisons[i, IS_FLOAT] != 0:
            found = outcome(view_f64(at, 1)[0], comparisons[i].view(np.float64)[CONSTANT])
        else:
            found = outcome(view_i64(at, 1)[0], comparisons[i, CONSTANT])
        if found & comparisons[i, HOLDS] == 0:
            return False
    return True


__all__ = [
    "CONSTANT", "EQUAL", "GREATER", "HOLDS", "IS_FLOAT", "LESS", "UNORDERED", "VALID", "VALUES", "WORDS", "is_kept",
]  # fmt: skip
