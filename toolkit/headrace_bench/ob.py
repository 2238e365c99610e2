"""Online Bidding: 10,000 items, Zipf 0.6, bids to alterations to additions 6:1:1, lists of 20. See `transacting`."""

from __future__ import annotations

from headrace_bench.rows import Row
from headrace_bench.transacting import Goal, measure_workload

GOALS = (Goal(175, 1.7),)


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """M events/s by cost, scheme and threads, and end to end."""
    return measure_workload("ob", GOALS, full, tiny)
