"""How long changes of transactions, ordered pipelines and programs take: from the call to the last thread that follows it.

Changes are measured through the public interface, at half of the rate that one thread sustains: threads go from one to two and
back, and the engine's other control (`scheme`, `schedule`) alternates between two values; for changes of a program's plan see
`dgs_latency`. For transactions a change takes effect at the next punctuation, which comes when a batch is full or has waited for
`max_delay`; the duration of a batch at this rate is reported, too. The results of every run must be those of one thread.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.errors import RunStoppedError
from headrace_bench.costly import WORKLOADS, with_rounds
from headrace_bench.event_window import STREAMS, WINDOW
from headrace_bench.ordered_apps import Case as Pipeline
from headrace_bench.rows import Row
from headrace_bench.transacting import PUNCTUATION

GOAL_MS = 1.0
GAP_S = 0.003
MAX_RUNS = 60
BETWEEN = 1_000
"""Values of the event window between two barriers."""


class Engine(NamedTuple):
    """A query of an engine, its rows, and the changes made while it runs."""

    name: str
    stream: hr.Stream
    rows: int
    requests: tuple[tuple[str, tuple[dict[str, Any], dict[str, Any]]], ...]
    """Of each control: its name, and the two requests that take turns."""
    batch: int = 0
    """Events between two points where a change may take effect; 0: anywhere."""

    def start(self, **options: Any) -> Any:
        """Start the query from its first row."""
        return self.stream.start(max_threads=2, **options)


def event_rows(rows: int) -> pa.Table:
    """Values of the event window and its barriers."""
    at = np.arange(rows)
    barrier = at % (BETWEEN + 1) == BETWEEN
    return pa.table({
        "ts": at, "x": at % 100, "rounds": np.zeros(rows, np.int64), "stream": at % STREAMS,
        "kind": np.where(barrier, "barrier", "value"),
    })  # fmt: skip


def window(rows: int) -> hr.Stream:
    """The event window, its streams and barriers in one table."""
    return WINDOW.over({("value", "barrier"): hr.streams(event_rows(rows), STREAMS, by="stream", tag="kind")})


def engines(rows: int) -> list[Engine]:
    """The ledger, the pipeline of abandoned sessions, and the event window on two leaves."""
    threads = ("threads", ({"threads": 2}, {"threads": 1}))
    ledger = WORKLOADS["sl"]
    events = hr.stream(with_rounds(ledger.table(rows), 0), event_time="ts")
    scheme = ("scheme", ({"scheme": "lock"}, {"scheme": "chains"}))
    pipeline = Pipeline("abandoned", rows, min(rows, 20_000))
    schedule = ("schedule", ({"schedule": "lp"}, {"schedule": "ct"}))
    return [
        Engine("ledger", ledger.build(events), rows, (threads, scheme), PUNCTUATION),
        Engine("pipeline", pipeline.stream_of(pipeline.table), pipeline.table.num_rows, (threads, schedule)),
        Engine("event window", window(rows), rows, (threads,)),
    ]


def alternate(
    engine: Engine, requests: tuple[dict[str, Any], dict[str, Any]], count: int, rate: float, expected: pa.Table
) -> list[float]:
    """Alternate between two configurations until there are `count` changes. Returns milliseconds from call to completion."""
    times: list[float] = []
    for _ in range(MAX_RUNS):
        with engine.start(threads=1, rate=rate) as run:
            number = 0
            while len(times) < count:
                time.sleep(GAP_S)
                try:
                    change = run.reconfigure(**requests[number % 2])
                except RunStoppedError:
                    break  # the input is over
                change.wait()
                if change.outcome != "done":
                    break  # the run ended meanwhile
                times.append(change.ms)
                number += 1
            run.wait()
            assert run.to_arrow().equals(expected), f"{engine.name}: other results than without changes"
        if len(times) >= count:
            break
    return times


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """Milliseconds, p50 and p99, for each engine and control."""
    rows, count = (2_000_000, 120) if full else (400_000, 30)
    if tiny:
        rows, count = 20_000, 2
    made = []
    for engine in engines(rows):
        with engine.start(threads=1) as run:  # compiles
            run.wait()
        begun = time.perf_counter()
        with engine.start(threads=1) as run:
            run.wait()
            expected = run.to_arrow()
        rate = engine.rows / (time.perf_counter() - begun) / 2
        note = f"a batch of {engine.batch} takes {1e3 * engine.batch / rate:.2g} ms" if engine.batch else ""
        for control, requests in engine.requests:
            times = alternate(engine, requests, count, rate, expected)
            p50, p99 = np.percentile(times or [np.nan], (50, 99)).tolist()
            name = f"{engine.name}, half load ({rate / 1e6:.2g} M events/s), {control}"
            made.append(Row("reconfigure", f"{name}, p50 of {len(times)}", p50, "ms", "lower", GOAL_MS, note=note))
            made.append(Row("reconfigure", f"{name}, p99", p99, "ms", "lower", note=note))
    return made
