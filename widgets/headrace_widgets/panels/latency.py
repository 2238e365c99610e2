"""Latency of the results: median and 99th percentile, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Mapping

from bokeh.models import NumeralTickFormatter

from headrace_widgets import palette
from headrace_widgets.panels.panel import Scene, compact_legend, largest, milliseconds, time_figure


class Latency:
    """Time from the arrival of the tuple that made a result ready to the result's emission."""

    key, title = "latency", "Latency of results"

    def figure(self, scene: Scene):
        scene.columns(["p50", "p99"])
        made = time_figure(scene, self.key, "latency (ms, log)", y_axis_type="log")
        made.yaxis.formatter = NumeralTickFormatter(format="0,0.[000]")
        made.line(
            "t",
            "p99",
            source=scene.series,
            color=palette.HIGH,
            width=1.5,
            line_dash="dashed",
            legend_label="p99",
        )
        made.line("t", "p50", source=scene.series, color=palette.LOW, width=2, legend_label="p50")
        compact_legend(made)
        return made

    def top(self, highest: Mapping[str, float]) -> float:
        return 3 * largest(highest, "p50", "p99")

    def text(self, now: Mapping[str, float]) -> str:
        return (
            f"Half of the results within {milliseconds(now['p50'])}, 99 % within {milliseconds(now['p99'])}."
        )
