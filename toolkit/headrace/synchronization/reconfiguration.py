"""Reconfiguring a program: threads move among leaves between events; another plan needs a join of everything.

A planned change of the plan is found to be DUE by a worker (`plan_kernel`), and made here: by the thread that follows
changes, between two looks at what has come into force.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.changes import Capabilities, Control
from headrace.errors import ReconfigurationError
from headrace.kernel import compile_now
from headrace.memory.cells import read_cell
from headrace.runtime.at_once import AtOnce
from headrace.runtime.steerable import Completion, checked_threads
from headrace.synchronization import words
from headrace.synchronization.arrays import PlanArrays
from headrace.synchronization.configuration import Configuration, Planned, write_configuration
from headrace.synchronization.options import PLANS
from headrace.synchronization.plan_kernel import come_into_force
from headrace.synchronization.plans import Plan

WAYS = (*PLANS, "rates", "latency")
"""To make a plan while a program runs: those of `start`, and by the rates and costs measured lately."""


class Reconfiguration(AtOnce):
    """What can be changed at a program: a `headrace.runtime.steerable.Steerable`.

    Parameters
    ----------
    arrays : PlanArrays
        Configuration rows 0 to `planned` are in use already.
    max_threads : int
    initial : Configuration
        Row 0.
    planned : sequence of Planned
        Rows 1, 2, ...
    read_plan : callable
        Returns the requested plan, given as a plan, as JSON or as the way to make it; else raises `ParameterError`.
    replan : callable
        Puts a plan into force, with what else is to be asked and done, as `Replanning.change`; False if it has to be
        called again.
    """

    def __init__(
        self,
        arrays: PlanArrays,
        max_threads: int,
        initial: Configuration,
        planned: Sequence[Planned],
        read_plan: Callable[[Any], Plan],
        replan: Callable[..., bool],
    ):
        self.capabilities = Capabilities(
            {
                "threads": Control("count", "workers that run leaves", 1, max_threads),
                "plan": Control("plan", "who processes which tags, and who joins whom", choices=WAYS),
            },
            {"mapping": "which keys belong to which leaf is said by the plan"},
        )
        self._max_threads, self._read_plan, self._replan = max_threads, read_plan, replan
        self._plan, self._planned_changes = initial.plan, planned
        self._seen = initial
        self._is_replanning = False
        """Whether rest was requested for the planned change that is due."""
        self._shown = initial
        """The configuration after the last change that was reported."""
        self._taken, self._made = 0, set[int]()
        """Planned changes that were reported, and those that were made here."""
        super().__init__(arrays, initial, [one[:2] for one in planned])

    def _write(self, row: int, configuration: Configuration) -> None:
        write_configuration(self._arrays, row, configuration)

    def resolve(self, requested: Mapping[str, Any], newest: Configuration) -> Configuration:
        """Complete a request from the newest configuration known."""
        plan, threads = requested.get("plan"), requested.get("threads")
        if plan is None and threads is None:
            raise ReconfigurationError("reconfigure(): give threads= or plan=")
        threads = newest.threads if threads is None else checked_threads(threads, self._max_threads)
        if plan is None:
            return Configuration(threads, newest.plan)
        return Configuration(threads, self._read_plan(plan))

    @property
    def current(self) -> Configuration:
        """The configuration in force, the same object as long as it is; planned ones give threads, under whatever plan."""
        found, seen = super().current, self._seen
        if seen.threads != found.threads or seen.plan is not self._plan:
            seen = self._seen = replace(found, plan=self._plan)
        return seen

    def place(self, target: Configuration) -> int | None:
        """Put a configuration into force: another plan once everything is joined, threads at once."""
        if target.plan != self._plan:
            if not self._replan(target.plan):
                return None
            self._plan = target.plan
        return super().place(target)

    def completed(self) -> Completion | None:
        """The next change in force that was not yet reported; a planned change of the plan that is due is made first."""
        self._make_due()
        found = super().completed()
        if found is None:
            return None
        after = found.after
        if found.planned_at is not None:
            index, self._taken = self._taken, self._taken + 1
            if not self._planned_changes[index].replans:
                after = replace(after, plan=self._shown.plan)
            elif index not in self._made:  # the input ended before it was made
                self._plan = after.plan
            found = found._replace(before=self._shown, after=after)
        self._shown = after
        return found

    def _make_due(self) -> None:
        """Make a planned change of the plan whose row has come, or stop asking for rest."""
        due = read_cell(self._arrays.words, words.DUE)
        if not self._is_replanning and due <= read_cell(self._arrays.words, words.PLANNED):
            return

        def is_wanted() -> bool:
            return read_cell(self._arrays.words, words.PLANNED) < due

        plan = self._planned_changes[due - 1].configuration.plan
        self._is_replanning = not self._replan(plan, is_wanted, lambda: self._make(due - 1))

    def _make(self, index: int) -> None:
        """Everything is at rest under another plan: count the planned change as in force."""
        arrays, row, one = self._arrays, index + 1, self._planned_changes[index]
        if not one.says_threads:
            configuration = replace(one.configuration, threads=self.current.threads)
            self._write(row, configuration)
            self._rows[row] = configuration
        self._plan = one.configuration.plan
        self._made.add(index)
        come_into_force(arrays, index + 1)

    def compile(self) -> None:
        """Compile what Python calls while the stream runs."""
        super().compile()
        compile_now(come_into_force, (self._arrays, 1))

    def describe(self, configuration: Configuration) -> dict[str, Any]:
        """Control -> value."""
        return {
            "threads": configuration.threads,
            "members": tuple(range(configuration.threads)),
            "plan": configuration.plan,
        }


__all__ = ["Reconfiguration"]
