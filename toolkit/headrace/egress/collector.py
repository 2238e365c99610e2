"""The output gate: takes what the instances wrote, orders it by content, passes it on.

One thread per operator. It drains the instances' rings, holds back what is
above the smallest promise, sorts the rest and hands it to the sink or to the
next operator's input. Sorting is by content (time, key value, positions), never
by instance, so the number of instances cannot be seen in the result. Which
content that is, the operator's finisher says: times and keys, or nothing but the
position of the tuple that caused the result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from headrace.egress import rings
from headrace.egress.payload import Payload
from headrace.egress.rings import OutArrays
from headrace.memory.atomics import CELL
from headrace.memory.cells import publish_cell, read_cell, read_cells, reserved, touch
from headrace.metrics.latency import LatencyHistogram
from headrace.progress import END_OF_TIME, MIN_TIME

IDLE_NS = 20_000_000
"""Longest sleep: memory is freed and time passed on at least this often."""
PASS_ON_NS = 2_000_000
"""The same where another operator waits for this one's time."""

FEW_ROWS = 4096
"""A release of so many costs about as much as one of a single row."""
REST = 2.0
"""After a release of few rows, while sources wait for room, the collector rests for so many times what it took. Else
it would follow every batch of an instance: a saturated join gave 600 releases/s of 50 rows for half a core, and held
the interpreter's lock when the sources needed it. Otherwise release at once: cores are idle."""
MOST_REST_S = 0.002


_HEAD_COLUMNS = 5
"""`primary`, `a`, `b`, `c`, `at`."""
_ROOM = 1 << 18
"""Records there is room for from the start."""
KEPT_S = 10.0
"""More room stays for so long after a quarter of it was wanted: mostly the next window will want it again."""


class Records:
    """Drained result records as columns; `b` and `c` are None where the finisher does not read them.

    `words` has the lists that columns of positions refer to, where there are any. With `index`, they are the rows at these
    places of the columns that were `given`: one is brought together when it is asked for, and seldom are all of them.
    """

    def __init__(self, primary, a, b, c, at, values, words: Payload | None = None, index: np.ndarray | None = None):
        self.given, self._values = (primary, a, b, c, at), values
        self.index, self.words = index, words

    def __len__(self) -> int:
        return len(self.given[0]) if self.index is None else len(self.index)

    def _chosen(self, column: Any) -> Any:
        return column if self.index is None or column is None else column.take(self.index)

    @cached_property
    def primary(self) -> Any:
        return self._chosen(self.given[0])

    @cached_property
    def a(self) -> Any:
        return self._chosen(self.given[1])

    @cached_property
    def b(self) -> Any:
        return self._chosen(self.given[2])

    @cached_property
    def c(self) -> Any:
        return self._chosen(self.given[3])

    @cached_property
    def at(self) -> Any:
        return self._chosen(self.given[4])

    @cached_property
    def values(self) -> list[Any]:
        return [self._chosen(column) for column in self._values]

    def at_places(self, places: np.ndarray) -> Records:
        """Those at these places of the columns given."""
        return Records(*self.given, self._values, self.words, places)


class Held:
    """Records that wait for their release, in arrays that stay: fresh memory costs more than what is written to it.

    Parameters
    ----------
    dtypes : list of dtype or None
        Of `primary`, `a`, `b`, `c`, `at` and the values; None for a column that nobody reads.
    clock : callable
        Seconds.
    by_place : bool
        Records of one `primary` are released in the order of `a`, each as soon as none before it will follow.
    """

    def __init__(
        self, dtypes: Sequence[np.dtype | None], clock: Callable[[], float] = time.monotonic, by_place: bool = False
    ):
        self._dtypes, self._clock, self._by_place = dtypes, clock, by_place
        self._columns = self._reserve(_ROOM)
        for column in self._columns:
            if column is not None:
                touch(column[:FEW_ROWS])
        self._wanted_s = 0.0
        """When a quarter of the room was last held."""
        self.count = 0
        self.earliest = END_OF_TIME
        """Smallest `primary` held."""
        self.first_place = 0
        """The smallest `a` of those with that `primary`; if they are released by it."""

    def add(self, parts: Sequence[np.ndarray | None]) -> None:
        """Copy records to the end."""
        first = parts[0]
        assert first is not None
        count = self.count + len(first)
        if count > self._room:
            before, self._columns = self._columns, self._reserve(max(2 * self._room, count))
            self._fill(0, [None if column is None else column[: self.count] for column in before])
        self._fill(self.count, parts)
        self.count = count
        self._note(first, parts[1])

    def _note(self, primary: np.ndarray, a: np.ndarray | None) -> None:
        """Know the first of these as well."""
        earliest = int(primary.min())
        if self._by_place and earliest <= self.earliest:
            assert a is not None
            place = int(a[primary == earliest].min())
            self.first_place = min(self.first_place, place) if earliest == self.earliest else place
        self.earliest = min(self.earliest, earliest)

    def is_due(self, bound: int, place: int) -> bool:
        """Whether some may be released: up to `bound`, and of bound + 1 those before a place."""
        return self.count > 0 and (self.earliest <= bound or (self.earliest == bound + 1 and self.first_place < place))

    @contextmanager
    def release(self, bound: int, place: int = 0) -> Iterator[Records]:
        """Take the records up to `bound` out, and of bound + 1 those with `a` below `place`: they are read while it lasts."""
        held = [None if column is None else column[: self.count] for column in self._columns]
        first = held[0]
        assert first is not None
        is_ready = first <= bound
        index, rest = None, np.zeros(0, np.int64)
        if not is_ready.all():
            rest = np.flatnonzero(~is_ready)
            if place and held[1] is not None:  # mostly few are left to look at
                goes = (first[rest] == bound + 1) & (held[1][rest] < place)
                is_ready[rest[goes]], rest = True, rest[~goes]
            index = np.flatnonzero(is_ready)
        yield Records(*held[:_HEAD_COLUMNS], held[_HEAD_COLUMNS:], index=index)
        self._keep(rest)

    def _keep(self, rest: np.ndarray) -> None:
        """What is left, at these places, moves to the front."""
        columns, count = self._columns, self.count
        self.count = len(rest)
        for column in columns:
            if column is not None and len(rest):
                column[: len(rest)] = column[:count].take(rest)
        first, a = columns[0], columns[1]
        assert first is not None
        self.earliest = END_OF_TIME
        if len(rest):
            self._note(first[: len(rest)], None if a is None else a[: len(rest)])
        self._give_back(count)
        if self._columns is not columns:
            self._fill(0, [None if column is None else column[: len(rest)] for column in columns])

    def copies(self) -> list[np.ndarray | None]:
        """Copy what is held."""
        return [None if column is None else column[: self.count].copy() for column in self._columns]

    @property
    def values(self) -> list[np.ndarray]:
        """The value columns of what is held."""
        return [column[: self.count] for column in self._columns[_HEAD_COLUMNS:] if column is not None]

    def _give_back(self, held: int) -> None:
        """Halve more room than there was from the start, if for long little of it was wanted, as for the `held` just now."""
        if self._room == _ROOM:
            return
        now = self._clock()
        if held > self._room // 4:
            self._wanted_s = now
        elif now - self._wanted_s > KEPT_S:
            self._columns, self._wanted_s = self._reserve(max(_ROOM, self._room // 2)), now

    def _reserve(self, room: int) -> list[np.ndarray | None]:
        self._room = room
        is_large = room > _ROOM
        return [None if dtype is None else reserved(room, dtype, huge_pages=is_large) for dtype in self._dtypes]

    def _fill(self, start: int, parts: Sequence[np.ndarray | None]) -> None:
        for column, part in zip(self._columns, parts, strict=True):
            if column is not None and part is not None:
                column[start : start + len(part)] = part


class Ordered:
    """Records in a given order; a column is brought into it when it is asked for, and seldom are all of them."""

    def __init__(self, records: Records, order: np.ndarray):
        self._records, self._order = records, order

    def __len__(self) -> int:
        return len(self._order)

    @cached_property
    def primary(self) -> np.ndarray:
        return self._records.primary.take(self._order)

    @cached_property
    def a(self) -> np.ndarray:
        return self._records.a.take(self._order)

    @cached_property
    def b(self) -> np.ndarray:
        return self._records.b.take(self._order)

    @cached_property
    def values(self) -> list[np.ndarray]:
        return [column.take(self._order) for column in self._records.values]

    @property
    def words(self) -> Payload:
        """The lists that columns of positions refer to."""
        assert self._records.words is not None
        return self._records.words


class Finisher(Protocol):
    """What the collector must know of an operator's results."""

    schema: pa.Schema
    reads_b_and_c: bool
    """Whether `b` and `c` of the records mean anything."""

    def compile(self) -> None:
        """Compile the kernels that `finish` uses, so that no result waits for the compiler."""
        ...

    def finish(self, records: Records) -> pa.RecordBatch:
        """Put records into the order of their content and make the result rows of them; there is at least one."""
        ...


class Consumer(Protocol):
    """Where results go on to."""

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
        Whether the operator's sources wait for room just now.
    lists : sequence of (int, int)
        Pairs of value columns that hold lists: positions, as of `words_ring.write_words`, and numbers of words.
    rest : float
        As `REST`.
    least_rest_s : float
        After a turn of few rows, or none, it rests for so long in any case: for results that come one by one, where to wake it
        for each costs the threads that make them more than the results do.
    by_place : bool
        Promises say of records of one `primary` too which may still follow (`rings.publish_place`).
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
        self.last_emission_ns = 0
        self.finished = threading.Event()
        self._held: Held | None = None
        self._payload = Payload(out, lists) if lists else None
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
        """Take what is in the rings, and pass on what may go. True if that was the end."""
        out = self._out
        self._drain(held)
        if read_cell(out.words, rings.OUT_STOP):
            return True
        # What is held back is gone through only when some of it may go.
        if held.is_due(bound, place):
            with held.release(bound, place) as records:
                self._release(records)
            if self._payload is not None:
                self._payload.forget(held.values)
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
        """While it lasts nothing is passed on. Gives False if it has ended, in the middle of something maybe."""
        with self._turn:
            yield self._is_whole and self._held is not None

    def held_back(self) -> list[np.ndarray | None]:
        """Copy what is in the rings or held back, as columns. While it is at rest, and nobody writes results."""
        assert self._held is not None
        self._drain(self._held)
        return self._held.copies()

    def hold_back(self, columns: Sequence[np.ndarray | None]) -> None:
        """Begin with results that an earlier run held back; before it runs."""
        self._first = columns

    @property
    def unreleased(self) -> int:
        """Results that are in the rings, or held back here. While it collects, those that it moves may count twice."""
        waiting = int((read_cells(self._out.head) - read_cells(self._out.tail)).sum())
        return max(0, waiting) + (self._held.count if self._held is not None else 0)

    def _pending(self) -> bool:
        return bool((read_cells(self._out.head) != read_cells(self._out.tail)).any())  # C2

    def _drain(self, held: Held) -> None:
        out = self._out
        for r in range(self._instances):
            tail, head = read_cell(out.tail, r * CELL), read_cell(out.head, r * CELL)  # C2
            if self._payload is not None:
                self._payload.drain(r)
            while tail < head:
                at = tail & (self._capacity - 1)
                stop = at + min(head - tail, self._capacity - at)
                parts = [None if column is None else column[r, at:stop] for column in self._columns]
                held.add(parts)
                if self._payload is not None:
                    self._payload.note(r, [part for part in parts[_HEAD_COLUMNS:] if part is not None])
                tail += stop - at
                rings.drained(out, r, tail)

    def _release(self, records: Records) -> None:
        records.words = self._payload
        begin = time.monotonic_ns()
        batch = self._finisher.finish(records)
        now = time.monotonic_ns()
        if len(records) < FEW_ROWS:
            self._rest_s = min(MOST_REST_S, self._rest * (now - begin) / 1e9) if self._is_saturated() else 0.0
        self.latency.add(now - records.at)
        self.last_emission_ns = now
        self.rows += batch.num_rows
        for consumer in self._consumers:
            consumer.write(batch)
