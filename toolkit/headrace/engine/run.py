"""A running query: what a user holds, and the threads behind it."""

from __future__ import annotations

import heapq
import os
import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.counters import Metrics, OperatorMetrics
from headrace.egress.collector import Collector
from headrace.egress.sinks import CollectSink, FunctionSink
from headrace.elasticity.control_loop import ControlLoop
from headrace.elasticity.decisions import DecisionLog
from headrace.elasticity.mapping import Mapping
from headrace.elasticity.reconfiguration import Reconfigurer
from headrace.engine.consumers import Relay, SinkConsumer
from headrace.engine.control import THREAD_SUFFIX, Controls
from headrace.engine.operator import Operator, compile_now
from headrace.engine.options import Options
from headrace.engine.player import Origin, Player
from headrace.engine.port import Stopped
from headrace.engine.sources import SourceThreads
from headrace.errors import HeadraceError, NotSupportedError, ParameterError, RunFailedError, RunStoppedError
from headrace.history import DEFAULT_EVERY_S, History
from headrace.memory.cells import read_cell, read_cells
from headrace.operators import membership
from headrace.query import OperatorNode, Query, SourceNode
from headrace.rates import RateSchedule, schedule_of
from headrace.runtime import registry
from headrace.runtime.changes import Change
from headrace.runtime.pool import WorkerPool
from headrace.runtime.protocols import Sink
from headrace.windows import NANOSECONDS

STOP_SECONDS = 2.0
_POLL_S = 0.1


class QueryRun:
    """A running query: watch it, reconfigure it, wait for it, take its results.

    Examples
    --------
    >>> import headrace as hr
    >>> table = pa.table({"ts": [1, 2, 61], "k": ["a", "a", "b"]})
    >>> counts = hr.stream(table, event_time="ts").key_by("k").window(60).aggregate(n=hr.count())
    >>> with counts.start(threads=1, max_threads=4) as run:
    ...     change = run.reconfigure(threads=2)
    ...     done = run.wait()
    ...     rows = run.to_arrow().num_rows
    >>> done, rows, change.outcome in ("done", "unneeded")
    (True, 2, True)
    """

    capabilities = frozenset({"threads", "mapping"})

    def __init__(self, query: Query, options: Options):
        self._query, self._options = query, options
        self._pid = os.getpid()
        self._state = "running"
        self._error: BaseException | None = None
        self._over = threading.Event()
        self._lock = threading.RLock()
        self._sources: list[SourceThreads] = []
        self._event_origin = Origin()
        self._history = History(self._take_sample, options.sample_every or DEFAULT_EVERY_S)
        self._pool = WorkerPool(self._fail)
        self._controls = Controls(self._pool.start, self._over.is_set)
        sink = options.sink if options.sink is not None else CollectSink()
        self._sink: Sink = FunctionSink(sink) if callable(sink) and not hasattr(sink, "write") else sink
        self._started_ns = time.monotonic_ns()
        self._ended_ns = 0
        options.check_operators([node.name for node in query.operators])
        kind = operator_class(options.mode)
        self._operators = {node.name: kind(node, query.branches[node.name], options) for node in query.operators}
        last = self._operators[query.output.name]
        self._consumer = SinkConsumer(self._sink, [step.for_run(last.control.words) for step in query.output_steps])
        self._sink.open(query.schema)
        try:
            self._launch()
        except BaseException:
            self.stop()
            raise

    def _launch(self) -> None:
        downstream: dict[str, list[Any]] = {name: [] for name in self._operators}
        downstream[self._query.output.name].append(self._consumer)
        for operator in self._operators.values():
            for port in operator.ports:
                if isinstance(port.branch.origin, OperatorNode):
                    downstream[port.branch.origin.name].append(port)
        relays = {}
        for name, consumers in downstream.items():
            if len(consumers) > 1:
                downstream[name] = relays[name] = [Relay(c, self._operators[name]) for c in consumers]
        for name, operator in self._operators.items():
            run_instance = operator.module.run_instance
            try:
                compile_now(run_instance, operator.arguments(0))
            except Exception as error:
                raise operator.program.explain_compile_error(error, operator.module) or error from error
            operator.compile_handles()
            operator.reconfigurer = Reconfigurer(
                name,
                operator.control,
                operator.gate,
                operator.kernels,
                operator.max_threads,
                operator.initial,
                operator.planned,
                self._pool.start,
                operator.transfer_of,
                self._set_spins,
            )
            first_values = operator.program.first_output
            operator.collector = Collector(
                operator.out,
                operator.gate.words,
                list(operator.state[first_values:]),
                operator.finisher,
                downstream[name],
                operator.release,
                is_last=downstream[name] == [self._consumer],
            )
            for port in operator.ports:
                if isinstance(port.branch.origin, OperatorNode):
                    port.giver = self._operators[port.branch.origin.name].collector
        self._set_spins()
        self._started_ns = time.monotonic_ns()
        for name, operator in self._operators.items():
            operator.reconfigurer.start()
            for worker in range(operator.max_threads):
                self._pool.start(f"{name}-{worker}", self._worker_body(operator, worker))
            self._pool.start(f"{name}-collector", self._collector_body(operator))
            for number, relay in enumerate(relays.get(name, ())):
                self._pool.start(f"{name}-relay{number}", relay.run)
            for helper, helper_body in operator.helpers():
                self._pool.start(f"{name}-{helper}", helper_body)
        for operator in self._operators.values():
            for port in operator.ports:
                if isinstance(port.branch.origin, SourceNode):
                    unit_ns = NANOSECONDS[port.branch.origin.unit]
                    port.player = Player(self._options.rate, self._event_origin, unit_ns)
                    source = SourceThreads(operator, port, self._fail)
                    self._sources.append(source)
        # Before the first tuple comes: of a short stream as well it sees all.
        for name, controller in self._options.controllers.items():
            steered = self._costliest() if name is None else self._operators[name]
            self._controls.attach(steered, controller, interval_s=self._options.control_every)
        for source in self._sources:
            self._pool.start(f"{source.name}-reader", source.read)
            self._pool.start(f"{source.name}-feeder", source.feed)
        if self._options.sample_every is not None:
            self._pool.start("history", lambda: self._history.follow(self._over))

    def _set_spins(self) -> None:
        """As many threads are active as all operators have instances now."""
        operators = [op for op in self._operators.values() if op.reconfigurer is not None]
        with self._lock:
            active = sum(len(op.reconfigurer.current.members) for op in operators)
            membership.set_spins([op.control for op in operators], active)

    def _worker_body(self, operator: Operator, worker: int):
        arguments = operator.arguments(worker)

        def body():
            try:
                operator.module.run_instance(*arguments)
            except Exception as error:
                raise operator.explain(error, worker, arguments[6]) or error from error
            if read_cell(operator.control.words, membership.FAILED):
                self._fail(operator.failure())

        return body

    def _collector_body(self, operator: Operator):
        def body():
            try:
                operator.collector.run()
            except Stopped:
                return
            if operator.collector.finished.is_set():
                operator.reconfigurer.end("unneeded")
                if operator.name == self._query.output.name:
                    self._finish()

        return body

    # -- end

    def _finish(self) -> None:
        with self._lock:
            if self._state != "running":
                return
            self._state = "finished"
            self._ended_ns = time.monotonic_ns()
        for operator in self._operators.values():
            operator.reconfigurer.end("unneeded")
            operator.stop()
        self._over.set()

    def _fail(self, error: BaseException | None) -> None:
        with self._lock:
            if self._state != "running" or error is None:
                return
            self._state = "failed"
            self._error = error
            self._ended_ns = time.monotonic_ns()
        self._end_operators()
        self._consumer.abort()
        self._over.set()

    def _end_operators(self) -> None:
        for source in self._sources:
            source.stop()
        for operator in self._operators.values():
            operator.stop()
        for operator in self._operators.values():
            if operator.reconfigurer is not None:
                operator.reconfigurer.end("failed")

    def stop(self) -> None:
        """End the run now; results not yet released are lost. Safe to call twice."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            stopping = self._state == "running"
            if stopping:
                self._state = "stopped"
                self._ended_ns = time.monotonic_ns()
        if stopping:
            self._end_operators()
            self._consumer.abort()
            self._over.set()
        else:
            for operator in self._operators.values():
                operator.stop()
        own = threading.current_thread().name

        def is_users(name: str) -> bool:
            # In the user's iterator or the user's controller, or in this call.
            return name.endswith(("-reader", THREAD_SUFFIX)) or f"headrace-{name}" == own

        left = [name for name in self._pool.wait(STOP_SECONDS, is_users) if not is_users(name)]
        if left:
            raise RunStoppedError(
                f"threads {', '.join(left)} did not stop within {STOP_SECONDS} s: a user function may not return"
            )

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
        """
        registry.check_process(self._pid)
        end = None if timeout is None else time.monotonic() + timeout
        while not self._over.wait(_POLL_S if end is None else max(0.0, min(_POLL_S, end - time.monotonic()))):
            if end is not None and time.monotonic() >= end:
                return False
        self._raise_failure()
        return True

    def _raise_failure(self) -> None:
        if self._error is None:
            return
        if isinstance(self._error, (HeadraceError, KeyboardInterrupt)):
            raise self._error
        raise RunFailedError(f"the run failed: {type(self._error).__name__}: {self._error}") from self._error

    def __enter__(self) -> QueryRun:
        return self

    def __exit__(self, kind, error, traceback) -> None:
        self.stop()

    # -- steering

    @property
    def state(self) -> str:
        """running, finished, failed or stopped."""
        return self._state

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

    def _costliest(self) -> Operator:
        operators = list(self._operators.values())
        return max(operators, key=lambda op: int(read_cells(op.control.meter, 1)[:, membership.BUSY_NS].sum()))

    @property
    def threads(self) -> int:
        """Active instances of the only, or the costliest, operator."""
        return len(self._costliest().reconfigurer.current.members)

    @property
    def mapping(self) -> Mapping:
        """Key mapping in force, of the only, or the costliest, operator."""
        return self._costliest().reconfigurer.current.mapping

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
        """
        registry.check_process(self._pid)
        return self._controls.manually(self._costliest(), threads, mapping, reason)

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
        registry.check_process(self._pid)
        self._raise_failure()
        chosen = self._costliest() if operator is None else self[operator]._operator
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

    def metrics(self) -> Metrics:
        """Take a snapshot of the run's counters."""
        while True:
            with self._lock:
                state, ended_ns = self._state, self._ended_ns
            found = self._snapshot(state, ended_ns)
            if ended_ns == self._ended_ns:
                return found
            # The run ended meanwhile: times of its workers and of the snapshot would be of two moments.

    def _snapshot(self, state: str, ended_ns: int) -> Metrics:
        end, seconds = self._clock(ended_ns)
        is_finished = state == "finished"
        operators = {name: op.metrics(ended_ns, seconds, is_finished) for name, op in self._operators.items()}
        taken = sum(source.taken for source in self._sources)  # before what was read
        read = sum(source.rows for source in self._sources)
        return Metrics(
            state=state,
            seconds=seconds,
            tuples_in=read,
            waiting=max(0, read - taken),
            tuples_out=self._consumer.rows,
            dropped=sum(s.late_rows for s in self._sources if s.node.late == "drop"),
            set_aside=sum(s.late_rows for s in self._sources if s.node.late == "side"),
            operators=operators,
            rate=self.rate,
            at_ns=end,
        )

    def _clock(self, ended_ns: int) -> tuple[int, float]:
        """Monotonic time now, or at which the run ended, and the seconds from the first tuple until then."""
        end = ended_ns or time.monotonic_ns()
        start = min((s.first_add_ns for s in self._sources if s.first_add_ns), default=self._started_ns)
        return end, (end - start) / 1e9

    @property
    def history(self) -> History:
        """Samples of `metrics()` over time; empty with ``start(sample_every=None)``."""
        registry.check_process(self._pid)
        if self._over.is_set() and self._options.sample_every is not None:
            self._history.complete()
        return self._history

    def _take_sample(self) -> tuple[Metrics, dict[str, np.ndarray]]:
        latencies = {name: op.collector.latency.counts() for name, op in self._operators.items() if op.collector}
        return self.metrics(), latencies

    # -- results

    @property
    def late(self) -> pa.Table | None:
        """Rows set aside as late (``late="side"``), in order of arrival; None if there is none."""
        tables = [table for source in self._sources for table in source.late_tables]
        return pa.concat_tables(tables) if tables else None

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
        if self._state != "finished":
            raise RunStoppedError(f"the run is {self._state}: call wait() first, results are complete only then")
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
        return self._run._controls.manually(self._operator, threads, mapping, reason)

    def metrics(self) -> OperatorMetrics:
        """Take a snapshot of this operator."""
        return self._run.metrics().operators[self._operator.name]


def operator_class(mode: str) -> type[Operator]:
    """Return how operators of this mode are run."""
    if mode == "sn":
        from headrace.engine.shared_nothing import SharedNothingOperator

        return SharedNothingOperator
    return Operator


def start(query: Query, **options: Any) -> QueryRun:
    """Start a planned query.

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
        Compile with bounds checks.
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
    checked = Options(**options)
    run = QueryRun(query, checked)
    registry.register(run, checked.name or registry.cell_key())
    return run
