"""Q2, section 8.2 of STRETCH: an operator with two inputs that only forwards, to measure sharing and sorting alone.

Operator 15 for two sorted sources: each thread reads the merged order and forwards the positions it owns; the output
is one ordered stream again. VSN is compared with our SN, where a router for each source hands positions to private queues. Both
read a tuple's columns in place, once, in one process. So SN has an advantage here that the paper's Flink lacks, and only sharing
and sorting are compared. `headrace bench peers` compares with a system that hands tuples over.
Results are compared with the merged order by their count and by a hash over positions and times.

Throughput is measured with random event times with many ties, latency with sources whose event times advance together. Tuples are
fed by position, at a steady rate. With random times one source would be ahead in event time by hundreds of tuples, which would
wait for the other source's tuples, whatever the operator does.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.summary import counted
from headrace_bench.experiments.experiment import STRETCH_MACHINE, Experiment, Paper
from headrace_bench.experiments.figure import Figure, Line
from headrace_bench.machine import patience_for
from headrace_bench.resident import Resident
from headrace_bench.rows import Row, median

PAPER = Paper(
    "STRETCH, section 8.2, Figure 7",
    STRETCH_MACHINE,
    (
        "STRETCH's throughput decreases from approximately 120,000 to 100,000 t/s as threads are added.",
        "Flink's decreases from 40,000 to 2,000 t/s: STRETCH achieves from 3x to 50x better throughput.",
        "Flink's latency is higher than 100 ms, STRETCH's always less than 30 ms.",
    ),
)
SIDES = ("vsn", "sn")
LEAST_RATE = 20_000
"""Tuples a second for latency at low load."""


class _Order:
    """Folds the batches of a result into a hash that depends on their order."""

    def __init__(self):
        self.rows = 0
        self.hash = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self.hash = _fold(self.hash, batch["row"].to_numpy())

    def progress(self, watermark: int) -> None:
        pass

    def close(self) -> None:
        pass


def _fold(start: int, values: np.ndarray) -> int:
    """Continue the polynomial hash, modulo 2**64, of a sequence."""
    factor = 6364136223846793005
    powers = np.full(len(values), factor, np.uint64)
    if len(values):
        powers[0] = 1
        powers = np.cumprod(powers)
    total = int((values.astype(np.uint64)[::-1] * powers).sum())
    return (start * pow(factor, len(values), 2**64) + total) & (2**64 - 1)


def make_sources(n: int, seed: int = 7, *, paced: bool = False) -> tuple[list[pa.Table], int]:
    """Make two sorted sources with ties. Returns them and the hash of their merged order.

    With `paced`, tuple i of each source is at time 2 i or 2 i + 1, so that every tuple is ready by the time the other source's
    next tuple has come.
    """
    rng = np.random.default_rng(seed)
    if paced:
        times = [2 * np.arange(n // 2) + rng.integers(0, 2, n // 2) for _ in range(2)]
    else:
        times = [np.sort(rng.integers(0, n, n // 2)) for _ in range(2)]
    rows = [np.arange(len(ts)) + source * (n // 2) for source, ts in enumerate(times)]
    order = np.argsort(np.concatenate(times), kind="stable")  # ties: by source, then by position
    truth = _fold(0, np.concatenate(rows)[order])
    return [pa.table({"ts": ts, "row": row}) for ts, row in zip(times, rows, strict=True)], truth


def measure(full: bool, tiny: bool = False) -> Experiment:
    """Highest throughput, and latency at half of it and at light load, over threads."""
    n, repetitions, threads = (8_000_000, 7, (1, 2, 4, 8)) if full else (1_000_000, 3, (1, 2, 4, 8))
    if tiny:
        n, repetitions, threads = 4_000, 1, (1, 2)
    unpaced, steady, few = make_sources(n), make_sources(n, paced=True), make_sources(min(n, 2 * LEAST_RATE), paced=True)

    def run(of: tuple[list[pa.Table], int], side: str, count: int, per_second: int = 0) -> tuple[float, dict[str, float]]:
        (tables, truth), n = of, 2 * len(of[0][0])
        stream = hr.stream(tables, event_time="ts").forward()
        seen = _Order()
        case = Resident(stream, tables, count, collect=seen, mode=side)
        seconds = case.run(per_second=per_second)
        assert (seen.rows, seen.hash) == (n, truth), f"{side}, {count} threads: not the merged order"
        return n / seconds, case.operator.collector.latency.summary()

    samples: dict[tuple[str, int], list[float]] = {}
    patience = patience_for(repetitions)
    for _ in range(repetitions):
        for count in threads:
            patience.await_near(count)
            for side in SIDES:
                samples.setdefault((side, count), []).append(run(unpaced, side, count)[0])
    rates = {case: median(values) for case, values in samples.items()}
    half = {(side, k): run(steady, side, k, int(rates[side, k] / 4))[1] for side, k in rates}
    calm = {(side, k): run(few, side, k, LEAST_RATE // 2)[1] for side, k in rates}
    return _experiment(threads, rates, half, calm)


def _experiment(threads, rates, half, calm) -> Experiment:
    finished = Experiment(
        "q2",
        "Forwarding two merged streams: the cost of sharing and sorting alone",
        "Two sorted sources with many equal times, merged, forwarded by position, and put in order again. Rates count "
        "tuples of both sources. SN hands over positions, not tuples, in one process: it copies no payload. The paper's Flink "
        "does, so its figures are not comparable. Latency, from a tuple's arrival to its place in the ordered result, is taken "
        f"at half of each side's own highest rate and at {LEAST_RATE:,} tuples/s, with sources whose times advance together, so "
        "that a tuple waits at most for the next one of the other source.",
        PAPER,
    )
    for k in threads:
        case = counted(k, "thread")
        vsn, sn = rates["vsn", k] / 1e6, rates["sn", k] / 1e6
        row = Row("q2", case, vsn, "M tuples/s", goal=1.0, baseline=sn, baseline_name="SN", goal_is_ratio=True)
        finished.rows.append(row)
        for name, delays in (("half of its rate", half), (f"{LEAST_RATE:,} tuples/s", calm)):
            for q in ("p50", "p99"):
                ours, theirs = delays["vsn", k][q], delays["sn", k][q]
                row = Row("q2", f"{case}, {name}, latency {q}", ours, "ms", "lower", baseline=theirs, baseline_name="SN")
                finished.rows.append(row)
    lines = [Line(side.upper(), threads, [rates[side, k] / 1e6 for k in threads]) for side in SIDES]
    finished.figures.append(Figure("Highest throughput", "threads", "M tuples/s", lines))
    for title, delays in (("at half of the rate", half), (f"at {LEAST_RATE:,} tuples/s", calm)):
        lines = [Line(f"{s.upper()}, {q}", threads, [delays[s, k][q] for k in threads]) for s in SIDES for q in ("p50", "p99")]
        finished.figures.append(Figure(f"Latency {title}", "threads", "ms", lines, log_y=True))
    return finished
