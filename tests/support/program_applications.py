"""Rows for the applications of dependency-guided synchronization with all that is easily got wrong in them, from a seed.

`nasty` mixes equal event times within an input and between both, that begin far below zero; few keys and many, huge ones
and equal ones; values at the ends of int64 where nobody adds them; barriers without values, and values after the last
barrier; other column orders, and columns that nobody asked for.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headrace.apps import APPS
from headrace.apps.app import sources

NAMES = ["eventwindow", "pageview", "modelfraud", "keycounter"]
MOST, LEAST = 2**63 - 1, -(2**63)
STREAMS = 3

COLUMNS = {
    "eventwindow": {"ts": "int64", "sum": "int64"},
    "pageview": {"ts": "int64", "kind": "string", "page": "int64", "user": "int64", "info": "int64"},
    "modelfraud": {"ts": "int64", "kind": "string", "value": "int64"},
    "keycounter": {"ts": "int64", "key": "int64", "count": "int64"},
}

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
        Odd ones draw from many keys, even ones from few.
    rows : int
        Of the left input.
    time : pa.DataType
        Of the event times; int64 by default.
    odd_types : bool
        Columns of other widths and codings, with the same values.
    has_stream : bool
        Whether the left input has a column that says streams.
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
    """What the reference says of these inputs."""
    given = []
    for table, listed in zip(tables, (APPS[app].left, APPS[app].right), strict=False):
        names = [name for name, _ in listed]
        if "stream" in names and "stream" not in table.column_names:
            table = table.append_column("stream", pa.array([0] * table.num_rows, pa.int64()))
        given.append(sources([table.select(names)]))
    return APPS[app].reference(*given)


def _table(draw: Draw, rows: list[Row], app: str, side: int, time: pa.DataType | None, odd_types: bool) -> pa.Table:
    time = pa.int64() if time is None else time
    pace = [0, 0, 1, 1, 3] if side == 0 else [0, 3, 8, 8, 20]
    at, ts = -600, []
    for _ in rows:
        ts.append(at)
        at += draw.choice(pace)
    times = pa.array(ts, pa.int64())
    columns = {"ts": times if time == pa.int64() else times.cast(pa.timestamp(time.unit)).cast(time)}
    listed = dict(APPS[app].needs(side)[1:])
    for name in rows[0] if rows else listed:
        columns[name] = _array([row[name] for row in rows], listed.get(name, "integer"), odd_types)
    columns["note"] = pa.array([draw.choice([None, "", "ts"]) for _ in rows], pa.string())
    names = draw.sample(sorted(columns), len(columns))
    return pa.table({name: columns[name] for name in names})


def _array(values: list[Any], kind: str, odd_types: bool) -> pa.Array:
    if not odd_types:
        return pa.array(values, pa.string() if kind == "text" else pa.int64())
    if kind == "text":
        return pa.array(values, pa.large_string()).dictionary_encode()
    fits = all(-(2**31) <= value < 2**31 for value in values)
    return pa.array(values, pa.int32() if fits else pa.int64())


def _value(draw: Draw) -> int:
    return draw.choice([draw.randint(-3_000, 3_000), draw.randint(-5, 5), 1_000, -1, 0])


_LEFT: dict[str, Callable[[Draw, list[int]], Row]] = {
    "eventwindow": lambda draw, keys: {"x": _value(draw)},
    "pageview": lambda draw, keys: {"page": draw.choice(keys), "user": draw.choice([0, 1, LEAST, MOST])},
    "modelfraud": lambda draw, keys: {"value": _value(draw)},
    "keycounter": lambda draw, keys: {"key": draw.choice(keys), "kind": draw.choice(["inc", "inc", "inc", "reset"])},
}
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


PLANS: dict[str, list[Row]] = {
    "eventwindow": _by_hand(["value"], ["barrier"], 0),
    "pageview": _by_hand(["view"], ["update"], 63),
    "modelfraud": _by_hand(["transaction"], ["rule"], 0),
    "keycounter": _by_hand(["inc", "reset"], [], 63),
}
"""As somebody writes them: one leaf, idle leaves, deep ones, forests, leaves of some parts or streams."""
