"""Messages of the dashboard: refusals and errors, and the one-line equivalent of every click."""

from __future__ import annotations

import functools
import html
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import ipywidgets as w

from headrace.errors import RunStoppedError

MOST_LINES = 4
_KEPT = 1_000


def number(value: float) -> str:
    """Return a number as a person writes it, exactly: 700 for 700.0."""
    return repr(float(value)).removesuffix(".0")


class Messages:
    """A line for refusals and errors, and the last clicks as Python."""

    def __init__(self):
        self._lines: deque[str] = deque(maxlen=_KEPT)
        self.lock = threading.RLock()
        """Held by callbacks and by the refreshing thread: they change the same widgets."""
        self.problem = w.HTML()
        self.code = w.HTML()
        self.code.add_class("headrace-clicks")
        self._show_code()

    def refuse(self, text: str) -> None:
        """Show why something was not done."""
        self._show("warning", "Not done", text)

    def fail(self, text: str) -> None:
        """Show an error."""
        self._show("error", "Error", text)

    def clear(self) -> None:
        """Clear the line: the last action succeeded."""
        if self.problem.value:
            self.problem.value = ""

    def _show(self, kind: str, title: str, text: str) -> None:
        sign = {"warning": "▲", "error": "✖"}[kind]
        self.problem.value = (
            f'<div class="headrace-message headrace-{kind}" role="alert">'
            f"<b>{sign} {title}:</b> {html.escape(text)}</div>"
        )

    def echo(self, line: str, instead_of: str | None = None) -> None:
        """Show the line of Python that does the same as the click.

        It replaces the line `instead_of` if that is the last one: dragging shows the final value,
        not each step.
        """
        if self._lines and self._lines[-1] == instead_of:
            self._lines.pop()
        self._lines.append(line)
        self._show_code()

    @property
    def lines(self) -> tuple[str, ...]:
        """All lines so far, oldest first."""
        return tuple(self._lines)

    def _show_code(self) -> None:
        text = (
            "".join(f"<div>{html.escape(line)}</div>" for line in self.lines[-MOST_LINES:])
            or "<div># every click appears here as the line of Python that does the same</div>"
        )
        lines = f'<div class="headrace-lines" tabindex="0"><div>{text}</div></div>'  # the keyboard can scroll them, too
        self.code.value = f'<pre class="headrace-code" role="log" aria-label="Clicks as Python">{lines}</pre>'

    def guard(self, action: Callable[..., Any]) -> Callable[..., None]:
        """Wrap a callback so that its exceptions are shown: nothing else would report those of a widget's callback."""

        @functools.wraps(action)
        def guarded(*arguments: Any) -> None:
            try:
                with self.lock:
                    action(*arguments)
            except (ValueError, RunStoppedError) as error:  # the request cannot be met
                self.refuse(str(error))
            except Exception as error:
                self.fail(f"{type(error).__name__}: {error}")
            else:
                self.clear()

        return guarded
