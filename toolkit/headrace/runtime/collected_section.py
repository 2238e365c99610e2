"""A section of one operator whose workers write results into rings, from which a collector passes them on.

An engine's section implements what is declared here without a body: its memory, its worker loop, its error texts and
its metrics. Threads, collector, failures and the end of the run are the same for every engine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np

from headrace.egress import rings
from headrace.egress.collector import REST, Collector, Consumer
from headrace.errors import HeadraceError
from headrace.kernel import compile_now
from headrace.memory.cells import publish_cell, read_cell
from headrace.metrics.latency import LatencyHistogram
from headrace.runtime.feeding import Stopped
from headrace.runtime.sections import RunContext, Section, Task
from headrace.workers import spans, worker_kernel
from headrace.workers.spans import counters

_MOMENT_S = 1e-5


class CollectedSection(Section, Protocol):
    """A section of one operator: workers, result rings, a collector."""

    name: str
    max_threads: int
    compiled: Any
    """What the operator computes; explains the compiler's errors about it."""
    arrays: Any
    """The arrays that the workers share: `words`, `event`, `meter`, `failure`, as in `worker_kernel`."""
    out: Any
    """`rings.OutArrays`; where results are passed on, what its kernels know."""
    reconfiguration: Any
    """What can be changed while it runs."""
    finisher: Any
    """What turns result records into rows."""
    result_lists: Sequence[tuple[int, int]] = ()
    """Pairs of result columns that hold lists, as in `Collector`."""
    collector_rest: float = REST
    """How long the collector rests while sources wait for room; see `REST`."""
    least_rest_s: float = 0.0
    """How long it rests in any case; see `Collector`."""
    releases_by_place: bool = False
    """Whether results of one time are promised one by one; see `Collector`."""
    collector: Any = None
    """A `Collector`; where results are passed on, the object that counts them instead."""
    passes_on: bool = False
    """Whether the workers give results to the next operator themselves, without a collector."""
    _run: RunContext

    # -- what an engine brings

    @property
    def result_columns(self) -> list[np.ndarray]:
        """Value columns of the results, beside the columns of `out`: each has a ring for every worker that writes."""
        ...

    def arguments(self, worker: int) -> tuple:
        """Arguments of the loop of this worker."""
        ...

    def compile_work(self) -> None:
        """Compile the loop of the workers; see `_compile`."""
        ...

    def work(self, arguments: tuple) -> None:
        """Run the loop of a worker, to the end of the run."""
        ...

    def explain_exception(self, error: Exception, worker: int) -> BaseException | None:
        """Translate an exception in a worker's loop, mostly from a user function; None if it cannot be translated."""
        ...

    def explain_failure(self, reported: np.ndarray) -> HeadraceError | None:
        """Translate the words of `failure` that a worker wrote (see `worker_kernel`) into an error for the user."""
        ...

    def release(self, watermark: int) -> None:
        """Free the memory that no later result refers to."""
        ...

    def is_saturated(self) -> bool:
        """Whether its sources wait for room at present."""
        ...

    def helpers(self) -> Iterable[Task]:
        """Threads that the operator needs beside workers and collector."""
        return ()

    def _close_results(self) -> None:
        """Called when all results are out, before the run is told so."""

    # -- what a run asks of a section

    def prepare(self, consumers: Sequence[Consumer], run: RunContext, is_last: bool) -> None:
        """Compile everything and make the collector; nothing runs yet."""
        self._run = run
        self.compile_work()
        self.compile_handles()
        if not self.passes_on:
            self.collect_into(consumers, is_last)

    def _compile(self, module: Any, arguments: tuple) -> None:
        """Compile a module with the worker loop; a compile error is explained in terms of the user's code."""
        try:
            module.compile(arguments)
        except Exception as error:
            explained = self.compiled.explain_compile_error(error, module.generated)
            if explained is None:
                raise
            raise explained from None

    def compile_handles(self) -> None:
        """Compile the functions that Python calls while the stream runs, so that no first call waits for the compiler."""
        arrays, out, zero = self.arrays, self.out, 0
        for function, arguments in (
            (read_cell, (arrays.words, zero)),
            (publish_cell, (arrays.words, zero, zero)),
            (worker_kernel.stop_workers, (arrays,)),
            (spans.copy_counters, (arrays.meter, counters(arrays.meter))),
        ):
            compile_now(function, arguments)
        if self.passes_on:
            return
        for function, arguments in (
            (rings.await_release, (out, zero, zero)),
            (rings.promised_place, (out, zero)),
            (rings.drained, (out, zero, zero)),
            (rings.stop_output, (out,)),
        ):
            compile_now(function, arguments)
        LatencyHistogram().add(np.zeros(1, np.int64))
        self.finisher.compile()

    def collect_into(self, consumers: Sequence[Consumer], is_last: bool = True) -> None:
        """Make the collector, which passes results to these consumers; `is_last`: no other operator follows."""
        self.collector = Collector(
            self.out, self.result_columns, self.finisher, list(consumers), self.release, is_last=is_last,
            is_saturated=self.is_saturated, lists=self.result_lists, rest=self.collector_rest, least_rest_s=self.least_rest_s,
            by_place=self.releases_by_place,
        )  # fmt: skip

    def let_go(self) -> None:
        """Cut the references that lead back to the section."""
        inlets: Any = self.inlets
        for inlet in inlets:
            inlet.let_go()
        vars(self.collector).clear()

    def tasks(self) -> list[Task]:
        """Workers, collector, and the other threads."""
        collector = [] if self.passes_on else [Task(f"{self.name}-collector", self._collect)]
        return [*self.workers(), *collector, *self.helpers()]

    def workers(self) -> list[Task]:
        """The workers, active or not."""
        return [Task(f"{self.name}-{worker}", self._worker_body(worker), is_worker=True) for worker in range(self.max_threads)]

    def _worker_body(self, worker: int) -> Callable[[], None]:
        arguments = self.arguments(worker)

        def body() -> None:
            try:
                self.work(arguments)
            except Exception as error:
                # After a failure or a stop, it is mostly a function stopped in its loop, and explaining that takes seconds.
                if self.failure() is None and not read_cell(self._run.stop_word, 0):
                    raise self.explain_exception(error, worker) or error from error
            if (failure := self.failure()) is not None:
                self._run.fail(failure)

        return body

    def _collect(self) -> None:
        """Body of the collector's thread."""
        collector = self.collector
        assert collector is not None
        with suppress(Stopped):
            collector.run()
        if collector.finished.is_set():
            self._close_results()
            self._run.section_finished(self)

    def failure(self) -> HeadraceError | None:
        """The failure that a worker reported, as an error; None if none did."""
        words = self.arrays.words
        if not read_cell(words, worker_kernel.FAILED):
            return None
        while read_cell(words, worker_kernel.FAILED) == 1:
            time.sleep(_MOMENT_S)  # the worker that failed first is still writing what happened
        return self.explain_failure(self.arrays.failure)

    def steerable(self, operator: str) -> Any:
        """What can be changed while it runs."""
        return self.reconfiguration

    @property
    def active(self) -> int:
        """Number of active workers."""
        return self.reconfiguration.current.threads

    def set_spins(self, spins: int) -> None:
        """Set how many pauses an idle worker makes before it sleeps."""
        publish_cell(self.arrays.words, worker_kernel.SPIN, spins)

    def stop(self) -> None:
        """Wake and end everything that belongs to the operator."""
        worker_kernel.stop_workers(self.arrays)
        if not self.passes_on:
            rings.stop_output(self.out)

    # -- what is measured

    def work_ns(self, operator: str) -> int:
        """Nanoseconds that its workers were busy."""
        return int(counters(self.arrays.meter)[:, worker_kernel.BUSY_NS].sum())

    def spans(self, operator: str, since_ns: int, until_ns: int) -> list[spans.Span]:
        """Recent activity of its workers."""
        return spans.spans(self.arrays.meter, since_ns, until_ns)

    @property
    def results(self) -> int:
        """Rows given so far."""
        return self.collector.rows if self.collector else 0

    @property
    def unreleased(self) -> int:
        """Results that wait for their release."""
        return self.collector.unreleased if self.collector else 0

    def lost_wakeups(self) -> int:
        """Sleeps ended by the time-out although a wake-up was due; see `rings`."""
        return 0 if self.passes_on else read_cell(self.out.words, rings.OUT_LOST_WAKEUPS)


__all__ = ["CollectedSection"]
