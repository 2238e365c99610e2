"""The number of threads and the rate of the input, set by hand."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ipywidgets as w

from headrace_widgets.messages import Messages
from headrace_widgets.target import Target

REASON = "dashboard"


class _Shown:
    """Tells a value that the dashboard shows from one that the user sets: both call a widget's observers."""

    def __init__(self):
        self._by: int | None = None

    @contextmanager
    def now(self) -> Iterator[None]:
        """What this thread sets meanwhile was not set by the user."""
        self._by = threading.get_ident()
        try:
            yield
        finally:
            self._by = None

    @property
    def is_now(self) -> bool:
        return self._by == threading.get_ident()


class ThreadsControl:
    """Slider, text entry, minus and plus. A refusal is shown, and the controls return to what is."""

    def __init__(self, target: Target, max_threads: int, messages: Messages):
        self._target, self._max, self._messages = target, max_threads, messages
        wide = w.Layout(flex="1 1 220px", min_width="200px")
        now = target.threads
        self.minus = w.Button(description="−", tooltip="One thread less", layout=w.Layout(width="40px"))
        self.slider = w.IntSlider(
            now, 1, max_threads, description="Threads", continuous_update=False, layout=wide,
            tooltip=f"Active threads, 1 to {max_threads}",
        )  # fmt: skip
        self.plus = w.Button(description="+", tooltip="One thread more", layout=w.Layout(width="40px"))
        self.entry = w.IntText(
            now, continuous_update=False, tooltip="Type a number of threads", layout=w.Layout(width="70px")
        )
        self.widget = w.HBox(
            [self.minus, self.slider, self.plus, self.entry],
            layout=w.Layout(align_items="center", flex="1 1 380px"),
        )
        self.widget.add_class("headrace-threads")
        self._shown = _Shown()
        self._change: Any = None
        self._wanted = now
        self._set_to: int | None = None
        """What the controls show; None: unknown, since the user has set something else."""
        self.minus.on_click(messages.guard(lambda _: self.request(self._wanted - 1)))
        self.plus.on_click(messages.guard(lambda _: self.request(self._wanted + 1)))
        moved = messages.guard(lambda change: self.request(change["new"]))
        for part in (self.slider, self.entry):
            part.observe(lambda change: None if self._shown.is_now else moved(change), "value")

    def request(self, threads: int) -> Any:
        """Ask for so many threads."""
        self._messages.echo(f"{self._target.code}.reconfigure(threads={threads})")
        try:
            self._change = self._target.reconfigure(threads=threads, reason=REASON)
        except Exception:
            self._set_to = None
            self.show(self._target.threads)
            raise
        self._wanted, self._set_to = threads, None
        self._set(threads)
        return self._change

    @property
    def current(self) -> int:
        """Active threads now."""
        return self._target.threads

    def show(self, threads: int) -> None:
        """Show how many there are, unless a request is on its way."""
        if self._change is not None and not self._change.is_settled:
            return
        self._wanted = threads
        self._set(threads)

    def _set(self, threads: int) -> None:
        if threads == self._set_to:
            return  # reading and setting traits costs, and this is asked for with every update
        self._set_to = threads
        with self._shown.now():
            self.slider.value = threads
            self.entry.value = threads
        self.minus.disabled, self.plus.disabled = threads <= 1, threads >= self._max


class RateControl:
    """Tuples per second and source; there only where the run paces its input."""

    def __init__(self, target: Target, messages: Messages):
        self._target, self._messages = target, messages
        rate = self.rate
        self.is_there = rate is not None
        start = max(1.0, rate or 1.0)
        centre = math.log10(start)
        self.slider = w.FloatLogSlider(
            start, base=10, min=max(0.0, math.floor(centre - 1)), max=math.ceil(centre + 1.5), step=0.02, description="Rate",
            continuous_update=False, readout_format=",.0f", tooltip="Tuples per second and source (logarithmic)",
            layout=w.Layout(flex="1 1 220px", min_width="200px"),
        )  # fmt: skip
        self.entry = w.FloatText(
            start,
            continuous_update=False,
            tooltip="Type a rate in tuples per second",
            layout=w.Layout(width="100px"),
        )
        self.widget = w.HBox(
            [self.slider, self.entry, w.HTML("tuples/s")],
            layout=w.Layout(align_items="center", flex="1 1 380px"),
        )
        self.widget.add_class("headrace-rate")
        self._shown = _Shown()
        self._set_to: float | None = None
        """What the controls show; None: unknown, since the user has set something else."""
        moved = messages.guard(lambda change: self.request(change["new"]))
        for part in (self.slider, self.entry):
            part.observe(lambda change: None if self._shown.is_now else moved(change), "value")

    @property
    def rate(self) -> float | None:
        """The rate in force; None where the input is not paced."""
        rate = getattr(self._target.run, "rate", None)
        return float(rate) if isinstance(rate, (int, float)) else None

    def request(self, rate: float) -> None:
        """Pace the sources at this rate from now on."""
        rate = (
            float(f"{rate:.3g}") if rate == self.slider.value else rate
        )  # a slider's value has no meaning beyond
        self._messages.echo(f"run.rate = {rate:g}")
        try:
            self._target.run.rate = rate
        finally:
            self._set_to = None
            self.show(self.rate)

    def show(self, rate: float | None) -> None:
        """Show the rate in force."""
        if rate is None or rate == self._set_to:
            return
        self._set_to = rate
        with self._shown.now():
            exponent = math.log10(max(rate, 1e-3))
            self.slider.min, self.slider.max = min(self.slider.min, exponent), max(self.slider.max, exponent)
            self.slider.value = rate
            self.entry.value = rate
