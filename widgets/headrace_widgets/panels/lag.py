"""How late the stream is: how long tuples have been due, and the resulting delay of results."""

from __future__ import annotations

from collections.abc import Mapping

from bokeh.models import NumeralTickFormatter

from headrace.metrics.bottleneck import LATE_S
from headrace_widgets import palette
from headrace_widgets.panels.panel import (
    KnownPanel,
    Scene,
    compact_legend,
    largest,
    plays_events,
    time_figure,
)
from headrace_widgets.units import amount, milliseconds

LAG, DELAY = "lag_s", "delay_s"


class Lag(KnownPanel):
    """How long the oldest due tuple has been due, without its wait in the log; the delay of results includes that."""

    key, title, unit, least = "lag", "Lag behind the rate", "s", 0.1
    about = (
        "How long the next tuple to be admitted has been due, by the set rate or by its recorded time. The delay of results is"
        " this lag plus their latency in the interval (p99), which counts from a tuple's admission."
    )

    @classmethod
    def is_for(cls, scene: Scene) -> bool:
        return scene.has_sources

    def has_meaning(self, now: Mapping[str, float]) -> bool:
        return now[LAG] == now[LAG]

    def figure(self, scene: Scene):
        scene.draws(LAG, DELAY)
        made = time_figure(scene, self.key, self.unit)
        made.yaxis.formatter = NumeralTickFormatter(format="0,0.[00]")
        made.varea("t", 0, LAG, source=scene.series, color=palette.LIMIT, alpha=0.3)
        made.line("t", LAG, source=scene.series, color=palette.LIMIT, width=2, legend_label="lag")
        made.line(
            "t", DELAY, source=scene.series, color=palette.OUT, width=1.5, line_dash="dashed",
            legend_label="delay of results (p99)",
        )  # fmt: skip
        compact_legend(made)
        return made

    def top(self, highest: Mapping[str, float]) -> float:
        return 1.15 * largest(highest, LAG, DELAY)

    def text(self, now: Mapping[str, float]) -> str:
        if now[LAG] != now[LAG]:
            return "At full speed no tuple is ever due."
        lag = f"{milliseconds(now[LAG] * 1e3)} behind" if now[LAG] > LATE_S else "On time"
        words = f"{lag}." if plays_events(now) else f"{lag}: {amount(now['behind'])} due."
        if now[DELAY] != now[DELAY]:
            return words
        delay = milliseconds(now[DELAY] * 1e3)
        return f"{words} Results, with the wait at the source: {delay} (p99)."
