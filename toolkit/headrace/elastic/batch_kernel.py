"""How many tuples an instance takes at once, and the estimated cost of a tuple.

The estimate also limits how many tuples may wait in the gate, by the time they take (`membership_kernel.tuples_allowed`),
and a reconfiguration takes effect after the tuples already in the gate. So the estimate has to follow the present cost
of a tuple, not its cost while windows were empty.
"""

from headrace.kernel import kernel

BATCH_RECORDS = 1024
FIRST_BATCH = 64
"""Tuples in a batch while the cost of a tuple is unknown."""
LEAST_BATCH = 8
LEAST_BATCH_NS = 8_000_000
"""The longest that LEAST_BATCH tuples may take; where they would take longer, a batch has fewer."""
LONG_NS = 200_000
"""In a batch that took at least this long, the fixed cost is negligible."""


@kernel
def batch_limit(cost, batch_ns):
    """How many records of `cost` ns each (0: unknown) an instance takes at once, to work on them for `batch_ns`.

    Examples
    --------
    >>> [batch_limit(cost, 200_000) for cost in (0, 1, 1_000, 100_000, 4_000_000, 10**9)]
    [64, 1024, 200, 8, 2, 1]
    """
    if cost == 0:
        return FIRST_BATCH
    least = max(1, min(LEAST_BATCH, LEAST_BATCH_NS // cost))
    return max(least, min(BATCH_RECORDS, batch_ns // cost))


@kernel
def cost_after(cost, count, took_ns):
    """The new estimate of a tuple's cost, `cost` ns so far (0: unknown), after a batch of `count` that took `took_ns`.

    A heartbeat is not a tuple (`count` is 0) and changes nothing, however long it takes to close windows. In a small
    batch the fixed cost outweighs that of the tuples, so a small batch may lower the estimate, but raises it only if
    the batch took long. It must be able to raise it: while an instance keeps up with its input, all its batches are
    small, and yet tuples become more expensive as windows fill.

    Examples
    --------
    >>> cost_after(0, 3, 6_000), cost_after(1_000, 100, 500_000)
    (2000, 2000)
    >>> cost_after(1_000, 2, 10_000), cost_after(1_000, 2, 400), cost_after(1_000, 2, 402_000)
    (1000, 800, 51000)
    >>> cost_after(1_000, 0, 5_000_000)
    1000
    """
    if count == 0:
        return cost
    each = took_ns // count
    if cost == 0:
        return max(1, each)
    if count < LEAST_BATCH and took_ns < LONG_NS and each >= cost:
        return cost
    return max(1, (3 * cost + each) // 4)


__all__ = ["BATCH_RECORDS", "FIRST_BATCH", "LEAST_BATCH", "batch_limit", "cost_after"]
