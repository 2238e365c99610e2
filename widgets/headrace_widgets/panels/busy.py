"""How each thread spends its time: busy, idle, blocked."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from bokeh.models import FixedTicker, HoverTool, NumeralTickFormatter, Range1d

from headrace_widgets import palette
from headrace_widgets.panels.panel import Scene, compact_legend, plain

ENDS = ("busy_end", "idle_end", "blocked_end")
"""Columns of the source `workers`: where each thread's three bars end."""


class Busy:
    """One bar for each thread; the square before it has the thread's colour."""

    key, title = "busy", "Busy, idle, blocked"

    def __init__(self, threads: int):
        self._threads = threads
        self.shares = [f"{kind}_{i}" for kind in ("busy", "idle", "blocked") for i in range(threads)]
        """Columns of the feed that `ends` is made from."""

    def figure(self, scene: Scene):
        for column in ENDS:
            scene.workers.data[column] = [math.nan] * self._threads
        made = plain(
            self.key, "thread", x_range=Range1d(-0.04, 1.0), x_axis_label="share of the last half second (%)",
            y_range=Range1d(self._threads - 0.5, -0.9 - self._threads / 10),
        )  # fmt: skip
        made.xaxis.formatter = NumeralTickFormatter(format="0%")
        made.xaxis.ticker = FixedTicker(ticks=[0, 0.25, 0.5, 0.75, 1])
        made.yaxis.ticker = FixedTicker(ticks=list(range(self._threads)))
        made.ygrid.grid_line_color = None
        bars = [
            made.hbar(
                y="thread",
                left=left,
                right=right,
                height=0.7,
                source=scene.workers,
                color=colour,
                legend_label=name,
                line_color=None,
            )
            for name, left, right, colour in zip(
                ("busy", "idle", "blocked"),
                (0, *ENDS),
                ENDS,
                (palette.BUSY, palette.IDLE, palette.BLOCKED),
                strict=False,
            )
        ]
        made.scatter(
            [-0.02] * self._threads, list(range(self._threads)), marker="square", size=9,
            color=[palette.thread_colour(i) for i in range(self._threads)],
        )  # fmt: skip
        made.add_tools(
            HoverTool(renderers=bars[:1], tooltips=[("thread", "@thread"), ("busy", "@busy_end{0%}")])
        )
        compact_legend(made, "top_right")
        made.legend.click_policy = "none"
        return made

    def ends(self, shares: np.ndarray) -> np.ndarray:
        """float64[3, threads]: the columns `ENDS`, from the values of the columns `shares`."""
        return shares.reshape(3, self._threads).cumsum(axis=0)

    def top(self, highest: Mapping[str, float]) -> float:
        return float("nan")

    def text(self, now: Mapping[str, float]) -> str:
        parts = [
            f"{i}: {now[f'busy_{i}']:.0%} busy, {now[f'blocked_{i}']:.0%} blocked"
            for i in range(self._threads)
            if now[f"busy_{i}"] + now[f"blocked_{i}"] > 0.005
        ]
        if not parts:
            return "All threads are idle."
        return f"Thread {'; '.join(parts)}{'; the others idle' * (len(parts) < self._threads)}."
