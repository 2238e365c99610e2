"""The control of the synchronization plan, by how it is made; the tree in force has a panel of its own."""

from __future__ import annotations

from typing import Any

import ipywidgets as w

from headrace.changes import Control
from headrace_widgets.controls.setting import Setting
from headrace_widgets.messages import Messages
from headrace_widgets.target import Target

BY_HAND = "by hand"


class PlanControl(Setting):
    """A list of the ways to make a plan. A plan that somebody wrote is shown as "by hand", and cannot be requested."""

    def __init__(self, target: Target, name: str, control: Control, messages: Messages):
        super().__init__(target, name, messages)
        self._ways = tuple(control.choices)
        self.choice = w.Dropdown(
            description=name.capitalize(), tooltip=f"Make another plan: {control.title}", layout=w.Layout(width="240px")
        )
        self.put(self.now)
        self.widget.children = [self.choice]
        self.watch(self.choice)

    def put(self, value: Any) -> None:
        """Show the way in which a plan was made, or the way requested."""
        way = value if isinstance(value, str) else value.by
        if way not in self._ways:
            way = BY_HAND if way is None else way
        options = self._ways if way in self._ways else (*self._ways, way)
        with self._shown.now():
            if self.choice.options != options:
                self.choice.options = options
            self.choice.value = way

    def meant(self, part: w.ValueWidget, value: Any) -> Any:
        if value not in self._ways:
            raise ValueError(f"plan={value!r}: that plan was given by a call; choose one of {', '.join(self._ways)}")
        return value
