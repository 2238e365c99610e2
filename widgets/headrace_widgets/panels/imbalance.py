"""How unevenly the active threads are loaded."""

from __future__ import annotations

from collections.abc import Mapping

from bokeh.models import NumeralTickFormatter, Span

from headrace_widgets import palette
from headrace_widgets.panels.panel import NOTHING, KnownPanel, Scene, compact_legend, largest, time_figure

CV, MAX_MEAN = "imbalance_cv", "imbalance_max_mean"


class Imbalance(KnownPanel):
    """Coefficient of variation of the threads' load, with the limit above which it should be corrected."""

    key, title, least = "imbalance", "Load imbalance", 0.1
    about = (
        "How unevenly the load is shared: the standard deviation of the threads' loads over their mean. 0 % is even; above the"
        " limit it pays to balance the key mapping."
    )
    needs = (CV, MAX_MEAN)

    def __init__(self, scene: Scene):
        super().__init__(scene)
        self._limit = scene.limit

    def has_meaning(self, now: Mapping[str, float]) -> bool:
        return now["threads"] > 1

    def figure(self, scene: Scene):
        scene.draws(CV, MAX_MEAN)
        made = time_figure(scene, self.key, "std / mean (%)")
        made.yaxis.formatter = NumeralTickFormatter(format="0%")
        made.line("t", CV, source=scene.series, color=palette.OUT, width=2, legend_label="imbalance")
        look = {"line_color": palette.LIMIT, "line_dash": "dotted", "line_width": 2}
        # An empty line puts the limit into the legend: a span has no end at which it could be labelled.
        made.line(NOTHING, NOTHING, legend_label=f"limit {self._limit:.0%}", **look)
        made.add_layout(Span(location=self._limit, dimension="width", **look))
        compact_legend(made)
        return made

    def top(self, highest: Mapping[str, float]) -> float:
        return 1.15 * max(largest(highest, CV), self._limit)

    def text(self, now: Mapping[str, float]) -> str:
        if now[CV] != now[CV]:
            return "Threads have just changed."
        side = "above" if now[CV] > self._limit else "within"
        return (
            f"{now[CV]:.1%}, {side} the limit of {self._limit:.0%}; the busiest thread has"
            f" {now[MAX_MEAN]:.2f} times the mean."
        )
