"""Tuples per second: due, offered and processed."""

from __future__ import annotations

from collections.abc import Mapping

from headrace_widgets import palette
from headrace_widgets.live_plot import IF_DRAWN
from headrace_widgets.panels.panel import (
    KnownPanel,
    Scene,
    compact_legend,
    largest,
    plays_events,
    time_figure,
)
from headrace_widgets.units import amount, axis_formatter


class Throughput(KnownPanel):
    """Tuples due, taken in and processed; the difference between due and taken in piles up outside.

    The line of due tuples has no name in the legend where it is not drawn: at full speed, and where event times are played.
    """

    key, title, unit, least = "throughput", "Input rate and throughput", "tuples/s", 10.0
    about = (
        "Tuples per second that are due (by the set rate or by recorded times), that came in, and that were processed. Where"
        " more are due than come in, the rest waits at the source, and the lag grows."
    )
    needs, also = ("added", "processed"), ("results",)

    def __init__(self, scene: Scene):
        super().__init__(scene)
        self._added, self._processed = (scene.operator.of[name][0] for name in self.needs)
        self._results = scene.operator.of.get("results", ("",))[0]

    def figure(self, scene: Scene):
        scene.draws(self._added, self._processed, "rate")
        made = time_figure(scene, self.key, self.unit)
        made.yaxis.formatter = axis_formatter()
        for column, label, look in (
            (self._added, "input", {"color": palette.IN, "width": 4}),
            (self._processed, "processed", {"color": palette.OUT, "width": 1.5}),
            # Drawn on top: otherwise the input would hide it as long as it keeps up with the rate.
            ("rate", "due", {"color": palette.LIMIT, "width": 2, "line_dash": "dotted", "tags": [IF_DRAWN]}),
        ):
            made.line("t", column, source=scene.series, legend_label=label, **look)
        compact_legend(made)
        return made

    def top(self, highest: Mapping[str, float]) -> float:
        return 1.15 * largest(highest, "rate", self._added, self._processed)  # room for the legend

    def text(self, now: Mapping[str, float]) -> str:
        of_due = f" of {amount(now['rate'])} due" if now["rate"] == now["rate"] else " as recorded" if plays_events(now) else ""
        words = f"Input {amount(now[self._added])} tuples/s{of_due}, processed {amount(now[self._processed])} tuples/s"
        return f"{words}, results {amount(now[self._results])}/s." if self._results else f"{words}."
