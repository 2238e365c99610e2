"""All plots of one operator in one widget: what is shown of its history, and when."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from bokeh.plotting import figure

from headrace_widgets.feed import Feed
from headrace_widgets.live_plot import LivePlot
from headrace_widgets.panels import Scene, make_panels
from headrace_widgets.panels.busy import ENDS
from headrace_widgets.panels.panel import CHANGE_COLUMNS, GrowingRange

MOST_POINTS = 300
MOST_MARKERS = 200
TEXT_EVERY_S = 2.0
"""Texts are read out by screen readers: seldom enough to listen to."""
_WHOLE = ("busy",)
"""Panels whose ranges are fixed."""
_LEAST = {"throughput": 10.0, "latency": 1.0, "threads": 1.0, "load": 10.0, "imbalance": 0.1, "depth": 10.0}


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class TimeView:
    """Which span of time is shown: the last `span_s` seconds, or as many up to a moment in the past."""

    def __init__(self, span_s: float | None = 60.0):
        self.span_s = span_s
        """None: everything since the beginning."""
        self.end_s: float | None = None
        """None: now."""

    def last_shown(self, now_s: float) -> float:
        """The moment up to which there is something to see, in seconds since the first tuple."""
        return now_s if self.end_s is None else min(self.end_s, now_s)

    def range(self, now_s: float) -> tuple[float, float]:
        """Ends of the time axis; at first it reaches beyond what is there, so that it does not jump."""
        end = self.last_shown(now_s)
        if self.span_s is None:
            return 0.0, max(end, 1.0)
        start = max(0.0, end - self.span_s)
        return start, start + self.span_s


class Figures:
    """The figures of one operator, built once, and the columns and ranges they are given."""

    def __init__(self, feed: Feed, operator: str, max_threads: int, limit: float, time_unit: str):
        self.operator = operator
        self.feed = feed
        self.scene = Scene(feed.threads_of(operator), cores(), feed.sources[operator], limit)
        self.panels = make_panels(self.scene, max_threads, time_unit)
        self.built: dict[str, tuple[str, figure]] = {
            panel.key: (panel.title, panel.figure(self.scene)) for panel in self.panels
        }
        self._ranges = {
            p.key: GrowingRange(_LEAST.get(p.key, 1.0)) for p in self.panels if p.key not in _WHOLE
        }
        self._highest: list[float] = []
        """The largest value of each column of `series` that the ranges cover; empty: nothing yet."""
        self._ends: dict[str, tuple[float, float]] = {}
        self._busy = next(panel for panel in self.panels if panel.key == "busy")
        table = feed.tables[operator]
        drawn = [column for column in table.columns if column in self.scene.series.data]
        self.columns: dict[str, list[str]] = {"series": drawn, "workers": list(ENDS)}
        """Source name -> the columns that `blocks` gives, in its order."""
        self._series, self._shares = table.places(self.columns["series"]), table.places(self._busy.shares)

    @property
    def last(self) -> dict[str, float]:
        """The newest row; empty before the first."""
        return self.feed.tables[self.operator].last

    def fit(self) -> None:
        """Let the ranges begin anew from what is shown."""
        for one in self._ranges.values():
            one.reset()
        self._highest = []

    def row_at(self, at_s: float) -> dict[str, float]:
        """The newest row that is not later."""
        return self.feed.tables[self.operator].row_at(at_s)

    def blocks(self, start: float, end: float, most: int | None) -> dict[str, np.ndarray]:
        """float64[columns, rows] for each data source, of a span of time."""
        table = self.feed.tables[self.operator]
        series = table.block(self._series, start, end, most)
        return {"series": series, "workers": self._busy.ends(table.values_at(end, self._shares))}

    def ranges(self, series: np.ndarray, start: float, end: float) -> dict[str, tuple[float, float]]:
        """Ends of all axes."""
        highest = np.fmax.reduce(series, axis=1, initial=0.0).tolist()
        covered = self._highest or [-1.0] * len(highest)
        if any(new > old for new, old in zip(highest, covered, strict=True)):  # else no panel need be asked
            self._highest = list(map(max, highest, covered))
            self._cover()
        return {"x": (start, end), **self._ends}

    def _cover(self) -> None:
        highest = dict(zip(self.columns["series"], self._highest, strict=True))
        for panel in self.panels:
            if panel.key in self._ranges:
                low = 0.01 if panel.key == "latency" else 0.0
                self._ends[panel.key] = (low, self._ranges[panel.key].cover(panel.top(highest)))

    def texts(self, now: Mapping[str, float]) -> dict[str, str]:
        """Each panel's newest values in words."""
        return {panel.key: panel.text(now) for panel in self.panels}


def markers(changes: list[Any], feed: Feed) -> dict[str, list]:
    """Columns of the source `changes`: one marker for each reconfiguration that was carried out."""
    columns: dict[str, list] = {name: [] for name in CHANGE_COLUMNS}
    done = [change for change in changes if change.outcome == "done"]
    for i, change in enumerate(done):
        columns["t"].append(feed.seconds_of(change.started_ns or change.completed_ns))
        columns["end"].append(feed.seconds_of(change.completed_ns))
        columns["top"].append(1.0 - 0.09 * (i % 4))  # neighbours' words do not cover each other
        columns["label"].append(words_of(change))
        columns["reason"].append(change.reason or "asked for")
        columns["ms"].append(f"{change.ms:.2f} ms")
    return columns


def words_of(change: Any) -> str:
    """What a change did, in a few signs."""
    if change.from_threads == change.to_threads:
        return f"{change.buckets_moved} buckets"
    return f"{change.from_threads}→{change.to_threads}"


class Plots:
    """The widget with the figures of one operator."""

    def __init__(self, figures: Figures, view: TimeView):
        self._figures, self._view = figures, view
        self.widget = LivePlot(figures.built, figures.columns)
        self._drawn: tuple | None = None
        self._said_at = 0.0
        self._marked: tuple | None = None

    def fit(self) -> None:
        """Let the axes begin anew from what is shown."""
        self._figures.fit()
        self._drawn = None

    @property
    def newest_s(self) -> float | None:
        """The moment of the newest row, in seconds since the first tuple; None before there is one."""
        table = self._figures.feed.tables[self._figures.operator]
        return table.newest("t") if len(table) else None

    def update(self) -> None:
        """Show what there is now; costs nothing where nothing has changed."""
        now_s = self.newest_s
        if now_s is None:
            return
        start, end = self._view.range(now_s)
        last = self._view.last_shown(now_s)
        state = (start, end, last)
        if state == self._drawn:
            return
        self._drawn = state
        texts = None
        if self._view.end_s is not None or time.monotonic() - self._said_at >= TEXT_EVERY_S:
            self._said_at = time.monotonic()
            texts = self._figures.texts(self._figures.row_at(last))
        blocks = self._figures.blocks(start, last, MOST_POINTS)
        self.widget.push(blocks, self._figures.ranges(blocks["series"], start, end), texts)

    def mark(self, changes: list[Any]) -> None:
        """Show these reconfigurations of the operator on the time axis, the newest where there are many."""
        own = [
            change
            for change in changes
            if change.operator == self._figures.operator and change.outcome == "done"
        ]
        marked = (len(own), self._figures.feed.origin_ns)
        if marked != self._marked and self._figures.feed.origin_ns is not None:
            self._marked = marked
            self.widget.labels = {"changes": markers(own[-MOST_MARKERS:], self._figures.feed)}
