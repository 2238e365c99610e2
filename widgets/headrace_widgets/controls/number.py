"""The control of a number between bounds."""

from __future__ import annotations

import math

import ipywidgets as w

from headrace.changes import Control
from headrace_widgets.controls.count import whole
from headrace_widgets.controls.setting import Setting
from headrace_widgets.messages import Messages
from headrace_widgets.target import Target

WIDE = 100
"""Where the maximum is at least so many times the minimum, the slider is logarithmic."""


class NumberControl(Setting):
    """Slider and text entry; for whole numbers if the bounds and the present value are whole."""

    def __init__(self, target: Target, name: str, control: Control, messages: Messages):
        super().__init__(target, name, messages)
        least, most, now = control.least, control.most, self.now
        self._is_whole = all(isinstance(value, int) for value in (least, most, now))
        is_wide = control.scale == "log" or 0 < WIDE * least <= most
        look = {
            "description": name.capitalize(), "continuous_update": False,
            "tooltip": f"{control.title.capitalize()}, {least:,} to {most:,}{' (logarithmic)' * is_wide}",
            "layout": w.Layout(flex="1 1 160px", min_width="160px", width="auto"),
        }  # fmt: skip
        if is_wide:
            self.slider = w.FloatLogSlider(
                now, base=10, min=math.log10(least), max=math.log10(most), step=0.01,
                readout_format=",.0f" if self._is_whole else ".3g", **look,
            )  # fmt: skip
        elif self._is_whole:
            self.slider = w.IntSlider(now, least, most, **look)
        else:
            self.slider = w.FloatSlider(now, min=least, max=most, step=(most - least) / 100, **look)
        self.entry = w.FloatText(
            now, continuous_update=False, tooltip="Type a whole number" if self._is_whole else "Type a number",
            layout=w.Layout(width="90px"),
        )  # fmt: skip
        self.widget.children = [self.slider, self.entry]
        self.watch(self.slider, self.entry)

    def meant(self, part: w.ValueWidget, value: float) -> float:
        if part is self.slider:
            value = float(f"{value:.3g}")  # further digits mean nothing
            return round(value) if self._is_whole else value
        return whole(self._name, value) if self._is_whole else value

    def put(self, value: float) -> None:
        self.slider.value = value
        self.entry.value = value
