"""Reconfiguring a pipeline: a configuration is written down and installed; each worker takes it when it next chooses a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.arguments import whole
from headrace.changes import Capabilities, Control
from headrace.errors import ReconfigurationError
from headrace.ordering.arrays import PipelineArrays
from headrace.ordering.configuration import SCHEDULES, Configuration, write_configuration
from headrace.ordering.options import check_schedule
from headrace.ordering.words import MOST_BATCH
from headrace.runtime.at_once import AtOnce
from headrace.runtime.steerable import checked_threads


class Reconfiguration(AtOnce):
    """What can be changed at a pipeline: a `headrace.runtime.steerable.Steerable`.

    Parameters
    ----------
    arrays : PipelineArrays
        Configuration rows 0 to `planned` are in use already.
    max_threads : int
    initial : Configuration
        Row 0.
    planned : sequence of (row of the input, Configuration)
        Rows 1, 2, ...
    names : sequence of str
        Of the stages.
    schedules : sequence of str
        Which ones may be requested.
    """

    def __init__(
        self,
        arrays: PipelineArrays,
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
            {"mapping": "no worker owns keys: any free worker takes the next tuples"},
        )
        self._max_threads, self._names = max_threads, list(names)
        super().__init__(arrays, initial, planned)

    def _write(self, row: int, configuration: Configuration) -> None:
        write_configuration(self._arrays, row, configuration, self._names)

    def resolve(self, requested: Mapping[str, Any], newest: Configuration) -> Configuration:
        """Complete a request from the newest configuration known."""
        given = {name: value for name, value in requested.items() if value is not None}
        if not given:
            raise ReconfigurationError("reconfigure(): give threads=, schedule= or batch=")
        threads = checked_threads(given.get("threads", newest.threads), self._max_threads)
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


__all__ = ["Reconfiguration"]
