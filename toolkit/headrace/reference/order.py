"""The orders that the contract speaks of: of tuples, of keys, of late rows, and how far time has come.

A source may give watermarks of its own: an arrival whose payload is None is not a row but a watermark,
after which a row with a smaller ts is late.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from headrace.errors import DisorderError, EventTimeError, LateRowError, ParameterError

Payload = dict[str, Any]
Source = Sequence[tuple[int, Payload]]
Arrivals = Sequence[tuple[int, Payload | None]]


class Tuple(NamedTuple):
    """A tuple of the merged input.

    Parameters
    ----------
    ts : int
        Event time, in the stream's unit.
    source : int
        Index of its source.
    position : int
        In the merged input, from 0.
    payload : dict
        Column -> value; None for null.
    """

    ts: int
    source: int
    position: int
    payload: Payload


class Row(NamedTuple):
    """A result.

    Parameters
    ----------
    ts : int
        Event time, in the stream's unit: of a window its right boundary.
    key : value, or tuple of values
        ``()`` if there are no keys.
    values : dict
        Name -> value; None for null.
    """

    ts: int
    key: Any
    values: Payload


def merge(sources: Sequence[Source]) -> list[Tuple]:
    """Merge sorted sources into one stream, ordered by (ts, source index, position in source).

    Parameters
    ----------
    sources : list of Source

    Raises
    ------
    EventTimeError
        If an event time is not an int (null, NaN, NaT).
    DisorderError
        If an event time is below its predecessor in the source.

    Notes
    -----
    STRETCH (Gulisano et al.), Definition 3, and Viper (Walulya et al.), Definition 1: the order in which tuples
    are ready.

    Examples
    --------
    >>> [(t.ts, t.source, t.position) for t in merge([[(1, {}), (3, {})], [(1, {}), (2, {})]])]
    [(1, 0, 0), (1, 1, 1), (2, 1, 2), (3, 0, 3)]
    """
    for index, source in enumerate(sources):
        previous = None
        for row, (ts, _) in enumerate(source):
            if not isinstance(ts, int):
                raise EventTimeError(f"source {index}, row {row}: event time {ts!r}; it must be an integer")
            if previous is not None and ts < previous:
                raise DisorderError(
                    f"source {index}, row {row}: event time {ts} after {previous}; sort it or give lateness"
                )
            previous = ts
    runs = [
        [(ts, index, row, payload) for row, (ts, payload) in enumerate(source)]
        for index, source in enumerate(sources)
    ]
    ordered = heapq.merge(*runs, key=lambda entry: entry[:3])
    return [Tuple(ts, index, position, payload) for position, (ts, index, _, payload) in enumerate(ordered)]


def key_order(key: Any) -> Any:
    """Return what to sort keys by: strings by code point, tuples lexicographically, NaN last."""
    if isinstance(key, tuple):
        return tuple(key_order(part) for part in key)
    if isinstance(key, float):
        return (key != key, 0.0 if key != key else key)
    if isinstance(key, int):
        return (False, key)
    return key


def as_source(rows: Iterable[Row], *key_names: str) -> list[tuple[int, Payload]]:
    """Turn results into a source for the next operator, the keys as columns.

    No key name is right for operators without a key; one name takes the key
    itself, several take its parts.

    Parameters
    ----------
    rows : iterable of Row
    *key_names : str

    Examples
    --------
    >>> as_source([Row(10, "tea", {"n": 2})], "item")
    [(10, {'item': 'tea', 'n': 2})]
    """
    source = []
    for row in rows:
        parts = (row.key,) if len(key_names) == 1 else row.key
        source.append((row.ts, dict(zip(key_names, parts, strict=True)) | row.values))
    return source


def reorder(
    arrivals: Arrivals, lateness: int | None, late: str = "error"
) -> tuple[list[tuple[int, Payload]], list[tuple[int, Payload]]]:
    """Repair disorder up to `lateness`; set aside what is later than that.

    The watermark is the largest event time that arrived so far minus
    `lateness`, or the last one that the source gave itself, if that is larger.
    A row below it is late; a row at it is not.

    Parameters
    ----------
    arrivals : Arrivals
        In order of arrival.
    lateness : int or None
        At least 0, in the stream's unit; None: rows do not advance time, only the source's own watermarks do.
    late : str
        ``"error"`` raises at the first late row; ``"drop"`` and ``"side"``
        differ only in what the engine does with the late rows it counts.

    Returns
    -------
    kept, late : Source, Source
        The kept rows by (ts, order of arrival), the late ones as they came.

    Raises
    ------
    LateRowError
        A row is late, and `late` is "error".
    DisorderError
        The source's own watermarks go back.

    Examples
    --------
    >>> reorder([(5, {"x": 1}), (3, {"x": 2}), (9, {"x": 3}), (4, {"x": 4})], lateness=2, late="side")
    ([(3, {'x': 2}), (5, {'x': 1}), (9, {'x': 3})], [(4, {'x': 4})])
    """
    if late not in ("error", "drop", "side"):
        raise ParameterError(f"late = {late!r}: give 'error', 'drop' or 'side'")
    kept, set_aside = [], []
    newest = promised = None
    for ts, payload in arrivals:
        if payload is None:
            promised = _later(promised, ts)
            continue
        newest = ts if newest is None else max(newest, ts)
        if (lateness is None or ts >= newest - lateness) and (promised is None or ts >= promised):
            kept.append((ts, payload))
        elif late == "error":
            if promised is not None and ts < promised:
                raise LateRowError(f"event time {ts} arrived after the watermark {promised}")
            raise LateRowError(f"event time {ts} arrived after {newest}: more than lateness = {lateness}")
        else:
            set_aside.append((ts, payload))
    kept.sort(key=lambda row: row[0])  # stable, so equal event times stay in order of arrival
    return kept, set_aside


def watermark(arrivals: Sequence[Arrivals], lateness: int | None = 0) -> int | None:
    """Return how far time has come when this much has arrived: no row that is in time is earlier, whatever follows.

    STRETCH, Definitions 2 and 3 and section 2.3: for each source the larger of what its rows and its own watermarks
    say, and of these the least. All windows that end by then are expired.

    Parameters
    ----------
    arrivals : list of Arrivals
        What each source has given so far.
    lateness : int or None
        As of `reorder`; 0 is a source in order.

    Returns
    -------
    int or None
        None: a source has given nothing yet.

    Examples
    --------
    >>> watermark([[(5, {}), (3, {})], [(9, {})]], lateness=2)
    3
    """
    reached: list[int] = []
    for source in arrivals:
        implied = [] if lateness is None else [ts - lateness for ts, payload in source if payload is not None]
        said = [ts for ts, payload in source if payload is None]
        if not implied and not said:
            return None
        reached.append(max(implied + said))
    return min(reached)


def _later(promised: int | None, ts: int) -> int:
    if promised is not None and ts < promised:
        raise DisorderError(f"watermark {ts} after {promised}: it does not go back")
    return ts
