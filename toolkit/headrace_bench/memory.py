"""Whether memory grows with the length of a stream.

Batches are made as they are read, and results are dropped; resident memory of the
process is sampled while a long stream runs. Growth is counted after the first fifth
of the stream, when every buffer has been full.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace_bench.rows import Row

BATCH = 1 << 16
WARM = 0.2
KEYS = 1000


def resident_mib() -> float:
    """Resident memory of this process, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class _Sampler:
    """Batches of a stream of `total` tuples; records resident memory on the way."""

    def __init__(self, total: int, make_keys: Callable[[np.ndarray], np.ndarray]):
        self.total, self.make_keys = total, make_keys
        self.samples: list[tuple[int, float]] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        every = max(1, self.total // BATCH // 100)
        for number, start in enumerate(range(0, self.total, BATCH)):
            ts = np.arange(start, min(start + BATCH, self.total))
            if number % every == 0:
                self.samples.append((start, resident_mib()))
            yield pa.record_batch({"ts": ts, "k": self.make_keys(ts)})
        self.samples.append((self.total, resident_mib()))

    @property
    def growth(self) -> float:
        """Largest resident memory after the first fifth, less the largest in it."""
        warm = max(mib for at, mib in self.samples if at <= WARM * self.total)
        return max(0.0, max(mib for at, mib in self.samples if at > WARM * self.total) - warm)


def _run(total: int, make_keys: Callable[[np.ndarray], np.ndarray], window: int) -> tuple[_Sampler, int]:
    sampler = _Sampler(total, make_keys)
    stream = hr.stream(iter(sampler), event_time="ts").key_by("k").window(window).aggregate(n=hr.count())
    counted = np.zeros(2, np.int64)

    def add_up(batch: pa.RecordBatch) -> None:
        counted[0] += batch.num_rows
        counted[1] += int(batch.column(2).to_numpy().sum())

    with stream.start(threads=1, sink=add_up) as run:
        run.wait()
    assert counted[1] == total, f"{counted[1]} of {total} tuples are counted"
    return sampler, int(counted[0])


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """Growth of resident memory in MiB: with the same keys throughout, and with keys that come and go."""
    total = 1_000_000_000 if full else 100_000_000
    if tiny:
        total = 1_000_000
    window = 1_000_000 if not tiny else 100_000
    rows = []
    sampler, results = _run(total, lambda ts: ts % KEYS, window)
    assert results == KEYS * -(-total // window)
    case = f"{total:,} tuples, {KEYS:,} keys"
    rows.append(Row("memory", f"{case}, growth of resident memory", sampler.growth, "MiB", "lower", 32.0))
    rows.append(Row("memory", f"{case}, resident memory at the end", sampler.samples[-1][1], "MiB", "lower"))
    total //= 5
    sampler, results = _run(total, lambda ts: ts // 50, window)
    assert results == sum(
        len(np.unique(np.arange(start, min(total, start + window), 50) // 50)) for start in range(0, total, window)
    )
    rows.append(Row("memory", f"{total:,} tuples, {total // 50:,} keys that come and go, growth of resident memory",
                    sampler.growth, "MiB", "lower", 32.0))
    return rows
