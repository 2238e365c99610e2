"""The gate alone, the tuple buffer of STRETCH: tuples a second to each reader, and the time from `add` to `get`.

Every reader folds the tuples it reads into a hash that depends on their order; it
must equal the hash of the merged input, sorted by (ts, source, position). Sources add
batches of 128. The baseline is one thread that copies the same columns through
a buffer of the gate's capacity and folds them, without merging or sharing.
"""

from __future__ import annotations

import os
import threading
import time
from types import ModuleType

import numpy as np

from headrace.errors import ParameterError
from headrace.gates import gate_modules
from headrace.gates.variants import put_on
from headrace.kernel import compile_now, kernel
from headrace.memory.cells import publish_cell
from headrace.memory.wrapped import wrapped_product, wrapped_sum
from headrace.references import SOURCE_SHIFT
from headrace_bench import feeding_kernel
from headrace_bench.feeding_kernel import FACTOR
from headrace_bench.rows import Row, median

SHAPES = ((1, 1), (2, 2), (4, 4))
BATCH = 128
CAPACITY = 1 << 14
GOALS = {"log": (150, 90, 50), "scalegate": (30, 30, 20)}
TICK_NS = 200_000


@kernel
def fold(ts, refs):
    """The hash that a reader computes from the records in this order."""
    folded = np.int64(0)
    for i in range(ts.size):
        folded = wrapped_sum(wrapped_product(folded, FACTOR), ts[i] ^ refs[i])
    return folded


@kernel
def copy_loop(ts, first_ref, batch, out_ts, out_ref, out_at):
    """Copy through a ring and fold, batch by batch, on one thread."""
    mask = out_ts.size - 1
    folded = np.int64(0)
    for start in range(0, ts.size, batch):
        stop = min(ts.size, start + batch)
        for i in range(start, stop):
            slot = i & mask
            out_ts[slot] = ts[i]
            out_ref[slot] = first_ref + i
            out_at[slot] = start
        for i in range(start, stop):
            slot = i & mask
            folded = wrapped_sum(wrapped_product(folded, FACTOR), out_ts[slot] ^ out_ref[slot])
    return folded


def make_times(sources: int, total: int) -> list[np.ndarray]:
    """Sorted times of each source; the times of different sources interleave."""
    rng = np.random.default_rng(1)
    return [np.cumsum(rng.integers(1, 2 * sources, total // sources)) for _ in range(sources)]


def expected_fold(times: list[np.ndarray]) -> int:
    """The hash of the merged order, computed by sorting."""
    ts = np.concatenate(times)
    source = np.concatenate([np.full(len(t), s) for s, t in enumerate(times)])
    rows = np.concatenate([np.arange(len(t)) for t in times])
    order = np.lexsort((rows, source, ts))
    return int(fold(ts[order], (source[order] << SOURCE_SHIFT) | rows[order]))


class _Trial:
    """A gate with its sources' and readers' threads."""

    def __init__(self, gate: str, loops: ModuleType, sources: int, readers: int):
        handle, kernels = gate_modules(gate)
        self.arrays = handle.allocate(sources, readers, CAPACITY)
        for reader in range(readers):
            kernels.join_reader(self.arrays, reader, 0, 1)
        for array in self.arrays:
            array[...] = array  # touch its pages now
        self.loops = loops
        self.stop = np.zeros(16, np.int64)
        self.out = np.zeros((readers, 2), np.int64)
        self.spins = 200 if sources + readers <= (os.cpu_count() or 1) else 0
        self.waits = [np.zeros(0, np.int64)] * readers
        self.sources, self.readers = sources, readers

    def run(self, source_function, source_arguments: list[tuple]) -> float:
        """Seconds from start to the last reader's end."""
        calls = [(source_function, (self.arrays, s, *a, self.stop)) for s, a in enumerate(source_arguments)]
        if source_function is self.loops.feed:
            calls = [(f, (*a, True)) for f, a in calls]
        calls += [
            (self.loops.read_all, (self.arrays, r, self.spins, self.waits[r], self.out, self.stop))
            for r in range(self.readers)
        ]
        for function, arguments in calls:
            compile_now(function, arguments)
        threads = [threading.Thread(target=f, args=a, daemon=True) for f, a in calls]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        seconds = time.perf_counter() - begin
        publish_cell(self.stop, 0, 1)
        return seconds


def throughput(gate: str, loops: ModuleType, times: list[np.ndarray], readers: int, expected: int) -> float:
    """Tuples per second to each reader in one run; the order is checked."""
    trial = _Trial(gate, loops, len(times), readers)
    seconds = trial.run(loops.feed, [(ts, 0, BATCH, trial.spins) for ts in times])
    total = sum(len(ts) for ts in times)
    assert (trial.out == (expected, total)).all(), f"{gate}: readers saw another order or number of tuples"
    return total / seconds


def latencies(gate: str, loops: ModuleType, sources: int, readers: int, ticks: int) -> np.ndarray:
    """Microseconds from `add` to each reader, with one tuple from each source every 200 µs."""
    trial = _Trial(gate, loops, sources, readers)
    trial.spins = 0
    trial.waits = [np.zeros(sources * ticks, np.int64) for _ in range(readers)]
    begin = time.monotonic_ns() + 20_000_000
    trial.run(loops.feed_ticks, [(ticks, TICK_NS, begin)] * sources)
    ts = np.repeat(np.arange(ticks), sources)
    refs = (np.tile(np.arange(sources), ticks) << SOURCE_SHIFT) | ts
    assert (trial.out == (int(fold(ts, refs)), sources * ticks)).all(), f"{gate}: readers saw another order"
    return np.concatenate(trial.waits) / 1000


def gates() -> list[tuple[str, ModuleType]]:
    """The available gates, each with the feeding loops compiled for it."""
    found = []
    for gate in GOALS:
        try:
            gate_modules(gate)
        except (ImportError, ParameterError):
            continue
        found.append((gate, put_on(feeding_kernel, gate)))
    return found


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """M tuples/s to each reader, then latency."""
    total, repetitions, ticks = (20_000_000, 15, 20_000) if full else (4_000_000, 9, 5_000)
    if tiny:
        total, repetitions, ticks = 20_000, 1, 50
    rows = []
    ring = [np.zeros(CAPACITY, np.int64) for _ in range(3)]
    inputs = [(sources, readers, make_times(sources, total)) for sources, readers in SHAPES]
    expected = [expected_fold(times) for _, _, times in inputs]
    single = inputs[0][2][0]
    assert copy_loop(single, 0, BATCH, *ring) == expected[0]
    plain = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        copy_loop(single, 0, BATCH, *ring)
        plain.append(single.size / (time.perf_counter() - begin) / 1e6)
    base = median(plain)
    rows.append(Row("gate", "plain copy loop, 1 thread", base, "M tuples/s"))
    for gate, loops in gates():
        for (sources, readers, times), hashed, goal in zip(inputs, expected, GOALS[gate], strict=True):
            throughput(gate, loops, [t[:1000] for t in times], readers, expected_fold([t[:1000] for t in times]))
            values = [throughput(gate, loops, times, readers, hashed) / 1e6 for _ in range(repetitions)]
            case = f"{gate}, {sources}x{readers}, to each reader"
            rows.append(Row("gate", case, median(values), "M tuples/s", "higher", goal, base, "plain copy loop"))
        for sources, readers, goal_p50, goal_p99 in ((1, 1, 60, 300), (2, 4, None, 3000)):
            waits = latencies(gate, loops, sources, readers, ticks)
            name = f"{gate}, add to get, {sources}x{readers}, every 200 µs"
            p50, p99 = np.percentile(waits, (50, 99))
            rows.append(Row("gate", f"{name}, p50", float(p50), "µs", "lower", goal_p50))
            rows.append(Row("gate", f"{name}, p99", float(p99), "µs", "lower", goal_p99))
    return rows
