"""The base of the panels: one time axis, one set of data sources, ranges that follow what is shown."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from bokeh.models import BasicTicker, ColumnDataSource, CrosshairTool, HoverTool, LinearScale, Range1d
from bokeh.plotting import figure

from headrace_widgets import markers, palette
from headrace_widgets.columns import OperatorColumns

HEIGHT = 190
LABELS = 18
"""Height above a plot for the labels of changes: beside the curves, not over them."""
NOTHING = [math.nan]


@dataclass
class Scene:
    """What the figures of one widget share.

    Parameters
    ----------
    operator : OperatorColumns
        The columns that can be drawn.
    max_threads : int
        Maximum number of active threads.
    time_unit : str
        Unit of event times.
    limit : float
        Imbalance (a fraction) above which a mapping should be balanced.
    has_sources : bool
        Whether the run has metrics of its sources.
    """

    operator: OperatorColumns
    max_threads: int
    time_unit: str = ""
    limit: float = 0.2
    has_sources: bool = False
    series: ColumnDataSource = field(init=False)
    changes: ColumnDataSource = field(init=False)
    x_range: Range1d = field(init=False)
    crosshair: CrosshairTool = field(init=False)

    def __post_init__(self):
        # One row of NaN: a legend is drawn once, from the first row.
        self.series = ColumnDataSource({"t": NOTHING}, name="series")
        self.changes = ColumnDataSource({column: [] for column in markers.COLUMNS}, name="changes")
        self.x_range = Range1d(0, 60, name="x")
        self.crosshair = CrosshairTool(dimensions="height", line_alpha=0.4)

    def draws(self, *names: str) -> None:
        """Name columns of the time series, so that they exist before there are rows."""
        for name in names:
            self.series.data.setdefault(name, NOTHING)


class Panel(Protocol):
    """One plot: its figure is built once, then only columns and the end of its range change."""

    key: str
    title: str
    about: str
    """What it shows, in a sentence that appears when the mouse rests on the title; "" where the title says it."""
    least: float
    """The lowest upper end of its vertical axis."""
    floor: float
    """Where that axis begins."""
    unit: str
    """Unit of its lines' values, beside each value under the mouse; "" where the format says it."""
    shows: tuple[str, ...]
    """Names of the measures that no other panel needs to show."""

    def has_meaning(self, now: Mapping[str, float]) -> bool:
        """Whether there is something to see, given the newest values; until then the panel is left out."""
        ...

    def figure(self, scene: Scene) -> figure: ...

    def top(self, highest: Mapping[str, float]) -> float:
        """Return the largest value that must be visible, given the largest of each column; NaN: any."""
        ...

    def text(self, now: Mapping[str, float]) -> str:
        """Return the newest values, in words."""
        ...


class KnownPanel(ABC):
    """A panel of measures that engines share, with texts of its own for them.

    It is drawn only if the measures `needs` are declared; `also` is shown where it is declared.
    """

    key = title = about = unit = ""
    least, floor = 1.0, 0.0
    needs: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    def __init__(self, scene: Scene):
        self.shows = (*self.needs, *self.also)

    @abstractmethod
    def figure(self, scene: Scene) -> figure: ...

    @abstractmethod
    def top(self, highest: Mapping[str, float]) -> float: ...

    @abstractmethod
    def text(self, now: Mapping[str, float]) -> str: ...

    @classmethod
    def made_for(cls, scene: Scene) -> list[Panel]:
        """Return the panel in a list, or an empty list."""
        return [cls(scene)] if cls.is_for(scene) else []

    @classmethod
    def is_for(cls, scene: Scene) -> bool:
        """Whether the operator measures what the panel needs."""
        return all(name in scene.operator.measures for name in cls.needs)

    def has_meaning(self, now: Mapping[str, float]) -> bool:
        return True


def plain(key: str, unit: str, **options) -> figure:
    """Return an empty figure in the dashboard's style; its vertical range is named `key`."""
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
    """Return a figure over the shared time axis, with a marker for each reconfiguration; the page labels the markers."""
    made = plain(key, unit, x_range=scene.x_range, x_axis_label="time since the first tuple (s)", **options)
    made.min_border_top = LABELS
    made.extra_y_ranges = {"markers": Range1d(0, 1)}
    made.extra_y_scales = {"markers": LinearScale()}  # also where the axis is logarithmic
    marker = made.segment(
        "t", 0, "t", 1, source=scene.changes, y_range_name="markers", color=palette.CHANGE, width=2,
        line_dash="dashed",
    )  # fmt: skip
    made.add_tools(
        HoverTool(renderers=[marker], tooltips=[("change", "@what"), ("took", "@ms"), ("why", "@reason")]),
        scene.crosshair,
    )
    return made


def compact_legend(made: figure, place: str = "top_left") -> None:
    """Return a small legend over the plot, in which a click hides a line."""
    legend = made.legend
    legend.location, legend.orientation, legend.click_policy = place, "horizontal", "hide"
    legend.background_fill_alpha, legend.border_line_color = 0.6, None
    legend.label_text_font_size, legend.padding, legend.margin, legend.spacing = "11px", 2, 2, 6
    legend.glyph_width = 16


def whole_ticks(made: figure) -> None:
    """Return ticks at whole numbers."""
    made.yaxis.ticker = BasicTicker(min_interval=1, num_minor_ticks=0)


class RoundRange:
    """The end of an axis: a round number above everything shown.

    It grows at once, and shrinks only when half of it would do: an axis that followed each wave would be unreadable.
    """

    def __init__(self, least: float):
        self._least = least
        self.end = least

    def cover(self, value: float) -> float:
        """Return an end that shows `value`."""
        if math.isfinite(value):
            wanted = max(self._least, round_up(value * 1.05)) if value > 0 else self._least
            if value > self.end * 0.98 or wanted <= self.end / 2:
                self.end = wanted
        return self.end

    def reset(self) -> None:
        """Start again from the least end."""
        self.end = self._least


def round_up(value: float) -> float:
    """Return the next of 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(m * power for m in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if m * power >= value)


def plays_events(now: Mapping[str, float]) -> bool:
    """Whether event times are played: tuples may be late then, but how many are due is unknown."""
    return not math.isnan(now["lag_s"]) and math.isnan(now["behind"])


def largest(highest: Mapping[str, float], *columns: str) -> float:
    """Return the largest value of these columns, given the largest of each."""
    return max([highest[column] for column in columns], default=0.0)
