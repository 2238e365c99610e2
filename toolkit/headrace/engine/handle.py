"""What a user holds of a running query.

The run goes on for as long as somebody can reach this: by a name, in a `with`,
in a call that waits for it, in a dashboard or a page of metrics, in a controller
or sink that refers to it. Its own threads refer to the `Execution` only.
"""

from __future__ import annotations

import heapq
import time
import weakref
from typing import Any

import pyarrow as pa

from headrace.counters import Metrics, OperatorMetrics
from headrace.egress.sinks import CollectSink
from headrace.elasticity.control_loop import ControlLoop
from headrace.elasticity.decisions import DecisionLog
from headrace.elasticity.mapping import Mapping
from headrace.engine.operator import Operator
from headrace.engine.options import checked_options
from headrace.engine.run import STOPPED, Execution
from headrace.errors import HeadraceError, NotSupportedError, ParameterError, RunFailedError, RunStoppedError
from headrace.history import History
from headrace.query import Query
from headrace.rates import RateSchedule, schedule_of
from headrace.runtime import registry
from headrace.runtime.changes import Change

_POLL_S = 0.1


class QueryRun:
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

    capabilities = frozenset({"threads", "mapping"})

    def __init__(self, execution: Execution):
        self._execution = execution
        # What does not change, and does not refer to this object.
        self._query, self._options, self._pid = execution.query, execution.options, execution.pid
        self._operators, self._sources = execution.operators, execution.sources
        self._controls, self._pool, self._sink = execution.controls, execution.pool, execution.sink
        weakref.finalize(self, execution.abandon).atexit = False  # at the exit the registry stops what is left

    def __repr__(self) -> str:
        threads = ", ".join(f"{name}: {len(op.reconfigurer.current.members)}" for name, op in self._operators.items())
        return f"<{type(self).__name__} {self.number} {self.state}, threads {threads}>"

    @property
    def number(self) -> int:
        """Of this run in the process, from 1: what warnings and `hr.runs()` call it."""
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
        return True

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
        self._execution.stop("its `with` block ended" if error is None else STOPPED)

    # -- steering

    @property
    def state(self) -> str:
        """running, finished, failed or stopped."""
        return self._execution.state

    @property
    def time_unit(self) -> str:
        """Unit of event times and watermarks, such as "us"."""
        return self._query.output.unit

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of the operators, upstream first."""
        return tuple(self._operators)

    def __getitem__(self, name: str) -> OperatorHandle:
        if name not in self._operators:
            raise ParameterError(f"run[{name!r}]: operators are {', '.join(self._operators)}")
        return OperatorHandle(self, self._operators[name])

    @property
    def threads(self) -> int:
        """Active instances of the only, or the costliest, operator."""
        return len(self._execution.costliest().reconfigurer.current.members)

    @property
    def mapping(self) -> Mapping:
        """Key mapping in force, of the only, or the costliest, operator."""
        return self._execution.costliest().reconfigurer.current.mapping

    def reconfigure(self, threads: Any = None, mapping: Mapping | None = None, reason: str = "") -> Change:
        """Change the number of threads, the key mapping, or both, while the stream runs.

        Parameters
        ----------
        threads : int or list of int
            How many, or exactly which instances.
        mapping : Mapping
            Who owns which bucket of keys.
        reason : str
            For the record.

        Returns
        -------
        Change
            At once; `change.wait()` waits for the outcome.

        Raises
        ------
        ReconfigurationError
            Fewer than 1 or more than `max_threads` threads, or a mapping to an
            instance that is not active.
        RunStoppedError
            The run is over; of a failed one, what made it fail.
        """
        self._check_goes_on("reconfigure()")
        return self._controls.manually(self._execution.costliest(), threads, mapping, reason)

    def control(self, controller: Any, operator: str | None = None, **options: Any) -> ControlLoop:
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
        chosen = self._execution.costliest() if operator is None else self[operator]._operator
        return self._controls.attach(chosen, controller, **options)

    def release(self, operator: str | None = None) -> None:
        """Detach the controller of an operator, by default all of them; what they did stays."""
        self._controls.release(None if operator is None else self[operator]._operator.name)

    @property
    def decisions(self) -> DecisionLog:
        """What controllers decided, why, and what came of it; ``print(run.decisions)``, ``.to_pandas()``."""
        return self._controls.decisions

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
        for operator in self._operators.values():
            operator.reconfigurer.collect()
        each = [list(operator.reconfigurer.changes) for operator in self._operators.values()]
        return list(heapq.merge(*each, key=lambda c: c.requested_ns))  # an operator's stay in the order of its epochs

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

    def snapshot(self) -> pa.Table:
        """Return the results released so far: a prefix of what `to_arrow` gives in the end.

        Of a failed or stopped run it gives what had come out before.
        """
        registry.check_process(self._pid)
        return self._collected().table()

    def snapshot_to_spark(self, spark: Any):
        """Return the results released so far as a DataFrame, in deterministic order."""
        from headrace.spark.sink import to_dataframe

        return to_dataframe(spark, self.snapshot())

    def _collected(self) -> CollectSink:
        if not isinstance(self._sink, CollectSink):
            raise NotSupportedError("results went to the sink= given to start(); leave it out to collect them")
        return self._sink

    def to_arrow(self) -> pa.Table:
        """Return the results of a finished run as an Arrow table."""
        registry.check_process(self._pid)
        sink = self._collected()
        self._raise_failure()
        if self.state == "stopped":
            raise RunStoppedError(
                f"to_arrow(): the run was stopped before the end of its input: {self._execution.ended_by};"
                f" run.snapshot() gives the results that had come out"
            )
        if self.state != "finished":
            raise RunStoppedError(f"the run is {self.state}: call wait() first, results are complete only then")
        return sink.table()

    def to_pandas(self):
        """Return the results of a finished run as a pandas frame."""
        return self.to_arrow().to_pandas()

    def to_spark(self, spark: Any):
        """Return the results of a finished run as a DataFrame, in deterministic order."""
        from headrace.spark.sink import to_dataframe

        return to_dataframe(spark, self.to_arrow())

    def __reduce__(self):
        raise NotSupportedError(
            "a run cannot be pickled or sent to Spark executors: it lives in this process; send its results"
        )


class OperatorHandle:
    """Steer one operator of a query: `run["name"]`."""

    def __init__(self, run: QueryRun, operator: Operator):
        self._run, self._operator = run, operator

    @property
    def threads(self) -> int:
        return len(self._operator.reconfigurer.current.members)

    @property
    def mapping(self) -> Mapping:
        return self._operator.reconfigurer.current.mapping

    @property
    def changes(self) -> list[Change]:
        self._operator.reconfigurer.collect()
        return list(self._operator.reconfigurer.changes)

    @property
    def control_loop(self) -> ControlLoop | None:
        """What a controller that is attached to it, or was at the end of the run, saw and did; None without one."""
        return self._run._controls.loop_of(self._operator.name)

    def reconfigure(self, threads: Any = None, mapping: Mapping | None = None, reason: str = "") -> Change:
        """Change this operator's threads or mapping; see `QueryRun.reconfigure`."""
        self._run._check_goes_on("reconfigure()")
        return self._run._controls.manually(self._operator, threads, mapping, reason)

    def metrics(self) -> OperatorMetrics:
        """Take a snapshot of this operator."""
        return self._run.metrics().operators[self._operator.name]



def start(query: Query, **options: Any) -> QueryRun:
    """Start a planned query.

    Keep what it returns for as long as the run is to go on: one that nothing refers to is stopped, with a
    warning, even if its results go to a file. ``with query.start(...) as run:``, a call that waits
    (``run.wait()``) and a dashboard keep it too.

    Parameters
    ----------
    threads : int, list of int, or dict of operator name to either
        Active instances at the start, 1 by default.
    max_threads : int
        Workers in the pool of each operator; by default the number of cores or the largest number named.
    mapping : Mapping
        Key mapping at the start; equal ranges by default.
    reconfigure : list of (tuple count, threads)
        Changes planned before the tuple of that number (from 0) of the merged input.
    sink : Sink or function of record batches
        Where results go; collected by default.
    gate : {"log", "scalegate"}
    mode : {"vsn", "sn"}
    capacity : int
        Tuples a gate holds at most.
    bound_ns : int
        Work it holds at most, in nanoseconds of its slowest reader: 1 ms by default. A saturated
        run takes about as long to be reconfigured. Where more threads than cores want to run, one
        waits for the other's time slice, and a longer bound wastes less: a live join on 2 cores,
        beside its sources, made 8.2 G comparisons/s with 1 ms and 11.2 with 10 ms.
    max_keys : int
        Keys that may be live at once.
    passed_time : list, optional
        `run.passed_time` of an earlier run of the same input: idle sources are passed over
        (`idle_after`) between the same rows, and the clock is not looked at. Same result.
    rate : float or schedule of `headrace.rates`
        Tuples per second and source, to pace the input; `run.rate` changes it.
    debug : bool
        Compile with bounds checks; integers of user functions that leave the range of int64 raise
        instead of wrapping around.
    name : str
        A live run of the same name is stopped first.
    sample_every : float
        Seconds between the samples of `run.history`; None: it stays empty.
    controller : controller, or dict of operator name to one
        Attached before the first tuple comes, as `QueryRun.control` attaches it later. A query of
        several operators needs to know which it steers.
    control_every : float
        Seconds between two looks of it, 0.2 by default.
    """
    checked = checked_options(options)
    run = QueryRun(Execution(query, checked))
    registry.register(run, checked.name or registry.cell_key())
    return run
