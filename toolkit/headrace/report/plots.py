"""Plots of one run by Bokeh, over the same time axis, with a marker at each change.

Throughput and threads for every engine, the lag where a rate was set, and the measures that the engine declares for
plots (latency, load of each thread, ...).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.metrics.measures import Measure
from headrace.report.record import Record, short, spaced

WIDTH, HEIGHT = 560, 290
LIMIT, MEASURED, INK = "#d55e00", "#5f7488", "#222222"
"""Colours of the lag, of other measured values, and of the worst of two, as on the dashboard."""
ELEMENTS = ("#0072b2", "#e69f00", "#009e73", "#9467bd", "#56b4e9", "#8c564b", "#999933")
"""Colours of threads and of other parts, as the dashboard has them: each can be seen on white."""
LEAST_LAG_S = 0.1
"""What the axis of the lag covers at least: below, the stream is on time."""
_LATENCY = "latency_p99_ms"
_WORK = "microseconds of work"
"""The unit of counters that are drawn as shares of a core."""
_INSIDE, _LETTER = 330, 6.5
"""Pixels of a plot's inside, at least, beside its axis and a legend; and of a letter of a marker's label."""


def plots_of(record: Record, name: str) -> Any:
    """Return all plots of a run, two in a row; the page puts them where it refers to `name`."""
    from bokeh.layouts import gridplot

    plots = _Plots(record)
    declared = [measure for measure in plots.declared if plots.is_there(measure)]
    drawn = [plots.line("Throughput", "tuples per second", "tuples_per_s")]
    if plots.had_a_rate:
        drawn.append(plots.lag())
    drawn += [plots.of_all(measure) for measure in declared if measure.by is None]
    drawn.append(plots.threads())
    drawn += [plots.by_something(measure) for measure in declared if measure.by not in (None, "bucket")]
    grid = gridplot([drawn[i : i + 2] for i in range(0, len(drawn), 2)], toolbar_location="right", merge_tools=True)
    grid.name = name
    grid.toolbar.logo = None
    return grid


def not_drawn(record: Record) -> str:
    """Name the measures without data, for which empty plots are not drawn."""
    plots = _Plots(record)
    words = [spaced(measure.word) for measure in plots.declared if not plots.is_there(measure)]
    return f"Zero throughout, and not drawn: {', '.join(words)}." if words and len(plots.frame) else ""


class _Plots:
    """The plots of one run, over the same time axis and with the same markers."""

    def __init__(self, record: Record):
        from bokeh.models import Range1d

        self.record, self.frame = record, record.history.to_pandas()
        samples = record.history.samples
        self.operator = next(iter(samples[-1].metrics.operators.values()), None) if samples else None
        self.measures = () if self.operator is None else self.operator.measures
        self.end = float(self.frame["seconds"].max()) if len(self.frame) else 1.0
        self._x_range = Range1d(0, self.end * 1.02, bounds=(0, self.end * 1.1))
        self._marks = [
            (record.history.seconds_of(c.completed_ns), short(c)) for c in record.changes if c.outcome == "done"
        ]

    @property
    def declared(self) -> list[Measure]:
        """The plots of measures that the engine declares for plots."""
        return [measure for measure in self.measures if measure.goes_to("plot") and measure.kind != "text"]

    def columns(self, measure: Measure) -> list[str]:
        """The columns of the history that belong to a measure."""
        if measure.by is None:
            return list(measure.columns[:2] if measure.kind == "histogram" else measure.columns[:1])
        return [column for column in measure.columns_by(self.operator.values[measure.name]) if column in self.frame]

    def is_there(self, measure: Measure) -> bool:
        """Whether it was non-zero at any time."""
        return measure.by == "bucket" or bool(self.frame[self.columns(measure)].fillna(0).any(axis=None))

    def _figure(self, title: str, label: str, top: float, low: float = 0.0) -> Any:
        span = (low, top if np.isfinite(top) and top > low else low + 1.0)
        return _figure(title, label, self._x_range, span, self._marks, self.end)

    def _peak(self, *columns: str) -> float:
        values = self.frame[list(columns)].to_numpy(float) if len(self.frame) and columns else np.zeros((1, 1))
        return float(np.nanmax(values)) if np.isfinite(values).any() else 0.0

    def line(self, title: str, label: str, column: str) -> Any:
        """Plot one column."""
        plot = self._figure(title, label, self._peak(column))
        plot.line("seconds", column, source=_source(self.frame[["seconds", column]]), color=MEASURED, line_width=2)
        return plot

    @property
    def had_a_rate(self) -> bool:
        """Whether a rate was set at any time; at full speed no tuple is ever due."""
        return bool(self.frame["lag_s"].notna().any())

    def lag(self) -> Any:
        """Plot how long the next tuple has been due, and how late results are with that lag added."""
        lag, late = self.frame["lag_s"], self.frame.get(_LATENCY)
        columns = {"seconds": self.frame["seconds"], "lag_s": lag}
        if late is not None:
            columns["delay_s"] = lag + late / 1e3
        top = max(float(np.fmax.reduce(values, initial=LEAST_LAG_S)) for name, values in columns.items() if name != "seconds")
        plot = self._figure("Lag behind the rate", "seconds", top)
        source = _source(columns)
        plot.varea("seconds", 0, "lag_s", source=source, color=LIMIT, alpha=0.3)
        plot.line("seconds", "lag_s", source=source, color=LIMIT, line_width=2, legend_label="lag")
        if late is not None:
            known = _source({name: values[columns["delay_s"].notna()] for name, values in columns.items()})
            plot.line(
                "seconds", "delay_s", source=known, color=MEASURED, line_width=1.5, line_dash="dashed",
                legend_label="delay of results (p99)",
            )  # fmt: skip
        _legend_outside(plot)
        return plot

    def threads(self) -> Any:
        """Plot the number of active threads, exact at each change."""
        peak = int(self._peak("threads"))
        plot = self._figure("Threads", "active threads", peak)
        plot.step(*_steps(self.frame, self.record, self.end), color=MEASURED, line_width=2, mode="after")
        plot.yaxis.ticker = list(range(0, peak + 2, max(1, peak // 8)))
        return plot

    def of_all(self, measure: Measure) -> Any:
        """Plot a measure that is one number in all."""
        heading = _heading(measure)
        if measure.kind == "histogram":
            return self._quantiles(f"{heading}, each interval", measure.columns[0], measure.columns[1])
        return self.line(heading, _axis(measure), measure.columns[0])

    def _quantiles(self, title: str, p50: str, p99: str) -> Any:
        frame = self.frame
        least = frame[[p50, p99]].min(axis=None) if len(frame) else np.nan
        plot = self._figure(title, "milliseconds", self._peak(p50, p99), least / 2 if least > 0 else 0.0)
        for column, text, color in ((p50, "p50", MEASURED), (p99, "p99", INK)):
            known = _source(frame[["seconds", column]].dropna())
            plot.line("seconds", column, source=known, color=color, line_width=2, legend_label=text)
            plot.scatter("seconds", column, source=known, color=color, size=4, legend_label=text)
        _legend_outside(plot)
        return plot

    def by_something(self, measure: Measure) -> Any:
        """Plot a measure by worker, source, stage or node: counters as stacked areas, anything else as lines."""
        place = "thread" if measure.by == "worker" else measure.by
        known = self.columns(measure)
        columns = [column for column in known if self.frame[column].any()] or known
        names = [column.removeprefix(f"{measure.prefix}_") for column in columns]
        words = [f"{place} {name}" if name.isdigit() else name for name in names]
        if measure.by == "size":
            words = [f"from {int(name):,}" for name in names]
        colors = [ELEMENTS[i % len(ELEMENTS)] for i in range(len(columns))]
        is_sum = measure.kind == "counter" and not measure.part_of
        # A million microseconds of work in a second are 100 % of a core.
        drawn = self.frame[columns] / 1e4 if _is_work(measure) else self.frame[columns]
        top = float((drawn.sum(axis=1) if is_sum else drawn.max(axis=1)).max()) if columns else 0.0
        title = _heading(measure) if measure.by == "size" else f"{_heading(measure)} of each {place}"
        if measure.part_of and measure.unit == "ns":
            title = f"{_heading(measure)}: share of each {place}'s time"
        plot = self._figure(title, _axis(measure), top)
        source = _source(drawn.assign(seconds=self.frame["seconds"]))
        if is_sum and columns:
            plot.varea_stack(columns, x="seconds", source=source, color=colors, alpha=0.85, legend_label=words)
        elif columns:
            for column, word, color in zip(columns, words, colors, strict=True):
                plot.line("seconds", column, source=source, color=color, line_width=2, legend_label=word)
        if columns:
            _legend_outside(plot)
        return plot


def _heading(measure: Measure) -> str:
    word = spaced(measure.word)
    return word[:1].upper() + word[1:]


def _is_work(measure: Measure) -> bool:
    return measure.kind == "counter" and measure.unit == _WORK


def _axis(measure: Measure) -> str:
    if measure.part_of:
        return "share of the time" if measure.unit == "ns" else f"share of {measure.part_of}"
    if _is_work(measure):
        return "% of a core"
    grows = measure.rate or (measure.kind == "counter" and measure.by is not None)
    return f"{measure.unit} per second" if grows else measure.unit


def _source(frame: Any) -> Any:
    from bokeh.models import ColumnDataSource

    return ColumnDataSource({name: frame[name].to_numpy() for name in frame})


def _figure(
    title: str,
    label: str,
    x_range: Any,
    span: tuple[float, float],
    marks: list[tuple[float, str]],
    end: float,
) -> Any:
    """Return an empty plot with its markers; it is logarithmic where the lower end of `span` is above 0."""
    from bokeh.models import Label, NumeralTickFormatter, Range1d, Span
    from bokeh.plotting import figure

    low, top = span
    is_log = low > 0
    # The space above the curve is for the labels of the markers.
    room = (top / low) ** 0.22 if is_log else 1.22
    plot = figure(
        title=title,
        width=WIDTH,
        height=HEIGHT,
        x_range=x_range,
        y_range=Range1d(low, top * room),
        y_axis_type="log" if is_log else "linear",
        x_axis_label="seconds since the first tuple",
        y_axis_label=label,
        tools="pan,wheel_zoom,box_zoom,reset,save",
    )
    plot.yaxis.formatter = NumeralTickFormatter(format="0,0" if top >= 10 and not is_log else "0.[000]")
    for at, _ in marks:
        plot.add_layout(Span(location=at, dimension="height", line_color="#555555", line_dash="dashed"))
    # Drawn after all lines, on paper of their own: the line of the next change may pass behind a long label.
    for at, text, is_late, row in _labels(marks, end):
        plot.add_layout(
            Label(
                x=at,
                y=top * (room ** (0.12, 0.55)[row] if is_log else (1.03, 1.12)[row]),
                text=text,
                text_font_size="12px",
                text_color="#333333",
                background_fill_color="white",
                text_align="right" if is_late else "left",
                x_offset=-5 if is_late else 5,
            )
        )
    return plot


def _labels(marks: Sequence[tuple[float, str]], end: float) -> list[tuple[float, str, bool, int]]:
    """Place the labels of markers so that none overlap: time, text, whether left of its marker, and which of two rows.

    Examples
    --------
    >>> _labels([(1.0, "2 → 3"), (2.0, "scheme chains → lock"), (3.0, "3 → 2")], 3.2)
    [(1.0, '2 → 3', False, 0), (2.0, 'scheme chains → lock', True, 1), (3.0, '3 → 2', True, 0)]
    """
    taken, placed = [0.0, 0.0], []
    for at, whole in sorted(marks):
        place = at / end if end > 0 else 0.0
        is_left, text = _beside(place, whole)
        begins = place * _INSIDE - (5 + _LETTER * len(text) if is_left else 0)
        row = 0 if taken[0] <= begins or taken[0] <= taken[1] else 1
        taken[row] = max(taken[row], begins + 5 + _LETTER * len(text))
        placed.append((at, text, is_left, row))
    return placed


def _beside(place: float, text: str) -> tuple[bool, str]:
    """Return whether the label of a marker stands on its left, and the part of it that there is room for.

    Examples
    --------
    >>> _beside(0.3, "2 → 3"), _beside(0.9, "2 → 3")
    ((False, '2 → 3'), (True, '2 → 3'))
    >>> _beside(0.6, "plan 4 leaves (auto) → 4 leaves (chain)")
    (True, 'plan 4 leaves (auto) → 4 lea…')
    """
    rooms = [max(0, int((part * _INSIDE - 5) / _LETTER)) for part in (1 - place, place)]
    is_left = len(text) > rooms[0] and rooms[1] > rooms[0]
    room = max(1, rooms[is_left])
    return is_left, text if len(text) <= room else f"{text[: room - 1]}…"


def _legend_outside(plot: Any) -> None:
    plot.add_layout(plot.legend[0], "right")
    plot.legend.label_text_font_size = "12px"
    plot.legend.border_line_color = None


def _steps(frame: Any, record: Record, end: float) -> tuple[list[float], list[int]]:
    """Return active threads as a step curve, exact at each change, whatever was sampled."""
    done = [c for c in record.changes if c.outcome == "done" and "threads" in c.after]
    first = done[0].from_threads if done else (int(frame["threads"].iloc[-1]) if len(frame) else 1)
    seconds = [0.0, *(record.history.seconds_of(c.completed_ns) for c in done), end]
    counts = [first, *(c.to_threads for c in done)]
    return seconds, [*counts, counts[-1]]
