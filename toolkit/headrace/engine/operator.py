"""One stateful operator at run time: gate, state, kernels, output, reconfiguration."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType

import numpy as np

from headrace.counters import OperatorMetrics, coefficient_of_variation
from headrace.egress.collector import Collector
from headrace.elasticity.reconfiguration import (
    SPARE_CONFIGURATIONS,
    Configuration,
    Reconfigurer,
    write_configuration,
)
from headrace.engine.options import Options, gate_modules
from headrace.engine.port import Port
from headrace.engine.programs import Program, program_of
from headrace.errors import HeadraceError, OverflowInputError
from headrace.gates import merged_log_kernel
from headrace.gates import store as stores
from headrace.memory.atomics import CELL
from headrace.memory.bundle import numbered
from headrace.memory.event_count import cancel, prepare, signal, sleep
from headrace.operators import build, loads, membership, output
from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.query import Branch, OperatorNode

OUTPUT_CAPACITY = 1 << 16


class Operator:
    """One stateful operator: gate, state, workers, output, reconfiguration."""

    def __init__(self, node: OperatorNode, branches: list[Branch], options: Options):
        self.node, self.name = node, node.name
        self.options = options
        self.max_threads = options.max_threads
        handle, self.kernels = gate_modules(options.gate)
        self.program: Program = program_of(node, branches, options)
        self.dictionary = self.program.dictionary
        self.gate = handle.allocate(
            len(branches), self.max_threads, options.capacity, bound_ns=options.bound_ns
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
        self._id_limit = 0
        self._ids_lock = threading.Lock()
        self._recycle_at = 1 << 14
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
            (kernels.add, (gate, zero, times, zero, zero, zero)),
            (kernels.heartbeat, (gate, zero, zero)),
            (kernels.close_source, (gate, zero)),
            (kernels.control, (gate, zero)),
            (prepare, (gate.words, zero, gate.event, zero)),
            (cancel, (gate.words, zero)),
            (sleep, (gate.words, zero, gate.event, zero, np.int32(0), zero)),
            (signal, (gate.words, zero, gate.event, zero)),
            (membership.watch, (control, zero, zero)),
            (membership.stop_workers, (control,)),
            (output.await_release, (out, gate.words, zero, zero)),
            (output.drained, (out, zero, zero)),
            (output.stop_output, (out,)),
        ):
            compile_now(function, arguments)

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
            self.control.words[membership.IDS] = -(-limit // membership.BUCKETS)

    def release(self, watermark: int) -> None:
        """Free what no window can need any more."""
        for port in self.ports:
            port.store.release(watermark - self.program.retention)
        dictionary = self.dictionary
        if dictionary is not None and dictionary.size > self._recycle_at and watermark < END_OF_TIME:
            # Every window that holds ts ended by ts + WS.
            dictionary.recycle(watermark - self.program.window_size + 1)
            self._recycle_at = max(1 << 14, 2 * dictionary.size)
        self.program.release(watermark)

    @property
    def is_stopped(self) -> bool:
        return bool(self.control.words[membership.STOP])

    def stop(self) -> None:
        """Wake and end everything that belongs to the operator."""
        membership.stop_workers(self.control)
        output.stop_output(self.out)
        gate, kernels = self.gate, self.kernels
        signal(gate.words, kernels.READERS_WAITING, gate.event, kernels.DATA_EVENT)
        signal(gate.words, kernels.SOURCES_WAITING, gate.event, kernels.SPACE_EVENT)

    def failure(self) -> HeadraceError | None:
        """What a worker reported, as an error with the user's words."""
        failed = self.control.words
        if not failed[membership.FAILED]:
            return None
        while failed[membership.FAILED] == 1:
            time.sleep(1e-5)  # another worker was first, and is still writing what happened
        return self.program.explain(self.control.failure, [port.store for port in self.ports], self.state)

    def depth_tuples(self, members: list[int]) -> int:
        """Tuples that the slowest of these instances has yet to read."""
        cursors = self.gate.cursor[::CELL][members]
        return max(0, int(self.gate.words[merged_log_kernel.END] - cursors.min())) if len(members) else 0

    def metrics(self) -> OperatorMetrics:
        """Take a snapshot."""
        meter = self.control.meter.copy()
        current = self.reconfigurer.current if self.reconfigurer else self.initial
        members = list(current.members)
        load = meter[:, self.program.load_meter]
        busy, wait = meter[:, membership.BUSY_NS], meter[:, membership.IDLE_NS]
        active = load[members].astype(np.float64)
        mean = active.mean() if len(active) else 0.0
        added = sum(port.added for port in self.ports)
        depth = self.depth_tuples(members)
        collector = self.collector
        total = np.maximum(busy + wait, 1)
        return OperatorMetrics(
            name=self.name,
            threads=len(members),
            max_threads=self.max_threads,
            added=added,
            processed=max(0, added - depth),
            results=collector.rows if collector else 0,
            updates=int(meter[:, membership.UPDATES].sum()),
            comparisons=int(meter[:, membership.COMPARISONS].sum()),
            watermark=collector.watermark if collector else MIN_TIME,
            depth_tuples=depth,
            live_keys=self.dictionary.size if self.dictionary is not None else 1,
            state_bytes=self.program.state_bytes(self._id_limit),
            busy_share=[float(x) for x in (busy / total)],
            load=[int(x) for x in load],
            imbalance_cv=coefficient_of_variation(active),
            imbalance_max_mean=float(active.max() / mean) if mean > 0 else 1.0,
            latency_ms=collector.latency.summary() if collector else {},
            filtered=sum(port.filtered for port in self.ports),
            null_keys=sum(port.encoder.counters.null_keys for port in self.ports),
        )


def compile_now(function, arguments: tuple) -> None:
    """Compile for these arguments without running, so that no thread meets the compiler."""
    if hasattr(function, "compile"):
        from numba import typeof

        function.compile(tuple(typeof(a) for a in arguments))
