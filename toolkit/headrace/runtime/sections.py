"""What an engine gives to a run, and what the run gives to an engine.

A query is planned as sections, one for each node with state: an engine's part of
the query, with its workers and its 1 to n operators. A run asks a section to
prepare, starts its tasks, feeds its inlets, steers its operators and asks them
what they measure. Everything else (sources, pacing, results, failure, history,
controllers, the dashboard) is the run's, and no section builds it again.

==============  ===========================================================
`Section`       an engine's part of a query
`Inlet`         one way into it: rows are held, then offered, and nothing
                here waits longer than a moment
`Steerable`     what can be changed at an operator while it runs
`Checkpointed`  what is needed to go on after the process has died
`RunContext`    the run, as a section sees it
==============  ===========================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from headrace.arguments import is_number, is_whole_number
from headrace.checkpoints.file_format import Contents
from headrace.egress.collector import Consumer
from headrace.errors import ParameterError
from headrace.metrics.snapshot import OperatorMetrics
from headrace.metrics.sources import feeding_time
from headrace.metrics.time_spent import TimeSpent
from headrace.plan.nodes import Branch
from headrace.runtime.allowance import Allowance
from headrace.workers.spans import Span

C = TypeVar("C")
"""A configuration: all that is in force at an operator."""


@dataclass(frozen=True)
class Control:
    """Something that can be changed at an operator while it runs: ``run.reconfigure(name=value)``.

    Parameters
    ----------
    kind : {"count", "mapping", "choice", "number", "plan"}
        A whole number of workers, a `headrace.Mapping`, one of `choices`, a number, or a `headrace.Plan`.
    title : str
        What it is, in a few words.
    least, most : float
        Bounds of a count or a number.
    choices : tuple of str
    scale : {"linear", "log"}
        Of a count or a number: whether what is next is one more, or so many times as much.
    only_with : (str, tuple of str), optional
        Another control, and those of its values with which this one has an effect.
    """

    kind: str
    title: str
    least: float = 0
    most: float = 0
    choices: tuple[str, ...] = ()
    scale: str = "linear"
    only_with: tuple[str, tuple[str, ...]] | None = None

    def unused(self, configuration: Mapping[str, Any]) -> str:
        """Say why it has no effect in a configuration; nothing where it has one.

        Examples
        --------
        >>> sharing = Control("choice", "whose work may be taken", choices=("no", "all"), only_with=("scheme", ("chains",)))
        >>> sharing.unused({"scheme": "lock"}), sharing.unused({"scheme": "chains"})
        ('no effect with scheme lock: only with chains', '')
        """
        if self.only_with is None:
            return ""
        name, values = self.only_with
        now = configuration.get(name)
        return "" if now in values else f"no effect with {name} {now}: only with {' or '.join(values)}"

    def check(self, name: str, value: Any) -> Any:
        """Return the value, if it can be had; else raise `ParameterError`.

        Examples
        --------
        >>> Control("number", "rows of a task", 1, 100).check("batch", 10)
        10
        """
        if self.kind == "choice":
            if value not in self.choices:
                raise ParameterError(f"reconfigure({name}={value!r}): give one of {', '.join(map(repr, self.choices))}")
            return value
        whole = self.kind == "count"
        if not (is_whole_number(value) if whole else is_number(value)) or not self.least <= value <= self.most:
            kind = "a whole number" if whole else "a number"
            raise ParameterError(f"reconfigure({name}={value!r}): give {kind} from {self.least:g} to {self.most:g}")
        return value


class Capabilities(Mapping[str, Control]):
    """The controls there are, by name; and of those there are not, why.

    Examples
    --------
    >>> can = Capabilities({"threads": Control("count", "active instances", 1, 8)}, {"plan": "this engine has no plan"})
    >>> "threads" in can, can.absent["plan"]
    (True, 'this engine has no plan')
    """

    def __init__(self, controls: Mapping[str, Control], absent: Mapping[str, str] | None = None):
        self._controls = dict(controls)
        self.absent: dict[str, str] = dict(absent or {})
        """Control -> one sentence why it cannot be had."""

    def __getitem__(self, name: str) -> Control:
        return self._controls[name]

    def __iter__(self):
        return iter(self._controls)

    def __len__(self) -> int:
        return len(self._controls)

    def __repr__(self) -> str:
        return f"Capabilities({', '.join(self._controls)})"


class Task(NamedTuple):
    """A thread of a section; whether it is a worker, one of those that may be kept on a core each."""

    name: str
    body: Callable[[], None]
    is_worker: bool = False


class Completion(NamedTuple):
    """A configuration that has come into force."""

    token: object
    """What `place` returned for it; None if it was planned."""
    before: Any
    after: Any
    begun_ns: int
    """The first worker was at the boundary."""
    done_ns: int
    """The last worker concerned was past it."""
    epoch: int
    planned_at: int | None = None
    effects: Mapping[str, int] = {}


class Steerable(Protocol[C]):
    """What can be changed at one operator; `runtime.changes` does the rest."""

    capabilities: Capabilities

    @property
    def current(self) -> C:
        """What is in force."""
        ...

    def resolve(self, wish: Mapping[str, Any], newest: C) -> C:
        """Complete a wish against the newest configuration known; a `HeadraceError` if it cannot be had."""
        ...

    def describe(self, configuration: C) -> dict[str, Any]:
        """Control -> value, with "threads" among them: what a `Change` holds and controllers see."""
        ...

    def effects(self, before: C, after: C) -> dict[str, int]:
        """What this change will do, in numbers, as far as is known beforehand."""
        ...

    def place(self, target: C) -> object | None:
        """Try to place a change in the stream; returns a token for it, or None if there is no room just now."""
        ...

    def completed(self) -> Completion | None:
        """The next one that has come into force, each once, in order; None if there is none."""
        ...

    @property
    def is_completing(self) -> bool:
        """Whether one is in force that some worker has yet to acknowledge."""
        ...

    @property
    def planned_left(self) -> int:
        """Planned changes that have not come yet."""
        ...

    def await_completion(self, timeout_ns: int) -> None:
        """Sleep until there may be one, or the run stops."""
        ...


@dataclass
class Books:
    """What came into an inlet, counted where it happens. Each number is written by one thread and only grows."""

    added: int = 0
    """Rows that the section has taken."""
    adding: int = 0
    """At most so many more it has taken already."""
    filtered: int = 0
    gained: int = 0
    """Rows a flat_map before it made in addition."""
    first_ts: int | None = None
    closed_at: int | None = None
    """Its promise when it ended; None while it has not."""
    arrived: Callable[[], int] | None = None
    """Rows that were given, by the source or the operator before it; None if nobody counts."""
    late: Callable[[str], int] = field(default=lambda policy: 0)
    """Rows that were late and met with this policy."""
    behind: Callable[[float | None], int] = field(default=lambda at_s: 0)
    """Rows that the rate schedule says are due, and that were not taken, at a moment (None: now)."""
    lag_s: Callable[[float | None], float] = field(default=lambda at_s: math.nan)
    """How long the oldest of them has been due; NaN where nothing is ever due."""
    rate: Callable[[], float | None] = field(default=lambda: None)
    """Rows per second that the schedule gives now; None without one."""
    known: Callable[[int], int] = field(default=lambda start: 0)
    """How many rows of the piece that is held, from this one on, an earlier run has processed: no schedule paces them."""
    spent: TimeSpent = field(default_factory=feeding_time)
    """What the thread that feeds it does with its time."""


class Inlet(Protocol):
    """One way into a section. One thread at a time gives it rows; any may encode."""

    branch: Branch
    books: Books
    columns_used: Sequence[str]
    """Of the branch's columns, those the section reads."""
    codable: Sequence[str]
    """Of these, those that it takes as texts or as codes of a dictionary, whatever the schema says."""
    retention: int
    """Event time for which an encoded key may still be wanted: what `lateness` must hold back."""

    def encode(self, batch: pa.RecordBatch, ts: np.ndarray | None = None) -> Iterable[Any]:
        """Turn rows into pieces, each with a length and `ts` (int64[n]). Any thread."""
        ...

    def hold(self, piece: Any) -> None:
        """Store a piece: it is what `offer` is about from now on."""
        ...

    def offer(self, ts: np.ndarray, start: int, stop: int, patient: bool) -> int:
        """Give rows `start` to `stop` of the piece that is held; returns how many were taken.

        None may be. A patient caller is put to sleep for a moment first, until there may be room.
        """
        ...

    def promise(self, ts: int, patient: bool) -> bool:
        """No later row will be earlier than `ts`; False if that could not be noted just now."""
        ...

    def close(self, patient: bool) -> bool:
        """No row will follow; False as of `promise`."""
        ...

    @property
    def mark(self) -> int:
        """The promise in force."""
        ...


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


__all__ = [
    "Books",
    "Capabilities",
    "Checkpointed",
    "Completion",
    "Control",
    "Inlet",
    "Moment",
    "RunContext",
    "Section",
    "Steerable",
    "Task",
]
