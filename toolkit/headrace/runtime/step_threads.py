"""Threads that apply the stateless steps of sources to several batches at once; the results keep the order of the batches.

With `AUTO` their number follows the cost of the steps (`StepCosts`). The reader of a source applies its steps itself
until they cost more than all other work on its batches; then step threads apply them, as many as it takes to keep
up with that other work, and no more than there are cores. From then on the source's feeder encodes its batches, even
if the steps become cheap and the reader applies them again: an encoder belongs to one thread.

A reader hands a batch over as a `Job` and also puts it into its source's queue, so the order is that of
the queue, whichever job is done first; the feeder waits for the next job in the queue. The
queue also bounds how many batches of a source are under way.

STRETCH, section 2.1: a stateless operator needs no order, and so can run in any number of instances.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa

from headrace.cores import usable_cores
from headrace.memory.cells import read_cell
from headrace.runtime.feeding import Stopped

_POLL_S = 0.1
_SHARED_POLL_S = 1e-3

AUTO = "auto"
"""As many threads as the steps are worth."""
HANDOVER_NS = 200_000
"""If its steps take less time than this, a batch is not worth handing over."""
_FEWEST = 3
"""Batches whose costs are noted before anything is decided."""
_KEPT = 0.75
"""Weight of the costs noted so far when those of one more batch are added."""


class StepCosts:
    """Processor time that the batches of one source cost, and how many threads their steps are worth.

    Parameters
    ----------
    most : int
        Maximum number of threads.

    Examples
    --------
    >>> costs = StepCosts(most=4)
    >>> for _ in range(3):  # milliseconds of steps beside one of reading and encoding
    ...     costs.note_rest(1_000_000)
    ...     costs.note_steps(2_500_000)
    >>> costs.threads()
    3
    """

    def __init__(self, most: int):
        self._most, self._lock = most, threading.Lock()
        self._steps = self._rest = self._batches = self._rest_now = 0.0
        self._count, self._threads = 0, 1

    def note_steps(self, ns: int) -> None:
        """Note the cost of applying the steps to a batch. Safe from any thread."""
        with self._lock:
            self._steps, self._batches = self._steps * _KEPT + ns, self._batches * _KEPT + 1
            self._rest, self._rest_now = self._rest * _KEPT + self._rest_now, 0.0
            self._count += 1

    def note_rest(self, ns: int) -> None:
        """Note the cost of reading or encoding a batch, or of a part of that. Safe from any thread."""
        with self._lock:
            self._rest_now += ns

    def threads(self) -> int:
        """How many threads are to apply the steps from the next batch on; 1: the reading thread does."""
        with self._lock:
            if self._count < _FEWEST or self._most < 2:
                return 1
            steps, rest = self._steps / self._batches, self._rest / self._batches
            is_worth = steps >= max(HANDOVER_NS, rest)
            stays = self._threads > 1 and steps >= max(HANDOVER_NS, rest) / 2
            self._threads = 1
            if is_worth or stays:
                self._threads = max(2, math.ceil(min(self._most, steps / max(1.0, rest))))
            return self._threads


class Job:
    """One batch that steps are applied to.

    Parameters
    ----------
    apply : callable
    batch : pa.RecordBatch
    numbers : sequence of int
        Numbers of its rows among those that were read.
    costs : StepCosts, optional
        Told the cost of the job.
    """

    def __init__(
        self,
        apply: Callable[[pa.RecordBatch], pa.RecordBatch],
        batch: pa.RecordBatch,
        numbers: Sequence[int],
        costs: StepCosts | None = None,
    ):
        self.batch, self.numbers, self._costs = batch, numbers, costs
        self._apply, self._done = apply, threading.Event()
        self._result: pa.RecordBatch | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Apply the steps; an error is raised where the result is taken, after the results before it."""
        begun = 0 if self._costs is None else time.thread_time_ns()
        try:
            self._result = self._apply(self.batch)
        except BaseException as error:
            self._error = error
        if self._costs is not None:
            self._costs.note_steps(time.thread_time_ns() - begun)
        self._done.set()

    def waiting(self, stop_word: np.ndarray, patient: bool) -> Iterator[float]:
        """Wait until the job is done, in steps that each yield seconds to wait; a patient caller waits in place."""
        while not self._done.wait(_POLL_S if patient else 0.0):
            if read_cell(stop_word, 0):
                raise Stopped
            yield 0.0 if patient else _SHARED_POLL_S
        if read_cell(stop_word, 0):
            raise Stopped

    def drop(self) -> None:
        """The run is over, and no thread will do it: wake the thread that waits for it."""
        self._done.set()

    def result(self) -> pa.RecordBatch:
        """Return what the steps made of it."""
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result


class StepThreads:
    """The queue of jobs, and the body of the threads that run them.

    Parameters
    ----------
    wanted : int or "auto"
        Number of threads; `AUTO`: as many as the sources ask for, at most one for each core.
    sources : int
        Number of sources that give batches and call `leave` when they have none left.
    stop_word : int64[...]
        Word 0 is not 0 once the run is over.
    start : callable
        Starts a thread, given its name and its body.
    """

    def __init__(self, wanted: int | str, sources: int, stop_word: np.ndarray, start: Callable[[str, Callable[[], None]], None]):
        self.is_auto, self._stop_word, self._start = wanted == AUTO, stop_word, start
        self.most = usable_cores() if isinstance(wanted, str) else wanted
        self.count = 0
        """Number of threads started so far."""
        self._left, self._lock = sources, threading.Lock()
        self._asked: dict[object, int] = {}
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()

        if not self.is_auto:
            self._grow(self.most)

    def ask(self, source: object, threads: int) -> None:
        """Start threads until there are as many as all sources ask for, where 1 counts as none; idle threads sleep."""
        with self._lock:
            self._asked[source] = threads if threads > 1 else 0
            self._grow(min(self.most, sum(self._asked.values())))

    def _grow(self, count: int) -> None:
        while self.count < count and not read_cell(self._stop_word, 0):
            self._start(f"steps-{self.count}", self.work)
            self.count += 1

    def give(self, job: Job) -> Job:
        """Queue a job for a free thread."""
        self._jobs.put(job)
        return job

    def leave(self) -> None:
        """A source has given its last batch; once all sources have, the threads end."""
        with self._lock:
            self._left -= 1
            ending = self.count if self._left == 0 else 0
        for _ in range(ending):
            self._jobs.put(None)

    def stop(self) -> None:
        """The run is over, as STOP says: wake the threads, and those who wait for jobs that none of them will run."""
        with suppress(queue.Empty):
            while True:
                job = self._jobs.get_nowait()
                if job is not None:
                    job.drop()
        for _ in range(self.count):
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


__all__ = ["AUTO", "Job", "StepCosts", "StepThreads"]
