"""The whole history as one HTML file that needs no network and no kernel."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bokeh.embed import file_html
from bokeh.layouts import column, gridplot
from bokeh.models import Div
from bokeh.resources import INLINE

from headrace_widgets.changes_table import ChangesTable
from headrace_widgets.plots import Figures, markers

_STYLE = """
<style>
body { font-family: sans-serif; margin: 16px; }
table { border-collapse: collapse; font-size: 12px; }
td, th { padding: 2px 8px; border-bottom: 1px solid #ddd; text-align: left; }
pre { background: #f4f4f4; padding: 8px; }
</style>
"""


def save_page(
    path: str | Path,
    title: str,
    figures: Figures,
    changes: list[Any],
    records: list[dict[str, Any]],
    decisions: Sequence[Any],
) -> Path:
    """Write plots of all there is, the table of reconfigurations and the decisions.

    Parameters
    ----------
    figures : Figures
        Fresh ones: they become part of the page.

    Returns
    -------
    Path
        Where the file is; it appears only when complete.
    """
    target = Path(path)
    end = figures.last.get("t", 1.0)
    columns = figures.columns(0.0, end, None)
    figures.scene.series.data = columns["series"]
    figures.scene.workers.data = columns["workers"]
    figures.scene.changes.data = markers(changes, figures.feed)
    figures.scene.x_range.update(start=0.0, end=end)
    ranges = figures.ranges(columns["series"], 0.0, end)
    plots = []
    for panel in figures.panels:
        name, plot = figures.built[panel.key]
        if panel.key in ranges:
            low, high = ranges[panel.key]
            plot.y_range.update(start=low, end=high)
        plot.title.text = f"{name}. {panel.text(figures.last)}" if figures.last else name
        plot.title.text_font_size = "12px"
        plots.append(plot)
    words = "\n".join(str(one) for one in decisions) or "No controller was at work."
    page = column(
        gridplot(plots, ncols=2, sizing_mode="stretch_width", toolbar_location="right"),
        Div(text=f"<h2>Reconfigurations</h2>{ChangesTable.html(records)}", sizing_mode="stretch_width"),
        Div(text=f"<h2>Decisions</h2><pre>{html.escape(words)}</pre>", sizing_mode="stretch_width"),
        sizing_mode="stretch_width",
    )
    text = file_html(page, INLINE, title=title).replace("</head>", f"{_STYLE}</head>", 1)
    part = target.with_name(target.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(target)
    return target
