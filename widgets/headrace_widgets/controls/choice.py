"""The control of a choice: one of several values."""

from __future__ import annotations

import ipywidgets as w

from headrace.changes import Control
from headrace_widgets.controls.setting import Setting
from headrace_widgets.messages import Messages
from headrace_widgets.target import Target


class ChoiceControl(Setting):
    """A list to choose from."""

    def __init__(self, target: Target, name: str, control: Control, messages: Messages):
        super().__init__(target, name, messages)
        self.choice = w.Dropdown(
            options=control.choices, value=self.now, description=name.capitalize(),
            tooltip=control.title.capitalize(), layout=w.Layout(width="240px"),
        )  # fmt: skip
        self.widget.children = [self.choice]
        self.watch(self.choice)

    def put(self, value: str) -> None:
        self.choice.value = value
