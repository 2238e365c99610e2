"""The user's handle on one operator of a run, or on one of its stages."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from headrace.changes import Capabilities, Change
from headrace.control.control_loop import ControlLoop
from headrace.control.mapping import Mapping
from headrace.errors import NotSupportedError
from headrace.metrics.snapshot import OperatorMetrics, StageMetrics
from headrace.names import missing_attribute
from headrace.newest import Newest
from headrace.runtime.described import describe_operator
from headrace.runtime.life import RunLife
from headrace.runtime.measuring import first_tuple_ns
from headrace.runtime.steering import OperatorSteering
from headrace.summary import Summarised

if TYPE_CHECKING:
    import pandas as pd

_OF_METRICS = {name: f".metrics().{name}" for name in ("added", "processed", "results", "balance", "latency_ms")}


class OperatorHandle(Summarised):
    """Steer one operator of a query: `run["name"]`. What its engine provides beside results are further attributes."""

    def __init__(self, run: RunLife, operator: OperatorSteering):
        self._run, self._operator = run, operator

    def _summary(self) -> list[tuple[str, str]]:
        return describe_operator(self._run._execution, self._operator)

    @property
    def name(self) -> str:
        """Name of the operator in the query."""
        return self._operator.name

    @property
    def controls(self) -> Capabilities:
        """What can be changed, by the names that `reconfigure` takes."""
        return self._operator.capabilities

    @property
    def configuration(self) -> dict[str, Any]:
        """The configuration in force: control -> value."""
        return self._operator.configuration

    @property
    def threads(self) -> int:
        """Active threads."""
        return self.configuration["threads"]

    @property
    def mapping(self) -> Mapping:
        """Key mapping in force."""
        return mapping_of(self._operator)

    @property
    def changes(self) -> Newest[Change]:
        """Its changes so far, oldest first: the newest 10,000; ``.left_out`` says how many were before them."""
        self._operator.changes.collect()
        return self._operator.changes.record.newest()

    @property
    def control_loop(self) -> ControlLoop | None:
        """What the controller attached to it, now or at the end of the run, has seen and done; None without one."""
        return self._run._execution.controls.loop_of(self._operator.name)

    def reconfigure(
        self, threads: Any = None, mapping: Mapping | None = None, reason: str = "", **controls: Any
    ) -> Change:
        """Change this operator while the stream runs.

        Result and errors are those of `QueryRun.reconfigure`.

        Parameters
        ----------
        threads, mapping, reason, **controls
            As of `QueryRun.reconfigure`; `controls` has what this operator takes.
        """
        self._run._check_goes_on("reconfigure()")
        controls |= {"threads": threads, "mapping": mapping}
        return self._run._execution.controls.manually(self._operator, reason, controls)

    def metrics(self) -> OperatorMetrics:
        """Take a snapshot of this operator."""
        return self._run._execution.metrics().operators[self._operator.name]

    @property
    def stages(self) -> dict[str, StageHandle]:
        """Its stages by name, in the order in which tuples pass them; empty if it has none."""
        names = self._run._execution.metrics().operators[self._operator.name].stages
        return {name: StageHandle(self._run, self._operator, name) for name in names}

    def spans(self, seconds: float = 1.0) -> pd.DataFrame:
        """Return what each thread did lately: a timeline.

        Parameters
        ----------
        seconds : float
            How far back, at most. The last 1,024 spans of each thread are kept; for threads that alternately process and
            wait for 0.2 ms that is a fifth of a second.

        Returns
        -------
        DataFrame
            ``thread``; ``state``: "parked" (not active), "process", "wait" (for input), "room" (for room for its
            results), "barrier" (for the other threads, at a reconfiguration); ``begin_s`` and ``end_s``, seconds since
            the first tuple. Spans of less than 20 us are left out. Empty for an engine that keeps no timeline.
        """
        import pandas as pd

        execution = self._run._execution
        until_ns = execution.ended_ns or time.monotonic_ns()
        since_ns = until_ns - round(seconds * 1e9)
        origin_ns = first_tuple_ns(execution)
        found = self._operator.section.spans(self._operator.name, since_ns, until_ns)
        rows = [
            (span.worker, span.state, (max(since_ns, span.begin_ns) - origin_ns) / 1e9, (span.end_ns - origin_ns) / 1e9)
            for span in found
        ]
        return pd.DataFrame(rows, columns=["thread", "state", "begin_s", "end_s"])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # not set yet, as in a copy
            raise missing_attribute(self, name)
        extras = self._operator.section.extras()
        if name not in extras:
            raise missing_attribute(self, name, {extra: f".{extra}" for extra in extras} | _OF_METRICS)
        return extras[name]


class StageHandle(OperatorHandle):
    """A stage of an operator: ``run["stage"]``, or ``run["operator"].stages["stage"]``.

    Its metrics are its own. Its configuration and controls are those of its operator, whose workers go to whichever
    stage needs them.
    """

    def __init__(self, run: RunLife, operator: OperatorSteering, stage: str):
        super().__init__(run, operator)
        self._stage = stage

    def _summary(self) -> list[tuple[str, str]]:
        return [("stage", self._stage), *((label.replace("name", "of"), text) for label, text in super()._summary())]

    @property
    def name(self) -> str:
        """Name of the stage in the query."""
        return self._stage

    @property
    def operator(self) -> str:
        """Name of its operator."""
        return self._operator.name

    def metrics(self) -> StageMetrics:  # type: ignore[override]  # a stage has other measures
        """Take a snapshot of this stage."""
        return super().metrics().stages[self._stage]


def mapping_of(operator: OperatorSteering) -> Mapping:
    """Return the key mapping in force, or raise an error that says why there is none."""
    found = operator.configuration.get("mapping")
    if found is None:
        why = operator.capabilities.absent.get("mapping", "its engine has no key mapping")
        raise NotSupportedError(f"run[{operator.name!r}].mapping: {why}")
    return found
