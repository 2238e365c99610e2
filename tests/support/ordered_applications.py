"""Rows for the ordered applications with everything that is easily handled wrongly, drawn from a seed.

`nasty` mixes nulls in every column, items twice on a ticket, repeated clicks on one item, pauses of exactly the
time-out and one unit more, equal event times that begin far below zero, windows without rows or pairs, items without a
category, places that are not numbers, phones that call themselves, huge ids; other column orders and unused columns.
`PARAMETERS` make windows of a few dozen rows, and rankings shorter than what is ranked.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from headrace.apps import APPS
from headrace.apps.app import sources

PARAMETERS: dict[str, dict[str, Any]] = {
    "sold_together": {"size": "100", "top": 3},
    "viewed_together": {"size": "100", "top": 4, "timeout": "15"},
    "viewed_before": {"top": 3, "last": 3, "within": "40"},
    "abandoned": {"timeout": "15"},
    "declining": {},
    "mobility": {"size": "1h", "speed": 900.0},
}
"""Parameters of each application; integers are in the unit of the event times, so that one compilation serves several units."""

NAMES = list(PARAMETERS)
MINUTE, HOUR = 60_000, 3_600_000
STEPS = {"declining": 4 * HOUR, "mobility": MINUTE}
"""At least so many milliseconds between two event times, where the application has a unit of its own."""

MOST, LEAST = 2**63 - 1, -(2**63)
CATEGORIES = pa.table(
    {
        "note": ["x"] * 9,
        "category": pa.array([1, 1, 2, LEAST, 2, None, 1, 3, 4], pa.int64()),
        "item": pa.array([0, 1, 2, 3, MOST, 5, None, 4, 99], pa.int64()),
    }
)
"""Items and their categories; item 5 has a row without one, and one row has no item."""

Draw = random.Random


def nasty(app: str, seed: int, rows: int = 600, time: pa.DataType | None = None, odd_types: bool = False) -> pa.Table:
    """Return rows of an application, with a null now and then.

    Parameters
    ----------
    app : str
    seed : int
        Odd seeds draw from many keys, even ones from few.
    time : pa.DataType
        Of the event time; int64 by default.
    odd_types : bool
        Columns of other widths and codings, with the same values.
    """
    draw = Draw(f"{app} {seed}")
    time = pa.int64() if time is None else time
    keys = 60 if seed % 2 else 6
    events = [_spoilt(draw, _EVENTS[app](draw, keys)) for _ in range(rows)]
    step = STEPS.get(app, 1)
    if pa.types.is_timestamp(time) and (app in STEPS or time.unit == "ms"):
        step *= 1_000  # microseconds
    at, ts = draw.randrange(-700, -500), []
    for _ in events:
        at += draw.choice([0, 0, 0, 1, 1, 2, 7, 15, 16] if draw.random() < 0.98 else [150, 300])
        ts.append(at * step)
    times = pa.array(ts, pa.int64())
    if pa.types.is_timestamp(time):
        times = times.cast(pa.timestamp("us")).cast(pa.timestamp(time.unit)).cast(time)
    columns = {"ts": times}
    for name, kind in APPS[app].needs(0)[1:]:
        columns[name] = _array(draw, [event[name] for event in events], kind, odd_types)
    columns["note"] = pa.array([draw.choice([None, "", "ts"]) for _ in events], pa.string())
    names = draw.sample(sorted(columns), len(columns))
    table = pa.table({name: columns[name] for name in names})
    cut = draw.randrange(len(events) + 1)
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)])  # two chunks of a slice each


def expected(app: str, tables: Sequence[pa.Table], **given: Any) -> list[dict[str, Any]]:
    """Return the reference's rows, with one source per table and event times as the engine's integers."""
    is_zoned = pa.types.is_timestamp(tables[0].schema.field("ts").type)
    wanted = [name for name, _ in APPS[app].needs(0)]
    rows = sources([table.select(wanted) for table in tables])
    right = [CATEGORIES.to_pylist()] if app == "declining" else []
    return APPS[app].reference(rows, *right, unit="us" if is_zoned else "ms", **(PARAMETERS[app] | given))


def _array(draw: Draw, values: list, kind: str, odd_types: bool) -> pa.Array:
    plain = {"integer": pa.int64(), "text": pa.string(), "number": pa.float64()}[kind]
    others = {
        "integer": [pa.int32(), pa.int16(), pa.uint64()],
        "text": [pa.large_string(), pa.dictionary(pa.int8(), pa.string())],
        "number": [],
    }[kind]
    array = pa.array(values, plain)
    for other in draw.sample(others, len(others)) if odd_types else []:
        try:
            return array.cast(other)
        except pa.ArrowInvalid:  # a value does not fit
            continue
    return array


def _spoilt(draw: Draw, event: dict[str, Any]) -> dict[str, Any]:
    """Now and then make one column null, or two."""
    while draw.random() < 0.08:
        event[draw.choice(sorted(event))] = None
    return event


def _id(draw: Draw, keys: int) -> int:
    """An id: mostly a small one, also below zero; now and then a huge one."""
    if draw.random() < 0.02:
        return draw.choice([MOST, LEAST, 2**32])
    return min(draw.randrange(-2, keys), draw.randrange(-2, keys))


def _sale(draw: Draw, keys: int) -> dict[str, Any]:
    return {"ticket": _id(draw, keys // 2), "item": _id(draw, 9)}


def _view(draw: Draw, keys: int) -> dict[str, Any]:
    return {"user": _id(draw, keys), "item": _id(draw, 9)}


def _click(draw: Draw, keys: int) -> dict[str, Any]:
    kind = draw.choice(["view"] * 5 + ["buy"] * 3 + ["cart", "BUY", ""])
    return {"user": _id(draw, keys // 3), "item": _id(draw, 9), "kind": kind}


def _kind(draw: Draw, keys: int) -> dict[str, Any]:
    return {"user": _id(draw, keys), "kind": draw.choice(["view"] * 5 + ["cart", "cart", "buy", "CART", ""])}


def _amount(draw: Draw, keys: int) -> dict[str, Any]:
    return {"item": _id(draw, 7), "amount": draw.choice([0, -3, 5, draw.randrange(-10**6, 10**6)])}


def _call(draw: Draw, keys: int) -> dict[str, Any]:
    def place() -> tuple[float, float]:
        if draw.random() < 0.1:
            return draw.choice([0.0, -0.0, 90.0, math.nan, math.inf]), draw.choice([180.0, -180.0, -0.0, 1e308, -1e308])
        return 50.0 + draw.choice([0.0, 0.0, 0.1, 0.2, 1.0]), -0.5 + draw.choice([0.0, 0.0, 0.3, 1.0])

    (caller_lat, caller_lon), (callee_lat, callee_lon) = place(), place()
    return {
        "caller": _id(draw, keys), "callee": _id(draw, keys), "area": draw.choice([-1, 0, 0, 7]),
        "caller_lat": caller_lat, "caller_lon": caller_lon, "callee_lat": callee_lat, "callee_lon": callee_lon,
    }  # fmt: skip


_EVENTS: dict[str, Callable[[Draw, int], dict[str, Any]]] = {
    "sold_together": _sale,
    "viewed_together": _view,
    "viewed_before": _click,
    "abandoned": _kind,
    "declining": _amount,
    "mobility": _call,
}
