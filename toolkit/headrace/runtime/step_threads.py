"""Threads that apply the stateless steps of sources: several batches at once, and the results in their order.

A reader hands a batch over and puts it (a `Job`) into its source's queue, so that the order is that of
the queue, whoever is done first; the feeder waits for the job that comes next. What a
source has under way is bounded by its queue.

STRETCH, section 2.1: a stateless operator needs no order, and so runs in any number of instances.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from headrace.memory.cells import read_cell
from headrace.runtime.feeding import Stopped

_POLL_S = 0.1
_SHARED_POLL_S = 1e-3


class Job:
    """One batch that steps are applied to.

    Parameters
    ----------
    apply : callable
    batch : pa.RecordBatch
    numbers : sequence of int
        Of its rows, among those that were read.
    """

    def __init__(self, apply: Callable[[pa.RecordBatch], pa.RecordBatch], batch: pa.RecordBatch, numbers: Sequence[int]):
        self.batch, self.numbers = batch, numbers
        self._apply, self._done = apply, threading.Event()
        self._result: pa.RecordBatch | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Apply the steps; what goes wrong is raised where the result is taken, after those before it."""
        try:
            self._result = self._apply(self.batch)
        except BaseException as error:
            self._error = error
        self._done.set()

    def waiting(self, stop_word: np.ndarray, patient: bool) -> Iterator[float]:
        """Wait until it is done, in steps that each give seconds to wait; a patient one waits in place."""
        while not self._done.wait(_POLL_S if patient else 0.0):
            if read_cell(stop_word, 0):
                raise Stopped
            yield 0.0 if patient else _SHARED_POLL_S

    def result(self) -> pa.RecordBatch:
        """Return what the steps made of it."""
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result


class StepThreads:
    """What is to be done, and the body of each of the threads that do it.

    Parameters
    ----------
    count : int
        How many threads run `work`.
    sources : int
        How many give batches, and say when they have none left.
    stop_word : int64[...]
        Word 0 is not 0 once the run is over.
    """

    def __init__(self, count: int, sources: int, stop_word: np.ndarray):
        self.count, self._stop_word = count, stop_word
        self._left, self._lock = sources, threading.Lock()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()

    def give(self, job: Job) -> Job:
        """Have it run by whoever is free."""
        self._jobs.put(job)
        return job

    def leave(self) -> None:
        """A source has given its last batch; after the last one's the threads end."""
        with self._lock:
            self._left -= 1
            is_over = self._left == 0
        for _ in range(self.count if is_over else 0):
            self._jobs.put(None)

    def work(self) -> None:
        """Run jobs until there are no more, or the run is over."""
        while not read_cell(self._stop_word, 0):
            try:
                job = self._jobs.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            if job is None:
                return
            job.run()


__all__ = ["Job", "StepThreads"]
