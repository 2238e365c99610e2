"""From the workers' counters to a snapshot; `runtime.gate_books` says in which order what is compared is read."""

from __future__ import annotations

from typing import Any, Protocol

from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cells
from headrace.metrics.by_worker import coefficient_of_variation
from headrace.metrics.snapshot import OperatorMetrics
from headrace.runtime.gate_books import Booked, take_balance, watermark_gaps
from headrace.runtime.sections import Moment
from headrace.synchronization import words
from headrace.synchronization.measures import MEASURES
from headrace.workers import worker_kernel
from headrace.workers.spans import times


class Measured(Booked, Protocol):
    """What is asked of a program that runs; see `headrace.synchronization.section.ProgramSection`."""

    name: str
    max_threads: int
    states: Any
    control: Any
    layout: Any
    reconfiguration: Any
    collector: Any

    @property
    def results(self) -> int: ...
    def lost_wakeups(self) -> int: ...


def passed_by_queue(section: Measured) -> list[int]:
    """Events of each queue that are processed."""
    return read_cells(section.control.queue[words.PASSED :], words.QUEUE_CELLS * CELL)[: len(section.layout.queues)].tolist()


def counted_by_queue(section: Measured) -> list[int]:
    """Events of each queue so far."""
    return read_cells(section.control.queue[words.COUNTED :], words.QUEUE_CELLS * CELL)[: len(section.layout.queues)].tolist()


def measure(section: Measured, moment: Moment) -> OperatorMetrics:
    """Take a snapshot of a program."""
    control, collector, layout = section.control, section.collector, section.layout
    members = list(range(section.reconfiguration.current.threads))
    is_stopped = bool(moment.until_ns) and not moment.is_finished
    added, processed, balance = take_balance(section, members, moment.is_finished, is_stopped)
    meter = times(control.meter, moment.until_ns)
    busy = meter[:, worker_kernel.BUSY_NS]
    gaps, holds_back = watermark_gaps(section.inlets)
    latency, largest_ns = (collector.latency.counts(), collector.latency.largest_ns) if collector else (None, 0)
    work = read_cells(control.work, 1)
    names = layout.names
    backlog = [0] * len(names)
    for queue, passed, counted in zip(layout.queues, passed_by_queue(section), counted_by_queue(section), strict=True):
        backlog[queue.node] += max(0, counted - passed)

    def by_node(values: Any) -> dict[str, Any]:
        return dict(zip(names, values, strict=False))

    values = {
        "processed": processed,
        "latency": latency,
        "added": added,
        "results": section.results,
        "joins": int(work[:, words.JOINS].sum()),
        "forks": int(work[:, words.FORKS].sum()),
        "copied_bytes": int(work[:, words.COPIED].sum()),
        "spared_bytes": int(work[:, words.SPARED].sum()),
        "rests_in_vain": int(meter[:, words.RESTS_IN_VAIN].sum()),
        "imbalance_cv": coefficient_of_variation(busy[members]),
        "state_bytes": section.states.state_bytes(),
        "lost_wakeups": section.lost_wakeups(),
        "holds_back": holds_back,
        "watermark_gap": gaps,
        "load": (busy // 1_000).tolist(),
        "busy_ns": busy.tolist(),
        "idle_ns": meter[:, worker_kernel.IDLE_NS].tolist(),
        "blocked_ns": (meter[:, worker_kernel.ROOM_NS] + meter[:, worker_kernel.BARRIER_NS]).tolist(),
        "events": by_node(work[:, words.EVENTS].tolist()),
        "backlog": by_node(backlog),
        "node_time": by_node((work[:, words.SPENT_NS] // 1_000).tolist()),
    }
    return OperatorMetrics(
        section.name, len(members), section.max_threads, members, moment.seconds, balance, MEASURES, values,
        {"latency": largest_ns},
    )  # fmt: skip


__all__ = ["counted_by_queue", "measure", "passed_by_queue"]
