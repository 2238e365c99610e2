"""Metrics that operators of every engine have; an engine adds its own values.

The books are read first, in the order that `gate_books` requires, and the workers' times after them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from headrace.metrics.balance import Balance
from headrace.metrics.by_worker import coefficient_of_variation
from headrace.metrics.measures import Measure
from headrace.metrics.snapshot import OperatorMetrics
from headrace.runtime.gate_books import Booked, take_balance, watermark_gaps
from headrace.runtime.sections import Moment
from headrace.workers import worker_kernel
from headrace.workers.spans import times


class Measured(Booked, Protocol):
    """What the metrics ask of an operator; see `headrace.runtime.collected_section.CollectedSection`."""

    name: str
    max_threads: int
    arrays: Any
    reconfiguration: Any
    collector: Any

    @property
    def results(self) -> int: ...
    def lost_wakeups(self) -> int: ...


class Taken(NamedTuple):
    """Counters as they were at one moment."""

    members: list[int]
    """Workers that are active."""
    processed: int
    balance: Balance | None
    counters: np.ndarray
    """int64[workers, ...], including the time so far in each worker's present state."""
    values: dict[str, Any]
    """By measure."""
    largest: dict[str, int]


def take(section: Measured, moment: Moment, members: list[int] | None = None) -> Taken:
    """Read the counters that every operator has; `members` are the active workers, by default 0 to threads - 1."""
    members = list(range(section.reconfiguration.current.threads)) if members is None else members
    is_stopped = bool(moment.until_ns) and not moment.is_finished
    added, processed, balance = take_balance(section, members, moment.is_finished, is_stopped)
    meter = times(section.arrays.meter, moment.until_ns)
    busy = meter[:, worker_kernel.BUSY_NS]
    gaps, holds_back = watermark_gaps(section.inlets)
    collector = section.collector
    latency, largest_ns = (collector.latency.counts(), collector.latency.largest_ns) if collector else (None, 0)
    values = {
        "processed": processed,
        "latency": latency,
        "added": added,
        "results": section.results,
        "imbalance_cv": coefficient_of_variation(busy[members]),
        "lost_wakeups": section.lost_wakeups(),
        "holds_back": holds_back,
        "watermark_gap": gaps,
        "load": (busy // 1_000).tolist(),
        "busy_ns": busy.tolist(),
        "idle_ns": meter[:, worker_kernel.IDLE_NS].tolist(),
        "blocked_ns": (meter[:, worker_kernel.ROOM_NS] + meter[:, worker_kernel.BARRIER_NS]).tolist(),
    }
    return Taken(members, processed, balance, meter, values, {"latency": largest_ns})


def snapshot(
    section: Measured, moment: Moment, taken: Taken, measures: Sequence[Measure], own: Mapping[str, Any],
    largest: Mapping[str, int] | None = None,
) -> OperatorMetrics:  # fmt: skip
    """Make a snapshot of these counters and the engine's own values."""
    return OperatorMetrics(
        section.name, len(taken.members), section.max_threads, taken.members, moment.seconds, taken.balance, measures,
        taken.values | dict(own), taken.largest | dict(largest or {}),
    )  # fmt: skip


__all__ = ["Measured", "Taken", "snapshot", "take"]
