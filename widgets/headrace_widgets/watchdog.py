"""Handling a dashboard that nobody watches: drawing pauses, and in the end the run stops, so a closed tab uses no cores.

A page that shows the dashboard asks every few seconds whether the kernel responds (`connection`). Its questions may wait
while a cell runs, so silence counts only while the kernel is idle. On silence nothing is drawn
until a page asks again, which loses nothing, since the run keeps its history. Long silence stops the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from headrace_widgets import cells

REST_AFTER_S = 15.0
"""Drawing pauses after this time without a question from a page; a page asks every 4 s."""


class Watchdog:
    """Calls `on_silence` once when no page has asked for `after_s` seconds.

    It starts with the first question, so a notebook that runs without a browser is left alone. `after_s` may be
    changed at any time; None: never.
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
        """Return for how long no page has asked although one could have; 0 before the first question."""
        seen = self._seen_at()
        if self._busy or seen is None:
            return 0.0
        return time.monotonic() - max(seen, self._idle_since)

    @property
    def is_resting(self) -> bool:
        """Whether drawing pauses because no page shows the dashboard."""
        return self.silence_s > self.rest_after_s

    def check(self) -> None:
        """Check for silence; to be called now and then."""
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
