"""The key mapping: who owns which buckets, what they cost, and moving them.

What is changed here is a draft until it is applied. The draft is a mapping like any
other, so its imbalance is predicted from measured loads before the stream sees it.
"""

from __future__ import annotations

import time
from typing import Any

import ipywidgets as w
import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, LinearColorMapper, Range1d
from bokeh.palettes import Cividis256

from headrace.counters import OperatorMetrics
from headrace_widgets import bucket_groups, palette
from headrace_widgets.bucket_groups import GROUP, GROUPS, BucketLoads
from headrace_widgets.controls import REASON
from headrace_widgets.live_plot import LivePlot
from headrace_widgets.messages import Messages
from headrace_widgets.panels.panel import plain
from headrace_widgets.target import Target

CELLS = ["share", "shade", "buckets"]
"""Columns of the heat map that change."""


class MappingPanel:
    """Heat map of threads and bucket groups, with a draft mapping that can be applied or discarded."""

    def __init__(self, target: Target, threads: int, messages: Messages):
        self._target, self._threads, self._messages = target, threads, messages
        self._loads = BucketLoads()
        self._members: list[int] = list(range(target.threads))
        self._draft: Any = None
        self._base: Any = None
        self._steps: list[str] = []
        title = "Key mapping: threads and key buckets, coloured by load; click or drag to select"
        self.plot = LivePlot({"mapping": (title, self._figure())}, {"selectable": CELLS})
        self.plot.observe(messages.guard(lambda change: self._select(change["new"])), "selected")
        self.buckets = w.Text(
            description="Buckets", placeholder="0-15, 40", tooltip="Select cells above, or type buckets",
            continuous_update=False, layout=w.Layout(flex="1 1 200px", min_width="160px"),
        )  # fmt: skip
        self.to = w.Dropdown(
            description="to thread", options=self._members, tooltip="The thread that is to own them",
            layout=w.Layout(width="150px"), style={"description_width": "60px"},
        )  # fmt: skip
        narrow = w.Layout(width="90px")
        self.move = w.Button(
            description="Move", tooltip="Draft: give the buckets to the thread", layout=narrow
        )
        self.balance = w.Button(
            description="Balance", tooltip="Draft: share the measured loads equally", layout=narrow
        )
        self.apply = w.Button(
            description="Apply", tooltip="Use the draft from now on", button_style="primary", layout=narrow
        )
        self.discard = w.Button(description="Discard", tooltip="Forget the draft", layout=narrow)
        self.prediction = w.HTML(layout=w.Layout(flex="1 1 260px"))
        for button, action in (
            (self.move, self._move), (self.balance, self._balance), (self.apply, self._apply), (self.discard, self._discard),
        ):  # fmt: skip
            button.on_click(messages.guard(lambda _, action=action: action()))
        row = w.Layout(width="100%", flex_flow="row wrap", align_items="center")
        self.widget = w.VBox(
            [
                self.plot,
                w.HBox(
                    [
                        self.buckets,
                        self.to,
                        self.move,
                        self.balance,
                        self.apply,
                        self.discard,
                        self.prediction,
                    ],
                    layout=row,
                ),
            ],
            layout=w.Layout(width="100%"),
        )
        self._show_buttons()

    # -- the plot

    def _figure(self) -> Any:
        threads = self._threads
        nobody = np.zeros(bucket_groups.BUCKETS, int)
        columns = bucket_groups.grid(threads) | bucket_groups.cells(nobody, nobody, threads)
        self._source = ColumnDataSource(
            {name: column.astype(float) for name, column in columns.items()}, name="selectable"
        )
        made = plain(
            "mapping", "thread", x_range=Range1d(-2.2, GROUPS - 0.4), y_range=Range1d(threads - 0.45, -0.55),
            x_axis_label=f"key buckets ({GROUP} in a column)",
        )  # fmt: skip
        made.height = 70 + 24 * threads
        made.xaxis.ticker = FixedTicker(ticks=list(range(0, GROUPS + 1, 8)))
        made.xaxis.major_label_overrides = {i: str(i * GROUP) for i in range(0, GROUPS + 1, 8)}
        made.yaxis.ticker = FixedTicker(ticks=list(range(threads)))
        made.grid.grid_line_color = None
        mapper = LinearColorMapper(Cividis256, low=0, high=1, nan_color="rgba(0,0,0,0)")
        colour = {"field": "shade", "transform": mapper}
        tiles = made.rect(
            "group", "thread", 0.92, 0.9, source=self._source, fill_color=colour, line_color=None,
            nonselection_fill_color=colour, nonselection_fill_alpha=0.75, nonselection_line_color=None,
            selection_fill_color=colour, selection_line_color=palette.CHANGE, selection_line_width=2.5,
        )  # fmt: skip
        made.scatter(
            [-1.6] * threads, list(range(threads)), marker="square", size=11,
            color=[palette.thread_colour(i) for i in range(threads)],
        )  # fmt: skip
        about = [("thread", "@thread"), ("buckets here", "@buckets"), ("load", "@share{0.0}%")]
        made.add_tools(HoverTool(renderers=[tiles], tooltips=about), "tap", "box_select")
        made.toolbar.active_drag = made.toolbar.tools[-1]
        return made

    def update(self, metrics: OperatorMetrics) -> None:
        """Take the newest counters and show them."""
        self._loads.add(time.monotonic(), metrics.bucket_load)
        members = list(metrics.members)
        if members != self._members:
            self._members = members
            self.to.options = members
        if self._draft is not None and self._target.mapping != self._base:
            self._forget()
            self._messages.refuse(
                "the draft of the key mapping was discarded: the mapping has changed meanwhile"
            )
        self.draw()

    def draw(self) -> None:
        """Show the draft, or the mapping in force."""
        cells = bucket_groups.cells(self.shown.owners, self._loads.loads, self._threads)
        # What a thread has is what its row of cells has.
        buckets, shares = (
            cells[name].reshape(self._threads, GROUPS).sum(axis=1).tolist() for name in ("buckets", "share")
        )
        words = ", ".join(
            f"thread {i}: {buckets[i]} buckets, {shares[i]:.0f}% of the load"
            for i in range(self._threads)
            if buckets[i]
        )
        state = "Draft, not applied" if self._draft is not None else "In force"
        scale = f"Dark blue: no load; yellow: {cells['share'].max():.1f}% of it"
        block = np.array([cells[name] for name in CELLS])
        self.plot.push({"selectable": block}, texts={"mapping": f"{state}: {words}. {scale}."})
        self._predict()

    @property
    def shown(self) -> Any:
        """The draft where there is one, else the mapping in force."""
        return self._draft if self._draft is not None else self._target.mapping

    def _predict(self) -> None:
        text = ""
        if self._draft is not None:
            loads = self._loads.loads
            now = self._base.predicted_imbalance(loads, self._members)
            then = self._draft.predicted_imbalance(loads, self._members)
            text = (
                f'<div class="headrace-text" role="status"><b>Predicted</b>: imbalance {now[0]:.1%} becomes {then[0]:.1%},'
                f" the busiest thread {then[1]:.2f} times the mean; {self._base.differing(self._draft)} buckets move.</div>"
            )
        if self.prediction.value != text:
            self.prediction.value = text

    # -- the draft

    def _select(self, cells: list[int]) -> None:
        self.buckets.value = bucket_groups.to_text(bucket_groups.buckets_of(cells, self.shown.owners))

    def _move(self) -> None:
        buckets, to = bucket_groups.from_text(self.buckets.value), self.to.value
        self._begin()
        self._draft = self._draft.move(buckets, to=to)
        self._steps.append(f".move({bucket_groups.to_code(buckets)}, to={to})")
        self._messages.echo(f"draft = {self.code}")
        self._drafted()

    def _balance(self) -> None:
        loads = self.bucket_loads
        if not loads.any():
            raise ValueError("balance: no load has been measured yet; wait until tuples flow")
        self._begin()
        self._draft = type(self._draft).balanced(loads, self._members, start=self._target.mapping)
        self._steps = [
            f"hr.Mapping.balanced(dashboard.bucket_loads, {self._members}, start={self._target.code}.mapping)"
        ]
        self._messages.echo(f"draft = {self.code}")
        self._drafted()

    def _begin(self) -> None:
        if self._draft is None:
            self._base = self._draft = self._target.mapping
            self._steps = [f"{self._target.code}.mapping"]

    def _drafted(self) -> None:
        self.plot.selected = []
        self._show_buttons()
        self.draw()

    def _apply(self) -> None:
        draft = self._draft
        self._messages.echo(f"{self._target.code}.reconfigure(mapping={self.code})")
        self._target.reconfigure(mapping=draft, reason=REASON)
        self._forget()

    @property
    def code(self) -> str:
        """The draft as Python, complete in itself: the line of each click can be used without those before."""
        return "".join(self._steps)

    @property
    def bucket_loads(self) -> np.ndarray:
        """int64[1024]: what each bucket cost lately; what Balance shares out."""
        return self._loads.loads

    def _discard(self) -> None:
        self._messages.echo(f"draft = {self._target.code}.mapping")
        self._forget()
        self.draw()

    def _forget(self) -> None:
        self._draft = self._base = None
        self._steps = []
        self._show_buttons()

    def _show_buttons(self) -> None:
        self.apply.disabled = self.discard.disabled = self._draft is None
