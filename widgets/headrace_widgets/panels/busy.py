"""How each thread spends its time: busy, idle, blocked."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from bokeh.models import FixedTicker, HoverTool, NumeralTickFormatter, Range1d

from headrace_widgets import palette
from headrace_widgets.panels.panel import NOTHING, Scene, compact_legend, plain


class Busy:
    """One bar for each thread; the square before it has the thread's colour."""

    key, title = "busy", "Busy, idle, blocked"

    def __init__(self, threads: int):
        self._threads = threads

    def figure(self, scene: Scene):
        for column in ("busy", "busy_start", "busy_end", "idle_end", "blocked_end"):
            scene.workers.data[column] = NOTHING
        made = plain(
            self.key, "thread", x_range=Range1d(-0.04, 1.0), x_axis_label="share of the last half second (%)",
            y_range=Range1d(self._threads - 0.5, -0.9 - self._threads / 10),
        )  # fmt: skip
        made.xaxis.formatter = NumeralTickFormatter(format="0%")
        made.xaxis.ticker = FixedTicker(ticks=[0, 0.25, 0.5, 0.75, 1])
        made.yaxis.ticker = FixedTicker(ticks=list(range(self._threads)))
        made.ygrid.grid_line_color = None
        edges = ("busy_start", "busy_end", "idle_end", "blocked_end")
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
                edges,
                edges[1:],
                (palette.BUSY, palette.IDLE, palette.BLOCKED),
                strict=False,
            )
        ]
        made.scatter(
            [-0.02] * self._threads, list(range(self._threads)), marker="square", size=9,
            color=[palette.thread_colour(i) for i in range(self._threads)],
        )  # fmt: skip
        made.add_tools(HoverTool(renderers=bars[:1], tooltips=[("thread", "@thread"), ("busy", "@busy{0%}")]))
        compact_legend(made, "top_right")
        made.legend.click_policy = "none"
        return made

    def bars(self, now: Mapping[str, float]) -> dict[str, np.ndarray]:
        """Columns of the source `workers`."""
        busy, idle, blocked = (
            np.array([now.get(f"{kind}_{i}", 0.0) for i in range(self._threads)])
            for kind in ("busy", "idle", "blocked")
        )
        return {
            "thread": np.arange(self._threads),
            "busy": busy,
            "busy_start": np.zeros(self._threads),
            "busy_end": busy,
            "idle_end": busy + idle,
            "blocked_end": busy + idle + blocked,
        }

    def top(self, shown: Mapping[str, np.ndarray]) -> float:
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
