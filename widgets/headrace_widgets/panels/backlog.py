"""The backlog outside the operator: tuples that are due by the rate but not yet admitted."""

from __future__ import annotations

from collections.abc import Mapping

from headrace_widgets import palette
from headrace_widgets.panels.panel import KnownPanel, Scene, largest, time_figure
from headrace_widgets.units import amount, axis_formatter

BEHIND = "behind"


class Backlog(KnownPanel):
    """Tuples that pile up before the sources, because an operator holds only a bounded number of them."""

    key, title, unit, least = "backlog", "Due, not admitted", "tuples", 10.0
    about = "Tuples that are due, by the set rate or by recorded times, but not yet taken, since the operator has no room."

    @classmethod
    def is_for(cls, scene: Scene) -> bool:
        return scene.has_sources

    def has_meaning(self, now: Mapping[str, float]) -> bool:
        return now["lag_s"] == now["lag_s"] and now[BEHIND] == now[BEHIND]

    def figure(self, scene: Scene):
        scene.draws(BEHIND)
        made = time_figure(scene, self.key, self.unit)
        made.yaxis.formatter = axis_formatter()
        made.varea("t", 0, BEHIND, source=scene.series, color=palette.LIMIT, alpha=0.3)
        made.line("t", BEHIND, source=scene.series, color=palette.LIMIT, width=2)
        return made

    def top(self, highest: Mapping[str, float]) -> float:
        return largest(highest, BEHIND)

    def text(self, now: Mapping[str, float]) -> str:
        return f"Due but not yet admitted: {amount(now[BEHIND])} tuples; inside: {amount(now['depth_tuples'])}."
