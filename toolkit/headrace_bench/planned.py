"""A program over events that lie in the stores of its inputs: mailboxes and workers without ingress.

All events are encoded and stored before the clock starts. Then a thread for each input puts its events into mailboxes, as
inlets do, the workers process them, and the collector takes the results. The clock stops when the collector has handed on the
last result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.progress import END_OF_TIME
from headrace.synchronization import mailbox_kernel, words
from headrace.synchronization.options import ProgramOptions
from headrace.workers import worker_kernel
from headrace_bench.alone import Alone, store_rows

TIMEOUT_S = 300.0
_LOOK_S = 0.1
"""Time between two checks for errors."""


class Results:
    """A consumer that keeps the collector's batches."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)

    def progress(self, watermark: int) -> None:
        """Nothing to do: no thread waits for the watermark."""

    def close(self) -> None:
        """Nothing to do: the last batch has been kept."""


class Planned(Alone):
    """One run of a program.

    Parameters
    ----------
    program : Program
    inputs : dict
        As for `Program.over`, with tables: one stream each.
    **options
        As for `start`.

    Attributes
    ----------
    seconds : float
        From the first event in a mailbox to the last result at the collector's consumer.
    table : Table
        The results; `rows` gives them as a list of dicts.
    joins : int
    """

    def __init__(self, program: Any, inputs: Mapping[str, Any], **options: Any):
        query = program.over(inputs).plan()
        node = query.output
        super().__init__()
        settings = ProgramOptions(None, **{"max_threads": options.get("threads", 1), **options})
        branches = query.branches[node.name]
        self.operator = operator = node.spec.section(node, branches, settings)
        tables = [one for given in inputs.values() for one in (given if isinstance(given, list) else [given])]
        self._given = [self._stored(inlet, table) for inlet, table in zip(operator.inlets, tables, strict=True)]
        self.events = sum(len(ts) for ts, _ in self._given)
        self._results, self._heartbeat = Results(), settings.heartbeat
        operator.prepare([self._results], self, is_last=True)
        self._finished = threading.Event()

    # -- as the run of its operator

    def section_finished(self, section: Any) -> None:
        """Note that the collector has finished."""
        self._finished.set()

    def _stored(self, inlet: Any, table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """Times of the events, and the queue of each."""
        ts = store_rows(inlet, table)
        return ts, inlet.queues[inlet.tags_of(np.arange(len(ts)))].astype(np.int32)

    # -- a run

    def run(self) -> Planned:
        """Process all events, and end all threads."""
        operator, c = self.operator, self.operator.arrays
        operator.set_spins(worker_kernel.spins_for(operator.active))
        try:
            for task in operator.tasks():
                self._pool.start(task.name, task.body)
            feeders = [threading.Thread(target=self._feed, args=(number,), daemon=True) for number in range(len(self._given))]
            begin = time.perf_counter()
            for feeder in feeders:
                feeder.start()
            limit = time.monotonic() + TIMEOUT_S
            while not self._finished.wait(_LOOK_S):
                if self._errors:
                    raise self._errors[0]
                assert time.monotonic() < limit, f"the program did not come to its end within {TIMEOUT_S:.0f} s"
            self.seconds = time.perf_counter() - begin
            for feeder in feeders:
                feeder.join()
        finally:
            self.end(operator)
        self.joins = int(c.work[:, words.JOINS].sum())
        self.table = pa.Table.from_batches(self._results.batches, operator.node.schema)
        return self

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The results, as a list of dicts."""
        return self.table.to_pylist()

    def _feed(self, number: int) -> None:
        c, (ts, queues), done = self.operator.arrays, self._given[number], 0
        while done < len(ts) and not self._errors:
            arguments = (c, number, ts, queues, done, len(ts) - done, done, self._heartbeat, c.words)
            done += mailbox_kernel.add_or_wait(*arguments)
        mailbox_kernel.promise(c, number, END_OF_TIME)

    @property
    def per_second(self) -> float:
        """Events a second."""
        return self.events / self.seconds


__all__ = ["Planned"]
