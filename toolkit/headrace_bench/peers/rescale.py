"""How long each streaming peer takes to change the parallelism of a running job from 1 to 2.

The job is the keyed aggregate at 200,000 rows a second, far below what any peer
sustains. A window ends every 50 ms, so that the first result at the new
parallelism appears soon; the time runs from the command to that result. Results are
not compared here: Flink's and Spark's sinks may see rows twice around a restart, and
our own tests compare our results under changes.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import headrace as hr
from headrace.summary import counted
from headrace_bench.peers import on_flink, on_spark
from headrace_bench.peers.contest import failure_of, say
from headrace_bench.peers.workloads import aggregate_query, keyed_rows
from headrace_bench.rows import Row, median

PER_SECOND = 200_000
PER_WINDOW = 10_000
WINDOWS = 10
CASE = "aggregate, parallelism 1 to 2 while running"
PATIENCE_S = 60.0
LONGEST_S = 30
"""Duration of our input; the run is stopped when all changes are done."""


class _Arrivals:
    """Records when our batches came."""

    def __init__(self):
        self.rows = 0
        self.last_s = 0.0
        self._more = threading.Condition()

    def write(self, batch: pa.RecordBatch) -> None:
        with self._more:
            self.rows += batch.num_rows
            self.last_s = time.perf_counter()
            self._more.notify_all()

    def await_after(self, moment_s: float) -> float:
        """Wait for a result later than a moment. Returns when it came."""
        with self._more:
            if not self._more.wait_for(lambda: self.last_s > moment_s, PATIENCE_S):
                raise RuntimeError(f"no result within {PATIENCE_S:.0f} s after the change")
            return self.last_s


def ours(mode: str, repetitions: int) -> tuple[list[float], list[float]]:
    """Milliseconds from the call to all threads in the new epoch, and to the first result after that."""
    table = keyed_rows(LONGEST_S * PER_SECOND, per_span=PER_WINDOW)
    arrivals = _Arrivals()
    stream = aggregate_query(hr.stream(table, event_time="ts"))
    complete, first = [], []
    with stream.start(threads=1, max_threads=2, mode=mode, rate=PER_SECOND, sink=arrivals.write) as run:
        arrivals.await_after(0.0)
        for _ in range(repetitions):
            for threads in (2, 1):
                begin = time.perf_counter()
                change = run.reconfigure(threads=threads)
                if not change.wait(PATIENCE_S) or change.outcome != "done":
                    raise RuntimeError(f"the change ended as {change.outcome!r}")
                came = arrivals.await_after(begin + change.ms / 1000)
                if threads == 2:
                    complete.append(change.ms)
                    first.append((came - begin) * 1000)
        run.stop()
    return complete, first


def flink(how: str, setting: str, repetitions: int, may_install: bool) -> list[float]:
    """Milliseconds of a stop with a savepoint and a restart from it, or of a change by the adaptive scheduler."""
    process = on_flink.start_process(may_install, *([setting] if setting else []))
    try:
        if setting != "adaptive":
            process.ask("rescale", how)  # a warm-up, which would not matter beside the adaptive scheduler's wait
        return [float(process.ask("rescale", how)[0]) for _ in range(repetitions)]
    finally:
        process.close()


def spark(repetitions: int) -> list[float]:
    """Milliseconds of a stop, and of a restart from the checkpoint with another number of cores."""
    on_spark.require_java()
    times = []
    for _ in range(repetitions):
        folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
        try:
            times.append(_spark_restart(folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return times


def _spark_restart(folder: Path) -> float:
    rows = keyed_rows(2 * WINDOWS * PER_WINDOW, per_span=PER_WINDOW)
    (folder / "input").mkdir()
    half = WINDOWS * PER_WINDOW
    pq.write_table(rows.slice(0, half), folder / "input" / "0.parquet")
    pq.write_table(rows.slice(half), folder / "1.parquet")
    one = on_spark.start_process(1, partitions=2)
    try:
        one.ask("begin", "aggregate", folder / "input", folder / "checkpoint")
        (folder / "1.parquet").rename(folder / "input" / "1.parquet")
        begin = time.perf_counter()
    finally:
        one.close()
    two = on_spark.start_process(2, partitions=2)
    try:
        two.ask("begin", "aggregate", folder / "input", folder / "checkpoint")
        return (time.perf_counter() - begin) * 1000
    finally:
        two.close()


def measure(repetitions: int, tiny: bool, may_install: bool = True) -> list[Row]:
    """Rows for the table, comparing ours with the fastest peer."""
    paced = f"{PER_SECOND:,} rows/s"
    in_cluster = f"{paced}; in a warm mini cluster, so no start-up of a client or a cluster is included"
    peers: list[tuple[str, str, Callable[[], list[float]]]] = [
        (
            "Flink, adaptive scheduler, tuned",
            in_cluster,
            lambda: flink("adaptive", "tuned", repetitions, may_install),
        ),
        (
            "Flink, savepoint and restart",
            in_cluster,
            lambda: flink("savepoint", "", repetitions, may_install),
        ),
    ]
    if not tiny:  # these take half a minute each time
        peers += [
            (
                "Flink, adaptive scheduler, default settings",
                paced,
                lambda: flink("adaptive", "adaptive", 1, may_install),
            ),
            ("Spark, restart", "from a checkpoint: it cannot be rescaled while it runs", lambda: spark(1)),
        ]
    rows = [_row(f"{CASE}: {name}, command to first result", times_of, note) for name, note, times_of in peers]
    values = [row for row in rows if not math.isnan(row.value)]
    best = min(values, key=lambda row: row.value) if values else None
    for mode in ("vsn", "sn"):
        found: list[list[float]] = []
        failure = failure_of(lambda m=mode, f=found: f.extend(ours(m, max(3, repetitions))))
        for i, what in enumerate(("call to all threads in the new epoch", "call to first result")):
            row = _row(f"{CASE}: headrace {mode.upper()}, {what}", lambda f=found, i=i: f[i], paced, failure)
            if i == 1 and best is not None:
                row.baseline, row.baseline_name = best.value, best.case.split(": ")[1].rpartition(",")[0]
                row.goal, row.goal_is_ratio = 1.0, True
            rows.append(row)
    return rows


def _row(case: str, times_of: Callable[[], list[float]], note: str, failure: str = "") -> Row:
    times: list[float] = []
    say(case)
    failure = failure or failure_of(lambda: times.extend(times_of()))
    value = math.nan if failure else median(times)
    note = failure or f"{counted(len(times), 'change')}; {note}"
    return Row("peers", case, value, "ms", "lower", note=note)
