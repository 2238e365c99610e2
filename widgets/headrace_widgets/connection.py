"""Checking whether the kernel responds: the page asks, and shows a message where no answer comes.

The page's questions take the same path as clicks. Where a click has to wait, so does a question: while a cell runs, if
Jupyter has no second channel into the kernel (a subshell), and while an earlier click is handled. The pulse, which the
view's own thread sends, arrives all the same. So the page can distinguish three cases:

    the question was answered                   nothing to report
    it was not, and the pulse goes on           the kernel is busy: clicks wait
    it was not, and nothing comes at all        the kernel was stopped or restarted, or cannot be reached

The page counts ticks of its own timer and reads no clock: a page in the background, or one that drew for seconds, could not
receive anything, and its timer stood still as well.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import traitlets as t

from headrace_widgets.page_model import ModuleView, PageModel, module

PULSE_S = 2.0


class ConnectionView(ModuleView):
    """Says it on the page."""

    _esm = module("connection.js")


class Connection(PageModel):
    """Shows nothing as long as the kernel answers.

    Parameters
    ----------
    called : str
        The notebook variable that holds the view, which shows it again.

    Attributes
    ----------
    seen_at : float or None
        Monotonic time at which a page last asked; None if none has.
    """

    _view = ConnectionView

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
        """Send a sign of life if none was sent recently; the view's thread calls this."""
        now = time.monotonic()
        if self._pulse_at is None or now - self._pulse_at >= PULSE_S:
            self._pulse_at = now
            self.send({"kind": "pulse"})
