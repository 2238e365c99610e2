"""Result records held back until no record that precedes them in the output order can follow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from headrace.egress.records import HEAD_COLUMNS, Records
from headrace.memory.cells import reserved, touch
from headrace.progress import END_OF_TIME

FEW_ROWS = 4096
"""A release of this many rows costs about as much as one of a single row."""
_ROOM = 1 << 18
"""Records that there is room for from the start."""
KEPT_S = 10.0
"""More room stays for this long after a quarter of it was used: mostly the next window will use it again."""


class Held:
    """Records that wait for their release, in arrays that are reused: fresh memory costs more than writing to it.

    Parameters
    ----------
    dtypes : list of dtype or None
        Of `primary`, `a`, `b`, `c`, `at` and the values; None for a column that is not read.
    clock : callable
        Returns seconds.
    by_place : bool
        Records of one `primary` are released in the order of `a`, each as soon as no record before it can follow.
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
        """When more than a quarter of the room was last used."""
        self.count = 0
        self.earliest = END_OF_TIME
        """Smallest `primary` held."""
        self.first_place = 0
        """The smallest `a` of the records with that `primary`, where records are released by place."""

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
        """Update the smallest `primary`, and place, held with these records."""
        earliest = int(primary.min())
        if self._by_place and earliest <= self.earliest:
            assert a is not None
            place = int(a[primary == earliest].min())
            self.first_place = min(self.first_place, place) if earliest == self.earliest else place
        self.earliest = min(self.earliest, earliest)

    def is_due(self, bound: int, place: int) -> bool:
        """Whether some record may be released: `primary` up to `bound`, or bound + 1 and `a` below `place`."""
        return self.count > 0 and (self.earliest <= bound or (self.earliest == bound + 1 and self.first_place < place))

    @contextmanager
    def release(self, bound: int, place: int = 0) -> Iterator[Records]:
        """Take out records up to `bound`, and of bound + 1 those with `a` below `place`; readable within the context only."""
        held = [None if column is None else column[: self.count] for column in self._columns]
        first = held[0]
        assert first is not None
        is_ready = first <= bound
        index, rest = None, np.zeros(0, np.int64)
        if not is_ready.all():
            rest = np.flatnonzero(~is_ready)
            if place and held[1] is not None:  # mostly few are left to check
                goes = (first[rest] == bound + 1) & (held[1][rest] < place)
                is_ready[rest[goes]], rest = True, rest[~goes]
            index = np.flatnonzero(is_ready)
        yield Records(*held[:HEAD_COLUMNS], held[HEAD_COLUMNS:], index=index)
        self._keep(rest)

    def _keep(self, rest: np.ndarray) -> None:
        """Move the records that are left, at these positions, to the front."""
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
        """Copy the columns of the records held."""
        return [None if column is None else column[: self.count].copy() for column in self._columns]

    @property
    def values(self) -> list[np.ndarray]:
        """The value columns of the records held."""
        return [column[: self.count] for column in self._columns[HEAD_COLUMNS:] if column is not None]

    def _give_back(self, held: int) -> None:
        """Halve the room, down to that of the start, if for `KEPT_S` at most a quarter was used; `held` records used it last."""
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
