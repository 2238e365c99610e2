"""The applications of the command line, over plain rows; each reads like its line in the table.

Every function gives the rows of its output file as dicts, columns in order.
Durations are strings or integers in `unit`, the unit of the event times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headrace.reference import stateless
from headrace.reference.aggregates import aggregate
from headrace.reference.joins import band, join, self_join
from headrace.reference.order import Payload, Row, Source, merge
from headrace.windows import (
    DEFAULT_TIME_UNIT,
    TIMESTAMP_UNIT,
    Window,
    earliest_index,
    latest_index,
    parse_duration,
)

Duration = str | int

TOLL_COLUMNS = ("type", "vid", "xway", "lane", "dir", "seg")
"""The columns of Linear Road's tuples that `tolls` reads."""
POSITION_REPORT, EXIT_LANE = 0, 4
"""The type of a report, and the lane by which vehicles leave the road."""


def words_of(text: str | None) -> Sequence[str | None]:
    """Split at whitespace; a null text is a null word."""
    return [None] if text is None else text.split()


def pairs_of(text: str | None, distance: float) -> set[tuple[str, str] | None]:
    """Pair each word with those that follow it within `distance` words (which may be inf)."""
    if text is None:
        return {None}
    words = text.split()
    return {
        (words[i], words[j]) for i in range(len(words)) for j in range(i + 1, len(words)) if j - i <= distance
    }


def hashtags_of(text: str | None) -> Sequence[str | None]:
    """Return the words that start with # and have more, without that #."""
    if text is None:
        return [None]
    return [word[1:] for word in text.split() if word.startswith("#") and len(word) > 1]


def wordcount(
    sources: Sequence[Source],
    size: Duration = "120s",
    advance: Duration = "60s",
    unit: str = DEFAULT_TIME_UNIT,
    null_keys: str = "error",
) -> list[Payload]:
    """Count, for each word, the tuples whose text contains it (Operator 14)."""
    rows = aggregate(
        sources,
        Window.parse(size, advance, unit),
        lambda t: words_of(t["text"]),
        {"count": ("count", None)},
        null_keys=null_keys,
    )
    return [{"ts": row.ts, "word": row.key, **row.values} for row in rows]


def paircount(
    sources: Sequence[Source],
    distance: float = 3,
    size: Duration = "120s",
    advance: Duration = "60s",
    unit: str = DEFAULT_TIME_UNIT,
    null_keys: str = "error",
) -> list[Payload]:
    """Count, for each ordered pair of words at most `distance` apart, the tuples that contain it."""
    rows = aggregate(
        sources,
        Window.parse(size, advance, unit),
        lambda t: pairs_of(t["text"], distance),
        {"count": ("count", None)},
        null_keys=null_keys,
    )
    return [{"ts": row.ts, "first": row.key[0], "second": row.key[1], **row.values} for row in rows]


def longest(
    sources: Sequence[Source],
    size: Duration = "1h",
    advance: Duration = "30min",
    unit: str = DEFAULT_TIME_UNIT,
    null_keys: str = "error",
) -> list[Payload]:
    """Find, for each hashtag, the code points of the longest text with it (Operator 9)."""
    measured = [
        [(ts, {"tags": hashtags_of(t["text"]), "chars": len(t["text"] or "")}) for ts, t in source]
        for source in sources
    ]
    rows = aggregate(
        measured,
        Window.parse(size, advance, unit),
        lambda t: t["tags"],
        {"chars": ("max", "chars")},
        null_keys=null_keys,
    )
    return [{"ts": row.ts, "hashtag": row.key, **row.values} for row in rows]


def forward(sources: Sequence[Source]) -> list[Payload]:
    """Give the tuples of all sources in merged order (Operator 15)."""
    return [{"ts": ts, **payload} for ts, payload in stateless.forward(sources)]


def scalejoin(
    left: Sequence[Source],
    right: Sequence[Source],
    band_width: float = 10,
    size: Duration = "5min",
    unit: str = DEFAULT_TIME_UNIT,
) -> list[Payload]:
    """Join where ``|x - a|`` and ``|y - b|`` are at most `band_width` (Operator 10, section 8.3)."""
    x_near_a, y_near_b = band("x", "a", band_width), band("y", "b", band_width)
    matches = join(
        left, right, parse_duration(size, unit, "size"), lambda tl, tr: x_near_a(tl, tr) and y_near_b(tl, tr)
    )
    return [
        {"ts": m.ts}
        | {name: m.left[name] for name in ("x", "y")}
        | {name: m.right[name] for name in ("a", "b", "c", "d")}
        for m in matches
    ]


def normalized_distance(t: Payload) -> float | None:
    """Return ND = (price - average) / average in float64; null if that has no value."""
    price, average = t["price"], t["average"]
    if price is None or average is None or average == 0:
        return None
    return (float(price) - float(average)) / float(average)


def is_hedge(tl: Payload, tr: Payload) -> bool:
    """Whether two trades of different ids have moved by about the same in opposite directions."""
    nd_l, nd_r = normalized_distance(tl), normalized_distance(tr)
    if nd_l is None or nd_r is None or nd_l == 0 or tl["id"] is None or tr["id"] is None:
        return False
    return tl["id"] != tr["id"] and -1.05 <= nd_r / nd_l <= -0.95


def hedge(sources: Sequence[Source], size: Duration = "30s", unit: str = DEFAULT_TIME_UNIT) -> list[Payload]:
    """Join trades with themselves where one hedges the other (section 8.6)."""
    return [
        {
            "ts": m.ts,
            "l_id": m.left["id"],
            "l_price": m.left["price"],
            "r_id": m.right["id"],
            "r_price": m.right["price"],
        }
        for m in self_join(sources, parse_duration(size, unit, "size"), is_hedge)
    ]


def departures(rows: Iterable[Payload]) -> list[tuple[int, Payload]]:
    """Make a source of flights: ts = `time_hour` (us since 1970, UTC) + `minute`, stably sorted."""
    source = [(row["time_hour"] + row["minute"] * 60_000_000, row) for row in rows]
    return sorted(source, key=lambda entry: entry[0])


def flights(
    sources: Sequence[Source],
    size: Duration = "1h",
    advance: Duration = "1h",
    unit: str = TIMESTAMP_UNIT,
    null_keys: str = "error",
) -> list[Payload]:
    """Count the flights from or to each airport, with the worst departure delay."""
    rows: list[Row] = aggregate(
        sources,
        Window.parse(size, advance, unit),
        lambda t: {t["origin"], t["dest"]},
        {"flights": ("count", None), "worst_delay": ("max", "dep_delay")},
        null_keys=null_keys,
    )
    return [{"ts": row.ts, "airport": row.key, **row.values} for row in rows]


def tolls(
    sources: Sequence[Source],
    size: Duration = "5min",
    advance: Duration = "1min",
    free: int = 50,
    timeout: Duration = "60s",
    unit: str = DEFAULT_TIME_UNIT,
) -> list[Payload]:
    """Charge each segment by the vehicles that came to it or went from it within a window (Viper, Figure 1).

    A vehicle enters with its first report on a road (`xway`, `dir`), or the first after a longer pause than `timeout`; it
    leaves with a report from the exit lane; in between, it moves with each report from another segment than the last. A
    report counts at the end of its second. A tuple that is not a position report, or lacks a value, is ignored.
    """
    longest, second = parse_duration(timeout, unit, "timeout"), parse_duration("1s", unit)
    window = Window.parse(size, advance, unit)
    on_road: dict[tuple, tuple[int, int]] = {}  # (vehicle, road) -> its last report's time and segment
    moved: dict[tuple[int, int, int, int], set[int]] = {}  # (end of the window, road, segment) -> vehicles
    for t in merge(sources):
        kind, vid, xway, lane, direction, seg = (t.payload[name] for name in TOLL_COLUMNS)
        if kind != POSITION_REPORT or None in (vid, xway, lane, direction, seg):
            continue
        last = on_road.pop((vid, xway, direction), None)
        has_entered = last is None or t.ts - last[0] > longest
        segments = {seg} if last is None or has_entered else {seg, last[1]}
        has_left = lane == EXIT_LANE
        if not has_left:
            on_road[vid, xway, direction] = (t.ts, seg)
        if not (has_entered or has_left or len(segments) == 2):
            continue
        counts_at = (t.ts // second + 1) * second
        earliest = earliest_index(counts_at, window.size, window.advance)
        for index in range(earliest, latest_index(counts_at, window.advance) + 1):
            for segment in segments:
                end = index * window.advance + window.size
                moved.setdefault((end, xway, direction, segment), set()).add(vid)
    return [
        {
            "ts": ts, "xway": xway, "dir": direction, "seg": seg, "vehicles": len(vehicles),
            "toll": 2 * max(len(vehicles) - free, 0) ** 2,
        }
        for (ts, xway, direction, seg), vehicles in sorted(moved.items(), key=lambda entry: entry[0])
    ]  # fmt: skip


APPS: dict[str, Any] = {
    "wordcount": wordcount,
    "paircount": paircount,
    "longest": longest,
    "forward": forward,
    "scalejoin": scalejoin,
    "hedge": hedge,
    "tolls": tolls,
    "flights": flights,
}
"""Name on the command line -> reference."""
