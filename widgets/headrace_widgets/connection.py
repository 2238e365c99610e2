"""Whether the kernel listens: asked by the page, and said on the page where no answer comes.

The page's questions travel as clicks do. Where a click has to wait, so does a question: while a cell runs, if Jupyter has
no second way into the kernel (a subshell); while an earlier click is at work. What the view's own thread sends, the pulse,
comes all the same. So the page can tell three cases apart:

    the question was answered                   nothing to say
    it was not, and the pulse goes on           the kernel is busy: what is clicked waits
    it was not, and nothing comes at all        the kernel was stopped or restarted, or cannot be reached

The page counts turns of its own timer and reads no clock: a page in the background, or one that drew for seconds, was not
able to receive, and its timer stood still as well.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets as t

PULSE_S = 2.0


class Connection(anywidget.AnyWidget):
    """Shows nothing as long as the kernel answers.

    Parameters
    ----------
    called : str
        The variable that the view is called by in a notebook: what brings it back.

    Attributes
    ----------
    seen_at : float or None
        Monotonic time at which a page last asked; None if none has.
    """

    _esm = Path(__file__).with_suffix(".js")

    called = t.Unicode().tag(sync=True)

    def __init__(self, called: str):
        super().__init__(called=called)
        self.seen_at: float | None = None
        self._pulse_at: float | None = None
        self.on_msg(self._receive)

    def _receive(self, _widget: Any, message: dict, _buffers: Sequence[bytes]) -> None:
        if message.get("kind") == "ask":
            self.seen_at = time.monotonic()
            self.send({"kind": "answer"})

    def pulse(self) -> None:
        """Say that the kernel is there, if that was not said lately; the view's thread calls this."""
        now = time.monotonic()
        if self._pulse_at is None or now - self._pulse_at >= PULSE_S:
            self._pulse_at = now
            self.send({"kind": "pulse"})
