"""The timeline of what each thread did in the last second."""

from __future__ import annotations

import math
import time
from typing import Any

import ipywidgets as w
import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, LinearColorMapper, Range1d

from headrace.metrics.by_worker import STATES
from headrace_widgets import palette
from headrace_widgets.controls.shown import Shown
from headrace_widgets.live_plot import LiveFigure, LivePlot
from headrace_widgets.messages import Messages
from headrace_widgets.panels.panel import compact_legend, plain
from headrace_widgets.target import Target

SECONDS = 1.0
EVERY_S = 2.0
"""Time between two updates: one reads thousands of spans, and costs as much as several updates of everything else."""
_WORDS = ("not active", "processes", "waits for input", "waits for room", "waits for other threads")
_DOING = ("not active", "processing", "waiting for input", "waiting for room", "waiting for other threads")
_NUMBER = {state: number for number, state in enumerate(STATES)}
COLUMNS = ["thread", "state", "begin", "end", "ms"]
TITLE = "Timeline: what each thread did in the last second"
_NOTHING = "No timeline yet, or this engine keeps none."


class Timeline:
    """A plot that is drawn, and has a cost, only while it is switched on; available where the engine has `spans`."""

    def __init__(self, target: Target, max_threads: int, messages: Messages):
        self._target, self._threads, self._messages = target, max_threads, messages
        self.is_there = hasattr(target.handle, "spans")
        self.button = w.ToggleButton(
            False, description="Timeline", tooltip=TITLE, layout=w.Layout(width="100px")
        )
        self._plot: LivePlot | None = None
        self._drawn_at = 0.0
        self.widget = w.VBox([self.button]).add_class("headrace-timeline")
        self._shown = Shown()
        switched = messages.guard(lambda change: self._switched(change["new"]))
        self.button.observe(lambda change: None if self._shown.is_now else switched(change), "value")

    @property
    def plot(self) -> LivePlot | None:
        """The plot; None until it is switched on."""
        return self._plot

    def _switched(self, is_on: bool) -> None:
        self._messages.echo(f"dashboard.show_timeline({is_on})")
        self._switch(is_on)

    def set(self, is_on: bool) -> None:
        """Show or hide the timeline, by a call."""
        with self._shown.now():
            self.button.value = is_on
        self._switch(is_on)

    def _switch(self, is_on: bool) -> None:
        if is_on and self._plot is None:
            self._plot = LivePlot([LiveFigure("timeline", TITLE, self._figure())], {"spans": COLUMNS})
        self.widget.children = [self.button, *([self._plot.view] if is_on and self._plot else [])]
        if is_on:
            self._draw()

    def update(self) -> None:
        """Draw the last second, if the plot is shown and an update is due."""
        if self._plot is not None and len(self.widget.children) > 1 and time.monotonic() - self._drawn_at >= EVERY_S:
            self._draw()

    def _draw(self) -> None:
        assert self._plot is not None
        self._drawn_at = time.monotonic()
        frame = self._target.handle.spans(SECONDS)
        block = block_of(frame)
        self._plot.push({"spans": block}, texts={"timeline": words_of(block)})

    def _figure(self) -> Any:
        source = ColumnDataSource({column: [math.nan] for column in COLUMNS}, name="spans")
        made = plain(
            "timeline", "thread", x_range=Range1d(-SECONDS, 0), x_axis_label="time before the newest moment (s)",
            y_range=Range1d(self._threads - 0.45, -0.55),
        )  # fmt: skip
        made.height = 70 + 24 * self._threads
        made.yaxis.ticker = FixedTicker(ticks=list(range(self._threads)))
        made.grid.grid_line_color = None
        busy, idle, blocked = palette.share_colours(("busy", "idle", "blocked"))
        colours = ["rgba(0, 0, 0, 0)", busy, idle, blocked, palette.CHANGE]
        for colour, word in zip(colours[1:], _WORDS[1:], strict=True):
            made.hbar(y=[math.nan], left=[math.nan], right=[math.nan], color=colour, legend_label=word)
        mapper = LinearColorMapper(colours, low=-0.5, high=len(STATES) - 0.5)
        spans = made.hbar(
            y="thread", left="begin", right="end", height=0.8, source=source, line_color=None,
            fill_color={"field": "state", "transform": mapper},
        )  # fmt: skip
        about = [("thread", "@thread"), ("for", "@ms{0.[00]} ms")]
        made.add_tools(HoverTool(renderers=[spans], tooltips=about))
        compact_legend(made, "top_right")
        made.legend.click_policy = "none"
        return made


def block_of(frame: Any) -> np.ndarray:
    """Return float64[columns, spans]: the columns `COLUMNS` of a frame of `spans`, in seconds before its end."""
    begin, end = frame["begin_s"].to_numpy(float), frame["end_s"].to_numpy(float)
    newest = end.max() if len(end) else 0.0
    states = frame["state"].map(_NUMBER).to_numpy(float)
    return np.array([frame["thread"].to_numpy(float), states, begin - newest, end - newest, (end - begin) * 1e3])


def words_of(block: np.ndarray) -> str:
    """Return text that says how the active threads spent the recorded time."""
    thread, state, begin, _, ms = block
    parts = []
    for worker in np.unique(thread[state > 0]).astype(int).tolist():
        own = thread == worker
        whole = max(ms[own & (state > 0)].sum(), 1e-9)
        told = [
            f"{ms[own & (state == number)].sum() / whole:.0%} {_DOING[number]}"
            for number in range(1, len(STATES))
            if ms[own & (state == number)].sum() > 0.005 * whole
        ]
        parts.append(f"{worker}: {', '.join(told)}")
    if not parts:
        return _NOTHING
    known_s = -begin[state > 0].min()  # a thread with many short spans soon overwrites the oldest
    return f"Thread {'; '.join(parts)}." + (f" Only the last {known_s:.2f} s are known." if known_s < 0.95 * SECONDS else "")
