"""A figure of an experiment: its curves as numbers, and as a Bokeh plot."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

WIDTH, HEIGHT = 560, 320
FEW = 8
"""Up to this many different x are labelled one by one."""
LEGEND_LETTERS = 50
"""Number of letters that fit in a line below a plot, on a page of 1,150 pixels with two plots in a row."""
TITLE_LETTERS = 42
"""Number of letters that fit in a line above a plot of 380 pixels, as in a narrow notebook."""
LEGEND_COLUMNS, LEGEND_WIDTH = 3, 365
"""At most so many legend entries in a row, and the room for them: below a plot of 380 pixels, as in a narrow notebook."""
LETTER, MARK = 6.2, 32
"""Pixels that a legend takes for a letter of its widest entries, and for the mark and the spaces of a column."""
LEGEND_ROW, ROOM = 20, 2
"""Height of a legend row, in pixels, and how many rows a plot has room for: with more, the plot is made higher."""
COLORS = 7
BARS = 0.8
"""Share of the distance between two categories that the bars of one category occupy."""
COUNTED = ("threads", "instances")
"""Beginnings of the labels of axes that have integers only."""
_MARKERS = ("circle", "square", "triangle", "diamond", "inverted_triangle", "hex", "star", "plus")
_QUANTILE = re.compile(r", p\d+$")


@dataclass(frozen=True)
class Line:
    """One curve of a figure.

    Parameters
    ----------
    name : str
    x, y : sequences of float, of one length
        NaN in `y` leaves a gap.
    predicted : bool
        Whether a model predicted it: drawn dashed and labelled so.
    steps : bool
        Whether a value holds until the next x, as for threads over time.
    deviation : sequence of float
        Standard deviation of each y over the repetitions, drawn as bars; none are drawn if it is empty.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    predicted: bool = False
    steps: bool = False
    deviation: Sequence[float] = ()

    def __post_init__(self):
        for name in ("x", "y", "deviation"):  # ranges and tuples become lists, which JSON can hold
            object.__setattr__(self, name, list(getattr(self, name)))
        if len(self.x) != len(self.y):
            raise ValueError(f"line {self.name!r}: {len(self.x)} x for {len(self.y)} y; give as many of both")
        if self.deviation and len(self.deviation) != len(self.y):
            raise ValueError(f"line {self.name!r}: {len(self.deviation)} deviations for {len(self.y)} y; give as many, or none")


WHISKERS = (1, 25, 50, 75, 99)
"""Percentiles that a box shows: the ends of its whiskers, those of the box, and the middle line."""


@dataclass(frozen=True)
class Box:
    """The spread of some values: a box of a box plot.

    Parameters
    ----------
    name : str
    percentiles : sequence of float
        Those of `WHISKERS`.
    mean : float
    """

    name: str
    percentiles: Sequence[float]
    mean: float


def box_of(name: str, values: Any) -> Box:
    """Return the box of some values, without NaN.

    >>> box_of("waits", [1.0, 2.0, float("nan"), 3.0])
    Box(name='waits', percentiles=[1.02, 1.5, 2.0, 2.5, 2.98], mean=2.0)
    """
    numbers = np.asarray(values, float)
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        raise ValueError(f"box {name!r}: no value; leave it out")
    return Box(name, [float(each) for each in np.percentile(numbers, WHISKERS)], float(numbers.mean()))


@dataclass(frozen=True)
class Figure:
    """One plot.

    Parameters
    ----------
    title, x_label, y_label : str
        Axis labels name the unit.
    lines : sequence of Line
    log_x, log_y : bool
    note : str
        A sentence under the plot.
    y_max : float, optional
        End of the y axis, the same for plots to be compared.
    boxes : sequence of Box
        In place of lines.
    x_names : sequence of str
        Labels of x = 1, 2, ..., if these do not stand for numbers.
    """

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False
    note: str = ""
    y_max: float | None = None
    boxes: Sequence[Box] = ()
    x_names: Sequence[str] = ()

    @property
    def is_of_categories(self) -> bool:
        """Whether x are categories, such as applications, and not quantities: no line then connects their values.

        >>> [Figure("f", "x", "y", [], x_names=names).is_of_categories for names in (["gs", "sl"], ["10", "1,000"], [])]
        [True, False, False]
        """
        return bool(self.x_names) and not all(name[:1].isdigit() for name in self.x_names)


def part_of(figure: Figure, begin: float, end: float, title: str) -> Figure:
    """The figure from one x to another, as a zoomed-in view.

    >>> lines = [Line("threads", [0, 2, 5, 9], [1, 3, 2, 1], steps=True), Line("load", [1, 4, 6, 8], [0.1, 0.4, 0.6, 0.8])]
    >>> [(line.x, line.y) for line in part_of(Figure("f", "seconds", "y", lines), 4, 7, "part").lines]
    [([4, 5, 7], [3, 2, 2]), ([4, 6], [0.4, 0.6])]
    """
    return replace(figure, title=title, lines=[_part_of_line(line, begin, end) for line in figure.lines])


def _part_of_line(line: Line, begin: float, end: float) -> Line:
    points = list(zip(line.x, line.y, strict=True))
    inside = [(x, y) for x, y in points if begin <= x <= end]
    if line.steps:  # what holds at the beginning began before it, and the last value holds until the end
        inside = [(begin, y) for x, y in points if x < begin][-1:] + inside
        inside += [(end, y) for x, y in inside[-1:] if x < end]
    return replace(line, x=[x for x, _ in inside], y=[y for _, y in inside], deviation=())


def places_of(figures: Sequence[Figure]) -> list[dict[str, int]]:
    """Choose each line's colour and marker in each figure: a name keeps the same ones in all figures, if there are enough.

    Two measurements of the same thing, as "SN, p50" and "SN, p99", both have those of "SN"; `plot_of` draws the second dotted.

    >>> places_of([Figure("f", "x", "y", [Line("a", [], []), Line("b", [], [])]), Figure("g", "x", "y", [Line("b", [], [])])])
    [{'a': 0, 'b': 1}, {'b': 1}]
    """
    known: dict[str, int] = {}
    chosen = []
    for figure in figures:
        places: dict[str, int] = {}
        names = list(dict.fromkeys(_measured(line.name) for line in figure.lines))
        for name in names:
            if name in known and known[name] not in places.values():
                places[name] = known[name]
        for name in names:
            free = [place for place in range(COLORS) if place not in places.values()]
            places.setdefault(name, free[0] if free else len(places))
            known.setdefault(name, places[name])
        chosen.append({line.name: places[_measured(line.name)] for line in figure.lines})
    return chosen


def _measured(name: str) -> str:
    """The part of a line's name that says what is measured: without the quantile."""
    return _QUANTILE.sub("", name)


def plot_of(figure: Figure, name: str = "plot", places: Mapping[str, int] | None = None) -> Any:
    """Draw a figure as a Bokeh plot.

    Parameters
    ----------
    figure : Figure
    name : str
        The plot's name in the report's template.
    places : mapping of str to int, optional
        Each line's place in the order of colours and markers, as by `places_of`.
    """
    from bokeh.models import NumeralTickFormatter
    from bokeh.palettes import Colorblind
    from bokeh.plotting import figure as new_figure

    plot = new_figure(
        title=textwrap.fill(figure.title, TITLE_LETTERS),
        width=WIDTH,
        height=HEIGHT,
        x_axis_label=figure.x_label,
        y_axis_label=figure.y_label,
        x_axis_type="log" if figure.log_x else "linear",
        y_axis_type="log" if figure.log_y else "linear",
        tools="pan,wheel_zoom,box_zoom,reset,save",
    )
    plot.name = name  # where the page puts it
    colors = [Colorblind[8][each] for each in (0, 1, 3, 5, 6, 4, 7)]  # without yellow, which cannot be seen on white
    _draw_lines(plot, figure, places_of([figure])[0] if places is None else places, colors)
    _draw_boxes(plot, figure, colors[0])
    drawn = [line.y for line in figure.lines] + [[*box.percentiles, box.mean] for box in figure.boxes]
    values = np.concatenate([np.asarray(each, float) for each in drawn] or [np.zeros(1)])
    vertical: Any = plot.y_range
    if not figure.log_y:
        vertical.start = min(0.0, float(np.nanmin(values))) if np.isfinite(values).any() else 0.0
        if np.isfinite(values).any() and np.nanmax(np.abs(values)) >= 10:
            plot.yaxis.formatter = NumeralTickFormatter(format="0,0")
    if figure.y_max is not None:
        vertical.end = figure.y_max
    if figure.lines:
        _place_legend(plot)
    _set_ticks(plot, figure)
    plot.axis.minor_tick_line_color = None
    plot.toolbar.logo = None
    return plot


def _draw_lines(plot: Any, figure: Figure, places: Mapping[str, int], colors: Sequence[str]) -> None:
    first = {place: name for name, place in reversed(places.items())}
    for i, line in enumerate(figure.lines):
        color, marker = colors[places[line.name] % COLORS], _MARKERS[places[line.name] % len(_MARKERS)]
        label = f"{line.name} (predicted)" if line.predicted else line.name
        if line.steps:
            plot.step(list(line.x), list(line.y), mode="after", color=color, line_width=2, legend_label=label)
            continue
        if figure.is_of_categories:
            _draw_beside(plot, figure, i, color, marker, label)
            continue
        is_second = first[places[line.name]] != line.name
        dash = "dashed" if line.predicted else "dotted" if is_second else "solid"
        plot.line(list(line.x), list(line.y), color=color, line_width=2, line_dash=dash, legend_label=label)
        if line.deviation:
            ends = [[y + sign * d for y, d in zip(line.y, line.deviation, strict=True)] for sign in (-1, 1)]
            plot.segment(list(line.x), ends[0], list(line.x), ends[1], color=color, line_width=2, legend_label=label)
        if len(line.x) <= 40:
            fill = None if line.predicted else color
            plot.scatter(
                list(line.x), list(line.y), line_color=color, fill_color=fill, size=7, marker=marker, legend_label=label
            )


def _draw_boxes(plot: Any, figure: Figure, color: str) -> None:
    for i, box in enumerate(figure.boxes, 1):
        low, first, middle, third, high = box.percentiles
        plot.segment([i, i], [low, third], [i, i], [first, high], color="black")
        plot.vbar([i], 0.5, [third], [first], fill_color=color, fill_alpha=0.4, line_color="black")
        plot.segment([i - 0.25], [middle], [i + 0.25], [middle], color="black", line_width=2)
        plot.scatter([i], [box.mean], color="black", size=7, marker="diamond")


def _place_legend(plot: Any) -> None:
    """Put the legend below the plot, which grows if it has many rows."""
    legend: Any = plot.legend
    plot.add_layout(legend[0], "below")
    legend.orientation = "horizontal"
    names = [item.label.value for item in legend[0].items]
    wide = range(2, LEGEND_COLUMNS + 1)
    fitting = [1, *(n for n in wide if _legend_width(names, n) <= LEGEND_WIDTH)]
    columns = min(fitting, key=lambda n: (math.ceil(len(names) / n), n))
    legend.ncols = columns
    plot.height += LEGEND_ROW * max(0, math.ceil(len(names) / columns) - ROOM)
    legend.label_text_font_size = "12px"
    legend.label_height = legend.glyph_height = 14  # the plot loses the legend's height
    legend.padding, legend.margin, legend.spacing = 0, 4, 6
    legend.border_line_color = None
    legend.click_policy = "hide"


def _legend_width(names: Sequence[str], columns: int) -> float:
    """Estimate the width of a legend that is filled row by row: without room it reaches below the plot beside it."""
    return sum(MARK + LETTER * max(map(len, names[i::columns]), default=0) for i in range(columns))


def _draw_beside(plot: Any, figure: Figure, i: int, color: str, marker: str, label: str) -> None:
    """Draw the i-th line of a categorical figure beside the others: as bars, or as markers where the axis has no 0."""
    line, width = figure.lines[i], BARS / len(figure.lines)
    x = [each - BARS / 2 + (i + 0.5) * width for each in line.x]
    fill = None if line.predicted else color
    if figure.log_y:
        plot.scatter(x, line.y, line_color=color, fill_color=fill, size=9, marker=marker, legend_label=label)
    else:
        plot.vbar(x, 0.9 * width, line.y, line_color=color, fill_color=fill, legend_label=label)
    if line.deviation:
        low, high = ([y + sign * d for y, d in zip(line.y, line.deviation, strict=True)] for sign in (-1, 1))
        plot.segment(x, low, x, high, color="black", line_width=2)


def _set_ticks(plot: Any, figure: Figure) -> None:
    """Label only values that can occur (no 1.4 threads), and on a logarithmic axis more than the powers of ten."""
    from bokeh.models import FixedTicker, NumeralTickFormatter

    x = sorted({float(value) for line in figure.lines for value in line.x})
    y = [float(value) for line in figure.lines for value in line.y if value == value and value > 0]
    y += [value for box in figure.boxes for value in (*box.percentiles, box.mean) if value > 0]
    names = [box.name for box in figure.boxes] or figure.x_names
    if names:
        plot.xaxis.ticker = FixedTicker(ticks=list(range(1, len(names) + 1)))
        plot.xaxis.major_label_overrides = dict(enumerate(names, 1))
        plot.x_range.start, plot.x_range.end = 0.5, len(names) + 0.5
        if max(map(len, names)) * len(names) > LEGEND_LETTERS:
            plot.xaxis.major_label_orientation = 0.5
    if 0 < len(x) <= FEW and (figure.log_x or figure.x_label.startswith(COUNTED)):
        plot.xaxis.ticker = FixedTicker(ticks=x)
        plot.xaxis.formatter = NumeralTickFormatter(format="0,0.[00000]")
    if figure.log_y and y:
        plot.yaxis.ticker = FixedTicker(ticks=log_ticks(min(y), max(y)))
        plot.yaxis.formatter = NumeralTickFormatter(format="0,0.[00000]")
    elif figure.y_label.startswith(COUNTED):
        plot.yaxis.ticker.min_interval = 1


def log_ticks(low: float, high: float) -> list[float]:
    """The labels of a logarithmic axis: one or more in each power of ten, fewer if the axis spans more of them.

    >>> log_ticks(3, 40), log_ticks(0.02, 400)
    ([1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0], [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0])
    >>> log_ticks(1.3, 3.4)[:5]
    [1.0, 1.2, 1.5, 2.0, 2.5]
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps: tuple[float, ...] = (1, 2, 5) if last - first <= 2 else (1, 3) if last - first <= 3 else (1,)
    if high < 5 * low:  # with the steps above, one tick or none might lie in the range
        steps = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
    ticks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    return [round(tick, 12) for tick in ticks if tick <= 10.0**last]
