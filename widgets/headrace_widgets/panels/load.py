"""The load of each thread, in its own colour."""

from __future__ import annotations

from collections.abc import Mapping

from headrace_widgets.columns import unit_of
from headrace_widgets.palette import element_colour, element_dash
from headrace_widgets.panels.panel import KnownPanel, Scene, compact_legend, largest, time_figure
from headrace_widgets.units import OF_A_CORE, axis_formatter, axis_label, in_words, unit_beside


class Load(KnownPanel):
    """Load of each thread per second: updates, comparisons, or whatever the engine counts."""

    key, title, least = "load", "Load of each thread", 10.0
    needs = ("load",)
    about = "What each thread did, per second. The key mapping says which keys are whose; a thread's load is that of its keys."

    def __init__(self, scene: Scene):
        super().__init__(scene)
        self._columns = scene.operator.of["load"]
        self._unit = unit_of(scene.operator.measures["load"])
        self.unit = unit_beside(self._unit)
        if self._unit == OF_A_CORE:
            self.least = 0.1

    @classmethod
    def is_for(cls, scene: Scene) -> bool:
        measure = scene.operator.measures.get("load")
        return measure is not None and (measure.kind, measure.by) == ("counter", "worker")

    def figure(self, scene: Scene):
        scene.draws(*self._columns)
        made = time_figure(scene, self.key, axis_label(self._unit))
        made.yaxis.formatter = axis_formatter(self._unit)
        for i, column in enumerate(self._columns):
            made.line(
                "t", column, source=scene.series, color=element_colour(i), line_dash=element_dash(i), width=2,
                legend_label=str(i),
            )  # fmt: skip
        compact_legend(made)
        made.legend.spacing = 2
        return made

    def top(self, highest: Mapping[str, float]) -> float:
        return 1.15 * largest(highest, *self._columns)

    def text(self, now: Mapping[str, float]) -> str:
        parts = [f"{i}: {in_words(now[column], self._unit)}" for i, column in enumerate(self._columns) if now[column] > 0]
        return f"Thread {'; '.join(parts)}." if parts else "No thread has work."
