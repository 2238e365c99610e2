"""Active threads, and how many cores there are to run them."""

from __future__ import annotations

from collections.abc import Mapping

from bokeh.models import Label, Span

from headrace_widgets import palette
from headrace_widgets.panels.panel import Scene, largest, time_figure, whole_ticks


class Threads:
    """A step line; more threads than cores is a lesson, not an error."""

    key, title = "threads", "Threads"

    def __init__(self, cores: int, max_threads: int):
        self._cores, self._most = cores, max_threads

    def figure(self, scene: Scene):
        scene.columns(["threads"])
        made = time_figure(scene, self.key, "active threads")
        made.step("t", "threads", source=scene.series, color=palette.OUT, width=2.5, mode="after")
        made.add_layout(
            Span(location=self._cores, dimension="width", line_color=palette.LIMIT, line_dash="dotted")
        )
        made.add_layout(
            Label(
                x=4,
                x_units="screen",
                y=self._cores,
                text=f"{self._cores} cores",
                text_font_size="11px",
                text_baseline="bottom",
                tags=["ink-text"],
            )
        )
        whole_ticks(made, max(self._most, self._cores) + 1)
        return made

    def top(self, highest: Mapping[str, float]) -> float:
        return max(largest(highest, "threads"), self._cores) + 0.9

    def text(self, now: Mapping[str, float]) -> str:
        return f"{now['threads']:.0f} of at most {self._most} threads on {self._cores} cores."
