"""Rows as they were before a transaction wrote them, until it is certain that it is not rejected.

Each executor has a part of ``s.undo``: entries of a row's words, then where they belong and how many they are. Only
the executor that runs a transaction writes its rows, so no other executor has seen what is undone.
"""

from headrace.kernel import kernel
from headrace.transactions.words import FREE

# Words of ``l``.
(
    UNDO,  # how much of the part is used
    FUNCTION,  # which function runs; -1: none, keys are named
) = range(FREE, FREE + 2)

BY_PARTS, REFUSED, IN_CHAIN, REFUSED_IN_CHAIN = range(4)
"""Fates: operations and what follows them; rejected; run whole in the chain of its only row, and rejected there."""
FATE_BITS = 2
"""The rest of the word of a fate is the function's first operation."""


ROWS_KEPT = "a transaction changes more rows than can be put back"
MAX_ROWS = "max_rows of "
"""What a MemoryError says, unless it comes from containers."""


@kernel
def keep_row(me, s, l, at, size):
    """Keep the `size` words of a row at `at`."""
    used = l[UNDO]
    if used + size + 2 > s.undo.shape[1]:
        raise MemoryError(ROWS_KEPT)
    for k in range(size):
        s.undo[me, used + k] = s.table_rows[at + k]
    s.undo[me, used + size] = at
    s.undo[me, used + size + 1] = size
    l[UNDO] = used + size + 2


@kernel
def put_back(me, s, l):
    """Put all rows back, the latest first: the same row may have been kept twice."""
    used = l[UNDO]
    while used > 0:
        size = s.undo[me, used - 1]
        at = s.undo[me, used - 2]
        used -= size + 2
        for k in range(size):
            s.table_rows[at + k] = s.undo[me, used + k]
    l[UNDO] = 0
