"""Events for the transactional applications with everything that is easily handled wrongly, drawn from a seed.

`nasty` mixes everything: nulls in every column but the event time, keys that no table has, negative and huge amounts,
lists of different lengths, null elements, empty lists, keys twice, transfers to oneself, equal event times, event times
of every type, other column orders and unused columns. `SHAPES` are streams that are hard for a scheme: few records that
all events want, transactions with one key twice, any share of them rejected. `overflowing` ends beyond int64.

No sum leaves int64 in `nasty` and `SHAPES`, in whatever order its terms are added.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headrace.apps.app import sources
from headrace.reference.transaction_apps import APPS, Outcome

RECORDS = {"gs": 5, "sl": 4, "ob": 4, "tp": 3}
"""How many records each application has with `nasty`: few, so that events meet."""

COLUMNS = {
    "gs": {"keys": "list", "values": "list"},
    "sl": {"kind": "text"}
    | dict.fromkeys(("source", "target", "source_asset", "target_asset", "amount", "quantity"), "integer"),
    "ob": {"kind": "text", "items": "list", "prices": "list", "quantities": "list"},
    "tp": {"vehicle": "integer", "segment": "integer", "speed": "integer"},
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

Draw = random.Random
Event = dict[str, Any]


def nasty(app: str, seed: int, rows: int = 600, odd_types: bool = False, records: int | None = None) -> pa.Table:
    """Return events of an application, wrong in some way now and then.

    Parameters
    ----------
    app : {"gs", "sl", "ob", "tp"}
    seed : int
        ``TIMES[seed % 5]`` is the type of the event time.
    odd_types : bool
        Columns of other widths, layouts and codings, with the same values where these fit.
    records : int, optional
        Of the tables; `RECORDS` by default.
    """
    draw = Draw(f"{app} {seed}")
    of = _EVENTS[app]
    known = RECORDS[app] if records is None else records
    events = [_spoilt(draw, of(draw, known)) for _ in range(rows)]
    return table_of(app, events, draw, TIMES[seed % len(TIMES)], odd_types)


def expected(app: str, tables: list[pa.Table], records: int | None = None) -> Outcome:
    """Return the reference's rows and tables, with one source per table and event times as the engine's integers."""
    given = sources(tables, list(COLUMNS[app]))
    return APPS[app](given, records=RECORDS[app] if records is None else records)


def table_of(
    app: str, events: list[Event], draw: Draw, time: pa.DataType = TIMES[0], odd_types: bool = False
) -> pa.Table:
    """Return events as a table, with event times that begin below zero and are often equal, and one more column."""
    at, ts = draw.randrange(-50, 0), []
    for _ in events:
        at += draw.choice([0, 0, 0, 1, 1, 7])
        ts.append(at)
    columns: dict[str, pa.Array] = {"ts": pa.array(ts, pa.int64()).cast(time)}
    for name, how in COLUMNS[app].items():
        columns[name] = _array(draw, [event[name] for event in events], how, odd_types)
    columns["note"] = pa.array([draw.choice([None, "", "keys"]) for _ in events], pa.string())
    names = draw.sample(sorted(columns), len(columns))
    table = pa.table({name: columns[name] for name in names})
    cut = draw.randrange(len(events) + 1)
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)])  # two chunks of a slice each


def _array(draw: Draw, values: list, how: str, odd_types: bool) -> pa.Array:
    if how == "list":
        array = pa.array(values, pa.list_(pa.int64()))
        kinds = [pa.large_list(pa.int64()), pa.list_(pa.int32()), pa.list_(pa.int16()), pa.large_list(pa.int32())]
    elif how == "text":
        array = pa.array(values, pa.string())
        kinds = [pa.large_string(), pa.dictionary(pa.int8(), pa.string())]
    else:
        array = pa.array(values, pa.int64())
        kinds = [pa.int32(), pa.int16(), pa.uint64()]
    for kind in draw.sample(kinds, len(kinds)) if odd_types else []:
        try:
            return array.cast(kind)
        except pa.ArrowInvalid:  # a value does not fit
            continue
    return array


def _spoilt(draw: Draw, event: Event) -> Event:
    """Now and then make one column null, or two."""
    while draw.random() < 0.08:
        event[draw.choice(sorted(event))] = None
    return event


def _key(draw: Draw, records: int) -> int:
    """A key: mostly one of the first; now and then one that does not exist."""
    if draw.random() < 0.04:
        return draw.choice([-1, records, records + 1, 2**32, MOST, LEAST])
    return min(draw.randrange(records), draw.randrange(records))


def _list(draw: Draw, element: Callable[[], int], size: int) -> list[int | None]:
    """A list, now and then with a null in it."""
    values: list[int | None] = [element() for _ in range(size)]
    if values and draw.random() < 0.05:
        values[draw.randrange(size)] = None
    return values


def _size(draw: Draw, size: int) -> int:
    """Size of a list that goes with one of this size: now and then a different one."""
    return max(0, size + draw.choice([-1, 1])) if draw.random() < 0.06 else size


def _gs(draw: Draw, records: int) -> Event:
    size = draw.choice([0, 1, 1, 2, 3, 5, 12])
    keys = _list(draw, lambda: _key(draw, records), size)
    if size > 1 and draw.random() < 0.3:
        keys[-1] = keys[0]  # twice
    value = lambda: draw.choice([0, 1, -1, draw.randrange(1_000), 2**40, -(2**40)])  # noqa: E731
    return {"keys": keys, "values": None if draw.random() < 0.4 else _list(draw, value, _size(draw, size))}


def _sl(draw: Draw, records: int) -> Event:
    kind = draw.choice(["deposit", "transfer", "transfer", draw.choice(["", "Transfer", "deposit ", "loan"])])
    event = {name: _key(draw, records) for name in ("source", "target", "source_asset", "target_asset")}
    if draw.random() < 0.15:
        event["target"] = event["source"]
    if draw.random() < 0.15:
        event["target_asset"] = event["source_asset"]
    if kind == "deposit" and draw.random() < 0.5:
        event["source"] = draw.choice([None, -1, records])  # not a key of a deposit
        event["source_asset"] = draw.choice([None, LEAST, 0])
    for name in ("amount", "quantity"):
        event[name] = draw.choice([0, 1, draw.randrange(3_000), draw.randrange(3_000), 10_000, 10_001])
        if draw.random() < 0.05:
            event[name] = draw.choice([-1, LEAST, MOST if kind != "deposit" else -5])
    return {"kind": kind, **event}


def _ob(draw: Draw, records: int) -> Event:
    kind = draw.choice(["bid", "bid", "bid", "alter", "top", draw.choice(["", "Bid", "sell"])])
    size = 1 if kind == "bid" else draw.choice([0, 1, 2, 3, 6])
    size = draw.choice([0, 2]) if draw.random() < 0.03 else size
    items = _list(draw, lambda: _key(draw, records), size)
    if size > 1 and draw.random() < 0.3:
        items[-1] = items[0]

    def price():
        usual = [0, 99, 100, 101, 150, draw.randrange(300)]
        return draw.choice([-1, LEAST, MOST] if draw.random() < 0.03 else usual)

    def quantity():
        huge = [-1, LEAST, MOST if kind == "bid" else 2**40]
        return draw.choice(huge if draw.random() < 0.03 else [0, 1, 2, 1_000, draw.randrange(400)])

    prices, quantities = _list(draw, price, _size(draw, size)), _list(draw, quantity, _size(draw, size))
    unused = {"alter": "quantities", "top": "prices"}.get(kind)
    event = {"kind": kind, "items": items, "prices": prices, "quantities": quantities}
    if unused is not None and draw.random() < 0.6:
        event[unused] = draw.choice([None, [], [None], [-1] * 9])  # not looked at
    return event


def _tp(draw: Draw, records: int) -> Event:
    segment = _key(draw, records)
    # The first segment is slow, so tolls are due once enough vehicles have been there; the others are fast.
    speed = draw.randrange(60) if segment == 0 else draw.randrange(35, 90)
    if draw.random() < 0.06:
        speed = draw.choice([-1, LEAST, 0, 2**31 if segment else -5])
    vehicle = draw.choice([LEAST, MOST, -1]) if draw.random() < 0.05 else draw.randrange(150)
    return {"vehicle": vehicle, "segment": segment, "speed": speed}


_EVENTS: dict[str, Callable[[Draw, int], Event]] = {"gs": _gs, "sl": _sl, "ob": _ob, "tp": _tp}


# -- shapes that are hard for a scheme -----------------------------------------------------------------------


def two_keys(app: str, seed: int, rows: int) -> pa.Table:
    """Every event wants two records, in either order; with ``records=2``."""
    return _shaped(app, f"two {seed}", rows, lambda draw: draw.choice([(0, 1), (1, 0)]))


def one_hot_key(app: str, seed: int, rows: int) -> pa.Table:
    """Nine in ten events want record 7, some with another one; with ``records=100``."""

    def pair(draw: Draw) -> tuple[int, int]:
        first = 7 if draw.random() < 0.9 else draw.randrange(100)
        return first, draw.choice([first, draw.randrange(100)])

    return _shaped(app, f"hot {seed}", rows, pair)


def with_itself(app: str, seed: int, rows: int) -> pa.Table:
    """Every event touches one record twice: transfers to oneself, a key twice in each list; with ``records=20``."""
    return _shaped(app, f"itself {seed}", rows, lambda draw: (draw.randrange(20),) * 2)


def rejecting(app: str, seed: int, share: float, rows: int) -> pa.Table:
    """Return events of which this share is rejected, each at the last step that can reject it; with ``records=50``."""
    return _shaped(app, f"rejecting {seed}", rows, lambda draw: (draw.randrange(50), draw.randrange(50)), share)


def chained(app: str, seed: int, rows: int) -> pa.Table:
    """Each event wants a record of the previous event and a new one: a chain from end to end; with ``records=20_000``."""
    number = itertools.count()

    def pair(draw: Draw) -> tuple[int, int]:
        at = next(number)
        return at % 20_000, (at + 1) % 20_000

    return _shaped(app, f"chain {seed}", rows, pair)


SHAPES: dict[str, tuple[Callable[[str, int, int], pa.Table], int]] = {
    "two keys": (two_keys, 2),
    "one hot key": (one_hot_key, 100),
    "with itself": (with_itself, 20),
    "none rejected": (lambda app, seed, rows: rejecting(app, seed, 0.0, rows), 50),
    "1 % rejected": (lambda app, seed, rows: rejecting(app, seed, 0.01, rows), 50),
    "half rejected": (lambda app, seed, rows: rejecting(app, seed, 0.5, rows), 50),
    "all rejected": (lambda app, seed, rows: rejecting(app, seed, 1.0, rows), 50),
    "chain": (chained, 20_000),
}
"""Name -> (function of application, seed and rows that gives a table; records).

The reference takes 1 to 4 seconds for 20,000 rows, and up to 20 seconds for those of tp, whose sets are copied at each event.
"""


def _shaped(app: str, seed: str, rows: int, pair: Callable[[Draw], tuple[int, int]], rejected: float = 0.0) -> pa.Table:
    draw = Draw(f"{app} {seed}")
    events = []
    for _ in range(rows):
        first, second = pair(draw)
        events.append(_ORDERLY[app](draw, first, second, draw.random() < rejected))
    return table_of(app, events, draw)


def _orderly_gs(draw: Draw, first: int, second: int, is_rejected: bool) -> Event:
    keys = [first, second, MOST] if is_rejected else [first, second]
    return {"keys": keys, "values": draw.choice([None, [draw.randrange(1_000) for _ in keys]])}


def _orderly_sl(draw: Draw, first: int, second: int, is_rejected: bool) -> Event:
    kind = "transfer" if is_rejected or draw.random() < 0.6 else "deposit"
    # No transfer lacks funds: the initial balances suffice, and deposits are larger.
    amount = draw.randrange(2, 4) if kind == "deposit" else draw.randrange(2)
    return {
        "kind": kind,
        "source": first,
        "target": second,
        "source_asset": second,
        "target_asset": first,
        "amount": amount,
        "quantity": 10**12 if is_rejected else amount,
    }


def _orderly_ob(draw: Draw, first: int, second: int, is_rejected: bool) -> Event:
    kind = "bid" if is_rejected else draw.choice(["bid", "alter", "top"])
    items = [first] if kind == "bid" else [first, second]
    # A bid is high enough for any price; a rejected one asks for more than there is.
    prices = [300] if kind == "bid" else [draw.randrange(200) for _ in items]
    quantities = [10**12 if is_rejected else draw.randrange(2) if kind == "bid" else draw.randrange(2, 5) for _ in items]
    return {
        "kind": kind,
        "items": items,
        "prices": None if kind == "top" else prices,
        "quantities": None if kind == "alter" else quantities,
    }


def _orderly_tp(draw: Draw, first: int, second: int, is_rejected: bool) -> Event:
    return {"vehicle": draw.randrange(80), "segment": first, "speed": -1 if is_rejected else draw.randrange(70)}


_ORDERLY: dict[str, Callable[[Draw, int, int, bool], Event]] = {
    "gs": _orderly_gs,
    "sl": _orderly_sl,
    "ob": _orderly_ob,
    "tp": _orderly_tp,
}


def overflowing(app: str) -> pa.Table:
    """Return events the last of which takes a number beyond int64; with any `records`."""
    events: list[Event] = {
        "gs": [{"keys": [0, 1], "values": [MOST, 1]}, {"keys": [0, 1], "values": None}],
        "sl": [
            dict.fromkeys(COLUMNS["sl"]) | {"kind": "deposit", "target": 0, "target_asset": 0, "amount": each, "quantity": 0}
            for each in (5, MOST)
        ],
        "ob": [{"kind": "top", "items": [0], "prices": None, "quantities": [each]} for each in (5, MOST)],
        "tp": [{"vehicle": 1, "segment": 0, "speed": each} for each in (5, MOST)],
    }[app]
    return table_of(app, events, Draw(app))
