"""The Streaming Ledger: 10,000 accounts and assets, Zipf 0.6, half of the events transfers, 1 % rejected. See `transacting`."""

from __future__ import annotations

from headrace_bench.rows import Row
from headrace_bench.transacting import Goal, measure_workload

GOALS = (Goal(0, events_per_s=15.0), Goal(175, 1.7))


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """M events/s by cost, scheme and threads, and end to end."""
    return measure_workload("sl", GOALS, full, tiny)
