"""How much waits in the tuple buffer."""

from __future__ import annotations

from collections.abc import Mapping

from bokeh.models import NumeralTickFormatter

from headrace_widgets import palette
from headrace_widgets.panels.panel import Scene, amount, largest, milliseconds, time_figure


class Depth:
    """Tuples added and not yet read by every active thread."""

    key, title = "depth", "Waiting in the log"

    def figure(self, scene: Scene):
        scene.columns(["depth"])
        made = time_figure(scene, self.key, "tuples")
        made.yaxis.formatter = NumeralTickFormatter(format="0.[0]a")
        made.varea("t", 0, "depth", source=scene.series, color=palette.OUT, alpha=0.3)
        made.line("t", "depth", source=scene.series, color=palette.OUT, width=2)
        return made

    def top(self, highest: Mapping[str, float]) -> float:
        return largest(highest, "depth")

    def text(self, now: Mapping[str, float]) -> str:
        duration = f", {milliseconds(now['depth_ms'])} of work" if now["depth_ms"] == now["depth_ms"] else ""
        return f"Tuples waiting: {amount(now['depth'])}{duration}."
