"""How unevenly the active threads are loaded."""

from __future__ import annotations

from collections.abc import Mapping

from bokeh.models import NumeralTickFormatter, Span

from headrace_widgets import palette
from headrace_widgets.panels.panel import NOTHING, Scene, compact_legend, largest, time_figure


class Imbalance:
    """Coefficient of variation of the threads' load, with the limit above which it should be mended."""

    key, title = "imbalance", "Load imbalance"

    def __init__(self, limit: float):
        self._limit = limit

    def figure(self, scene: Scene):
        scene.columns(["cv", "max_mean"])
        made = time_figure(scene, self.key, "standard deviation / mean (%)")
        made.yaxis.formatter = NumeralTickFormatter(format="0%")
        made.line("t", "cv", source=scene.series, color=palette.OUT, width=2, legend_label="imbalance")
        # The legend shows the limit's line; the span itself has no end.
        made.line(
            NOTHING,
            NOTHING,
            color=palette.LIMIT,
            line_dash="dotted",
            width=2,
            legend_label=f"limit {self._limit:.0%}",
        )
        made.add_layout(
            Span(
                location=self._limit,
                dimension="width",
                line_color=palette.LIMIT,
                line_dash="dotted",
                line_width=2,
            )
        )
        compact_legend(made)
        return made

    def top(self, highest: Mapping[str, float]) -> float:
        return 1.15 * max(largest(highest, "cv"), self._limit)

    def text(self, now: Mapping[str, float]) -> str:
        if now["cv"] != now["cv"]:
            return "Threads have just changed."
        side = "above" if now["cv"] > self._limit else "within"
        return (
            f"{now['cv']:.1%}, {side} the limit of {self._limit:.0%}; the busiest thread has"
            f" {now['max_mean']:.2f} times the mean."
        )
