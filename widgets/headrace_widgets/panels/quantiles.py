"""Panels of durations: a heat map over time, with median and 99th percentile, on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, NumeralTickFormatter

from headrace.metrics.measures import Measure
from headrace_widgets import heat, palette
from headrace_widgets.columns import heading_of, key_of
from headrace_widgets.panels.panel import Panel, Scene, compact_legend, largest, time_figure
from headrace_widgets.units import milliseconds

_DECADES = [10.0**exponent for exponent in range(-4, 9)]


class Quantiles:
    """A histogram of durations: the number of each size, the median and the 99th percentile."""

    least = 1.0
    unit, axis = "ms", "ms (log)"
    half = "Half within {}, 99 % within {}."
    nothing = "Nothing was counted yet."

    def __init__(self, scene: Scene, measure: Measure):
        self.key, self.title, self.about = key_of(measure), heading_of(measure), measure.title
        self.shows = (measure.name,)
        self.measure = measure.name
        self.floor = 0.1
        self._p50, self._p99 = scene.operator.of[measure.name]
        self._top = math.nan
        self.cells = ColumnDataSource({column: [] for column in heat.COLUMNS}, name=f"heat_{measure.name}")

    def has_meaning(self, now: Mapping[str, float]) -> bool:
        return True

    def figure(self, scene: Scene):
        scene.draws(self._p50, self._p99)
        made = time_figure(scene, self.key, self.axis, y_axis_type="log")
        made.yaxis.formatter = NumeralTickFormatter(format="0,0.[000]")
        made.yaxis.ticker = FixedTicker(ticks=_DECADES)  # there is room for them at any height
        # A line comes first: the page reads the columns under the mouse from it.
        for column, label, look in (
            (self._p99, "p99", {"width": 1.5, "line_dash": "dashed"}),
            (self._p50, "p50", {"width": 2}),
        ):
            line = made.line("t", column, source=scene.series, legend_label=label, color="#222222", **look)
            line.glyph.tags = ["ink-line"]
        tiles = made.quad(
            "left", "right", "top", "bottom", source=self.cells, fill_color=palette.OUT, fill_alpha="shade",
            line_color=None, level="underlay", legend_label="all (stronger: more)",
        )  # fmt: skip
        sizes = [("how many", "@count{0,0}"), ("of", "@bottom{0.[000]} to @top{0.[000]} ms")]
        made.add_tools(HoverTool(renderers=[tiles], tooltips=sizes))
        compact_legend(made)
        return made

    def cover(self, cells: np.ndarray) -> None:
        """Let the axis begin at the decade of the shortest of these durations, and show the longest."""
        if cells.shape[1]:
            self.floor = 10.0 ** math.floor(math.log10(cells[heat.COLUMNS.index("bottom")].min() * 1.001))
            self._top = cells[heat.COLUMNS.index("top")].max()

    def top(self, highest: Mapping[str, float]) -> float:
        longest = float(np.nanmax([largest(highest, self._p50, self._p99), self._top, 100 * self.floor]))
        return 0.95 * 10.0 ** math.ceil(math.log10(longest))  # rounded up from there it is a decade, too

    def text(self, now: Mapping[str, float]) -> str:
        if now[self._p50] != now[self._p50]:
            return self.nothing
        return self.half.format(milliseconds(now[self._p50]), milliseconds(now[self._p99]))


class Latency(Quantiles):
    """Time from the arrival of the tuple that made a result ready to the result's emission."""

    needs, also = ("latency",), ()
    axis = "latency (ms, log)"
    half = "Half of the results within {}, 99 % within {}."
    nothing = "No result yet."

    def __init__(self, scene: Scene):
        super().__init__(scene, scene.operator.measures["latency"])
        self.key = "latency"
        self.about = (
            "Time from the arrival of the tuple that made a result ready until the result is out. Colour: all results, the"
            " stronger the more. Lines: the median (p50) and the 99th percentile (p99) of each interval."
        )
        if "depth_ms" in scene.operator.of:  # the elastic engine, whose operators have windows
            self.nothing = "No result yet: a window gives its results when it is complete."

    @classmethod
    def made_for(cls, scene: Scene) -> list[Panel]:
        """The panel, or nothing."""
        measure = scene.operator.measures.get("latency")
        return [cls(scene)] if measure is not None and measure.kind == "histogram" else []
