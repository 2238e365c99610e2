"""Options of `start` for ordered pipelines, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from headrace.arguments import whole
from headrace.errors import ParameterError
from headrace.names import instead
from headrace.ordering.arrays import AUTO, QUEUE_KINDS, REORDERS
from headrace.ordering.configuration import OWN_POLICY, SCHEDULES, Configuration
from headrace.ordering.words import MOST_BATCH
from headrace.plan.nodes import Query
from headrace.runtime.options import (
    DEFAULT_MAX_STATE,
    RunOptions,
    check_named,
    checked_max_state,
    largest_count,
    pool_size,
    read_changes,
)
from headrace.windows import parse_seconds

DEFAULT_SCHEDULE = "ct"
DEFAULT_BATCH = 128
DEFAULT_CAPACITY = 1024
MOST_CAPACITY = 1 << 20
MOST_BEHIND = 1 << 30
_PLANNED = ("threads", "schedule", "batch")


class OrderedOptions:
    """Checked options of `start` for ordered pipelines; `run` has those of every engine.

    Parameters
    ----------
    threads : int
        Active workers; there may be more than cores.
    max_threads : int
        All workers.
    schedule : {"qst", "lp", "et", "ct"}, dict or function
        Which stage a worker takes next: one of sections 6.1 to 6.4 of the paper; stage -> number of workers allotted to it;
        or a function that returns a stage's urgency, a number: the most urgent stage that can have a worker is taken. A
        worker whose stage has nothing to do takes the last stage that has (``fallbacks`` counts this), whatever the schedule.
        The function reads ``stage.backlog``, the tuples that wait there, ``stage.behind``, those that wait behind it (0 for
        the last stage), ``stage.cost`` (ns), ``stage.selectivity``, ``stage.workers`` at present and ``stage.most``,
        ``stage.position`` and ``stage.count``.
    queues : {"auto", "hybrid", "partitioned", "shared"}
        How workers share a partitioned stage (section 4 of the paper). "auto" is "hybrid" with one exception: if the
        stage's tuples cost so little, or so small a part of the whole, that sharing the stage takes longer than leaving it to
        one worker at a time, a worker takes all its buckets at once, while the others work at other stages.
    reorder : {"nonblocking", "lock"}
        How outputs are put in order.
    batch : int
        Tuples that a worker claims at a time, 1 to 256: fewer if they would take longer than a time slice, and one until their
        cost is known.
    capacity : int
        Most tuples that each stage has received and not yet passed on, a power of two, 2 or more: they wait before it, are at
        work, or their outputs wait for those of earlier tuples. Nothing else bounds the outputs that wait: if a stage emits
        1,000 for each tuple, ``1000 * capacity`` of them may wait behind one slow tuple, in memory that ``max_state`` does
        not count.
    time_slice : duration
        How long a worker stays with a stage that has enough to do.
    window : duration
        For "ct": throughput is that of the current window.
    most_behind : int
        For "qst": target number of tuples waiting behind all stages. A stage is taken while fewer wait behind it than its
        share of them, which follows from its outputs per input tuple (equation 1 of the paper). By default half the
        capacity of all rings.
    least_before : int
        For "lp": a stage is taken if this many tuples wait before it.
    reconfigure : sequence of (row, threads or dict)
        Changes before rows: ``(1000, 4)``, ``(2000, {"schedule": "lp"})``.
    max_state : int
        Most bytes for states.
    """

    lacks: ClassVar[Mapping[str, str]] = {
        "mode": "workers of a pipeline share its states, there is no other way to run it",
        "gate": "a pipeline has one reader of the merged input, and so one gate",
        "mapping": "no worker owns keys: any free worker takes the next tuples",
        **dict.fromkeys(("scheme", "sharing", "punctuation", "unsafe", "chains"), "a pipeline has stages, and no transactions"),
        **dict.fromkeys(("plan", "leaves", "heartbeat"), "stages stand in a row, there is no plan of leaves"),
    }

    def __init__(
        self,
        run: RunOptions | None = None,
        threads: Any = 1,
        max_threads: int | None = None,
        schedule: Any = DEFAULT_SCHEDULE,
        queues: str = AUTO,
        reorder: str = "nonblocking",
        batch: int = DEFAULT_BATCH,
        capacity: int = DEFAULT_CAPACITY,
        time_slice: Any = "200us",
        window: Any = "10ms",
        most_behind: int | None = None,
        least_before: int = 1,
        reconfigure: Sequence[tuple[int, Any]] = (),
        max_state: int = DEFAULT_MAX_STATE,
    ):
        self.policy = schedule if callable(schedule) else None
        """The user's own schedule."""
        schedule = OWN_POLICY if self.policy is not None else schedule
        self._threads = threads if isinstance(threads, dict) else {None: threads}
        self._operator_of: dict[str, str] = {}
        self.debug = run is not None and run.debug
        self._planned = read_changes(reconfigure, _PLANNED, '{"schedule": "lp"}')
        named = [*self._threads.values(), *(requested.get("threads", 1) for _, requested in self._planned)]
        self.max_threads = pool_size(max_threads, named)
        for name, value, known in (("queues", queues, QUEUE_KINDS), ("reorder", reorder, REORDERS)):
            if value not in known:
                raise ParameterError(f"{name}={value!r}: {instead(value, tuple(known), f'the kinds of {name}')}")
        self.queues, self.reorder = queues, reorder
        self.capacity = whole("capacity", capacity, 2, MOST_CAPACITY)
        if self.capacity & (self.capacity - 1):
            raise ParameterError(f"capacity={capacity!r}: give a power of two, such as {1 << self.capacity.bit_length()}")
        self._time_slice = round(1e9 * parse_seconds(time_slice, "time_slice"))
        self._window = round(1e9 * parse_seconds(window, "window"))
        self._most_behind = None if most_behind is None else whole("most_behind", most_behind, 1, MOST_BEHIND)
        self._least_before = whole("least_before", least_before, 1, MOST_CAPACITY)
        self.max_state = checked_max_state(max_state)
        self._first = self.checked({"threads": largest_count(self._threads.values()), "schedule": schedule, "batch": batch})
        for count in self._threads.values():
            whole("threads", count, 1, self.max_threads)
        for _, requested in self._planned:
            self.checked({"threads": 1, "schedule": schedule, "batch": batch, **requested})

    def checked(self, requested: Mapping[str, Any]) -> Configuration:
        """Return a full configuration, or raise a `ParameterError` that names what is impossible."""
        schedule = requested["schedule"]
        known = known_schedules(self.policy)
        if not isinstance(schedule, Mapping) and schedule not in known:
            raise ParameterError(f"schedule={schedule!r}: {instead(schedule, known, 'the schedules')}")
        threads = whole("threads", requested["threads"], 1, self.max_threads)
        if isinstance(schedule, Mapping):
            if not schedule:
                raise ParameterError("schedule={}: name stages and how many workers each has, as in {'stage': 2}, or a schedule")
            for name, count in schedule.items():
                whole(f"schedule={{{name!r}: ...}}", count, 1, self.max_threads)
        return Configuration(threads, schedule, whole("batch", requested["batch"], 1, MOST_BATCH))

    def tuning(self, stages: int) -> tuple[int, ...]:
        """Parameters of the schedules for a pipeline with this many stages, as `schedule_kernel` takes them."""
        most_behind = self._most_behind
        if most_behind is None:
            most_behind = stages * self.capacity // 2
        return self._time_slice, self._window, most_behind, self._least_before, self._time_slice

    def look_at(self, query: Query) -> None:
        """Note the stages of the query, so that a stage named in place of an operator is recognised."""
        for node in query.operators:
            if node.spec.options is OrderedOptions:
                spec: Any = node.spec
                self._operator_of |= dict.fromkeys((stage.name for stage in spec.stages), node.name)

    def check_operators(self, operators: Sequence[str]) -> None:
        """Raise `ParameterError` if an option names an operator that does not exist."""
        for name, count in self._threads.items():
            if name not in operators and name in self._operator_of:
                raise ParameterError(
                    f"threads={{{name!r}: ...}}: {name!r} is a stage of {self._operator_of[name]!r}, and not an operator:"
                    f" threads= is how many workers all its stages have, and schedule={{{name!r}: {count!r}}} has some of them"
                    f" work at this stage first"
                )
        check_named("threads", self._threads, operators)

    def check_stages(self, names: Sequence[str]) -> None:
        """Raise `ParameterError` if a schedule names a stage that does not exist, or allots more workers than there are."""
        for configuration in [self._first, *(each for _, each in self.planned(""))]:
            check_schedule(configuration.schedule, names, self.max_threads)

    def initial(self, operator: str) -> Configuration:
        """Configuration 0 of an operator."""
        threads = int(self._threads.get(operator, self._threads.get(None, 1)))
        return Configuration(threads, self._first.schedule, self._first.batch)

    def planned(self, operator: str) -> list[tuple[int, Configuration]]:
        """Planned changes: (row, configuration), by rising row."""
        found, present = [], self.initial(operator)
        for at, requested in self._planned:
            present = self.checked({name: getattr(present, name) for name in _PLANNED} | requested)
            found.append((at, present))
        return found


def known_schedules(policy: Any) -> tuple[str, ...]:
    """The names of schedules, including the user's own if there is one."""
    return (*SCHEDULES, *([] if policy is None else [OWN_POLICY]))


def check_schedule(schedule: Any, names: Sequence[str], max_threads: int) -> None:
    """Raise `ParameterError` for an impossible allotment of workers to stages."""
    if not isinstance(schedule, Mapping):
        return
    for name in schedule:
        if name not in names:
            raise ParameterError(f"schedule={dict(schedule)!r}: {instead(name, names, 'the stages', '{}')}")
    if sum(schedule.values()) > max_threads:
        raise ParameterError(
            f"schedule={dict(schedule)!r}: allots {sum(schedule.values())} workers, and there are {max_threads}: pass"
            f" max_threads= as well, or allot fewer"
        )
