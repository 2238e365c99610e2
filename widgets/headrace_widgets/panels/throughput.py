"""Tuples per second: offered and processed."""

from __future__ import annotations

from collections.abc import Mapping

from bokeh.models import NumeralTickFormatter

from headrace_widgets import palette
from headrace_widgets.panels.panel import Scene, amount, compact_legend, largest, time_figure


class Throughput:
    """Input rate and throughput; the gap between the two is what piles up."""

    key, title = "throughput", "Input rate and throughput"

    def figure(self, scene: Scene):
        scene.columns(["input_rate", "throughput", "rate"])
        made = time_figure(scene, self.key, "tuples/s")
        made.yaxis.formatter = NumeralTickFormatter(format="0.[0]a")
        made.line(
            "t", "rate", source=scene.series, color=palette.LIMIT, line_dash="dotted", legend_label="set rate"
        )
        made.line(
            "t", "input_rate", source=scene.series, color=palette.IN, width=4, alpha=0.6, legend_label="input"
        )
        made.line(
            "t", "throughput", source=scene.series, color=palette.OUT, width=1.5, legend_label="processed"
        )
        compact_legend(made)
        return made

    def top(self, highest: Mapping[str, float]) -> float:
        return 1.15 * largest(highest, "input_rate", "throughput")  # room for the legend

    def text(self, now: Mapping[str, float]) -> str:
        return (
            f"Input {amount(now['input_rate'])} tuples/s, processed {amount(now['throughput'])} tuples/s,"
            f" results {amount(now['results_rate'])}/s."
        )
