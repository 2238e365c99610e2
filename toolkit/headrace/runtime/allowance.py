"""A shared budget of rows for the inputs of an operator: an action due after so many rows happens then and not later."""

from __future__ import annotations

import threading


class Allowance:
    """A budget of rows that several inputs share; unlimited where no number is set.

    An input takes the rows that it is about to give out of the budget, and returns those there was no room for. A thread waits
    until the budget is used up, does what was due, and then allows more rows: to all inputs, or to those that hold the others up.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._left: int | None = None
        self._giving = 0
        self._only: frozenset[int] | None = None

    def begin(self, rows: int | None) -> None:
        """Allow this many rows from now on; None: any number."""
        with self._changed:
            self._left = rows
            self._changed.notify_all()

    def take(self, number: int, wanted: int, wait_s: float = 0.0) -> int:
        """Take rows for an input and return how many it may give now; if none, wait up to `wait_s` until it may give some."""
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
        """Note that the rows taken were given, except `back` rows, which are returned."""
        with self._changed:
            if self._left is not None:
                self._left += back
                self._giving -= 1
                if back or not self._left:
                    self._changed.notify_all()  # inputs that could give these rows, or the thread in `await_end`

    def add(self, rows: int) -> None:
        """Allow this many rows more."""
        with self._changed:
            if self._left is not None:
                self._left += rows
                self._changed.notify_all()

    def restrict(self, only: frozenset[int] | None) -> None:
        """Let only these inputs take rows; None: all of them."""
        if only != self._only:
            with self._changed:
                self._only = only
                self._changed.notify_all()

    @property
    def is_limited(self) -> bool:
        """Whether the budget has a limit."""
        return self._left is not None

    @property
    def is_restricted(self) -> bool:
        """Whether only some inputs may take rows."""
        return self._only is not None

    @property
    def is_used_up(self) -> bool:
        """Whether there is a limit and all rows within it were given."""
        with self._changed:
            return self._left == 0 and not self._giving

    def wake(self) -> None:
        """Wake the thread that waits in `await_end`, so that it looks again."""
        with self._changed:
            self._changed.notify_all()

    def await_end(self, seconds: float) -> None:
        """Wait until the budget is used up, `wake` is called, or the time is over."""
        with self._changed:
            if self._left != 0 or self._giving:
                self._changed.wait(seconds)


__all__ = ["Allowance"]
