"""The life of a running query: it begins, goes on while its sections give results, and ends in one of three ways.

`wiring` connects its parts, `chosen_sinks` says where its results go, and `measuring` takes snapshots of its counters.

The user's handle is a `handle.QueryRun`. No thread and nothing in this module
refers to it, so Python knows when the run cannot be reached any more, and then
calls `abandon`, in whatever thread the garbage collector happens to run.
`abandon` sets one attribute; the run's keeper sees it and ends the run.

Threads of a run: those of its sections, those that read and feed its sources
(`source_threads`), a relay for each of several consumers of one operator, a
follower for each operator whose configuration changes, one for each controller,
one for the history, and the keeper.
"""

from __future__ import annotations

import gc
import itertools
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from contextlib import ExitStack, suppress

from headrace.errors import RunStoppedError
from headrace.memory.cells import padded_cells, publish_cell
from headrace.metrics.history import DEFAULT_EVERY_S, History
from headrace.metrics.snapshot import Metrics
from headrace.plan.nodes import Query
from headrace.runtime.changes import Changes
from headrace.runtime.checkpointing import Checkpointing
from headrace.runtime.chosen_sinks import chosen_sinks, open_sinks
from headrace.runtime.consumers import SinkConsumer
from headrace.runtime.measuring import costliest, measure
from headrace.runtime.options import RunOptions
from headrace.runtime.pinning import pinned
from headrace.runtime.second_errors import told_beside
from headrace.runtime.sections import Section
from headrace.runtime.source_threads import tasks_of
from headrace.runtime.sources import Source
from headrace.runtime.steering import THREAD_SUFFIX, Controls, OperatorSteering, check_controller
from headrace.runtime.step_threads import StepThreads
from headrace.runtime.wiring import Wiring
from headrace.workers.pool import WorkerPool
from headrace.workers.worker_kernel import spins_for

STOP_SECONDS = 10.0
"""Threads end within a hundredth of this, but on a busy machine a thread may wait for a core for seconds."""
CHECKPOINT_SECONDS = 30.0
"""Writing a checkpoint to disk may take longer than threads need to stop."""
STOPPED = "stop() was called"
_ABANDONED = "nothing referred to it any more"
_KEEPER_S = 0.1
"""Maximum seconds between two checks by the keeper whether the run was abandoned."""
_MOST_LEFT = 4
"""Sections of ended runs that may wait for Python's garbage collector, which counts objects: theirs are few and large."""
_numbers = itertools.count(1)
_left: weakref.WeakSet[Section] = weakref.WeakSet()
"""Sections no longer used but not yet freed: of runs whose error keeps frames, or with reference cycles of their own."""


class AbandonedRunWarning(RuntimeWarning):
    """A run was stopped because nothing in the program could reach it any more."""


class Execution:
    """A query being run: the `RunContext` of its sections.

    Parameters
    ----------
    query : Query
    options : RunOptions
    sections : dict
        By the name of their node, upstream first.
    """

    def __init__(self, query: Query, options: RunOptions, sections: dict[str, Section]):
        _collect_those_left()
        self.query, self.options, self.sections = query, options, sections
        self.pid = os.getpid()
        self.number = next(_numbers)
        self.state = "running"
        self.error: BaseException | None = None
        self.ended_by = ""
        """Why a stopped run was stopped."""
        self.over = threading.Event()
        self.stop_word = padded_cells(1)
        self._is_abandoned = False
        self._lock = threading.RLock()
        self.sources: list[Source] = []
        self.step_threads: StepThreads | None = None
        self.history = History(self.metrics, options.sample_every or DEFAULT_EVERY_S)
        self.pool = WorkerPool(self.fail, self._let_go_if_left)
        self.controls = Controls(self.pool.start, self.over.is_set, self.pool.runnable_ns)
        self.started_ns = time.monotonic_ns()
        self.ended_ns = 0
        self.operators = {
            name: OperatorSteering(name, section, Changes(name, section.steerable(name), self, self.workers_changed))
            for section in sections.values()
            for name in section.operators
        }
        options.check_operators(list(self.operators), list(sections))
        for name, controller in options.controllers.items():
            check_controller(next(iter(self.operators.values())) if name is None else self.operators[name], controller)
        options.check_step_threads(itertools.chain.from_iterable(query.branches.values()))
        options.check_results([output.name for output in query.outputs])
        self._unfinished = set(sections)
        """Sections that have results to give, or whose `section_finished` has not yet ended their changes."""
        self.sinks = chosen_sinks(query, options.sink)
        self.checkpointing: Checkpointing | None = None
        if options.checkpoint is not None or options.resume is not None:
            self.checkpointing = Checkpointing(sections, query.outputs, options)
        try:
            self._begin()
        except BaseException:
            if self.checkpointing is not None:
                self.checkpointing.end()
            raise

    # -- beginning

    def _begin(self) -> None:
        checkpointing = self.checkpointing
        keep = None if checkpointing is None else checkpointing.keep
        self._consumers = {
            output.name: SinkConsumer(
                self.sinks[output.name],
                [step.for_run(self.stop_word, self.options.debug) for step in output.steps],
                self._finish_if_all_is_out,
                keep,
            )
            for output in self.query.outputs
        }
        open_sinks(self.query, self.sinks)
        try:
            if checkpointing is not None:
                (only,) = self._consumers.values()
                checkpointing.replay(only.replay)
            self._launch()
        except BaseException as error:
            with told_beside(error):
                self.stop()
            raise

    def _launch(self) -> None:
        wiring = Wiring(self.query, self.options, self.sections, self._consumers, self.stop_word)
        for name, section in self.sections.items():
            section.prepare(wiring.consumers_of(name), self, is_last=not wiring.is_followed(name))
        self.workers_changed()
        self.started_ns = time.monotonic_ns()
        for operator in self.operators.values():
            operator.changes.start()
        tasks = [task for section in self.sections.values() for task in section.tasks()]
        for task in pinned(tasks) if self.options.pins else tasks:
            self.pool.start(task.name, task.body)
        for name, relay in wiring.relays:
            self.pool.start(name, relay.run)
        self.step_threads = wiring.step_threads(self.pool.start)
        self.sources = wiring.sources(self.fail, self.step_threads)
        # Attached before the first tuple comes, so that a controller sees all of a short stream too.
        for name, controller in self.options.controllers.items():
            steered = costliest(self.operators) if name is None else self.operators[name]
            self.controls.attach(steered, controller, interval_s=self.options.control_every)
        if self.checkpointing is not None and self.checkpointing.is_taking:
            checkpointing = self.checkpointing
            self.pool.start("checkpoints", lambda: checkpointing.follow(self))
            checkpointing.start_counting()
        for task in tasks_of(self.sources):
            self.pool.start(task.name, task.body)
        self.pool.start("keeper", self._keep)
        if self.options.sample_every is not None:
            self.pool.start("history", lambda: self.history.follow(self.over))

    # -- for its sections

    def start_thread(self, name: str, body: Callable[[], None]) -> None:
        """Start a thread that belongs to the run."""
        self.pool.start(name, body)

    def workers_changed(self) -> None:
        """Adapt the spins of all sections' workers to the number that is active now."""
        with self._lock:
            spins = spins_for(sum(section.active for section in self.sections.values()))
            for section in self.sections.values():
                section.set_spins(spins)

    def is_giving(self) -> bool:
        """Whether a sink is taking results at present."""
        return any(consumer.is_in_use for consumer in self._consumers.values())

    def section_finished(self, section: Section) -> None:
        """The section has given its last result."""
        for name in section.operators:
            self.operators[name].changes.end("unneeded")
        with self._lock:
            self._unfinished.difference_update([name for name, each in self.sections.items() if each is section])
        self._finish_if_all_is_out()

    def fail(self, error: BaseException | None) -> None:
        """End the run; the first failure counts."""
        with self._lock:
            if self.state != "running" or error is None:
                return
            self.state = "failed"
            self.error = error
            self.ended_ns = time.monotonic_ns()
        with told_beside(error):
            self._end_all()

    # -- end

    def _finish_if_all_is_out(self) -> None:
        """Finish the run if every section has ended and every sink has all its results."""
        failure: BaseException | None = None
        with self._lock:
            all_out = not self._unfinished and all(consumer.is_closed for consumer in self._consumers.values())
            if self.state != "running" or not all_out:
                return
            # Under the lock: the run cannot be stopped when some files have their final names and others do not.
            try:
                for consumer in self._consumers.values():
                    consumer.publish()
                self.state = "finished"
            except BaseException as error:
                failure = error
            self.ended_ns = time.monotonic_ns()
        if failure is not None:
            self.fail(failure)
            return
        publish_cell(self.stop_word, 0, 1)
        with ExitStack() as ending:  # as in `_end_all`
            ending.callback(self.over.set)
            for section in self.sections.values():
                ending.callback(section.stop)
            for operator in self.operators.values():
                ending.callback(operator.changes.end, "unneeded")

    def _end_all(self) -> None:
        """The run failed or was stopped: wake and end all its parts.

        Each step is taken even if one before it failed, as by a second Ctrl-C or a sink that fails to abort, because threads
        that wait for the end of the run, the keeper among them, wait for the last step. Errors are raised after that.
        """
        publish_cell(self.stop_word, 0, 1)
        with ExitStack() as ending:  # callbacks run last to first
            ending.callback(self.over.set)
            ending.callback(self._note_complete_results)
            for consumer in self._consumers.values():
                ending.callback(consumer.abort)
            for operator in self.operators.values():
                ending.callback(operator.changes.end, "failed")
            for section in self.sections.values():
                ending.callback(section.stop)
            if self.step_threads is not None:
                ending.callback(self.step_threads.stop)
            for source in self.sources:
                ending.callback(source.stop)

    def _note_complete_results(self) -> None:
        if self.error is not None and (text := self.complete_results):
            self.error.add_note(f"headrace: {text}")

    @property
    def complete_results(self) -> str:
        """Say which of several results are complete although the run failed or was stopped; "" if none is."""
        final = [repr(name) for name, consumer in self._consumers.items() if consumer.is_final]
        if not final or len(self._consumers) == 1:
            return ""
        return f"these results are complete, and their sinks closed: {', '.join(final)}; the others are not"

    @property
    def is_left(self) -> bool:
        """Whether the run is over and nothing refers to it any more."""
        return self._is_abandoned and self.state != "running"

    def abandon(self) -> None:
        """Note that the run cannot be reached. Takes no lock and wakes no thread: the garbage collector may call it anywhere."""
        self._is_abandoned = os.getpid() == self.pid
        self._let_go_if_left()

    def _let_go_if_left(self) -> None:
        """Free the memory of a run that is over, unreachable, and without threads; called when a thread or the handle goes.

        Its parts form reference cycles, which Python's garbage collector seldom looks for.
        """
        parts = vars(self)
        pool = parts.get("pool")
        # Two threads and the handle may all seem to be last; calling this twice does no harm.
        if not self.is_left or pool is None or pool.alive:
            return
        for section in parts.get("sections", {}).values():
            section.let_go()
            _left.add(section)
        for source in parts.get("sources", ()):
            vars(source).clear()
        for name in ("pool", "sections", "operators", "sources", "history", "controls", "sinks", "_consumers"):
            parts.pop(name, None)

    def _keep(self) -> None:
        """Body of the keeper's thread: end the run once it is unreachable."""
        while not self.over.wait(_KEEPER_S):
            if self._is_abandoned and self._stop(_ABANDONED):
                self._warn()

    def _warn(self) -> None:
        warnings.warn(
            f"run {self.number} ({', '.join(self.operators)}) was stopped before its end, because nothing refers"
            f" to it any more: keep what start() returns, as in run = query.start(...), for as long as it is"
            f" to go on; hr.runs() lists the runs there are",
            AbandonedRunWarning,
            stacklevel=1,
        )

    def _stop(self, reason: str) -> bool:
        """End a run that goes on; False if it is over already."""
        with self._lock:
            if self.state != "running":
                return False
            self.state, self.ended_by = "stopped", reason
            self.ended_ns = time.monotonic_ns()
        try:
            self.ended_by = "; ".join([reason, *self.unfinished()])  # before workers are told to leave their functions
        finally:
            self._end_all()
        return True

    def stop(self, reason: str = STOPPED) -> None:
        """End the run now, and wait until its threads have ended; see `QueryRun.stop`."""
        if os.getpid() != self.pid:
            return
        try:
            if not self._stop(reason):
                for section in self.sections.values():
                    section.stop()
        finally:
            self._await_threads()

    def _await_threads(self) -> None:
        """Wait until the run's threads have ended; `RunStoppedError` if they do not."""
        own = threading.current_thread().name
        if self.checkpointing is not None:
            self.checkpointing.await_end(CHECKPOINT_SECONDS)

        def is_users(name: str) -> bool:
            # A thread that runs the user's iterator, the user's controller, or this call.
            return name.endswith(("-reader", THREAD_SUFFIX)) or f"headrace-{name}" == own

        left = [name for name in self.pool.wait(STOP_SECONDS, is_users) if not is_users(name)]
        if left:
            why = "; ".join(self.unfinished()) or "a user function may not return; make sure that its loops end"
            raise RunStoppedError(f"threads {', '.join(left)} did not stop within {STOP_SECONDS} s: {why}")

    def unfinished(self) -> list[str]:
        """Say which events user functions have been at for long, as far as sections know it."""
        found = []
        for section in self.sections.values():
            with suppress(Exception):  # workers go on while this is read; and whatever it is, the run is to end
                found.append(section.unfinished())
        return [str(one) for one in found if one is not None]

    def check_can_wait(self) -> None:
        """Raise `RunStoppedError` in a thread of the run's sinks or sources: waiting there would keep the run from ending."""
        name = "" if self.over.is_set() else self.pool.mine()
        if name and not name.endswith(THREAD_SUFFIX):
            raise RunStoppedError(
                f"wait() was called by a thread of the run itself ({name}), in a sink or source of yours: the run cannot end"
                f" before this call returns, so it would wait for ever; wait where the run was started, or give wait() a timeout"
            )

    # -- what is measured

    @property
    def rows_out(self) -> int:
        """Results of the query so far."""
        return sum(consumer.rows for consumer in self._consumers.values())

    def metrics(self) -> Metrics:
        """Take a snapshot of the run's counters."""
        while True:
            with self._lock:
                state, ended_ns = self.state, self.ended_ns
            found = measure(self, state, ended_ns)
            if ended_ns == self.ended_ns:
                return found
            # The run ended meanwhile: the workers' times and the snapshot's would be of different moments.


def _collect_those_left() -> None:
    """Collect garbage if several finished runs, each of tens of megabytes, were not freed with their last reference."""
    if len(_left) >= _MOST_LEFT:
        gc.collect()
        _left.clear()
