"""Days of a time zone, by the calendar of Python: what the windows of `Window.zone` count."""

from __future__ import annotations

import datetime
import functools
import zoneinfo

from headrace.windows import Window

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MINUTE = 60_000_000


def to_units(window: Window, ts: int) -> int:
    """Return event time as `window.size` counts it: itself, or the number of its local day."""
    return ts if window.zone is None else local_day(window.zone, ts)


def to_time(window: Window, units: int) -> int:
    """Return the first event time of a unit."""
    return units if window.zone is None else first_instant(window.zone, units)


def local_day(zone: str, ts: int) -> int:
    """Return the number of a local day, counted from 1970-01-01: the latest date the clock has shown by `ts`.

    (A clock that is set back past midnight shows the day before again; that is still the new day.)
    """
    return max(_date(zone, ts - minutes * _MINUTE) for minutes in range(120))


@functools.lru_cache(maxsize=4096)
def first_instant(zone: str, day: int) -> int:
    """Return the first minute of a local day, in microseconds: found by trying every one."""
    minute = (day - 2) * 1440
    while _date(zone, minute * _MINUTE) < day:
        minute += 1
    return minute * _MINUTE


def _date(zone: str, ts: int) -> int:
    instant = _EPOCH + datetime.timedelta(microseconds=ts)
    return instant.astimezone(zoneinfo.ZoneInfo(zone)).toordinal() - _EPOCH.toordinal()
