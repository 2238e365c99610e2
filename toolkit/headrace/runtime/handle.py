"""What a user holds of a running query.

The run goes on for as long as somebody can reach this: by a name, in a `with`,
in a call that waits for it, in a dashboard or a page of metrics, in a controller
or sink that refers to it. Its own threads refer to the `Execution` only.
"""

from __future__ import annotations

import heapq
import time
import warnings
import weakref
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.changes import Change
from headrace.control.control_loop import DEFAULT_HOLD_S, DEFAULT_INTERVAL_S, ControlLoop
from headrace.control.decisions import DecisionLog
from headrace.control.mapping import Mapping
from headrace.errors import (
    HeadraceError,
    LateRowsWarning,
    MissingAttributeError,
    NotSupportedError,
    ParameterError,
    RunFailedError,
    RunStoppedError,
    UnknownNameError,
)
from headrace.metrics.bottleneck import Bottleneck, bottleneck
from headrace.metrics.history import History
from headrace.metrics.snapshot import Metrics, OperatorMetrics, StageMetrics
from headrace.names import explains_arguments, instead, missing_attribute
from headrace.plan.nodes import OperatorNode, Query
from headrace.rates import RateSchedule, schedule_of
from headrace.runtime import registry
from headrace.runtime.checkpointing import Checkpoint, lacks_checkpoints
from headrace.runtime.described import describe_operator, describe_run
from headrace.runtime.late import depth_of_caller, late_rows_text
from headrace.runtime.options import checked_options
from headrace.runtime.results import Result
from headrace.runtime.run import CHECKPOINT_SECONDS, STOPPED, Execution
from headrace.runtime.sections import Capabilities
from headrace.runtime.steering import OperatorSteering
from headrace.summary import Summarised

if TYPE_CHECKING:
    import pandas as pd

_POLL_S = 0.1
_OF_METRICS = {name: f".metrics().{name}" for name in ("added", "processed", "results", "balance", "latency_ms")}
_MEANT = {
    "collect": ".to_arrow(), or .snapshot() while it runs",
    "result": ".to_arrow(), or .snapshot() while it runs",
    "join": ".wait()",
    "cancel": ".stop()",
    "close": ".stop()",
    "dashboard": "headrace_widgets.Dashboard(run)",
    "start": "query.start() to run the query again",
}
"""What a run has under another name."""


class QueryRun(Summarised):
    """A running query: watch it, reconfigure it, wait for it, take its results.

    It is stopped, with a warning, when nothing refers to it any more.

    Examples
    --------
    >>> import headrace as hr
    >>> table = pa.table({"ts": [1, 2, 61], "k": ["a", "a", "b"]})
    >>> counts = hr.stream(table, event_time="ts").key_by("k").window(60).aggregate(n=hr.count())
    >>> with counts.start(threads=1, max_threads=4, reconfigure=[(2, 2)]) as run:
    ...     done = run.wait()
    ...     rows = run.to_arrow().num_rows
    >>> done, rows, run.changes[0].outcome
    (True, 2, 'done')
    """

    def __init__(self, execution: Execution):
        self._execution = execution
        # What does not change, and does not refer to this object.
        self._query, self._options, self._pid = execution.query, execution.options, execution.pid
        self._operators, self._sources = execution.operators, execution.sources
        self._controls, self._pool = execution.controls, execution.pool
        self._has_warned = False
        weakref.finalize(self, execution.abandon).atexit = False  # at the exit the registry stops what is left

    def _summary(self) -> list[tuple[str, str]]:
        return describe_run(self._execution)

    def __getattr__(self, name: str) -> Any:
        """What the engine of the only operator that has it gives beside results, such as ``tables``."""
        if not name.startswith("_"):  # not set yet, as in a copy
            found = {each: op.section.extras() for each, op in self._execution.operators.items()}
            having = [each for each, extras in found.items() if name in extras]
            if len(having) == 1:
                return found[having[0]][name]
            if having:
                raise missing_attribute(self, name, {name: f"[{having[0]!r}].{name}: several operators have it"})
            if name == "tables" and any("snapshot" in extras for extras in found.values()):
                raise MissingAttributeError(self._why_no_tables(), name=name)
        raise missing_attribute(self, name, _MEANT)

    def _why_no_tables(self) -> str:
        if not self._execution.over.is_set():
            return "run.tables: the run goes on; write run.snapshot() for the tables as of now, or wait() for the end"
        error = self._execution.error
        how = "was stopped" if error is None else f"failed with {type(error).__name__}: {error}"
        taken = [op.section.extras().get("snapshots") for op in self._execution.operators.values()]
        kept = "".join(f": run.snapshots[-1] is {snapshots[-1]!r}" for snapshots in taken if snapshots)
        return f"run.tables: the run {how}, and its tables are of no moment; snapshots that were taken stay as they are{kept}"

    @property
    def number(self) -> int:
        """Number of this run in the process, counted from 1; warnings and `repr` name it."""
        return self._execution.number

    # -- end

    def stop(self) -> None:
        """End the run now; results not yet released are lost. Safe to call twice."""
        self._execution.stop()

    def replace(self) -> None:
        """End the run because another one takes its place: of the same name, or of the same notebook cell."""
        self._execution.stop("a newer run of its name, or of its notebook cell, took its place")

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the input.

        Returns
        -------
        bool
            False if `timeout` seconds passed first.

        Raises
        ------
        HeadraceError
            What made the run fail.
        RunStoppedError
            Somebody stopped the run, so the end of the input will not come.
        """
        registry.check_process(self._pid)
        end = None if timeout is None else time.monotonic() + timeout
        while not self._execution.over.wait(_POLL_S if end is None else max(0.0, min(_POLL_S, end - time.monotonic()))):
            if end is not None and time.monotonic() >= end:
                return False
        self._raise_failure()
        if self.state == "stopped":
            raise RunStoppedError(
                f"wait(): the run was stopped before the end of its input: {self._execution.ended_by};"
                f" run.snapshot() gives the results that had come out"
            )
        self._warn_of_late_rows()
        return True

    def _warn_of_late_rows(self) -> None:
        """Say once what is missing from the results of a run that is over."""
        text = late_rows_text(self._sources)
        if text and not self._has_warned:
            self._has_warned = True
            warnings.warn(f"run {self.number}: {text}", LateRowsWarning, stacklevel=depth_of_caller())

    def _raise_failure(self) -> None:
        error = self._execution.error
        if error is None:
            return
        if isinstance(error, (HeadraceError, KeyboardInterrupt)):
            raise error
        raise RunFailedError(f"the run failed: {type(error).__name__}: {error}") from error

    def _check_goes_on(self, call: str) -> None:
        """Raise what made the run fail, or `RunStoppedError` if it is over."""
        registry.check_process(self._pid)
        self._raise_failure()
        if self.state != "running":
            by = self._execution.ended_by or "its input has ended"
            raise RunStoppedError(f"{call}: the run is over: {by}; start it again, or do this while it runs")

    def __enter__(self) -> QueryRun:
        return self

    def __exit__(self, kind, error, traceback) -> None:
        try:
            self._execution.stop("its `with` block ended" if error is None else STOPPED)
        except RunStoppedError as late:
            if error is None:
                raise
            error.add_note(f"headrace: {late}")  # what went wrong in the block comes first

    # -- steering

    @property
    def state(self) -> str:
        """"running", "finished" (its input ended), "failed" or "stopped"."""
        return self._execution.state

    @property
    def time_unit(self) -> str:
        """Unit of event times and watermarks, such as "us"."""
        return self._query.output.unit

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of the operators, upstream first."""
        return tuple(self._operators)

    @property
    def edges(self) -> list[tuple[str, str | None]]:
        """Which operator gives its results to which; to None: they are the results of the query.

        Examples
        --------
        >>> import headrace as hr
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
        """What `reconfigure` and the dashboard may ask for, of any operator; ``.absent`` says why of what they may not."""
        each = [operator.capabilities for operator in self._operators.values()]
        there = {name: control for can in reversed(each) for name, control in can.items()}
        absent = {name: why for can in reversed(each) for name, why in can.absent.items() if name not in there}
        if why := lacks_checkpoints(self._execution.sections, self._query.outputs):
            absent["checkpoint"] = why
        return Capabilities(there, absent)

    @property
    def threads(self) -> int:
        """Active threads of the only, or the costliest, operator."""
        return self._execution.costliest().configuration["threads"]

    @property
    def mapping(self) -> Mapping:
        """Key mapping in force, of the only, or the costliest, operator."""
        return _mapping_of(self._execution.costliest())

    def reconfigure(
        self, threads: Any = None, mapping: Mapping | None = None, reason: str = "", **controls: Any
    ) -> Change:
        """Change the number of threads, the key mapping, or both, while the stream runs.

        Parameters
        ----------
        threads : int or list of int
            How many, or exactly which instances.
        mapping : Mapping
            Who owns which bucket of keys.
        reason : str
            For the record.
        **controls
            What else the operator's engine lets be changed: see `capabilities`.

        Returns
        -------
        Change
            At once; `change.wait()` waits for the outcome.

        Raises
        ------
        ReconfigurationError
            Fewer than 1 or more than `max_threads` threads, or a mapping to an
            instance that is not active.
        NotSupportedError
            The operator has no such control.
        RunStoppedError
            The run is over; of a failed one, what made it fail.
        """
        self._check_goes_on("reconfigure()")
        wish = {"threads": threads, "mapping": mapping, **controls}
        return self._controls.manually(self._execution.costliest(), reason, wish)

    def checkpoint(self, timeout: float | None = None) -> Checkpoint | None:
        """Take a checkpoint now, and wait until it is on disk.

        Everything is joined for it, for a moment; the run goes on while it is written. ``start(checkpoint=folder)`` says where
        checkpoints are kept, ``resume=`` of another `start` goes on from one. `capabilities` says why where there are none.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait.

        Returns
        -------
        Checkpoint
            None if `timeout` seconds passed first; it is taken all the same.

        Raises
        ------
        NotSupportedError
            The query takes no checkpoints.
        ParameterError
            The run was not told where to keep them.
        RunStoppedError
            The run is over, or ended before the checkpoint was taken; of a failed one, what made it fail.
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
        while not done.wait(_POLL_S if end is None else max(0.0, min(_POLL_S, end - time.monotonic()))):
            self._check_goes_on("checkpoint()")
            if end is not None and time.monotonic() >= end:
                return None
        return checkpointing.newest

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """Those that this run has taken, oldest first; the two newest are on disk."""
        checkpointing = self._execution.checkpointing
        if checkpointing is None:
            return []
        if self._execution.over.is_set():
            checkpointing.await_end(CHECKPOINT_SECONDS)  # one may still be on its way to the disk
        return list(checkpointing.made)

    @explains_arguments(interval="interval_s", every="interval_s", hold="hold_s")
    def control(
        self,
        controller: Any,
        operator: str | None = None,
        interval_s: float = DEFAULT_INTERVAL_S,
        hold_s: float = DEFAULT_HOLD_S,
    ) -> ControlLoop:
        """Let a controller steer an operator from now on; from its first tuple: ``start(controller=...)``.

        Parameters
        ----------
        controller : Controller, function, list of them, or None
            Of `headrace.controllers`, or your own: a function of an `Observation`, or an object
            with ``decide(observation)``, that returns a `Request` or None. Of a list the first
            that asks for something is followed. None only watches and fits the cost model.
        operator : str, optional
            By default the only, or the costliest up to now. A controller it had before is released.
        interval_s : float
            Time between two looks, 0.2 s by default.
        hold_s : float
            How long a manual `reconfigure` keeps the controller off, 30 s by default.

        Returns
        -------
        ControlLoop
            What it saw, its cost model, its quality. What it decided is in `decisions`.

        Raises
        ------
        ParameterError
            No such operator, or nothing that could decide.
        RunStoppedError
            The run is over; of a failed one, what made it fail.
        """
        self._check_goes_on("control()")
        chosen = self._execution.costliest() if operator is None else self._operator(operator)
        return self._controls.attach(chosen, controller, interval_s=interval_s, hold_s=hold_s)

    def release(self, operator: str | None = None) -> None:
        """Detach the controller of an operator, by default all of them; what they did stays."""
        self._controls.release(None if operator is None else self._operator(operator).name)

    @property
    def decisions(self) -> DecisionLog:
        """What controllers decided, why, and what came of it; ``print(run.decisions)``, ``.to_pandas()``."""
        return self._controls.decisions

    @property
    def schedule(self) -> RateSchedule | None:
        """The schedule of `headrace.rates` that paces the input; None at full speed."""
        return self._sources[0].schedule if self._sources else None

    @property
    def rate(self) -> float | None:
        """Tuples per second and source that are played now; None at full speed, and where event times are played.

        Set it to a number, a schedule of `headrace.rates` or None: it holds from now on.
        """
        return self._sources[0].rate if self._sources else None

    @rate.setter
    def rate(self, rate: float | RateSchedule | None) -> None:
        schedule = schedule_of(rate)
        for source in self._sources:
            source.play(schedule)

    @property
    def changes(self) -> list[Change]:
        """Every reconfiguration so far, of all operators, oldest first."""
        each = [operator.changes for operator in self._operators.values()]
        for changes in each:
            changes.collect()
        # An operator's stay in the order of its epochs.
        return list(heapq.merge(*(list(changes.record) for changes in each), key=lambda c: c.requested_ns))

    @property
    def passed_time(self) -> list[tuple[str, int, int, int]]:
        """What the wall clock decided (`idle_after`): (operator, source, its rows before, time passed to).

        `start(passed_time=...)` replays it.
        """
        return [entry for source in self._sources for entry in source.passed_time]

    # -- what is measured

    def metrics(self) -> Metrics:
        """Take a snapshot of the run's counters."""
        return self._execution.metrics()

    def bottleneck(self, seconds: float = 1.0) -> Bottleneck:
        """Say who holds the run up: a source, a thread, an operator, the cores, who takes the results, or nobody.

        Parameters
        ----------
        seconds : float
            Looked at: the last so many, as far as `history` has them; else all of the run.

        Returns
        -------
        Bottleneck
            ``kind``, ``where``, ``sentence``.
        """
        now = self.metrics()
        before = self._execution.history.since(now.at_ns - round(seconds * 1e9))
        then = before[0].metrics if before and before[0].at_ns < now.at_ns else None
        return bottleneck(now, then)

    @property
    def history(self) -> History:
        """Samples of `metrics()` over time; empty with ``start(sample_every=None)``."""
        registry.check_process(self._pid)
        if self._execution.over.is_set() and self._options.sample_every is not None:
            self._execution.history.complete()
        return self._execution.history

    # -- results

    @property
    def late(self) -> pa.Table | None:
        """Rows set aside as late, in order of arrival, maybe none; None where no source has ``late="side"``."""
        tables = [table for source in self._sources for table in source.late_tables]
        return pa.concat_tables(tables, promote_options="permissive") if tables else None

    def snapshot(self) -> Any:
        """Return the results released so far: a prefix of what `to_arrow` gives in the end.

        Of a failed or stopped run it gives what had come out before. Of a run of transactions it gives all their
        tables as of one punctuation instead (`snapshot_to_spark` its results so far); where several operators have
        tables, ``run[name].snapshot()`` gives those of one. Of several results `results` gives each.
        """
        registry.check_process(self._pid)
        extras = [operator.section.extras() for operator in self._execution.operators.values()]
        of_tables = [found["snapshot"] for found in extras if "snapshot" in found]
        return of_tables[0]() if len(of_tables) == 1 else self._result("snapshot").snapshot()

    @property
    def results(self) -> dict[str, Result]:
        """Each result of the query by its name; a query's only one is called as its last operator.

        Examples
        --------
        >>> import headrace as hr
        >>> table = hr.stream(pa.table({"ts": [1, 2], "a": [5, 6]}), event_time="ts")
        >>> with hr.together(all=table, large=table.filter(hr.col("a") > 5)).start() as run:
        ...     done = run.wait()
        ...     rows = {name: result.to_arrow().num_rows for name, result in run.results.items()}
        >>> rows
        {'all': 2, 'large': 1}
        """
        registry.check_process(self._pid)
        sinks = self._execution.sinks
        return {
            output.name: Result(output, sinks[output.name], self._check_complete, self._look_at_results)
            for output in self._query.outputs
        }

    def _result(self, call: str) -> Result:
        """The only result."""
        found = self.results
        if len(found) > 1:
            each = " or ".join(f"run.results[{name!r}].{call}()" for name in found)
            raise NotSupportedError(f"{call}(): the run has {len(found)} results; write {each}")
        return next(iter(found.values()))

    def _look_at_results(self) -> None:
        if self._execution.over.is_set():
            self._warn_of_late_rows()

    def _check_complete(self, call: str) -> None:
        """Raise what made the run fail, or `RunStoppedError` unless it has come to the end of its input."""
        registry.check_process(self._pid)
        self._raise_failure()
        if self.state == "stopped":
            raise RunStoppedError(
                f"{call}: the run was stopped before the end of its input: {self._execution.ended_by};"
                f" run.snapshot() gives the results that had come out"
            )
        if self.state != "finished":
            raise RunStoppedError(f"the run is {self.state}: call wait() first, results are complete only then")
        self._warn_of_late_rows()

    def snapshot_to_spark(self, spark: Any):
        """Return the results released so far as a DataFrame, in deterministic order."""
        return self._result("snapshot_to_spark").snapshot_to_spark(spark)

    def to_arrow(self) -> pa.Table:
        """Return the results of a finished run as an Arrow table."""
        return self._result("to_arrow").to_arrow()

    def to_pandas(self):
        """Return the results of a finished run as a pandas frame."""
        return self._result("to_pandas").to_pandas()

    def to_spark(self, spark: Any):
        """Return the results of a finished run as a DataFrame, in deterministic order."""
        return self._result("to_spark").to_spark(spark)

    def __reduce__(self):
        raise NotSupportedError(
            "a run cannot be pickled or sent to Spark executors: it lives in this process; send its results"
        )


class OperatorHandle(Summarised):
    """Steer one operator of a query: `run["name"]`. What its engine gives beside results are further attributes."""

    def __init__(self, run: QueryRun, operator: OperatorSteering):
        self._run, self._operator = run, operator

    def _summary(self) -> list[tuple[str, str]]:
        return describe_operator(self._run._execution, self._operator)

    @property
    def name(self) -> str:
        """What the query calls the operator."""
        return self._operator.name

    @property
    def controls(self) -> Capabilities:
        """What can be changed, by the name `reconfigure` takes."""
        return self._operator.capabilities

    @property
    def configuration(self) -> dict[str, Any]:
        """What is in force: control -> value."""
        return self._operator.configuration

    @property
    def threads(self) -> int:
        """Active threads."""
        return self.configuration["threads"]

    @property
    def mapping(self) -> Mapping:
        """Key mapping in force."""
        return _mapping_of(self._operator)

    @property
    def changes(self) -> list[Change]:
        """Its changes so far, oldest first."""
        self._operator.changes.collect()
        return list(self._operator.changes.record)

    @property
    def control_loop(self) -> ControlLoop | None:
        """What a controller that is attached to it, or was at the end of the run, saw and did; None without one."""
        return self._run._controls.loop_of(self._operator.name)

    def reconfigure(
        self, threads: Any = None, mapping: Mapping | None = None, reason: str = "", **controls: Any
    ) -> Change:
        """Change the number of threads, the key mapping, or both, of this operator, while the stream runs.

        Parameters
        ----------
        threads : int or list of int
            How many, or exactly which instances.
        mapping : Mapping
            Who owns which bucket of keys.
        reason : str
            For the record.
        **controls
            What else the operator's engine lets be changed: see `controls`.

        Returns
        -------
        Change
            At once; `change.wait()` waits for the outcome.

        Raises
        ------
        ReconfigurationError
            Fewer than 1 or more than `max_threads` threads, or a mapping to an instance that is not active.
        NotSupportedError
            The operator has no such control.
        RunStoppedError
            The run is over; of a failed one, what made it fail.
        """
        self._run._check_goes_on("reconfigure()")
        wish = {"threads": threads, "mapping": mapping, **controls}
        return self._run._controls.manually(self._operator, reason, wish)

    def metrics(self) -> OperatorMetrics:
        """Take a snapshot of this operator."""
        return self._run.metrics().operators[self._operator.name]

    @property
    def stages(self) -> dict[str, StageHandle]:
        """Its stages by name, in the order in which tuples pass them; empty of an operator that has none."""
        names = self._run.metrics().operators[self._operator.name].stages
        return {name: StageHandle(self._run, self._operator, name) for name in names}

    def spans(self, seconds: float = 1.0) -> pd.DataFrame:
        """Give what each thread did lately: a timeline.

        Parameters
        ----------
        seconds : float
            How far back, at most. The last 1,024 spans of each thread are known; of threads that process and wait in
            turns of 0.2 ms that is a fifth of a second.

        Returns
        -------
        DataFrame
            ``thread``; ``state``: "parked" (not active), "process", "wait" (for input), "room" (for room for its
            results), "barrier" (for the other threads, at a reconfiguration); ``begin_s`` and ``end_s``, seconds since
            the first tuple. What took less than 20 us is left out. Empty of an engine that keeps no timeline.
        """
        import pandas as pd

        execution = self._run._execution
        until_ns = execution.ended_ns or time.monotonic_ns()
        since_ns = until_ns - round(seconds * 1e9)
        origin_ns = execution.first_tuple_ns
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

    Its metrics are its own. What is in force, and what can be changed, is its operator's, whose workers take whatever
    stage needs them.
    """

    def __init__(self, run: QueryRun, operator: OperatorSteering, stage: str):
        super().__init__(run, operator)
        self._stage = stage

    def _summary(self) -> list[tuple[str, str]]:
        return [("stage", self._stage), *((label.replace("name", "of"), text) for label, text in super()._summary())]

    @property
    def name(self) -> str:
        """What the query calls the stage."""
        return self._stage

    @property
    def operator(self) -> str:
        """Name of the operator whose stage it is."""
        return self._operator.name

    def metrics(self) -> StageMetrics:  # type: ignore[override]  # what it has is another thing to measure
        """Take a snapshot of this stage."""
        return super().metrics().stages[self._stage]


def _mapping_of(operator: OperatorSteering) -> Mapping:
    found = operator.configuration.get("mapping")
    if found is None:
        why = operator.capabilities.absent.get("mapping", "its engine has no key mapping")
        raise NotSupportedError(f"run[{operator.name!r}].mapping: {why}")
    return found


def start(query: Query, **options: Any) -> QueryRun:
    """Start a planned query.

    Keep what it returns for as long as the run is to go on: one that nothing refers to is stopped, with a
    warning, even if its results go to a file. ``with query.start(...) as run:``, a call that waits
    (``run.wait()``) and a dashboard keep it too.

    Parameters
    ----------
    query : Query
        What `headrace.Stream.plan` returns.
    **options
        Those of `headrace.Stream.start`, and those of the engines in the query.

    Raises
    ------
    ParameterError
        A wrong value; an `ArgumentError` for an option that there is none of.
    """
    engines = {node.name: node.spec.options for node in query.operators}
    checked, by_engine = checked_options(list(dict.fromkeys(engines.values())), options)
    for engine in by_engine.values():
        engine.check_operators([node.name for node in query.operators])
    sections = {
        node.name: node.spec.section(node, query.branches[node.name], by_engine[engines[node.name]])
        for node in query.operators
    }
    run = QueryRun(Execution(query, checked, sections))
    registry.register(run, checked.name or registry.cell_key())
    return run
