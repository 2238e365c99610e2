"""A channel for each reader (Viper): the handle that owns the arrays and checks arguments."""

from __future__ import annotations

import time
from collections.abc import Iterable

import numpy as np

from headrace.errors import ParameterError
from headrace.gates import channels_kernel
from headrace.gates.channels_kernel import Merged, Queues
from headrace.gates.membership_kernel import NOTHING
from headrace.gates.merged_log import power_of_two_at_least
from headrace.gates.merging_kernel import SCRATCH_ROWS
from headrace.gates.tuple_buffer import Record, check_order, event_times, whole_number
from headrace.memory.atomics import CELL, EVENT_CELL
from headrace.memory.cells import aligned, padded_cells, read_cell
from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.references import tuple_reference

_CHUNK = 1024


def allocate(queues: int, threads: int, capacity: int) -> Queues:
    """Allocate empty queues of `capacity` tuples each, a power of two, and an event for each thread."""
    columns = [aligned(queues * capacity, np.int64).reshape(queues, capacity) for _ in range(3)]
    for column in columns:
        column[...] = 1  # touch its pages now
    marks = padded_cells(queues)
    marks[:] = MIN_TIME
    return Queues(
        padded_cells(queues), padded_cells(queues), marks, *columns, np.zeros(queues, np.int64), np.zeros(queues, np.int64),
        padded_cells(threads), aligned(threads * EVENT_CELL, np.int32),
    )  # fmt: skip


def merged(q: Queues, first: int, inputs: int, to: int) -> Merged:
    """Queues `first`, `first` + 1, ... and the queue `to` into which they are merged, as kernels take them."""
    rings = [column[first : first + inputs] for column in (q.ts, q.ref, q.at)]
    outs = [column[to : to + 1] for column in (q.ts, q.ref, q.at)]
    return Merged(*rings, *outs, aligned(SCRATCH_ROWS * inputs, np.int64).reshape(SCRATCH_ROWS, inputs))


class ReaderChannels:
    """A channel for each reader: senders route tuples, and each reader gets its own tuples in the common order.

    In a gate (`MergedLog`, `ScaleGate`) every reader sees every tuple; here a sender decides which reader gets a tuple. With one
    source a channel is a queue; with more the reader merges what was sent to it. A slow reader holds up its senders.

    Parameters
    ----------
    sources, readers : int
    capacity : int
        Most tuples that a source has sent to a reader and the reader has not taken: at least 2, rounded up to a power of two.

    Notes
    -----
    Viper (Walulya et al.), section 3.3. Each method may be called by one thread at a time for its source or reader; compiled
    workers call the kernels of `channels_kernel` on `queues`.

    Examples
    --------
    >>> channels = ReaderChannels(sources=2, readers=2)
    >>> channels.add([1, 5], owners=[0, 1], source=0), channels.add([3], owners=[0], source=1)
    (2, 1)
    >>> [record.ts for record in channels.get_ready(0)], channels.get_ready(1)
    ([1, 3], [])
    >>> channels.close(0), channels.close(1), [record.ts for record in channels.get_ready(1)], channels.is_over(1)
    (None, None, [5], True)
    """

    def __init__(self, sources: int = 1, readers: int = 1, capacity: int = 8192):
        self.sources = whole_number("sources", sources, 1, 1 << 14)
        self.readers = whole_number("readers", readers, 1, 1 << 14)
        capacity = power_of_two_at_least(whole_number("capacity", capacity, 2, 1 << 30))
        sent = self.sources * self.readers
        self.queues = allocate(sent + self.readers, self.sources + self.readers, capacity)
        """Queue ``reader * sources + source`` leads from a source to a reader; then follows a merged queue for each reader."""
        q = self.queues
        for reader in range(self.readers):
            own = slice(reader * self.sources, (reader + 1) * self.sources)
            q.writer[own], q.reader[own] = range(self.sources), self.sources + reader
            q.writer[sent + reader] = q.reader[sent + reader] = self.sources + reader
        self._heads = np.zeros((self.sources, self.readers), np.int64)
        self._rows, self._last = [0] * self.sources, [MIN_TIME] * self.sources
        self._merged = [
            merged(q, reader * self.sources, self.sources, sent + reader) if self.sources > 1 else None
            for reader in range(self.readers)
        ]

    def add(self, ts: int | Iterable[int] | np.ndarray, owners: int | Iterable[int] | np.ndarray, source: int = 0) -> int:
        """Send tuples to their owners, as many as there is room for.

        Parameters
        ----------
        ts : int or sequence of int
            Event time of one tuple, or of many, non-decreasing over all calls for the source.
        owners : int or sequence of int
            For each tuple, the number of the reader that gets it.
        source : int

        Returns
        -------
        int
            How many were sent, which are the first ones. Fewer than given if some reader's channel is full: give the others
            again, once it has taken some.

        Raises
        ------
        DisorderError
            A time is below its predecessor, or below a promise of the source.
        EventTimeError
            A time is beyond 2**62 in magnitude.
        ParameterError
            An owner or source does not exist, the source is closed, there are not as many owners as times, or a time is not a
            whole number.
        """
        source = self._check(source, "source", self.sources)
        times, given = event_times("ts", ts), owners if isinstance(owners, Iterable) else [owners]
        to = np.array([self._check(owner, "owner", self.readers) for owner in given], np.int64)
        if times.shape != to.shape:
            raise ParameterError(f"owners: {to.size} for {times.size} tuples; give one for each")
        self._check_open(source)
        if times.size:
            check_order(f"ts = {ts!r:.60}", times, self._last[source], source)
        refs = tuple_reference(source, 0) + np.arange(self._rows[source], self._rows[source] + times.size)
        taken = channels_kernel.send(
            self.queues, source, self.sources, times, refs, to, 0, times.size, time.monotonic_ns(), self._heads[source]
        )
        self._rows[source] += taken
        if taken:
            self._last[source] = int(times[taken - 1])
        return taken

    def heartbeat(self, ts: int, source: int = 0) -> None:
        """Promise that no later tuple of the source is before `ts`, so that readers need not wait for one."""
        source, ts = self._check(source, "source", self.sources), whole_number("ts", ts, MIN_TIME, END_OF_TIME - 1)
        self._check_open(source)
        self._promise(ts, source)

    def close(self, source: int = 0) -> None:
        """End the input of a source."""
        self._promise(NOTHING, self._check(source, "source", self.sources))

    def _promise(self, ts: int, source: int) -> None:
        self._last[source] = max(self._last[source], ts)
        channels_kernel.publish(self.queues, source, self.sources, self._heads[source], self._last[source])

    def get_ready(self, reader: int = 0, most: int = _CHUNK) -> list[Record]:
        """Take what is ready for a reader: at most so many tuples, which no earlier tuple can precede any more."""
        reader = self._check(reader, "reader", self.readers)
        most = whole_number("most", most, 1, 1 << 30)
        q, own, ready = self.queues, self._queue_of(reader), self._merged[reader]
        if ready is not None:
            channels_kernel.merge_step(q, ready, reader * self.sources, own, most)
        head, tail = read_cell(q.head, own * CELL), read_cell(q.tail, own * CELL)
        end = min(head, tail + most)
        slots = np.arange(tail, end) & (q.ts.shape[1] - 1)
        found = [Record(ts, ref) for ts, ref in zip(q.ts[own, slots].tolist(), q.ref[own, slots].tolist(), strict=True)]
        channels_kernel.release(q, own, end, head)
        return found

    def is_over(self, reader: int = 0) -> bool:
        """Whether every source is closed and the reader has taken all its tuples."""
        q, own = self.queues, self._queue_of(self._check(reader, "reader", self.readers))
        return read_cell(q.mark, own * CELL) == NOTHING and read_cell(q.head, own * CELL) == read_cell(q.tail, own * CELL)

    def _queue_of(self, reader: int) -> int:
        """The queue that a reader reads."""
        return reader if self.sources == 1 else self.sources * self.readers + reader

    def _check_open(self, source: int) -> None:
        if self._last[source] == NOTHING:
            raise ParameterError(f"source = {source}: this source is closed; add nothing after close")

    @staticmethod
    def _check(number: int, name: str, count: int) -> int:
        return whole_number(name, number, 0, count - 1)


__all__ = ["ReaderChannels", "allocate", "merged"]
