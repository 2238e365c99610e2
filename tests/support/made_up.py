"""An engine that does not exist: its measures, and snapshots of it.

No windows, no key mapping, no event time, no comparisons: batches of transactions
that wait for a punctuation, pass three stages, and may be rejected.
"""

from __future__ import annotations

import numpy as np

from headrace.metrics.history import History
from headrace.metrics.latency import LatencyHistogram
from headrace.metrics.measures import BUSY, NEEDED, Measure
from headrace.metrics.snapshot import Metrics, OperatorMetrics

OWN = (
    Measure(
        "rejected", "transactions", "Transactions that were rejected.", "counter", rate="rejected_per_s",
        label="rejected transactions",
    ),
    Measure("aborts", "attempts", "Attempts that were begun anew.", "counter", shown="column"),
    Measure("backlog", "tuples", "Tuples before each stage.", by="stage"),
    Measure("versions", "versions", "Versions held."),
    Measure("scheme", "scheme", "How conflicts are resolved.", "text"),
    Measure("wait", "ns", "Of events, for their punctuation.", "histogram", label="wait for the punctuation"),
    Measure("useful_ns", "ns", "Doing what was asked.", "counter", by="worker", part_of="work", label="useful"),
    Measure("lock_ns", "ns", "Waiting for locks.", "counter", by="worker", part_of="work", label="lock"),
)  # fmt: skip
MEASURES = (*NEEDED, BUSY, *OWN)


def snapshot(step: int, name: str = "transact", **changed) -> OperatorMetrics:
    """A snapshot after so many tenths of a second: 100 tuples in each, one in ten rejected, two of three workers active."""
    wait = LatencyHistogram()
    wait.add(np.repeat([1_000_000, 8_000_000], [199 * step, step]))
    values = {
        "added": 100 * step, "processed": 90 * step, "results": 90 * step,
        "busy_ns": [80_000_000 * step, 40_000_000 * step, 0],
        "rejected": 10 * step, "aborts": 3 * step, "backlog": [7, 2, step], "versions": 1_000 * step,
        "scheme": "chains" if step > 1 else None, "wait": wait.counts(),
        "useful_ns": [60_000_000 * step, 30_000_000 * step, 0], "lock_ns": [20_000_000 * step, 10_000_000 * step, 0],
    }  # fmt: skip
    return OperatorMetrics(name, 2, 3, [0, 1], 0.1 * step, None, MEASURES, values | changed)


class MadeUpRun:
    """What a Prometheus page, a report or a dashboard needs from a run."""

    def __init__(self, steps: int = 5):
        self.history = History(self.metrics)
        for self.step in range(1, steps + 1):
            self.history.sample()

    def metrics(self) -> Metrics:
        """Take a snapshot."""
        operator, at_ns = snapshot(self.step), 10**9 + 10**8 * self.step
        state = "running" if self.step < 5 else "finished"
        operators = {operator.name: operator}
        return Metrics(state, operator.seconds, operator.added, operator.results, at_ns=at_ns, operators=operators)
