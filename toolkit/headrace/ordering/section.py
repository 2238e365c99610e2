"""A pipeline at run time: gate, stages, workers, result ring, collector.

A `headrace.runtime.sections.Section` of one operator. Its threads are `max_threads`
workers, parked unless active, and one collector.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.codegen.called import Looped
from headrace.egress import rings
from headrace.egress.collector import Consumer
from headrace.errors import HeadraceError, OverflowInputError, RunFailedError
from headrace.ingress.store import Store, allocate_directories
from headrace.metrics.snapshot import OperatorMetrics
from headrace.ordering import arrays, words
from headrace.ordering.build import built
from headrace.ordering.compiled import CompiledPipeline
from headrace.ordering.configuration import plan_configuration, write_configuration
from headrace.ordering.measuring import measure, records_at
from headrace.ordering.options import OrderedOptions, known_schedules
from headrace.ordering.reconfiguration import Reconfiguration
from headrace.ordering.results import InTimeOfResults, OrderedResults
from headrace.ordering.template import generate
from headrace.ordering.work_kernel import NO_MEMORY
from headrace.plan.nodes import Branch, OperatorNode
from headrace.runtime.gate_books import log_records_held
from headrace.runtime.gate_inlet import GateInlet
from headrace.runtime.gated_section import GatedSection
from headrace.runtime.sections import Moment
from headrace.workers import worker_kernel
from headrace.workers.time_slice import shorten_time_slice

OUTPUT_CAPACITY = 1 << 16
GATE_CAPACITY = 1 << 17


class OrderedSection(GatedSection):
    """One pipeline: gate, stages, output, reconfiguration."""

    def __init__(
        self, node: OperatorNode, branches: list[Branch], options: OrderedOptions, gate_capacity: int | None = None,
        output_capacity: int | None = None,
    ):  # fmt: skip
        self.node, self.name = node, node.name
        self.operators = (node.name,)
        self.options, self.max_threads, self._debug = options, options.max_threads, options.debug
        self.compiled = compiled = CompiledPipeline(
            node, branches, options.max_threads, options.max_state, options.debug, options.policy
        )
        names = [one.stage.name for one in compiled.bound.stages]
        options.check_stages(names)
        initial, planned = options.initial(self.name), options.planned(self.name)
        self._open_gate("log", len(branches), 1, gate_capacity or GATE_CAPACITY)
        room = output_capacity or OUTPUT_CAPACITY
        self.kernels.join_reader(self.gate, 0, 0, 1)
        self.arrays = arrays.allocate(
            compiled.bound, self.max_threads, options.capacity, room,
            queues=options.queues, reorder=options.reorder, tuning=options.tuning(len(names)), planned=len(planned),
        )  # fmt: skip
        self.out = rings.allocate(1, room, self.arrays.meter)
        self.directories = allocate_directories(len(branches), len(compiled.columns))
        self.inlets = [self._make_inlet(number, branch) for number, branch in enumerate(branches)]
        write_configuration(self.arrays, 0, initial, names)
        for index, (at, configuration) in enumerate(planned):
            plan_configuration(self.arrays, index, at, configuration, names)
        arrays.activate(self.arrays, self.out)
        self._private = [compiled.private() for _ in range(self.max_threads)]
        schedules = known_schedules(options.policy)
        self.reconfiguration = Reconfiguration(self.arrays, self.max_threads, initial, planned, names, schedules)
        self.finisher = OrderedResults(
            node.name, node.schema, node.event_time, compiled.bound, self.stores, compiled.texts
        )
        self._built: Looped | None = None

    def _make_inlet(self, number: int, branch: Branch) -> GateInlet:
        compiled = self.compiled
        return self._inlet(
            number, branch, Store(compiled.columns, False, self.directories[number]), keys=(), dictionary=None,
            values=list(compiled.columns), texts=compiled.text_columns, carry=compiled.carried,
        )  # fmt: skip

    def _progress(self) -> object:
        return [inlet.books.added for inlet in self.inlets], records_at(self, 0)

    @property
    def result_columns(self) -> list[np.ndarray]:
        """The columns of the results; each has one ring, which the worker that drains the last stage writes."""
        return [] if self.compiled.bound.passes_input else [row.reshape(1, -1) for row in self.arrays.out]

    def arguments(self, worker: int) -> tuple:
        """The arguments of this worker's loop."""
        return worker, self.gate, self.arrays, self.out, self.directories, self.compiled.state, self._private[worker]

    def compile_work(self) -> None:
        """Compile the stages, as one loop."""
        compiled = self.compiled
        self._built = built(generate(compiled.bound, list(compiled.columns), compiled.policy), self.name, debug=self._debug)
        self._compile(self._built, self.arguments(0))

    def compile_handles(self) -> None:
        super().compile_handles()
        self.reconfiguration.compile()

    def collect_into(self, consumers: Sequence[Consumer], is_last: bool = True) -> None:
        self.finisher.is_last = is_last
        if not is_last and self.compiled.bound.gives_times:
            consumers = [InTimeOfResults(each, self.finisher) for each in consumers]
        super().collect_into(consumers, is_last)

    def work(self, arguments: tuple) -> None:
        """Run the loop of a worker."""
        assert self._built is not None
        shorten_time_slice()
        self._built.run(*arguments)

    def explain_exception(self, error: Exception, worker: int) -> BaseException:
        """Explain an exception that a user function raised in a worker."""
        if isinstance(error, HeadraceError):
            return error
        if isinstance(error, MemoryError):
            if str(error) == NO_MEMORY:
                fix = "emit fewer outputs for each tuple"
                if self.options.capacity > 2:
                    fix = f"pass a smaller capacity=, or {fix}"
                return OverflowInputError(
                    f"{self.name}: outputs that wait for those of earlier tuples take more than the {self.arrays.arena.nbytes:,}"
                    f" bytes that could be reserved for them. They wait for up to capacity={self.options.capacity} tuples of each"
                    f" stage: {fix}"
                )
            return self.compiled.state_full(self._private[worker], self.options.max_state)
        return self.compiled.explain_exception(error, self._private[worker], self.arrays)

    def explain_failure(self, reported: np.ndarray) -> HeadraceError:
        """Explain what a worker reported."""
        code = int(reported[worker_kernel.FAILURE_CODE])
        if code == words.NULL_KEY:
            return self.compiled.null_key(reported)
        if code == words.OUT_OF_ORDER:
            return self.compiled.out_of_order(reported)
        return RunFailedError(f"a worker failed with code {code}; please report this")

    def release(self, watermark: int) -> None:
        super().release(watermark)
        self.compiled.release(watermark, self.arrays)

    # -- what is measured

    def records_held(self, members: list[int]) -> int:
        """A lower bound of the number of records in the gate and in the first stage."""
        waiting = log_records_held(self.gate, self.kernels, [0])
        drained, _, tail = records_at(self, 0)
        return waiting + tail - drained

    def passed_tuples(self, members: list[int]) -> tuple[int, int, int]:
        """Tuples that the first stage has passed on."""
        passed = records_at(self, 0)[0]
        return passed, passed, passed

    def faults_at_end(self, members: list[int], added: int) -> list[str]:
        """Signs, at the end of the input, that something is missing."""
        faults = []
        for number, one in enumerate(self.compiled.bound.stages):
            drained, _, tail = records_at(self, number)
            if drained != tail:
                faults.append(f"{tail - drained:,} tuples are still in stage {one.stage.name}")
        return faults

    def metrics(self, operator: str, moment: Moment) -> OperatorMetrics:
        """Take a snapshot; see `measuring.measure`."""
        return measure(self, moment)


__all__ = ["OrderedSection"]
