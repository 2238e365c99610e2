"""Rows for the applications of dependency-guided synchronization with everything that is easily handled wrongly, from a seed.

`nasty` mixes equal event times, within an input and between both, that begin far below zero; few keys and many, huge ones
and equal ones; values at the ends of int64 where they are not added; barriers without values, and values after the last
barrier; slices of event time that end exactly at a row, and gaps of many slices; other column orders, and unused columns.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headrace.apps import APPS
from headrace.apps.app import sources

NAMES = ["eventwindow", "pageview", "modelfraud", "keycounter", "outlier", "smarthome"]
MOST, LEAST = 2**63 - 1, -(2**63)
STREAMS = 3

COLUMNS = {
    "eventwindow": {"ts": "int64", "sum": "int64"},
    "pageview": {"ts": "int64", "kind": "string", "page": "int64", "user": "int64", "info": "int64"},
    "modelfraud": {"ts": "int64", "kind": "string", "value": "int64"},
    "keycounter": {"ts": "int64", "key": "int64", "count": "int64"},
    "outlier": {
        "ts": "int64", "row": "int64", "protocol": "string", "service": "string", "flag": "string", "duration": "int64",
        "src_bytes": "int64", "dst_bytes": "int64", "score": "int64",
    },
    "smarthome": {
        "ts": "int64", "level": "string", "house": "int64", "household": "int64", "plug": "int64", "prediction": "double",
    },
}  # fmt: skip
SLICES_MS = {"outlier": 600_000, "smarthome": 3_600_000}
"""Slices of the applications with periodic tags."""

Draw = random.Random
Row = dict[str, Any]


def nasty(
    app: str, seed: int, rows: int = 400, time: pa.DataType | None = None, odd_types: bool = False, has_stream: bool = True
) -> list[pa.Table]:
    """Return the inputs of an application.

    Parameters
    ----------
    app : str
    seed : int
        Odd seeds draw from many keys, even ones from few.
    rows : int
        Of the left input.
    time : pa.DataType
        Of the event times; int64 by default.
    odd_types : bool
        Columns of other widths and codings, with the same values.
    has_stream : bool
        Whether the left input has a column that gives the stream.
    """
    draw = Draw(f"{app} {seed}")
    keys = [draw.randrange(LEAST, MOST) for _ in range(40)] if seed % 2 else [-1, 0, 7]
    left = [_LEFT[app](draw, keys) | {"stream": draw.randrange(STREAMS)} for _ in range(rows)]
    tables = [_table(draw, left, app, 0, time, odd_types)]
    if not has_stream:
        tables[0] = tables[0].drop_columns(["stream"])
    if APPS[app].has_right:
        right = [_RIGHT[app](draw, keys) for _ in range(rows // 8)]
        tables.append(_table(draw, right, app, 1, time, odd_types))
    return tables


def expected(app: str, tables: list[pa.Table]) -> list[Row]:
    """The reference's rows for these inputs."""
    given = []
    for table, listed in zip(tables, (APPS[app].left, APPS[app].right), strict=False):
        names = [name for name, _ in listed]
        if "stream" in names and "stream" not in table.column_names:
            table = table.append_column("stream", pa.array([0] * table.num_rows, pa.int64()))
        given.append(sources([table.select(names)]))
    is_timestamp = pa.types.is_timestamp(tables[0].schema.field("ts").type)
    return APPS[app].reference(*given, **({"unit": "us" if is_timestamp else "ms"} if app in SLICES_MS else {}))


def _table(draw: Draw, rows: list[Row], app: str, side: int, time: pa.DataType | None, odd_types: bool) -> pa.Table:
    time = pa.int64() if time is None else time
    pace = [0, 0, 1, 1, 3] if side == 0 else [0, 3, 8, 8, 20]
    at, ts = -600, []
    width = SLICES_MS.get(app, 0) * (1_000 if getattr(time, "unit", "ms") == "us" else 1)
    for _ in rows:
        ts.append(at)
        to_next = [width - at % width, 2 * width, draw.choice([1, 24, 700]) * width] if width else []
        at += draw.choice([*pace, *[width // 40] * 12, *to_next])
    times = pa.array(ts, pa.int64())
    columns = {"ts": times if time == pa.int64() else times.cast(pa.timestamp(time.unit)).cast(time)}
    listed = dict(APPS[app].needs(side)[1:])
    for name in rows[0] if rows else listed:
        columns[name] = _array([row[name] for row in rows], listed.get(name, "integer"), odd_types)
    columns["note"] = pa.array([draw.choice([None, "", "ts"]) for _ in rows], pa.string())
    names = draw.sample(sorted(columns), len(columns))
    return pa.table({name: columns[name] for name in names})


def _array(values: list[Any], kind: str, odd_types: bool) -> pa.Array:
    if not odd_types and kind != "number":
        return pa.array(values, pa.string() if kind == "text" else pa.int64())
    if kind == "number":
        return pa.array(values, pa.float64())
    if kind == "text":
        return pa.array(values, pa.large_string()).dictionary_encode()
    fits = all(-(2**31) <= value < 2**31 for value in values)
    return pa.array(values, pa.int32() if fits else pa.int64())


def _value(draw: Draw) -> int:
    return draw.choice([draw.randint(-3_000, 3_000), draw.randint(-5, 5), 1_000, -1, 0])


def _load(draw: Draw) -> float:
    if draw.random() < 0.003:
        return draw.choice([math.nan, math.inf, -math.inf])
    return draw.choice([0.0, -0.0, 0.1, 0.2, 0.7, 1e-9, 1e17, -3.5, draw.random()])


def _connection(draw: Draw) -> Row:
    is_odd = draw.random() < 0.06
    return {
        "protocol": "tcp",
        "service": draw.choice(["ftp", "", "tcp", *"abcdefg"]) if is_odd else draw.choice(["http", "http", "smtp"]),
        "flag": draw.choice(["SF", *"ABCDEFGH"]) if is_odd else "SF",
        "duration": draw.choice([0, 40_000, -1]) if is_odd else 0,
        "src_bytes": draw.choice([MOST, LEAST, LEAST + 1, 0]) if is_odd else draw.randint(180, 260),
        "dst_bytes": draw.choice([0, 10**9]) if is_odd else draw.randint(300, 9_000),
    }


_LEFT: dict[str, Callable[[Draw, list[int]], Row]] = {
    "eventwindow": lambda draw, keys: {"x": _value(draw)},
    "pageview": lambda draw, keys: {"page": draw.choice(keys), "user": draw.choice([0, 1, LEAST, MOST])},
    "modelfraud": lambda draw, keys: {"value": _value(draw)},
    "keycounter": lambda draw, keys: {"key": draw.choice(keys), "kind": draw.choice(["inc", "inc", "inc", "reset"])},
    "outlier": lambda draw, keys: _connection(draw),
    "smarthome": lambda draw, keys: {
        **{name: draw.choice(keys) for name in ("house", "household", "plug")}, "load": _load(draw),
    },
}  # fmt: skip
_RIGHT: dict[str, Callable[[Draw, list[int]], Row]] = {
    "eventwindow": lambda draw, keys: {},
    "pageview": lambda draw, keys: {"page": draw.choice(keys), "info": draw.choice([0, 5, LEAST, MOST])},
    "modelfraud": lambda draw, keys: {"value": draw.choice([_value(draw), LEAST, MOST])},
}


def _node(tags: list[Row], *children: Row) -> Row:
    return {"tags": tags, "children": list(children)}


def _by_hand(of_left: list[str], of_right: list[str], last: int) -> list[Row]:
    """Plans of an application whose left input has `STREAMS` streams, and whose keys have parts up to `last`."""

    def owns(tags: list[str], streams: Any = 0, parts: Any = f"0-{last}" if last else 0) -> list[Row]:
        return [{"tag": tag, "parts": parts, "streams": streams} for tag in tags]

    everything = _node(owns(of_left, "0-2") + owns(of_right))
    plans = [
        {"roots": [everything]},
        {"roots": [_node([], everything, _node([], _node([]), _node([])))]},
    ]
    if of_right:
        third = _node(owns(of_left, 2))
        plans += [
            {"roots": [_node(owns(of_right), _node([], _node(owns(of_left, 1)), third), _node(owns(of_left, 0)))]},
            {"roots": [_node(owns(of_right) + owns(of_left, 1), _node(owns(of_left, 0)), third)]},
        ]
    if last:
        halves = [
            _node(owns(of_right, 0, parts), _node(owns(of_left, "0, 2", parts)), _node(owns(of_left, 1, parts)))
            if of_right
            else _node(
                owns(["reset"], "0-2", parts),
                _node(owns(["inc"], 0, parts)),
                _node([], _node(owns(["inc"], 1, parts)), _node(owns(["inc"], 2, parts))),
            )
            for parts in ("0-20, 63", "21-62")
        ]
        plans += [{"roots": halves}, {"roots": [_node([], *halves)]}]
    return plans


def _by_house() -> list[Row]:
    """Plans for loads, where those of one part depend on each other across all streams."""

    def loads(parts: Any, streams: Any = "0-2") -> list[Row]:
        return [{"tag": "load", "parts": parts, "streams": streams}]

    end = [{"tag": "end"}]
    halves = ("0-40", "41-62")
    few, others = _node(loads("0-20, 63")), _node(loads("21-62"))
    return [
        {"roots": [_node(loads("0-63") + end)]},
        {"roots": [_node(end, few, others)]},
        {"roots": [_node(end + loads("0-20, 63"), _node([], others, _node([])), _node([]))]},
        {"roots": [_node(end, _node(loads("0-62", 1), *(_node(loads(own, "0, 2")) for own in halves)), _node(loads(63)))]},
    ]


PLANS: dict[str, list[Row]] = {
    "eventwindow": _by_hand(["value"], ["barrier"], 0),
    "pageview": _by_hand(["view"], ["update"], 63),
    "modelfraud": _by_hand(["transaction"], ["rule"], 0),
    "keycounter": _by_hand(["inc", "reset"], [], 63),
    "outlier": _by_hand(["connection"], ["request"], 0),
    "smarthome": _by_house(),
}
"""Plans as a user writes them: one leaf, idle leaves, deep trees, forests, leaves of some parts or streams."""
