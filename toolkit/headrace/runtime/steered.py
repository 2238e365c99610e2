"""Steering a run: its operators, the changes possible while it goes on, checkpoints, controllers and pace."""

from __future__ import annotations

import heapq
import time
from typing import Any

from headrace.changes import Capabilities, Change
from headrace.control.control_loop import DEFAULT_HOLD_S, DEFAULT_INTERVAL_S, ControlLoop
from headrace.control.decisions import DecisionLog
from headrace.control.mapping import Mapping
from headrace.errors import NotSupportedError, ParameterError, UnknownNameError
from headrace.names import explains_arguments, instead
from headrace.newest import Newest
from headrace.plan.nodes import OperatorNode
from headrace.rates import RateSchedule, schedule_of
from headrace.runtime.checkpointing import Checkpoint, lacks_checkpoints
from headrace.runtime.life import POLL_S, RunLife
from headrace.runtime.measuring import costliest
from headrace.runtime.operator_handle import OperatorHandle, mapping_of
from headrace.runtime.run import CHECKPOINT_SECONDS, Execution
from headrace.runtime.steering import OperatorSteering


class SteeredRun(RunLife):
    """A run whose operators can be changed while it goes on."""

    def __init__(self, execution: Execution):
        super().__init__(execution)
        # Constant, and without a reference to this object.
        self._query, self._operators = execution.query, execution.operators
        self._controls, self._sources = execution.controls, execution.sources

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of the operators, upstream first."""
        return tuple(self._operators)

    @property
    def edges(self) -> list[tuple[str, str | None]]:
        """Pairs of operators of which the first gives its results to the second; None stands for the query's results.

        Examples
        --------
        >>> import headrace as hr, pyarrow as pa
        >>> table = pa.table({"ts": [1, 2], "k": ["a", "b"]})
        >>> counts = hr.stream(table, event_time="ts").key_by("k").window(60).aggregate("counts", n=hr.count())
        >>> with counts.key_by("k").window(60).aggregate("most", n=hr.max("n")).start() as run:
        ...     edges = run.edges
        >>> edges
        [('counts', 'most'), ('most', None)]
        """
        sections, found = self._execution.sections, []
        for section in sections.values():
            origins = [inlet.branch.origin for inlet in section.inlets]
            before = [sections[origin.name] for origin in origins if isinstance(origin, OperatorNode)]
            found += [(each.operators[-1], section.operators[0]) for each in before]
            found += zip(section.operators[:-1], section.operators[1:], strict=True)
        ends = [(sections[output.node.name].operators[-1], None) for output in self._query.outputs]
        return [*dict.fromkeys(found), *dict.fromkeys(ends)]

    def __getitem__(self, name: str) -> OperatorHandle:
        if name in self._operators:
            return OperatorHandle(self, self._operators[name])
        stages = [stage for operator in self._operators for stage in self[operator].stages.values()]
        found = [stage for stage in stages if stage.name == name]
        if len(found) > 1:
            ways = " or ".join(f"run[{stage.operator!r}].stages[{name!r}]" for stage in found)
            raise UnknownNameError(f"run[{name!r}]: {len(found)} operators have a stage of this name; give {ways}")
        if not found:
            there = list(dict.fromkeys([*self._operators, *(stage.name for stage in stages)]))
            raise UnknownNameError(f"run[{name!r}]: {instead(name, there, 'the operators', '{}')}")
        return found[0]

    def _operator(self, name: str) -> OperatorSteering:
        if name not in self._operators:
            raise UnknownNameError(f"run[{name!r}]: {instead(name, self._operators, 'the operators', '{}')}")
        return self._operators[name]

    @property
    def capabilities(self) -> Capabilities:
        """What `reconfigure` and the dashboard may ask of any operator; ``.absent`` has the reasons for what they may not."""
        each = [operator.capabilities for operator in self._operators.values()]
        there = {name: control for can in reversed(each) for name, control in can.items()}
        absent = {name: why for can in reversed(each) for name, why in can.absent.items() if name not in there}
        if why := lacks_checkpoints(self._execution.sections, self._query.outputs):
            absent["checkpoint"] = why
        return Capabilities(there, absent)

    @property
    def threads(self) -> int:
        """Active threads of the only operator, or of the costliest."""
        return costliest(self._operators).configuration["threads"]

    @property
    def mapping(self) -> Mapping:
        """Key mapping in force at the only operator, or at the costliest."""
        return mapping_of(costliest(self._operators))

    def reconfigure(
        self, threads: Any = None, mapping: Mapping | None = None, reason: str = "", **controls: Any
    ) -> Change:
        """Change the only operator, or the costliest, while the stream runs; ``run[name].reconfigure`` changes another one.

        Parameters
        ----------
        threads : int or list of int
            How many instances, or exactly which ones.
        mapping : Mapping
            Assigns each bucket of keys to an instance.
        reason : str
            For the record.
        **controls
            Other controls of the operator's engine: see `capabilities`, and `controls` of an operator.

        Returns
        -------
        Change
            Returned at once; `change.wait()` waits for the outcome.

        Raises
        ------
        ReconfigurationError
            Fewer than 1 or more than `max_threads` threads, or a mapping to an
            instance that is not active.
        NotSupportedError
            The operator has no such control.
        RunStoppedError
            The run is over. If it has failed, the error that made it fail is raised instead.
        """
        return OperatorHandle(self, costliest(self._operators)).reconfigure(threads, mapping, reason, **controls)

    def checkpoint(self, timeout: float | None = None) -> Checkpoint | None:
        """Take a checkpoint now, and wait until it is on disk.

        All state is joined for a moment; the run goes on while the checkpoint is written. ``start(checkpoint=folder)`` says
        where checkpoints are kept; ``resume=`` of another `start` goes on from one. If a query takes none, `capabilities`
        says why.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait.

        Returns
        -------
        Checkpoint
            None if `timeout` seconds passed first; the checkpoint is taken all the same.

        Raises
        ------
        NotSupportedError
            The query takes no checkpoints.
        ParameterError
            The run was not told where to keep checkpoints.
        RunStoppedError
            The run is over, or ended before the checkpoint was taken. If it has failed, the error that made it fail is
            raised instead.
        """
        self._check_goes_on("checkpoint()")
        execution = self._execution
        if why := lacks_checkpoints(execution.sections, self._query.outputs):
            raise NotSupportedError(f"checkpoint(): {why}")
        checkpointing = execution.checkpointing
        if checkpointing is None or not checkpointing.is_taking:
            raise ParameterError("checkpoint(): where is it to be kept? Give checkpoint= a folder when you start the run")
        end = None if timeout is None else time.monotonic() + timeout
        done = checkpointing.request()
        while not done.wait(POLL_S if end is None else max(0.0, min(POLL_S, end - time.monotonic()))):
            self._check_goes_on("checkpoint()")
            if end is not None and time.monotonic() >= end:
                return None
        return checkpointing.newest

    @property
    def checkpoints(self) -> Newest[Checkpoint]:
        """Checkpoints that this run has taken, oldest first; the two newest are on disk.

        The newest 10,000 are listed; ``.left_out`` says how many were before them.
        """
        checkpointing = self._execution.checkpointing
        if checkpointing is None:
            return Newest()
        if self._execution.over.is_set():
            checkpointing.await_end(CHECKPOINT_SECONDS)  # a checkpoint may still be being written
        return checkpointing.made.newest()

    @explains_arguments(interval="interval_s", every="interval_s", hold="hold_s")
    def control(
        self,
        controller: Any,
        operator: str | None = None,
        interval_s: float = DEFAULT_INTERVAL_S,
        hold_s: float = DEFAULT_HOLD_S,
    ) -> ControlLoop:
        """Let a controller steer an operator from now on; ``start(controller=...)`` does from the first tuple on.

        Parameters
        ----------
        controller : Controller, function, list of them, or None
            One of `headrace.controllers`, or your own: a function of an `Observation`, or an object
            with ``decide(observation)``, that returns a `Request` or None. In a list the first controller
            that asks for something is followed. None only watches and fits the cost model.
        operator : str, optional
            By default the only operator, or the costliest so far. Its present controller is released.
        interval_s : float
            Time between two observations, 0.2 s by default.
        hold_s : float
            How long a manual `reconfigure` keeps the controller off, 30 s by default.

        Returns
        -------
        ControlLoop
            Its observations, cost model and quality. Its decisions are in `decisions`.

        Raises
        ------
        ParameterError
            There is no such operator, or the controller cannot decide anything.
        NotSupportedError
            A controller of `headrace.controllers` changes something that the operator does not have, such as its plan.
        RunStoppedError
            The run is over. If it has failed, the error that made it fail is raised instead.
        """
        self._check_goes_on("control()")
        chosen = costliest(self._operators) if operator is None else self._operator(operator)
        return self._controls.attach(chosen, controller, interval_s=interval_s, hold_s=hold_s)

    def release(self, operator: str | None = None) -> None:
        """Detach the controller of an operator, by default all controllers; what they changed stays."""
        self._controls.release(None if operator is None else self._operator(operator).name)

    @property
    def decisions(self) -> DecisionLog:
        """What controllers decided, with reasons and outcomes: ``print(run.decisions)``, ``.to_pandas()``.

        Its ``.prediction_error`` says how far their predictions were from what came of the changes.
        """
        return self._controls.decisions

    @property
    def schedule(self) -> RateSchedule | None:
        """The schedule of `headrace.rates` that paces the input; None at full speed."""
        return self._sources[0].schedule if self._sources else None

    @property
    def rate(self) -> float | None:
        """Present tuples per second and source; None at full speed, and if event times are played.

        Set it to a number, a schedule of `headrace.rates` or None: it holds from now on, and due tuples are counted anew.
        So the lag begins at 0, whereas a burst within one schedule keeps its lag. Setting it once the run is over raises
        `RunStoppedError` or, if the run has failed, the error that made it fail.
        """
        return self._sources[0].rate if self._sources else None

    @rate.setter
    def rate(self, rate: float | RateSchedule | None) -> None:
        self._check_goes_on(f"rate = {rate!r}")
        schedule = schedule_of(rate)
        for source in self._sources:
            source.play(schedule)

    @property
    def changes(self) -> Newest[Change]:
        """The reconfigurations so far, of all operators, oldest first.

        Of each operator the newest 10,000; ``.left_out`` says how many were before them.
        """
        each = [operator.changes for operator in self._operators.values()]
        for changes in each:
            changes.collect()
        # The changes of one operator stay in the order of their epochs.
        found = [changes.record.newest() for changes in each]
        return Newest(heapq.merge(*found, key=lambda c: c.requested_ns), sum(of_one.left_out for of_one in found))
