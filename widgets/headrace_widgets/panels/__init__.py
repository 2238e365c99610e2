"""The panels, in the order shown: those for measures that engines share, then one for each other measure."""

from __future__ import annotations

from collections.abc import Callable

from headrace.metrics.measures import BUCKET_LOAD, WATERMARK, Measure
from headrace_widgets.panels.backlog import Backlog
from headrace_widgets.panels.depth import Depth
from headrace_widgets.panels.imbalance import Imbalance
from headrace_widgets.panels.lag import Lag
from headrace_widgets.panels.lines import Lines
from headrace_widgets.panels.load import Load
from headrace_widgets.panels.panel import Panel, Scene
from headrace_widgets.panels.quantiles import Latency, Quantiles
from headrace_widgets.panels.shares import Shares
from headrace_widgets.panels.sizes import Sizes
from headrace_widgets.panels.threads import Threads
from headrace_widgets.panels.throughput import Throughput
from headrace_widgets.panels.watermarks import Watermarks

KNOWN = (Throughput, Lag, Latency, Threads, Load, Shares, Imbalance, Backlog, Depth, Watermarks)
"""Panel classes in the order shown. Each yields as many panels as its `made_for` makes for an operator."""
SHOWN_ELSEWHERE = (WATERMARK.name, BUCKET_LOAD.name)
"""Measures that the badge and the key mapping show."""


def is_drawn(measure: Measure) -> bool:
    """Whether some panel shows the measure."""
    known = {name for kind in KNOWN for name in (*kind.needs, *kind.also)}
    return measure.name in known or bool(measure.part_of) or measure.goes_to("plot")


def known_panels(scene: Scene) -> list[Panel]:
    """Return the panels of shared measures that the operator declares."""
    return [panel for kind in KNOWN for panel in kind.made_for(scene)]


def other_panels(scene: Scene, known: list[Panel]) -> list[Panel]:
    """Return one panel for each measure that none of `known` shows."""
    shown = {*SHOWN_ELSEWHERE, *[name for panel in known for name in panel.shows]}
    return [
        _panel_of(measure)(scene, measure)
        for measure in scene.operator.measures.values()
        if measure.name in scene.operator.of and measure.goes_to("plot") and measure.name not in shown
    ]


def _panel_of(measure: Measure) -> Callable[[Scene, Measure], Panel]:
    if measure.kind == "histogram":
        return Quantiles
    return Sizes if (measure.kind, measure.by) == ("counter", "size") else Lines
