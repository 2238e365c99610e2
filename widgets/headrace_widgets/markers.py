"""Reconfigurations on the time axis: one marker for each that was carried out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.summary import counted
from headrace_widgets.feed import Feed

COLUMNS = ("t", "end", "label", "what", "reason", "ms")
"""Columns of the figures' source `changes`."""
TOGETHER_S = 1.0
"""Changes of two runs that begin within this time and do the same were requested by one click."""


def markers(changes: list[Any], feed: Feed) -> dict[str, list]:
    """Return the columns of the markers, for the changes that were carried out."""
    return _columns([_marker(change, feed.seconds_of) for change in changes if change.outcome == "done"])


def markers_of_two(
    changes: Sequence[list[Any]], names: tuple[str, str], clocks: Sequence[Callable[[int], float]]
) -> dict[str, list]:
    """Return the columns for two runs side by side: a change of both by one click is one marker, with its cost for each.

    Parameters
    ----------
    changes : two lists of Change
        The changes of each run that were carried out, oldest first.
    names : tuple of str
        Names of the runs.
    clocks : two functions
        Convert a monotonic time to seconds on the axis that the runs share.
    """
    left = [[_marker(change, clock) for change in of_run] for of_run, clock in zip(changes, clocks, strict=True)]
    found: list[dict[str, Any]] = []
    while left[0] and left[1]:
        a, b = left[0][0], left[1][0]
        if a["label"] == b["label"] and abs(a["t"] - b["t"]) < TOGETHER_S:
            took = ", ".join(f"{name}: {one['ms']}" for name, one in zip(names, (a, b), strict=True))
            found.append({**a, "t": min(a["t"], b["t"]), "end": max(a["end"], b["end"]), "ms": took})
            del left[0][0], left[1][0]
        else:
            which = int(b["t"] < a["t"])
            found.append(_of_one(left[which].pop(0), names[which]))
    found += [_of_one(one, name) for name, of_run in zip(names, left, strict=True) for one in of_run]
    return _columns(found)


def _of_one(marker: dict[str, Any], name: str) -> dict[str, Any]:
    return {**marker, "what": f"{name}: {marker['what']}"}


def _marker(change: Any, seconds_of: Callable[[int], float]) -> dict[str, Any]:
    return {
        "t": seconds_of(change.started_ns or change.completed_ns),
        "end": seconds_of(change.completed_ns),
        "label": label_of(change),
        "what": change.describe(),
        "reason": change.reason or "asked for",
        "ms": f"{change.ms:.2f} ms",
    }


def _columns(rows: list[dict[str, Any]]) -> dict[str, list]:
    return {name: [row[name] for row in rows] for name in COLUMNS}


def label_of(change: Any) -> str:
    """Return what a change did, or the first thing it did, in a few characters: room beside a marker is scarce."""
    if change.from_threads == change.to_threads and change.buckets_moved:
        return counted(change.buckets_moved, "bucket")
    first, *others = change.describe().removeprefix("threads ").replace(" → ", "→").split(", ")
    return f"{first} …" if others else first
