"""The threads of a run: started, waited for, and accounted for until each has ended.

A thread itself reports that it is done. `Thread.join` is not used: in CPython
3.11 a Ctrl-C during `join(timeout)` marks a thread that still runs as stopped.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_MOMENT_S = 0.1


def _clock_of(thread: int) -> int:
    """Return the clock of a thread's processor time, given its number in the kernel, as pthread_getcpuclockid does. For a
    thread that has ended, reading this clock is an error, where that function crashes."""
    return (~thread << 3) | 6  # CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED


class WorkerPool:
    """Daemon threads with names, each with a done event of its own.

    Parameters
    ----------
    on_error : callable
        Called with the exception of a body, on its thread.
    on_end : callable
        Called by each thread once it counts as ended.
    """

    def __init__(self, on_error: Callable[[BaseException], None], on_end: Callable[[], None] = lambda: None):
        self._on_error, self._on_end = on_error, on_end
        self._done: dict[str, threading.Event] = {}
        self._ids: dict[str, int] = {}
        self._used_ns: dict[str, int] = {}

    def start(self, name: str, body: Callable[[], None]) -> None:
        """Run `body` on a new thread; an exception goes to `on_error`."""
        done = threading.Event()

        def run():
            self._ids[name] = threading.get_native_id()
            try:
                body()
            except BaseException as error:  # reported to the run, whatever it is
                self._on_error(error)
            finally:
                self._used_ns[name] = time.thread_time_ns()
                done.set()
                self._on_end()

        thread = threading.Thread(target=run, name=f"headrace-{name}", daemon=True)
        self._done[name] = done
        try:
            thread.start()
        except RuntimeError:  # the system grants no more threads: `wait` must not wait for this one
            del self._done[name]
            raise

    def cpu_ns(self) -> dict[str, int]:
        """Nanoseconds of processor time that each thread has used, by name; a thread that has yet to begin is left out."""
        found = {}
        for name, number in list(self._ids.items()):
            try:
                used_ns = time.clock_gettime_ns(_clock_of(number))
            except OSError:  # it has ended
                used_ns = 0
            found[name] = self._used_ns.get(name, used_ns)
        return found

    def runnable_ns(self, names: Sequence[str]) -> tuple[int, ...] | None:
        """Nanoseconds in which each of these threads had a core or waited for one; the rest of the time it slept.

        None where the system does not report it (only Linux does), or a thread has not begun or has ended.
        """
        try:
            texts = [Path(f"/proc/self/task/{self._ids[name]}/schedstat").read_text() for name in names]
            return tuple(int(ran) + int(waited) for ran, waited, _ in map(str.split, texts))
        except (KeyError, OSError, ValueError):
            return None

    def mine(self) -> str:
        """Name of the calling thread, if it is one of these; else ""."""
        number = threading.get_native_id()
        return next((name for name in self.alive if self._ids.get(name) == number), "")

    @property
    def alive(self) -> list[str]:
        """Names of the threads that have not ended."""
        return [name for name, done in list(self._done.items()) if not done.is_set()]

    def wait(self, seconds: float, hardly: Callable[[str], bool] = lambda name: False) -> list[str]:
        """Wait until all threads have ended, at most for about `seconds`. Returns the names of those that have not.

        Threads for whose name `hardly` is true may be in user code that
        nothing can interrupt, so they are given only a moment. Moments of waiting
        count, not the clock: while the whole process is suspended no thread can end.
        """
        left = math.ceil(seconds / _MOMENT_S)
        for name in sorted(self._done, key=hardly):
            if hardly(name):
                left = min(left, 1)
            while not self._done[name].wait(_MOMENT_S if left else 0.0) and left:
                left -= 1
        return self.alive
