"""All plots of one operator in one widget: which of its history is shown, and when they are updated."""

from __future__ import annotations

import time
from typing import Any

from headrace_widgets.figures import Figures
from headrace_widgets.layouts import LAYOUTS, Layout
from headrace_widgets.live_plot import LiveFigure, LivePlot
from headrace_widgets.markers import markers

MOST_POINTS = 300
MOST_MARKERS = 200
TEXT_EVERY_S = 2.0
"""Screen readers read the texts out: they change rarely enough to be listened to."""
SLOW_EVERY_S = 1.0
"""Time between two updates of heat maps, whose slots are not shorter, or not by much."""


class TimeView:
    """The span of time that is shown: the last `span_s` seconds, or as many up to a time in the past."""

    def __init__(self, span_s: float | None = 60.0):
        self.span_s = span_s
        """None: everything since the beginning."""
        self.end_s: float | None = None
        """None: now."""

    def last_shown(self, now_s: float) -> float:
        """Return the time up to which there is something to see, in seconds since the first tuple."""
        return now_s if self.end_s is None else min(self.end_s, now_s)

    def range(self, now_s: float) -> tuple[float, float]:
        """Return the ends of the time axis; at first it reaches beyond the data, so that it does not jump."""
        end = self.last_shown(now_s)
        if self.span_s is None:
            return 0.0, max(end, 1.0)
        start = max(0.0, end - self.span_s)
        return start, start + self.span_s


class Plots:
    """The widget with the figures of one operator."""

    def __init__(self, figures: Figures, view: TimeView):
        self._figures, self._view = figures, view
        live = [LiveFigure(one.key, one.title, figures.built[one.key], one.about) for one in figures.panels]
        self.widget = LivePlot(live, figures.columns)
        self.widget.texts = {one.key: "No tuple yet." for one in figures.panels}
        self._layout, self._has_tree = LAYOUTS["full"], False
        self._drawn: tuple | None = None
        self._said: tuple | None = None
        self._said_at = self._slow_at = 0.0
        self._marked: tuple | None = None
        self._has_row = False
        """Whether the panels shown were chosen from values: from then on they keep their places."""
        self._choose({})

    def fit(self) -> None:
        """Fit the axes to what is shown."""
        self._figures.fit()
        self._drawn = None

    @property
    def newest_s(self) -> float | None:
        """The time of the newest row, in seconds since the first tuple; None before there is one."""
        table = self._figures.feed.tables[self._figures.operator]
        return table.newest("t") if len(table) else None

    def update(self) -> None:
        """Show the present state; costs nothing if nothing has changed."""
        now_s = self.newest_s
        if now_s is None:
            return
        start, end = self._view.range(now_s)
        last = self._view.last_shown(now_s)
        state, before = (start, end, last), self._drawn
        if state == before == self._said:
            return
        self._drawn, now = state, time.monotonic()
        # Once nothing new comes, texts and heat maps catch up with the curves.
        stands_still = state == before or self._view.end_s is not None
        blocks = self._figures.blocks(start, last, MOST_POINTS)
        slow = texts = None
        if stands_still or now - self._slow_at >= SLOW_EVERY_S:
            self._slow_at = now
            slow = self._figures.cells(start, last)
        if stands_still or now - self._said_at >= TEXT_EVERY_S:
            self._said_at, self._said = now, state
            row = self._figures.row_at(last)
            texts = self._figures.texts(row)
            self._choose(row)
        self.widget.push(blocks, self._figures.ranges(blocks["series"], start, end), texts, slow)

    def arrange(self, layout: Layout, has_tree: bool = False) -> None:
        """Show the panels of a layout in its size; beside the tree of a plan, or alone."""
        self._layout, self._has_tree, self._has_row = layout, has_tree, False
        self.widget.look = layout.look
        self.widget.places = len(layout.choose(self._figures.possible, has_tree))
        self._choose(self._figures.last)

    def _choose(self, now: dict[str, float]) -> None:
        shown = self._layout.choose(self._figures.with_meaning(now), self._has_tree)
        if self._has_row:
            shown = in_their_places(shown, self.widget.shown)
        self._has_row = bool(now)
        if shown != self.widget.shown:
            self.widget.shown = shown

    def mark(self, changes: list[Any]) -> None:
        """Mark these reconfigurations of the operator on the time axis; if there are many, the newest."""
        own = [
            change
            for change in changes
            if change.operator == self._figures.operator and change.outcome == "done"
        ]
        marked = (len(own), own[-1:], self._figures.feed.origin_ns)  # a long run keeps the newest: their number stays
        if marked != self._marked and self._figures.feed.origin_ns is not None:
            self._marked = marked
            self.widget.labels = {"changes": markers(own[-MOST_MARKERS:], self._figures.feed)}


def in_their_places(wanted: list[str], before: list[str]) -> list[str]:
    """Keep panels in their places: a new panel takes the place of one that goes, or the last place.

    Examples
    --------
    >>> in_their_places(["throughput", "threads", "imbalance"], ["throughput", "latency", "threads"])
    ['throughput', 'imbalance', 'threads']
    >>> in_their_places(["load", "imbalance", "depth"], ["load", "depth"])
    ['load', 'depth', 'imbalance']
    """
    coming = iter([key for key in wanted if key not in before])
    kept = [key if key in wanted else next(coming, None) for key in before]
    return [*filter(None, kept), *coming]
