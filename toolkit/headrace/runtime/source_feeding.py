"""The feeding side of a source: it gives encoded rows to the inlet as scheduled, and advances event time while idle."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.errors import InputError
from headrace.ingress.times import event_times
from headrace.memory.cells import read_cell
from headrace.metrics.sources import FEEDING, STARVED
from headrace.newest import Record
from headrace.progress import MIN_TIME
from headrace.runtime.feeding import Feeder
from headrace.runtime.inlets import reached
from headrace.runtime.source_rows import SourceRows, column_of_times
from headrace.runtime.step_threads import Job

POLL_S = 0.1
SHARED_POLL_S = 1e-3
_MOST_PASSED = 100_000
"""Decisions of the clock that are kept, of 200 bytes each: silence and rows may take turns for months."""


class SourceFeeder:
    """Feeds to the inlet what the reading side has put into the queue.

    Parameters
    ----------
    rows : SourceRows
    feed : Feeder
    siblings : sequence of Feeder
        All inputs of the operator, this one included.
    inlet : (str, int)
        Section and number of the inlet.
    recorded : deque of (int, int), optional
        What an earlier run decided: (rows before, time passed to). None: the clock decides.
    waiting : Queue
        Holds encoded pieces; jobs, whose rows are to be encoded; rows with their numbers, to be checked for lateness;
        promises, as integers; None at the end.
    stop_word : int64[...]
        Word 0 is not 0 once the run is over.
    """

    def __init__(
        self,
        rows: SourceRows,
        feed: Feeder,
        siblings: Sequence[Feeder],
        inlet: tuple[str, int],
        recorded: deque[tuple[int, int]] | None,
        waiting: queue.Queue[Any],
        stop_word: np.ndarray,
    ):
        self._rows, self._feed, self._siblings, self._inlet = rows, feed, siblings, inlet
        self._recorded, self._waiting, self._stop_word = recorded, waiting, stop_word
        self.first_add_ns = 0
        self.passed_time = Record[tuple[str, int, int, int]](_MOST_PASSED)
        self._fed = 0

    def feeding(self, patient: bool) -> Iterator[float]:
        """Feed to the end, in steps that each yield seconds to wait; a patient caller waits in place for batches and room."""
        idle = self._rows.node.idle_after if self._recorded is None else None
        since, spent = time.monotonic(), self._feed.books.spent
        while True:
            spent.turn(STARVED)
            try:
                item = self._waiting.get(block=patient, timeout=POLL_S if idle is None else min(POLL_S, idle / 2))
            except queue.Empty:
                if read_cell(self._stop_word, 0):
                    return
                if idle is not None and time.monotonic() - since >= idle:
                    yield from self._pass_time(patient)
                yield 0.0 if patient else SHARED_POLL_S
                continue
            if read_cell(self._stop_word, 0):  # it may be `stop` that gave the item
                return
            spent.turn(FEEDING)
            if not self.first_add_ns:
                self.first_add_ns = time.monotonic_ns()
            if item is None:
                while self._recorded:
                    yield from self._pass_time_to(self._recorded.popleft()[1], patient)
                yield from self._feed.closing(patient)
                spent.stop()
                return
            if isinstance(item, Job):
                yield from item.waiting(self._stop_word, patient)
                yield from self._feed_applied(item, patient)
            elif isinstance(item, int):
                yield from self._feed.promising(item, patient)
            elif isinstance(item, tuple):
                yield from self._feed_in_time(*item, patient)
            else:
                yield from self._feed.feeding(item, patient)
            since = time.monotonic()
            yield 0.0

    def _feed_applied(self, job: Job, patient: bool) -> Iterator[float]:
        """Feed what the steps made of a batch."""
        for piece in self._rows.encoded_of(job):
            yield from self._feed.feeding(piece, patient)

    def _pass_time(self, patient: bool) -> Iterator[float]:
        """Let the other sources go on while this one is idle: its time follows the furthest of them."""
        others = (reached(feed.inlet) for feed in self._siblings if feed is not self._feed)
        furthest = max(others, default=MIN_TIME)
        if furthest > self._feed.inlet.mark:
            yield from self._pass_time_to(furthest, patient)

    def _pass_time_to(self, ts: int, patient: bool) -> Iterator[float]:
        yield from self._feed.promising(ts, patient)
        entry = (*self._inlet, self._fed, ts)
        last = self.passed_time.last
        if last is not None and last[2] == self._fed:
            self.passed_time.replace_last(entry)  # no row came since: a replay gets there in one step
        else:
            self.passed_time.add(entry)

    def _feed_in_time(self, batch: pa.RecordBatch, numbers: Sequence[int], patient: bool) -> Iterator[float]:
        """Feed rows of a source with `idle_after`; a replay lets time pass between the same rows as the recorded run."""
        while self._recorded and self._recorded[0][0] < self._fed + batch.num_rows:
            rows, ts = self._recorded.popleft()
            before = max(0, rows - self._fed)
            yield from self._feed_rows(batch.slice(0, before), numbers[:before], patient)
            batch, numbers = batch.slice(before), numbers[before:]
            yield from self._pass_time_to(ts, patient)
        yield from self._feed_rows(batch, numbers, patient)

    def _feed_rows(self, batch: pa.RecordBatch, numbers: Sequence[int], patient: bool) -> Iterator[float]:
        """Feed rows; those earlier than the time that passed while the source was idle are late."""
        self._fed += batch.num_rows
        try:
            ts = event_times(column_of_times(batch, self._rows.node), self._rows.node.event_time)
        except InputError as error:
            self._rows.name_row(error, lambda row: numbers[row])
            raise
        late = np.flatnonzero(ts < (self._feed.inlet.mark if self.passed_time else MIN_TIME))
        if len(late):
            others = f", as are {len(late) - 1} rows after it" if len(late) > 1 else ""
            why = (
                f"is earlier than the time that passed while the source was idle (idle_after={self._rows.node.idle_after} s)"
                f"{others}; pass late='drop' or 'side', or a longer idle_after="
            )
            batch, numbers = self._rows.in_time(batch, numbers, late, ts[late[0]], why)
        for piece in self._rows.pieces(batch, numbers, lambda: self._feed.encode(batch)):
            yield from self._feed.feeding(piece, patient)
        last = self._rows.time_behind_steps(batch)
        if last is not None:
            yield from self._feed.promising(last, patient)
