"""Controls for looking back: pause, scrub, the length of time shown, axes that fit, and a page to keep."""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from pathlib import Path

import ipywidgets as w

from headrace_widgets.controls.shown import Shown
from headrace_widgets.messages import Messages, number
from headrace_widgets.plots import TimeView

SPANS = {"10 s": 10.0, "30 s": 30.0, "1 min": 60.0, "2 min": 120.0, "5 min": 300.0, "all": None}
PAUSED = "headrace-paused"
"""Class of the row while the plots are held: the page then shows the slider."""


class HistoryControls:
    """Chooses what the time axis shows. The stream goes on while the plots stand still."""

    def __init__(self, view: TimeView, messages: Messages, fit: Callable[[], None], save: Callable[[], Path]):
        self._view, self._fit, self._save = view, fit, save
        self._messages = messages
        self._now_s = 0.0
        self._spans: dict[str, float | None] = dict(SPANS)
        self._shown = Shown()
        self._scrubbed: str | None = None
        """The echoed line for the slider's last position."""
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
            0.0, min=0.0, max=1.0, step=0.1, description="Ends at (s)", readout_format=",.1f", disabled=True,
            tooltip="The moment at which the plots end, while they are paused", layout=w.Layout(width="auto"),
            style={"description_width": "100px"},
        )  # fmt: skip
        self.scrub.add_class("headrace-scrub")
        self.fit = w.Button(
            description="Fit axes",
            tooltip="Rescale the axes to what is shown",
            layout=w.Layout(width="80px"),
        )
        self.save = w.Button(
            description="Save page",
            tooltip="Write the whole history into one HTML file",
            layout=w.Layout(width="90px"),
        )
        self.saved = w.HTML()
        for part, action in ((self.pause, self._pause), (self.span, self._choose), (self.scrub, self._scrub)):
            moved = messages.guard(lambda change, action=action: action(change["new"]))
            part.observe(lambda change, moved=moved: None if self._shown.is_now else moved(change), "value")
        self.fit.on_click(messages.guard(lambda _: self._fit_axes()))
        self.save.on_click(messages.guard(lambda _: self._write()))
        self.widget = w.Box([self.pause, self.span, self.scrub, self.fit, self.save, self.saved])
        self.widget.add_class("headrace-history")

    def show(self, now_s: float) -> None:
        """Update the length of the history. The slider takes it at a pause; before that it is not shown."""
        self._now_s = now_s

    def hold(self, end_s: float | None = None) -> None:
        """Let the plots end at this time and stand still; None: now."""
        if end_s is not None and not end_s >= 0:
            raise ValueError(f"pause({end_s!r}): give seconds since the first tuple, from 0")
        self._end_at(self._now_s if end_s is None else min(end_s, self._now_s))

    def go_on(self) -> None:
        """Let the plots follow the stream again."""
        self._end_at(None)

    def _end_at(self, end_s: float | None) -> None:
        paused = end_s is not None
        self._view.end_s = end_s
        with self._shown.now():
            # Whole steps: the page would round other values and send them back as if the user had set them.
            self.scrub.max = max(math.ceil(self._now_s * 10) / 10, 0.1)
            self.scrub.value = round(end_s, 1) if end_s is not None else self.scrub.max
            self.scrub.disabled = not paused
            (self.widget.add_class if paused else self.widget.remove_class)(PAUSED)
            self.pause.value = paused
            self.pause.description = "Go on" if paused else "Pause"

    def show_last(self, seconds: float | None) -> None:
        """Show this many seconds; None: the whole history."""
        if seconds is not None and not 0 < seconds < math.inf:
            raise ValueError(f"show_last({seconds!r}): give seconds above 0, or None for all")
        label = next(
            (name for name, span in self._spans.items() if span == seconds), f"{number(seconds or 0)} s"
        )
        self._spans[label] = self._view.span_s = seconds
        with self._shown.now():
            self.span.options = list(self._spans)
            self.span.value = label

    def _pause(self, paused: bool) -> None:
        self._messages.echo("dashboard.pause()" if paused else "dashboard.go_on()")
        self._end_at(self._now_s if paused else None)

    def _choose(self, span: str) -> None:
        seconds = self._spans[span]
        self._messages.echo(f"dashboard.show_last({None if seconds is None else number(seconds)})")
        self._view.span_s = seconds

    def _scrub(self, end_s: float) -> None:
        if not self.pause.value or self._view.end_s is None:
            return
        if abs(end_s - self._view.end_s) < self.scrub.step / 2:
            return  # the page sends back the value that it was given, rounded to a step of the slider
        end_s = round(end_s, 3)
        line = f"dashboard.pause({number(end_s)})"
        self._messages.echo(line, instead_of=self._scrubbed)
        self._scrubbed = line
        self._view.end_s = end_s  # the slider's own end stays: it is being moved

    def _fit_axes(self) -> None:
        self._messages.echo("dashboard.fit()")
        self._fit()

    def _write(self) -> None:
        path = self._save()
        self._messages.echo(f"dashboard.save({str(path)!r})")
        self.saved.value = f'<span role="status">saved as <code>{html.escape(path.name)}</code></span>'
