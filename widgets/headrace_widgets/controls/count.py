"""The control of a count, a whole number such as that of the threads."""

from __future__ import annotations

import ipywidgets as w

from headrace.changes import Control
from headrace_widgets.controls.setting import Setting
from headrace_widgets.messages import Messages
from headrace_widgets.target import Target


def whole(name: str, value: float) -> int:
    """Return a typed number where only whole numbers are valid."""
    if not float(value).is_integer():
        raise ValueError(f"{name}={value}: give a whole number")
    return int(value)


class CountControl(Setting):
    """Slider, text entry, minus and plus."""

    def __init__(self, target: Target, name: str, control: Control, messages: Messages):
        super().__init__(target, name, messages)
        self._least, self._most = int(control.least), int(control.most)
        self._wanted = now = self.now
        self.minus = w.Button(description="−", tooltip="One less", layout=w.Layout(width="40px"))
        self.slider = w.IntSlider(
            now, self._least, self._most, description=name.capitalize(), continuous_update=False,
            tooltip=f"{control.title.capitalize()}, {self._least} to {self._most}",
            layout=w.Layout(flex="1 1 160px", min_width="160px", width="auto"),
        )  # fmt: skip
        self.plus = w.Button(description="+", tooltip="One more", layout=w.Layout(width="40px"))
        # Not an IntText, which makes 25 of 2.5.
        self.entry = w.FloatText(
            now, step=1, continuous_update=False, tooltip="Type a whole number", layout=w.Layout(width="70px")
        )
        self.widget.children = [self.minus, self.slider, self.plus, self.entry]
        self.minus.on_click(messages.guard(lambda _: self.request(self._wanted - 1)))
        self.plus.on_click(messages.guard(lambda _: self.request(self._wanted + 1)))
        self.watch(self.slider, self.entry)

    def meant(self, part: w.ValueWidget, value: float) -> int:
        return whole(self._name, value)

    def put(self, value: int) -> None:
        self._wanted = value
        self.slider.value = value
        self.entry.value = value
        self.minus.disabled, self.plus.disabled = value <= self._least, value >= self._most
