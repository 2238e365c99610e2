"""Panels of counters by size: bars by size class, with both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, NumeralTickFormatter, Range1d

from headrace.metrics.measures import Measure
from headrace_widgets import palette
from headrace_widgets.columns import heading_of, key_of
from headrace_widgets.panels.panel import Scene, plain
from headrace_widgets.units import amount

LEAST = 1e-5
"""The share at which the axis begins, and at which an empty bar ends."""

NAMED_EVERY = 5
"""Of the classes, which have their least size at the axis: as many as there is room for in a narrow plot."""


class Sizes:
    """A counter by size: the share of each class among recent counts."""

    least, floor, unit = 1.0, 0.0, ""

    def __init__(self, scene: Scene, measure: Measure):
        self.key, self.title, self.about = key_of(measure), heading_of(measure), measure.title
        self.shows = (measure.name,)
        self._unit, self._word = measure.unit, heading_of(measure).lower()
        self.columns = list(scene.operator.of[measure.name])
        """Columns of the feed that `block` is made from."""
        self._first = [int(size) for size in scene.operator.elements[measure.name]]
        self.source = ColumnDataSource(
            {"place": list(range(len(self._first))), "sizes": [self._said(i) for i in range(len(self._first))]}
            | {column: [math.nan] * len(self._first) for column in self.pushed},
            name=self.key,
        )

    def _said(self, i: int) -> str:
        """Return the sizes of a class as text."""
        if i + 1 == len(self._first):
            return f"{self._first[i]:,} and more"
        last = self._first[i + 1] - 1
        return f"{last:,}" if last == self._first[i] else f"{self._first[i]:,} to {last:,}"

    def has_meaning(self, now: Mapping[str, float]) -> bool:
        return any(now[column] > 0 for column in self.columns)

    def figure(self, scene: Scene):
        many = len(self._first)
        made = plain(
            self.key, f"share of {self._unit} (log)", x_range=Range1d(-0.6, many - 0.4),
            x_axis_label=f"{self._word} (log), last half second", y_range=Range1d(LEAST, 1.5), y_axis_type="log",
        )  # fmt: skip
        made.yaxis.formatter = NumeralTickFormatter(format="0.[000]%")
        made.yaxis.ticker = FixedTicker(ticks=[1e-4, 1e-2, 1])
        named = range(0, many, NAMED_EVERY)
        made.xaxis.ticker = FixedTicker(ticks=list(named))
        made.xaxis.major_label_overrides = {i: f"{self._first[i]:,}" for i in named}
        made.xgrid.grid_line_color = None
        bars = made.vbar(
            x="place", top="top", bottom=LEAST, width=0.86, source=self.source, color=palette.OUT, line_color=None
        )
        values = [(self._word, "@sizes"), (f"{self._unit}/s", "@per_s{0,0}"), ("share", "@share{0.[000]%}")]
        made.add_tools(HoverTool(renderers=[bars], tooltips=values))
        return made

    @property
    def pushed(self) -> list[str]:
        """The columns of `source` that change."""
        return ["top", "share", "per_s"]

    def block(self, values: np.ndarray) -> np.ndarray:
        """Return float64[3, classes]: the columns `pushed`, from the values of the columns `columns`."""
        per_s = np.maximum(values, 0)
        share = per_s / max(float(np.nansum(per_s)), 1e-300)
        return np.stack([np.maximum(share, LEAST), share, per_s])

    def top(self, highest: Mapping[str, float]) -> float:
        return float("nan")

    def text(self, now: Mapping[str, float]) -> str:
        counts = [now[column] for column in self.columns]
        there = [i for i, count in enumerate(counts) if count > 0]
        if not there:
            return "Nothing was counted lately."
        whole, usual = sum(counts[i] for i in there), max(there, key=counts.__getitem__)
        return (
            f"{amount(whole)} {self._unit}/s: {counts[usual] / whole:.0%} of {self._said(usual)},"
            f" the longest of {self._said(there[-1])}."
        )
