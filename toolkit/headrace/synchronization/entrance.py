"""The entrance of an input: a lock held while rows are given, which can be closed to keep all threads out.

A lock alone would be correct, but slow to get: a thread that gives rows takes it again at once, so the thread that waits to
change the plan is seldom next. That thread therefore closes the entrances first, wakes the threads that sleep inside for room
(CLOSED, of `mailbox_kernel`), and then takes the locks.
"""

from __future__ import annotations

import threading


class Entrance:
    """A lock with a door in front, which is open at first.

    Examples
    --------
    >>> entrance = Entrance()
    >>> with entrance:
    ...     entrance.lock.locked()
    True
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        """Taken by the thread that closed the entrance, which is alone inside while it holds it."""
        self._open = threading.Event()
        self._open.set()

    def close(self) -> None:
        """Let no thread in from now on; one may still be inside."""
        self._open.clear()

    def open(self) -> None:
        """Let threads in again."""
        self._open.set()

    def __enter__(self) -> None:
        while True:
            self._open.wait()
            self.lock.acquire()
            if self._open.is_set():
                return
            self.lock.release()  # it was closed meanwhile

    def __exit__(self, *exception: object) -> None:
        self.lock.release()


__all__ = ["Entrance"]
