"""How many rows the inputs of an operator may give before something is to happen: so it happens after so many rows, not later."""

from __future__ import annotations

import threading


class Allowance:
    """A number of rows that several inputs share; without a number, any.

    An input takes from it the rows that it is about to give, and returns those there was no room for. The thread that waits for
    it to be used up does what is to happen, and allows more: to all inputs, or to some that hold the others up.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._left: int | None = None
        self._giving = 0
        self._only: frozenset[int] | None = None

    def begin(self, rows: int | None) -> None:
        """Allow so many from now on."""
        with self._changed:
            self._left = rows
            self._changed.notify_all()

    def take(self, number: int, wanted: int, wait_s: float = 0.0) -> int:
        """How many of them an input may give now; if none, wait a moment until it may give some."""
        with self._changed:
            if self._left is None:
                return wanted
            if wait_s and wanted and not self._left_for(number):
                self._changed.wait_for(lambda: self._left_for(number), wait_s)
            taken = min(wanted, self._left_for(number))
            self._left -= taken
            self._giving += 1
            return taken

    def _left_for(self, number: int) -> int:
        return (self._left or 0) if self._only is None or number in self._only else 0

    def given(self, back: int) -> None:
        """What was taken is given, but for some rows that come back."""
        with self._changed:
            if self._left is not None:
                self._left += back
                self._giving -= 1
                if back or not self._left:
                    self._changed.notify_all()  # inputs that could give them, or the thread that waits for the end

    def add(self, rows: int) -> None:
        """Allow so many more."""
        with self._changed:
            if self._left is not None:
                self._left += rows
                self._changed.notify_all()

    def restrict(self, only: frozenset[int] | None) -> None:
        """Only these inputs may take any; None: all may."""
        if only != self._only:
            with self._changed:
                self._only = only
                self._changed.notify_all()

    @property
    def is_limited(self) -> bool:
        """Whether there is a number at all."""
        return self._left is not None

    @property
    def is_restricted(self) -> bool:
        """Whether only some inputs may."""
        return self._only is not None

    @property
    def is_used_up(self) -> bool:
        """Whether all are given, if only so many may be."""
        with self._changed:
            return self._left == 0 and not self._giving

    def wake(self) -> None:
        """Have the thread that waits for its end look again."""
        with self._changed:
            self._changed.notify_all()

    def await_end(self, seconds: float) -> None:
        """Wait until it is used up, or somebody wakes, or it is time."""
        with self._changed:
            if self._left != 0 or self._giving:
                self._changed.wait(seconds)


__all__ = ["Allowance"]
