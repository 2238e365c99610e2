"""Where an input goes in to give rows: one at a time, and nobody while it is closed.

A lock alone would do, but not soon: a thread that gives rows takes it again at once, and the one that waits for it to change
the plan is seldom the next. So that one closes the entrances first, wakes the threads that sleep inside for room (CLOSED, of
`mailbox_kernel`), and then takes the locks.
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
        """From now on nobody goes in; somebody may still be inside."""
        self._open.clear()

    def open(self) -> None:
        """Let them in again."""
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
