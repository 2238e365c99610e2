"""What monitoring costs: throughput with ten samples a second against none, in turns.

The cost is measured twice: inside the engine, where compiled threads need no Python and a sample only reads what they write;
and from an Arrow table, where the sampling thread takes the GIL from the encoding thread. The cost of one sample is also
measured.

The time breakdown of transactions is read only in samples but counted all the time. Its cost is measured against executors that
do not read the clock (`unmetered`).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.metrics.history import History
from headrace.metrics.snapshot import Metrics
from headrace.runtime.sections import Moment
from headrace.summary import counted
from headrace.transactions.build import Built
from headrace_bench.costly import WORKLOADS
from headrace_bench.resident import Resident
from headrace_bench.rows import Row, median
from headrace_bench.transacting import Case
from headrace_bench.unmetered import Unmetered
from headrace_bench.wordcount import ADVANCE, PERIOD, SIZE, make_tweets

EVERY_S = 0.1
BATCH = 1 << 16


@contextlib.contextmanager
def _watched(resident: Resident, every_s: float | None) -> Iterator[None]:
    """Sample a resident operator in the way a run is sampled."""
    if every_s is None:
        yield
        return

    def take() -> Metrics:
        operator = resident.operator
        now = time.monotonic_ns()
        measured = operator.metrics(operator.name, Moment(now, 0.0, False))
        return Metrics("running", 0.0, 0, 0, operators={operator.name: measured}, at_ns=now)

    history, over = History(take, every_s), threading.Event()
    thread = threading.Thread(target=history.follow, args=(over,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert history.failure is None and len(history), history.failure


def _inside(n: int, cycles: int, threads: int) -> Callable[[float | None], float]:
    table = make_tweets(n)
    stream = hr.stream(table, event_time="ts").key_by(word=hr.each("words")).window(SIZE, ADVANCE)
    stream = stream.aggregate(n=hr.count())
    first = Resident(stream, [table], threads)
    first.run()

    def tuples_per_s(every_s: float | None) -> float:
        run = Resident(stream, [table], threads, like=first)
        with _watched(run, every_s):
            run.start(period=PERIOD, cycles=cycles)
            seconds = run.wait()
        assert run.cycles == cycles
        return n * cycles / seconds

    return tuples_per_s


def _from_arrow(n: int, threads: int) -> Callable[[float | None], float]:
    keys = np.random.default_rng(7).integers(0, 1000, BATCH)

    def batches() -> Iterator[pa.RecordBatch]:
        for begin in range(0, n, BATCH):
            yield pa.record_batch({"ts": np.arange(begin, begin + BATCH) // 100, "key": keys})

    def tuples_per_s(every_s: float | None) -> float:
        stream = hr.stream(batches(), event_time="ts").key_by("key").window(1000).aggregate(n=hr.count())
        with stream.start(threads=threads, sink=hr.discard(), sample_every=every_s) as run:
            run.wait()
            metrics = run.metrics()
            assert metrics.holds and metrics.operators["aggregate"].processed == metrics.tuples_in >= n
        return metrics.tuples_in / metrics.seconds

    return tuples_per_s


def _sample_us(workers: int, repetitions: int) -> float:
    """Microseconds that one sample of a run with one operator takes, at the end of the run."""
    table = pa.table({"ts": np.arange(100_000), "key": np.arange(100_000) % 1000})
    stream = hr.stream(table, event_time="ts").key_by("key").window(1000).aggregate(n=hr.count())
    with stream.start(threads=workers, max_threads=workers, sample_every=None) as run:
        run.wait()
        times = []
        for _ in range(repetitions):
            begin = time.perf_counter()
            run.history.sample()
            times.append(time.perf_counter() - begin)
    return median(times) * 1e6


def _row(case: str, per_s: Callable[[float | None], float], pairs: int) -> Row:
    """Run in pairs, one after the other, and take the median of their ratios: other work of the machine affects both."""
    per_s(None)  # compiles
    values, ratios = [], []
    for i in range(pairs):
        order = (EVERY_S, None) if i % 2 else (None, EVERY_S)
        rate = {every_s: per_s(every_s) / 1e6 for every_s in order}
        values.append(rate[EVERY_S])
        ratios.append(rate[EVERY_S] / rate[None])
    baseline = median(values) / median(ratios)
    return Row(
        "metrics",
        f"{case}, sampled {1 / EVERY_S:.0f} times a second",
        median(values),
        "M tuples/s",
        goal=0.99,
        baseline=baseline,
        baseline_name="not sampled",
        goal_is_ratio=True,
    )


def _breakdown(scheme: str, threads: int, run_ns: float, pairs: int) -> Row:
    """Throughput of trivial transactions with the time breakdown over that without it, in turns."""
    case = Case(WORKLOADS["gs"], 0, run_ns)
    rates: dict[Any, list[float]] = {Built: [], Unmetered: []}
    for i in range(pairs + 1):
        for built in list(rates)[:: -1 if i % 2 else 1]:
            rate = case.run(scheme, threads, built=built).per_second / 1e6
            if i or pairs == 1:  # the first one compiles
                rates[built].append(rate)
    ratios = [booked / bare for booked, bare in zip(rates[Built], rates[Unmetered], strict=True)]
    return Row(
        "metrics", f"time breakdown, gs, {scheme}, {counted(threads, 'thread')}", median(rates[Built]), "M events/s", goal=0.95,
        baseline=median(rates[Built]) / median(ratios), baseline_name="without it", goal_is_ratio=True,
    )  # fmt: skip


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """Throughput with samples over throughput without, as the median over pairs of runs; microseconds of one sample."""
    pairs, cycles, n = (31, 40, 60_000_000) if full else (5, 20, 30_000_000)
    if tiny:
        pairs, cycles, n = 1, 1, BATCH
    rows = []
    for threads in (1, 2):
        name = counted(threads, "thread")
        rows.append(_row(f"inside the engine, {name}", _inside(2_000 if tiny else 300_000, cycles, threads), pairs))
        rows.append(_row(f"from Arrow batches, {name}", _from_arrow(n, threads), pairs))
    for scheme, threads in (("chains", 1), ("chains", 2), ("lock", 2), ("serial", 1)):
        rows.append(_breakdown(scheme, threads, 0.0 if tiny else 30e6, 3 * pairs if pairs > 1 else 1))
    for workers in (2, 16):
        value = _sample_us(workers, 20 if tiny else 300)
        rows.append(Row("metrics", f"one sample, {workers} workers", value, "µs", "lower", 0.01 * EVERY_S * 1e6))
    return rows
