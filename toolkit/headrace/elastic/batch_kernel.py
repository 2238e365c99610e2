"""How many tuples an instance takes at once, and what they are taken to cost.

The cost bounds the gate in time too (`membership_kernel.tuples_allowed`), and a change begins behind what is in the
gate. So what a tuple costs now has to be known, not what one cost while windows were empty.
"""

from headrace.kernel import kernel

BATCH_RECORDS = 1024
FIRST_BATCH = 64
"""While nobody knows what a tuple costs."""
LEAST_BATCH = 8
LEAST_BATCH_NS = 8_000_000
"""The fewest tuples of a batch take no longer, though they be fewer then."""
LONG_NS = 200_000
"""What a batch costs beside its tuples is no matter in one that took so long."""


@kernel
def batch_limit(cost, batch_ns):
    """How many records an instance takes at once, of `cost` ns each (0: nobody knows), to work on them for `batch_ns`.

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
    """What a tuple costs, which was `cost` ns so far (0: nobody knew), after a batch of `count` that took `took_ns`.

    A heartbeat, which is none, says nothing, however long its windows take. What a batch costs beside its tuples is
    more than these in a small one. Of a small one is believed that a tuple costs no more than its part of it; and that
    it costs as much, if it took long: as tuples come that an instance keeps up with, all batches are small, while
    windows fill and each tuple meets more of them.

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
