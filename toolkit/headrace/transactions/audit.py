"""Adds up columns whose sums tables are to conserve, during the run.

Sums can be taken only between two batches, so the executors pause for them. A separate thread asks for the pause, so a
reader of the metrics finds the newest sums and never waits for a batch. Pauses take at most a hundredth of the time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from headrace.metrics.balance import Conserved

EVERY_S = 0.5
"""Least seconds between two sums."""
SHARE = 0.01
"""Largest share of the time that sums may take."""


class _Found(NamedTuple):
    totals: dict[str, Any]
    position: int | None
    at_ns: int


class Audit:
    """Watches the sums of the columns that tables conserve.

    Parameters
    ----------
    memory : TableMemory
    rest : callable
        A context in which the executors rest between two batches; it gives the number of events executed, or None if the run
        is over.
    """

    def __init__(self, memory: Any, rest: Callable[[], AbstractContextManager[int | None]]):
        self._memory, self._rest = memory, rest
        self._over, self._lock = threading.Event(), threading.Lock()
        self._found = _Found(memory.totals(), 0, time.monotonic_ns())

    def run(self) -> None:
        """Add up again and again until the run is over; the body of a thread."""
        pause_s = EVERY_S
        while not self._over.wait(pause_s):
            with self._rest() as position:
                if position is None or self._over.is_set():
                    return
                begun_ns = time.monotonic_ns()
                found = _Found(self._memory.totals(), position, begun_ns)
            pause_s = max(EVERY_S, (time.monotonic_ns() - begun_ns) / 1e9 / SHARE)
            with self._lock:
                if not self._over.is_set():
                    self._found = found

    def close(self) -> None:
        """Add up once more: all events were executed, so nothing changes the tables any more."""
        with self._lock:
            self._over.set()
            self._found = _Found(self._memory.totals(), None, time.monotonic_ns())

    def stop(self) -> None:
        """The run was stopped, or is over: add up no more."""
        self._over.set()

    def conserved(self) -> tuple[Conserved, ...]:
        """Give the newest sums."""
        found = self._found
        age_s = 0.0 if found.position is None else (time.monotonic_ns() - found.at_ns) / 1e9
        return tuple(
            Conserved(f"{table}.{total.column}", total.first, total.now, found.position, age_s)
            for table, total in found.totals.items()
        )
