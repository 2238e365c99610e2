"""The threads of a running query: wired up, started, ended, measured.

What a user holds is a `handle.QueryRun`. No thread refers to that, nor does
anything here: so Python knows when nobody can reach the run any more, and then
calls `abandon`, from whatever thread the garbage collector happens to run in.
It stores one word; the last operator's collector finds it and ends the run.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
import warnings
from contextlib import suppress
from typing import Any

import numpy as np

from headrace.counters import Metrics
from headrace.egress.collector import Collector
from headrace.egress.sinks import CollectSink, FunctionSink
from headrace.elasticity.reconfiguration import Reconfigurer
from headrace.engine.consumers import Relay, SinkConsumer
from headrace.engine.control import THREAD_SUFFIX, Controls
from headrace.engine.operator import Operator, compile_now
from headrace.engine.options import Options
from headrace.engine.player import Origin, Player
from headrace.engine.port import Stopped
from headrace.engine.sources import SourceThreads
from headrace.errors import HeadraceError, OutputError, RunFailedError, RunStoppedError
from headrace.history import DEFAULT_EVERY_S, History
from headrace.memory.cells import publish_cell, read_cell, read_cells
from headrace.operators import membership, output
from headrace.query import OperatorNode, Query, SourceNode
from headrace.runtime.pool import WorkerPool
from headrace.runtime.protocols import Sink
from headrace.windows import NANOSECONDS

STOP_SECONDS = 2.0
STOPPED = "stop() was called"
_ABANDONED = "nothing referred to it any more"
_numbers = itertools.count(1)


class AbandonedRunWarning(RuntimeWarning):
    """A run was stopped because nothing in the program could reach it any more."""


class Execution:
    """A query being run."""

    def __init__(self, query: Query, options: Options):
        self.query, self.options = query, options
        self.pid = os.getpid()
        self.number = next(_numbers)
        self.state = "running"
        self.error: BaseException | None = None
        self.ended_by = ""
        """Why a stopped run was stopped."""
        self.over = threading.Event()
        self._is_abandoned = False
        self._lock = threading.RLock()
        self.sources: list[SourceThreads] = []
        self._event_origin = Origin()
        self.history = History(self._take_sample, options.sample_every or DEFAULT_EVERY_S)
        self.pool = WorkerPool(self._fail)
        self.controls = Controls(self.pool.start, self.over.is_set)
        sink = options.sink if options.sink is not None else CollectSink()
        self.sink: Sink = FunctionSink(sink) if callable(sink) and not hasattr(sink, "write") else sink
        self.started_ns = time.monotonic_ns()
        self.ended_ns = 0
        options.check_operators([node.name for node in query.operators])
        kind = operator_class(options.mode)
        self.operators = {node.name: kind(node, query.branches[node.name], options) for node in query.operators}
        last = self.operators[query.output.name]
        self._consumer = SinkConsumer(self.sink, [
            step.for_run(last.control.words, options.debug) for step in query.output_steps
        ])
        _check_output(self.sink, query)
        try:
            self.sink.open(query.schema)
        except HeadraceError:
            raise
        except Exception as error:
            name = type(self.sink).__name__
            raise RunFailedError(f"the sink ({name}) cannot be opened: {type(error).__name__}: {error}") from error
        try:
            self._launch()
        except BaseException:
            self.stop()
            raise

    def _launch(self) -> None:
        downstream: dict[str, list[Any]] = {name: [] for name in self.operators}
        downstream[self.query.output.name].append(self._consumer)
        for operator in self.operators.values():
            for port in operator.ports:
                if isinstance(port.branch.origin, OperatorNode):
                    downstream[port.branch.origin.name].append(port)
        relays = {}
        for name, consumers in downstream.items():
            if len(consumers) > 1:
                downstream[name] = relays[name] = [Relay(c, self.operators[name]) for c in consumers]
        for name, operator in self.operators.items():
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
                self.pool.start,
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
                    port.giver = self.operators[port.branch.origin.name].collector
        self._set_spins()
        self.started_ns = time.monotonic_ns()
        for name, operator in self.operators.items():
            operator.reconfigurer.start()
            for worker in range(operator.max_threads):
                self.pool.start(f"{name}-{worker}", self._worker_body(operator, worker))
            self.pool.start(f"{name}-collector", self._collector_body(operator))
            for number, relay in enumerate(relays.get(name, ())):
                self.pool.start(f"{name}-relay{number}", relay.run)
            for helper, helper_body in operator.helpers():
                self.pool.start(f"{name}-{helper}", helper_body)
        for operator in self.operators.values():
            for port in operator.ports:
                if isinstance(port.branch.origin, SourceNode):
                    unit_ns = NANOSECONDS[port.branch.origin.unit]
                    port.player = Player(self.options.rate, self._event_origin, unit_ns)
                    source = SourceThreads(operator, port, self._fail)
                    self.sources.append(source)
        # Before the first tuple comes: of a short stream as well it sees all.
        for name, controller in self.options.controllers.items():
            steered = self.costliest() if name is None else self.operators[name]
            self.controls.attach(steered, controller, interval_s=self.options.control_every)
        for source in self.sources:
            self.pool.start(f"{source.name}-reader", source.read)
            self.pool.start(f"{source.name}-feeder", source.feed)
        if self.options.sample_every is not None:
            self.pool.start("history", lambda: self.history.follow(self.over))

    def _set_spins(self) -> None:
        """As many threads are active as all operators have instances now."""
        operators = [op for op in self.operators.values() if op.reconfigurer is not None]
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
        is_last = operator.name == self.query.output.name

        def body():
            with suppress(Stopped):
                operator.collector.run()
            if is_last and self._is_abandoned and self._stop(_ABANDONED):
                warnings.warn(
                    f"run {self.number} ({', '.join(self.operators)}) was stopped before its end, because nothing refers"
                    f" to it any more: keep what start() returns, as in run = query.start(...), for as long as it is"
                    f" to go on; hr.runs() lists the runs there are",
                    AbandonedRunWarning,
                    stacklevel=1,
                )
            if operator.collector.finished.is_set():
                operator.reconfigurer.end("unneeded")
                if is_last:
                    self._finish()

        return body

    # -- end

    def _finish(self) -> None:
        with self._lock:
            if self.state != "running":
                return
            self.state = "finished"
            self.ended_ns = time.monotonic_ns()
        for operator in self.operators.values():
            operator.reconfigurer.end("unneeded")
            operator.stop()
        self.over.set()

    def _fail(self, error: BaseException | None) -> None:
        with self._lock:
            if self.state != "running" or error is None:
                return
            self.state = "failed"
            self.error = error
            self.ended_ns = time.monotonic_ns()
        self._end_operators()
        self._consumer.abort()
        self.over.set()

    def _end_operators(self) -> None:
        for source in self.sources:
            source.stop()
        for operator in self.operators.values():
            operator.stop()
        for operator in self.operators.values():
            if operator.reconfigurer is not None:
                operator.reconfigurer.end("failed")

    def abandon(self) -> None:
        """Nobody can reach the run any more. Takes no lock and wakes nobody: the garbage collector calls it anywhere."""
        if self.state == "running" and os.getpid() == self.pid:
            self._is_abandoned = True
            # The collector looks at it at least every 20 ms, and after each batch that the sink took.
            publish_cell(self.operators[self.query.output.name].out.words, output.OUT_STOP, 1)

    def _stop(self, reason: str) -> bool:
        """Let a run that goes on end; False if it is over."""
        with self._lock:
            if self.state != "running":
                return False
            self.state, self.ended_by = "stopped", reason
            self.ended_ns = time.monotonic_ns()
        self._end_operators()
        self._consumer.abort()
        self.over.set()
        return True

    def stop(self, reason: str = STOPPED) -> None:
        """End the run now, and wait until its threads have ended; see `QueryRun.stop`."""
        if os.getpid() != self.pid:
            return
        if not self._stop(reason):
            for operator in self.operators.values():
                operator.stop()
        own = threading.current_thread().name

        def is_users(name: str) -> bool:
            # In the user's iterator or the user's controller, or in this call.
            return name.endswith(("-reader", THREAD_SUFFIX)) or f"headrace-{name}" == own

        left = [name for name in self.pool.wait(STOP_SECONDS, is_users) if not is_users(name)]
        if left:
            raise RunStoppedError(
                f"threads {', '.join(left)} did not stop within {STOP_SECONDS} s: a user function may not return"
            )

    # -- what is measured

    def costliest(self) -> Operator:
        """The only operator, or the one whose instances have worked longest up to now."""
        operators = list(self.operators.values())
        return max(operators, key=lambda op: int(read_cells(op.control.meter, 1)[:, membership.BUSY_NS].sum()))

    def metrics(self) -> Metrics:
        """Take a snapshot of the run's counters."""
        while True:
            with self._lock:
                state, ended_ns = self.state, self.ended_ns
            found = self._snapshot(state, ended_ns)
            if ended_ns == self.ended_ns:
                return found
            # The run ended meanwhile: times of its workers and of the snapshot would be of two moments.

    def _snapshot(self, state: str, ended_ns: int) -> Metrics:
        end, seconds = self._clock(ended_ns)
        is_finished = state == "finished"
        operators = {name: op.metrics(ended_ns, seconds, is_finished) for name, op in self.operators.items()}
        taken = sum(source.taken for source in self.sources)  # before what was read
        read = sum(source.rows for source in self.sources)
        return Metrics(
            state=state,
            seconds=seconds,
            tuples_in=read,
            waiting=max(0, read - taken),
            tuples_out=self._consumer.rows,
            dropped=sum(s.late_rows for s in self.sources if s.node.late == "drop"),
            set_aside=sum(s.late_rows for s in self.sources if s.node.late == "side"),
            operators=operators,
            rate=self.sources[0].rate if self.sources else None,
            at_ns=end,
        )

    def _clock(self, ended_ns: int) -> tuple[int, float]:
        """Monotonic time now, or at which the run ended, and the seconds from the first tuple until then."""
        end = ended_ns or time.monotonic_ns()
        start = min((s.first_add_ns for s in self.sources if s.first_add_ns), default=self.started_ns)
        return end, (end - start) / 1e9

    def _take_sample(self) -> tuple[Metrics, dict[str, np.ndarray]]:
        latencies = {name: op.collector.latency.counts() for name, op in self.operators.items() if op.collector}
        return self.metrics(), latencies


def _check_output(sink: Sink, query: Query) -> None:
    """Raise `OutputError` if the sink would replace a file that the query reads."""
    path = getattr(sink, "path", None)
    if not isinstance(path, (str, os.PathLike)):
        return
    origins = [branch.origin for branches in query.branches.values() for branch in branches]
    for origin in origins:
        for reader in origin.readers if isinstance(origin, SourceNode) else ():
            for file in reader().files:
                if os.path.exists(path) and os.path.exists(file) and os.path.samefile(path, file):
                    raise OutputError(
                        f"output {os.fspath(path)!r} is an input of the query, which it would replace; give another file"
                    )


def operator_class(mode: str) -> type[Operator]:
    """Return how operators of this mode are run."""
    if mode == "sn":
        from headrace.engine.shared_nothing import SharedNothingOperator

        return SharedNothingOperator
    return Operator
