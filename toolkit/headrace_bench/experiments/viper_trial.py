"""One run of one side: its threads, its result, and its cost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headrace.gates import channels, merged_log, merged_log_kernel
from headrace.gates.channels_kernel import Merged
from headrace.kernel import compile_now
from headrace.memory.cells import padded_cells, publish_cell
from headrace.workers.pool import WorkerPool
from headrace_bench.experiments import viper_channel_kernel, viper_operators_kernel, viper_readers_kernel
from headrace_bench.experiments.viper_energy import EnergyCounters
from headrace_bench.experiments.viper_kernel import BATCH, CAPACITY, READ
from headrace_bench.experiments.viper_roads import Roads

TIMEOUT_S = 120.0
STOP_S = 10.0

Call = tuple[str, Callable, tuple]
"""Name, kernel and arguments of one thread."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Attributes
    ----------
    ended : int64[sinks, 2]
        Hash and number of the results of each sink.
    seconds, cpu_s : float
        Time from the first tuple to the end of the last thread; processor time of all threads.
    joules : float
        NaN if there are no counters.
    waits_us : float64[results]
        From injection to arrival, for the last three quarters of each sink's results: earlier, threads may still
        be starting. Empty unless latencies are kept.
    """

    ended: np.ndarray
    seconds: float
    cpu_s: float
    joules: float
    waits_us: np.ndarray


def channel_calls(
    roads: Roads, operator: int, per_second: int, waits: list[np.ndarray], ended, stop, batch: int = BATCH
) -> list[Call]:
    """Threads of determinism in a shared gate (STRETCH's TB): one for each injector, instance and sink."""
    before = _gate(roads.injectors, roads.instances)
    after = _gate(roads.instances, roads.instances)
    calls: list[Call] = []
    clock = padded_cells(1)
    for s, (ts, order) in enumerate(zip(roads.ts, roads.order, strict=True)):
        calls.append((f"injector-{s}", viper_channel_kernel.inject, (before, s, ts, order, clock, per_second, batch, stop)))
    for k in range(roads.instances):
        calls.append((f"instance-{k}", viper_channel_kernel.operate, (before, after, roads.work, operator, k, stop)))
        calls.append((f"sink-{k}", viper_channel_kernel.receive, (after, roads.work, k, waits[k], ended, stop)))
    return calls


def _gate(sources: int, readers: int):
    arrays = merged_log.allocate(sources, readers, CAPACITY)
    for reader in range(readers):
        merged_log_kernel.join_reader(arrays, reader, 0, 1)
    for array in arrays:
        array[...] = array  # touch its pages now
    return arrays


def operator_calls(
    roads: Roads, operator: int, per_second: int, waits: list[np.ndarray], ended, stop, batch: int = BATCH
) -> list[Call]:
    """Threads of determinism in the operator layer: those of the channel's side, and one for each merge operator."""
    injectors, instances, work = roads.injectors, roads.instances, roads.work
    layout = Layout(injectors, instances)
    q, chunk = layout.queues, min(READ, layout.capacity // 4)
    calls: list[Call] = []

    def merge(first: int, inputs: int, to: int, name: str) -> None:
        thread = len(calls)
        layout.reads(thread, range(first, first + inputs))
        layout.writes(thread, [to])
        calls.append((name, viper_operators_kernel.merge, (q, layout.merged(first, inputs, to), first, to, thread, chunk, stop)))

    clock = padded_cells(1)
    for s, (ts, order) in enumerate(zip(roads.ts, roads.order, strict=True)):
        layout.writes(len(calls), range(s, injectors * instances, injectors))
        arguments = (q, work, s, ts, order, clock, len(calls), injectors, per_second, batch, stop)
        calls.append((f"injector-{s}", viper_operators_kernel.inject, arguments))
    for k in range(instances):
        queue = k * injectors
        if injectors > 1:
            merge(queue, injectors, layout.to_instance + k, f"merge-{k}")
            queue = layout.to_instance + k
        first = layout.from_instance
        layout.reads(len(calls), [queue])
        layout.writes(len(calls), range(first + k, first + instances * instances, instances))
        arguments = (q, work, operator, k, queue, first, len(calls), chunk, stop)
        calls.append((f"instance-{k}", viper_operators_kernel.operate, arguments))
    for s in range(instances):
        queue = layout.from_instance + s * instances
        if instances > 1:
            merge(queue, instances, layout.to_sink + s, f"merge-sink-{s}")
            queue = layout.to_sink + s
        layout.reads(len(calls), [queue])
        arguments = (q, work, s, queue, len(calls), chunk, waits[s], ended, stop)
        calls.append((f"sink-{s}", viper_operators_kernel.receive, arguments))
    return calls


def reader_calls(
    roads: Roads, operator: int, per_second: int, waits: list[np.ndarray], ended, stop, batch: int = BATCH
) -> list[Call]:
    """Threads of determinism in a channel for each reader: one for each injector, instance and sink; readers merge."""
    injectors, instances, work = roads.injectors, roads.instances, roads.work
    layout = Layout(injectors, instances)
    q, chunk = layout.queues, min(READ, layout.capacity // 4)
    calls: list[Call] = []

    def own(before: int, inputs: int, to: int) -> tuple[int, tuple]:
        """Declare the next thread's queues. Returns the queue it reads, and the merge's arguments if it merges."""
        thread = len(calls)
        layout.reads(thread, range(before, before + inputs))
        if inputs == 1:
            return before, ()
        layout.reads(thread, [to])
        layout.writes(thread, [to])
        return to, (layout.merged(before, inputs, to), before)

    clock = padded_cells(1)
    for s, (ts, order) in enumerate(zip(roads.ts, roads.order, strict=True)):
        layout.writes(len(calls), range(s, injectors * instances, injectors))
        arguments = (q, work, s, ts, order, clock, len(calls), injectors, per_second, batch, stop)
        calls.append((f"injector-{s}", viper_operators_kernel.inject, arguments))
    first = layout.from_instance
    for k in range(instances):
        queue, merging = own(k * injectors, injectors, layout.to_instance + k)
        kernel = viper_readers_kernel.operate if merging else viper_operators_kernel.operate
        layout.writes(len(calls), range(first + k, first + instances * instances, instances))
        calls.append((f"instance-{k}", kernel, (q, *merging, work, operator, k, queue, first, len(calls), chunk, stop)))
    for s in range(instances):
        queue, merging = own(first + s * instances, instances, layout.to_sink + s)
        kernel = viper_readers_kernel.receive if merging else viper_operators_kernel.receive
        calls.append((f"sink-{s}", kernel, (q, *merging, work, s, queue, len(calls), chunk, waits[s], ended, stop)))
    return calls


class Layout:
    """The numbers of the queues: injector s -> instance k is ``k * injectors + s``; the other stages follow.

    Together, a writer's queues hold at least as many tuples as its ring at the gate.
    """

    def __init__(self, injectors: int, instances: int):
        self.to_instance = injectors * instances
        self.from_instance = self.to_instance + instances
        self.to_sink = self.from_instance + instances * instances
        count = self.to_sink + instances
        threads = injectors + 4 * instances
        self.capacity = merged_log.power_of_two_at_least(CAPACITY // instances)
        self.queues = channels.allocate(count, threads, self.capacity)

    def reads(self, thread: int, queues) -> None:
        self.queues.reader[list(queues)] = thread

    def writes(self, thread: int, queues) -> None:
        self.queues.writer[list(queues)] = thread

    def merged(self, first: int, inputs: int, to: int) -> Merged:
        return channels.merged(self.queues, first, inputs, to)


SIDES: dict[str, Callable[..., list[Call]]] = {
    "readers": reader_calls, "channel": channel_calls, "operators": operator_calls,
}  # fmt: skip


def run(
    side: str, roads: Roads, operator: int, per_second: int = 0, results: np.ndarray | None = None, batch: int = BATCH
) -> Outcome:
    """Run one side to its end.

    Parameters
    ----------
    side : {"readers", "channel", "operators"}
    roads : Roads
    operator : int
        POS_REP or NEW_SEG.
    per_second : int
        Tuples per second of all injectors together; 0 = as fast as they are taken.
    results : int64[sinks], optional
        Number of results of each sink; if given, their latencies are kept.
    batch : int
        Most tuples that an injector hands over at once.

    Raises
    ------
    RuntimeError
        If a thread fails, or the run takes more than two minutes. All threads are then stopped and waited for.
    """
    roads.reset()
    waits = [np.zeros(n, np.int64) for n in (results if results is not None else [0] * roads.instances)]
    ended = np.full((roads.instances, 2), -1)
    stop = padded_cells(1)
    calls = SIDES[side](roads, operator, per_second, waits, ended, stop, batch)
    seconds, cpu_s, joules = run_threads(calls, stop)
    settled = [each[each.size // 4 :] for each in waits]
    return Outcome(ended, seconds, cpu_s, joules, np.concatenate(settled) / 1e3)


def run_threads(calls: list[Call], stop: np.ndarray, timeout_s: float = TIMEOUT_S) -> tuple[float, float, float]:
    """Run all calls, each on its own thread, starting together. Returns seconds, CPU seconds and joules."""
    for _, function, arguments in calls:
        compile_now(function, arguments)
    errors: list[BaseException] = []
    together = threading.Barrier(len(calls) + 1)
    cpu = np.zeros(len(calls))

    def note(error: BaseException) -> None:
        errors.append(error)
        publish_cell(stop, 0, 1)
        together.abort()

    def body(i: int, function: Callable, arguments: tuple) -> None:
        together.wait()
        begin = time.thread_time()
        function(*arguments)
        cpu[i] = time.thread_time() - begin

    pool = WorkerPool(note)
    energy = EnergyCounters()
    try:
        for i, (name, function, arguments) in enumerate(calls):
            pool.start(f"viper-{name}", lambda i=i, f=function, a=arguments: body(i, f, a))
        before = energy.read()
        together.wait(STOP_S)
        begin = time.perf_counter()
        left = pool.wait(timeout_s)
        seconds = time.perf_counter() - begin
        joules = energy.joules_since(before)
    except threading.BrokenBarrierError:
        left, seconds, joules = [], 0.0, 0.0
    finally:
        publish_cell(stop, 0, 1)
        together.abort()
        running = pool.wait(STOP_S)
    if errors or left or running:
        broken = [error for error in errors if not isinstance(error, threading.BrokenBarrierError)]
        raise RuntimeError(f"a thread failed: {broken or errors}; too slow or hanging: {left}; not ended: {running}")
    return seconds, float(cpu.sum()), joules

