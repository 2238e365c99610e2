"""Two runs steered as one: what a click asks for, it asks of both."""

from __future__ import annotations

from typing import Any

from headrace_widgets.target import REASON, Target


class Runs:
    """What the controls need of a run, of several: its rate, whether it goes on."""

    def __init__(self, runs: tuple[Any, ...]):
        self._runs = runs

    @property
    def rate(self) -> Any:
        """Of the first."""
        return self._runs[0].rate

    @rate.setter
    def rate(self, rate: Any) -> None:
        going_on = [run for run in self._runs if run.state == "running"]
        for run in going_on or self._runs[:1]:  # one that is over says so
            run.rate = rate

    @property
    def state(self) -> str:
        """Of the first that goes on, if one does."""
        return next((run.state for run in self._runs if run.state == "running"), self._runs[0].state)

    @property
    def schedule(self) -> Any:
        """Of the first."""
        return self._runs[0].schedule


class PairTarget(Target):
    """One operator of each of two runs, of the same name.

    Its controls are those of the first; lines of Python are loops over ``runs``.
    """

    def __init__(self, runs: tuple[Any, Any], operator: str):
        super().__init__(runs[0], operator)
        self._handles = [run[operator] for run in runs]
        self.run = Runs(runs)
        self.code = f"for run in runs: {self.code}"
        self.rate_code = "for run in runs: run.rate"

    def reconfigure(self, **wish: Any) -> Any:
        """Ask both for a change; that of the first."""
        changes = [handle.reconfigure(**wish, reason=REASON) for handle in self._handles]
        return changes[0]
