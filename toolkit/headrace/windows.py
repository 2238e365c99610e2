"""Windows of event time, and the durations that describe them.

Window l covers ``[l*WA, l*WA + WS)`` for every integer l, negative ones too,
with advance WA and size WS (STRETCH, section 2.1). Size 5, advance 2::

    time     -4 -3 -2 -1  0  1  2  3  4  5  6  7  8
    l = -2   [-------------)
    l = -1         [-------------)
    l =  0               [--------------)
    l =  1                     [--------------)

so time 1 lies in windows -1 and 0, and time 2 in -1, 0 and 1: WS need not be a
multiple of WA. The event time of a window's results is its right boundary.

The functions on integers are plain Python that also compiles: a kernel file
has ``latest_index = kernel(windows.latest_index)``.
"""

from __future__ import annotations

import datetime
import operator
import re
import zoneinfo
from dataclasses import dataclass
from typing import Any, TypeAlias

from headrace.arguments import is_number
from headrace.errors import OverflowInputError, ParameterError
from headrace.progress import END_OF_TIME

MOST_OPEN = 4096
"""Most windows of one key that are open at once."""

TIMESTAMP_UNIT = "us"
"""Unit of a timestamp column inside the engine."""

DEFAULT_TIME_UNIT = "ms"
"""Unit of an integer event-time column, by default of ``time_unit``."""

NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
_WORDS = {
    word: NANOSECONDS[unit]
    for unit, words in {
        "ns": "ns nanosecond nanoseconds",
        "us": "us µs μs microsecond microseconds",
        "ms": "ms millisecond milliseconds",
        "s": "s sec secs second seconds",
        "min": "min mins minute minutes",
        "h": "h hr hrs hour hours",
        "d": "d day days",
    }.items()
    for word in words.split()
} | dict.fromkeys(("w", "week", "weeks"), 7 * NANOSECONDS["d"])
"""Names of units in texts, in any case."""
_CALENDAR = ("month", "months", "quarter", "quarters", "y", "year", "years")
_NUMPY_UNITS = {"W": "w", "D": "d", "h": "h", "m": "min", "s": "s", "ms": "ms", "us": "us", "ns": "ns"}
_NUMPY_NAT = -(2**63)
_DURATION = re.compile(r"\s*([+-]?[0-9]+)\s*([a-zA-Zµμ]*)\s*")

Duration: TypeAlias = str | int | datetime.timedelta
"""What `parse_duration` takes; a `pandas.Timedelta` is a `datetime.timedelta`, and a `numpy.timedelta64` is taken, too."""


def parse_time_unit(unit: str, name: str = "time_unit") -> str:
    """Return `unit` if it is one of ns, us, ms, s, min, h, d; else raise `ParameterError`."""
    if not isinstance(unit, str) or unit not in NANOSECONDS:
        raise ParameterError(f"{name} = {unit!r}: give one of {', '.join(NANOSECONDS)}")
    return unit


def parse_duration(duration: Duration, unit: str = DEFAULT_TIME_UNIT, name: str = "duration") -> int:
    """Turn a duration into a whole number of a unit.

    Parameters
    ----------
    duration : str, timedelta or int
        A whole number with a unit, such as ``"500ms" "60s" "30min" "1h" "2d"`` or, in
        words, ``"90 seconds" "1 minute" "5 min" "2 weeks"``; a `datetime.timedelta`,
        `pandas.Timedelta` or `numpy.timedelta64`; or a number in `unit` (an
        integer, or a string of one).
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
        If it is not a duration, ambiguous, negative, not whole in `unit`, or too long.

    Examples
    --------
    >>> parse_duration("1h", "ms"), parse_duration("90 seconds", "us"), parse_duration(5, "ms")
    (3600000, 90000000, 5)
    >>> parse_duration(datetime.timedelta(minutes=1), "s"), parse_duration("2 hours", "min")
    (60, 120)
    """
    parse_time_unit(unit)
    found = _count_and_unit(duration, name)
    if found is None:
        hint = (
            f"give a whole number with a unit of {', '.join(NANOSECONDS)}, such as '30min', or an integer in {unit}"
            if isinstance(duration, str)
            else f"give one such as '30min', a timedelta, or an integer in {unit}"
        )
        raise ParameterError(f"{name} = {duration!r}: not a duration; {hint}")
    count, nanoseconds = found
    units, rest = divmod(count * (nanoseconds or NANOSECONDS[unit]), NANOSECONDS[unit])
    if rest:
        raise ParameterError(
            f"{name} = {duration!r}: not a whole number of {unit}, the unit of this stream's time;"
            f" round it, or keep event time in a finer unit"
        )
    if units < 0:
        raise ParameterError(f"{name} = {duration!r}: must not be negative")
    if units >= END_OF_TIME:
        raise ParameterError(f"{name} = {duration!r}: too long; it must be below 2**62 {unit}")
    return units


def parse_seconds(duration: Any, name: str) -> float:
    """Turn a wall-clock duration into seconds; it does not use a stream's time unit, so a number is in seconds.

    Examples
    --------
    >>> parse_seconds("200ms", "idle_after"), parse_seconds(1.5, "idle_after")
    (0.2, 1.5)
    """
    seconds = -1.0
    if is_number(duration) and not _is_numpys(duration):
        seconds = float(duration) if abs(duration) < 2**62 else -1.0
    elif (found := _count_and_unit(duration, name)) is not None and found[1] is not None:
        seconds = found[0] * found[1] / 1e9
    if not 0 <= seconds < END_OF_TIME:
        raise ParameterError(f"{name}={duration!r}: give a duration with its unit, such as '200ms', or seconds, from 0")
    return seconds


def _count_and_unit(duration: Any, name: str) -> tuple[int, int | None] | None:
    """Read a duration: how many, of how many nanoseconds each (None: of the stream's unit); None if it is none."""
    if hasattr(duration, "to_timedelta64"):  # pandas' Timedelta, which has nanoseconds
        duration = duration.to_timedelta64()
    if isinstance(duration, str):
        match = _DURATION.fullmatch(duration)
        if not match:
            return None
        number, word = match[1], match[2].lower()
        if word == "m":
            raise ParameterError(f"{name} = {duration!r}: 'm' may be minutes or months; write '{number}min' for minutes")
        if word in _CALENDAR:
            raise ParameterError(f"{name} = {duration!r}: {word!r} has no fixed length; give days, such as '30d'")
        if word and word not in _WORDS:
            return None
        # A 62-bit count of days has 24 digits in ns; more digits need no parsing to be too many.
        count = int(number) if len(number) <= 24 else END_OF_TIME * NANOSECONDS["d"]
        return count, _WORDS[word] if word else None
    if _is_numpys(duration):
        step, unit = re.search(r"\[(\d*)(\w+)\]|$", duration.dtype.str).groups()
        if unit in ("Y", "M"):
            raise ParameterError(f"{name} = {duration!r}: months and years have no fixed length; give days, such as '30d'")
        count = int(duration.astype("int64"))
        if unit not in _NUMPY_UNITS or count == _NUMPY_NAT:
            return None
        return count * int(step or 1), _WORDS[_NUMPY_UNITS[unit]]
    if isinstance(duration, datetime.timedelta):
        return duration // datetime.timedelta(microseconds=1), NANOSECONDS["us"]
    if isinstance(duration, bool):
        return None
    try:
        return operator.index(duration), None
    except TypeError:
        return None


def _is_numpys(duration: Any) -> bool:
    """Whether it is a `numpy.timedelta64`, which NumPy counts among the integers; known without NumPy, as this is a leaf."""
    return type(duration).__name__ == "timedelta64"


@dataclass(frozen=True, slots=True)
class Window:
    """Size WS and advance WA, in the stream's time unit, with ``size >= advance > 0``.

    With a `zone` both count days of that time zone, which begin at its midnights
    and have 23 or 25 hours when clocks change.

    Parameters
    ----------
    size, advance : int
        In the stream's time unit; with a zone, in days.
    zone : str, optional
        An IANA time zone, such as ``"Europe/Paris"``.

    Raises
    ------
    ParameterError
        One is below 1, or the size is below the advance.

    Notes
    -----
    STRETCH (Gulisano et al.), section 2.1: parameters WA and WS.

    Examples
    --------
    >>> window = Window.parse("1h", "30min", unit="min")
    >>> window, window.is_overlapping
    (Window(size=60, advance=30, zone=None), True)
    >>> Window.parse("7d", "1d", unit="us", zone="Europe/Paris")
    Window(size=7, advance=1, zone='Europe/Paris')
    """

    size: int
    advance: int
    zone: str | None = None

    def __post_init__(self):
        for name in ("size", "advance"):
            value = getattr(self, name)
            if isinstance(value, str | datetime.timedelta) or _is_numpys(value):
                raise ParameterError(f"{name} = {value!r}: must be an integer; Window.parse takes durations")
            if (units := parse_duration(value, name=name)) < 1:
                raise ParameterError(f"{name} = {value}: must be at least 1; give a duration such as '30min'")
            object.__setattr__(self, name, units)
        if self.size < self.advance:
            raise _gaps(self.size, self.advance)

    @classmethod
    def parse(
        cls,
        size: Duration,
        advance: Duration | None = None,
        unit: str = DEFAULT_TIME_UNIT,
        zone: str | None = None,
    ) -> Window:
        """Make a window from durations.

        Parameters
        ----------
        size : duration
            WS.
        advance : duration, optional
            WA; by default the size, so that windows follow each other without overlap.
        unit : str
            The stream's time unit.
        zone : str, optional
            A time zone, of whose days both are whole numbers.

        Raises
        ------
        ParameterError
            A duration cannot be read, or is no whole number of units, or of days of the zone; or there is no such zone.
        """
        units = [parse_duration(size, unit, "size")]
        units.append(units[0] if advance is None else parse_duration(advance, unit, "advance"))
        if zone is not None:
            _check_zone(zone)
            day = NANOSECONDS["d"] // NANOSECONDS[unit]
            for name, given, count in zip(("size", "advance"), (size, advance), units, strict=True):
                if count % day:
                    raise ParameterError(f"{name} = {given!r}: with zone= windows are of whole days; give '1d' or '7d'")
            units = [count // day for count in units]
        if units[0] < units[1]:
            raise _gaps(size, advance)
        return cls(*units, zone)

    @property
    def is_overlapping(self) -> bool:
        """Whether a tuple can fall in more than one window (a sliding window)."""
        return self.size > self.advance

    @property
    def longest(self) -> int:
        """The longest that a window can be, in the stream's unit: days of a zone add some hours, at most two days."""
        return self.size if self.zone is None else (self.size + 2) * (NANOSECONDS["d"] // NANOSECONDS[TIMESTAMP_UNIT])

    @property
    def open_at_once(self) -> int:
        """Windows that a tuple can fall into: ceil(WS / WA)."""
        return -(-self.size // self.advance)

    def check_open(self) -> None:
        """Raise `OverflowInputError` if more windows of a key would be open at once than there is room for."""
        if self.open_at_once > MOST_OPEN:
            raise OverflowInputError(
                f"size={self.size}, advance={self.advance}: {self.open_at_once:,} windows would be open for each key;"
                f" give advance >= size / {MOST_OPEN}"
            )


def _gaps(size: Duration, advance: Duration | None) -> ParameterError:
    return ParameterError(
        f"size = {size!r} is below advance = {advance!r}: tuples between two windows would be lost; give size >= advance"
    )


def _check_zone(zone: Any) -> None:
    try:
        zoneinfo.ZoneInfo(zone)
    except (ValueError, TypeError, OSError, LookupError):
        raise ParameterError(f"zone = {zone!r}: not a time zone known here; give a name such as 'Europe/Paris'") from None


def latest_index(ts: int, advance: int) -> int:
    """Return the largest index l of a window that contains `ts`."""
    return ts // advance


def earliest_index(ts: int, size: int, advance: int) -> int:
    """Return the smallest index l of a window that contains `ts`: the first with ``l*WA + WS > ts``."""
    return (ts - size) // advance + 1


def left_boundary(index: int, advance: int) -> int:
    """Return the first event time of window `index`."""
    return index * advance


def right_boundary(index: int, size: int, advance: int) -> int:
    """Return the first event time after window `index`, which is the event time of its results."""
    return index * advance + size
