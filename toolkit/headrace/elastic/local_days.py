"""When the days of a time zone begin: the table that `local_days_kernel` looks into."""

from __future__ import annotations

import datetime
import functools
import zoneinfo

import numpy as np

from headrace.elastic.local_days_kernel import DAY_US

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SECOND = datetime.timedelta(seconds=1)
FIRST_YEAR, LAST_YEAR = 1900, 2100


def state_of(zone: str | None) -> dict[str, np.ndarray]:
    """Return the state fields that `local_days_kernel` reads; none where windows are not of local days."""
    if zone is None:
        return {}
    starts, first = day_starts(zone)
    return {"day_starts": starts, "first_day": np.array([first])}


@functools.lru_cache(maxsize=16)
def day_starts(zone: str) -> tuple[np.ndarray, int]:
    """Return when the days of a zone begin, and the number of the first day, counted from 1970-01-01.

    A day begins at the first instant with its date or a later one. So it ends where the next one
    begins, has 23 or 25 hours where clocks change, and is empty where the zone skips it.

    Returns
    -------
    starts : int64[n]
        Microseconds since 1970 in UTC, non-decreasing.
    first : int

    Examples
    --------
    >>> starts, first = day_starts("Europe/Paris")
    >>> day = (datetime.date(2026, 3, 29) - datetime.date(1970, 1, 1)).days - first
    >>> [int(hours) for hours in np.diff(starts[day - 1 : day + 2]) // 3_600_000_000]
    [24, 23]
    """
    where = zoneinfo.ZoneInfo(zone)
    first, last = (datetime.date(year, 1, 1).toordinal() for year in (FIRST_YEAR, LAST_YEAR))
    epoch = _EPOCH.date().toordinal()
    starts = np.empty(last - first, np.int64)
    for place, ordinal in enumerate(range(first, last)):
        # If midnight occurs twice, this is the first; if the clock skips it, the offset from before the change counts.
        midnight = datetime.datetime.fromordinal(ordinal).replace(tzinfo=where)
        seconds = (ordinal - epoch) * 86_400 - int(midnight.utcoffset() / _SECOND)
        if _date(where, seconds - 1) >= ordinal:
            seconds = _first_second(where, ordinal, seconds)
        starts[place] = seconds
    return np.maximum.accumulate(starts) * 1_000_000, first - epoch


def day_of(zone: str, ts: int) -> int:
    """Return which local day holds event time `ts`, as `local_days_kernel.to_units` does."""
    starts, first = day_starts(zone)
    place = min(max(int(np.searchsorted(starts, ts, "right")) - 1, 0), starts.size - 1)
    is_inside = 0 <= ts - int(starts[0]) and place < starts.size - 1
    return first + place + (0 if is_inside else (ts - int(starts[place])) // DAY_US)


def start_of(zone: str, day: int) -> int:
    """Return when a local day begins, as `local_days_kernel.to_time` does."""
    starts, first = day_starts(zone)
    place = min(max(day - first, 0), starts.size - 1)
    return int(starts[place]) + (day - first - place) * DAY_US


def _date(where: zoneinfo.ZoneInfo, seconds: int) -> int:
    return (_EPOCH + seconds * _SECOND).astimezone(where).toordinal()


def _first_second(where: zoneinfo.ZoneInfo, ordinal: int, after: int) -> int:
    """The first second with this date or a later one, where the clock was put forward from before midnight to past it."""
    low, high = after - 86_400, after
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _date(where, middle) >= ordinal else (middle, high)
    return high
