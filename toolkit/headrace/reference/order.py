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
    """A tuple of the merged input; `position` counts them from 0."""

    ts: int
    source: int
    position: int
    payload: Payload


class Row(NamedTuple):
    """A result: event time, key (one value, or a tuple of several), values by name."""

    ts: int
    key: Any
    values: Payload


def merge(sources: Sequence[Source]) -> list[Tuple]:
    """Merge sorted sources into one stream, ordered by (ts, source index, position in source).

    Raises
    ------
    EventTimeError
        If an event time is not an int (null, NaN, NaT).
    DisorderError
        If an event time is below its predecessor in the source.
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
