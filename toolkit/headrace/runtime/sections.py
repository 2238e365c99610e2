"""The interface between an engine and a run.

A query is planned as sections, one for each stateful node: an engine's part of
the query, with its workers and its 1 to n operators. A run asks a section to
prepare, starts its tasks, feeds its inlets, steers its operators and reads
their measures. Everything else (sources, pacing, results, failure, history,
controllers, the dashboard) belongs to the run, and no section builds it again.

==============  ===========================================================
`Section`       an engine's part of a query
`Inlet`         one input of a section, in `inlets`
`Steerable`     what can be changed at an operator while it runs, in
                `steerable`
`Checkpointed`  what is needed to go on after the process has died
`RunContext`    the run, as a section sees it
==============  ===========================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import numpy as np

from headrace.checkpoints.file_format import Contents
from headrace.egress.collector import Consumer
from headrace.errors import HeadraceError
from headrace.metrics.snapshot import OperatorMetrics
from headrace.runtime.inlets import Inlet
from headrace.runtime.steerable import Steerable
from headrace.workers.spans import Span


class Task(NamedTuple):
    """A thread of a section; whether it is a worker, which may be pinned to a core."""

    name: str
    body: Callable[[], None]
    is_worker: bool = False


class Moment(NamedTuple):
    """The moment at which a snapshot is taken."""

    until_ns: int
    """Monotonic time up to which the workers' time counts: the end of a run that is over. 0: now."""
    seconds: float
    """Seconds since the first tuple of the run."""
    is_finished: bool
    """Whether the run ended by itself, so that nothing may be in flight any more."""


class RunContext(Protocol):
    """The run, as a section sees it."""

    stop_word: np.ndarray
    """int64[...]; word 0 is not 0 once the run is over."""

    def fail(self, error: BaseException) -> None:
        """End the run; the first failure counts."""
        ...

    def section_finished(self, section: Section) -> None:
        """Report that the section has given its last result. Called by one of its own tasks."""
        ...

    def is_giving(self) -> bool:
        """Whether a sink is taking results at present."""
        ...

    def start_thread(self, name: str, body: Callable[[], None]) -> None:
        """Start a thread that belongs to the run."""
        ...

    def workers_changed(self) -> None:
        """Report that the number of active workers has changed."""
        ...


class Checkpointed(Protocol):
    """A section's side of checkpoints: its state and frontier; `runtime.checkpointing` does the rest."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What must be equal when a checkpoint is resumed: a description in a few words -> a checksum, or the value."""
        ...

    def allow(self, events: int | None) -> None:
        """Let exactly this many events be processed, and then have everything come to rest by itself, until `let_go`; None:
        any number. Called before sources are read, and while all is at rest. The end of the input does not come before."""
        ...

    def await_due(self, seconds: float) -> bool:
        """Wait until these events are processed, or `wake`, but no longer than that. True if they are."""
        ...

    def wake(self) -> None:
        """Wake the thread in `await_due`."""
        ...

    def ask(self) -> bool:
        """Ask for everything to come to rest; True once it is at rest, until `let_go`. Call it again until then."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether all events are processed, so that it will not come to rest any more."""
        ...

    def at_rest(self) -> AbstractContextManager[None]:
        """A context in which nothing moves: no row comes in, and no result goes out."""
        ...

    def state(self) -> Any:
        """The state, with fields as a user function sees them. Called while all is at rest."""
        ...

    def cut(self) -> Contents:
        """Copy all that is needed to go on from here. Called while all is at rest."""
        ...

    def let_go(self) -> None:
        """Go on."""
        ...

    def restore(self, contents: Contents) -> None:
        """Restore the state of a checkpoint; called before anything runs."""
        ...

    def begin(self) -> None:
        """Prepare for checkpoints, if they are taken or one was restored; called before anything runs."""
        ...


class Section(Protocol):
    """An engine's part of a query: its workers, and 1 to n operators. Methods with a body here are optional."""

    operators: Sequence[str]
    """Names of its operators, upstream first; the results of the last one leave the section."""
    inlets: Sequence[Inlet]
    """Its inlets, in the order of the node's branches."""
    active: Any
    """int: number of workers that want to run."""
    results: Any
    """int: number of result rows so far."""

    def prepare(self, consumers: Sequence[Consumer], run: RunContext, is_last: bool) -> None:
        """Allocate and compile; nothing runs yet. Results go to these consumers; with `is_last` they leave the query."""
        ...

    def tasks(self) -> Iterable[Task]:
        """Its threads."""
        ...

    def steerable(self, operator: str) -> Steerable[Any]:
        """Return what can be changed at an operator."""
        ...

    def metrics(self, operator: str, moment: Moment) -> OperatorMetrics:
        """Take a snapshot of an operator."""
        ...

    def work_ns(self, operator: str) -> int:
        """Nanoseconds that its workers have worked, which shows the costliest operator."""
        ...

    def window_size(self, operator: str) -> int:
        """Window size (WS) in the stream's unit; 0 without windows."""
        return 0

    def set_spins(self, spins: int) -> None:
        """Set how often a worker that finds nothing to do pauses before it sleeps; it may never pause."""

    def spans(self, operator: str, since_ns: int, until_ns: int) -> Sequence[Span]:
        """What each worker of an operator did lately, between two monotonic times (0: now), as far as known."""
        return ()

    def extras(self) -> Mapping[str, Any]:
        """What this engine provides beside results, as attributes of ``run[operator]``: tables, a plan."""
        return {}

    def checkpointed(self) -> Checkpointed | None:
        """Return its side of checkpoints; None if it has none, and then `lacks_checkpoints` says why."""
        return None

    @property
    def lacks_checkpoints(self) -> str:
        """Why the section takes no checkpoints, in one sentence."""
        return "only programs (hr.program) have checkpoints"

    def unfinished(self) -> HeadraceError | None:
        """Say which event a user function has been at for long, in which function and line; None if there is none, or it is
        not known. Any thread may call it."""
        return None

    def stop(self) -> None:
        """End everything that belongs to it, waking all sleepers. Any thread may call it, repeatedly; it never blocks."""
        ...

    def let_go(self) -> None:
        """Break reference cycles through it. The run is not used any more, and none of its threads is left.

        So its memory, tens of megabytes, is freed at once, and not at the next collection of cycles. Objects that users may
        have kept, such as a bound method among the `extras`, go on working.
        """
