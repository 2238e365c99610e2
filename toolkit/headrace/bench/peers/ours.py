"""Ours, and the plain loop."""

from __future__ import annotations

import importlib.metadata

import pyarrow as pa

import headrace as hr
from headrace.bench.peers.contest import Answer, Contestant, Latency
from headrace.bench.peers.workloads import Work
from headrace.bench.resident import Resident


class Loop(Contestant):
    """The least that computes the result: one compiled loop over arrays, on one thread, in no way a stream."""

    def __init__(self):
        super().__init__(f"plain loop (numba {importlib.metadata.version('numba')})", 1, "loop", "arrays")

    def load(self, work: Work) -> None:
        self._work = work

    def run(self) -> Answer:
        return Answer(*self._work.loop())


class _Kept:
    """Where the collector's batches go: results are kept, and digested when the clock has stopped."""

    def __init__(self):
        self.batches: list[pa.RecordBatch] = []
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self.rows += batch.num_rows

    def progress(self, watermark: int) -> None:
        pass

    def close(self) -> None:
        pass


class Ours(Contestant):
    """The engine: gate, instances, and the collector that orders and builds the result as Arrow batches.

    Parameters
    ----------
    threads : int
    mode : {"vsn", "sn"}
    index : bool
        False: a join compares all pairs.
    """

    def __init__(self, threads: int, mode: str = "vsn", index: bool = True):
        name = f"headrace {hr.__version__} {mode.upper()}{'' if index else ' all pairs'}"
        super().__init__(name, threads, "ours", "encoded columns")
        self.mode = mode
        self._how = {} if index else {"index": False}
        self._first: Resident | None = None

    def install(self, work: Work) -> None:
        self._work = work
        self._stream = work.query(*(hr.stream(table, event_time="ts") for table in work.tables), **self._how)

    def start(self) -> None:
        """Compile, or load what was compiled before, with a few rows."""
        self._resident(_Kept(), [table.slice(0, 100) for table in self._work.tables]).close()

    def load(self, work: Work) -> None:
        self._first = self._resident(_Kept(), work.tables)
        self._first.close()

    def _resident(self, kept: _Kept, tables: list[pa.Table]) -> Resident:
        return Resident(self._stream, tables, self.threads, like=self._first, collect=kept, mode=self.mode)

    def run(self) -> Answer:
        return self.latency(0)[0]

    def latency(self, per_second: int) -> tuple[Answer, Latency]:
        kept = _Kept()
        run = self._resident(kept, self._work.tables)
        seconds = run.run(per_second=per_second)
        found = pa.Table.from_batches(kept.batches)
        summary = run.operator.collector.latency.summary()
        return Answer(seconds, self._work.digest_of(found), kept.rows), Latency(
            summary["p50"], summary["p99"]
        )

    def end(self) -> None:
        self._first = None
