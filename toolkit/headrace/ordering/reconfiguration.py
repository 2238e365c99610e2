"""Reconfiguring a pipeline: a configuration is written down and installed; each worker takes it when he chooses next."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.errors import ReconfigurationError
from headrace.kernel import compile_now
from headrace.memory.cells import read_cell
from headrace.ordering import words
from headrace.ordering.changes_kernel import install
from headrace.ordering.control import (
    SCHEDULES,
    SPARE_CONFIGURATIONS,
    Configuration,
    PipelineArrays,
    write_configuration,
)
from headrace.ordering.options import check_schedule
from headrace.ordering.words import MOST_BATCH
from headrace.runtime.options import whole
from headrace.runtime.sections import Capabilities, Completion, Control

_LOOK_S = 1e-3


class Reconfiguration:
    """What can be changed at a pipeline: a `headrace.runtime.sections.Steerable`.

    Parameters
    ----------
    control : PipelineArrays
        Configuration rows 0 to `planned` are in use already.
    max_threads : int
    initial : Configuration
        Row 0.
    planned : sequence of (row of the input, Configuration)
        Rows 1, 2, ...
    names : sequence of str
        Of the stages.
    schedules : sequence of str
        Which ones may be asked for.
    """

    is_completing = False

    def __init__(
        self,
        control: PipelineArrays,
        max_threads: int,
        initial: Configuration,
        planned: Sequence[tuple[int, Configuration]],
        names: Sequence[str],
        schedules: Sequence[str] = tuple(SCHEDULES),
    ):
        self.capabilities = Capabilities(
            {
                "threads": Control("count", "active workers", 1, max_threads),
                "schedule": Control("choice", "which stage a worker takes next", choices=tuple(schedules)),
                "batch": Control("count", "tuples that a worker claims at a time", 1, MOST_BATCH, scale="log"),
            },
            {"mapping": "no worker owns keys: whoever is free takes what is next"},
        )
        self.planned_left = len(planned)
        self._control, self._max_threads, self._planned, self._names = control, max_threads, planned, list(names)
        self._rows = {0: initial} | {row: each for row, (_, each) in enumerate(planned, start=1)}
        self._first_spare, self._spare, self._changes_seen = len(planned) + 1, 0, 0

    @property
    def current(self) -> Configuration:
        """The configuration in force."""
        return self._rows[int(read_cell(self._control.words, words.CONFIG))]

    def resolve(self, wish: Mapping[str, Any], newest: Configuration) -> Configuration:
        """Complete a wish against the newest configuration known."""
        given = {name: value for name, value in wish.items() if value is not None}
        if not given:
            raise ReconfigurationError("reconfigure(): give threads=, schedule= or batch=")
        threads = given.get("threads", newest.threads)
        if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= self._max_threads:
            raise ReconfigurationError(
                f"threads={threads!r}: give a whole number from 1 to max_threads={self._max_threads}; start the run with a"
                f" larger max_threads= to go beyond"
            )
        schedule = given.get("schedule", newest.schedule)
        if isinstance(schedule, Mapping):
            check_schedule(schedule, self._names, self._max_threads)
        elif "schedule" in given:
            self.capabilities["schedule"].check("schedule", schedule)
        return Configuration(threads, schedule, whole("batch", given.get("batch", newest.batch), 1, MOST_BATCH))

    def describe(self, configuration: Configuration) -> dict[str, Any]:
        """Control -> value."""
        return {
            "threads": configuration.threads,
            "members": tuple(range(configuration.threads)),
            "schedule": configuration.schedule,
            "batch": configuration.batch,
        }

    def effects(self, before: Configuration, after: Configuration) -> dict[str, int]:
        """Nothing moves: states stay where they are."""
        return {"transferred_bytes": 0, "transferred_ns": 0}

    def place(self, target: Configuration) -> int:
        """Let it be in force. Returns its row."""
        row = self._first_spare + self._spare % SPARE_CONFIGURATIONS
        self._spare += 1
        write_configuration(self._control, row, target, self._names)
        self._rows[row] = target
        install(self._control, row)
        return row

    def completed(self) -> Completion | None:
        """The next change nobody has taken note of."""
        control, change = self._control, self._changes_seen + 1
        if read_cell(control.words, words.CHANGE) < change:
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
            {"transferred_bytes": 0, "transferred_ns": 0},
        )

    def await_completion(self, timeout_ns: int) -> None:
        """Wait for a moment: requests are complete already, planned changes come with their row."""
        time.sleep(min(timeout_ns / 1e9, _LOOK_S))

    def compile(self) -> None:
        """Compile what Python calls while the stream runs."""
        compile_now(install, (self._control, 0))


__all__ = ["Reconfiguration"]
