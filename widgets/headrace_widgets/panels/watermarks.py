"""How far the sources are behind the furthest of them."""

from __future__ import annotations

from collections.abc import Mapping

from bokeh.models import NumeralTickFormatter

from headrace_widgets.palette import thread_colour, thread_dash
from headrace_widgets.panels.panel import Scene, amount, compact_legend, largest, time_figure


class Watermarks:
    """Watermark gap of each source; the one with the widest gap holds time back for all."""

    key, title = "watermarks", "Watermark gap of each source"

    def __init__(self, sources: tuple[str, ...], unit: str):
        self._sources, self._unit = sources, unit

    def figure(self, scene: Scene):
        scene.columns([f"gap_{source}" for source in self._sources])
        made = time_figure(scene, self.key, f"behind the furthest ({self._unit})")
        made.yaxis.formatter = NumeralTickFormatter(format="0.[0]a")
        for i, source in enumerate(self._sources):
            made.line(
                "t", f"gap_{source}", source=scene.series, color=thread_colour(i), line_dash=thread_dash(i), width=2,
                legend_label=source,
            )  # fmt: skip
        if self._sources:
            compact_legend(made)
        return made

    def top(self, highest: Mapping[str, float]) -> float:
        return 1.15 * largest(highest, *(f"gap_{source}" for source in self._sources))

    def text(self, now: Mapping[str, float]) -> str:
        gaps = {source: now[f"gap_{source}"] for source in self._sources}
        gaps = {source: gap for source, gap in gaps.items() if gap == gap}
        if not gaps:
            return "Gaps are not known yet."
        widest = max(gaps, key=gaps.__getitem__)
        if gaps[widest] <= 0:
            return "No source is behind another."
        return f"Furthest behind, by {amount(gaps[widest])} {self._unit}: {widest}."
