"""Reconfiguring an engine whose workers ask before everything they do: a configuration is in force once it is installed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from headrace.kernel import compile_now
from headrace.memory.cells import read_cell
from headrace.runtime.sections import Completion
from headrace.workers.changes_kernel import CHANGE, CONFIG, install

_LOOK_S = 1e-3
_NOTHING = {"transferred_bytes": 0, "transferred_ns": 0}


class AtOnce:
    """What such engines have of a `headrace.runtime.sections.Steerable`; each says itself what may be wished.

    Parameters
    ----------
    control : bundle
        With the fields that `headrace.workers.changes_kernel` names. Rows 0 to `planned` are in use already.
    initial : configuration
        Row 0.
    planned : sequence of (row of the input, configuration)
        Rows 1, 2, ...
    write : callable
        ``write(row, configuration)`` fills a row of the tables that workers read.
    spare : int
        Rows for requests, behind the planned ones.
    """

    is_completing = False

    def __init__(
        self, control: Any, initial: Any, planned: Sequence[tuple[int, Any]], write: Callable[[int, Any], None], spare: int
    ):
        self.planned_left = len(planned)
        self._control, self._planned, self._write = control, planned, write
        self._rows = {0: initial} | {row: each for row, (_, each) in enumerate(planned, start=1)}
        self._first_spare, self._spares, self._spare, self._changes_seen = len(planned) + 1, spare, 0, 0

    @property
    def current(self) -> Any:
        """The configuration in force."""
        return self._rows[int(read_cell(self._control.words, CONFIG))]

    def effects(self, before: Any, after: Any) -> dict[str, int]:
        """Nothing moves: states stay where they are."""
        return dict(_NOTHING)

    def place(self, target: Any) -> int | None:
        """Let it be in force. Returns its row."""
        row = self._first_spare + self._spare % self._spares
        self._spare += 1
        self._write(row, target)
        self._rows[row] = target
        install(self._control, row)
        return row

    def completed(self) -> Completion | None:
        """The next change nobody has taken note of."""
        control, change = self._control, self._changes_seen + 1
        if read_cell(control.words, CHANGE) < change:
            return None
        self._changes_seen = change
        at = change % control.met_at.size
        before, after = (int(row) for row in control.installed[at])
        is_planned = 0 < after < self._first_spare
        if is_planned:
            self.planned_left -= 1
        return Completion(
            None if is_planned else after,
            self._rows[before],
            self._rows[after],
            int(read_cell(control.met_at, at)),
            int(read_cell(control.done_at, at)),
            change,
            self._planned[after - 1][0] if is_planned else None,
            dict(_NOTHING),
        )

    def await_completion(self, timeout_ns: int) -> None:
        """Wait for a moment: requests are complete already, planned changes come with their row."""
        time.sleep(min(timeout_ns / 1e9, _LOOK_S))

    def compile(self) -> None:
        """Compile what Python calls while the stream runs."""
        compile_now(install, (self._control, 0))


__all__ = ["AtOnce"]
