"""How soon a busy run is over once it is stopped: from the call of `stop` until none of its threads is left.

Each engine takes rows from a source without end as fast as it can, on two threads, so that its gate and its rings are full;
`stop` comes after a different number of rows each time. A part of `headrace bench reconfigure`.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import headrace as hr
from headrace_bench.costly import WORKLOADS, with_rounds
from headrace_bench.event_window import STREAMS, WINDOW
from headrace_bench.ordered_apps import Case as Pipeline
from headrace_bench.reconfigure_engines import event_rows
from headrace_bench.rows import Row, median
from headrace_bench.wordcount import PERIOD, make_tweets

GOAL_S = 1.0
BATCH_ROWS = 4_096
LEAST_ROWS = 20_000
"""Rows that a run has taken when it is stopped: the first run; each further one has as many more."""
HANG_S = 60.0
_LOOK_S = 5e-4


class Endless:
    """A table over and over, as batches of one stream: event times go on from one cycle to the next."""

    def __init__(self, table: pa.Table):
        self.table = table

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        place = self.table.schema.get_field_index("ts")
        field = self.table.schema.field(place)
        ts = self.table["ts"].cast(pa.int64())
        span = ts[-1].as_py() - ts[0].as_py() + 1
        for cycle in itertools.count():
            moved = pc.add(ts, cycle * span).cast(field.type)
            yield from self.table.set_column(place, field, moved).to_batches(BATCH_ROWS)


def sources(rows: int) -> dict[str, Callable[[], Any]]:
    """Of each engine: how to make a query over rows without end, which are a table of `rows` over and over."""
    tweets, ledger = make_tweets(rows), WORKLOADS["sl"]
    accounts = with_rounds(ledger.table(rows), 0)
    pipeline = Pipeline("abandoned", rows, min(rows, 20_000))
    events = event_rows(rows)

    def words() -> Any:
        keyed = hr.stream(Endless(tweets), event_time="ts").key_by(word=hr.each("words"))
        return keyed.window(2 * PERIOD, PERIOD).aggregate(n=hr.count())

    return {
        "word count": words,
        "ledger": lambda: ledger.build(hr.stream(Endless(accounts), event_time="ts")),
        "pipeline": lambda: pipeline.stream_of(Endless(pipeline.table)),
        "event window": lambda: WINDOW.over(
            {("value", "barrier"): hr.streams(Endless(events), STREAMS, by="stream", tag="kind")}
        ),
    }


def stop_s(query: Any, rows: int) -> float:
    """Start a query, stop it once it has taken so many rows, and return how many seconds its threads went on."""
    before = set(threading.enumerate())
    run = query.start(threads=2, max_threads=2, sink=hr.discard())
    while run.metrics().tuples_in < rows:
        assert run.state == "running", f"the run is over after {run.metrics().tuples_in:,} rows: {run.state}"
        time.sleep(_LOOK_S)
    begin = time.perf_counter()
    run.stop()
    while left := [thread.name for thread in threading.enumerate() if thread not in before]:
        assert time.perf_counter() - begin < HANG_S, f"still there after {HANG_S:.0f} s: {left}"
        time.sleep(_LOOK_S)
    return time.perf_counter() - begin


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """Seconds for each engine: the longest of several stops."""
    rows, count = (1_000, 1) if tiny else (LEAST_ROWS, 30 if full else 10)
    made = []
    for name, query in sources(5 * rows).items():
        stop_s(query(), rows)  # compiles
        found = [stop_s(query(), rows * (1 + number)) for number in range(count)]
        note = f"from the call until its last thread is over; median {1e3 * median(found):.3g} ms"
        case = f"{name}, stop of a busy run, longest of {count}"
        made.append(Row("reconfigure", case, max(found), "s", "lower", GOAL_S, note=note))
    return made


__all__ = ["GOAL_S", "Endless", "measure", "sources", "stop_s"]
