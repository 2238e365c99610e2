"""The transactional operator at run time: gate, tables, executors, output rings, collector.

A `headrace.runtime.sections.Section` of one operator. Its threads are `max_threads`
executors, parked unless active, and one collector.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from headrace.egress import rings
from headrace.egress.collector import Collector, Consumer
from headrace.errors import HeadraceError, OverflowInputError, RunFailedError, RunStoppedError
from headrace.gates import gate_modules
from headrace.gates.membership_kernel import LOST_WAKEUPS
from headrace.gates.variants import source_kernels
from headrace.ingress.encode import Encoder
from headrace.ingress.store import Store, allocate_directories
from headrace.kernel import compile_now
from headrace.memory.cells import publish_cell, read_cell, touch
from headrace.memory.event_count import signal
from headrace.metrics.latency import LatencyHistogram
from headrace.metrics.snapshot import OperatorMetrics
from headrace.plan.nodes import Branch, OperatorNode
from headrace.progress import END_OF_TIME
from headrace.runtime.feeding import Stopped
from headrace.runtime.gate_books import log_records_held
from headrace.runtime.gate_inlet import GateInlet, GateSource
from headrace.runtime.sections import Moment, RunContext, Section, Task
from headrace.transactions import control, words
from headrace.transactions.audit import Audit
from headrace.transactions.build import Built
from headrace.transactions.content import TablesAt
from headrace.transactions.control import Configuration, family_in_force, family_of
from headrace.transactions.fitting import fitting, objection
from headrace.transactions.measuring import LENGTHS, measure
from headrace.transactions.options import MOST_PUNCTUATION, TransactionOptions
from headrace.transactions.program import Program
from headrace.transactions.reconfiguration import Reconfiguration, at_punctuation
from headrace.transactions.snapshots import Snapshots
from headrace.transactions.template import generate
from headrace.transactions.undo_kernel import MAX_ROWS, ROWS_KEPT
from headrace.workers import spans, worker_kernel
from headrace.workers.spans import counters

OUTPUT_CAPACITY = 1 << 16
GATE_CAPACITY = 2 * MOST_PUNCTUATION
"""A batch stays in the gate until it is executed, and the next one gathers meanwhile."""


class TransactionSection(Section):
    """One operator: gate, tables, executors, output, reconfiguration."""

    def __init__(self, node: OperatorNode, branches: list[Branch], options: TransactionOptions):
        self.node, self.name = node, node.name
        self.operators = (node.name,)
        self.options, self.max_threads, self._debug = options, options.max_threads, options.debug
        operations = control.operations_of(MOST_PUNCTUATION, options.max_operations)
        self.program = program = Program(node, branches, options.max_threads, options.max_state, operations)
        initial, planned = options.initial(self.name), options.planned(self.name)
        if options.adapts and objection(program.bound, initial.scheme) is not None:
            initial = replace(initial, scheme="speculative")
        for configuration in (initial, *(each for _, each in planned)):
            if (wrong := objection(program.bound, configuration.scheme)) is not None:
                raise wrong
        self._initial = initial
        handle, self._gate_kernels = gate_modules("log")
        self._sources = source_kernels("log")
        self.gate = handle.allocate(len(branches), 1, GATE_CAPACITY, bound_ns=0)
        self._gate_kernels.join_reader(self.gate, 0, 0, 1)
        self.control = control.allocate(
            self.max_threads, program.memory.records, MOST_PUNCTUATION, operations, len(planned),
            max_delay_ns=options.max_delay_ns, table_rows=program.memory.rows, table_places=program.memory.places,
            copies=program.memory.copies,
        )  # fmt: skip
        self.out = rings.allocate(self.max_threads, OUTPUT_CAPACITY, self.control.meter)
        self.state = program.allocate(OUTPUT_CAPACITY, self.control.sets.size)
        self.directories = allocate_directories(len(branches), len(program.columns))
        self.inlets = [self._make_inlet(number, branch) for number, branch in enumerate(branches)]
        self._finisher = program.finisher([inlet.store for inlet in self.inlets])
        self._modules: dict[str, Built] = {}
        self._private = [program.private() for _ in range(self.max_threads)]
        can_split = self.can_split
        control.write_configuration(self.control, 0, initial, can_split)
        for index, (at, configuration) in enumerate(planned):
            control.plan_configuration(self.control, index, at, configuration, can_split)
        control.activate(self.control, self.out)
        for worker in range(initial.threads):
            for ring in (self.out.primary, self.out.a, self.out.b, self.out.at, *self._result_columns):
                touch(ring[worker])
        self.reconfiguration = _Compiled(
            self.control, self.gate, self.max_threads, initial, planned, self._schemes, can_split, compile_for=self._compile_for
        )
        self.collector: Collector | None = None
        self._final: TablesAt | None = None
        self.chains_seen = np.zeros(LENGTHS, np.int64)
        is_watched = any(table.conserve is not None for table in program.memory.tables)
        self.audit = Audit(program.memory, self._rest) if is_watched else None
        every = options.snapshot_every
        self.snapshots = Snapshots(every, self.control, program.memory.at, self._rest) if every is not None else None

    @property
    def can_split(self) -> bool:
        """Whether the functions can be run operation by operation."""
        return self.program.bound.operations is not None

    @property
    def _schemes(self) -> tuple[str, ...]:
        """Those that may be asked for while it runs."""
        return tuple(scheme for scheme in fitting(self.program.bound) if scheme != "none" or self.options.unsafe)

    def _compile_for(self, configuration: Configuration) -> None:
        """Have its loop compiled, so that no executor waits for the compiler."""
        self._module(family_of(configuration.scheme, self.can_split))

    @property
    def _result_columns(self) -> list[np.ndarray]:
        return [getattr(self.state, name) for name in self.program.result_fields]

    def _make_inlet(self, number: int, branch: Branch) -> GateInlet:
        program = self.program

        def make_encoder(await_keys: Callable[[list[int]], bool]) -> Encoder:
            return Encoder(
                schema=branch.schema,
                event_time=branch.event_time,
                keys=(),
                dictionary=None,
                values=program.values,
                lists=program.lists,
                texts=program.text_columns,
                carry=program.carried,
                time_unit=branch.time_unit,
                window_size=0,
                source=branch.source,
                await_keys=await_keys,
            )

        source = GateSource(self.gate, self._sources, number, self.control.words[worker_kernel.STOP :])
        store = Store(program.columns, False, self.directories[number])
        return GateInlet(branch, source, store, make_encoder, self._progress, lambda ids: None)

    def _progress(self) -> object:
        return [inlet.books.added for inlet in self.inlets], read_cell(self.control.words, words.SEEN)

    def _module(self, family: str) -> Built:
        """The loop of a family, compiled."""
        if family not in self._modules:
            text = generate(self.program.bound, list(self.program.spec.emits), list(self.program.columns), family)
            built = Built(text, "log", family, self.name, debug=self._debug)
            try:
                built.compile(self._arguments(0))
            except Exception as error:
                raise self.program.explain_compile_error(error, built.program) or error from None
            self._modules[family] = built
        return self._modules[family]

    def _arguments(self, worker: int) -> tuple:
        """What `run_executor` of this worker is called with."""
        return worker, self.gate, self.control, self.out, self.directories, self.state, self._private[worker]

    # -- what a run asks of a section

    def prepare(self, consumers: Sequence[Consumer], run: RunContext, is_last: bool) -> None:
        """Compile everything, and make the collector; nothing runs yet."""
        self._run = run
        wanted = [self._initial, *(each for _, each in self.options.planned(self.name))]
        for configuration in wanted:
            self._module(family_of(configuration.scheme, self.can_split))
        self._compile_handles()
        self.collector = Collector(
            self.out, self._result_columns, self._finisher, list(consumers), self.release, is_last=is_last,
            is_saturated=self.is_saturated,
        )  # fmt: skip

    def _compile_handles(self) -> None:
        """Compile what Python calls while the stream runs."""
        gate, out, zero, times = self.gate, self.out, 0, np.zeros(1, np.int64)
        stop = self.control.words
        for function, arguments in (
            (self._sources.add, (gate, zero, times, zero, zero, zero)),
            (self._sources.add_or_wait, (gate, zero, times, zero, zero, zero, stop)),
            (self._sources.heartbeat_or_wait, (gate, zero, zero, stop)),
            (self._sources.close_or_wait, (gate, zero, stop)),
            (signal, (gate.words, zero, gate.event, zero)),
            (read_cell, (gate.words, zero)),
            (publish_cell, (gate.words, zero, zero)),
            (worker_kernel.stop_workers, (self.control,)),
            (rings.await_release, (out, zero, zero)),
            (rings.drained, (out, zero, zero)),
            (rings.stop_output, (out,)),
            (spans.copy_counters, (self.control.meter, counters(self.control.meter))),
        ):
            compile_now(function, arguments)
        if self.snapshots is not None:
            self.snapshots.compile()
        LatencyHistogram().add(times)
        self._finisher.compile()

    def tasks(self) -> list[Task]:
        """Executors and collector."""
        executors = [Task(f"{self.name}-{worker}", self._body(worker)) for worker in range(self.max_threads)]
        audits = [Task(f"{self.name}-audit", self.audit.run)] if self.audit is not None else []
        takers = [Task(f"{self.name}-snapshots", self.snapshots.run)] if self.snapshots is not None else []
        return [*executors, *audits, *takers, Task(f"{self.name}-collector", self._collect)]

    def _body(self, worker: int) -> Callable[[], None]:
        arguments = self._arguments(worker)

        def body() -> None:
            goes_on = 1
            try:
                while goes_on:
                    goes_on = self._module(family_in_force(self.control)).run(*arguments)
            except Exception as error:
                raise self._explain(error, worker) from error
            if (failure := self.failure()) is not None:
                self._run.fail(failure)

        return body

    def _explain(self, error: Exception, worker: int) -> BaseException:
        """What a user function's exception in an executor means."""
        if isinstance(error, HeadraceError):
            return error
        private = self._private[worker]
        ref = int(self.control.refs[int(private[words.CAUSE])])
        if isinstance(error, MemoryError):
            return self._too_little_memory(str(error))
        stores = [inlet.store for inlet in self.inlets]
        seen = control.rows_seen(self.control, private)
        return self.program.explain_exception(error, private, ref, self.state, worker, stores, seen)

    def _too_little_memory(self, said: str) -> OverflowInputError:
        """What a kernel's MemoryError means, by what it says."""
        if said.startswith(ROWS_KEPT):
            return OverflowInputError(f"{self.name}: one transaction changes more rows than can be put back: split it")
        if said.startswith(MAX_ROWS):
            table = said.removeprefix(MAX_ROWS)
            return OverflowInputError(f"{self.name}: table {table!r} has no room for more keys; make it with a larger max_rows=")
        return OverflowInputError(
            f"{self.name}: the lists, sets and maps of its tables take more than max_state={self.options.max_state} bytes;"
            f" pass a larger max_state=, or keep less in them"
        )

    def failure(self) -> HeadraceError | None:
        """What an executor reported, as an error."""
        if not read_cell(self.control.words, worker_kernel.FAILED):
            return None
        while read_cell(self.control.words, worker_kernel.FAILED) == 1:
            time.sleep(1e-5)  # another one was first, and is still writing what happened
        code = int(self.control.failure[worker_kernel.FAILURE_CODE])
        if code == words.TOO_MANY_OPERATIONS:
            return OverflowInputError(
                f"{self.name}: one event names more keys than there is room for: pass a larger max_operations="
            )
        return RunFailedError(f"an executor failed with code {code}; please report this")

    def _collect(self) -> None:
        collector = self.collector
        assert collector is not None
        with suppress(Stopped):
            collector.run()
        if collector.finished.is_set():
            self._final = self.program.memory.at(None)
            if self.audit is not None:
                self.audit.close()
            if self.snapshots is not None:
                self.snapshots.stop()
            self._run.section_finished(self)

    def release(self, watermark: int) -> None:
        """Free rows whose results are out."""
        for inlet in self.inlets:
            inlet.store.release(watermark + 1 if watermark < END_OF_TIME else watermark)
        self.program.release(watermark)

    def steerable(self, operator: str) -> Reconfiguration:
        """What can be changed while it runs."""
        return self.reconfiguration

    def work_ns(self, operator: str) -> int:
        """Nanoseconds its executors have worked."""
        return int(counters(self.control.meter)[:, worker_kernel.BUSY_NS].sum())

    def spans(self, operator: str, since_ns: int, until_ns: int) -> list[spans.Span]:
        """What its executors did lately."""
        return spans.spans(self.control.meter, since_ns, until_ns)

    @property
    def active(self) -> int:
        """Executors that are active."""
        return self.reconfiguration.current.threads

    def set_spins(self, spins: int) -> None:
        """Pauses of an executor that waits, before it sleeps."""
        publish_cell(self.control.words, worker_kernel.SPIN, spins)

    @property
    def results(self) -> int:
        """Rows given so far."""
        return self.collector.rows if self.collector else 0

    def extras(self) -> dict[str, Any]:
        """``snapshot``, ``snapshots``, ``tables``."""
        found: dict[str, Any] = {"snapshot": self.snapshot, "snapshots": self._taken}
        if self._final is not None:
            found["tables"] = self._final
        return found

    @property
    def _taken(self) -> tuple[TablesAt, ...]:
        """The newest snapshots that were taken by themselves, oldest first."""
        return self.snapshots.taken if self.snapshots is not None else ()

    def snapshot(self) -> TablesAt:
        """Copy all tables as of one punctuation, while the run goes on.

        Raises
        ------
        RunStoppedError
            The run failed or was stopped: what is in its tables is of no moment.
        """
        if self._final is not None:
            return self._final
        with self._rest() as position:
            if position is not None:
                return self.program.memory.at(position)
        if self.collector is not None and self.collector.finished.wait(1.0):
            return self._final or self.program.memory.at(None)
        kept = f"; run.snapshots[-1] is {self._taken[-1]!r}" if self._taken else ""
        raise RunStoppedError(f"{self.name}: the run is over, and did not end by itself: it has no tables{kept}")

    @contextmanager
    def _rest(self) -> Iterator[int | None]:
        """Let the executors rest between two batches; gives how many events were executed, None if the run is over."""
        with at_punctuation(self.control, self.gate) as position:
            yield position

    def stop(self) -> None:
        """Wake and end everything that belongs to the operator."""
        worker_kernel.stop_workers(self.control)
        if self.audit is not None:
            self.audit.stop()
        if self.snapshots is not None:
            self.snapshots.stop()
        rings.stop_output(self.out)
        gate, kernels = self.gate, self._gate_kernels
        signal(gate.words, kernels.READERS_WAITING, gate.event, kernels.DATA_EVENT)
        signal(gate.words, kernels.SOURCES_WAITING, gate.event, kernels.SPACE_EVENT)

    # -- what is measured

    @property
    def unreleased(self) -> int:
        """Results that wait for their release."""
        return self.collector.unreleased if self.collector else 0

    def records_held(self, members: list[int]) -> int:
        """Records in the gate that are not executed, at least."""
        return log_records_held(self.gate, self._gate_kernels, [0])

    def passed_tuples(self, members: list[int]) -> tuple[int, int, int]:
        """Events that were executed."""
        executed = read_cell(self.control.words, words.SEEN)
        return executed, executed, executed

    def faults_at_end(self, members: list[int], added: int) -> list[str]:
        """What shows, at the end of the input, that something is missing."""
        executed = read_cell(self.control.words, words.SEEN)
        return [] if executed == added else [f"{executed:,} events were executed of {added:,}"]

    @property
    def rejected(self) -> int:
        """Events among the results of which a transaction was rejected."""
        return self._finisher.rejected

    def is_saturated(self) -> bool:
        """Whether its sources wait for room just now."""
        return read_cell(self.gate.words, self._gate_kernels.SOURCES_WAITING) != 0

    def lost_wakeups(self) -> int:
        """Sleeps that only the time-out ended although the wake-up was due."""
        return read_cell(self.gate.words, LOST_WAKEUPS) + read_cell(self.out.words, rings.OUT_LOST_WAKEUPS)

    def metrics(self, operator: str, moment: Moment) -> OperatorMetrics:
        """Take a snapshot; see `measuring.measure`."""
        return measure(self, moment)


class _Compiled(Reconfiguration):
    """Compiles what a configuration needs before the executors are asked for it."""

    def __init__(self, *arguments: Any, compile_for: Callable[[Configuration], None]):
        super().__init__(*arguments)
        self._compile_for = compile_for

    def resolve(self, wish: Mapping[str, Any], newest: Configuration) -> Configuration:
        """Complete a wish; an error if it cannot be had."""
        target = super().resolve(wish, newest)
        self._compile_for(target)
        return target
