"""The panel of the key mapping: which instance owns which buckets, what they cost, and moving them.

Changes here are a draft until it is applied. The draft is a mapping like any
other, so its imbalance is predicted from measured loads before it is in force.
"""

from __future__ import annotations

import time
from typing import Any

import ipywidgets as w
import numpy as np
from bokeh.models import (
    ColorBar,
    ColumnDataSource,
    FixedTicker,
    HoverTool,
    LinearColorMapper,
    NumeralTickFormatter,
    Range1d,
)  # fmt: skip
from bokeh.palettes import Cividis256

from headrace.metrics.measures import BUCKET_LOAD
from headrace.metrics.snapshot import OperatorMetrics
from headrace.summary import counted
from headrace_widgets import bucket_groups, palette
from headrace_widgets.bucket_groups import GROUP, GROUPS, BucketLoads
from headrace_widgets.live_plot import LiveFigure, LivePlot
from headrace_widgets.messages import Messages
from headrace_widgets.panels.panel import plain
from headrace_widgets.target import Target

TITLE = "Key mapping: threads and key buckets, coloured by load; click or drag to select"
TITLE_PLAIN = "Key mapping: threads and key buckets; click or drag to select"
"""Title where the load of a bucket is not measured."""
CELLS = ["share", "shade", "buckets"]
"""Columns of the heat map that change."""


class MappingPanel:
    """Heat map of threads and bucket groups, with a draft mapping that can be applied or discarded."""

    def __init__(self, target: Target, metrics: OperatorMetrics, messages: Messages):
        self._target, self._threads, self._messages = target, metrics.max_threads, messages
        self._loads = BucketLoads()
        self._is_measured = BUCKET_LOAD.name in metrics.values
        self._members: list[int] = list(metrics.members)
        self._draft: Any = None
        self._base: Any = None
        self._steps: list[str] = []
        figure, _ = self._figure()
        self._title = TITLE if self._is_measured else TITLE_PLAIN
        self.plot = LivePlot([LiveFigure("mapping", self._title, figure)], {"selectable": CELLS})
        self.plot.observe(messages.guard(lambda change: self._select(change["new"])), "selected")
        self.buckets = w.Text(
            description="Buckets", placeholder="0-15, 40", tooltip="Select cells above, or type buckets",
            continuous_update=False, layout=w.Layout(width="auto"), style={"description_width": "60px"},
        )  # fmt: skip
        self.to = w.Dropdown(
            description="to thread", options=self._members, tooltip="The thread that is to own them",
            layout=w.Layout(width="auto"), style={"description_width": "70px"},
        )  # fmt: skip
        self.move, self.balance, self.apply, self.discard = (
            w.Button(description=word, tooltip=tooltip, layout=w.Layout(width="auto"))
            for word, tooltip in (
                ("Move", "Draft: give the buckets to the thread"), ("Balance", "Draft: share the measured loads equally"),
                ("Apply", "Use the draft from now on"), ("Discard", "Forget the draft"),
            )
        )  # fmt: skip
        self.apply.button_style = "primary"
        self.prediction = w.HTML()
        for button, action in (
            (self.move, self._move), (self.balance, self._balance), (self.apply, self._apply), (self.discard, self._discard),
        ):  # fmt: skip
            button.on_click(messages.guard(lambda _, action=action: action()))
        self.balance.disabled = not self._is_measured
        row = w.Box([self.buckets, self.to, self.move, self.balance, self.apply, self.discard, self.prediction])
        row.add_class("headrace-draft")
        self.widget = w.VBox([self.plot.view, row])
        self.widget.add_class("headrace-mapping-panel")
        self._is_over = False
        self._show_buttons()

    # -- the plot

    def _figure(self) -> tuple[Any, ColumnDataSource]:
        """Make the heat map and its data source."""
        threads = self._threads
        nobody = np.zeros(bucket_groups.BUCKETS, int)
        columns = bucket_groups.grid(threads) | bucket_groups.cells(nobody, nobody, threads)
        source = ColumnDataSource(
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
        colours = Cividis256 if self._is_measured else [palette.OUT]
        mapper = LinearColorMapper(colours, low=0, high=1, nan_color="rgba(0,0,0,0)")
        colour = {"field": "shade", "transform": mapper}
        tiles = made.rect(
            "group", "thread", 0.92, 0.9, source=source, fill_color=colour, line_color=None,
            nonselection_fill_color=colour, nonselection_fill_alpha=0.75, nonselection_line_color=None,
            selection_fill_color=colour, selection_line_color=palette.CHANGE, selection_line_width=2.5,
        )  # fmt: skip
        made.scatter(
            [-1.6] * threads, list(range(threads)), marker="square", size=11,
            color=[palette.element_colour(i) for i in range(threads)],
        )  # fmt: skip
        about = [("thread", "@thread"), ("buckets here", "@buckets"), *([("load", "@share{0.0}%")] if self._is_measured else [])]
        made.add_tools(HoverTool(renderers=[tiles], tooltips=about), "tap", "box_select")
        made.toolbar.active_drag = made.toolbar.tools[-1]
        if self._is_measured:
            made.add_layout(self._scale(mapper), "right")
        return made, source

    @staticmethod
    def _scale(mapper: LinearColorMapper) -> ColorBar:
        """Make the colour scale; the text under the plot gives the maximum."""
        return ColorBar(
            color_mapper=mapper, ticker=FixedTicker(ticks=[0, 0.5, 1]), formatter=NumeralTickFormatter(format="0%"),
            major_label_overrides={1: "most"}, width=12, padding=4, margin=0, background_fill_alpha=0,
            major_label_text_font_size="11px", major_tick_line_color=None,
        )  # fmt: skip

    def update(self, metrics: OperatorMetrics) -> None:
        """Take the newest counters and show them."""
        self._loads.add(time.monotonic(), metrics.values.get(BUCKET_LOAD.name, ()))
        members = self._see_members(metrics)
        if self._draft is not None and (self._target.mapping != self._base or not self._is_possible(members)):
            self._forget()
            self._messages.refuse(
                "the draft of the key mapping was discarded: the mapping has changed meanwhile"
            )
        self.draw()

    def _see_members(self, metrics: OperatorMetrics) -> list[int]:
        members = list(metrics.members)
        if members != self._members:
            self._members = members
            self.to.options = members
        return members

    def _is_possible(self, members: list[int]) -> bool:
        """Whether the draft can be applied: no thread that has ended meanwhile owns a bucket in it."""
        return bool(np.isin(self._draft.owners, members).all())

    def draw(self) -> None:
        """Show the draft, or the mapping in force."""
        cells = self._cells()
        self.plot.push({"selectable": np.array([cells[name] for name in CELLS])}, texts={"mapping": self._words(cells)})
        self._predict()

    def _cells(self) -> dict[str, np.ndarray]:
        return bucket_groups.cells(self.shown.owners, self._loads.loads, self._threads)

    def _words(self, cells: dict[str, np.ndarray]) -> str:
        # A thread's totals are those of its row of cells.
        buckets, shares = (
            cells[name].reshape(self._threads, GROUPS).sum(axis=1).tolist() for name in ("buckets", "share")
        )
        words = ", ".join(
            f"thread {i}: {counted(buckets[i], 'bucket')}" + (f", {shares[i]:.0f}% of the load" if self._is_measured else "")
            for i in range(self._threads)
            if buckets[i]
        )
        state = "Draft, not applied" if self._draft is not None else "In force"
        if not self._is_measured:
            return f"{state}: {words}. The load of a bucket is not measured here."
        return f"{state}: {words}. No cell has more than {cells['share'].max():.1f}% of the load."

    def picture(self) -> LiveFigure:
        """Make a separate figure that shows the present state, with the text in its `about`."""
        cells = self._cells()
        figure, source = self._figure()
        source.data = {**source.data, **cells}
        return LiveFigure("mapping", self._title.partition(";")[0], figure, self._words(cells))

    @property
    def shown(self) -> Any:
        """The draft if there is one, else the mapping in force."""
        return self._draft if self._draft is not None else self._target.mapping

    def _predict(self) -> None:
        text = ""
        if self._draft is not None:
            text = f'<div class="headrace-text" role="status">{self._prediction()}</div>'
        if self.prediction.value != text:
            self.prediction.value = text

    def _prediction(self) -> str:
        """Return what the draft would change, as HTML."""
        differ = self._base.differing(self._draft)
        moved = "1 bucket moves" if differ == 1 else f"{differ} buckets move"
        if not self._is_measured:
            return f"<b>Draft</b>: {moved}; without the load of a bucket no imbalance can be predicted."
        loads = self._loads.loads
        now, then = (mapping.predicted_imbalance(loads, self._members) for mapping in (self._base, self._draft))
        return (
            f"<b>Predicted</b>: imbalance {now[0]:.1%} becomes {then[0]:.1%},"
            f" the busiest thread {then[1]:.2f} times the mean; {moved}."
        )

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
        self._see_members(self._target.handle.metrics())  # what is shown may be a second old
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
        self._target.reconfigure(mapping=draft)
        self._forget()

    @property
    def code(self) -> str:
        """Return the draft as complete Python: the line of each click can be used without the earlier ones."""
        return "".join(self._steps)

    @property
    def bucket_loads(self) -> np.ndarray:
        """int64[1024]: recent cost of each bucket, which Balance distributes."""
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
        self.apply.disabled = self.discard.disabled = self._is_over or self._draft is None

    def end(self) -> None:
        """The run is over: disable moving buckets."""
        self._is_over = True
        for part in (self.buckets, self.to, self.move, self.balance):
            part.disabled = True
        self._forget()
        self.draw()
