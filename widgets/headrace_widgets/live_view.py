"""The life of every view of runs: a thread that updates it, a cell that shows it, and its end."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

import ipywidgets as w

from headrace_widgets import cells
from headrace_widgets.connection import Connection
from headrace_widgets.messages import Messages
from headrace_widgets.watchdog import Watchdog

_LOST = """\
<style>
.headrace-lost {{ visibility: hidden; animation: headrace-lost 0s 6s forwards; }}
@keyframes headrace-lost {{ to {{ visibility: visible; }} }}
.jp-OutputArea:has(.headrace-dashboard) .headrace-lost {{ display: none; }}
</style>
<p class="headrace-lost"><b>No dashboard here?</b> A page that was loaded again asks the kernel for it, and waits while a cell
runs. If it does not come, <code>{called}</code> in a new cell shows it; if the kernel was restarted, run the notebook's cells
again.</p>
"""
"""Stands below the view in the cell's output, and shows if the view is missing: the page keeps it without the kernel."""


class Page(w.VBox):
    """The whole of a view. Without a kernel to draw it, as in a notebook on the web, a sentence is shown instead."""

    def __repr__(self):
        return "A dashboard of headrace, live where its notebook runs: run the notebook's cells to see it."


class LiveView(ABC):
    """A view that updates itself and is shown where it is made; when its cell is run again, it is replaced.

    A subclass makes the attributes below, defines `update`, and calls `_begin` when everything is made.

    Attributes
    ----------
    widget : Page
    messages : Messages
    connection : Connection
    watchdog : Watchdog
    """

    called = "dashboard"
    """The variable that notebooks assign it to."""

    widget: Page
    messages: Messages
    connection: Connection
    watchdog: Watchdog
    _refresh_s: float

    @abstractmethod
    def update(self) -> None:
        """Show the present state; the view's own thread calls this."""

    def _begin(self, thread: str) -> None:
        """Start updating, in a thread of this name, and show the view."""
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._refresh, name=thread, daemon=True)
        cells.take_over(self)
        self.update()
        self._thread.start()
        self._shown_in = cells.execution()
        if self._shown_in is not None:
            self._display()

    def _refresh(self) -> None:
        while not self._closed.wait(self._refresh_s):
            try:
                if not self.watchdog.is_resting:
                    self.connection.pulse()
                    self.update()
                self.watchdog.check()
            except Exception as error:  # nothing else reports an exception of this thread
                if not self._closed.is_set():
                    self.messages.fail(f"while updating the view: {type(error).__name__}: {error}")

    def close(self) -> None:
        """Stop updating and remove the widgets; the runs that it shows go on."""
        self._closed.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(2.0)
        self.watchdog.close()
        cells.forget(self)
        self.widget.close()

    def _display(self) -> None:
        from IPython.display import HTML, display

        display(self.widget)
        display(HTML(_LOST.format(called=self.called)))

    def _ipython_display_(self) -> None:
        # As the last expression of the cell that made it, it is displayed already.
        if self._shown_in is None or self._shown_in != cells.execution():
            self._display()
