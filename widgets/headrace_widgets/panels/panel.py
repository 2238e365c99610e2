"""What the panels share: one time axis, one set of data sources, ranges that only grow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from bokeh.models import ColumnDataSource, CrosshairTool, FixedTicker, HoverTool, LinearScale, Range1d
from bokeh.plotting import figure

from headrace_widgets import palette

HEIGHT = 190
NOTHING = [math.nan]
CHANGE_COLUMNS = ("t", "end", "top", "label", "reason", "ms")


@dataclass
class Scene:
    """What the figures of one dashboard have in common.

    Parameters
    ----------
    threads : int
        Threads that have columns.
    cores : int
        Physical limit drawn into the plot of threads.
    sources : tuple of str
        Names of the operator's sources.
    limit : float
        Imbalance (a fraction) above which a mapping should be balanced.
    """

    threads: int
    cores: int
    sources: tuple[str, ...] = ()
    limit: float = 0.2
    series: ColumnDataSource = field(init=False)
    changes: ColumnDataSource = field(init=False)
    workers: ColumnDataSource = field(init=False)
    x_range: Range1d = field(init=False)
    crosshair: CrosshairTool = field(init=False)

    def __post_init__(self):
        # One row of nothing: a legend is drawn once, from the first row.
        self.series = ColumnDataSource({"t": NOTHING}, name="series")
        self.changes = ColumnDataSource({column: [] for column in CHANGE_COLUMNS}, name="changes")
        self.workers = ColumnDataSource({"thread": list(range(self.threads))}, name="workers")
        self.x_range = Range1d(0, 60, name="x")
        self.crosshair = CrosshairTool(dimensions="height", line_alpha=0.4)

    def columns(self, names: list[str]) -> None:
        """Declare columns of the time series, so that they exist before there are rows."""
        for name in names:
            self.series.data.setdefault(name, NOTHING)


class Panel(Protocol):
    """One plot: its figure is built once, then only columns and the end of its range change."""

    key: str
    title: str

    def figure(self, scene: Scene) -> figure: ...

    def top(self, highest: Mapping[str, float]) -> float:
        """The largest value that must be visible, given the largest of each column; NaN: any."""
        ...

    def text(self, now: Mapping[str, float]) -> str:
        """The newest values, in words."""
        ...


def plain(key: str, unit: str, **options) -> figure:
    """An empty figure in the dashboard's style; its vertical range is called `key`."""
    y_range = Range1d(0, 1, name=key)
    if options.get("y_axis_type") == "log":
        y_range = Range1d(0.01, 10, name=key)
    options.setdefault("y_range", y_range)
    made = figure(
        height=HEIGHT, sizing_mode="stretch_width", toolbar_location=None, tools="",
        background_fill_alpha=0, border_fill_alpha=0, outline_line_color=None, y_axis_label=unit,
        min_border_right=12, output_backend="canvas", **options,
    )  # fmt: skip
    made.xgrid.grid_line_alpha = made.ygrid.grid_line_alpha = 0.7
    made.axis.axis_label_text_font_style = "normal"
    made.axis.axis_label_text_font_size = made.axis.major_label_text_font_size = "11px"
    made.axis.minor_tick_line_color = None
    return made


def time_figure(scene: Scene, key: str, unit: str, **options) -> figure:
    """A figure over the shared time axis, with a marker for each reconfiguration."""
    made = plain(key, unit, x_range=scene.x_range, x_axis_label="time since the first tuple (s)", **options)
    made.extra_y_ranges = {"markers": Range1d(0, 1)}
    made.extra_y_scales = {"markers": LinearScale()}  # whatever the scale of the axis
    marker = made.segment(
        "t", 0, "t", "top", source=scene.changes, y_range_name="markers", color=palette.CHANGE, width=2,
        line_dash="dashed",
    )  # fmt: skip
    words = made.text(
        "t", "top", "label", source=scene.changes, y_range_name="markers", text_font_size="10px",
        text_baseline="top", x_offset=3,
    )  # fmt: skip
    words.glyph.tags = ["ink-text"]  # the page paints it in its theme's colour
    made.add_tools(
        HoverTool(renderers=[marker], tooltips=[("change", "@label"), ("took", "@ms"), ("why", "@reason")]),
        scene.crosshair,
    )
    return made


def compact_legend(made: figure, place: str = "top_left") -> None:
    """A small legend over the plot that hides a line when clicked."""
    legend = made.legend
    legend.location, legend.orientation, legend.click_policy = place, "horizontal", "hide"
    legend.background_fill_alpha, legend.border_line_color = 0.6, None
    legend.label_text_font_size, legend.padding, legend.margin, legend.spacing = "11px", 2, 2, 6
    legend.glyph_width = 16


def whole_ticks(made: figure, most: int) -> None:
    """Ticks at whole numbers, few enough to read."""
    step = max(1, math.ceil(most / 8))
    made.yaxis.ticker = FixedTicker(ticks=list(range(0, most + 1, step)))


class GrowingRange:
    """The end of an axis: a round number above everything seen, that only grows until it is reset."""

    def __init__(self, least: float):
        self._least = least
        self.end = least

    def cover(self, value: float) -> float:
        """Return an end that shows `value`."""
        if math.isfinite(value) and value > self.end * 0.98:
            self.end = round_up(value * 1.05)
        return self.end

    def reset(self) -> None:
        """Begin again from the least end."""
        self.end = self._least


def round_up(value: float) -> float:
    """The next of 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(m * power for m in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if m * power >= value)


def largest(highest: Mapping[str, float], *columns: str) -> float:
    """The largest of these columns, given the largest of each."""
    return max([highest[column] for column in columns], default=0.0)


def amount(value: float, unit: str = "") -> str:
    """A number for reading: 1,234 or 12.3 k or 4.56 M."""
    if not math.isfinite(value):
        return "unknown"
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scale = {"G": 1e9, "M": 1e6, "k": 1e3}[letter]
            return f"{value / scale:,.1f} {letter}{unit}".strip()
    return f"{value:,.0f} {unit}".strip()


def milliseconds(value: float) -> str:
    """A duration for reading."""
    if not math.isfinite(value):
        return "unknown"
    if value >= 1_000:
        return f"{value / 1_000:,.2f} s"
    return f"{value:,.3g} ms"
