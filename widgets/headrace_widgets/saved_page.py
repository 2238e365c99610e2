"""The whole history as one HTML file that needs no network and no kernel."""

from __future__ import annotations

import html
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bokeh.embed import components
from bokeh.resources import INLINE

from headrace_widgets.figures import Figures
from headrace_widgets.live_plot import HERE, LiveFigure, take_legend
from headrace_widgets.markers import markers

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font-family: sans-serif; margin: 16px; color: #212121; }}
h3 {{ font-size: 14px; margin: 8px 0 0; }}
.plots {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(420px, 1fr)); gap: 4px 16px; }}
.plots p {{ font-size: 12px; color: #616161; margin: 0; }}
.plot {{ position: relative; }}
.events {{ position: absolute; inset: 0 0 auto 0; height: 16px; z-index: 1; pointer-events: none; font-size: 11px; }}
.events span {{ position: absolute; white-space: nowrap; }}
.legend {{ display: flex; flex-wrap: wrap; gap: 0 10px; margin: 2px 0; padding: 0; list-style: none; font-size: 11px; }}
.legend span {{ display: inline-block; width: 16px; margin-right: 4px; vertical-align: middle; }}
table {{ border-collapse: collapse; font-size: 12px; }}
td, th {{ padding: 2px 8px; border-bottom: 1px solid #dddddd; text-align: left; }}
pre {{ background: #f4f4f4; padding: 8px; white-space: pre-wrap; }}
</style>
{bokeh}
</head>
<body>
<h1>{title}</h1>
<p>{summary}</p>
<div class="plots">{plots}</div>
{mapping}
<h2>Reconfigurations</h2>
{table}
<h2>Decisions of controllers</h2>
<pre>{decisions}</pre>
{script}
<script>{labels}</script>
</body>
</html>
"""


_WRITE_LABELS = """
const label = () => {
  for (const view of Bokeh.index.roots) {
    const strip = view.el.closest(".plot")?.querySelector(".events");
    const changes = view.model.document.get_model_by_name("changes");
    if (strip && changes) writeLabels(strip, view, changes.data);
  }
};
const wait = setInterval(() => {
  if (!window.Bokeh?.documents?.[0]?.is_idle) return;
  clearInterval(wait);
  label();
}, 100);
addEventListener("resize", () => setTimeout(label, 300));
"""


def save_page(
    path: str | Path,
    title: str,
    summary: str,
    figures: Figures,
    changes: list[Any],
    table: str,
    decisions: Sequence[Any],
    picture: LiveFigure | None = None,
) -> Path:
    """Write plots of the whole history, the table of reconfigurations and the decisions.

    Parameters
    ----------
    figures : Figures
        New figures, which become part of the page.
    table : str
        The table of reconfigurations, as HTML.
    picture : LiveFigure, optional
        Another figure, after the plots, with its description in `about`.

    Returns
    -------
    Path
        Path of the file, which appears only when complete.
    """
    target = Path(path)
    end = figures.last.get("t", 1.0)
    blocks = figures.blocks(0.0, end, None) | figures.cells(0.0, end)
    for source in figures.sources:
        columns = zip(figures.columns[source.name], blocks[source.name], strict=True)
        source.data = {**source.data, **dict(columns)}
    figures.scene.changes.data = markers(changes, figures.feed)
    figures.scene.x_range.update(start=0.0, end=end)
    ranges = figures.ranges(blocks["series"], 0.0, end)
    for panel in figures.panels:
        if panel.key in ranges:
            low, high = ranges[panel.key]
            figures.built[panel.key].y_range.update(start=low, end=high)
    # Legends go beside the plots, as in the dashboard: inside, they would cover the markers' labels.
    drawn = {source.name: {name for name, of in source.data.items() if _has_numbers(of)} for source in figures.sources}
    legends = {
        key: _legend([one for one in take_legend(plot) if not one["column"] or one["column"] in drawn[one["source"]]])
        for key, plot in figures.built.items()
    }
    shown = figures.ever_with_meaning()
    plots_of = {key: figures.built[key] for key in shown} | ({picture.key: picture.figure} if picture else {})
    script, parts = components(plots_of)
    plots = "".join(
        f"<section><h3{_about(panel.about)}>{html.escape(panel.title)}</h3>{legends[panel.key]}"
        f'<div class="plot"><div class="events"></div>{parts[panel.key]}</div>'
        f"<p>{html.escape(panel.text(figures.last)) if figures.last else ''}</p></section>"
        for panel in figures.panels
        if panel.key in shown
    )
    mapping = ""
    if picture:
        words = html.escape(picture.about)
        mapping = f"<section><h3>{html.escape(picture.title)}</h3>{parts[picture.key]}<p>{words}</p></section>"
    words = "\n".join(str(one).strip() for one in decisions) or "No controller was at work."
    text = _PAGE.format(
        title=html.escape(title),
        summary=html.escape(summary),
        bokeh=INLINE.render(),
        plots=plots,
        mapping=mapping,
        labels=(HERE / "event_labels.js").read_text(encoding="utf-8") + _WRITE_LABELS,
        table=table,
        decisions=html.escape(words),
        script=script,
    )
    # Write to a file beside the target, under an unguessable name: nothing that exists already, such as a link, is
    # written through.
    part = target.with_name(f".headrace-{uuid.uuid4().hex}.part")
    try:
        with open(part, "x", encoding="utf-8") as file:
            file.write(text)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return target


def _has_numbers(column: Any) -> bool:
    values = np.asarray(column)
    return values.dtype.kind == "f" and bool(np.isfinite(values).any())


def _about(text: str) -> str:
    return f' title="{html.escape(text)}"' if text else ""


def _legend(entries: list[dict[str, Any]]) -> str:
    items = "".join(
        f'<li><span style="border-top: {9 if one["area"] else 3}px {one["dash"]} {one["colour"]}"></span>'
        f"{html.escape(one['label'])}</li>"
        for one in entries
    )
    return f'<ul class="legend">{items}</ul>'
