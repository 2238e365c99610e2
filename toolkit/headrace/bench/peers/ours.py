"""Ours, and the plain loop."""

from __future__ import annotations

import importlib.metadata

import pyarrow as pa

import headrace as hr
from headrace.bench.peers.contest import Answer, Contestant, Latency
from headrace.bench.peers.digest import Folded
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
        few = self._resident(self._folded(), [table.slice(0, 100) for table in self._work.tables])
        self._folded().write(pa.RecordBatch.from_pylist([], few.operator.finisher.schema))
        few.close()

    def load(self, work: Work) -> None:
        self._first = self._resident(self._folded(), work.tables)
        self._first.close()

    def _folded(self) -> Folded:
        return Folded(self._work.columns, self._work.is_ordered)

    def _resident(self, folded: Folded, tables: list[pa.Table]) -> Resident:
        return Resident(self._stream, tables, self.threads, like=self._first, collect=folded, mode=self.mode)

    def run(self) -> Answer:
        return self.latency(0)[0]

    def latency(self, per_second: int) -> tuple[Answer, Latency]:
        folded = self._folded()
        run = self._resident(folded, self._work.tables)
        seconds = run.run(per_second=per_second)
        summary = run.operator.collector.latency.summary()
        return Answer(seconds, folded.digest, folded.rows), Latency(summary["p50"], summary["p99"])

    def end(self) -> None:
        self._first = None
