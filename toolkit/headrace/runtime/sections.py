"""What an engine gives to a run, and what the run gives to an engine.

A query is planned as sections, one for each node with state: an engine's part of
the query, with its workers and its 1 to n operators. A run asks a section to
prepare, starts its tasks, feeds its inlets, steers its operators and asks them
what they measure. Everything else (sources, pacing, results, failure, history,
controllers, the dashboard) is the run's, and no section builds it again.

==============  ===========================================================
`Section`       an engine's part of a query
`Inlet`         one way into it, in `inlets`
`Steerable`     what can be changed at an operator while it runs, in
                `capabilities`
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
from headrace.metrics.snapshot import OperatorMetrics
from headrace.runtime.allowance import Allowance
from headrace.runtime.capabilities import Steerable
from headrace.runtime.inlets import Inlet
from headrace.workers.spans import Span


class Task(NamedTuple):
    """A thread of a section; whether it is a worker, one of those that may be kept on a core each."""

    name: str
    body: Callable[[], None]
    is_worker: bool = False


class Moment(NamedTuple):
    """When a snapshot is taken."""

    until_ns: int
    """Monotonic time up to which the workers' time counts: of a run that is over, its end. 0: now."""
    seconds: float
    """Since the first tuple of the run."""
    is_finished: bool
    """The run ended by itself: nothing may be in flight any more."""


class RunContext(Protocol):
    """The run, as a section sees it."""

    stop_word: np.ndarray
    """int64[...]; word 0 is not 0 once the run is over."""

    def fail(self, error: BaseException) -> None:
        """End the run; the first failure counts."""
        ...

    def section_finished(self, section: Section) -> None:
        """The section has given its last result. From a task of its own."""
        ...

    def start_thread(self, name: str, body: Callable[[], None]) -> None:
        """Start a thread that belongs to the run."""
        ...

    def workers_changed(self) -> None:
        """The number of active workers has changed."""
        ...


class Checkpointed(Protocol):
    """What a section says of its state and frontier; `runtime.checkpointing` does the rest."""

    allowance: Allowance
    """From which its inputs take the rows that they give."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What must be the same where a checkpoint is resumed: what it is, in a few words -> a checksum, or the thing itself."""
        ...

    def ask(self) -> bool:
        """Ask for everything to come to rest; True once it is, until `let_go`. Ask again."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether all is processed, so that nothing will come to rest any more."""
        ...

    @property
    def processed(self) -> int:
        """Events that are processed, those before the checkpoint it went on from included."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether all workers seem to wait for events just now."""
        ...

    def is_any_left(self) -> bool:
        """Whether some event could be processed. While all is at rest."""
        ...

    @property
    def behind(self) -> frozenset[int]:
        """Inputs that are behind the others in time, which may wait for theirs."""
        ...

    def at_rest(self) -> AbstractContextManager[None]:
        """While it lasts, nothing moves: no row comes in, and no result goes out."""
        ...

    def state(self) -> Any:
        """The state, with fields as a user function sees them. While all is at rest."""
        ...

    def cut(self) -> Contents:
        """Copy all that is needed to go on from here. While all is at rest."""
        ...

    def let_go(self) -> None:
        """Go on."""
        ...

    def restore(self, contents: Contents) -> None:
        """Begin where a checkpoint was taken; before anything runs."""
        ...

    def begin(self) -> None:
        """Checkpoints are taken, or one was restored; before anything runs."""
        ...


class Section(Protocol):
    """An engine's part of a query: its workers, and 1 to n operators. What has a body here may be left out."""

    operators: Sequence[str]
    """Names, upstream first; the last one's results leave the section."""
    inlets: Sequence[Inlet]
    """In the order of the node's branches."""
    active: Any
    """int: workers that want to run."""
    results: Any
    """int: rows given so far."""

    def prepare(self, consumers: Sequence[Consumer], run: RunContext, is_last: bool) -> None:
        """Allocate and compile; nothing runs yet. Results go to these consumers; `is_last`: out of the query."""
        ...

    def tasks(self) -> Iterable[Task]:
        """Its threads."""
        ...

    def steerable(self, operator: str) -> Steerable[Any]:
        """What can be changed at an operator."""
        ...

    def metrics(self, operator: str, moment: Moment) -> OperatorMetrics:
        """Take a snapshot of an operator."""
        ...

    def work_ns(self, operator: str) -> int:
        """Nanoseconds its workers have worked: which operator is the costliest."""
        ...

    def window_size(self, operator: str) -> int:
        """WS in the stream's unit; 0 without windows."""
        return 0

    def set_spins(self, spins: int) -> None:
        """Pauses of a worker that finds nothing to do, before it sleeps; it may never pause."""

    def spans(self, operator: str, since_ns: int, until_ns: int) -> Sequence[Span]:
        """What each worker of an operator did lately, from one monotonic time to another (0: now), as far as is known."""
        return ()

    def extras(self) -> Mapping[str, Any]:
        """What this engine gives beside results, as attributes of ``run[operator]``: tables, a plan."""
        return {}

    def checkpointed(self) -> Checkpointed | None:
        """What makes checkpoints of it; None if nothing does, and `lacks_checkpoints` says why.

        An engine that takes checkpoints gives this, one that does not may say why: nothing else is to be told.
        """
        return None

    @property
    def lacks_checkpoints(self) -> str:
        """Why it takes none, as one sentence."""
        return "its engine takes no checkpoints (checkpoint= in help(headrace.Stream.start) says of what they are taken)"

    def stop(self) -> None:
        """End everything that belongs to it: wakes all sleepers. Any thread, any number of times, never blocks."""
        ...

    def let_go(self) -> None:
        """Cut what refers back to it. Nobody uses the run any more, and none of its threads is left.

        Then its memory, tens of megabytes, is free at once, and not when cycles are looked for next. What users may have
        kept, such as a bound method among the `extras`, goes on working.
        """
