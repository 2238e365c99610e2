"""Two runs steered as one: a click requests a change of both, or of the one that goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace_widgets.target import REASON, Target


class Runs:
    """What the controls need of a run, for several runs: the rate, and whether they go on."""

    def __init__(self, runs: tuple[Any, ...]):
        self._runs = runs

    @property
    def going_on(self) -> tuple[Any, ...]:
        """The runs that go on; if none does, the first, which reports that when a change is requested."""
        return tuple(run for run in self._runs if run.state == "running") or self._runs[:1]

    @property
    def rate(self) -> Any:
        """Of the first that goes on."""
        return self.going_on[0].rate

    @rate.setter
    def rate(self, rate: Any) -> None:
        for run in self.going_on:
            run.rate = rate

    @property
    def state(self) -> str:
        """Of the first that goes on."""
        return self.going_on[0].state

    @property
    def schedule(self) -> Any:
        """Of the first that goes on."""
        return self.going_on[0].schedule


class PairTarget(Target):
    """One operator of each of two runs, of the same name.

    Its controls are those of the first run; lines of Python are loops over ``runs``.
    """

    def __init__(self, runs: tuple[Any, Any], operator: str):
        super().__init__(runs[0], operator)
        self.run = Runs(runs)
        self.code = f"for run in runs: {self.code}"
        self.rate_code = "for run in runs: run.rate"

    @property
    def configuration(self) -> Mapping[str, Any]:
        """The configuration in force at the first run that goes on: control -> value."""
        return self.run.going_on[0][self.operator].configuration

    def reconfigure(self, **controls: Any) -> Any:
        """Request a change of the runs that go on; returns that of the first."""
        changes = [run[self.operator].reconfigure(**controls, reason=REASON) for run in self.run.going_on]
        return changes[0]
