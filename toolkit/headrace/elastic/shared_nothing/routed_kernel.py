"""How a shared-nothing instance reads: its router gives each tuple's position in the merged input.

Included in the module of a shared-nothing instance, in place of `build.SHARING`'s
reading: an instance that shares nothing sees only its own tuples, so it cannot
count those of the merged input. The module supplies `take_position`.
"""

# ruff: noqa: F821  (`process`, of the operator, and `take_position`)

from headrace.elastic.instance_loop import SEEN
from headrace.kernel import kernel


@kernel
def tuples_before(g, l, row, start):
    """How many tuples of the merged input come before a record."""
    return g.out_seen[row, start]


@kernel
def process_batch(me, g, c, o, x, s, l, buffer, row, start, count):
    """Process records run by run: within a run their positions in the merged input are consecutive."""
    seen = g.out_seen[row, start : start + count]
    i = 0
    while i < count:
        until = i + 1
        while until < count and seen[until] - seen[i] == until - i:
            until += 1
        take_position(l, seen[i])
        if process(me, g, c, o, x, s, l, buffer, row, start + i, until - i) < 0:
            return -1
        i = until
    l[SEEN] = seen[count - 1] + 1 - count
    return 0
