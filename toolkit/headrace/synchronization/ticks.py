"""Ticks: events of periodic tags, generated at the end of each slice of event time in which some input had a row.

They have inputs of their own, before all others in the order of events, so that a tick comes before other events of its ts.
The threads that give the rows give the ticks too, in between.

State       due       boundaries of slices that have had a row, and whose tick is not yet given
            held      ticks in the store; those from `at` on are in no mailbox yet
            promised  no later tick is earlier: FRONTIER of the input
Invariants  T1  a row's slice is due before the row is published
            T2  a tick is given when every input's FRONTIER is at it or beyond: no row of its slice will follow, and all
                of its rows are published, so by T1 all slices up to it are due
            T3  the next tick is beyond the smallest FRONTIER, at the end of its slice at the earliest: this is promised
Again       A run that goes on from a checkpoint reads its inputs from the beginning, so all slices are due again, and
            ticks have the same numbers as before; processed ticks are passed over, as rows are (`resuming`).
Progress    No tick in a mailbox is beyond an input's FRONTIER (T2), so the tick of smallest rank waits only for events that
            are in mailboxes, and there will be room. An input that finds no room gives no rows before its ticks have room.
            Open: a live input that falls silent with more ticks held than a mailbox has room for gives them when it
            speaks again, or another one does.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from headrace.ingress.store import Store
from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cell
from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.synchronization import mailbox_kernel, words
from headrace.synchronization.arrays import PlanArrays
from headrace.synchronization.entrance import Entrance
from headrace.synchronization.resuming import Reread


class TickInput:
    """The input of one periodic tag.

    Parameters
    ----------
    arrays : PlanArrays
    number : int
        Of the input.
    width : int
        Of a slice, in the inputs' time unit.
    store : Store
        With the columns of ticks, if they are read.
    heartbeat : int
        Ticks between two publications.
    stop_word : int64[...]
    """

    def __init__(
        self, arrays: PlanArrays, number: int, width: int, store: Store, heartbeat: int, stop_word: np.ndarray
    ):
        self.number, self.width, self.store = number, width, store
        self.entrance = Entrance()
        """Ticks are given inside it; a change of the plan closes it."""
        self.promised = MIN_TIME
        self.is_waiting = False
        """Whether ticks are held that no mailbox had room for."""
        self._arrays, self._heartbeat, self._stop_word = arrays, heartbeat, stop_word
        self.reread: Reread | None = None
        """In a run that takes checkpoints or goes on from one: which of the ticks that are given again are processed."""
        self._due: set[int] = set()
        self._held, self._at, self._first_row = np.zeros(0, np.int64), 0, 0
        self._queue = 0

    @property
    def came(self) -> np.ndarray:
        """int64[1]: ticks that are, or were, in mailboxes."""
        passed_over = 0 if self.reread is None else self.reread.passed_over
        return np.array([self._first_row + self._at - passed_over], np.int64)

    def redirect(self, queues: np.ndarray) -> None:
        """Send later ticks where another plan has them. Called with the entrance closed."""
        self._queue = int(queues[0])

    def tags_of(self, rows: np.ndarray) -> np.ndarray:
        """int64[n]: all are of one implementation tag."""
        return np.zeros(len(rows), np.int64)

    @property
    def tag_column(self) -> int:
        """As of `MailboxInlet`."""
        return -1

    def note(self, ts: np.ndarray) -> None:
        """Rows will come at these times, which do not go back."""
        first, last = int(ts[0]) // self.width, int(ts[-1]) // self.width
        if first == last:
            self._due.add((first + 1) * self.width)
            return
        slices = ts // self.width
        begins = np.flatnonzero(np.diff(slices, prepend=first - 1))
        self._due.update(((slices[begins] + 1) * self.width).tolist())

    def give(self, reached: int, patient: bool) -> bool:
        """Give the ticks that are due when no row before `reached` will follow; False if there was no room for some."""
        with self.entrance:
            if self._at == len(self._held):
                ready = sorted(ts for ts in self._due if ts <= reached)  # T2
                self._due.difference_update(ready)
                self._held, self._at = np.array(ready, np.int64), 0
                self.store.release_rows(mailbox_kernel.first_kept(self._arrays, self.number))  # K2 of `mailbox_kernel`
                self._first_row = self.store.append(self._held, None, None, self._columns(), None)
            while self._at < len(self._held):
                taken = self._add(patient)
                self._at += taken
                if taken == 0:
                    break
            self.is_waiting = self._at < len(self._held)
            if not self.is_waiting:
                self.promised = min(END_OF_TIME, (reached // self.width + 1) * self.width)  # T3
                mailbox_kernel.promise(self._arrays, self.number, self.promised)
            return not self.is_waiting

    def _columns(self) -> dict[str, tuple[np.ndarray, None]]:
        return {name: (np.full(len(self._held), self.width), None) for name in self.store.names}

    def _add(self, patient: bool) -> int:
        count, at = len(self._held) - self._at, self._at
        queues = np.full(len(self._held), self._queue, np.int32)
        if self.reread is not None:
            queues[self.reread.before.processed_of(self._first_row, self._first_row + len(queues))] = -1
        rows = (self._held, queues, at, count, self._first_row + at)
        if patient:
            taken = mailbox_kernel.add_or_wait(self._arrays, self.number, *rows, self._heartbeat, self._stop_word)
        else:
            taken = mailbox_kernel.add(self._arrays, self.number, *rows, self._heartbeat)
        if self.reread is not None:
            self.reread.passed_over += int(np.count_nonzero(queues[at : at + taken] < 0))
        return taken


class Ticker:
    """Gives the ticks of all periodic tags of a program; used by the inputs that bring rows.

    Parameters
    ----------
    arrays : PlanArrays
    ticks : sequence of TickInput
    numbers : sequence of int
        Of the inputs that bring rows.
    stop_word : int64[...]
        Word 0 is not 0 once no thread may wait any more.
    """

    def __init__(self, arrays: PlanArrays, ticks: Sequence[TickInput], numbers: Sequence[int], stop_word: np.ndarray):
        self._arrays, self._ticks, self._stop_word = arrays, ticks, stop_word
        self._frontiers = [number * words.INPUT_CELLS * CELL + words.FRONTIER for number in numbers]
        self._lock = threading.Lock()

    def note(self, ts: np.ndarray) -> None:
        """Rows at these times, which do not go back, will be published from now on."""
        if len(ts):
            with self._lock:
                for one in self._ticks:
                    one.note(ts)  # T1

    def advance(self, patient: bool) -> bool:
        """Give the ticks that are due, after an input went on; False if there was no room for some: call again."""
        while True:
            if not any(one.is_waiting or one.promised <= self._reached() for one in self._ticks):
                return True  # an input that goes on later asks again
            with self._lock:
                reached = self._reached()
                given = [reached == MIN_TIME or one.give(reached, patient) for one in self._ticks]  # each, as far as it has room
            is_done = all(given)
            if is_done or not patient or read_cell(self._stop_word, 0):
                return is_done

    def _reached(self) -> int:
        """The smallest FRONTIER of all inputs: no later row is earlier."""
        return min(read_cell(self._arrays.input, frontier) for frontier in self._frontiers)


__all__ = ["TickInput", "Ticker"]
