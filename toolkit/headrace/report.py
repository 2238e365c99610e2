"""A report of runs as one HTML file that needs no network: tables, and plots by Bokeh.

Each run has four plots over the same time axis (throughput, latency, threads, load of each
thread), with a marker where the threads changed.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from headrace.errors import OutputError
from headrace.history import History
from headrace.runtime.changes import Change

WIDTH, HEIGHT = 560, 290
_PLOTTED = r"seconds|processed|threads|tuples_per_s|latency_p\d\d_ms|load_\d+"

STYLE = """\
  body { font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; color: #222; background: #fff;
         max-width: 1180px; margin: 2em auto; padding: 0 1em; }
  h1 { font-size: 1.7em; margin-bottom: 0; } h2 { margin-top: 2em; border-bottom: 1px solid #ccc; }
  p.about { color: #555; margin-top: .3em; }
  table { border-collapse: collapse; margin: 1em 0; }
  th, td { padding: .3em 1em .3em 0; text-align: right; border-bottom: 1px solid #e4e4e4; }
  th { color: #555; font-weight: 600; } th:first-child, td:first-child { text-align: left; }
  .wrong { color: #a00; font-weight: 700; }
"""
"""How every page looks that headrace writes for Bokeh to fill."""

_PAGE = """\
{% block postamble %}
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
{{ style | safe }}
  th, td { white-space: nowrap; }
</style>
{% endblock %}
{% block contents %}
<h1>{{ heading | e }}</h1>
<p class="about">{{ about | e }}</p>
{{ summary | safe }}
{% for section in sections %}
<h2>{{ section.title | e }}</h2>
<p>{{ section.text | e }}</p>
{{ section.changes | safe }}
{{ embed(roots[section.root]) }}
{% endfor %}
{% endblock %}
"""


@dataclass
class Record:
    """A finished run, as a report shows it.

    Parameters
    ----------
    title, text : str
        What was run, in a word and in a sentence.
    history : History
        Samples of it; the last one was taken after its end.
    rows_in : int
        Rows of the input.
    changes : list of Change
    difference : str or None
        What differs from the reference; None: nothing.
    """

    title: str
    text: str
    history: History
    rows_in: int
    changes: list[Change] = field(default_factory=list)
    difference: str | None = None

    def figures(self) -> dict[str, str]:
        """Name the figures of the closing table, in order."""
        metrics = self.history.samples[-1].metrics
        operator = next(iter(metrics.operators.values()))
        latency = operator.latency_ms
        return {
            "rows in": f"{self.rows_in:,}",
            "rows out": f"{metrics.tuples_out:,}",
            "seconds": f"{metrics.seconds:.2f}",
            "throughput (tuples/s)": f"{self.rows_in / metrics.seconds:,.0f}" if metrics.seconds else "-",
            "latency p50 (ms)": _number(latency.get("p50")),
            "latency p99 (ms)": _number(latency.get("p99")),
            "imbalance (cv)": f"{100 * operator.imbalance_cv:.1f} %",
            "reconfigurations (ms)": ", ".join(describe(change) for change in self.changes) or "none",
            "identical to the reference": "yes" if self.difference is None else f"NO: {self.difference}",
        }


def describe(change: Change) -> str:
    """Say a reconfiguration in a few characters.

    Examples
    --------
    >>> done = Change("count", 1, 4, requested_ns=0, outcome="done", completed_ns=412_000)
    >>> describe(done), describe(Change("count", 4, 2, outcome="unneeded"))
    ('1→4: 0.41', '4→2: unneeded')
    """
    took = f"{change.ms:.2f}" if change.completed_ns else change.outcome
    return f"{change.from_threads}→{change.to_threads}: {took}"


def _number(value: float | None) -> str:
    return "-" if value is None or not np.isfinite(value) else f"{value:.2f}"


def write_html(path: str | os.PathLike[str], heading: str, records: Sequence[Record]) -> Path:
    """Write the report.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    from bokeh.embed import file_html
    from bokeh.resources import INLINE

    roots, sections = [], []
    for i, record in enumerate(records):
        roots.append(_plots(record, f"run{i}"))
        sections.append(
            {
                "title": record.title,
                "text": record.text,
                "changes": _changes_table(record.changes),
                "root": f"run{i}",
            }
        )
    html = file_html(
        roots,
        INLINE,
        title=heading,
        template=_PAGE,
        template_variables={
            "style": STYLE,
            "heading": heading,
            "about": about(),
            "summary": _summary_table(records),
            "sections": sections,
        },
    )
    target = Path(path)
    try:
        target.write_text(html, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"report {str(path)!r} cannot be written ({error.strerror}); give a writable path") from None
    return target


def about() -> str:
    """Say on what machine and with what versions."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("numba", "pyarrow", "pyspark"))
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores; Python {platform.python_version()}, {versions}"


def _summary_table(records: Sequence[Record]) -> str:
    columns = [record.figures() for record in records]
    head = "".join(f"<th>{escape(record.title)}</th>" for record in records)
    rows = []
    for name in columns[0] if columns else ():
        cells = "".join(
            f'<td class="wrong">{escape(c[name])}</td>' if c[name].startswith("NO") else f"<td>{escape(c[name])}</td>"
            for c in columns
        )
        rows.append(f"<tr><td>{escape(name)}</td>{cells}</tr>")
    return f"<table><tr><th></th>{head}</tr>{''.join(rows)}</table>"


def _changes_table(changes: Sequence[Change]) -> str:
    if not changes:
        return ""
    rows = "".join(
        f"<tr><td>{c.from_threads} → {c.to_threads} threads</td><td>{_number(c.ms)}</td>"
        f"<td>{c.buckets_moved:,}</td><td>{escape(c.outcome)}</td></tr>"
        for c in changes
    )
    return (
        "<table><tr><th>reconfiguration</th><th>call to completion (ms)</th><th>key buckets moved</th>"
        f"<th>outcome</th></tr>{rows}</table>"
    )


# -- plots


def _plots(record: Record, name: str) -> Any:
    from bokeh.layouts import gridplot
    from bokeh.models import Range1d
    from bokeh.palettes import Colorblind

    frame = record.history.to_pandas()
    frame = frame[[column for column in frame.columns if re.fullmatch(_PLOTTED, column)]]
    colors = Colorblind[8]
    end = float(frame["seconds"].max()) if len(frame) else 1.0
    x_range = Range1d(0, end * 1.02, bounds=(0, end * 1.1))
    data = _source(frame)
    marks = [
        (record.history.seconds_of(c.completed_ns), f"{c.from_threads} → {c.to_threads}")
        for c in record.changes
        if c.completed_ns
    ]

    def figure(title: str, label: str, top: float, low: float = 0.0) -> Any:
        return _figure(title, label, x_range, (low, top if np.isfinite(top) and top > low else low + 1.0), marks, end)

    def peak(*columns: str) -> float:
        values = frame[list(columns)].to_numpy(float) if len(frame) else np.zeros((1, 1))
        return float(np.nanmax(values)) if np.isfinite(values).any() else 0.0

    throughput = figure("Throughput", "tuples per second", peak("tuples_per_s"))
    throughput.line("seconds", "tuples_per_s", source=data, color=colors[0], line_width=2)

    quantiles = ("latency_p50_ms", "latency_p99_ms")
    least = frame[list(quantiles)].min(axis=None) if len(frame) else np.nan
    latency = figure(
        "Latency of results, each interval", "milliseconds", peak(*quantiles), least / 2 if least > 0 else 0.0
    )
    for column, text, color in (("latency_p50_ms", "p50", colors[0]), ("latency_p99_ms", "p99", colors[3])):
        known = _source(frame[["seconds", column]].dropna())
        latency.line("seconds", column, source=known, color=color, line_width=2, legend_label=text)
        latency.scatter("seconds", column, source=known, color=color, size=4, legend_label=text)
    _legend_outside(latency)

    threads = figure("Threads", "active threads", peak("threads"))
    threads.step(*_steps(frame, record, end), color=colors[0], line_width=2, mode="after")
    threads.yaxis.ticker = list(range(0, int(peak("threads")) + 2, max(1, int(peak("threads")) // 8)))

    loads = [c for c in frame.columns if c.startswith("load_") and frame[c].any()]
    load = figure("Load of each thread", "updates per second", float(frame[loads].sum(axis=1).max()) if loads else 0)
    if loads:
        load.varea_stack(
            loads,
            x="seconds",
            source=data,
            color=[colors[i % len(colors)] for i in range(len(loads))],
            alpha=0.85,
            legend_label=[f"thread {c.removeprefix('load_')}" for c in loads],
        )
        _legend_outside(load)

    grid = gridplot([[throughput, latency], [threads, load]], toolbar_location="right", merge_tools=True)
    grid.name = name  # where the page puts it
    grid.toolbar.logo = None
    return grid


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
    """An empty plot with its markers; logarithmic where the lower end of `span` is above 0."""
    from bokeh.models import Label, NumeralTickFormatter, Range1d, Span
    from bokeh.plotting import figure

    low, top = span
    is_log = low > 0
    # The room above the curve is for the labels of the markers.
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
    for at, text in marks:
        plot.add_layout(Span(location=at, dimension="height", line_color="#555555", line_dash="dashed"))
        is_late = at > 0.8 * end
        plot.add_layout(
            Label(
                x=at,
                y=top * (room**0.4 if is_log else 1.08),
                text=text,
                text_font_size="12px",
                text_color="#333333",
                text_align="right" if is_late else "left",
                x_offset=-5 if is_late else 5,
            )
        )
    return plot


def _legend_outside(plot: Any) -> None:
    plot.add_layout(plot.legend[0], "right")
    plot.legend.label_text_font_size = "12px"
    plot.legend.border_line_color = None


def _steps(frame: Any, record: Record, end: float) -> tuple[list[float], list[int]]:
    """Active threads as a step curve: exact at each change, whatever was sampled."""
    done = [c for c in record.changes if c.completed_ns and c.outcome == "done"]
    first = done[0].from_threads if done else (int(frame["threads"].iloc[-1]) if len(frame) else 1)
    seconds = [0.0, *(record.history.seconds_of(c.completed_ns) for c in done), end]
    counts = [first, *(c.to_threads for c in done)]
    return seconds, [*counts, counts[-1]]
