"""From the workers' counters to a snapshot; `runtime.gate_books` says in which order what is compared is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cells
from headrace.metrics.by_worker import coefficient_of_variation
from headrace.metrics.snapshot import OperatorMetrics
from headrace.runtime.gate_books import Booked, take_balance, watermark_gaps
from headrace.runtime.sections import Moment
from headrace.synchronization import words
from headrace.synchronization.measures import MEASURES
from headrace.synchronization.tags import ImplementationTag
from headrace.synchronization.waiting import waits
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
    feeders: Any
    work_before: Any
    input_before: Any
    tag_counts: Any

    @property
    def results(self) -> int: ...
    def lost_wakeups(self) -> int: ...


def passed_by_queue(section: Measured) -> list[int]:
    """Events of each queue that are processed."""
    return read_cells(section.control.queue[words.PASSED :], words.QUEUE_CELLS * CELL)[: len(section.layout.queues)].tolist()


def counted_by_queue(section: Measured) -> list[int]:
    """Events of each queue so far."""
    return read_cells(section.control.queue[words.COUNTED :], words.QUEUE_CELLS * CELL)[: len(section.layout.queues)].tolist()


class TagCounts:
    """Counts the events of each implementation tag that were processed.

    Workers count by mailbox, which has all tags' events of one input that a node owns under one name; among the tags of an
    input they are shared out as they came since the look before. Inputs run ahead of each other, by as much as mailboxes
    hold: what came is no measure of what comes in a second of stream.

    Parameters
    ----------
    tags : sequence of ImplementationTag
        All there are.
    by_input : sequence of sequence of ImplementationTag
        Of each input those that its rows may have.
    """

    def __init__(self, tags: Sequence[ImplementationTag], by_input: Sequence[Sequence[ImplementationTag]]):
        number = {tag: i for i, tag in enumerate(tags)}
        self._places = [np.array([number[tag] for tag in own], np.int64) for own in by_input]
        self._came = [np.zeros(len(own), np.int64) for own in by_input]
        self._passed = np.zeros(len(by_input), np.int64)
        self._total = np.zeros(len(tags))

    def look(self, came: Sequence[np.ndarray], passed: np.ndarray) -> list[int]:
        """Take what came of each input's tags and what is processed of each input, since the start; return the counts."""
        for i, places in enumerate(self._places):
            grown = came[i] - self._came[i]
            shares = grown if grown.any() else came[i]
            if shares.any():
                np.add.at(self._total, places, (passed[i] - self._passed[i]) * shares / shares.sum())
        self._came, self._passed = list(came), passed
        return np.rint(self._total).astype(np.int64).tolist()


def passed_by_input(section: Measured) -> np.ndarray:
    """int64[inputs]: events of each that are processed."""
    found = section.input_before.copy()
    for queue, passed in zip(section.layout.queues, passed_by_queue(section), strict=True):
        found[queue.input] += passed
    return found


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

    under_plan = work - section.work_before

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
        "events": by_node(under_plan[:, words.EVENTS].tolist()),
        "backlog": by_node(backlog),
        "node_time": by_node((under_plan[:, words.SPENT_NS] // 1_000).tolist()),
        "node_joins": by_node(under_plan[:, words.JOINS].tolist()),
        "waits_for": by_node(waits(control, layout, [inlet.store for inlet in section.feeders])),
        "tag_events": section.tag_counts.look([inlet.came for inlet in section.feeders], passed_by_input(section)),
    }
    return OperatorMetrics(
        section.name, len(members), section.max_threads, members, moment.seconds, balance, MEASURES, values,
        {"latency": largest_ns},
    )  # fmt: skip


__all__ = ["TagCounts", "counted_by_queue", "measure", "passed_by_input", "passed_by_queue"]
