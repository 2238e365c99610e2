"""An operator over data that is already encoded in its store: the engine without ingress.

Only the work of the threads is timed: one thread per source adds references to
the gate; instances read, update, expire and write results. A drain folds the
results' content and drops them, or the engine's own collector orders and builds
them (`collect=True`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.changes import Change
from headrace.egress import rings
from headrace.elastic.options import ElasticOptions
from headrace.gates.variants import put_on
from headrace.kernel import compile_now, kernel
from headrace.memory.atomics import CELL
from headrace.memory.cells import publish_cell, read_cell, read_cells
from headrace.memory.wrapped import wrapped_product, wrapped_sum
from headrace.progress import END_OF_TIME
from headrace.runtime.changes import Changes
from headrace.workers import worker_kernel
from headrace_bench import feeding_kernel
from headrace_bench.alone import Alone, store_rows

TIMEOUT_S = 300.0
_TOGETHER_NS = 10_000_000
"""Time from the start until sources with a given rate begin: by then each one's thread has started."""

_A, _B, _C = 0x1E3779B97F4A7C15, 0x3F58476D1CE4E5B9, 0x14D049BB133111EB


@kernel
def digest_one(a, b, value):
    """Hash one whole result; the hashes are summed, so the order of results does not matter."""
    mixed = wrapped_sum(wrapped_sum(wrapped_product(a, _A), wrapped_product(b, _B)), wrapped_product(value, _C))
    return wrapped_product(mixed ^ (mixed >> 29), _B)


@kernel
def digest(a, b, value):
    """The sum of `digest_one` over results."""
    total = np.int64(0)
    for i in range(a.size):
        total = wrapped_sum(total, digest_one(a[i], b[i], value[i]))
    return total


class _Counter:
    """The end of the stream: counts rows."""

    def __init__(self):
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows

    def progress(self, watermark: int) -> None:
        pass

    def close(self) -> None:
        pass


class Resident(Alone):
    """One operator whose input is encoded and stored before it starts.

    Parameters
    ----------
    stream : Stream
        Ends in one operator.
    tables : list of pa.Table
        One per source, with the rows of the stream's sources.
    threads, max_threads : int
    like : Resident, optional
        A run of the same stream and tables: its stores are used, and nothing is encoded again.
    stored : int
        Rows of each source that a join already holds when it starts: later rows
        are compared with them, but they are not fed.
    warm : int
        Rows of each source that are fed and processed before the clock starts.
    collect : bool or Consumer
        Run the engine's collector instead of dropping results: its rows are counted, or its batches given to this consumer.
    **options
        As for `start`.
    """

    def __init__(
        self,
        stream: Any,
        tables: list[pa.Table],
        threads: int,
        max_threads: int | None = None,
        *,
        like: Resident | None = None,
        stored: int = 0,
        warm: int = 0,
        collect: Any = False,
        **options: Any,
    ):
        super().__init__()
        query = stream.plan()
        node = query.output
        self.options = ElasticOptions(None, threads=threads, max_threads=max_threads or threads, **options)
        self.operator = operator = node.spec.section(node, query.branches[node.name], self.options)
        self._like = like  # keeps alive what the directories point into
        self.stored = stored
        self.warm = warm
        if like is None:
            self.ts = [store_rows(inlet, table) for inlet, table in zip(operator.inlets, tables, strict=True)]
        else:
            self.ts = like.ts
            operator.share_input(like.operator)
        operator.keep_input()
        if stored:
            operator.compiled.begin_with(operator.state, stored)
        self.enough = np.zeros(16, np.int64)
        self.results = 0
        self.digest = 0
        self.cycles = 0
        self._feeders: list[threading.Thread] = []
        self.latencies: list[np.ndarray] = []
        self.drained = threading.Event()
        self._begin = self._end = 0.0
        digest(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, self._values().dtype))  # compiles
        operator.prepare((), self, is_last=True)
        self.changes = Changes(node.name, operator.reconfiguration, self, self.workers_changed)
        self.workers_changed()
        for task in (*operator.workers(), *operator.helpers()):
            self._pool.start(task.name, task.body)
        if collect:
            self.counter = _Counter() if collect is True else collect
            operator.collect_into([self.counter])
            self._pool.start("bench-collector", self._collect)
        else:
            self._pool.start("bench-drain", self._drain)

    # -- as the run of its operator, beyond what `Alone` does

    def start_thread(self, name: str, body: Callable[[], None]) -> None:
        """Start a thread of the run."""
        self._pool.start(name, body)

    def workers_changed(self) -> None:
        """Let workers spin only if there are cores for all of them."""
        self.operator.set_spins(worker_kernel.spins_for(self.operator.active))

    # -- its results

    def _collect(self) -> None:
        collector = self.operator.collector
        collector.run()
        self.results = self.counter.rows
        if collector.finished.is_set():
            self._over()

    def _values(self) -> np.ndarray:
        """The column of results that is folded besides `a` and `b`."""
        columns = self.operator.result_columns
        return columns[0] if columns else self.operator.out.c

    def _drain(self) -> None:
        out = self.operator.out
        capacity = out.primary.shape[1]
        value = self._values()
        folded = 0
        while True:
            bound, _ = rings.await_release(out, END_OF_TIME, 5_000_000)
            now = time.monotonic_ns()
            for r in range(out.primary.shape[0]):
                tail, head = read_cell(out.tail, r * CELL), read_cell(out.head, r * CELL)
                while tail < head:
                    at = tail & (capacity - 1)
                    stop = at + min(head - tail, capacity - at)
                    self.results += stop - at
                    folded += digest(out.a[r, at:stop], out.b[r, at:stop], value[r, at:stop])
                    self.latencies.append(now - out.at[r, at:stop])
                    tail += stop - at
                    rings.drained(out, r, tail)
            self.digest = folded & (2**64 - 1)
            if read_cell(out.words, rings.OUT_STOP):
                return
            if bound == END_OF_TIME and not (read_cells(out.head) != read_cells(out.tail)).any():
                self._over()
                return

    def _over(self) -> None:
        self._end = time.perf_counter()
        self.drained.set()

    # -- what it is fed

    def start(self, batch: int = 4096, per_second: int = 0, period: int = 0, cycles: int = 0) -> None:
        """Begin to feed the rows.

        Parameters
        ----------
        batch : int
            Tuples per call of `add`.
        per_second : int
            Tuples per second of each source; 0 = as fast as the gate takes them.
        period : int
            Feed the rows in cycles, each this much later in event time; 0 = once.
            Not for joins: a stored row has one time.
        cycles : int
            Number of cycles; 0 = until `wait` is called.
        """
        if self.warm:
            self._warm_up(batch)
        self.enough[0] = cycles or np.iinfo(np.int64).max
        begin = np.zeros(1, np.int64)
        calls = self.feeding(begin, batch, per_second, period)
        for function, arguments in calls:
            compile_now(function, arguments)
        begin[0] = time.monotonic_ns() + (_TOGETHER_NS if per_second else 0)
        self._begin = time.perf_counter()
        self._feeders = [threading.Thread(target=self._feed, args=call, daemon=True) for call in calls]
        for feeder in self._feeders:
            feeder.start()

    def feeding(self, begin: np.ndarray, batch: int, per_second: int, period: int) -> list[tuple[Callable[..., Any], tuple]]:
        """For each source, the loop that feeds it, and its arguments; ``begin[0]`` will be when sources with a rate begin."""
        done, gate, stop = self.stored or self.warm, self.operator.gate, self.stop_word
        loops = put_on(feeding_kernel, self.options.gate)
        calls = []
        for source, every in enumerate(self.ts):
            ts = every[done:]
            if period:
                calls.append((loops.feed_cycles, (gate, source, ts, period, per_second, begin, 1024, self.enough, stop)))
            elif per_second:
                calls.append((loops.feed_paced, (gate, source, ts, done, per_second, begin, stop, True)))
            else:
                calls.append((loops.feed, (gate, source, ts, done, batch, 20, stop, True)))
        return calls

    def _warm_up(self, batch: int) -> None:
        """Feed the first rows of each source, and wait until all are processed but the last, which may wait for more."""
        gate, feed = self.operator.gate, put_on(feeding_kernel, self.options.gate).feed
        calls = [(gate, k, ts[: self.warm], 0, batch, 20, self.stop_word, False) for k, ts in enumerate(self.ts)]
        for arguments in calls:
            compile_now(feed, arguments)
        feeders = [threading.Thread(target=feed, args=arguments, daemon=True) for arguments in calls]
        for feeder in feeders:
            feeder.start()
        for feeder in feeders:
            feeder.join(TIMEOUT_S)
        members = list(self.operator.reconfiguration.current.members)
        limit = time.monotonic() + TIMEOUT_S
        while self.operator.passed_tuples(members)[0] < len(calls) * (self.warm - 1):
            if self._errors or time.monotonic() > limit:
                raise RuntimeError(f"the benchmark's operator did not take its first rows: {self._errors}")
            time.sleep(0.005)

    def _feed(self, function, arguments: tuple) -> None:
        self.cycles = int(function(*arguments))

    def reconfigure(self, threads: int) -> Change:
        """Ask for another number of threads. Returns when that is settled, or the run is over."""
        change = self.changes.request(threads=threads)
        while not change.is_settled and not self.drained.is_set() and not self.has_failed:
            change.wait(0.05)
        return change

    def wait(self) -> float:
        """Wait for the last result. Returns the seconds since the start, and ends all threads."""
        if self.enough[0] == np.iinfo(np.int64).max:
            publish_cell(self.enough, 0, 1)
        limit = time.monotonic() + TIMEOUT_S
        while not self.drained.wait(0.05):
            error = self._errors[0] if self._errors else self.operator.failure()
            if error is not None:
                raise RuntimeError(f"the benchmark's operator failed: {error}") from error
            if time.monotonic() > limit:
                raise RuntimeError(f"the benchmark's operator gave no result within {TIMEOUT_S:.0f} s")
        for feeder in self._feeders:  # a feeder may report its cycles a moment after the last result
            feeder.join(TIMEOUT_S)
        self.close()
        return self._end - self._begin

    def run(self, batch: int = 4096, per_second: int = 0) -> float:
        """Feed everything and wait for the last result. Returns seconds."""
        self.start(batch, per_second)
        return self.wait()

    def close(self) -> None:
        """End all threads."""
        self.changes.end("unneeded")
        self.end(self.operator)

    def meter(self, column: int) -> int:
        """Sum of a counter over the instances."""
        return int(read_cells(self.operator.arrays.meter, 1)[:, column].sum())


__all__ = ["Resident", "digest", "digest_one"]
