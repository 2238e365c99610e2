"""Configurations as workers read them, as rows of tables of which one is in force, and the log of changes between rows.

Row 0 is in force at the start; the planned configurations follow, then spare rows that requests use in turn. Workers count
the changes and record for each the rows before and after it, when it began, and when the last worker acknowledged it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.memory.cells import padded_cells, read_cell
from headrace.progress import NEVER
from headrace.runtime.steerable import Completion
from headrace.workers.worker_kernel import AFTER, BEFORE

SPARE_CONFIGURATIONS = 8
"""Rows for configurations that were not planned, used in turn; at most one is in flight and one pending."""
CHANGES_KEPT = 256
"""Changes, besides the planned ones, that are kept until `completed` returns them."""


def change_arrays(planned: int, *, columns: int = 2, are_cells: bool = False) -> dict[str, np.ndarray]:
    """Allocate the arrays in which workers record changes, by name, with nothing planned.

    Parameters
    ----------
    planned : int
        Number of planned changes.
    columns : int
        Of ``installed``: BEFORE and AFTER, and SEEN_AT where an engine has it.
    are_cells : bool
        Whether each entry of ``done_at`` is a cell.

    Returns
    -------
    plan_at : int64[planned + 1]
        The rows of the input before which configurations 1, 2, ... come into force, in ascending order, then NEVER. All are
        NEVER until the engine's `plan_configuration` fills them.
    met_at : int64[changes]
        When each change began; the newest changes are kept, in a ring.
    done_at : int64[changes], or as many cells
        When the last worker acknowledged it.
    installed : int64[changes, columns]
        The configurations before and after it.
    """
    changes = CHANGES_KEPT + planned  # all planned changes may be over before `completed` returns the first
    return {
        "plan_at": np.full(planned + 1, NEVER),
        "met_at": np.zeros(changes, np.int64),
        "done_at": padded_cells(changes) if are_cells else np.zeros(changes, np.int64),
        "installed": np.zeros((changes, columns), np.int64),
    }


class ConfigurationRows(ABC):
    """Which configuration each row holds, and which changes were reported: part of a `headrace.runtime.steerable.Steerable`.

    Parameters
    ----------
    arrays : bundle
        Of the engine, with the fields ``words``, ``met_at``, ``done_at``, ``installed``. Rows 0 to ``len(planned)`` are
        in use already.
    in_force : int
        Cell of ``words`` that holds the row in force.
    changes : int
        Cell of ``words`` that counts the changes.
    apart : int
        Words from one entry of ``done_at`` to the next.
    initial : configuration
        Row 0.
    planned : sequence of (row of the input, configuration)
        Rows 1, 2, ...
    """

    def __init__(
        self, arrays: Any, in_force: int, changes: int, apart: int, initial: Any, planned: Sequence[tuple[int, Any]]
    ):
        self.planned_left = len(planned)
        self._arrays, self._in_force, self._changes, self._apart = arrays, in_force, changes, apart
        self._planned = planned
        self._rows = {0: initial} | {row: each for row, (_, each) in enumerate(planned, start=1)}
        self._first_spare, self._spare, self._changes_seen = len(planned) + 1, 0, 0

    @property
    def current(self) -> Any:
        """The configuration in force."""
        return self._rows[int(read_cell(self._arrays.words, self._in_force))]

    @abstractmethod
    def _write(self, row: int, configuration: Any) -> None:
        """Fill a row of the tables that workers read."""

    def _put(self, target: Any) -> int:
        """Write a configuration into a spare row; returns the row."""
        row = self._first_spare + self._spare % SPARE_CONFIGURATIONS
        self._spare += 1
        self._write(row, target)
        self._rows[row] = target
        return row

    def completed(self) -> Completion | None:
        """The next change that every worker concerned has acknowledged and that was not returned before."""
        arrays, change = self._arrays, self._changes_seen + 1
        if read_cell(arrays.words, self._changes) < change:
            return None
        at = change % arrays.met_at.size
        done = int(read_cell(arrays.done_at, at * self._apart))
        if done == 0:
            return None
        self._changes_seen = change
        before, after = (int(arrays.installed[at, column]) for column in (BEFORE, AFTER))
        is_planned = 0 < after < self._first_spare
        if is_planned:
            self.planned_left -= 1
        return Completion(
            None if is_planned else after,
            self._rows[before],
            self._rows[after],
            int(arrays.met_at[at]),
            done,
            change,
            self._planned[after - 1][0] if is_planned else None,
            self._moved_at(change),
            self._position_of(at),
        )

    def _moved_at(self, change: int) -> dict[str, int]:
        """How much state was moved at a change: none where workers share it."""
        return {"transferred_bytes": 0, "transferred_ns": 0}

    def _position_of(self, at: int) -> int | None:
        """Rows of the input before the change in place `at` of the log; None if the engine does not count them."""
        return None

    @property
    def is_completing(self) -> bool:
        """Whether a change is in force that some worker has yet to acknowledge, or that `completed` has yet to return."""
        return read_cell(self._arrays.words, self._changes) > self._changes_seen


__all__ = ["CHANGES_KEPT", "SPARE_CONFIGURATIONS", "ConfigurationRows", "change_arrays"]
