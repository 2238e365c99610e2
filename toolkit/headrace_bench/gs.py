"""Grep and Sum: 10,000 records, Zipf 0.6, ten operations an event, half of the events read. See `transacting`."""

from __future__ import annotations

from headrace_bench.rows import Row
from headrace_bench.transacting import Goal, measure_workload

GOALS = (Goal(0, 0.8), Goal(30, 1.4), Goal(175, 1.85))


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """M events/s by cost, scheme and threads, and end to end."""
    return measure_workload("gs", GOALS, full, tiny)
