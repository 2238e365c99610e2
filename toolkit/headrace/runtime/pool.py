"""The threads of a run: started together, told to stop, never lost sight of.

A worker says itself that it is done. `Thread.join` is not asked: in CPython
3.11 a Ctrl-C during `join(timeout)` marks a thread that still runs as stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_MOMENT_S = 0.1


class WorkerPool:
    """Daemon threads with names, each with a done event of its own."""

    def __init__(self, on_error: Callable[[BaseException], None]):
        self._on_error = on_error
        self._done: dict[str, threading.Event] = {}

    def start(self, name: str, body: Callable[[], None]) -> None:
        """Run `body` on a new thread; an exception goes to `on_error`."""
        done = threading.Event()
        self._done[name] = done

        def run():
            try:
                body()
            except BaseException as error:  # reported to the run, whatever it is
                self._on_error(error)
            finally:
                done.set()

        threading.Thread(target=run, name=f"headrace-{name}", daemon=True).start()

    @property
    def alive(self) -> list[str]:
        """Names of the threads that have not ended."""
        return [name for name, done in self._done.items() if not done.is_set()]

    def wait(self, seconds: float, hardly: Callable[[str], bool] = lambda name: False) -> list[str]:
        """Wait until all have ended, at most that long. Returns who has not.

        Threads whose name `hardly` says yes to may sit in code of the user's
        that nothing can interrupt: they are given a moment only.
        """
        end = time.monotonic() + seconds
        names = sorted(self._done, key=hardly)
        for name in names:
            if hardly(name):
                end = min(end, time.monotonic() + _MOMENT_S)
            self._done[name].wait(max(0.0, end - time.monotonic()))
        return self.alive
