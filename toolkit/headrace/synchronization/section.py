"""A program at run time: mailboxes, a tree of states, workers, result rings, collector.

A `headrace.runtime.sections.Section` of one operator. Its threads are `max_threads`
workers, parked unless active, and one collector.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from headrace.codegen.called import Looped
from headrace.egress import rings
from headrace.egress.collector import Consumer
from headrace.errors import (
    HeadraceError,
    NotSupportedError,
    OverflowInputError,
    ParameterError,
    RunFailedError,
)
from headrace.ingress.encode import Encoder
from headrace.ingress.store import Store, allocate_directories, directory_width
from headrace.kernel import compile_now
from headrace.memory.cells import read_cell
from headrace.memory.event_count import signal
from headrace.metrics.snapshot import OperatorMetrics
from headrace.plan.nodes import Branch, OperatorNode, SourceNode
from headrace.runtime.collected_section import CollectedSection
from headrace.runtime.sections import Moment, RunContext
from headrace.synchronization import arrays, mailbox_kernel, words
from headrace.synchronization.binding import Column
from headrace.synchronization.build import built
from headrace.synchronization.configuration import plan_configuration, write_configuration
from headrace.synchronization.cuts import ProgramCuts
from headrace.synchronization.holding import Holding
from headrace.synchronization.inlet import TAGS, MailboxInlet
from headrace.synchronization.inputs import Input, Router, read_streams, tick_inputs
from headrace.synchronization.layout import lay_out, write_plan
from headrace.synchronization.measuring import TagCounts, counted_by_queue, measure, passed_by_queue
from headrace.synchronization.optimizing import BY_RATES, make_plan
from headrace.synchronization.options import NO_HEARTBEATS, ProgramOptions, given_plan
from headrace.synchronization.plans import Plan, implementation_tags
from headrace.synchronization.reconfiguration import WAYS, Reconfiguration
from headrace.synchronization.replanning import Replanning
from headrace.synchronization.results import ProgramResults
from headrace.synchronization.states import States
from headrace.synchronization.template import STATE_FULL, generate
from headrace.synchronization.ticks import Ticker, TickInput
from headrace.synchronization.weighing import Weighing
from headrace.windows import parse_duration
from headrace.workers import worker_kernel

OUTPUT_CAPACITY = 1 << 14
COLLECTOR_REST = 10.0
"""A barrier gives one row, then its time: at thousands a second, the collector would take a core from the joining workers."""
LEAST_REST_S = 100e-6
"""An event above the leaves gives a row or two, and results are written before they are promised: without a rest the collector
was woken twice for each. With barriers behind two values, on one core: 910 -> 420 ns of all threads for each barrier on one leaf,
980 -> 750 on two; 10,000 results a second wait 0.1 ms longer at the median, 100 a second no longer."""
RATES_S = 2.0
"""Seconds over which rates are taken for a plan by rates."""


class ProgramSection(CollectedSection):
    """One program: mailboxes, tree, output, reconfiguration."""

    collector_rest = COLLECTOR_REST
    least_rest_s = LEAST_REST_S
    releases_by_place = True

    def __init__(self, node: OperatorNode, branches: list[Branch], options: ProgramOptions):
        spec: Any = node.spec
        self.node, self.name = node, node.name
        self.operators = (node.name,)
        self.options, self.max_threads, self._debug = options, options.max_threads, options.debug
        self.bound = bound = spec.bind(options.debug)
        ticks = tick_inputs(spec.program)
        self.tick_count = len(ticks)
        given = [*ticks, *(spec.inputs[branch.side] for branch in branches)]
        self.tags_by_input = [one.implementation_tags(spec.program) for one in given]
        streams = read_streams(spec.inputs, spec.program)
        self._streams = streams
        plan = self._plan_of(options.plan)
        # What updates and routing read decides the columns of a store: known before `States` makes the strings.
        columns = [one.columns(bound) for one in given]
        stored = [self._stored(one) for one in given]
        asks_texts = any(column.kind == "string" for own in columns for column in own.values())
        self.states = States(
            bound, self.max_threads, [list(own) for own in stored], [one.tags for one in given], options.max_state, asks_texts
        )
        self.compiled = self.states
        self.layout = lay_out(plan, spec.program, self.tags_by_input)
        self.passed_before = 0
        """Events that inputs brought (all but ticks), processed under earlier plans."""
        self.all_tags = implementation_tags(spec.program, streams)
        self.weighing = Weighing(self.all_tags, RATES_S)
        self.tag_counts = TagCounts(self.all_tags, self.tags_by_input)
        self.input_before = np.zeros(len(given), np.int64)
        """Events of each input processed under earlier plans."""
        initial = options.initial(self.name, plan)
        planned = options.planned(initial, self._plan_of)
        most = [len(one.tags) * arrays.MOST_NODES for one in given]
        queues = sum(map(min, most, map(len, self.tags_by_input)))
        self.arrays = arrays.allocate(
            self.max_threads, [directory_width(len(own)) for own in stored],
            [*[False] * len(ticks), *[True] * len(branches)], queues, len(bound.emits), OUTPUT_CAPACITY, len(planned),
        )  # fmt: skip
        self.work_before = np.zeros_like(self.arrays.work)
        """What nodes had done under earlier plans, by the number of the node."""
        self.holding = Holding(self.arrays)
        self.out = rings.allocate(self.max_threads + 1, OUTPUT_CAPACITY, self.arrays.meter)
        self.directories = allocate_directories(len(given), max(map(len, stored)))
        self.widths = [parse_duration(tag.every, node.unit, name) for name, tag in spec.program.periodic.items()]
        self.ticks = [self._make_ticks(number, width, stored[number]) for number, width in enumerate(self.widths)]
        stop, numbers = self.arrays.words[worker_kernel.STOP :], range(len(ticks), len(given))
        ticker = Ticker(self.arrays, self.ticks, numbers, stop) if ticks else None
        self.inlets = [
            self._make_inlet(
                number, branch, Router(given[number], bound, self.states.texts, branch.source), columns[number], stored[number],
                ticker,
            )
            for number, branch in zip(numbers, branches, strict=True)
        ]  # fmt: skip
        self._write_plan()
        write_configuration(self.arrays, 0, initial)
        for index, one in enumerate(planned):
            plan_configuration(self.arrays, index, one.at, one.configuration, one.replans)
        arrays.activate(self.arrays, self.out, options.is_ordered)
        self._private = [self.states.private() for _ in range(self.max_threads)]
        self._replanning = Replanning(self)
        self.reconfiguration = Reconfiguration(
            self.arrays, self.max_threads, initial, planned, self._plan_asked_for, self._replanning.change,
        )  # fmt: skip
        self.finisher = ProgramResults(node.schema, spec.program.emits, bound.optional, self.states.texts, options.is_ordered)
        self._cuts = ProgramCuts(self, given[len(ticks) :])
        self._held_back: list[np.ndarray | None] | None = None
        self._built: Looped | None = None

    def checkpointed(self) -> ProgramCuts | None:
        """The object that gives the state, and which rows are processed."""
        return self._cuts

    def hold_back(self, columns: list[np.ndarray | None]) -> None:
        """Begin with results that an earlier run held back."""
        self._held_back = columns

    def collect_into(self, consumers: Sequence[Consumer], is_last: bool = True) -> None:
        super().collect_into(consumers, is_last)
        assert self.collector is not None
        if self._held_back is not None:
            self.collector.hold_back(self._held_back)

    def _plan_of(self, given: Plan | str) -> Plan:
        """A valid plan: the one given, or one made for the inputs in the given way; by rates, from the latest measurements."""
        program = self.bound.program
        if isinstance(given, Plan):
            return replace(given.check(program, self._streams), program=program)
        leaves = self.options.leaves if program.can_fork else 1
        if given not in BY_RATES:
            made = make_plan(program, self._streams, leaves=leaves, by="appendix" if given == "auto" else given)
            return replace(made, by=given, program=program)
        with self.holding.lock:
            rates, costs = self.weighing.rates, self.weighing.costs
        if not any(rates.values()):
            raise ParameterError(
                f"plan={given!r}: no events came in the last {RATES_S:g} s, so there are no rates to weigh; ask again while"
                f" events come, or give 'auto'"
            )
        threads = self.reconfiguration.current.threads
        return make_plan(program, self._streams, leaves, rates, given, costs, threads)

    def _plan_asked_for(self, given: Any) -> Plan:
        """Read what `reconfigure` is given for a plan."""
        return self._plan_of(given_plan(given, WAYS))

    def _stored(self, given: Input) -> dict[str, np.dtype]:
        """The columns that the store of an input keeps."""
        found = {name: np.dtype(column.dtype) for name, column in given.columns(self.bound).items()}
        return found if given.is_single(self.bound.program) else found | {TAGS: np.dtype(np.int64)}

    def _write_plan(self) -> None:
        """Put a plan into force, with all of its state at the root."""
        write_plan(
            self.arrays, self.layout, list(self.bound.program.tags), self.bound.by_entry, self.bound.may_stay_joined
        )
        self.states.write_plan(self.layout)
        self.states.begin(self.layout)
        for inlet, route in zip(self.feeders, self.layout.routes, strict=True):
            inlet.redirect(np.array(route, np.int32))

    @property
    def feeders(self) -> list[Any]:
        """The sources of events, by the number of the input: each `TickInput`, then each `MailboxInlet` that the run feeds."""
        return [*self.ticks, *self.inlets]

    def _make_ticks(self, number: int, width: int, stored: dict[str, np.dtype]) -> TickInput:
        store = Store(stored, False, self.directories[number])
        stop = self.arrays.words[worker_kernel.STOP :]
        return TickInput(self.arrays, number, width, store, self.options.heartbeat, stop)

    def _make_inlet(
        self, number: int, branch: Branch, router: Router, columns: Mapping[str, Column], stored: dict[str, np.dtype],
        ticker: Ticker | None,
    ) -> MailboxInlet:  # fmt: skip
        texts = [name for name, column in columns.items() if column.kind == "string"]
        known: Any = {} if self.states.texts is None else dict.fromkeys(texts, self.states.texts)

        def make_encoder(await_keys: Callable[[list[int]], bool]) -> Encoder:
            return Encoder(
                schema=branch.schema, event_time=branch.event_time, keys=(), dictionary=None, values=list(columns), texts=known,
                carry=[], time_unit=branch.time_unit, window_size=max(self.widths, default=0), source=branch.source,
                await_keys=await_keys,
            )  # fmt: skip

        origin = branch.origin
        if not self.options.has_heartbeats and isinstance(origin, SourceNode) and origin.idle_after is not None:
            raise ParameterError(
                f"{branch.source}: idle_after={origin.idle_after} s passes time by heartbeats, and heartbeat={NO_HEARTBEATS!r}"
                f" says that there are none; leave one of them out"
            )
        store = Store(stored, False, self.directories[number])
        stop = self.arrays.words[worker_kernel.STOP :]
        beats = self.options.heartbeat, self.options.has_heartbeats
        return MailboxInlet(branch, self.arrays, number, store, router, make_encoder, *beats, stop, ticker)

    # -- what a run asks of a section

    @property
    def result_columns(self) -> list[np.ndarray]:
        """Columns of the results: a ring for each worker, and one that has no records."""
        return list(self.arrays.out[: len(self.bound.emits)])

    def arguments(self, worker: int) -> tuple:
        """The arguments of this worker's loop."""
        return worker, self.arrays, self.out, self.directories, self.states.bundle, self._private[worker]

    def compile_work(self) -> None:
        """Compile the program's functions, and the loop."""
        self._built = built(generate(self.bound), self.name, debug=self._debug)
        self._compile(self._built, self.arguments(0))

    def compile_handles(self) -> None:
        super().compile_handles()
        c, zero, times, queues = self.arrays, 0, np.zeros(1, np.int64), np.zeros(1, np.int32)
        add = (c, zero, times, queues, zero, zero, zero, 1)
        for function, arguments in (
            (mailbox_kernel.add, add),
            (mailbox_kernel.add_or_wait, (*add, c.words)),
            (mailbox_kernel.promise, (c, zero, zero)),
            (mailbox_kernel.first_kept, (c, zero)),
            (mailbox_kernel.release_results, (c, zero)),
            (signal, (c.words, zero, c.signals, zero)),
        ):
            compile_now(function, arguments)
        self.reconfiguration.compile()
        self._replanning.compile()
        self.holding.compile()

    def work(self, arguments: tuple) -> None:
        """Run the loop of a worker."""
        assert self._built is not None
        self._built.run(*arguments)

    def explain_exception(self, error: Exception, worker: int) -> BaseException | None:
        """Explain an exception that a user function raised in a worker."""
        if isinstance(error, HeadraceError):
            return error
        if type(error) is LookupError and self.bound.by_entry:
            tag = self.bound.tags[int(self._private[worker][words.NUMBER])].tag
            return RunFailedError(
                f"{self.name}: {tag.name}: its function makes other entries than that of the event's own {tag.by}, and all of"
                f" the state is by={tag.by!r}; let it touch its own alone (program.check() shows where), or leave by= out"
            )
        if isinstance(error, MemoryError):
            return OverflowInputError(
                f"{self.name}: {STATE_FULL} take more than max_state={self.options.max_state} bytes; pass a larger max_state=, or"
                f" keep less in them"
            )
        stores = [inlet.store for inlet in self.feeders]
        return self.states.explain_exception(error, self._private[worker], self.layout, stores)

    def explain_failure(self, reported: np.ndarray) -> HeadraceError:
        """Explain what a worker reported: nothing that users can cause."""
        return RunFailedError(f"a worker failed with code {int(reported[worker_kernel.FAILURE_CODE])}; please report this")

    def prepare(self, consumers: Sequence[Consumer], run: RunContext, is_last: bool) -> None:
        """Compile everything, and make the collector; nothing runs yet."""
        if not (is_last or self.options.is_ordered):
            raise NotSupportedError(
                f"order='none': the operator after {self.name} needs its input in the order of time; leave order= out, or let"
                f" {self.name} be the last one"
            )
        super().prepare(consumers, run, is_last)

    def release(self, watermark: int) -> None:
        """Results are released: inputs that were ahead of others may go on. The inlets free rows."""
        c = self.arrays
        if self.options.is_ordered:
            mailbox_kernel.release_results(c, self.results)

    def stop(self) -> None:
        super().stop()
        c = self.arrays
        signal(c.words, words.DATA_WAITING, c.signals, words.DATA_EVENT)
        signal(c.words, words.SPACE_WAITING, c.signals, words.SPACE_EVENT)

    def extras(self) -> dict[str, Any]:
        """The plan in force."""
        return {"plan": self.reconfiguration.current.plan}

    # -- what is measured

    def is_saturated(self) -> bool:
        """Whether its inputs wait for room just now."""
        return read_cell(self.arrays.words, words.SPACE_WAITING) != 0

    def lost_wakeups(self) -> int:
        """Sleeps that only the time-out ended although the wake-up was due; see `mailbox_kernel` and `rings`."""
        return super().lost_wakeups() + read_cell(self.arrays.words, words.LOST_WAKEUPS)

    def records_held(self, members: list[int]) -> int:
        """Events in mailboxes, at least."""
        passed = sum(passed_by_queue(self))
        return sum(counted_by_queue(self)) - passed

    def passed_tuples(self, members: list[int]) -> tuple[int, int, int]:
        """Events that are processed."""
        passed = self.passed_before + self.passed_rows()
        passed += sum(inlet.reread.passed_over for inlet in self.inlets if inlet.reread is not None)
        return passed, passed, passed

    def passed_rows(self) -> int:
        """Events processed under the plan in force that inputs brought: all but ticks."""
        queues = self.layout.queues
        return sum(passed for queue, passed in zip(queues, passed_by_queue(self), strict=True) if queue.input >= self.tick_count)

    def faults_at_end(self, members: list[int], added: int) -> list[str]:
        """Signs, at the end of the input, that something is missing."""
        waiting = sum(counted_by_queue(self)) - sum(passed_by_queue(self))
        return [f"{waiting:,} events are still in mailboxes"] if waiting else []

    def metrics(self, operator: str, moment: Moment) -> OperatorMetrics:
        """Take a snapshot; see `measuring.measure`."""
        with self.holding.lock:
            taken = measure(self, moment)
            if not moment.is_finished:
                self.weighing.add(time.monotonic(), self.reconfiguration.current.plan, taken.values)
            return taken


__all__ = ["ProgramSection"]
