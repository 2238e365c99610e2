"""The inlet of a program: rows are encoded, stored, and put into mailboxes by implementation tag."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headrace.ingress.encode import EncodedBatch, Encoder
from headrace.ingress.store import Store
from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cell
from headrace.plan.nodes import Branch
from headrace.progress import END_OF_TIME
from headrace.runtime.gate_inlet import GateInlet, GateSource
from headrace.synchronization import mailbox_kernel, words
from headrace.synchronization.arrays import PlanArrays
from headrace.synchronization.entrance import Entrance
from headrace.synchronization.inputs import Router
from headrace.synchronization.resuming import Reread
from headrace.synchronization.ticks import Ticker

TAGS = "\0tags"
"""The store's column of implementation tags, where an input has several; no input has a column of this name."""


class MailboxInlet(GateInlet):
    """One input of a program: a `headrace.runtime.inlets.Inlet`.

    Parameters
    ----------
    branch : Branch
    arrays : PlanArrays
    number : int
    store : Store
    router : Router
    make_encoder : callable
        As of `GateInlet`.
    heartbeat : int
        Rows between two publications.
    has_heartbeats : bool
        Whether it also says how far it is without giving a row.
    stop_word : int64[...]
    ticker : Ticker or None
        Of a program with periodic tags.
    """

    def __init__(
        self,
        branch: Branch,
        arrays: PlanArrays,
        number: int,
        store: Store,
        router: Router,
        make_encoder: Callable[[Callable[[list[int]], bool]], Encoder],
        heartbeat: int,
        has_heartbeats: bool,
        stop_word: np.ndarray,
        ticker: Ticker | None = None,
    ):
        source = GateSource(arrays, mailbox_kernel, number, stop_word)
        super().__init__(branch, source, store, make_encoder, lambda: self.books.added, lambda ids: None)
        self._arrays, self._router, self._heartbeat, self._stop_word = arrays, router, heartbeat, stop_word
        self._has_heartbeats, self._ticker = has_heartbeats, ticker
        self.entrance = Entrance()
        """Rows are given inside it; a change of the plan closes it."""
        self.queues = np.zeros(0, np.int32)
        """int32[k]: queue of each of the input's implementation tags."""
        self.came = np.zeros(router.tags, np.int64)
        """int64[k]: rows of each of them that are, or were, in mailboxes; replaced as a whole."""
        self.reread: Reread | None = None
        """What it reads again, where the run takes checkpoints or goes on from one."""
        self._tags = np.zeros(0, np.int64)
        self._processed: np.ndarray | None = None
        self._held_queues: np.ndarray | None = None

    def hold(self, piece: EncodedBatch) -> None:
        """Store rows with the implementation tag of each, since they may wait longer than a plan is in force."""
        self._tags = self._router.route(piece.columns, len(piece.ts))
        if TAGS in self.store.names:
            piece.columns[TAGS] = self._tags, None
        if self.reread is not None:
            self._processed = self.reread.meet(piece.ts, piece.columns)
        with self.entrance:
            kept = mailbox_kernel.first_kept(self._arrays, self.number)
        self.store.release_rows(kept)  # K2
        super().hold(piece)
        self._held_queues = None
        if self._ticker is not None:
            self._ticker.note(piece.ts)

    def read_again(self, reread: Reread) -> None:
        """Read rows again that an earlier run has processed: they are counted and passed over."""
        self.reread = reread
        self.books.known = self._known

    def _known(self, start: int) -> int:
        """How many successive rows of the held piece, from `start` on, are processed."""
        if self._processed is None or not self._processed[start]:
            return 0
        rest = self._processed[start:]
        return int(np.argmin(rest)) or len(rest)

    def offer(self, ts: np.ndarray, start: int, stop: int, patient: bool) -> int:
        """Put rows of the held piece into mailboxes; returns how many there was room for."""
        if self._ticker is not None and not self._ticker.advance(patient):
            return 0
        taken = self._add(ts, start, stop, patient)
        if self.reread is not None and self._processed is not None:
            self.reread.passed_over += int(np.count_nonzero(self._processed[start : start + taken]))
        if self._ticker is not None:
            self._ticker.advance(False)
        return taken

    def _add(self, ts: np.ndarray, start: int, stop: int, patient: bool) -> int:
        with self.entrance:
            if self._held_queues is None:
                self._held_queues = self.queues[self._tags].astype(np.int32)
                if self._processed is not None:
                    self._held_queues[self._processed] = -1
            rows = (ts, self._held_queues, start, stop - start, self._first_row + start)
            if patient:
                taken = mailbox_kernel.add_or_wait(self._arrays, self.number, *rows, self._heartbeat, self._stop_word)
            else:
                taken = mailbox_kernel.add(self._arrays, self.number, *rows, self._heartbeat)
        if taken:
            came = self._tags[start : start + taken]
            if self._processed is not None:
                came = came[~self._processed[start : start + taken]]
            self.came = self.came + np.bincount(came, minlength=len(self.came))
        return taken

    def promise(self, ts: int, patient: bool) -> bool:
        """No later row will be earlier than `ts`: a heartbeat, unless it is the end."""
        if not self._has_heartbeats and ts < END_OF_TIME:
            return True
        with self.entrance:
            is_noted = bool(mailbox_kernel.promise(self._arrays, self.number, ts))
        return is_noted and (self._ticker is None or self._ticker.advance(patient))

    def close(self, patient: bool) -> bool:
        """No row will follow."""
        if self.reread is not None:
            self.reread.end()
        return self.promise(END_OF_TIME, patient)

    def tags_of(self, rows: np.ndarray) -> np.ndarray:
        """int64[n]: for kept rows, the numbers of their tags among the input's implementation tags."""
        return self.store.column(TAGS, rows)[0] if TAGS in self.store.names else np.zeros(len(rows), np.int64)

    @property
    def tag_column(self) -> int:
        """Where the store has those numbers; -1 if there is one tag."""
        return self.store.names.index(TAGS) if TAGS in self.store.names else -1

    @property
    def mark(self) -> int:
        """The promise in force."""
        return read_cell(self._arrays.input, self.number * words.INPUT_CELLS * CELL + words.FRONTIER)

    def redirect(self, queues: np.ndarray) -> None:
        """Send later rows where another plan has them. Called with the entrance closed."""
        self.queues, self._held_queues = queues, None


__all__ = ["MailboxInlet"]
