"""Changes the plan of a running program: everything is joined, waiting events change mailboxes, the new plan forks.

Order       R1, R2 everything is at rest (`holding`); R3 the plan, mailboxes and places of states are written; R4, R5
                    between R1 and R5 no leaf is READY, so no worker reads what R3 writes
            The events processed so far need not be a prefix in time, since independent tags are not
            ordered; they are closed under dependence, which is all that the rule requires.
Progress    A mailbox has room for RUNS runs. If the new plan would need more, the old one stays in force, and the change
            is tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from headrace.ingress.store import chunk_of
from headrace.kernel import compile_now
from headrace.memory.cells import read_cells
from headrace.synchronization import arrays, dealing_kernel, words
from headrace.synchronization.holding import Holding
from headrace.synchronization.layout import Layout, lay_out, write_plan
from headrace.synchronization.measuring import passed_by_input


class Replanned(Protocol):
    """What `Replanning` needs of a running program; see `headrace.synchronization.section.ProgramSection`."""

    arrays: Any
    layout: Layout
    states: Any
    feeders: Any
    holding: Holding
    passed_before: int
    input_before: Any
    work_before: Any
    tags_by_input: Any
    directories: Any

    def passed_rows(self) -> int: ...


def waiting(c: arrays.PlanArrays, x: np.ndarray, number: int) -> np.ndarray:
    """int64[n, RUN_WORDS]: runs of an input in mailboxes, of rows that no node has processed, rising. Called while everything
    is at rest."""
    runs = np.empty((dealing_kernel.runs_waiting(c, number), words.RUN_WORDS), np.int64)
    dealing_kernel.copy_waiting(c, x, number, runs)
    return runs[np.argsort(runs[:, words.FIRST], kind="stable")]


class Replanning:
    """Changes the plan of a section."""

    def __init__(self, section: Replanned):
        self._section = section
        self._next: tuple[Any, Layout] | None = None
        """The plan asked for, and its layout, which is made before everything is at rest."""

    def compile(self) -> None:
        """Compile what is called while the stream runs."""
        c, x, zero = self._section.arrays, self._section.directories, 0
        runs, dealt = (np.empty((0, width), np.int64) for width in (words.RUN_WORDS, dealing_kernel.DEALT_WORDS))
        for function, arguments in (
            (dealing_kernel.runs_waiting, (c, zero)),
            (dealing_kernel.copy_waiting, (c, x, zero, runs)),
            (dealing_kernel.deal, (c, x, zero, runs, np.empty(0, np.int64), zero, dealt)),
            (dealing_kernel.put, (c, dealt)),
        ):
            compile_now(function, arguments)

    def change(
        self, plan: Any, is_wanted: Callable[[], bool] = lambda: True, then: Callable[[], None] = lambda: None
    ) -> bool:
        """Put a valid plan into force. False if not everything is at rest yet: call again.

        Parameters
        ----------
        plan : Plan
        is_wanted : callable
            Asked before anything is written: the end of the input may have come before a planned change.
        then : callable
            The rest of the change; called while no worker can find that the input is over.
        """
        section, holding = self._section, self._section.holding
        if holding.is_over:  # nothing is left that the plan could process
            self._next = None
            holding.let_go(self)
            return True
        if self._next is None or self._next[0] is not plan:
            self._next = plan, lay_out(plan, section.states.bound.program, section.tags_by_input)
        layout = self._next[1]
        holding.close(section.feeders)  # before R1: rows given meanwhile would only delay this thread
        if not holding.ask(self):  # R1
            holding.open(section.feeders)
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
        dealt = [self._deal(number, layout) for number in range(len(section.feeders))]
        if any(len(own) > words.RUNS and np.bincount(own[:, dealing_kernel.QUEUE]).max() > words.RUNS for own in dealt):
            return False
        section.passed_before += section.passed_rows()
        section.input_before = passed_by_input(section)
        root = len(section.layout.places) - 1
        bound = section.states.bound
        write_plan(section.arrays, layout, list(bound.program.tags), bound.by_entry, bound.may_stay_joined)
        section.states.write_plan(layout)
        section.states.move(root, len(layout.places) - 1)
        section.work_before = read_cells(section.arrays.work, 1)
        section.layout = layout
        for inlet, route, own in zip(section.feeders, layout.routes, dealt, strict=True):
            inlet.redirect(np.array(route, np.int32))
            dealing_kernel.put(section.arrays, own)
        return True

    def _deal(self, number: int, layout: Layout) -> np.ndarray:
        """int64[n, DEALT_WORDS]: the waiting runs of an input, dealt out to the mailboxes of a plan."""
        section = self._section
        c, x, column = section.arrays, section.directories, section.feeders[number].tag_column
        runs = waiting(c, x, number)
        if not len(runs):
            return np.empty((0, dealing_kernel.DEALT_WORDS), np.int64)
        first, end = runs[:, words.FIRST], runs[:, words.END]
        most = end - first if column >= 0 else chunk_of(end - 1) - chunk_of(first) + 1
        dealt = np.empty((int(most.sum()), dealing_kernel.DEALT_WORDS), np.int64)
        count = dealing_kernel.deal(c, x, number, runs, np.array(layout.routes[number], np.int64), column, dealt)
        return dealt[:count]


__all__ = ["Replanning", "waiting"]
