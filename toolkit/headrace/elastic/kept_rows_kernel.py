"""Which results are passed on, where a filter is between two operators: those for which all its comparisons hold.

A comparison is a row of words: where its column is (as long as all rings together), which row of `valid` says what of it is
null, what it may find, and the constant. So what evaluates it is compiled once for all filters.
"""

import numpy as np

from headrace.kernel import kernel
from headrace.memory.atomics import view_f64, view_i64

VALUES, VALID, IS_FLOAT, HOLDS, CONSTANT = range(5)
"""Words of a comparison: address of the values; row of `valid`, or -1 where nothing is null; whether they are float64 (else
int64); what may be found; the constant, of floats its bits."""
WORDS = 5

LESS, EQUAL, GREATER, UNORDERED = 1, 2, 4, 8
"""What is found. UNORDERED: one of them is NaN."""


@kernel(inline=True)
def outcome(value, constant):
    """How a number is to another one of its type."""
    if value < constant:
        return LESS
    if value > constant:
        return GREATER
    return EQUAL if value == constant else UNORDERED


@kernel
def is_kept(comparisons, valid, row):
    """Whether all comparisons hold for a row, counted over all rings: one with null does not, as in SQL."""
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
