"""Rows for the ordered applications with everything that is easily handled wrongly, drawn from a seed.

`nasty` mixes everything: nulls in every column but the event time, few keys so that rows meet, gaps of exactly the time-out
and a bit more, rows on both sides of hours and days, times below zero, equal event times, numbers at the ends of int64, event
times of every type, other column orders and unused columns. `right` is the other input of `declining`.

No sum leaves int64 in `nasty`; in `overflowing` one does.
"""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from headrace.apps.app import sources
from headrace.reference.ordering_apps import APPS

PLACES = ("caller_lat", "caller_lon", "callee_lat", "callee_lon")
COLUMNS = {
    "sold_together": {"ticket": "integer", "item": "integer"},
    "viewed_together": {"user": "integer", "item": "integer"},
    "viewed_before": {"user": "integer", "item": "integer", "kind": "text"},
    "abandoned": {"user": "integer", "kind": "text"},
    "declining": {"item": "integer", "amount": "integer"},
    "mobility": dict.fromkeys(("caller", "callee", "area"), "integer") | dict.fromkeys(PLACES, "float"),
}
"""Input columns of each application beside ``ts``."""

TIMES = [
    pa.int64(),
    pa.timestamp("us"),
    pa.timestamp("us", tz="UTC"),
    pa.timestamp("ms"),
    pa.timestamp("ms", tz="Europe/Rome"),
]
MOST, LEAST = 2**63 - 1, -(2**63)
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000

Draw = random.Random


def nasty(app: str, seed: int, rows: int = 600, odd_types: bool = False) -> pa.Table:
    """Return rows of an application.

    Parameters
    ----------
    app : str
        One of `COLUMNS`.
    seed : int
        ``TIMES[seed % 5]`` is the type of the event time.
    odd_types : bool
        Columns of other widths and codings, with the same values where these fit.
    """
    draw = Draw(f"{app} {seed}")
    made = [{name: _value(draw, name) for name in COLUMNS[app]} for _ in range(rows)]
    return table_of(app, _times(draw, rows), made, draw, TIMES[seed % len(TIMES)], odd_types)


def right(seed: int) -> pa.Table:
    """Return items with their categories: some items without a category, some categories without an item, no item twice."""
    draw = Draw(f"right {seed}")
    items = draw.sample([*range(-1, 9), MOST, LEAST, 2**32], 12)
    made = [{"item": item, "category": draw.choice([1, 1, 2, 3, -4, MOST, None])} for item in items]
    made += [{"item": None, "category": 1}, {"item": None, "category": 2}]
    draw.shuffle(made)
    return pa.Table.from_pylist(made, pa.schema({"item": pa.int64(), "category": pa.int64()}))


def expected(app: str, tables: list[pa.Table], other: pa.Table | None = None, **options: Any) -> list[dict[str, Any]]:
    """Return the reference's rows, with one source per table and event times as the engine's integers."""
    given = sources(tables, list(COLUMNS[app]))
    unit = "us" if pa.types.is_timestamp(tables[0].schema.field("ts").type) else "ms"
    others = [] if other is None else [other.to_pylist()]
    return APPS[app](given, *others, unit=unit, **options)


def table_of(
    app: str, ts: list[int], made: list[dict[str, Any]], draw: Draw, time: pa.DataType = TIMES[0], odd_types: bool = False
) -> pa.Table:
    """Return rows as a table, with event times in milliseconds and one more column."""
    whole = pa.array(ts, pa.int64())
    columns: dict[str, pa.Array] = {"ts": whole.cast(pa.timestamp("ms")).cast(time) if pa.types.is_timestamp(time) else whole}
    for name, how in COLUMNS[app].items():
        columns[name] = _array(draw, [row[name] for row in made], how, odd_types)
    columns["note"] = pa.array([draw.choice([None, "", "item"]) for _ in made], pa.string())
    table = pa.table({name: columns[name] for name in draw.sample(sorted(columns), len(columns))})
    cut = draw.randrange(len(made) + 1)
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)])  # two chunks of a slice each


def overflowing() -> pa.Table:
    """Return rows of `declining`, for `right` of any seed, the last of which takes a number beyond int64."""
    made = [{"item": item, "amount": MOST} for item in [*range(-1, 9), *range(-1, 9)]]
    return table_of("declining", [0] * len(made), made, Draw("overflowing"))


def _times(draw: Draw, rows: int) -> list[int]:
    at, ts = -8 * DAY - draw.randrange(DAY), []
    for _ in range(rows):
        step = draw.choice([0, 0, 0, 1, SECOND, MINUTE, 10 * MINUTE, HOUR, HOUR + 1, draw.randrange(5 * HOUR), None, None])
        if step is None:  # to the next full hour or day, or just before it
            size = draw.choice([HOUR, DAY])
            step = max(-at % size - draw.choice([0, 1]), 0)
        at += step
        ts.append(at)
    return ts


def _value(draw: Draw, name: str) -> Any:
    if draw.random() < 0.04:
        return None
    if name == "kind":
        return draw.choice(["view"] * 6 + ["cart", "buy", "buy", "search", "", "View", "buy "])
    if name == "amount":
        return draw.choice([0, 1, -1, draw.randrange(1_000), draw.randrange(10**9), -(10**9)])
    if name in PLACES:
        return draw.choice([0.0, -0.0, 45.5, 45.6, -45.5, 89.0, 179.9, float("nan")] if draw.random() < 0.3 else [45.5, 45.6])
    if name == "area":
        return draw.choice([1, 1, 1, 2, LEAST])
    if draw.random() < 0.03:
        return draw.choice([-1, LEAST, MOST, 2**32])
    return min(draw.randrange(9), draw.randrange(9)) if name == "item" else draw.randrange(5)


def _array(draw: Draw, values: list, how: str, odd_types: bool) -> pa.Array:
    array = pa.array(values, {"integer": pa.int64(), "text": pa.string(), "float": pa.float64()}[how])
    kinds = {
        "integer": [pa.int32(), pa.int16(), pa.uint64()],
        "text": [pa.large_string(), pa.dictionary(pa.int8(), pa.string())],
        "float": [],
    }[how]
    for kind in draw.sample(kinds, len(kinds)) if odd_types else []:
        try:
            return array.cast(kind)
        except pa.ArrowInvalid:  # a value does not fit
            continue
    return array
