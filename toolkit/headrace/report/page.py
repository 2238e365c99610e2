"""Writing a report: one HTML file that needs no network, with tables and plots."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from html import escape
from importlib import metadata
from pathlib import Path

from headrace.changes import Change
from headrace.egress.part_files import write_whole
from headrace.errors import OutputError
from headrace.report.plots import not_drawn, plots_of
from headrace.report.record import Record, figures_of, number

_LONG = 30
"""Characters of a cell from which on it may have several lines."""
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
  th, td { white-space: nowrap; } td.long { white-space: normal; min-width: 14em; }
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


def write_html(path: str | os.PathLike[str], heading: str, records: Sequence[Record]) -> Path:
    """Write the report.

    Parameters
    ----------
    path : str or path
        Of the HTML file; one that is there is replaced.
    heading : str
    records : sequence of Record
        The runs, each with its plots, and side by side in the closing table.

    Returns
    -------
    Path

    Raises
    ------
    OutputError
        If the file cannot be written.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa, tempfile
    >>> from headrace.report import Record
    >>> per_window = hr.stream(pa.table({"ts": [1, 2]}), event_time="ts").window(10).aggregate(n=hr.count())
    >>> with per_window.start() as run, tempfile.TemporaryDirectory() as folder:
    ...     ended = run.wait()
    ...     page = write_html(f"{folder}/report.html", "A window", [Record("once", "a window", run.history, 2)]).read_text()
    >>> "<h1>A window</h1>" in page
    True
    """
    from bokeh.embed import file_html
    from bokeh.resources import INLINE

    roots, sections = [], []
    for i, record in enumerate(records):
        roots.append(plots_of(record, f"run{i}"))
        sections.append(
            {
                "title": record.title,
                "text": f"{record.text} {not_drawn(record)}".strip(),
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
    try:
        write_whole(path, html)
    except OSError as error:
        raise OutputError(f"report {str(path)!r} cannot be written ({error.strerror}); give a writable path") from None
    return Path(path)


def about() -> str:
    """Return text that names the machine and the versions.

    Examples
    --------
    >>> "Python" in about()
    True
    """
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("numba", "pyarrow", "pyspark"))
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores; Python {platform.python_version()}, {versions}"


def _summary_table(records: Sequence[Record]) -> str:
    head = "".join(f"<th>{escape(record.title)}</th>" for record in records)
    rows = []
    for name, values in figures_of(records).items():
        cells = "".join(_cell(value) for value in values)
        rows.append(f"<tr><td>{escape(name)}</td>{cells}</tr>")
    return f"<table><tr><th></th>{head}</tr>{''.join(rows)}</table>"


def _cell(value: str) -> str:
    kinds = " ".join(kind for kind, is_so in (("wrong", value.startswith("NO")), ("long", len(value) > _LONG)) if is_so)
    return f'<td class="{kinds}">{escape(value)}</td>' if kinds else f"<td>{escape(value)}</td>"


def _changes_table(changes: Sequence[Change]) -> str:
    if not changes:
        return ""
    columns = {
        "reconfiguration": [c.describe() for c in changes],
        "call to completion (ms)": [number(c.ms) for c in changes],
        "key buckets moved": [f"{c.buckets_moved:,}" if "buckets_moved" in c.effects else "" for c in changes],
        "outcome": [c.outcome for c in changes],
    }
    shown = {title: cells for title, cells in columns.items() if any(cells)}
    head = "".join(f"<th>{title}</th>" for title in shown)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in zip(*shown.values(), strict=True)
    )
    return f"<table><tr>{head}</tr>{rows}</table>"
