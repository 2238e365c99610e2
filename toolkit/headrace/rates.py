"""How fast a source is played: rate schedules.

A schedule gives the number of tuples due by a moment, so each tuple has a deadline
counted from the start: a late wake-up is made up for and never delays the next
one. Tuples delayed by a full gate are delivered as soon as there is room, and count
as waiting meanwhile: a slow engine does not slow the schedule down.

    rate  ^          +------+
          |          |      |
          |  +-------+      +-----
          +-----------------------> seconds
             constant(a), phases([(2, a), (1, b), (1, a)]), bursts(a, b, every_s=3, length_s=1)

Examples
--------
>>> import headrace as hr, pyarrow as pa
>>> table = pa.table({"ts": range(400)})
>>> steps = hr.rates.phases([(0.1, 1_000), (0.1, 3_000)])
>>> with hr.stream(table, event_time="ts").forward().start(rate=steps) as run:
...     done = run.wait()
>>> round(steps.due_at(400), 3)
0.2
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from headrace.arguments import is_number
from headrace.errors import NotSupportedError, ParameterError


class RateSchedule(ABC):
    """Tuples per second over time, for each source; made by the functions of this module.

    Tuples are numbered from 0; the first is due at once.
    """

    @abstractmethod
    def due_by(self, seconds: float) -> int:
        """Number of tuples that are due within `seconds` of the start."""

    @abstractmethod
    def due_at(self, number: int) -> float:
        """When, in seconds after the start, tuple `number` is due; infinity if never."""

    @abstractmethod
    def rate_at(self, seconds: float) -> float:
        """Tuples per second that are due around the moment `seconds` after the start."""


class Phases(RateSchedule):
    """Constant rates one after another; then the last one goes on, or all are repeated."""

    def __init__(self, phases: Sequence[tuple[float, float]], repeat: bool = False):
        self.phases = tuple((_positive("seconds", seconds, math.inf), _rate(rate)) for seconds, rate in phases)
        if not self.phases:
            raise ParameterError("phases=[]: give at least one (seconds, tuples per second)")
        self.repeat = repeat
        last = self.phases[-1][1]
        if repeat and any(math.isinf(seconds) for seconds, _ in self.phases):
            raise ParameterError("phases: one that lasts for ever cannot be repeated; give it a length in seconds")
        if (last == 0 and not repeat) or all(rate == 0 for _, rate in self.phases):
            raise ParameterError(f"phases={list(self.phases)}: the last rate goes on for ever, so it must be above 0")
        # Totals of one round of the phases. The last phase is open-ended unless they repeat.
        closed = self.phases if repeat else self.phases[:-1]
        self._times = np.concatenate(([0.0], np.cumsum([seconds for seconds, _ in closed])))
        self._counts = np.concatenate(([0.0], np.cumsum([seconds * rate for seconds, rate in closed])))

    def _position(self, seconds: float) -> tuple[float, float]:
        """Tuples of the whole rounds before, and seconds into the present round."""
        if not self.repeat or seconds < self._times[-1]:
            return 0.0, seconds
        rounds = math.floor(seconds / self._times[-1])
        return rounds * float(self._counts[-1]), seconds - rounds * float(self._times[-1])

    def due_by(self, seconds):
        if seconds < 0:
            return 0
        before, within = self._position(seconds)
        i = min(int(np.searchsorted(self._times, within, side="right")) - 1, len(self.phases) - 1)
        due = before + self._counts[i] + (within - self._times[i]) * self.phases[i][1]
        rounding = 1e-9 * (1 + due)
        # Tuple n is due once the time of n tuples has passed; a tuple that would be due in a pause waits for its end.
        return int(due + rounding) + 1 if self.phases[i][1] > 0 else math.ceil(due - rounding)

    def due_at(self, number):
        rounding = 1e-9 * (1 + number)  # as in `due_by`: both must see a tuple on the same side of a pause
        rounds = math.floor((number + rounding) / self._counts[-1]) if self.repeat else 0
        left = max(0.0, number - rounds * float(self._counts[-1])) if rounds else float(number)
        # The phase in which the count is reached; phases of rate 0 have no tuple.
        i = min(int(np.searchsorted(self._counts, left + rounding, side="right")) - 1, len(self.phases) - 1)
        while self.phases[i][1] == 0:
            i -= 1
        start = rounds * float(self._times[-1]) if rounds else 0.0
        return start + float(self._times[i]) + max(0.0, left - float(self._counts[i])) / self.phases[i][1]

    def rate_at(self, seconds):
        _, within = self._position(max(0.0, seconds))
        return self.phases[min(int(np.searchsorted(self._times, within, side="right")) - 1, len(self.phases) - 1)][1]

    def __repr__(self) -> str:
        if len(self.phases) == 1 and not self.repeat:
            return f"constant({self.phases[0][1]:g})"
        return f"phases({[(s, r) for s, r in self.phases]}{', repeat=True' if self.repeat else ''})"


class RecordedTimes(RateSchedule):
    """Each tuple at its recorded time; after the last one the mean rate goes on."""

    def __init__(self, seconds: np.ndarray, speed: float):
        self.speed = speed
        self._times = (seconds - seconds[0]) / speed
        span = float(self._times[-1])
        self._mean = (len(seconds) - 1) / span if span > 0 else math.inf

    def due_by(self, seconds):
        if seconds < 0:
            return 0
        count = int(np.searchsorted(self._times, seconds, side="right"))
        if count < len(self._times) or math.isinf(self._mean):
            return count if count < len(self._times) else 1 << 62
        return count + int((seconds - float(self._times[-1])) * self._mean)

    def due_at(self, number):
        if number < len(self._times):
            return float(self._times[number])
        return float(self._times[-1]) + (number - len(self._times) + 1) / self._mean

    def rate_at(self, seconds):
        if seconds > self._times[-1]:
            return self._mean
        near = np.searchsorted(self._times, [seconds - 0.5, seconds + 0.5])
        return float(near[1] - near[0])

    def __repr__(self) -> str:
        return f"recorded({len(self._times)} times, speed={self.speed:g})"


class RecordedEvents(RateSchedule):
    """Each tuple at its own event time, which only the engine's player knows: a tuple's number does not determine it."""

    def __init__(self, speed: float):
        self.speed = speed

    def due_by(self, seconds):
        raise NotSupportedError("recorded(speed=...): what is due depends on the event times; give recorded(times)")

    due_at = rate_at = due_by

    def __repr__(self) -> str:
        return f"recorded(speed={self.speed:g})"


def constant(rate: float) -> RateSchedule:
    """Play at one rate.

    Parameters
    ----------
    rate : float
        Tuples per second and source, above 0.

    Raises
    ------
    ParameterError
        The rate is no number above 0.

    Examples
    --------
    >>> constant(100).due_at(50)
    0.5
    """
    return Phases([(math.inf, _positive("rate", rate, math.inf, open_end=True))])


def phases(steps: Iterable[tuple[float, float]], repeat: bool = False) -> RateSchedule:
    """Play at constant rates one after another, with abrupt changes.

    Parameters
    ----------
    steps : iterable of (seconds, tuples per second)
        A rate of 0 is a pause. The last rate goes on as long as there is input.
    repeat : bool
        Repeat the steps after the last one instead.

    Raises
    ------
    ParameterError
        There are no steps, a length is not above 0, a rate is negative, or a pause never ends.

    Examples
    --------
    >>> steps = phases([(2, 100), (1, 0), (2, 400)])
    >>> steps.rate_at(1.9), steps.rate_at(2.5), steps.due_at(200)
    (100.0, 0.0, 3.0)
    """
    return Phases([*steps], repeat)


def bursts(rate: float, burst: float, every_s: float, length_s: float) -> RateSchedule:
    """Play at one rate, with a burst at the end of each period.

    Parameters
    ----------
    rate, burst : float
        Tuples per second and source, outside and inside bursts; 0 is a pause.
    every_s : float
        Seconds of a period.
    length_s : float
        Seconds of the burst, the last ones of each period.

    Raises
    ------
    ParameterError
        A burst is not shorter than its period, a rate is negative, or both are 0.

    Examples
    --------
    >>> load = bursts(100, 1_000, every_s=3, length_s=1)
    >>> load.rate_at(1.9), load.rate_at(2.1), load.rate_at(3.1)
    (100.0, 1000.0, 100.0)
    """
    every_s = _positive("every_s", every_s)
    if not 0 < length_s < every_s:
        raise ParameterError(f"length_s={length_s!r}: give seconds above 0 and below every_s={every_s:g}")
    return Phases([(every_s - length_s, rate), (length_s, burst)], repeat=True)


def abrupt(
    lowest: float = 500,
    highest: float = 8_000,
    shortest_s: float = 100,
    longest_s: float = 300,
    total_s: float = 1_200,
    seed: int = 7,
) -> RateSchedule:
    """Play phases of random length and random constant rate.

    Parameters
    ----------
    lowest, highest : float
        Tuples per second and source.
    shortest_s, longest_s : float
        Seconds of a phase.
    total_s : float
        Seconds of all phases; the last rate goes on as long as there is input.
    seed : int

    Raises
    ------
    ParameterError
        A number is not above 0, or a pair does not rise.

    Notes
    -----
    STRETCH (Gulisano et al.), section 8.5, whose figures are the defaults: 20 minutes of phases of
    100 to 300 s with rates from 500 to 8,000 tuples per second. The same seed gives the same phases. The last phase, too,
    is at least `shortest_s` long, if the total can be divided like that.

    Examples
    --------
    >>> drawn = abrupt(seed=1)
    >>> 500 <= drawn.rate_at(0) <= 8_000, abrupt(seed=1).rate_at(600) == drawn.rate_at(600)
    (True, True)
    """
    draw = random.Random(seed)
    steps, left = [], _positive("total_s", total_s)
    shortest_s, longest_s = _positive("shortest_s", shortest_s), _positive("longest_s", longest_s)
    if not 0 < lowest <= highest or shortest_s > longest_s:
        raise ParameterError(
            f"lowest={lowest!r}, highest={highest!r}, shortest_s={shortest_s!r}, longest_s={longest_s!r}:"
            f" give rates above 0 and each pair in rising order"
        )
    while left > 0:
        seconds, fewest = draw.uniform(shortest_s, longest_s), math.ceil(left / longest_s)
        behind = left - seconds
        if behind < math.ceil(behind / longest_s) * shortest_s or behind < 0:  # no division into phases fits
            seconds = left / fewest
        steps.append((seconds, draw.uniform(lowest, highest)))
        left -= seconds
    return Phases(steps)


def recorded(times: Any = None, speed: float = 1.0) -> RateSchedule:
    """Play as recorded, `speed` times as fast.

    Parameters
    ----------
    times : array of float seconds, or of datetime64, optional
        When each tuple of a source arrived, not decreasing; by default the tuples' own event times.
        Event times of several sources are played from one common start, the earliest of them.
    speed : float
        2 plays an hour in half an hour.

    Raises
    ------
    ParameterError
        There is no time, one is not finite or before the one before it, or the speed is not above 0.

    Examples
    --------
    >>> recorded([10.0, 10.5, 12.5], speed=2).due_at(2)
    1.25
    """
    speed = _positive("speed", speed)
    if times is None:
        return RecordedEvents(speed)
    moments = np.asarray(times)
    if moments.dtype.kind == "M":
        moments = moments.astype("M8[us]").astype(np.int64) / 1e6
    moments = moments.astype(np.float64) if moments.dtype.kind in "iuf" else np.empty(0)
    if moments.ndim != 1 or not moments.size or not np.isfinite(moments).all() or (np.diff(moments) < 0).any():
        raise ParameterError("times: give at least one moment, in seconds or as datetime64, none before the one before")
    return RecordedTimes(moments, speed)


def schedule_of(rate: Any) -> RateSchedule | None:
    """Turn what `start(rate=...)` and `run.rate = ...` take into a schedule.

    Raises
    ------
    ParameterError
        The rate is not None, a number above 0, or a schedule.
    """
    if rate is None or isinstance(rate, RateSchedule):
        return rate
    if not is_number(rate) or not 0 < rate < math.inf:
        raise ParameterError(
            f"rate={rate!r}: give tuples per second and source, above 0, a schedule of headrace.rates, or None"
        )
    return constant(float(rate))


def _positive(name: str, value: Any, most: float = math.inf, open_end: bool = False) -> float:
    if not is_number(value) or not 0 < value <= most:
        raise ParameterError(f"{name}={value!r}: give a number above 0")
    if open_end and math.isinf(value):
        raise ParameterError(f"{name}={value!r}: give a number above 0 and below infinity")
    return float(value)


def _rate(value: Any) -> float:
    if not is_number(value) or not 0 <= value < math.inf:
        raise ParameterError(f"rate={value!r}: give tuples per second, from 0 (a pause)")
    return float(value)


__all__ = ["RateSchedule", "abrupt", "bursts", "constant", "phases", "recorded"]
