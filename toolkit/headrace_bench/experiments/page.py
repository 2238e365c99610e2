"""Writes an experiment as one HTML file that needs no network."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace.report import STYLE, about
from headrace_bench.experiments.experiment import Experiment
from headrace_bench.rows import texts

_PAGE = """\
{% block postamble %}
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
{{ style | safe }}
  .paper { background: #f4f4f0; padding: .6em 1.2em; border-left: 4px solid #bbb; }
  .figures { display: flex; flex-wrap: wrap; gap: 1em; } .figures p { max-width: 540px; color: #555; margin: 0 0 1em; }
  td.unit { text-align: left; white-space: nowrap; } td.note { text-align: left; color: #555; font-size: .85em; max-width: 24em; }
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
    """Write the report of one experiment as an HTML file."""
    from bokeh.embed import file_html
    from bokeh.resources import INLINE

    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    html = file_html(
        experiment.plots(),
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
