"""Nobody looks any more: rest, and in the end stop the run, so that a closed tab does not keep cores busy.

A page that shows the dashboard asks every few seconds whether the kernel listens (`connection`). Its questions may wait
while a cell runs, so silence counts only while the kernel has nothing to do. Silence is first answered by drawing nothing,
until a page asks again: that loses nothing, since the run keeps its history. Long silence stops the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from headrace_widgets import cells

REST_AFTER_S = 15.0
"""A page asks every 4 s."""


class Watchdog:
    """Calls `on_silence` once when no page has asked for `after_s` seconds.

    It begins with the first question: a notebook that runs without a browser is left alone. `after_s` may be set
    anew at any time; None is never.
    """

    def __init__(
        self, after_s: float | None, seen_at: Callable[[], float | None], on_silence: Callable[[], None]
    ):
        if after_s is not None and not after_s > 0:
            raise ValueError(f"stop_unwatched_after={after_s!r}: give seconds above 0, or None for never")
        self.after_s, self._seen_at, self._on_silence = after_s, seen_at, on_silence
        self.rest_after_s = REST_AFTER_S
        self._idle_since = time.monotonic()
        self._busy = False
        self._is_done = False
        self._shell: Any = None

    def watch_cells(self) -> None:
        """Learn from IPython when a cell runs; does nothing elsewhere."""
        self._shell = cells.shell()
        if self._shell is not None:
            self._shell.events.register("pre_run_cell", self._begin)
            self._shell.events.register("post_run_cell", self._end)
            self._busy = True  # the cell that makes the dashboard

    def _begin(self, *_: Any) -> None:
        self._busy = True

    def _end(self, *_: Any) -> None:
        self._busy, self._idle_since = False, time.monotonic()

    @property
    def silence_s(self) -> float:
        """For how long no page has asked although one could have; 0 before the first question."""
        seen = self._seen_at()
        if self._busy or seen is None:
            return 0.0
        return time.monotonic() - max(seen, self._idle_since)

    @property
    def is_resting(self) -> bool:
        """Whether there is nobody to draw for."""
        return self.silence_s > self.rest_after_s

    def check(self) -> None:
        """To be called now and then."""
        if self._is_done or self.after_s is None:
            return
        if self.silence_s > self.after_s:
            self._is_done = True
            self._on_silence()

    def close(self) -> None:
        """Stop watching."""
        self._is_done = True
        if self._shell is not None:
            self._shell.events.unregister("pre_run_cell", self._begin)
            self._shell.events.unregister("post_run_cell", self._end)
            self._shell = None
