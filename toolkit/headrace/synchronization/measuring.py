"""Turns the workers' counters into a snapshot; `runtime.worker_measures` has what all engines count alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cells
from headrace.metrics.snapshot import OperatorMetrics
from headrace.runtime import worker_measures
from headrace.runtime.sections import Moment
from headrace.synchronization import words
from headrace.synchronization.measures import MEASURES
from headrace.synchronization.tags import ImplementationTag
from headrace.synchronization.waiting import waits


class Measured(worker_measures.Measured, Protocol):
    """What `measure` needs of a running program; see `headrace.synchronization.section.ProgramSection`."""

    states: Any
    layout: Any
    feeders: Any
    work_before: Any
    input_before: Any
    tag_counts: Any


def passed_by_queue(section: Measured) -> list[int]:
    """Events of each queue that are processed."""
    return read_cells(section.arrays.queue[words.PASSED :], words.QUEUE_CELLS * CELL)[: len(section.layout.queues)].tolist()


def counted_by_queue(section: Measured) -> list[int]:
    """Events of each queue so far."""
    return read_cells(section.arrays.queue[words.COUNTED :], words.QUEUE_CELLS * CELL)[: len(section.layout.queues)].tolist()


class TagCounts:
    """Counts the events of each implementation tag that were processed.

    Workers count by mailbox, which has the events of all implementation tags of one name that a node owns from one input. A
    count is divided among an input's tags in the proportions in which their events came since the last look. Inputs run ahead
    of each other by as much as mailboxes hold, so what came says nothing of how much comes in a second of stream.

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
        """Take what came of each input's tags, and what is processed of each input, since the start; return the counts."""
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
    taken = worker_measures.take(section, moment)
    arrays, meter, layout = section.arrays, taken.counters, section.layout
    work = read_cells(arrays.work, 1)
    names = layout.names
    backlog = [0] * len(names)
    for queue, passed, counted in zip(layout.queues, passed_by_queue(section), counted_by_queue(section), strict=True):
        backlog[queue.node] += max(0, counted - passed)

    under_plan = work - section.work_before

    def by_node(values: Any) -> dict[str, Any]:
        return dict(zip(names, values, strict=False))

    values = {
        "joins": int(work[:, words.JOINS].sum()),
        "forks": int(work[:, words.FORKS].sum()),
        "stays": int(work[:, words.STAYED].sum()),
        "copied_bytes": int(work[:, words.COPIED].sum()),
        "spared_bytes": int(work[:, words.SPARED].sum()),
        "rests_in_vain": int(meter[:, words.RESTS_IN_VAIN].sum()),
        "state_bytes": section.states.state_bytes(),
        "events": by_node(under_plan[:, words.EVENTS].tolist()),
        "backlog": by_node(backlog),
        "node_time": by_node((under_plan[:, words.SPENT_NS] // 1_000).tolist()),
        "node_joins": by_node(under_plan[:, words.JOINS].tolist()),
        "node_stays": by_node(under_plan[:, words.STAYED].tolist()),
        "waits_for": by_node(waits(arrays, layout, [inlet.store for inlet in section.feeders])),
        "tag_events": section.tag_counts.look([inlet.came for inlet in section.feeders], passed_by_input(section)),
    }
    return worker_measures.snapshot(section, moment, taken, MEASURES, values)


__all__ = ["TagCounts", "counted_by_queue", "measure", "passed_by_input", "passed_by_queue"]
