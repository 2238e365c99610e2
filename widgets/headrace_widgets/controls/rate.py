"""The control of the input's rate."""

from __future__ import annotations

import math
from typing import Any

import ipywidgets as w

from headrace_widgets.controls.shown import Shown
from headrace_widgets.messages import Messages, number
from headrace_widgets.target import Target


class RateControl:
    """How fast the input is played; shown only while the run paces its input.

    The value is tuples per second and source or, where the tuples' own event times are played
    (``hr.rates.recorded(speed=...)``), a multiple of the recorded speed. For times that were recorded separately
    (``hr.rates.recorded(times)``) the resulting rate is shown; a rate that is set here replaces them.
    """

    def __init__(self, target: Target, messages: Messages):
        self._target, self._messages = target, messages
        self.slider = w.FloatLogSlider(
            1.0, base=10, min=0.0, max=2.0, step=0.02, continuous_update=False,
            layout=w.Layout(flex="1 1 160px", min_width="160px", width="auto"),
        )  # fmt: skip
        self.entry = w.FloatText(1.0, continuous_update=False, layout=w.Layout(width="90px"))
        self.unit = w.HTML()
        self.widget = w.HBox([self.slider, self.entry, self.unit], layout=w.Layout(align_items="center"))
        self.widget.add_class("headrace-rate")
        self._shown = Shown()
        self._kind = ""
        self._set_to: tuple[str, float] | None = None
        """What the controls show; None: unknown, since the user has set something else."""
        self.show(self.playing)
        moved = messages.guard(lambda change: self.request(change["new"]))
        for part in (self.slider, self.entry):
            part.observe(lambda change: None if self._shown.is_now else moved(change), "value")

    @property
    def is_there(self) -> bool:
        """Whether the control is shown."""
        return self.widget.layout.display != "none"

    @property
    def playing(self) -> tuple[str, float] | None:
        """("rate", tuples per second) or ("speed", multiple of the recorded speed); None where the input is not paced."""
        rate = getattr(self._target.run, "rate", None)
        if isinstance(rate, (int, float)):
            return ("rate", float(rate)) if math.isfinite(rate) else None
        speed = getattr(self._target.schedule, "speed", None)
        return None if speed is None else ("speed", float(speed))

    def request(self, value: float) -> None:
        """Pace the sources at this rate or speed from now on."""
        if value == self.slider.value:
            value = float(f"{value:.3g}")  # further digits of a slider mean nothing
        is_speed = self._kind == "speed"
        wanted = f"hr.rates.recorded(speed={number(value)})" if is_speed else number(value)
        self._messages.echo(f"{self._target.rate_code} = {wanted}")
        try:
            self._target.run.rate = _recorded(value) if is_speed else value
        finally:
            self._set_to = None
            self.show(self.playing)

    def end(self) -> None:
        """The run is over: disable the control."""
        self.slider.disabled = self.entry.disabled = True

    def show(self, playing: tuple[str, float] | None) -> None:
        """Show the value in force; hide the control at full speed, where nothing is paced."""
        display = None if playing is not None else "none"
        if self.widget.layout.display != display:
            self.widget.layout.display = display
        if playing is None or playing == self._set_to:
            return
        self._set_to = playing
        kind, value = playing
        exponent = math.log10(max(value, 1e-3))
        with self._shown.now():
            if kind != self._kind:
                self._offer(kind, exponent)
            self.slider.min, self.slider.max = min(self.slider.min, exponent), max(self.slider.max, exponent)
            self.slider.value = value
            self.entry.value = float(f"{value:.6g}") if value < 1e6 else round(value)  # the field has room for no more

    def _offer(self, kind: str, exponent: float) -> None:
        """Label the numbers, and let the slider reach from a tenth to thirty times the present value."""
        self._kind = kind
        is_speed = kind == "speed"
        self.slider.description = "Speed" if is_speed else "Rate"
        self.slider.readout_format = ",.2f" if is_speed else ",.0f"
        meaning = "Times as fast as recorded" if is_speed else "Tuples per second and source"
        self.slider.tooltip = f"{meaning} (logarithmic)"
        self.entry.tooltip = (
            "Type how many times as fast as recorded" if is_speed else "Type a rate in tuples per second"
        )
        self.unit.value = "×&nbsp;recorded" if is_speed else "tuples/s"
        exponent = exponent if is_speed else max(0.0, exponent)
        if not is_speed and self._target.sources > 1:
            self.unit.value += " each"
        low, high = math.floor(exponent - 1), math.ceil(exponent + 1.5)
        low = low if is_speed else max(0, low)
        self.slider.max = max(self.slider.max, high)  # never below the other end on the way
        self.slider.min = low
        self.slider.max = high


def _recorded(speed: float) -> Any:
    from headrace import rates  # a public name of the engine's; only a run that is paced needs it

    return rates.recorded(speed=speed)
