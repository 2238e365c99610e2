"""The dashboard's view of one operator: its plots, its controls, its changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ipywidgets as w

from headrace_widgets.changes_table import ChangesTable
from headrace_widgets.connection import Connection
from headrace_widgets.controller_panel import ControllerPanel
from headrace_widgets.controls import absent_controls, make_controls
from headrace_widgets.controls.burst import BurstControl
from headrace_widgets.controls.rate import RateControl
from headrace_widgets.feed import Feed
from headrace_widgets.figures import Figures
from headrace_widgets.hot_keys import HotKeys
from headrace_widgets.layouts import Layout
from headrace_widgets.live_plot import LiveFigure
from headrace_widgets.mapping_panel import MappingPanel
from headrace_widgets.messages import Messages
from headrace_widgets.numbers_row import NumbersRow
from headrace_widgets.panels import Scene, known_panels, other_panels
from headrace_widgets.plan_panel import PlanPanel
from headrace_widgets.plots import Plots, TimeView
from headrace_widgets.target import Target
from headrace_widgets.text_measures import TextMeasures
from headrace_widgets.timeline import Timeline
from headrace_widgets.turns import Part

_HOW_BACK = (
    '<p class="headrace-note"><code>dashboard</code> in a new cell shows this again, also after a reload of the page;'
    " running its own cell again ends this run and starts another."
    " Hover over a title or a number to see what it means.</p>"
)


class OperatorView:
    """The widgets of one operator, made from its measures and its controls.

    Parameters
    ----------
    run : Run
    feed : Feed
    name : str
        Name of the operator.
    limit : float
        Imbalance above which it is marked as too much.
    view : TimeView
    messages : Messages
    controllers : mapping of str to controller, or None
        The user's controllers.

    Attributes
    ----------
    settings : dict of str to Setting
        The controls that have a value, by name.
    mapping : MappingPanel or None
        None where the key mapping cannot be changed.
    plan : PlanPanel or None
        None where there is no plan that can be changed.
    text_measures : TextMeasures
    absent : HTML
        The controls it lacks, and why; empty where it has all.
    seldom : list of callable
        Parts that are read rather than watched: called with the metrics and the changes.
    """

    def __init__(
        self,
        run: Any,
        feed: Feed,
        name: str,
        limit: float,
        view: TimeView,
        messages: Messages,
        controllers: Mapping[str, Any] | None,
    ):
        self._run, self._feed, self._name, self._limit = run, feed, name, limit
        snapshot = run.metrics()
        metrics = snapshot.operators[name]
        self.target = target = Target(run, name)
        figures = self.figures()
        self.plots = Plots(figures, view)
        self.settings = make_controls(target, messages)
        self.rate = RateControl(target, messages)
        self.burst = BurstControl(target, messages, self.rate)
        has_mapping = "mapping" in target.controls
        self.mapping = MappingPanel(target, metrics, messages) if has_mapping else None
        self.plan = PlanPanel(target) if any(one.kind == "plan" for one in target.controls.values()) else None
        self.controller = ControllerPanel(target, feed, messages, controllers)
        self.hot_keys = HotKeys(target, messages)
        self.timeline = Timeline(target, metrics.max_threads, messages)
        self.text_measures = TextMeasures(metrics)
        self.numbers = NumbersRow(snapshot, name, {one for panel in figures.panels for one in panel.shows})
        self.absent = absent_controls(target)
        self.seldom: list[Part] = [
            lambda *_: self.controller.update(),
            lambda *_: self.rate.show(self.rate.playing),
            lambda *_: self.burst.show(),
            lambda *_: self.timeline.update(),
            lambda *_: self.hot_keys.update(),
            lambda metrics, _: self.numbers.show(metrics),
        ]
        if mapping := self.mapping:
            self.seldom.append(lambda metrics, _: mapping.update(metrics.operators[name]))
        if plan := self.plan:
            self.seldom.append(lambda metrics, _: plan.update(metrics.operators[name]))
        if self.text_measures.is_there:
            self.seldom.append(lambda metrics, _: self.text_measures.show(metrics.operators[name]))

    def figures(self) -> Figures:
        """Build new figures of all its measures."""
        operator, metrics = self._feed.columns[self._name], self._run.metrics().operators[self._name]
        unit = getattr(self._run, "time_unit", "time units")
        scene = Scene(operator, metrics.max_threads, unit, self._limit, bool(self._run.metrics().sources))
        known = known_panels(scene)
        return Figures(self._feed, self._name, scene, [*known, *other_panels(scene, known)])

    def picture(self) -> LiveFigure | None:
        """Build a new heat map of the present key mapping; None where the mapping cannot be changed."""
        return self.mapping.picture() if self.mapping else None

    def arrange(self, layout: Layout) -> None:
        """Lay the plots out."""
        self.plots.arrange(layout, self.plan is not None)
        if self.plan is not None:
            self.plan.arrange(layout)

    def end(self) -> None:
        """The run is over: disable all controls."""
        for one in (*self.settings.values(), self.rate, self.controller, *filter(None, [self.mapping])):
            one.end()

    def widgets(self, history: w.Widget, changes: ChangesTable, messages: Messages, connection: Connection) -> list[w.Widget]:
        """Return the widgets shown, from the top, including those that all operators share."""
        steering = [*(one.widget for one in self.settings.values()), self.rate.widget]
        bar = w.Box(steering)
        bar.add_class("headrace-steering")
        return [
            bar,
            *([self.controller.widget] if self.controller.is_there else []),
            messages.problem,
            connection.view,
            messages.code,
            history,
            self.numbers.widget,
            *([self.plan.widget] if self.plan else []),
            self.plots.widget.view,
            *([self.timeline.widget] if self.timeline.is_there else []),
            *([self.text_measures.widget] if self.text_measures.is_there else []),
            *([self.mapping.widget] if self.mapping else []),
            *([self.hot_keys.widget] if self.hot_keys.is_there else []),
            changes.widget,
            *([self.absent] if self.absent.value else []),
            w.HTML(_HOW_BACK).add_class("headrace-footer"),
        ]

    def update(self, changes: list[Any]) -> None:
        """Update the parts that are watched."""
        if self.settings:
            configuration = self.target.configuration
            for name, setting in self.settings.items():
                setting.explain(self.target.controls[name].unused(configuration))
                setting.show(configuration[name])
        if self.plan and self._feed.metrics is not None:
            self.plan.look(self._feed.metrics.operators[self._name])
        self.plots.mark(changes)
        self.plots.update()
