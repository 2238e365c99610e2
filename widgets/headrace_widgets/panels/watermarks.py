"""How far each source's event time is behind that of the furthest source."""

from __future__ import annotations

from collections.abc import Mapping

from headrace_widgets.palette import element_dash, source_colour
from headrace_widgets.panels.panel import KnownPanel, Scene, compact_legend, largest, time_figure
from headrace_widgets.units import amount, axis_formatter


class Watermarks(KnownPanel):
    """Watermark gap of each source; the source with the widest gap holds back event time for all."""

    key, title = "watermarks", "Watermark gap of each source"
    about = (
        "How far the event time of each source is behind that of the furthest one. Tuples are handed on in the order of event"
        " time, so the source with the widest gap holds all the others back."
    )
    needs, also = ("watermark_gap",), ("holds_back",)

    def __init__(self, scene: Scene):
        super().__init__(scene)
        operator = scene.operator
        self.unit = scene.time_unit
        self._columns = dict(zip(operator.elements["watermark_gap"], operator.of["watermark_gap"], strict=True))

    def has_meaning(self, now: Mapping[str, float]) -> bool:
        return len(self._columns) > 1

    def figure(self, scene: Scene):
        scene.draws(*self._columns.values())
        made = time_figure(scene, self.key, f"behind the furthest ({self.unit})")
        made.yaxis.formatter = axis_formatter()
        for i, (source, column) in enumerate(self._columns.items()):
            made.line(
                "t", column, source=scene.series, color=source_colour(i), line_dash=element_dash(i), width=2,
                legend_label=source,
            )  # fmt: skip
        if self._columns:
            compact_legend(made)
        return made

    def top(self, highest: Mapping[str, float]) -> float:
        return 1.15 * largest(highest, *self._columns.values())

    def text(self, now: Mapping[str, float]) -> str:
        gaps = {source: now[column] for source, column in self._columns.items()}
        gaps = {source: gap for source, gap in gaps.items() if gap == gap}
        if not gaps:
            return "Gaps are not known yet."
        widest = max(gaps, key=gaps.__getitem__)
        if gaps[widest] <= 0:
            return "No source is behind another."
        return f"Furthest behind, by {amount(gaps[widest])} {self.unit}: {widest}."
