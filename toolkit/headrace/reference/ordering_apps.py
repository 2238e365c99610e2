"""The ordered applications of the command line (Prasaad, Ramalingam, Rajan, Table 1 and Figure 1), over plain rows.

They say what the result is, not by which stages: loops, dicts and sorting over all rows, sharing nothing with
`headrace.reference.ordering`, so that a chain of stages can be compared with them.

Every function gives the rows of its output file as dicts, columns in order. A row with a null in a column that the function
reads is dropped; one without an event time raises EventTimeError. Durations are strings or integers in `unit`, the unit of the
event times. Hours and days are ``floor(ts / size)``, below zero too. An integer that leaves int64 raises OverflowError.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from headrace.errors import ParameterError
from headrace.reference.order import Payload, Source, Tuple, merge
from headrace.reference.transactions import check_range
from headrace.windows import DEFAULT_TIME_UNIT, Duration, Window, parse_duration

EARTH_KM = 6371.0088
Pair = tuple[int, int]


def sold_together(
    sources: Sequence[Source], top: int = 100, size: Duration = "1h", unit: str = DEFAULT_TIME_UNIT
) -> list[Payload]:
    """Rank the pairs of items by the tickets of the hour that have both (TPCx-BB, query 1)."""
    width = _width(size, unit)
    hours: dict[int, dict[int, set[int]]] = {}  # hour -> ticket -> its items of that hour
    for t in _whole(sources, "ticket", "item"):
        hours.setdefault(t.ts // width, {}).setdefault(t.payload["ticket"], set()).add(t.payload["item"])
    rows = []
    for hour in sorted(hours):
        counts = Counter(pair for items in hours[hour].values() for pair in combinations(sorted(items), 2))
        rows += _top(counts, top, (hour + 1) * width)
    return rows


def viewed_together(
    sources: Sequence[Source],
    top: int = 30,
    size: Duration = "1d",
    timeout: Duration = "60min",
    unit: str = DEFAULT_TIME_UNIT,
) -> list[Payload]:
    """Rank the pairs of items by how often sessions met both, for each day (query 2)."""
    width, longest = _width(size, unit), parse_duration(timeout, unit, "timeout")
    last: dict[int, int] = {}  # user -> last click
    sessions: dict[int, set[int]] = {}  # user -> items of the session
    days: dict[int, Counter[Pair]] = {}
    for t in _whole(sources, "user", "item"):
        user, item = t.payload["user"], t.payload["item"]
        if user not in sessions or t.ts - last[user] > longest:
            sessions[user] = set()
        if item not in sessions[user]:
            met = days.setdefault(t.ts // width, Counter())
            met.update((min(item, one), max(item, one)) for one in sessions[user])
            sessions[user].add(item)
        last[user] = t.ts
    return [row for day in sorted(days) for row in _top(days[day], top, (day + 1) * width)]


def viewed_before(
    sources: Sequence[Source],
    top: int = 30,
    last: int = 5,
    within: Duration = "10d",
    unit: str = DEFAULT_TIME_UNIT,
) -> list[Payload]:
    """Count, for each item, what its buyers had viewed shortly before, and tell what is among the most frequent (query 3)."""
    span = parse_duration(within, unit, "within")
    views: dict[int, deque[tuple[int, int]]] = {}  # user -> last views: time, item
    counts: dict[int, Counter[int]] = {}  # item -> what was viewed before it was bought
    rows = []
    for t in _whole(sources, "user", "item", "kind"):
        user, item, kind = t.payload["user"], t.payload["item"], t.payload["kind"]
        if kind == "view":
            views.setdefault(user, deque(maxlen=last)).append((t.ts, item))
        elif kind == "buy":
            recent = {viewed for ts, viewed in views.get(user, ()) if ts >= t.ts - span}
            of_item = counts.setdefault(item, Counter())
            for viewed in sorted(recent - {item}):
                of_item[viewed] += 1
                mine = (-of_item[viewed], viewed)
                rank = 1 + sum((-number, other) < mine for other, number in of_item.items())
                if rank <= top:
                    rows.append({"ts": t.ts, "item": item, "viewed": viewed, "views": of_item[viewed], "rank": rank})
    return rows


def abandoned(sources: Sequence[Source], timeout: Duration = "60min", unit: str = DEFAULT_TIME_UNIT) -> list[Payload]:
    """Count the sessions that put something into the cart and bought nothing, and their clicks (query 4)."""
    longest = parse_duration(timeout, unit, "timeout")
    sessions: dict[int, tuple[int, list[str]]] = {}  # user -> last click, kinds of all
    rows, pages = [], 0
    for t in _whole(sources, "user", "kind"):
        user = t.payload["user"]
        last, kinds = sessions.get(user, (t.ts, []))
        if t.ts - last > longest:
            if "cart" in kinds and "buy" not in kinds:
                pages += len(kinds)
                number = len(rows) + 1
                rows.append({"ts": t.ts, "sessions": number, "mean_pages": float(pages) / float(number)})
            kinds = []
        kinds.append(t.payload["kind"])
        sessions[user] = t.ts, kinds
    return rows


def declining(
    sources: Sequence[Source], right: Iterable[Mapping[str, Any]], unit: str = DEFAULT_TIME_UNIT
) -> list[Payload]:
    """Find the categories whose daily sums do not grow, by regression over all their finished days (query 15).

    Parameters
    ----------
    right : rows with item and category
        An item whose category is null has none; a row whose item is null does not count. They have no event time.

    Raises
    ------
    ParameterError
        If an item is there twice.
    """
    category_of: dict[int, int | None] = {}
    for row in right:
        if row["item"] is not None:
            if row["item"] in category_of:
                raise ParameterError(f"item {row['item']} is there twice: an item has one category")
            category_of[row["item"]] = row["category"]
    width = parse_duration("1d", unit)
    finished: dict[int, list[Pair]] = {}  # category -> day since its first one, sum of the day
    current: dict[int, tuple[int, int, int]] = {}  # category -> first day, day, its sum so far
    rows = []
    for t in _whole(sources, "item", "amount"):
        category, day = category_of.get(t.payload["item"]), t.ts // width
        if category is None:
            continue
        first, open_day, total = current.get(category, (day, day, 0))
        if day > open_day:
            days = finished.setdefault(category, [])
            days.append((open_day - first, total))
            total = 0
            if len(days) >= 2 and (slope := _slope(days)) <= 0:
                rows.append({"ts": t.ts, "category": category, "days": len(days), "slope": slope})
        current[category] = first, day, _int64(total + t.payload["amount"])
    return rows


def _slope(points: Sequence[Pair]) -> float:
    """Regress y on x by least squares: integers, each within int64, until the division, which rounds once."""
    n, sx, sy, sxx, sxy = len(points), 0, 0, 0, 0
    for x, y in points:
        sx, sy = _int64(sx + x), _int64(sy + y)
        sxx, sxy = _int64(sxx + _int64(x * x)), _int64(sxy + _int64(x * y))
    above = _int64(_int64(n * sxy) - _int64(sx * sy))
    below = _int64(_int64(n * sxx) - _int64(sx * sx))
    return above / below


def mobility(
    sources: Sequence[Source],
    area: int | None = None,
    speed: float = 900,
    size: Duration = "1h",
    unit: str = DEFAULT_TIME_UNIT,
) -> list[Payload]:
    """Count, for each hour, the times that a phone was elsewhere sooner than it can have got there (Figure 1)."""
    width, hour = _width(size, unit), parse_duration("1h", unit)
    places: dict[int, tuple[int, float, float]] = {}  # phone -> when and where it was last
    frauds: Counter[int] = Counter()
    columns = ("caller_lat", "caller_lon", "callee_lat", "callee_lon")
    for t in _whole(sources, "caller", "callee", "area", *columns):
        if area is not None and t.payload["area"] != area:
            continue
        for who in ("caller", "callee"):
            phone, lat, lon = (t.payload[name] for name in (who, f"{who}_lat", f"{who}_lon"))
            if phone in places and _speed(*places[phone], t.ts, lat, lon, hour) > speed:
                frauds[t.ts // width] += 1
            places[phone] = t.ts, lat, lon
    return [{"ts": _int64((at + 1) * width), "frauds": frauds[at]} for at in sorted(frauds)]


def _speed(before: int, lat_1: float, lon_1: float, now: int, lat_2: float, lon_2: float, hour: int) -> float:
    """Return km/h; at the same time 0 in the same place, else infinite."""
    if now == before:
        return 0.0 if lat_1 == lat_2 and lon_1 == lon_2 else math.inf
    return haversine(lat_1, lon_1, lat_2, lon_2) / (float(now - before) / float(hour))


def haversine(lat_1: float, lon_1: float, lat_2: float, lon_2: float) -> float:
    """Return the distance of two points on a sphere of the Earth's size, in km.

    NaN where a coordinate, or the difference of two, is no finite number.

    Examples
    --------
    >>> round(haversine(48.8566, 2.3522, 51.5074, -0.1278), 1)
    343.6
    """
    if not all(map(math.isfinite, (lat_1, lon_1, lat_2, lon_2, lon_2 - lon_1))):
        return math.nan
    phi_1, phi_2 = math.radians(lat_1), math.radians(lat_2)
    across, along = math.sin((phi_2 - phi_1) / 2.0), math.sin(math.radians(lon_2 - lon_1) / 2.0)
    half = across * across + math.cos(phi_1) * math.cos(phi_2) * along * along
    # rounding may leave the range of the root and of the arc sine
    return 2.0 * EARTH_KM * math.asin(math.sqrt(min(max(half, 0.0), 1.0)))


APPS: dict[str, Callable[..., list[Payload]]] = {
    "sold_together": sold_together,
    "viewed_together": viewed_together,
    "viewed_before": viewed_before,
    "abandoned": abandoned,
    "declining": declining,
    "mobility": mobility,
}
"""Name on the command line -> reference."""


def _whole(sources: Sequence[Source], *names: str) -> Iterator[Tuple]:
    """Merge the sources, and leave out the rows that have a null in one of the columns."""
    return (t for t in merge(sources) if all(t.payload[name] is not None for name in names))


def _width(size: Duration, unit: str) -> int:
    return Window.parse(size, size, unit).size


def _top(counts: Mapping[Pair, int], top: int, ts: int) -> list[Payload]:
    """Return the most frequent pairs; of equally frequent ones the least first."""
    ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:top]
    _int64(ts)
    return [{"ts": ts, "rank": at, "a": a, "b": b, "count": n} for at, ((a, b), n) in enumerate(ranked, start=1)]


def _int64(number: int) -> int:
    check_range(number, "an integer")
    return number
