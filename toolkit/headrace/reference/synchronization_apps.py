"""The applications of dependency-guided synchronization (Kallas et al., section 4.1 and appendix A), over plain rows.

They say what the result is, not how the work is distributed: loops and dicts over all rows in the order of events, without a
program, a fork or a join, so that a program and its plans can be compared with them.

Every function gives the rows of its output file as dicts, columns in order. A null in a column that is listed is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headrace.errors import InputError, ParameterError
from headrace.reference.order import Payload, Source, merge
from headrace.reference.transactions import check_range
from headrace.windows import DEFAULT_TIME_UNIT, Duration, parse_duration

MODULUS = 1_000
RARE = 100
DEVIATIONS = 3
LEAST_SCORE = 2
"""Of `outlier`: a value is unusual if less than one in `RARE` connections has it, or if it is more than `DEVIATIONS` standard
deviations away; a connection with `LEAST_SCORE` unusual values is an outlier."""
LEVELS = {"house": 1, "household": 2, "plug": 3}
"""Each level of `smarthome`, and by how many of the three ids its keys are named."""


def eventwindow(left: Sequence[Source], right: Sequence[Source]) -> list[Payload]:
    """Sum the values between two barriers; what follows the last barrier gives nothing."""
    total, rows = 0, []
    for ts, is_right, e in _events(left, right, ["x", "stream"], []):
        if is_right:
            rows.append({"ts": ts, "sum": _int64(total)})
            total = 0
        else:
            total += e["x"]
    return rows


def pageview(left: Sequence[Source], right: Sequence[Source]) -> list[Payload]:
    """Join views with what is known of their page; an update tells what was known before."""
    known: dict[int, int] = {}
    rows = []
    for ts, is_right, e in _events(left, right, ["page", "user"], ["page", "info"]):
        info = known.get(e["page"], 0)
        if is_right:
            rows.append({"ts": ts, "kind": "update", "page": e["page"], "user": None, "info": info})
            known[e["page"]] = e["info"]
        else:
            rows.append({"ts": ts, "kind": "view", "page": e["page"], "user": e["user"], "info": info})
    return rows


def modelfraud(left: Sequence[Source], right: Sequence[Source]) -> list[Payload]:
    """Find the transactions that the model of the last rule takes for frauds; a rule tells the sum and renews the model."""
    total, model, rows = 0, 0, []
    for ts, is_right, e in _events(left, right, ["value"], ["value"]):
        if is_right:
            rows.append({"ts": ts, "kind": "rule", "value": _int64(total)})
            total, model = 0, (total + e["value"]) % MODULUS
        else:
            if e["value"] % MODULUS == model:
                rows.append({"ts": ts, "kind": "fraud", "value": e["value"]})
            total += e["value"]
    return rows


def keycounter(sources: Sequence[Source]) -> list[Payload]:
    """Count the increments of each key, until its reset tells how many there were."""
    counts: dict[int, int] = {}
    rows = []
    for ts, _, e in _events(sources, [], ["key", "kind"], []):
        if e["kind"] == "inc":
            counts[e["key"]] = counts.get(e["key"], 0) + 1
        elif e["kind"] == "reset":
            rows.append({"ts": ts, "key": e["key"], "count": counts.pop(e["key"], 0)})
        else:
            raise InputError(f"kind {e['kind']!r} at event time {ts}: it is 'inc' or 'reset'")
    return rows


def smarthome(sources: Sequence[Source], slice: Duration = "1h", unit: str = DEFAULT_TIME_UNIT) -> list[Payload]:
    """Predict loads from the slice that is over and the same slice of days before (the DEBS challenge of 2014, query 1).

    The prediction is for the slice after next, whose place in the day it takes.
    """
    width, day = parse_duration(slice, unit, "slice"), parse_duration("1d", unit, "day")
    if width < 1 or day % width:
        raise ParameterError(f"slice={slice!r}: a slice must divide a day, as '1h' and '15min' do")
    loads: dict[tuple[str, tuple[int, ...]], list[float]] = {}  # of the slice: level and ids -> loads in input order
    averages: dict[tuple[str, tuple[int, ...]], dict[int, list[float]]] = {}  # -> slice of the day -> in time order
    rows: list[Payload] = []

    def close(index: int) -> None:
        for (level, ids), values in sorted(loads.items()):
            average = _total(values) / len(values)
            of_key = averages.setdefault((level, ids), {})
            before = of_key.get((index + 2) % (day // width), [])
            prediction = (average + _total(before) / len(before)) / 2 if before else average
            house, household, plug = [*ids, None, None][:3]
            named = {"level": level, "house": house, "household": household, "plug": plug}
            rows.append({"ts": _int64((index + 1) * width), **named, "prediction": prediction})
            of_key.setdefault(index % (day // width), []).append(average)
        loads.clear()

    index = 0
    for ts, _, e in _events(sources, [], ["house", "household", "plug", "load"], []):
        if loads and ts // width > index:
            close(index)
        index = ts // width
        ids = (e["house"], e["household"], e["plug"])
        for level, named_by in LEVELS.items():
            loads.setdefault((level, ids[:named_by]), []).append(e["load"])
    if loads:
        close(index)
    return rows


def outlier(sources: Sequence[Source], slice: Duration = "10min", unit: str = DEFAULT_TIME_UNIT) -> list[Payload]:
    """Find connections that are unusual by the model of the last request, and by that of the one at the end of their slice.

    A model is of all connections before it. Before the first request there is none, and all are unusual.
    """
    width = parse_duration(slice, unit, "slice")
    if width < 1:
        raise ParameterError(f"slice={slice!r}: give a duration above 0")
    texts, numbers = ("protocol", "service", "flag"), ("duration", "src_bytes", "dst_bytes")
    of_slice: list[tuple[int, dict[str, Any]]] = []
    rows: list[Payload] = []
    # The model: how many connections, how many with each value, sums of magnitudes and of their squares.
    n = 0
    counts: dict[tuple[str, str], int] = {}
    totals, squares = dict.fromkeys(numbers, 0), dict.fromkeys(numbers, 0)

    def score(e: dict[str, Any]) -> int:
        unusual = sum(counts.get((name, e[name]), 0) * RARE < n for name in texts)
        for name in numbers:
            total = float(totals[name])
            off = n * float(_magnitude(e[name])) - total
            unusual += off * off > DEVIATIONS * DEVIATIONS * max(0.0, n * float(squares[name]) - total * total)
        return unusual

    def close(index: int) -> None:
        nonlocal n
        candidates = [(row, e) for row, e in of_slice if n == 0 or score(e) >= LEAST_SCORE]
        for _, e in of_slice:
            n += 1
            for name in texts:
                counts[name, e[name]] = counts.get((name, e[name]), 0) + 1
            for name in numbers:
                totals[name] += _magnitude(e[name])
                squares[name] += _magnitude(e[name]) ** 2
        of_slice.clear()
        for row, e in candidates:
            if (found := score(e)) >= LEAST_SCORE:
                told = {name: e[name] for name in (*texts, *numbers)}
                rows.append({"ts": (index + 1) * width, "row": row, **told, "score": found})

    index = 0
    for row, (ts, _, e) in enumerate(_events(sources, [], [*texts, *numbers], [])):
        if of_slice and ts // width > index:
            close(index)
        index = ts // width
        of_slice.append((row, e))
    if of_slice:
        close(index)
    return rows


def _magnitude(number: int) -> int:
    """The number of bits of a number, in sixteenths, with its sign; -2**63 counts as the number above it."""
    size = min(abs(number), 2**63 - 1)
    if size == 0:
        return 0
    bits = size.bit_length() - 1
    scaled = 16 * bits + size * 16 // 2**bits
    return scaled if number > 0 else -scaled


APPS: dict[str, Callable[..., list[Payload]]] = {
    "eventwindow": eventwindow,
    "pageview": pageview,
    "modelfraud": modelfraud,
    "keycounter": keycounter,
    "outlier": outlier,
    "smarthome": smarthome,
}
"""Name on the command line -> reference."""


def _events(
    left: Sequence[Source], right: Sequence[Source], left_names: Sequence[str], right_names: Sequence[str]
) -> Iterator[tuple[int, bool, dict[str, Any]]]:
    """Go through both inputs in the order of events, left before right: event time, whether it is right, row."""
    for t in merge([*left, *right]):
        is_right = t.source >= len(left)
        for name in right_names if is_right else left_names:
            if t.payload[name] is None:
                raise InputError(f"{name} is null at event time {t.ts}: fill it, or leave the row out")
        yield t.ts, is_right, t.payload


def _total(values: Sequence[float]) -> float:
    """Add in the order given, from 0.0: since Python 3.12 `sum` is more exact than that."""
    total = 0.0
    for value in values:
        total += value
    return total


def _int64(number: int) -> int:
    check_range(number, "an integer")
    return number
