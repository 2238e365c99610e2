"""The operator that the controls act on, and how a user would write it in Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.changes import Capabilities

REASON = "dashboard"
"""Reason of changes that are requested here."""


class Target:
    """One operator of a run.

    Parameters
    ----------
    run : Run
    operator : str

    Attributes
    ----------
    code : str
        The expression before `.reconfigure(...)`.
    controls : Capabilities
        What can be changed; `controls.absent` says why other settings cannot.
    handle : OperatorHandle
        ``run[operator]``.
    handle_code, rate_code : str
        How the handle, and the rate of the input, are written in Python.
    sources : int
        How many sources are played, each at the rate.
    """

    def __init__(self, run: Any, operator: str):
        self.run, self.operator = run, operator
        self._several = len(run.operators) > 1
        self.handle = run[operator]
        self.handle_code = f"run[{operator!r}]"
        self.code = self.handle_code if self._several else "run"
        self.controls: Capabilities = self.handle.controls
        self.rate_code = "run.rate"
        self.sources = len(run.metrics().sources)

    @property
    def argument(self) -> str:
        """The additional argument text for a call of the run that takes `operator=`."""
        return f", operator={self.operator!r}" if self._several else ""

    @property
    def keyword(self) -> dict[str, str]:
        """The same argument as keywords for the call itself."""
        return {"operator": self.operator} if self._several else {}

    @property
    def configuration(self) -> Mapping[str, Any]:
        """The configuration in force: control -> value."""
        return self.handle.configuration

    @property
    def schedule(self) -> Any:
        """The schedule of `headrace.rates` that paces the run; None without one."""
        return getattr(self.run, "schedule", None)

    @property
    def mapping(self) -> Any:
        """The key mapping in force."""
        return self.handle.mapping

    def reconfigure(self, **controls: Any) -> Any:
        """Request a manual change; returns at once."""
        return self.handle.reconfigure(**controls, reason=REASON)

    def concerns(self, operator: str) -> bool:
        """Whether a record that names an operator concerns this one."""
        return operator == self.operator
