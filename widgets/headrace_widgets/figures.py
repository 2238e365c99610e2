"""The figures of one operator: built once, then given columns and ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from bokeh.models import ColumnDataSource
from bokeh.plotting import figure

from headrace_widgets import heat
from headrace_widgets.feed import Feed
from headrace_widgets.panels import Panel, Scene
from headrace_widgets.panels.hover import add_values_on_hover
from headrace_widgets.panels.panel import RoundRange
from headrace_widgets.panels.quantiles import Quantiles
from headrace_widgets.panels.shares import Shares
from headrace_widgets.panels.sizes import Sizes

_OF_NOW = (Shares, Sizes)
"""Kinds of panels that show only the newest values, without a time axis."""
_MUCH_LESS = 0.75
"""If a column's largest value falls below this share of its former one, axes are checked for shrinking."""


class Figures:
    """The figures, and the columns and ranges they are given.

    Parameters
    ----------
    feed : Feed
    operator : str
    scene : Scene
    panels : sequence of Panel
        In the order shown; made for this scene.
    """

    def __init__(self, feed: Feed, operator: str, scene: Scene, panels: Sequence[Panel]):
        self.feed, self.operator, self.scene = feed, operator, scene
        self.panels = list(panels)
        self.built: dict[str, figure] = {panel.key: panel.figure(scene) for panel in panels}
        self._of_now = [panel for panel in self.panels if isinstance(panel, _OF_NOW)]
        self._heated = [panel for panel in self.panels if isinstance(panel, Quantiles)]
        self._timed = [panel for panel in self.panels if not isinstance(panel, _OF_NOW)]
        for panel in self._timed:
            add_values_on_hover(self.built[panel.key], scene, panel.title, panel.unit)
        self._ranges = {panel.key: RoundRange(panel.least) for panel in self._timed}
        self._highest: list[float] = []
        """The largest value of each column of `series` that the ranges were made for; empty: nothing yet."""
        self._had_meaning: set[str] = set()
        self._ends: dict[str, tuple[float, float]] = {}
        table = feed.tables[operator]
        drawn = [column for column in table.columns if column in scene.series.data]
        self.columns: dict[str, list[str]] = {"series": drawn} | {
            panel.source.name: panel.pushed for panel in self._of_now
        } | {panel.cells.name: heat.COLUMNS for panel in self._heated}
        """Source name -> the columns that `blocks` and `cells` give, in their order."""
        self._places = table.places(drawn)
        self._places_of_now = [table.places(panel.columns) for panel in self._of_now]

    @property
    def last(self) -> dict[str, float]:
        """The newest row; empty before the first."""
        return self.feed.tables[self.operator].last

    @property
    def sources(self) -> list[ColumnDataSource]:
        """The data sources of `columns`."""
        return [self.scene.series, *[panel.source for panel in self._of_now], *[panel.cells for panel in self._heated]]

    def fit(self) -> None:
        """Fit the ranges to what is shown."""
        for one in self._ranges.values():
            one.reset()
        self._highest = []

    def row_at(self, at_s: float) -> dict[str, float]:
        """Return the newest row that is not later than a time."""
        return self.feed.tables[self.operator].row_at(at_s)

    def blocks(self, start: float, end: float, most: int | None) -> dict[str, np.ndarray]:
        """Return float64[columns, rows] for each data source, for a span of time."""
        table = self.feed.tables[self.operator]
        blocks = {"series": table.block(self._places, start, end, most)}
        for panel, places in zip(self._of_now, self._places_of_now, strict=True):
            blocks[panel.source.name] = panel.block(table.values_at(end, places))
        return blocks

    def cells(self, start: float, end: float) -> dict[str, np.ndarray]:
        """Return float64[columns, cells] for each heat map, for a span of time; their axes follow."""
        found = {}
        for panel in self._heated:
            block = self.feed.heat[self.operator][panel.measure].cells(start, end)
            panel.cover(block)
            found[panel.cells.name] = block
        if self._highest:
            self._cover()
        return found

    def ranges(self, series: np.ndarray, start: float, end: float) -> dict[str, tuple[float, float]]:
        """Return the ends of all axes."""
        highest = np.fmax.reduce(series, axis=1, initial=0.0).tolist()
        covered = self._highest or [-1.0] * len(highest)
        # Otherwise no panel needs to be asked: no axis grows, and none shrinks to half.
        if any(new > old or new < _MUCH_LESS * old for new, old in zip(highest, covered, strict=True)):
            self._highest = highest
            self._cover()
        return {"x": (start, end), **self._ends}

    def _cover(self) -> None:
        highest = dict(zip(self.columns["series"], self._highest, strict=True))
        for panel in self._timed:
            self._ends[panel.key] = (panel.floor, self._ranges[panel.key].cover(panel.top(highest)))

    @property
    def possible(self) -> list[str]:
        """Return the keys of the panels that may have something to show at some time."""
        most = dict.fromkeys(self.feed.tables[self.operator].columns, math.inf) | {"threads": self.scene.max_threads}
        return [panel.key for panel in self.panels if panel.has_meaning(most)]

    def with_meaning(self, now: Mapping[str, float]) -> list[str]:
        """Return the keys of the panels that have something to show, or had before, so that panels do not come and go."""
        now = now or dict.fromkeys(self.feed.tables[self.operator].columns, math.nan)
        self._had_meaning |= {panel.key for panel in self.panels if panel.has_meaning(now)}
        return [panel.key for panel in self.panels if panel.key in self._had_meaning]

    def ever_with_meaning(self) -> list[str]:
        """Return the keys of the panels that have something to show, or had at any time."""
        table = self.feed.tables[self.operator]
        return self.with_meaning({column: float(np.fmax.reduce(table[column], initial=-math.inf)) for column in table.columns})

    def texts(self, now: Mapping[str, float]) -> dict[str, str]:
        """Return each panel's newest values in words."""
        return {panel.key: panel.text(now) for panel in self.panels}
