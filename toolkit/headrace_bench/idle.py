"""What an idle run costs: cores used by its threads while the source gives nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pyarrow as pa

import headrace as hr
from headrace_bench.rows import Row

POOL = 8


def _blocking(first: pa.RecordBatch, release: threading.Event) -> Iterator[pa.RecordBatch]:
    yield first
    release.wait()


def cores_used(threads: int, seconds: float) -> float:
    """Processor time per second of an idle run with `threads` of the 8 pooled instances active."""
    batch = pa.record_batch({"ts": list(range(100)), "k": [i % 10 for i in range(100)]})
    release = threading.Event()
    stream = hr.stream(_blocking(batch, release), event_time="ts").key_by("k").window(10).aggregate(n=hr.count())
    with stream.start(threads=threads, max_threads=POOL) as run:
        time.sleep(0.3)  # until the first batch is processed
        begin, used = time.perf_counter(), time.process_time()
        time.sleep(seconds)
        used = time.process_time() - used
        elapsed = time.perf_counter() - begin
        release.set()
        run.wait()
        assert run.to_arrow().num_rows == 100
    return used / elapsed


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """Cores used with all 8 instances active, and with all but one parked."""
    seconds = 10.0 if full else 3.0
    if tiny:
        seconds = 0.2
    return [
        Row("idle", f"{POOL} pooled threads, {threads} active", cores_used(threads, seconds), "cores", "lower", 0.02)
        for threads in (POOL, 1)
    ]
