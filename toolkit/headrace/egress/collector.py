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


class Records:
    """Drained result records as columns."""

    __slots__ = ("a", "at", "b", "c", "primary", "values")

    def __init__(self, primary, a, b, c, at, values):
        self.primary, self.a, self.b, self.c, self.at, self.values = primary, a, b, c, at, values

    def __len__(self) -> int:
        return len(self.primary)

    def take(self, index: np.ndarray) -> Records:
        return Records(
            self.primary.take(index),
            self.a.take(index),
            self.b.take(index),
            self.c.take(index),
            self.at.take(index),
            [v.take(index) for v in self.values],
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Records]) -> Records:
        if len(parts) == 1:
            return parts[0]
        return cls(
            *(np.concatenate([getattr(p, name) for p in parts]) for name in ("primary", "a", "b", "c", "at")),
            [np.concatenate(columns) for columns in zip(*(p.values for p in parts), strict=True)],
        )


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
        held: list[Records] = []
        wanted = END_OF_TIME
        while True:
            bound, watermark = output.await_release(out, self._gate_words, wanted, self._idle_ns)
            fresh = self._drain()
            if out.words[output.OUT_STOP]:
                return
            held += fresh
            wanted = min([wanted, *(int(part.primary.min()) for part in fresh)])
            # What is held back is gone through only when some of it may go.
            if held and wanted <= bound:
                records = Records.concatenate(held)
                ready = records.primary <= bound
                if ready.all():
                    held, wanted = [], END_OF_TIME
                else:
                    rest = records.take(np.flatnonzero(~ready))
                    held, wanted = [rest], int(rest.primary.min())
                    records = records.take(np.flatnonzero(ready))
                self._release(records)
            if watermark > self.watermark:
                self.watermark = watermark
                if watermark < END_OF_TIME:
                    for consumer in self._consumers:
                        consumer.progress(watermark)
                self._on_progress(watermark)
            if bound == END_OF_TIME and not held and not self._pending():
                for consumer in self._consumers:
                    consumer.close()
                self.finished.set()
                return

    def _pending(self) -> bool:
        return bool((self._out.head[::CELL] != self._out.tail[::CELL]).any())

    def _drain(self) -> list[Records]:
        out, parts = self._out, []
        for r in range(self._instances):
            tail, head = int(out.tail[r * CELL]), int(out.head[r * CELL])
            while tail < head:
                at = tail & (self._capacity - 1)
                stop = at + min(head - tail, self._capacity - at)
                parts.append(
                    Records(
                        out.primary[r, at:stop].copy(),
                        out.a[r, at:stop].copy(),
                        out.b[r, at:stop].copy(),
                        out.c[r, at:stop].copy(),
                        out.at[r, at:stop].copy(),
                        [column[r, at:stop].copy() for column in self._value_columns],
                    )
                )
                tail += stop - at
                output.drained(out, r, tail)
        return parts

    def _release(self, records: Records) -> None:
        batch = self._finisher.build(Ordered(records, self._finisher.order(records)))
        now = time.monotonic_ns()
        self.latency.add(now - records.at)
        self.last_emission_ns = now
        self.rows += batch.num_rows
        for consumer in self._consumers:
            consumer.write(batch)
