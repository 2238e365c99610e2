"""Following a rate schedule without drift: how many tuples a source may add by now, and how long to wait.

Every deadline counts from the beginning of the schedule, never from the previous
tuple, so that oversleeping one deadline does not delay the next. What is due is
granted all at once, and then nothing for a while: at high rates some tuples are
always due, and a feeder that added them a few at a time would never sleep.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

import numpy as np

from headrace.rates import RateSchedule, RecordedEvents

REST_S = 500e-6
"""Least time between two grants of a source: to wake for each of 42,000 tuples/s took a quarter of a core. At 1.4 M tuples/s
the feeder of a pipeline took 0.8 of a core without it."""
TOGETHER_S = 1.0
"""Sources whose first tuples come within this time start together, and the later ones catch up: otherwise the tuples of one
source would always wait for those of the others. With 200 sources, the last one was read some 0.3 s after the first."""


class Player:
    """Tells the feeder of an inlet how far its schedule has come. One thread calls `due`; any may set or read.

    Parameters
    ----------
    schedule : RateSchedule or None
    origin : Origin, optional
        Shared by the sources of a run that plays event times.
    unit_ns : int
        Nanoseconds of a unit of the stream's event time.
    clock : callable
        Returns seconds that never decrease.
    rest_s : float
        Least time between two grants, in seconds.
    """

    def __init__(
        self,
        schedule: RateSchedule | None,
        origin: Origin | None = None,
        unit_ns: int = 1_000_000,
        clock: Callable[[], float] = time.monotonic,
        rest_s: float = REST_S,
    ):
        self._clock, self.rest_s = clock, rest_s
        self._origin = Origin() if origin is None else origin
        self._unit_s = unit_ns / 1e9
        self._lock = threading.Lock()
        self._has_begun = False
        self._next_ts: int | None = None  # event time of the tuple last asked for, where event times are played
        # Schedule, when it began, tuples before it. Replaced as a whole, so that a reader sees matching values.
        self._plan: tuple[RateSchedule | None, float, int] = (schedule, 0.0, 0)
        # What `due` granted by which plan: tuples below this number, or before this event time.
        self._granted: float = -math.inf
        self._granted_by = self._plan
        self._next_grant_s = -math.inf

    @property
    def schedule(self) -> RateSchedule | None:
        return self._plan[0]

    def play(self, schedule: RateSchedule | None, added: int) -> None:
        """Follow another schedule from now on; `added` tuples were added before it."""
        with self._lock:
            self._plan = (schedule, self._clock(), added) if self._has_begun else (schedule, 0.0, 0)
        if isinstance(schedule, RecordedEvents):
            self._origin.restart()

    def begin(self) -> None:
        """The first tuple is there: the schedule's time starts."""
        with self._lock:
            if not self._has_begun:
                self._has_begun = True
                self._plan = (self._plan[0], self._origin.begun(self._clock()), 0)

    def due(self, added: int, ts: np.ndarray, done: int) -> tuple[int, float]:
        """Return how many tuples from `done` on may be added now, and how long to wait if none may.

        Parameters
        ----------
        added : int
            Tuples added so far.
        ts : int64[n]
            Event times of the batch.
        done : int
            Tuples of the batch that were added.
        """
        plan = self._plan
        schedule, _, base = plan
        if schedule is None:
            return len(ts) - done, 0.0
        is_by_time = isinstance(schedule, RecordedEvents)
        position = added - base
        if is_by_time:
            position = self._next_ts = int(ts[done])
        if plan is not self._granted_by:
            self._granted, self._granted_by, self._next_grant_s = -math.inf, plan, -math.inf
        if position >= self._granted:
            now = self._clock()
            reached, wait_s = self._reached(plan, now, position)
            if position >= reached or now < self._next_grant_s:
                return 0, max(0.0, wait_s, self._next_grant_s - now)
            self._granted, self._next_grant_s = reached, now + self.rest_s
        if is_by_time:
            return int(np.searchsorted(ts[done:], self._granted, side="left")), 0.0
        return min(int(self._granted) - position, len(ts) - done), 0.0

    def _reached(self, plan: tuple[RateSchedule | None, float, int], now: float, position: int) -> tuple[int, float]:
        """Return how far the schedule has come, as `_granted`, and how long it takes to `position`."""
        schedule, since, _ = plan
        assert schedule is not None
        if not isinstance(schedule, RecordedEvents):
            return schedule.due_by(now - since), schedule.due_at(position) - (now - since)
        passed, first = self._origin.passed(now, position)
        until = first + int(passed * schedule.speed / self._unit_s)
        return until + 1, (position - until) * self._unit_s / schedule.speed

    def behind(self, added: int, at_s: float | None = None) -> int:
        """Tuples that are due but not yet added, now or at a given time; 0 where event times are played."""
        schedule, since, base = self._plan
        if schedule is None or isinstance(schedule, RecordedEvents) or not since:
            return 0
        now = self._clock() if at_s is None else at_s
        return max(0, schedule.due_by(now - since) - (added - base) - 1)

    def lag_s(self, added: int, at_s: float | None = None) -> float:
        """How long the next tuple has been due, in seconds: 0 if it is not; NaN without a schedule."""
        schedule, since, base = self._plan
        if schedule is None:
            return math.nan
        if not since:
            return 0.0
        now = self._clock() if at_s is None else at_s
        if isinstance(schedule, RecordedEvents):
            if self._next_ts is None:
                return 0.0
            passed, first = self._origin.passed(now, self._next_ts)
            return max(0.0, passed - (self._next_ts - first) * self._unit_s / schedule.speed)
        return max(0.0, now - since - schedule.due_at(added - base))

    @property
    def rate(self) -> float | None:
        """Tuples per second in force; None without a schedule and where event times are played."""
        schedule, since, _ = self._plan
        if schedule is None or isinstance(schedule, RecordedEvents):
            return None
        return schedule.rate_at(self._clock() - since if since else 0.0)


class Origin:
    """The common start of a run's sources; of those that play event times, the earliest of their first tuples."""

    def __init__(self):
        self._lock = threading.Lock()
        self._begun_s: float | None = None
        self._first: int | None = None
        self._at_s = 0.0

    def begun(self, now: float) -> float:
        """Return when the time of a source starts whose first tuple is there `now`."""
        with self._lock:
            if self._begun_s is None:
                self._begun_s = now
            return self._begun_s if now - self._begun_s < TOGETHER_S else now

    def restart(self) -> None:
        """Start again at the next tuple."""
        with self._lock:
            self._first = None

    def passed(self, now: float, ts: int) -> tuple[float, int]:
        """Return the seconds since the start, and the event time of the start; an earlier `ts` moves that back."""
        with self._lock:
            if self._first is None:
                self._first, self._at_s = ts, now
            self._first = min(self._first, ts)
            return now - self._at_s, self._first
