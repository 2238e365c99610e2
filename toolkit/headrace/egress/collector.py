"""The output gate: drains the records that instances wrote, orders them by content, and passes them on.

One thread per operator drains the instances' rings, holds back what is
above the smallest promise, sorts the rest and hands it to the sink or to the
next operator's input. Sorting is by content (time, key value, positions), never
by instance, so the number of instances cannot be seen in the result. The
operator's finisher determines which content that is: times and keys, or only the
position of the tuple that caused the result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import pyarrow as pa

from headrace.egress import rings
from headrace.egress.held_records import FEW_ROWS, Held
from headrace.egress.list_words import ListWords
from headrace.egress.records import HEAD_COLUMNS, Records
from headrace.egress.rings import OutArrays
from headrace.memory.atomics import CELL
from headrace.memory.cells import publish_cell, read_cell, read_cells
from headrace.metrics.latency import LatencyHistogram
from headrace.progress import END_OF_TIME, MIN_TIME

IDLE_NS = 20_000_000
"""Longest sleep: memory is freed and the watermark passed on at least this often."""
PASS_ON_NS = 2_000_000
"""The same where another operator waits for this one's watermark."""
REST = 2.0
"""After a release of few rows, while sources wait for room, the collector rests this many times as long as it took. Else
it would release after every batch of an instance: a saturated join made 600 releases/s of 50 rows, which took half a core,
and held the interpreter's lock when the sources needed it. While no source waits, it releases at once: cores are idle."""
MOST_REST_S = 0.002


class Finisher(Protocol):
    """How an operator's result records become ordered result rows."""

    schema: pa.Schema
    reads_b_and_c: bool
    """Whether `b` and `c` of the records mean anything."""

    def compile(self) -> None:
        """Compile the kernels that `finish` uses, so that no result waits for the compiler."""
        ...

    def finish(self, records: Records) -> pa.RecordBatch:
        """Order records by content and make result rows of them; there is at least one record."""
        ...


class Consumer(Protocol):
    """Takes the results of an operator in order: a sink, or the input of another operator."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def progress(self, watermark: int) -> None:
        """No later result has ts <= `watermark`."""
        ...

    def close(self) -> None: ...


class Collector:
    """Drains one operator's output rings.

    Parameters
    ----------
    out : OutArrays
    value_columns : list of ndarray
        [instances, capacity] each, beside those of `out`.
    finisher : Finisher
    consumers : list of Consumer
    on_progress : callable
        Called with the watermark when it has advanced (frees memory).
    is_last : bool
        No other operator follows.
    is_saturated : callable
        Whether the operator's sources wait for room at present.
    lists : sequence of (int, int)
        Pairs of value columns that refer to lists: positions, as of `words_ring.write_words`, and numbers of words.
    rest : float
        As `REST`.
    least_rest_s : float
        After a turn of few rows, or none, it rests at least this long. It is meant for results that come one by one, where
        waking the collector for each would cost the threads that make them more than the results do.
    by_place : bool
        Promises also cover part of the records of one `primary` (`rings.publish_place`).
    """

    def __init__(
        self,
        out: OutArrays,
        value_columns: list[np.ndarray],
        finisher: Finisher,
        consumers: list[Consumer],
        on_progress: Callable[[int], None] = lambda watermark: None,
        is_last: bool = True,
        is_saturated: Callable[[], bool] = lambda: False,
        lists: Sequence[tuple[int, int]] = (),
        rest: float = REST,
        least_rest_s: float = 0.0,
        by_place: bool = False,
    ):
        self._by_place = by_place
        self._out, self._is_saturated, self._rest, self._least_rest_s = out, is_saturated, rest, least_rest_s
        b, c = (out.b, out.c) if finisher.reads_b_and_c else (None, None)
        self._columns = [out.primary, out.a, b, c, out.at, *value_columns]
        self._finisher, self._consumers, self._on_progress = finisher, consumers, on_progress
        self._idle_ns = IDLE_NS if is_last else PASS_ON_NS
        self._instances, self._capacity = out.primary.shape
        self.latency = LatencyHistogram()
        self.rows = 0
        self._rest_s = 0.0
        self.watermark = MIN_TIME
        self.finished = threading.Event()
        self._held: Held | None = None
        self._list_words = ListWords(out, lists) if lists else None
        self._turn = threading.Lock()
        self._is_whole = True
        """No turn has failed in the middle: what was taken out of the rings is held back, or was passed on."""
        self._first: Sequence[np.ndarray | None] | None = None

    def run(self) -> None:
        """Collect until the end of input or a stop."""
        held = Held([None if column is None else column.dtype for column in self._columns], by_place=self._by_place)
        if self._first is not None and self._first[0] is not None and len(self._first[0]):
            held.add(self._first)
        self._held = held
        while True:
            if self._rest_s:
                time.sleep(self._rest_s)
                self._rest_s = 0.0
            if self._by_place:
                publish_cell(self._out.words, rings.WANTED_PLACE, held.first_place)
            bound, watermark = rings.await_release(self._out, held.earliest, self._idle_ns)
            place = rings.promised_place(self._out, bound) if self._by_place else 0
            with self._turn:
                self._is_whole = False
                before = self.rows
                if self._go_on(held, bound, place, watermark):
                    return
                if self.rows - before < FEW_ROWS:
                    self._rest_s = max(self._rest_s, self._least_rest_s)
                self._is_whole = True

    def _go_on(self, held: Held, bound: int, place: int, watermark: int) -> bool:
        """Drain the rings and pass on what may be released. True at the end of the results or a stop."""
        out = self._out
        self._drain(held)
        if read_cell(out.words, rings.OUT_STOP):
            return True
        # Go through the held records only when some of them may be released.
        if held.is_due(bound, place):
            with held.release(bound, place) as records:
                self._release(records)
            if self._list_words is not None:
                self._list_words.forget(held.values)
        if watermark > self.watermark:
            self.watermark = watermark
            if watermark < END_OF_TIME:
                for consumer in self._consumers:
                    consumer.progress(watermark)
            self._on_progress(watermark)
        if bound == END_OF_TIME and not held.count and not self._pending():
            for consumer in self._consumers:
                consumer.close()
            self.finished.set()
            return True
        return False

    # -- between two turns

    @contextmanager
    def at_rest(self) -> Iterator[bool]:
        """A context in which nothing is passed on. Gives False if the collector has not begun or failed within a turn."""
        with self._turn:
            yield self._is_whole and self._held is not None

    def held_back(self) -> list[np.ndarray | None]:
        """Copy what is in the rings or held back, as columns. Called while it is at rest and no instance writes results."""
        assert self._held is not None
        self._drain(self._held)
        return self._held.copies()

    def hold_back(self, columns: Sequence[np.ndarray | None]) -> None:
        """Begin with results that an earlier run held back; called before it runs."""
        self._first = columns

    @property
    def unreleased(self) -> int:
        """Number of results in the rings or held back here; while it collects, those being moved may count twice."""
        waiting = int((read_cells(self._out.head) - read_cells(self._out.tail)).sum())
        return max(0, waiting) + (self._held.count if self._held is not None else 0)

    def _pending(self) -> bool:
        return bool((read_cells(self._out.head) != read_cells(self._out.tail)).any())  # C2

    def _drain(self, held: Held) -> None:
        out = self._out
        for r in range(self._instances):
            tail, head = read_cell(out.tail, r * CELL), read_cell(out.head, r * CELL)  # C2
            if self._list_words is not None:
                self._list_words.drain(r)
            while tail < head:
                at = tail & (self._capacity - 1)
                stop = at + min(head - tail, self._capacity - at)
                parts = [None if column is None else column[r, at:stop] for column in self._columns]
                held.add(parts)
                if self._list_words is not None:
                    self._list_words.note(r, [part for part in parts[HEAD_COLUMNS:] if part is not None])
                tail += stop - at
                rings.drained(out, r, tail)

    def _release(self, records: Records) -> None:
        records.words = self._list_words
        begin = time.monotonic_ns()
        batch = self._finisher.finish(records)
        now = time.monotonic_ns()
        if len(records) < FEW_ROWS:
            self._rest_s = min(MOST_REST_S, self._rest * (now - begin) / 1e9) if self._is_saturated() else 0.0
        self.latency.add(now - records.at)
        self.rows += batch.num_rows
        for consumer in self._consumers:
            consumer.write(batch)
