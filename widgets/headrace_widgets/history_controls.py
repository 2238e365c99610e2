"""Looking back: pause, scrub, the length of time shown, axes that fit, and a page to keep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ipywidgets as w

from headrace_widgets.messages import Messages
from headrace_widgets.plots import TimeView

SPANS = {"10 s": 10.0, "30 s": 30.0, "1 min": 60.0, "2 min": 120.0, "5 min": 300.0, "all": None}


class HistoryControls:
    """Chooses what the time axis shows. The stream goes on while the plots stand still."""

    def __init__(self, view: TimeView, messages: Messages, fit: Callable[[], None], save: Callable[[], Path]):
        self._view, self._fit, self._save = view, fit, save
        self._messages = messages
        self._now_s = 0.0
        self.pause = w.ToggleButton(
            False,
            description="Pause",
            tooltip="Hold the plots still; the stream goes on",
            layout=w.Layout(width="80px"),
        )
        self.span = w.Dropdown(
            options=list(SPANS), value="1 min", description="Show", tooltip="How much time the plots show",
            layout=w.Layout(width="140px"), style={"description_width": "40px"},
        )  # fmt: skip
        self.scrub = w.FloatSlider(
            0.0, min=0.0, max=1.0, step=0.1, description="up to (s)", readout_format=",.1f", disabled=True,
            tooltip="The moment at which the plots end", layout=w.Layout(flex="1 1 220px", min_width="200px"),
        )  # fmt: skip
        self.scrub.add_class("headrace-scrub")
        self.fit = w.Button(
            description="Fit axes",
            tooltip="Let the axes begin anew from what is shown",
            layout=w.Layout(width="80px"),
        )
        self.save = w.Button(
            description="Save page",
            tooltip="Write the whole history into one HTML file",
            layout=w.Layout(width="90px"),
        )
        self.saved = w.HTML()
        self.pause.observe(messages.guard(lambda change: self._pause(change["new"])), "value")
        self.span.observe(messages.guard(lambda change: self._choose(change["new"])), "value")
        self.scrub.observe(messages.guard(lambda change: self._scrub(change["new"])), "value")
        self.fit.on_click(messages.guard(lambda _: self._fit()))
        self.save.on_click(messages.guard(lambda _: self._write()))
        self.widget = w.HBox(
            [self.pause, self.span, self.scrub, self.fit, self.save, self.saved],
            layout=w.Layout(width="100%", flex_flow="row wrap", align_items="center"),
        )

    def show(self, now_s: float) -> None:
        """Tell it how long the history is. The slider learns it with the pause: until then it is of no use."""
        self._now_s = now_s

    def _pause(self, paused: bool) -> None:
        self.scrub.max = max(self._now_s, 0.1)
        self._view.end_s = None
        self.scrub.value = self.scrub.max
        self._view.end_s = self._now_s if paused else None
        self.scrub.disabled = not paused
        self.pause.description = "Go on" if paused else "Pause"

    def _choose(self, span: str) -> None:
        self._view.span_s = SPANS[span]

    def _scrub(self, end_s: float) -> None:
        if self.pause.value:
            self._view.end_s = end_s

    def _write(self) -> None:
        path = self._save()
        self._messages.echo(f"dashboard.save({str(path)!r})")
        self.saved.value = f'<span role="status">saved as <code>{path.name}</code></span>'
