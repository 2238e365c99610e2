"""One stateful operator at run time: gate, state, kernels, output, reconfiguration."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType

import numpy as np

from headrace.counters import LatencyHistogram, OperatorMetrics
from headrace.egress.collector import Collector
from headrace.elasticity.reconfiguration import (
    SPARE_CONFIGURATIONS,
    Configuration,
    Reconfigurer,
    write_configuration,
)
from headrace.engine.measuring import RECORDS_HELD, count_places, measure
from headrace.engine.options import Options, gate_modules
from headrace.engine.port import Port
from headrace.engine.programs import Program, program_of
from headrace.errors import HeadraceError, OverflowInputError
from headrace.gates import store as stores
from headrace.gates.membership_kernel import LOST_WAKEUPS
from headrace.gates.variants import source_kernels
from headrace.memory.atomics import CELL
from headrace.memory.bundle import numbered
from headrace.memory.cells import CACHE_LINE, HUGE_PAGE, publish_cell, read_cell, read_cells, touch
from headrace.memory.event_count import signal
from headrace.operators import build, loads, membership, output
from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.query import Branch, OperatorNode, SourceNode

OUTPUT_CAPACITY = 1 << 16
_LEAST_RECYCLED = 1 << 14
"""Fewer ids are recycled only when room is wanted."""


class Operator:
    """One stateful operator: gate, state, workers, output, reconfiguration."""

    def __init__(self, node: OperatorNode, branches: list[Branch], options: Options):
        self.node, self.name = node, node.name
        self.options = options
        self.max_threads = options.max_threads
        handle, self.kernels = gate_modules(options.gate)
        self.sources = source_kernels(options.gate)
        self.program: Program = program_of(node, branches, options)
        self.dictionary = self.program.dictionary
        self.gate = handle.allocate(
            len(branches), self._gate_readers(len(branches)), options.capacity, bound_ns=options.bound_ns
        )
        initial = options.initial(self.name)
        planned = options.planned(self.name)
        self.control = membership.allocate(
            self.max_threads, 1 + len(planned) + SPARE_CONFIGURATIONS, len(planned), len(branches)
        )
        self.out = output.allocate(self.max_threads, OUTPUT_CAPACITY, self.control.meter)
        self.directories = stores.allocate_directories(len(branches), self.program.value_columns)
        self.state = numbered(self.program.allocate(self.max_threads, OUTPUT_CAPACITY))
        self.ports = [Port(self, i, branch) for i, branch in enumerate(branches)]
        self._say_where_load_is()
        self.finisher = self.program.finisher([port.store for port in self.ports])
        self.module = self._build()
        self._activate(initial, planned)
        self._touch(initial.members)
        self._id_limit = 0
        self._ids_lock = threading.Lock()
        self._recycle_at = _LEAST_RECYCLED
        self._keeps_input = False
        self.initial, self.planned = initial, planned
        self.reconfigurer: Reconfigurer | None = None
        self.collector: Collector | None = None

    def _say_where_load_is(self) -> None:
        program = self.program
        for port in self.ports:
            how = loads.EVENLY
            if program.load_by_key:
                several = program.multi_key_of(port.branch.side)
                how = loads.SEVERAL_KEYS if several else loads.ONE_KEY
            self.control.layout[port.source] = how, port.store.width, program.load_meter

    def _touch(self, members: Sequence[int]) -> None:
        """What the first tuples and results will be written to is there before them, for those who begin."""
        out, first_output = self.out, self.program.first_output
        rings = [out.primary, out.a, out.at, *list(self.state)[first_output:]]
        if self.finisher.reads_b_and_c:
            rings += [out.b, out.c]
        for member in members:
            for ring in rings:
                touch(ring[member])
        states = self.states
        for state in states if len(states) == 1 else [states[member] for member in members]:
            for array in list(state)[:first_output]:
                if array.nbytes >= HUGE_PAGE:
                    touch(array.reshape(-1)[: CACHE_LINE // array.itemsize])

    def _build(self) -> ModuleType:
        return build.build(self.program.text(), self.options.gate, self.name, debug=self.options.debug)

    def _activate(self, initial: Configuration, planned: Sequence[tuple[int, Configuration]]) -> None:
        control = self.control
        write_configuration(control, 0, initial)
        for row, (at, configuration) in enumerate(planned, start=1):
            write_configuration(control, row, configuration)
            control.plan_at[row - 1] = at
            control.plan_config[row - 1] = row
        for member in initial.members:
            control.start_watermark[member * CELL] = MIN_TIME
            self.kernels.join_reader(self.gate, member, 0, 1)
            output.start_mark(self.out, member, self.program.first_promise, MIN_TIME)

    def arguments(self, worker: int) -> tuple:
        """What `run_instance` of this worker is called with."""
        return (
            worker,
            self.gate,
            self.control,
            self.out,
            self.directories,
            self.state,
            self.program.private(worker),
            self.program.scratch(),
        )

    def _gate_readers(self, sources: int) -> int:
        """How many may read the gate: the instances."""
        return self.max_threads

    def helpers(self) -> Iterable[tuple[str, Callable[[], None]]]:
        """Threads the operator needs beside workers and collector: (name, body)."""
        return ()

    def transfer_of(self, epoch: int) -> tuple[int, int]:
        """Bytes and nanoseconds of the state an epoch moved; nothing moves under VSN."""
        return 0, 0

    def explain(self, error: BaseException, worker: int, words: np.ndarray) -> HeadraceError | None:
        """Say what a user function's exception in a worker means; None if it was none. `words` are the worker's."""
        return self.program.explain_exception(error, words, [port.store for port in self.ports])

    def compile_handles(self) -> None:
        """Compile what Python calls while the stream runs, so that no first call waits for the compiler."""
        gate, control, out, kernels = self.gate, self.control, self.out, self.kernels
        zero = 0
        times = np.zeros(1, np.int64)
        for function, arguments in (
            (self.sources.add_or_wait, (gate, zero, times, zero, zero, zero, control.words)),
            (self.sources.heartbeat_or_wait, (gate, zero, zero, control.words)),
            (self.sources.close_or_wait, (gate, zero, control.words)),
            (kernels.control, (gate, zero)),
            (signal, (gate.words, zero, gate.event, zero)),
            (read_cell, (gate.words, zero)),
            (publish_cell, (gate.words, zero, zero)),
            (membership.watch, (control, zero, zero)),
            (membership.stop_workers, (control,)),
            (output.await_release, (out, gate.words, zero, zero)),
            (output.drained, (out, zero, zero)),
            (output.stop_output, (out,)),
        ):
            compile_now(function, arguments)
        LatencyHistogram().add(times)
        self.finisher.compile()

    def note_ids(self) -> None:
        """Publish how far key ids reach, before tuples with new ones are."""
        with self._ids_lock:  # several sources come here, and what is published must not go back
            self._note_ids(membership.BUCKETS if self.dictionary is None else self.dictionary.id_limit)

    def _note_ids(self, limit: int) -> None:
        if limit > self._id_limit:
            if limit > self.program.id_capacity:
                raise OverflowInputError(
                    f"more keys are live at once than max_keys={self.options.max_keys} allows (or their hashes"
                    f" collide): pass a larger max_keys=, or use smaller windows"
                )
            self._id_limit = limit
            publish_cell(self.control.words, membership.IDS, -(-limit // membership.BUCKETS))

    def release(self, watermark: int) -> None:
        """Free what no window can need any more."""
        if self._keeps_input:
            return
        for port in self.ports:
            port.store.release(watermark - self.program.retention)
        dictionary = self.dictionary
        if dictionary is not None and watermark < END_OF_TIME:
            # Every window that holds ts ended by ts + WS. An encoder that finds no room recycles by itself.
            dictionary.horizon = watermark - self.program.window_size + 1
            if dictionary.size > self._recycle_at:
                dictionary.recycle(dictionary.horizon)
                self._recycle_at = max(_LEAST_RECYCLED, 2 * dictionary.size)
        self.program.release(watermark)

    def keep_input(self) -> None:
        """Free no tuple of the input and no id of a key: what was encoded beforehand is read again."""
        self._keeps_input = True

    @property
    def is_stopped(self) -> bool:
        return read_cell(self.control.words, membership.STOP) != 0

    def stop(self) -> None:
        """Wake and end everything that belongs to the operator."""
        membership.stop_workers(self.control)
        output.stop_output(self.out)
        gate, kernels = self.gate, self.kernels
        signal(gate.words, kernels.READERS_WAITING, gate.event, kernels.DATA_EVENT)
        signal(gate.words, kernels.SOURCES_WAITING, gate.event, kernels.SPACE_EVENT)

    def failure(self) -> HeadraceError | None:
        """What a worker reported, as an error with the user's words."""
        words = self.control.words
        if not read_cell(words, membership.FAILED):
            return None
        while read_cell(words, membership.FAILED) == 1:
            time.sleep(1e-5)  # another worker was first, and is still writing what happened
        return self.program.explain(self.control.failure, [port.store for port in self.ports], self.state)

    # -- what is measured

    @functools.cached_property
    def source_names(self) -> list[str]:
        """A name for each source of the gate, no two alike."""
        names = []
        for port in self.ports:
            origin = port.branch.origin
            names.append(port.branch.source if isinstance(origin, SourceNode) else origin.name)
        return [name if names.count(name) == 1 else f"{name} {i}" for i, name in enumerate(names, 1)]

    @property
    def states(self) -> Sequence[tuple[np.ndarray, ...]]:
        """The states its instances work on: all on one."""
        return (self.state,)

    def records_held(self, members: list[int]) -> int:
        """Records in the gate that the slowest of its readers has yet to consume, at least."""
        return RECORDS_HELD[self.options.gate](self.gate, self.kernels, members)

    def passed_tuples(self, members: list[int]) -> tuple[int, int, int]:
        """Tuples that every instance, every reader of the gate, and any instance has passed."""
        passed = read_cells(self.control.meter, 1)[members, membership.PASSED]
        return int(passed.min()), int(passed.min()), int(passed.max())

    def work_ns(self, members: list[int], depth: int) -> int:
        """How long the slowest instance will take for the tuples it has yet to pass, as fast as it was lately."""
        return depth * int(read_cells(self.gate.cost)[members].max())

    def faults_at_end(self, members: list[int], added: int) -> list[str]:
        """What shows, at the end of the input, that some instance did not get all it should have."""
        passed = read_cells(self.control.meter, 1)[:, membership.PASSED]
        return [f"instance {r} passed {passed[r]:,} tuples of {added:,}" for r in members if passed[r] != added]

    def lost_wakeups(self) -> int:
        """Sleeps that only the time-out ended although the wake-up was due; see `source_kernel` and `output`."""
        return read_cell(self.gate.words, LOST_WAKEUPS) + read_cell(self.out.words, output.OUT_LOST_WAKEUPS)

    def state_bytes(self) -> int:
        """Memory of the window instances and the tuples that are kept; an estimate."""
        kept = sum(port.store.held_bytes for port in self.ports) if self.program.retention else 0
        return self.program.state_bytes(self._id_limit) + kept

    def live_windows(self, members: list[int]) -> int:
        """Window instances that exist; of a join, the tuples it stores."""
        states, places = self.states, self.program.places_per_key
        if places:
            return sum(count_places(state[0], self._id_limit * places) for state in states)
        return self.program.stored_tuples(states[members[0] % len(states)], members[0])

    def metrics(self, now_ns: int = 0, seconds: float = 0.0, is_finished: bool = False) -> OperatorMetrics:
        """Take a snapshot; see `measuring.measure`."""
        return measure(self, now_ns, seconds, is_finished)


def compile_now(function, arguments: tuple) -> None:
    """Compile for these arguments without running, so that no thread meets the compiler."""
    if hasattr(function, "compile"):
        from numba import typeof

        function.compile(tuple(typeof(a) for a in arguments))
