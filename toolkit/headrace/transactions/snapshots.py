"""Snapshots that a run takes regularly: every so many events, or at intervals of time.

Snapshots by count are as of exact positions: a punctuation is placed there, and the leader rests (`phases_kernel.hold`)
until the copy is made. So they are the same for any threads, scheme and punctuation. Snapshots by the clock are as of the
next punctuation, and are skipped if no event was executed since the last one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

from headrace.arguments import is_whole_number
from headrace.errors import ParameterError
from headrace.kernel import compile_now
from headrace.memory.cells import publish_cell, read_cell
from headrace.transactions import words
from headrace.transactions.arrays import ExecutorArrays
from headrace.transactions.content import TablesAt
from headrace.transactions.phases_kernel import end_snapshot, watch_snapshot
from headrace.windows import parse_seconds
from headrace.workers.worker_kernel import STOP

KEPT = 2
"""The newest one is what is wanted after a failure; with the one before it, what happened in between can be seen."""
MOST_EVENTS = 1 << 62
LEAST_S = 0.001
_WATCH_NS = 50_000_000


@dataclass(frozen=True)
class Every:
    """When snapshots are taken: after so many events, or so many seconds; the other is 0."""

    events: int = 0
    seconds: float = 0.0


def parse_every(asked: Any) -> Every | None:
    """Read ``snapshot_every=``; None: no snapshots are taken.

    Examples
    --------
    >>> parse_every(10_000), parse_every("2s")
    (Every(events=10000, seconds=0.0), Every(events=0, seconds=2.0))
    """
    if asked is None:
        return None
    if is_whole_number(asked) and 1 <= asked <= MOST_EVENTS:
        return Every(events=int(asked))
    if not isinstance(asked, int | float):
        with suppress(ParameterError):  # which would ask for seconds, where a number is of events
            seconds = parse_seconds(asked, "snapshot_every")
            if seconds >= LEAST_S:
                return Every(seconds=seconds)
    raise ParameterError(
        f"snapshot_every={asked!r}: give a whole number of events from 1, or a duration from 1ms with its unit, such as '2s'"
    )


class Snapshots:
    """Takes snapshots until the run is over, and keeps the newest ones.

    Parameters
    ----------
    every : Every
    arrays : ExecutorArrays
        No executor runs yet.
    at : callable
        Copies all tables, as of a position.
    rest : callable
        A context in which the executors rest between two batches; it gives the number of events executed, or None if the run
        is over.

    Attributes
    ----------
    taken : tuple of TablesAt
        Oldest first.
    """

    def __init__(
        self,
        every: Every,
        arrays: ExecutorArrays,
        at: Callable[[int], TablesAt],
        rest: Callable[[], AbstractContextManager[int | None]],
    ):
        self._every, self._arrays, self._at, self._rest = every, arrays, at, rest
        self._over = threading.Event()
        self.taken: tuple[TablesAt, ...] = ()
        publish_cell(arrays.words, words.SNAPSHOT_AT, every.events)

    def run(self) -> None:
        """Take them until the run is over; the body of a thread."""
        if self._every.events:
            self._take_by_count()
        else:
            self._take_by_clock()

    def _take_by_count(self) -> None:
        arrays = self._arrays
        while True:
            at = read_cell(arrays.words, words.SNAPSHOT_AT)
            # A due snapshot is taken even if the run has failed meanwhile: no executor begins a batch any more.
            while read_cell(arrays.words, words.SEEN) < at:
                if read_cell(arrays.words, STOP) or read_cell(arrays.words, words.OVER):
                    return
                watch_snapshot(arrays, _WATCH_NS)
            self._keep(at)
            end_snapshot(arrays, at + self._every.events)

    def _take_by_clock(self) -> None:
        last = 0
        while not self._over.wait(self._every.seconds):
            with self._rest() as position:
                if position is None:
                    return
                if position > last:
                    self._keep(position)
                    last = position

    def _keep(self, position: int) -> None:
        self.taken = (*self.taken, self._at(position))[-KEPT:]

    def stop(self) -> None:
        """The run was stopped, or is over: take no more."""
        self._over.set()

    def compile(self) -> None:
        """Compile what Python calls while the stream runs."""
        compile_now(watch_snapshot, (self._arrays, 0))
        compile_now(end_snapshot, (self._arrays, 0))


__all__ = ["Every", "Snapshots", "parse_every"]
