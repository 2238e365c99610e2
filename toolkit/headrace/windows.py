"""Windows of event time, and the durations that describe them.

Window l covers ``[l*WA, l*WA + WS)`` for every integer l, negative ones too,
with advance WA and size WS (STRETCH, section 2.1). Size 5, advance 2::

    time     -4 -3 -2 -1  0  1  2  3  4  5  6  7  8
    l = -2   [-------------)
    l = -1         [-------------)
    l =  0               [--------------)
    l =  1                     [--------------)

so time 1 lies in windows -1 and 0, and time 2 in -1, 0 and 1: WS need not be a
multiple of WA. Results of a window carry its right boundary as event time.

The functions on integers are plain Python that also compiles: a kernel file
says ``latest_index = kernel(windows.latest_index)``.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass

from headrace.errors import EventTimeError, OverflowInputError, ParameterError
from headrace.progress import END_OF_TIME

MOST_OPEN = 4096
"""Windows of one key that may be open at once."""

TIMESTAMP_UNIT = "us"
"""Unit of a timestamp column inside the engine."""

DEFAULT_TIME_UNIT = "ms"
"""Unit of an integer event-time column, unless ``time_unit`` says otherwise."""

NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
_DURATION = re.compile(r"\s*([+-]?[0-9]+)\s*([a-zA-Zµ]*)\s*")


def parse_time_unit(unit: str, name: str = "time_unit") -> str:
    """Return `unit` if it is one of ns, us, ms, s, min, h, d; else raise `ParameterError`."""
    if unit not in NANOSECONDS:
        raise ParameterError(f"{name} = {unit!r}: give one of {', '.join(NANOSECONDS)}")
    return unit


def parse_duration(duration: str | int, unit: str = DEFAULT_TIME_UNIT, name: str = "duration") -> int:
    """Turn a duration into a whole number of a unit.

    Parameters
    ----------
    duration : str or int
        A whole number with a unit, as ``"500ms" "60s" "30min" "1h" "2d"``, or
        without one (as an integer or in a string): then it is in `unit`.
    unit : str
        The stream's time unit, one of ns, us, ms, s, min, h, d.
    name : str
        The parameter it came from, for the error text.

    Returns
    -------
    int
        In `unit`, at least 0 and below 2**62.

    Raises
    ------
    ParameterError
        If it is not a duration, negative, not whole in `unit`, or too long.

    Examples
    --------
    >>> parse_duration("1h", "ms"), parse_duration("60s", "us"), parse_duration(5, "ms")
    (3600000, 60000000, 5)
    """
    parse_time_unit(unit)
    if isinstance(duration, str):
        match = _DURATION.fullmatch(duration)
        if not match or (match[2] and match[2] not in NANOSECONDS):
            raise ParameterError(
                f"{name} = {duration!r}: not a duration; give a whole number with a unit of"
                f" {', '.join(NANOSECONDS)}, such as '30min', or an integer in {unit}"
            )
        # A 62-bit count of days has 24 digits in ns; more digits need no parsing to be too many.
        count = int(match[1]) if len(match[1]) <= 24 else END_OF_TIME * NANOSECONDS["d"]
        units, rest = divmod(count * NANOSECONDS[match[2] or unit], NANOSECONDS[unit])
        if rest:
            raise ParameterError(
                f"{name} = {duration!r}: not a whole number of {unit}, the unit of this stream's time;"
                f" round it, or keep event time in a finer unit"
            )
    else:
        try:
            if isinstance(duration, bool):
                raise TypeError
            units = operator.index(duration)
        except TypeError:
            raise ParameterError(
                f"{name} = {duration!r}: not a duration; give one such as '30min' or an integer in {unit}"
            ) from None
    if units < 0:
        raise ParameterError(f"{name} = {duration!r}: must not be negative")
    if units >= END_OF_TIME:
        raise ParameterError(f"{name} = {duration!r}: too long; it must be below 2**62 {unit}")
    return units


@dataclass(frozen=True, slots=True)
class Window:
    """Size WS and advance WA, in the stream's time unit, with ``size >= advance > 0``.

    Examples
    --------
    >>> window = Window.parse("1h", "30min", unit="min")
    >>> window, window.is_overlapping
    (Window(size=60, advance=30), True)
    """

    size: int
    advance: int

    def __post_init__(self):
        for name in ("size", "advance"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise ParameterError(f"{name} = {value!r}: must be an integer; Window.parse takes durations")
            if (units := parse_duration(value, name=name)) < 1:
                raise ParameterError(f"{name} = {value}: must be at least 1; give a duration such as '30min'")
            object.__setattr__(self, name, units)
        if self.size < self.advance:
            raise ParameterError(
                f"size = {self.size} is below advance = {self.advance}: tuples between two windows would be"
                f" lost; give size >= advance"
            )

    @classmethod
    def parse(
        cls, size: str | int, advance: str | int | None = None, unit: str = DEFAULT_TIME_UNIT
    ) -> Window:
        """Make a window of durations; without `advance` windows follow each other without overlap."""
        size_units = parse_duration(size, unit, "size")
        return cls(size_units, size_units if advance is None else parse_duration(advance, unit, "advance"))

    @property
    def is_overlapping(self) -> bool:
        """Whether a tuple can fall in more than one window (a sliding window)."""
        return self.size > self.advance

    @property
    def open_at_once(self) -> int:
        """Windows that a tuple can fall into: ceil(WS / WA)."""
        return -(-self.size // self.advance)

    def check_open(self) -> None:
        """Raise `OverflowInputError` if more windows of a key would be open than there is room for."""
        if self.open_at_once > MOST_OPEN:
            raise OverflowInputError(
                f"size={self.size}, advance={self.advance}: {self.open_at_once:,} windows would be open for each key;"
                f" give advance >= size / {MOST_OPEN}"
            )

    def check_times(self, lowest: int, highest: int) -> None:
        """Raise `EventTimeError` unless ``|ts| + size < 2**62`` for both ends of a range."""
        for ts in (lowest, highest):
            if abs(ts) + self.size >= END_OF_TIME:
                raise EventTimeError(
                    f"event time {ts} with window size {self.size}: |event time| + size must be below 2**62;"
                    f" use a coarser time unit"
                )


def latest_index(ts: int, advance: int) -> int:
    """Return the largest l of a window that `ts` falls in."""
    return ts // advance


def earliest_index(ts: int, size: int, advance: int) -> int:
    """Return the smallest l of a window that `ts` falls in: the first with ``l*WA + WS > ts``."""
    return (ts - size) // advance + 1


def left_boundary(index: int, advance: int) -> int:
    """Return the first event time of window `index`."""
    return index * advance


def right_boundary(index: int, size: int, advance: int) -> int:
    """Return the first event time after window `index`; its results carry it."""
    return index * advance + size
