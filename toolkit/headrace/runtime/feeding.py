"""Feeding one inlet, in order: applying steps, encoding, pacing, and waiting for room.

Used by the threads of a source and by the operator upstream: a caller of `write`,
`progress` and `close` waits while the inlet is full (back-pressure). A thread that
serves many inlets proceeds in small steps instead (`feeding`, a generator).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.memory.cells import read_cell
from headrace.metrics.sources import BLOCKED, FEEDING, PACED
from headrace.plan.nodes import SourceNode
from headrace.plan.steps import narrowed
from headrace.rates import RateSchedule
from headrace.runtime.inlets import Inlet
from headrace.runtime.player import Player

_PACE_WAIT_S = 0.02
_RETRY_S = 500e-6
"""How long a thread that feeds many inlets leaves one that has no room."""


class Stopped(Exception):
    """Ends a helper thread of a run that is stopping."""


class Feeder:
    """The way into one inlet.

    Parameters
    ----------
    inlet : Inlet
    stop_word : int64[...]
        Word 0 is not 0 once the run is over.
    player : Player
    debug : bool
        As of `start`.

    Attributes
    ----------
    steps : tuple of Step
        Those of the branch, without what the inlet does not read.
    columns_read : frozenset of str or None
        The columns of the branch's origin that it takes to apply them, or without steps those that the inlet reads; None: all.
    """

    def __init__(self, inlet: Inlet, stop_word: np.ndarray, player: Player, debug: bool):
        self.inlet, self.books = inlet, inlet.books
        self.steps, self.columns_read = narrowed(inlet.branch.steps, inlet.columns_used)
        self.player = player
        self._known = 0
        """Rows added so far that no schedule has paced."""
        self._steps, self._stop_word = [step.for_run(stop_word, debug) for step in self.steps], stop_word
        self.books.behind, self.books.lag_s = self._behind, self._lag_s
        self.books.rate = lambda: player.rate

    # -- as the consumer of an operator's results

    def write(self, batch: pa.RecordBatch) -> None:
        """Take an ordered batch; blocks while the inlet is full."""
        for piece in self.encode(batch):
            self.feed(piece)

    def progress(self, watermark: int) -> None:
        """Nothing with ts <= `watermark` will follow."""
        self.promise(watermark + 1)

    def close(self) -> None:
        """End of this input."""
        for _ in self.closing(patient=True):
            pass

    # -- pace

    def play(self, schedule: RateSchedule | None) -> None:
        """Follow another schedule from now on."""
        self.player.play(schedule, self._paced)

    @property
    def _paced(self) -> int:
        """Rows added so far that count for the schedule: all but those that an earlier run processed."""
        return self.books.added - self._known

    # -- pieces

    def encode(self, batch: pa.RecordBatch, ts: np.ndarray | None = None) -> Iterable[Any]:
        """Apply the branch's steps and encode."""
        return self.encode_applied(batch.num_rows, self.apply(batch), None if self._steps else ts)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Apply the branch's steps. Any thread."""
        for step in self._steps:
            batch = step.apply(batch)
        return batch

    @property
    def has_free_steps(self) -> bool:
        """Whether any thread may apply the steps of this source: so where lateness is decided before the steps."""
        origin = self.inlet.branch.origin
        return bool(self.inlet.branch.steps) and isinstance(origin, SourceNode) and origin.idle_after is None

    def encode_applied(self, rows: int, batch: pa.RecordBatch, ts: np.ndarray | None = None) -> Iterable[Any]:
        """Encode `batch`, which the steps made of `rows` rows."""
        # flat_map may give more than it takes
        self.books.filtered += max(0, rows - batch.num_rows)
        self.books.gained += max(0, batch.num_rows - rows)
        return self.inlet.encode(batch, ts)

    def feed(self, piece: Any) -> None:
        """Give a piece to the inlet; blocks while the inlet is full."""
        for wait_s in self.feeding(piece, patient=True):
            if wait_s:
                time.sleep(wait_s)

    def promise(self, ts: int) -> None:
        """Promise that no later tuple is earlier than `ts`; blocks while the inlet cannot note that."""
        for _ in self.promising(ts, patient=True):
            pass

    # -- the same in steps: each yields the seconds to wait before the next, 0 to go on at once

    def feeding(self, piece: Any, patient: bool) -> Iterator[float]:
        """Give a piece to the inlet. A patient caller sleeps here; an impatient one is given the seconds to wait."""
        inlet, books, spent, count, done = self.inlet, self.books, self.books.spent, len(piece), 0
        inlet.hold(piece)
        if books.first_ts is None and count:
            books.first_ts = int(piece.ts[0])
        self.player.begin()
        while done < count:
            known = books.known(done)
            due, wait_s = (known, 0.0) if known else self.player.due(self._paced, piece.ts, done)
            if due <= 0:
                spent.turn(PACED)
                self._check_goes_on()
                yield min(_PACE_WAIT_S, max(self.player.rest_s, wait_s))
                continue
            books.adding = due
            taken = inlet.offer(piece.ts, done, done + due, False)
            if taken == 0:
                spent.turn(BLOCKED)
                if patient:
                    taken = inlet.offer(piece.ts, done, done + due, True)
            else:
                spent.turn(FEEDING)
            done += taken
            self._known += taken if known else 0
            books.added += taken
            books.adding = 0
            if taken == 0:
                self._check_goes_on()
                yield 0.0 if patient else _RETRY_S
        spent.turn(FEEDING)

    def promising(self, ts: int, patient: bool) -> Iterator[float]:
        """Promise that no later tuple is earlier than `ts`."""
        while not self.inlet.promise(ts, patient):
            self.books.spent.turn(BLOCKED)
            self._check_goes_on()
            yield 0.0 if patient else _RETRY_S

    def closing(self, patient: bool) -> Iterator[float]:
        """End this input."""
        self.books.closed_at = self.inlet.mark
        while not self.inlet.close(patient):
            self._check_goes_on()
            yield 0.0 if patient else _RETRY_S

    def _behind(self, at_s: float | None) -> int:
        return 0 if self._is_closed else self.player.behind(self._paced, at_s)

    def _lag_s(self, at_s: float | None) -> float:
        lag_s = self.player.lag_s(self._paced, at_s)
        return 0.0 if self._is_closed and lag_s > 0 else lag_s

    @property
    def _is_closed(self) -> bool:
        """Whether its source has given its last tuple, so that nothing is due any more."""
        return self.books.closed_at is not None

    def _check_goes_on(self) -> None:
        if read_cell(self._stop_word, 0):
            raise Stopped
