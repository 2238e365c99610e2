"""Reconfigurations on the time axis: one marker for each that was carried out."""

from __future__ import annotations

from typing import Any

from headrace_widgets.feed import Feed

COLUMNS = ("t", "end", "label", "what", "reason", "ms")
"""Of the figures' source `changes`."""


def markers(changes: list[Any], feed: Feed) -> dict[str, list]:
    """The columns, of the changes that were carried out."""
    columns: dict[str, list] = {name: [] for name in COLUMNS}
    done = [change for change in changes if change.outcome == "done"]
    for change in done:
        columns["t"].append(feed.seconds_of(change.started_ns or change.completed_ns))
        columns["end"].append(feed.seconds_of(change.completed_ns))
        columns["label"].append(label_of(change))
        columns["what"].append(change.describe())
        columns["reason"].append(change.reason or "asked for")
        columns["ms"].append(f"{change.ms:.2f} ms")
    return columns


def label_of(change: Any) -> str:
    """What a change did, in a few signs, of several things the first: room beside a marker is scarce."""
    if change.from_threads == change.to_threads and change.buckets_moved:
        return f"{change.buckets_moved} buckets"
    first, *others = change.describe().removeprefix("threads ").replace(" → ", "→").split(", ")
    return f"{first} …" if others else first
