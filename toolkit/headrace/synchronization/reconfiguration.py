"""Reconfiguring a program: threads move among leaves between events, without a join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.errors import ReconfigurationError
from headrace.runtime.at_once import AtOnce
from headrace.runtime.sections import Capabilities, Control
from headrace.synchronization.control import (
    SPARE_CONFIGURATIONS,
    Configuration,
    PlanArrays,
    write_configuration,
)


class Reconfiguration(AtOnce):
    """What can be changed at a program: a `headrace.runtime.sections.Steerable`.

    Parameters
    ----------
    control : PlanArrays
        Configuration rows 0 to `planned` are in use already.
    max_threads : int
    initial : Configuration
        Row 0.
    planned : sequence of (row of the input, Configuration)
        Rows 1, 2, ...
    """

    def __init__(
        self, control: PlanArrays, max_threads: int, initial: Configuration, planned: Sequence[tuple[int, Configuration]]
    ):
        self.capabilities = Capabilities(
            {"threads": Control("count", "workers that run leaves", 1, max_threads)},
            {"mapping": "which keys belong to which leaf is said by the plan"},
        )
        self._max_threads = max_threads

        def write(row: int, configuration: Configuration) -> None:
            write_configuration(control, row, configuration)

        super().__init__(control, initial, planned, write, SPARE_CONFIGURATIONS)

    def resolve(self, wish: Mapping[str, Any], newest: Configuration) -> Configuration:
        """Complete a wish against the newest configuration known."""
        threads = wish.get("threads")
        if threads is None:
            raise ReconfigurationError("reconfigure(): give threads=")
        if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= self._max_threads:
            raise ReconfigurationError(
                f"threads={threads!r}: give a whole number from 1 to max_threads={self._max_threads}; start the run with a"
                f" larger max_threads= to go beyond"
            )
        return Configuration(threads, newest.plan)

    def describe(self, configuration: Configuration) -> dict[str, Any]:
        """Control -> value."""
        return {"threads": configuration.threads, "members": tuple(range(configuration.threads))}


__all__ = ["Reconfiguration"]
