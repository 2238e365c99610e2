"""Another plan while a program runs: everything is joined, events that wait change their mailboxes, the new plan forks.

Order       R1, R2 everything is at rest (`holding`); R3 the plan, mailboxes and places of states are written; R4, R5
                    between R1 and R5 no leaf is READY, so no worker reads what R3 writes
            The events processed so far need not be a prefix in time, since independent tags are not
            ordered; they are closed under dependence, which is all that the rule asks.
Progress    A mailbox has room for so many runs. Where the new plan would need more, the old one goes on, and it is
            tried again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cells
from headrace.synchronization import control, words
from headrace.synchronization.holding import Holding
from headrace.synchronization.layout import Layout, lay_out
from headrace.synchronization.measuring import passed_by_input


class Replanned(Protocol):
    """What is asked of a program that runs; see `headrace.synchronization.section.ProgramSection`."""

    control: Any
    layout: Layout
    states: Any
    feeders: Any
    holding: Holding
    passed_before: int
    input_before: Any
    work_before: Any
    tags_by_input: Any

    def passed_rows(self) -> int: ...


def rows_waiting(c: control.PlanArrays, layout: Layout, number: int) -> np.ndarray:
    """int64[n]: rows of an input that are in mailboxes and that no node has processed, rising. While everything is at rest."""
    parts = [np.empty(0, np.int64)]
    for q in layout.queues_from(number):
        cell = q * words.QUEUE_CELLS * CELL
        head, tail, at = int(c.queue[cell + words.HEAD]), int(c.queue[cell + words.PENDING]), int(c.queue[cell + words.AT])
        for run in range(head, tail):
            place = (q * words.RUNS + (run & (words.RUNS - 1))) * words.RUN_WORDS
            first = int(c.runs[place + words.FIRST]) + (at if run == head else 0)
            parts.append(np.arange(first, int(c.runs[place + words.END])))
    return np.sort(np.concatenate(parts))


class Replanning:
    """Changes the plan of a section."""

    def __init__(self, section: Replanned):
        self._section = section
        self._next: tuple[Any, Layout] | None = None
        """The plan that is asked for, laid out: not while everything is at rest."""

    def change(
        self, plan: Any, is_wanted: Callable[[], bool] = lambda: True, then: Callable[[], None] = lambda: None
    ) -> bool:
        """Let a valid plan be in force. False if not everything is at rest yet: ask again.

        Parameters
        ----------
        plan : Plan
        is_wanted : callable
            Asked before anything is written: of a planned change the end of the input may have come first.
        then : callable
            What belongs to the change; while no worker can find that the input is over.
        """
        section, holding = self._section, self._section.holding
        if holding.is_over:  # nothing is left that the plan could process
            self._next = None
            holding.let_go(self)
            return True
        if self._next is None or self._next[0] is not plan:
            self._next = plan, lay_out(plan, section.states.bound.program, section.tags_by_input)
        layout = self._next[1]
        if not holding.ask(self):  # R1
            return False
        with holding.at_rest(section.feeders):  # R2, R4
            if not is_wanted():
                done = True
            elif done := self._write(layout):  # R3
                then()
        holding.let_go(self)  # R5
        if done:
            self._next = None
        return done

    def _write(self, layout: Layout) -> bool:
        section = self._section
        waiting = [rows_waiting(section.control, section.layout, number) for number in range(len(section.feeders))]
        runs = [self._runs(number, rows, layout) for number, rows in enumerate(waiting)]
        if any(len(own) > words.RUNS for each in runs for own in each.values()):
            return False
        section.passed_before += section.passed_rows()
        section.input_before = passed_by_input(section)
        root = len(section.layout.places) - 1
        control.write_plan(section.control, layout, list(section.states.bound.program.tags), section.states.bound.by_entry)
        section.states.write_plan(layout)
        section.states.move(root, len(layout.places) - 1)
        section.work_before = read_cells(section.control.work, 1)
        section.layout = layout
        for number, (inlet, each) in enumerate(zip(section.feeders, runs, strict=True)):
            inlet.redirect(np.array(layout.routes[number], np.int32))
            for queue, own in each.items():
                self._fill(number, queue, own)
        return True

    def _runs(self, number: int, rows: np.ndarray, layout: Layout) -> dict[int, np.ndarray]:
        """By new queue, its runs: int64[n, 2] of first rows and ends."""
        queues = np.array(layout.routes[number], np.int64)[self._section.feeders[number].tags_of(rows)]
        begins = np.flatnonzero((np.diff(rows, prepend=-2) != 1) | (np.diff(queues, prepend=-1) != 0))
        firsts, lasts = rows[begins], rows[np.append(begins[1:], len(rows))[: len(begins)] - 1] if len(rows) else rows
        return {int(q): np.stack([firsts, lasts + 1], axis=1)[queues[begins] == q] for q in np.unique(queues)}

    def _fill(self, number: int, queue: int, own: np.ndarray) -> None:
        """Put runs into an empty mailbox."""
        c, store, now = self._section.control, self._section.feeders[number].store, time.monotonic_ns()
        for run, (first, end) in enumerate(own.tolist()):
            place = (queue * words.RUNS + run) * words.RUN_WORDS
            c.runs[place : place + words.RUN_WORDS] = first, end, store.ts_of(first), now
        cell = queue * words.QUEUE_CELLS * CELL
        c.queue[cell + words.TAIL] = c.queue[cell + words.PENDING] = len(own)
        c.queue[cell + words.COUNTED] = int((own[:, 1] - own[:, 0]).sum())


__all__ = ["Replanning", "rows_waiting"]
