"""The time plots, one file each, in the order shown."""

from __future__ import annotations

from headrace_widgets.panels.busy import Busy
from headrace_widgets.panels.depth import Depth
from headrace_widgets.panels.imbalance import Imbalance
from headrace_widgets.panels.latency import Latency
from headrace_widgets.panels.load import Load
from headrace_widgets.panels.panel import Panel, Scene
from headrace_widgets.panels.threads import Threads
from headrace_widgets.panels.throughput import Throughput
from headrace_widgets.panels.watermarks import Watermarks


def make_panels(scene: Scene, max_threads: int, time_unit: str) -> list[Panel]:
    """All panels for one operator."""
    return [
        Throughput(),
        Latency(),
        Threads(scene.cores, max_threads),
        Load(scene.threads),
        Busy(scene.threads),
        Imbalance(scene.limit),
        Depth(),
        Watermarks(scene.sources, time_unit),
    ]
