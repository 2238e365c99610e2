"""The base of an operator's controls: one value, requested manually, and shown as it is in force."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import ipywidgets as w

from headrace_widgets.controls.shown import Shown
from headrace_widgets.messages import Messages
from headrace_widgets.target import Target


class Setting(ABC):
    """Requests a value and prints the line of Python that does the same.

    A refusal is shown, and the widgets return to the value in force. Subclasses make the widgets, tell `watch` which of
    them the user sets, and show a value with `put`.
    """

    def __init__(self, target: Target, name: str, messages: Messages):
        self._target, self._name, self._messages = target, name, messages
        self._shown = Shown()
        self._change: Any = None
        self._set_to: Any = None
        """What the widgets show; None: unknown, since the user has set something else."""
        self.widget = w.HBox(layout=w.Layout(align_items="center"))
        self.widget.add_class(f"headrace-{name}")
        self.is_over = False
        self._why = ""
        self.note = w.Label()
        """Why the control is disabled."""

    def watch(self, *parts: w.ValueWidget) -> None:
        """Request the values that the user sets in these widgets."""
        for part in parts:
            moved = self._messages.guard(lambda change, part=part: self._ask(part, change["new"]))
            part.observe(lambda change, moved=moved: None if self._shown.is_now else moved(change), "value")

    def _ask(self, part: w.ValueWidget, value: Any) -> None:
        self._set_to = None
        try:
            meant = self.meant(part, value)
        except ValueError:
            self.show(self.now)
            raise
        self.request(meant)

    def meant(self, part: w.ValueWidget, value: Any) -> Any:
        """Return the value to request when a widget is set to a value; raises ValueError if that is invalid."""
        return value

    def end(self) -> None:
        """The run is over: disable the control."""
        self.is_over = True
        for part in self.widget.children:
            part.disabled = True

    def explain(self, why: str) -> None:
        """Disable the control while it has no effect, with the reason beside it; enable it again without a reason."""
        if why == self._why or self.is_over:
            return
        self._why = self.note.value = why
        parts = [part for part in self.widget.children if part is not self.note]
        for part in parts:
            part.disabled = bool(why)
        self.widget.children = [*parts, self.note] if why else parts
        self._set_to = None  # so that `put` disables the parts that are at their bounds

    @abstractmethod
    def put(self, value: Any) -> None:
        """Show a value."""

    @property
    def now(self) -> Any:
        """The value in force."""
        return self._target.configuration[self._name]

    def request(self, value: Any) -> None:
        """Request a value."""
        self._messages.echo(f"{self._target.code}.reconfigure({self._name}={value!r})")
        self._set_to = None
        try:
            self._change = self._target.reconfigure(**{self._name: value})
        except Exception:
            self.show(self.now)
            raise
        self._set(value)

    def show(self, value: Any) -> None:
        """Show the value in force, unless a request is under way."""
        if self._change is None or self._change.is_settled:
            self._set(value)

    def _set(self, value: Any) -> None:
        if value == self._set_to or self.is_over:
            return  # traits are expensive to read and set, and this runs at every update
        self._set_to = value
        with self._shown.now():
            self.put(value)
