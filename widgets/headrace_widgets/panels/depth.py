"""The number of tuples in the operator, most of them waiting."""

from __future__ import annotations

from collections.abc import Mapping

from headrace_widgets import palette
from headrace_widgets.panels.panel import KnownPanel, Scene, largest, time_figure
from headrace_widgets.units import amount, axis_formatter, milliseconds


class Depth(KnownPanel):
    """Tuples that were added and that some active thread has yet to pass."""

    key, title, unit, least = "depth", "In flight", "tuples", 10.0
    about = (
        "Tuples that were admitted but not yet passed by every active thread. Their number is bounded; what is due beyond it"
        " waits at the source."
    )
    also = ("depth_ms",)

    def __init__(self, scene: Scene):
        super().__init__(scene)
        self._work, self._words = "", "in flight"
        if "depth_ms" in scene.operator.of:  # it has a log, and knows how fast the log is read
            self.title, self._work, self._words = "Waiting in the log", "depth_ms", "waiting"

    def figure(self, scene: Scene):
        scene.draws("depth_tuples")
        made = time_figure(scene, self.key, self.unit)
        made.yaxis.formatter = axis_formatter()
        made.varea("t", 0, "depth_tuples", source=scene.series, color=palette.OUT, alpha=0.3)
        made.line("t", "depth_tuples", source=scene.series, color=palette.OUT, width=2)
        return made

    def top(self, highest: Mapping[str, float]) -> float:
        return largest(highest, "depth_tuples")

    def text(self, now: Mapping[str, float]) -> str:
        work = now.get(self._work, float("nan"))
        duration = f", {milliseconds(work)} of work" if work == work else ""
        return f"Tuples {self._words}: {amount(now['depth_tuples'])}{duration}."
