"""The output gate: takes what the instances wrote, orders it by content, passes it on.

One thread per operator. It drains the instances' rings, holds back what is
above the smallest promise, sorts the rest and hands it to the sink or to the
next operator's input. Sorting is by content (time, key value, positions), never
by instance, so the number of instances cannot be seen in the result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from headrace.counters import LatencyHistogram
from headrace.memory.atomics import CELL
from headrace.operators import output
from headrace.operators.output import OutArrays
from headrace.progress import END_OF_TIME, MIN_TIME

IDLE_NS = 20_000_000
"""Longest sleep: memory is freed and time passed on at least this often."""
PASS_ON_NS = 2_000_000
"""The same where another operator waits for this one's time."""


_LEAST_ROOM, _MOST_ROOM = 1 << 10, 1 << 18
"""Records that arrays are made for at least, and that are kept room for when none is held."""


class Records:
    """Drained result records as columns."""

    __slots__ = ("a", "at", "b", "c", "primary", "values")

    def __init__(self, primary, a, b, c, at, values):
        self.primary, self.a, self.b, self.c, self.at, self.values = primary, a, b, c, at, values

    def __len__(self) -> int:
        return len(self.primary)

    @property
    def columns(self) -> list[np.ndarray]:
        return [self.primary, self.a, self.b, self.c, self.at, *self.values]

    @classmethod
    def of(cls, columns: Sequence[np.ndarray]) -> Records:
        """The records of `columns`, as `Records.columns` gives them."""
        return cls(*columns[:5], list(columns[5:]))

    def take(self, index: np.ndarray) -> Records:
        return Records.of([column.take(index) for column in self.columns])


class Held:
    """Records that wait for their release, in arrays that stay: fresh memory would cost more than what is written to it.

    Parameters
    ----------
    like : list of ndarray
        One array of each column's dtype, as `Records.columns` orders them.
    """

    def __init__(self, like: Sequence[np.ndarray]):
        self._columns = [np.empty(0, column.dtype) for column in like]
        self.count = 0
        self.earliest = END_OF_TIME
        """Smallest `primary` held."""

    def add(self, parts: Sequence[np.ndarray]) -> None:
        """Copy records to the end."""
        count = len(parts[0])
        if self.count + count > self._columns[0].size:
            room = max(2 * self._columns[0].size, self.count + count, _LEAST_ROOM)
            self._columns = [_resized(column, self.count, room) for column in self._columns]
        for column, part in zip(self._columns, parts, strict=True):
            column[self.count : self.count + count] = part
        self.count += count
        self.earliest = min(self.earliest, int(parts[0].min()))

    def release(self, bound: int) -> Records:
        """Take the records up to `bound` out; they are read before anything is added again."""
        held = [column[: self.count] for column in self._columns]
        is_ready = held[0] <= bound
        if is_ready.all():
            ready = held
            self.count, self.earliest = 0, END_OF_TIME
            if self._columns[0].size > _MOST_ROOM:
                self._columns = [np.empty(0, column.dtype) for column in self._columns]
        else:
            ready = [column[is_ready] for column in held]
            rest = [column[~is_ready] for column in held]
            self.count, self.earliest = 0, END_OF_TIME
            self.add(rest)
        return Records.of(ready)


def _resized(column: np.ndarray, count: int, room: int) -> np.ndarray:
    larger = np.empty(room, column.dtype)
    larger[:count] = column[:count]
    return larger


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


class Finisher(Protocol):
    """What the collector must know of an operator's results."""

    schema: pa.Schema

    def compile(self) -> None:
        """Compile the kernels that `order` and `build` use, so that no result waits for the compiler."""
        ...

    def order(self, records: Records) -> np.ndarray:
        """Indices that sort the records by content."""
        ...

    def build(self, records: Ordered) -> pa.RecordBatch:
        """Make the result rows of sorted records."""
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
    gate_words : ndarray
        Of the operator's input gate, for the membership seqlock.
    value_columns : list of ndarray
        [instances, capacity] each, beside those of `out`.
    finisher : Finisher
    consumers : list of Consumer
    on_progress : callable
        Called with the watermark when it has advanced (frees memory).
    is_last : bool
        No other operator follows.
    """

    def __init__(
        self,
        out: OutArrays,
        gate_words: np.ndarray,
        value_columns: list[np.ndarray],
        finisher: Finisher,
        consumers: list[Consumer],
        on_progress: Callable[[int], None],
        is_last: bool = True,
    ):
        self._out, self._gate_words, self._value_columns = out, gate_words, value_columns
        self._finisher, self._consumers, self._on_progress = finisher, consumers, on_progress
        self._idle_ns = IDLE_NS if is_last else PASS_ON_NS
        self._instances, self._capacity = out.primary.shape
        self.latency = LatencyHistogram()
        self.rows = 0
        self.watermark = MIN_TIME
        self.last_emission_ns = 0
        self.finished = threading.Event()

    def run(self) -> None:
        """Collect until the end of input or a stop."""
        out = self._out
        held = Held([out.primary, out.a, out.b, out.c, out.at, *self._value_columns])
        while True:
            bound, watermark = output.await_release(out, self._gate_words, held.earliest, self._idle_ns)
            self._drain(held)
            if out.words[output.OUT_STOP]:
                return
            # What is held back is gone through only when some of it may go.
            if held.count and held.earliest <= bound:
                self._release(held.release(bound))
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
                return

    def _pending(self) -> bool:
        return bool((self._out.head[::CELL] != self._out.tail[::CELL]).any())

    def _drain(self, held: Held) -> None:
        out = self._out
        columns = [out.primary, out.a, out.b, out.c, out.at, *self._value_columns]
        for r in range(self._instances):
            tail, head = int(out.tail[r * CELL]), int(out.head[r * CELL])
            while tail < head:
                at = tail & (self._capacity - 1)
                stop = at + min(head - tail, self._capacity - at)
                held.add([column[r, at:stop] for column in columns])
                tail += stop - at
                output.drained(out, r, tail)

    def _release(self, records: Records) -> None:
        batch = self._finisher.build(Ordered(records, self._finisher.order(records)))
        now = time.monotonic_ns()
        self.latency.add(now - records.at)
        self.last_emission_ns = now
        self.rows += batch.num_rows
        for consumer in self._consumers:
            consumer.write(batch)
