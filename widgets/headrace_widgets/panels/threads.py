"""Active threads, and the number of cores that can run them."""

from __future__ import annotations

from collections.abc import Mapping

from bokeh.models import Span

from headrace.cores import usable_cores
from headrace.summary import counted
from headrace_widgets import palette
from headrace_widgets.panels.panel import (
    NOTHING,
    KnownPanel,
    Scene,
    compact_legend,
    largest,
    time_figure,
    whole_ticks,
)


class Threads(KnownPanel):
    """A step line; more threads than cores are allowed, as something to learn from."""

    key, title = "threads", "Threads"
    about = "How many threads share the operator's work, and how many cores there are to run them."

    def __init__(self, scene: Scene):
        super().__init__(scene)
        self._cores, self._most = usable_cores(), scene.max_threads

    def figure(self, scene: Scene):
        scene.draws("threads")
        made = time_figure(scene, self.key, "active threads")
        made.step(
            "t", "threads", source=scene.series, color=palette.OUT, width=2.5, mode="after", legend_label="active",
        )  # fmt: skip
        # An invisible line for the hover tool, which cannot hit a step.
        made.line("t", "threads", source=scene.series, line_alpha=0)
        look = {"line_color": palette.LIMIT, "line_dash": "dotted", "line_width": 1.5}
        made.add_layout(Span(location=self._cores, dimension="width", **look))
        # An empty line puts the cores into the legend: a span has no end at which it could be labelled, and a label
        # beside it would cover the curve.
        made.line(NOTHING, NOTHING, legend_label=counted(self._cores, "core"), **look)
        compact_legend(made)
        whole_ticks(made)
        return made

    def top(self, highest: Mapping[str, float]) -> float:
        return max(largest(highest, "threads"), self._cores) + 0.9

    def text(self, now: Mapping[str, float]) -> str:
        return f"{now['threads']:.0f} of at most {self._most} threads on {counted(self._cores, 'core')}."
