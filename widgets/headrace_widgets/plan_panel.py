"""The live plan of a program: its tree, with the activity of each node. The plan is chosen beside the threads."""

from __future__ import annotations

from typing import Any

import ipywidgets as w

from headrace.metrics.snapshot import OperatorMetrics
from headrace_widgets import plan_tree
from headrace_widgets.graph_widget import GraphWidget
from headrace_widgets.layouts import Layout
from headrace_widgets.palette import share_colours
from headrace_widgets.target import Target
from headrace_widgets.units import in_words

TITLE = "Plan: who owns which events, and who joins whom"
WORDS = {"busy": "works", "blocked": "waits for others"}
"""Parts of a bar -> their names."""


class PlanPanel:
    """The tree of an operator that has a `plan`.

    Parameters
    ----------
    target : Target
    """

    def __init__(self, target: Target):
        self._target = target
        self.tree = GraphWidget(lambda _: None, classes=("headrace-tree",))
        self.words = w.HTML().add_class("headrace-note")
        entries = "".join(
            f'<li><span style="border-top: 9px solid {colour}"></span>{word}</li>'
            for colour, word in zip(share_colours(tuple(WORDS)), WORDS.values(), strict=True)
        )
        title = w.HTML(f'<h4>{TITLE}</h4><ul class="headrace-legend">{entries}</ul>')
        self.widget = w.VBox([title, self.tree.view, self.words]).add_class("headrace-plan-panel")
        self._waits = plan_tree.Waits()
        self._drawn: OperatorMetrics | None = None
        self._then: OperatorMetrics | None = None
        """What rates are counted from. Once the run is over its time stands still, and they stay as they were."""
        self._plan: Any = None
        self._is_large = False

    def arrange(self, layout: Layout) -> None:
        """Draw as large as a layout requires, from the next update on."""
        self._is_large = layout.name == "present"

    def look(self, metrics: OperatorMetrics) -> None:
        """Sample which node waits for which."""
        self._waits.add(metrics.values.get("waits_for", {}))

    def update(self, metrics: OperatorMetrics) -> None:
        """Draw the present state."""
        plan = self._target.handle.plan
        names = {one.name for one in plan.nodes}
        if not names <= set(metrics.values.get("events", names)):
            return  # the snapshot is of the previous plan
        if plan is not self._plan:
            self._then = None
        elif self._drawn is not None and metrics.seconds > self._drawn.seconds:
            self._then = self._drawn
        then = self._then
        self.tree.drawing = plan_tree.picture(plan, metrics, then, self._waits, self._is_large)
        text = self._text(plan, metrics, then)
        if self.words.value != text:
            self.words.value = text
        self._drawn, self._plan = metrics, plan

    def _text(self, plan: Any, now: OperatorMetrics, then: OperatorMetrics | None) -> str:
        seconds = 0.0 if then is None else now.seconds - then.seconds
        said = [f"{plan.word[0].upper()}{plan.word[1:]} in force"]
        if then is not None and seconds > 0:
            said.append(f"{in_words((now.processed - then.processed) / seconds, 'events')}/s")
            said.append(f"{in_words((now.joins - then.joins) / seconds, 'joins')}/s")
        if plan.predicted is not None:
            said.append(f"at most {in_words(plan.predicted, 'events')}/s predicted")
        return f"{'; '.join(said)}."


__all__ = ["PlanPanel"]
