"""An experiment as one HTML file that needs no network."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from headrace.bench.experiments.experiment import Experiment, Figure
from headrace.bench.rows import texts
from headrace.report import STYLE, about

WIDTH, HEIGHT = 560, 320

_PAGE = """\
{% block postamble %}
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
{{ style | safe }}
  .paper { background: #f4f4f0; padding: .6em 1.2em; border-left: 4px solid #bbb; }
  .figures { display: flex; flex-wrap: wrap; gap: 1em; } .figures p { max-width: 540px; color: #555; margin: 0 0 1em; }
  td.unit, td.note { text-align: left; } td.note { color: #555; font-size: .85em; max-width: 24em; }
</style>
{% endblock %}
{% block contents %}
<h1>{{ experiment.title | e }}</h1>
<p class="about">{{ about | e }}</p>
<p>{{ experiment.text | e }}</p>
<div class="figures">
{% for figure in experiment.figures %}
<div>{{ embed(roots["figure" ~ loop.index0]) }}<p>{{ figure.note | e }}</p></div>
{% endfor %}
</div>
<h2>Figures of this run</h2>
<table>
<tr><th>case</th><th>value</th><th></th><th>compared with</th><th>ratio</th><th>goal</th><th></th></tr>
{% for row in rows %}
<tr><td>{{ row.case | e }}</td><td>{{ row.value }}</td><td class="unit">{{ row.unit | e }}</td>
<td>{{ row.baseline | e }}</td><td>{{ row.ratio }}</td><td class="{{ row.class }}">{{ row.goal | e }}</td>
<td class="note">{{ row.note | e }}</td></tr>
{% endfor %}
</table>
{% if experiment.assumptions %}
<h2>What the predictions rest on</h2>
<ul>{% for each in experiment.assumptions %}<li>{{ each | e }}</li>{% endfor %}</ul>
{% endif %}
<h2>What the paper reports</h2>
<div class="paper"><p>{{ experiment.paper.source | e }}. Machine: {{ experiment.paper.machine | e }}.
Context, not a contest: the machines differ.</p>
<ul>{% for each in experiment.paper.findings %}<li>{{ each | e }}</li>{% endfor %}</ul></div>
{% endblock %}
"""


def write_page(path: str | os.PathLike[str], experiment: Experiment) -> Path:
    """Write the report of one experiment."""
    from bokeh.embed import file_html
    from bokeh.resources import INLINE

    roots = [plot_of(figure, f"figure{i}") for i, figure in enumerate(experiment.figures)]
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    html = file_html(
        roots,
        INLINE,
        title=experiment.title,
        template=_PAGE,
        template_variables={
            "style": STYLE,
            "experiment": experiment,
            "about": f"{now}. {about()}",
            "rows": [_cells(row) for row in experiment.rows],
        },
    )
    target = Path(path)
    target.write_text(html, encoding="utf-8")
    return target


def _cells(row: Any) -> dict[str, str]:
    return texts(row) | {
        "case": row.case,
        "unit": row.unit,
        "note": row.note,
        "class": "wrong" if row.reached is False else "",
    }


def plot_of(figure: Figure, name: str = "plot") -> Any:
    from bokeh.models import NumeralTickFormatter
    from bokeh.palettes import Colorblind
    from bokeh.plotting import figure as new_figure

    plot = new_figure(
        title=figure.title,
        width=WIDTH,
        height=HEIGHT,
        x_axis_label=figure.x_label,
        y_axis_label=figure.y_label,
        x_axis_type="log" if figure.log_x else "linear",
        y_axis_type="log" if figure.log_y else "linear",
        tools="pan,wheel_zoom,box_zoom,reset,save",
    )
    plot.name = name  # where the page puts it
    markers = ("circle", "square", "triangle", "diamond", "inverted_triangle", "hex", "star", "plus")
    colors = [Colorblind[8][each] for each in (0, 1, 3, 5, 6, 4, 7)]  # yellow is not seen on white
    for i, line in enumerate(figure.lines):
        color = colors[i % len(colors)]
        label = f"{line.name} (predicted)" if line.predicted else line.name
        if line.steps:
            plot.step(list(line.x), list(line.y), mode="after", color=color, line_width=2, legend_label=label)
            continue
        dash = "dashed" if line.predicted else "solid"
        plot.line(list(line.x), list(line.y), color=color, line_width=2, line_dash=dash, legend_label=label)
        if len(line.x) <= 40:
            plot.scatter(
                list(line.x), list(line.y), color=color, size=7, marker=markers[i % 8], legend_label=label
            )
    values = np.concatenate([np.asarray(line.y, float) for line in figure.lines] or [np.zeros(1)])
    if not figure.log_y:
        plot.y_range.start = min(0.0, float(np.nanmin(values))) if np.isfinite(values).any() else 0.0
        if np.isfinite(values).any() and np.nanmax(np.abs(values)) >= 10:
            plot.yaxis.formatter = NumeralTickFormatter(format="0,0")
    if figure.y_max is not None:
        plot.y_range.end = figure.y_max
    if figure.lines:
        plot.add_layout(plot.legend[0], "below")
        plot.legend.orientation = "horizontal"
        plot.legend.ncols = 3
        plot.legend.label_text_font_size = "12px"
        plot.legend.border_line_color = None
        plot.legend.click_policy = "hide"
    plot.axis.minor_tick_line_color = None
    plot.toolbar.logo = None
    return plot
