"""Toll Processing: 100 segments, Zipf 0.2, three transactions an event. See `transacting`; and `tolls`."""

from __future__ import annotations

from headrace_bench import tolls
from headrace_bench.rows import Row
from headrace_bench.transacting import Goal, measure_workload

GOALS = (Goal(175, 1.7),)


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """M events/s by cost, scheme and threads, end to end, and compared with queries that need no transactions."""
    return [*measure_workload("tp", GOALS, full, tiny), *tolls.measure(full, tiny)]
