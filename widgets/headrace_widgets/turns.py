"""Updating the parts that are read rather than watched, in turns.

Each part sends a message of its own, which is half of the cost of an update, so their turns are spread over a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.metrics.snapshot import Metrics

SELDOM_S = 1.0
"""Time between two updates of a part: each text makes the browser lay out the page again."""

Part = Callable[[Metrics, list[Any]], None]
"""Shows something of a snapshot and of the changes so far."""


class Turns:
    """Shows all parts at first and when the run's state changes; otherwise each in its turn.

    Parameters
    ----------
    parts : sequence of Part
    every_s : float
        Time between two calls of `show`.
    """

    def __init__(self, parts: Sequence[Part], every_s: float):
        self._parts = list(parts)
        self._count = max(1, round(SELDOM_S / every_s))
        self._turn: int | None = None
        self._state = ""

    def show(self, metrics: Metrics, changes: list[Any]) -> None:
        """Show the parts whose turn it is."""
        all_of_them = self._turn is None or metrics.state != self._state
        self._state = metrics.state
        self._turn = 0 if self._turn is None else (self._turn + 1) % self._count
        for i, part in enumerate(self._parts):
            if all_of_them or i * self._count // len(self._parts) == self._turn:
                part(metrics, changes)
