"""A pipeline at run time: gate, stages, workers, result ring, collector.

A `headrace.runtime.sections.Section` of one operator. Its threads are `max_threads`
workers, parked unless active, and one collector.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from headrace.egress import rings
from headrace.egress.collector import Collector, Consumer
from headrace.errors import HeadraceError, OverflowInputError, RunFailedError
from headrace.gates import gate_modules
from headrace.gates.membership_kernel import LOST_WAKEUPS
from headrace.gates.variants import source_kernels
from headrace.ingress.encode import Encoder
from headrace.ingress.store import Store, allocate_directories
from headrace.kernel import compile_now
from headrace.memory.cells import publish_cell, read_cell, touch
from headrace.memory.event_count import signal
from headrace.metrics.snapshot import OperatorMetrics
from headrace.ordering import control, words
from headrace.ordering.build import Built
from headrace.ordering.measuring import measure, records_at
from headrace.ordering.options import OrderedOptions, known_schedules
from headrace.ordering.program import Program
from headrace.ordering.reconfiguration import Reconfiguration
from headrace.ordering.results import OrderedResults
from headrace.ordering.template import generate
from headrace.ordering.work_kernel import NO_MEMORY
from headrace.plan.nodes import Branch, OperatorNode
from headrace.progress import END_OF_TIME
from headrace.runtime.feeding import Stopped
from headrace.runtime.gate_books import log_records_held
from headrace.runtime.gate_inlet import GateInlet, GateSource
from headrace.runtime.sections import Moment, RunContext, Section, Task
from headrace.workers import spans, worker_kernel
from headrace.workers.spans import counters

OUTPUT_CAPACITY = 1 << 16
GATE_CAPACITY = 1 << 17


class OrderedSection(Section):
    """One pipeline: gate, stages, output, reconfiguration."""

    def __init__(self, node: OperatorNode, branches: list[Branch], options: OrderedOptions):
        self.node, self.name = node, node.name
        self.operators = (node.name,)
        self.options, self.max_threads, self._debug = options, options.max_threads, options.debug
        self.program = program = Program(node, branches, options.max_threads, options.max_state, options.debug, options.policy)
        names = [one.stage.name for one in program.bound.stages]
        options.check_stages(names)
        initial, planned = options.initial(self.name), options.planned(self.name)
        handle, self._gate_kernels = gate_modules("log")
        self._sources = source_kernels("log")
        self.gate = handle.allocate(len(branches), 1, GATE_CAPACITY, bound_ns=0)
        self._gate_kernels.join_reader(self.gate, 0, 0, 1)
        self.control = control.allocate(
            program.bound, self.max_threads, options.capacity, OUTPUT_CAPACITY,
            queues=options.queues, reorder=options.reorder, tuning=options.tuning, planned=len(planned),
        )  # fmt: skip
        self.out = rings.allocate(1, OUTPUT_CAPACITY, self.control.meter)
        self.directories = allocate_directories(len(branches), len(program.columns))
        self.inlets = [self._make_inlet(number, branch) for number, branch in enumerate(branches)]
        control.write_configuration(self.control, 0, initial, names)
        for index, (at, configuration) in enumerate(planned):
            control.plan_configuration(self.control, index, at, configuration, names)
        control.activate(self.control, self.out)
        self._private = [program.private() for _ in range(self.max_threads)]
        for ring in (self.out.primary, self.out.a, self.out.b, self.out.c, self.out.at, *self.control.out):
            touch(ring)
        schedules = known_schedules(options.policy)
        self.reconfiguration = Reconfiguration(self.control, self.max_threads, initial, planned, names, schedules)
        stores = [inlet.store for inlet in self.inlets]
        self.finisher = OrderedResults(node.name, node.schema, node.event_time, program.bound, stores, program.texts)
        self.collector: Collector | None = None
        self._built: Built | None = None

    def _make_inlet(self, number: int, branch: Branch) -> GateInlet:
        program = self.program

        def make_encoder(await_keys: Callable[[list[int]], bool]) -> Encoder:
            return Encoder(
                schema=branch.schema,
                event_time=branch.event_time,
                keys=(),
                dictionary=None,
                values=list(program.columns),
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
        return [inlet.books.added for inlet in self.inlets], records_at(self, 0)

    def _arguments(self, worker: int) -> tuple:
        """What the loop of this worker is called with."""
        return worker, self.gate, self.control, self.out, self.directories, self.program.state, self._private[worker]

    # -- what a run asks of a section

    def prepare(self, consumers: Sequence[Consumer], run: RunContext, is_last: bool) -> None:
        """Compile everything, and make the collector; nothing runs yet."""
        self._run = run
        program = self.program
        self._built = Built(generate(program.bound, list(program.columns), program.policy), self.name, debug=self._debug)
        try:
            self._built.compile(self._arguments(0))
        except Exception as error:
            raise program.explain_compile_error(error, self._built.program) or error from None
        self._compile_handles()
        self.finisher.is_last = is_last
        columns = [row.reshape(1, -1) for row in self.control.out] if not program.bound.passes_input else []
        self.collector = Collector(
            self.out, columns, self.finisher, list(consumers), self.release, is_last=is_last, is_saturated=self.is_saturated
        )

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
        self.reconfiguration.compile()
        self.finisher.compile()

    def tasks(self) -> list[Task]:
        """Workers and collector."""
        workers = [Task(f"{self.name}-{worker}", self._body(worker)) for worker in range(self.max_threads)]
        return [*workers, Task(f"{self.name}-collector", self._collect)]

    def _body(self, worker: int) -> Callable[[], None]:
        arguments = self._arguments(worker)

        def body() -> None:
            assert self._built is not None
            try:
                self._built.run(*arguments)
            except Exception as error:
                raise self._explain(error, worker) from error
            if (failure := self.failure()) is not None:
                self._run.fail(failure)

        return body

    def _explain(self, error: Exception, worker: int) -> BaseException:
        """What a user function's exception in a worker means."""
        if isinstance(error, HeadraceError):
            return error
        if isinstance(error, MemoryError):
            if str(error) == NO_MEMORY:
                return OverflowInputError(f"{self.name}: outputs that wait for earlier ones take all memory there is")
            return OverflowInputError(
                f"{self.name}: the states of its stages take more than max_state={self.options.max_state} bytes; pass a larger"
                f" max_state=, or keep less in them"
            )
        return self.program.explain_exception(error, self._private[worker], self.control)

    def failure(self) -> HeadraceError | None:
        """What a worker reported, as an error."""
        if not read_cell(self.control.words, worker_kernel.FAILED):
            return None
        while read_cell(self.control.words, worker_kernel.FAILED) == 1:
            time.sleep(1e-5)  # another one was first, and is still writing what happened
        code = int(self.control.failure[worker_kernel.FAILURE_CODE])
        if code == words.NULL_KEY:
            return self.program.null_key(self.control.failure)
        if code == words.OUT_OF_ORDER:
            return self.program.out_of_order(self.control.failure)
        return RunFailedError(f"a worker failed with code {code}; please report this")

    def _collect(self) -> None:
        collector = self.collector
        assert collector is not None
        with suppress(Stopped):
            collector.run()
        if collector.finished.is_set():
            self._run.section_finished(self)

    def release(self, watermark: int) -> None:
        """Free rows whose results are out."""
        for inlet in self.inlets:
            inlet.store.release(watermark + 1 if watermark < END_OF_TIME else watermark)

    def steerable(self, operator: str) -> Reconfiguration:
        """What can be changed while it runs."""
        return self.reconfiguration

    def work_ns(self, operator: str) -> int:
        """Nanoseconds its workers have worked."""
        return int(counters(self.control.meter)[:, worker_kernel.BUSY_NS].sum())

    def spans(self, operator: str, since_ns: int, until_ns: int) -> list[spans.Span]:
        """What its workers did lately."""
        return spans.spans(self.control.meter, since_ns, until_ns)

    @property
    def active(self) -> int:
        """Workers that are active."""
        return self.reconfiguration.current.threads

    def set_spins(self, spins: int) -> None:
        """Looks of a worker that finds nothing to do, before it sleeps."""
        publish_cell(self.control.words, worker_kernel.SPIN, spins)

    @property
    def results(self) -> int:
        """Rows given so far."""
        return self.collector.rows if self.collector else 0

    def stop(self) -> None:
        """Wake and end everything that belongs to the operator."""
        worker_kernel.stop_workers(self.control)
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
        """Records in the gate, or in the first stage, at least."""
        waiting = log_records_held(self.gate, self._gate_kernels, [0])
        drained, _, tail = records_at(self, 0)
        return waiting + tail - drained

    def passed_tuples(self, members: list[int]) -> tuple[int, int, int]:
        """Tuples that the first stage has passed on."""
        passed = records_at(self, 0)[0]
        return passed, passed, passed

    def faults_at_end(self, members: list[int], added: int) -> list[str]:
        """What shows, at the end of the input, that something is missing."""
        faults = []
        for number, one in enumerate(self.program.bound.stages):
            drained, _, tail = records_at(self, number)
            if drained != tail:
                faults.append(f"{tail - drained:,} tuples are still in stage {one.stage.name}")
        return faults

    def is_saturated(self) -> bool:
        """Whether its sources wait for room just now."""
        return read_cell(self.gate.words, self._gate_kernels.SOURCES_WAITING) != 0

    def lost_wakeups(self) -> int:
        """Sleeps that only the time-out ended although the wake-up was due."""
        return read_cell(self.gate.words, LOST_WAKEUPS) + read_cell(self.out.words, rings.OUT_LOST_WAKEUPS)

    def metrics(self, operator: str, moment: Moment) -> OperatorMetrics:
        """Take a snapshot; see `measuring.measure`."""
        return measure(self, moment)


__all__ = ["OrderedSection"]
