"""What each thread does, in its own colour."""

from __future__ import annotations

from collections.abc import Mapping

from bokeh.models import NumeralTickFormatter

from headrace_widgets.palette import thread_colour, thread_dash
from headrace_widgets.panels.panel import Scene, amount, compact_legend, largest, time_figure


class Load:
    """Updates (or comparisons) per second of each thread."""

    key, title = "load", "Load of each thread"

    def __init__(self, threads: int):
        self._columns = [f"load_{i}" for i in range(threads)]

    def figure(self, scene: Scene):
        scene.columns(self._columns)
        made = time_figure(scene, self.key, "updates/s")
        made.yaxis.formatter = NumeralTickFormatter(format="0.[0]a")
        for i, column in enumerate(self._columns):
            made.line(
                "t", column, source=scene.series, color=thread_colour(i), line_dash=thread_dash(i), width=2,
                legend_label=str(i),
            )  # fmt: skip
        compact_legend(made)
        made.legend.spacing = 2
        return made

    def top(self, highest: Mapping[str, float]) -> float:
        return 1.15 * largest(highest, *self._columns)

    def text(self, now: Mapping[str, float]) -> str:
        parts = [f"{i}: {amount(now[c])}" for i, c in enumerate(self._columns) if now[c] > 0]
        return f"Updates/s by thread: {', '.join(parts)}." if parts else "No thread is updating."
