"""How a Python thread spends its time: booked by the thread itself, read by any.

The time of an engine's workers is booked by their kernels (`headrace.workers.worker_kernel`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence


class TimeSpent:
    """Nanoseconds in each of several states. One thread switches from one to the next; any thread may read.

    Parameters
    ----------
    states : sequence of str
        The thread is in none of them until its first turn.
    clock : callable
        Returns nanoseconds that never decrease.

    Examples
    --------
    >>> ticks = iter([0, 10, 15, 16])
    >>> spent = TimeSpent(("waiting", "working"), clock=lambda: next(ticks))
    >>> spent.turn("waiting"); spent.turn("working"); spent.stop(); spent.read()
    {'waiting': 10, 'working': 5}
    """

    def __init__(self, states: Sequence[str], clock: Callable[[], int] = time.monotonic_ns):
        self._clock = clock
        self._ns = dict.fromkeys(states, 0)
        # State and since when, replaced as a whole, after the time before has been booked.
        self._now: tuple[str, int] | None = None

    def turn(self, state: str) -> None:
        """Switch to a state: the thread is in it from now on."""
        if self._now is not None and self._now[0] == state:
            return
        now = self._book()
        self._now = state, now

    def stop(self) -> None:
        """Note that the thread has ended."""
        self._book()
        self._now = None

    def _book(self) -> int:
        now = self._clock()
        if self._now is not None:
            state, since = self._now
            self._now = state, now  # first, so that a reader in between misses a moment rather than counting it twice
            self._ns[state] += now - since
        return now

    def read(self, until_ns: int = 0) -> dict[str, int]:
        """Return nanoseconds by state, with the present state counted up to a time; 0: now."""
        present = self._now
        found = dict(self._ns)
        if present is not None and present is self._now:
            found[present[0]] += max(0, (until_ns or self._clock()) - present[1])
        return found
