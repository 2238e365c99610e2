"""The handle that both gates share: Table II's six methods, heartbeats, controls, checks.

A handle owns the arrays; each method is one kernel call between checks. Its
methods may be called from any number of threads, with one restriction that the
paper makes, too: only one thread at a time may feed a source or read a reader.
"""

from __future__ import annotations

import contextlib
import operator
import threading
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from headrace.errors import DisorderError, EventTimeError, ParameterError
from headrace.gates.variants import gate_kernels, source_kernels
from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cell
from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.references import HEARTBEAT, epoch_of, row_of, source_of


class Record(NamedTuple):
    """A record that a reader gets: a tuple, a heartbeat, or the control record of an epoch."""

    ts: int
    """Event time; in a heartbeat, the source's new watermark."""
    ref: int
    """See `headrace.references`."""

    @property
    def is_tuple(self) -> bool:
        """Whether a source added it, and not a promise or a change."""
        return self.ref >= 0

    @property
    def is_heartbeat(self) -> bool:
        """Whether it only says how far a source's event time has come."""
        return self.ref == HEARTBEAT

    @property
    def is_end(self) -> bool:
        """Whether every tuple of every source has been delivered before this record."""
        return self.ref == HEARTBEAT and self.ts >= END_OF_TIME

    @property
    def source(self) -> int:
        """The source that added a tuple."""
        return source_of(self.ref)

    @property
    def row(self) -> int:
        """The number of a tuple among those of its source, from 0."""
        return row_of(self.ref)

    @property
    def epoch(self) -> int:
        """The epoch that a control record begins; 0 for other records."""
        return max(0, epoch_of(self.ref))


def whole_number(name: str, value: Any, low: int, high: int) -> int:
    """Return `value` as an int in [low, high], or raise `ParameterError` naming `name`."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ParameterError(f"{name} = {value!r}: must be a whole number; give an int") from None
    if not low <= number <= high:
        raise ParameterError(f"{name} = {value!r}: out of range; give {low} to {high}")
    return number


def event_times(name: str, given: Any) -> np.ndarray:
    """Return one event time or many as int64[n], or raise an error naming `name`."""
    try:
        ts = np.atleast_1d(np.asarray(given))
    except ValueError:  # lists of several lengths
        ts = np.array([None])
    if ts.size == 0:
        return np.empty(0, np.int64)
    if ts.dtype.kind not in "iu" or ts.ndim != 1:
        raise ParameterError(f"{name} = {given!r}: event times are whole numbers; give an int or a list of them")
    ts = np.ascontiguousarray(ts, np.int64)
    if not (ts.min() > MIN_TIME and int(ts.max()) < END_OF_TIME):
        raise EventTimeError(f"{name} = {given!r}: out of range; event times stay below 2**62 in magnitude")
    return ts


def check_order(given: str, ts: np.ndarray, mark: int, source: int) -> None:
    """Raise `DisorderError` if times (one or more) fall or the first is below `mark`; its text begins with what was given."""
    if ts[0] < mark:
        raise DisorderError(f"{given}: below {mark}, which source {source} has added or promised; sort each source by time")
    falls = np.flatnonzero(ts[1:] < ts[:-1])
    if falls.size:
        earlier, later = ts[falls[0]], ts[falls[0] + 1]
        raise DisorderError(f"{given}: {earlier} comes before {later} at source {source}; sort each source by time")


class TupleBuffer:
    """A tuple buffer (TB): sources add sorted tuples, readers get them merged.

    Parameters
    ----------
    sources, readers : int
        How many feed and read from the start: indices 0, 1, ...
    capacity : int
        Bound in tuples; a full buffer takes no more until the slowest reader has advanced.
    max_sources, max_readers : int, optional
        Slots, including those for later additions; by default as many as at the start.
    bound : int, optional
        A limit below the capacity.
    bound_ns : int
        Bound in time: work waiting for the slowest reader, by the cost per
        record that readers report; 0 = none.

    Raises
    ------
    ParameterError
        A parameter is out of its range; the text names it.

    Notes
    -----
    STRETCH (Gulisano et al.), Table II. `get` advances at once, so joining
    readers start at the record that the caller gets next, as in the table.
    The engine's instances advance when a record has been processed, so the record
    that made an instance add others is theirs, too; the table would lose it.
    Unlike in the table, heartbeats may also advance time.
    """

    _gate: str
    """Its name, see `variants.GATES`."""
    arrays: Any
    """The NamedTuple that the kernels take."""

    def __init__(
        self,
        sources: int = 1,
        readers: int = 1,
        capacity: int = 8192,
        *,
        max_sources: int | None = None,
        max_readers: int | None = None,
        bound: int | None = None,
        bound_ns: int = 0,
    ):
        sources = whole_number("sources", sources, 1, 1 << 14)
        readers = whole_number("readers", readers, 1, 1 << 14)
        capacity = whole_number("capacity", capacity, 1, 1 << 30)
        slots = sources if max_sources is None else whole_number("max_sources", max_sources, sources, 1 << 14)
        seats = readers if max_readers is None else whole_number("max_readers", max_readers, readers, 1 << 14)
        if bound is not None:
            bound = whole_number("bound", bound, 1, capacity)
        bound_ns = whole_number("bound_ns", bound_ns, 0, 1 << 62)
        self._kernels, self._sources = gate_kernels(self._gate), source_kernels(self._gate)
        self.arrays = self._allocate(slots, seats, capacity, bound, bound_ns)
        self._source_locks = [threading.Lock() for _ in range(slots)]
        self._reader_locks = [threading.Lock() for _ in range(seats)]
        self._rows = [0] * slots
        self._closed = [False] * slots
        self._activation = 1  # of the newest reader; written between open_ and close_membership
        self._mine = [0] * seats  # the activation each reader's thread has seen
        self._position = [0] * seats
        kernels, g = self._kernels, self.arrays
        kernels.open_membership(g)
        for source in range(sources, slots):
            kernels.remove_source(g, source)
        for reader in range(readers):
            kernels.join_reader(g, reader, 0, self._activation)
        kernels.close_membership(g)

    def _allocate(self, sources, readers, capacity, bound, bound_ns) -> Any:
        raise NotImplementedError

    # -- sources ---------------------------------------------------------------------------------

    def add(self, t: int | Iterable[int] | np.ndarray, j: int) -> int:
        """Add the event time of one tuple, or of many, as source `j`.

        Parameters
        ----------
        t : int or sequence of int
            Non-decreasing, also against what `j` added or promised before.
        j : int
            A source.

        Returns
        -------
        int
            How many were taken: fewer than given (0 for one) when the gate
            is full. They are the first ones, and get the next row numbers of `j`.

        Raises
        ------
        DisorderError
            A time is below its predecessor or below a promise of `j`.
        """
        j = self._slot("j", j, self._source_locks)
        ts = event_times("t", t)
        if ts.size == 0:
            return 0
        with self._source_locks[j]:
            self._check_feeding(j)
            check_order(f"t = {t!r}", ts, self._mark(j), j)
            taken = int(self._sources.add(self.arrays, j, ts, 0, ts.size, self._rows[j]))
            self._rows[j] += taken
            return taken

    def heartbeat(self, j: int, ts: int) -> bool:
        """Promise that source `j` will add nothing below `ts`. False if the gate is full.

        Parameters
        ----------
        j : int
            Source, from 0.
        ts : int
            Event time, in the stream's unit.
        """
        j = self._slot("j", j, self._source_locks)
        ts = whole_number("ts", ts, MIN_TIME, END_OF_TIME - 1)
        with self._source_locks[j]:
            self._check_feeding(j)
            return bool(self._sources.heartbeat(self.arrays, j, ts))

    def close(self, j: int) -> bool:
        """End the input of source `j`. False if the gate is full: call again."""
        j = self._slot("j", j, self._source_locks)
        with self._source_locks[j]:
            self._check_feeding(j)
            self._closed[j] = bool(self._sources.close_source(self.arrays, j))
            return self._closed[j]

    def control(self, epoch: int) -> bool:
        """Place the control record of `epoch` where every reader will meet it.

        False if it cannot be placed now: call again.
        """
        epoch = whole_number("epoch", epoch, 1, 1 << 40)
        return bool(self._kernels.control(self.arrays, epoch))

    def add_sources(self, sources: Iterable[int]) -> bool:
        """Let each of `sources` that does not feed the gate yet feed it.

        Their first records must not be below `floor`, which is above
        everything delivered.

        Returns
        -------
        bool
            True if this call added them all. False, and nothing is changed, if
            there was nothing to add, if a slot's earlier records are not all
            delivered yet, or if another thread is changing membership.
        """
        chosen = self._slots("sources", sources, self._source_locks)
        kernels, g = self._kernels, self.arrays
        with self._membership() as changing:
            if not changing:
                return False
            added: list[int] = []
            for source in chosen:
                if read_cell(g.feeding, source * CELL):
                    continue
                if not kernels.add_source(g, source):
                    for earlier in added:
                        kernels.remove_source(g, earlier)
                    return False
                self._closed[source] = False
                added.append(source)
            return bool(added)

    def remove_sources(self, sources: Iterable[int]) -> bool:
        """Stop waiting for those of `sources` that feed the gate; what they added is delivered.

        Returns
        -------
        bool
            True if this call removed them all. False if none of them feeds, or
            if another thread is changing membership.
        """
        chosen = self._slots("sources", sources, self._source_locks)
        kernels, g = self._kernels, self.arrays
        with self._membership() as changing:
            if not changing:
                return False
            removed = 0
            for source in chosen:
                with self._source_locks[source]:
                    if read_cell(g.feeding, source * CELL):
                        kernels.remove_source(g, source)
                        removed += 1
            return removed > 0

    # -- readers ---------------------------------------------------------------------------------

    def get(self, j: int) -> Record | None:
        """Return the next record of reader `j`; None if none is ready or `j` is no reader."""
        j = self._slot("j", j, self._reader_locks)
        kernels, g = self._kernels, self.arrays
        with self._reader_locks[j]:
            activation = int(read_cell(g.reading, j * CELL))
            if activation == 0:
                return None
            if activation != self._mine[j]:  # (re-)joined: an id, since a flag could not tell
                self._mine[j] = activation
                self._position[j] = int(read_cell(g.cursor, j * CELL))
            position = self._position[j]
            start, count = kernels.peek(g, j, position, 1)
            if count == 0:
                return None
            row = kernels.lane(g, j)
            record = Record(int(g.out_ts[row, start]), int(g.out_ref[row, start]))
            self._position[j] = position + 1
            kernels.advance(g, j, position + 1)
            return record

    def add_readers(self, readers: Iterable[int], j: int) -> bool:
        """Let each of `readers` that does not read yet start at the record that `j` gets next.

        Called by the thread of reader `j`.

        Parameters
        ----------
        readers : iterable of int
        j : int
            One that reads.

        Returns
        -------
        bool
            True if this call added them all. False if there was nothing to
            add, or if another thread is changing membership.

        Raises
        ------
        ParameterError
            There is no such reader, or `j` does not read.
        """
        chosen = self._slots("readers", readers, self._reader_locks)
        j = self._slot("j", j, self._reader_locks)
        kernels, g = self._kernels, self.arrays
        with self._membership() as changing:
            if not changing:
                return False
            if read_cell(g.reading, j * CELL) == 0:
                raise ParameterError(f"j = {j}: not a reader of this gate; readers are {sorted(self.readers)}")
            position = int(read_cell(g.cursor, j * CELL))
            added = 0
            for reader in chosen:
                with self._reader_locks[reader]:
                    if read_cell(g.reading, reader * CELL) == 0:
                        self._activation += 1
                        kernels.join_reader(g, reader, position, self._activation)
                        added += 1
            return added > 0

    def remove_readers(self, readers: Iterable[int]) -> bool:
        """Let each of `readers` stop reading; their positions no longer hold anything back.

        Without readers the gate fills up and then takes nothing.

        Returns
        -------
        bool
            True if this call removed them all. False if none of them reads, or
            if another thread is changing membership.
        """
        chosen = self._slots("readers", readers, self._reader_locks)
        kernels, g = self._kernels, self.arrays
        with self._membership() as changing:
            if not changing:
                return False
            removed = 0
            for reader in chosen:
                with self._reader_locks[reader]:
                    if read_cell(g.reading, reader * CELL) != 0:
                        kernels.leave_reader(g, reader)
                        removed += 1
            return removed > 0

    @contextlib.contextmanager
    def _membership(self) -> Iterator[bool]:
        """Keep other threads from changing membership meanwhile; gives False if one is changing it already."""
        if not self._kernels.open_membership(self.arrays):
            yield False
            return
        try:
            yield True
        finally:
            self._kernels.close_membership(self.arrays)

    # -- present state ---------------------------------------------------------------------------

    @property
    def sources(self) -> set[int]:
        """Sources that feed the gate now."""
        return {s for s in range(len(self._source_locks)) if read_cell(self.arrays.feeding, s * CELL)}

    @property
    def readers(self) -> set[int]:
        """Readers of the gate now."""
        return {r for r in range(len(self._reader_locks)) if read_cell(self.arrays.reading, r * CELL)}

    def floor(self, j: int) -> int:
        """The smallest time that source `j` may still add."""
        return self._mark(self._slot("j", j, self._source_locks))

    def _mark(self, source: int) -> int:
        return int(read_cell(self.arrays.mark, source * CELL))

    def _check_feeding(self, j: int) -> None:
        if not read_cell(self.arrays.feeding, j * CELL):
            raise ParameterError(f"j = {j}: not a source of this gate; call add_sources([{j}]) first")
        if self._closed[j]:
            raise ParameterError(f"j = {j}: this source is closed; add nothing after close")

    @staticmethod
    def _slot(name: str, value: Any, slots: list) -> int:
        return whole_number(name, value, 0, len(slots) - 1)

    @classmethod
    def _slots(cls, name: str, values: Any, slots: list) -> list[int]:
        try:
            listed = list(values)
        except TypeError:
            raise ParameterError(f"{name} = {values!r}: give a list of slot numbers") from None
        return sorted({cls._slot(name, value, slots) for value in listed})
