"""Reconfiguring a program: threads move among leaves between events; another plan needs a join of everything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
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
from headrace.synchronization.options import PLANS
from headrace.synchronization.plans import Plan

WAYS = (*PLANS, "rates", "latency")
"""To make a plan while a program runs: those of `start`, and by the rates and costs measured lately."""


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
    read_plan : callable
        Returns the plan that is asked for, by itself, as JSON or by the way to make it; else raises `ParameterError`.
    replan : callable
        Lets a plan be in force; False if it has to be asked again.
    """

    def __init__(
        self,
        control: PlanArrays,
        max_threads: int,
        initial: Configuration,
        planned: Sequence[tuple[int, Configuration]],
        read_plan: Callable[[Any], Plan],
        replan: Callable[[Plan], bool],
    ):
        self.capabilities = Capabilities(
            {
                "threads": Control("count", "workers that run leaves", 1, max_threads),
                "plan": Control("plan", "who processes which tags, and who joins whom", choices=WAYS),
            },
            {"mapping": "which keys belong to which leaf is said by the plan"},
        )
        self._max_threads, self._read_plan, self._replan = max_threads, read_plan, replan
        self._plan = initial.plan
        self._seen = initial

        def write(row: int, configuration: Configuration) -> None:
            write_configuration(control, row, configuration)

        super().__init__(control, initial, planned, write, SPARE_CONFIGURATIONS)

    def resolve(self, wish: Mapping[str, Any], newest: Configuration) -> Configuration:
        """Complete a wish against the newest configuration known."""
        plan, threads = wish.get("plan"), wish.get("threads")
        if plan is None and threads is None:
            raise ReconfigurationError("reconfigure(): give threads= or plan=")
        threads = newest.threads if threads is None else threads
        if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= self._max_threads:
            raise ReconfigurationError(
                f"threads={threads!r}: give a whole number from 1 to max_threads={self._max_threads}; start the run with a"
                f" larger max_threads= to go beyond"
            )
        if plan is None:
            return Configuration(threads, newest.plan)
        return Configuration(threads, self._read_plan(plan))

    @property
    def current(self) -> Configuration:
        """The configuration in force, the same object for as long as it is: planned ones say threads, under whatever plan."""
        found, seen = super().current, self._seen
        if seen.threads != found.threads or seen.plan is not self._plan:
            seen = self._seen = replace(found, plan=self._plan)
        return seen

    def place(self, target: Configuration) -> int | None:
        """Let it be in force: another plan once everything is joined, threads at once."""
        if target.plan != self._plan:
            if not self._replan(target.plan):
                return None
            self._plan = target.plan
        return super().place(target)

    def describe(self, configuration: Configuration) -> dict[str, Any]:
        """Control -> value."""
        return {
            "threads": configuration.threads,
            "members": tuple(range(configuration.threads)),
            "plan": configuration.plan,
        }


__all__ = ["Reconfiguration"]
