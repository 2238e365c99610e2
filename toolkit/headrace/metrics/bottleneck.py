"""Finding the bottleneck of a run, and describing it in a sentence.

Flink's rule for a pipeline under back-pressure: the bottleneck is the last part
that is busy all the time, since all before it wait for room and all behind it
wait for input. The run's counters are enough to apply this rule from the results back
to the sources; if nothing waits for room, nothing holds the run up, except perhaps
its source.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np

from headrace.cores import usable_cores
from headrace.metrics.intervals import difference, shares_between
from headrace.metrics.measures import BUCKET_LOAD
from headrace.metrics.snapshot import Metrics, OperatorMetrics
from headrace.metrics.sources import BLOCKED, STARVED, SourceMetrics

SATURATED = 0.85
"""Least share of the time that counts as busy all the time."""
PRESSED = 0.1
"""Least share of the time that a source waits for room that counts as back-pressure."""
LATE_S = 0.1
"""Seconds that a tuple must be overdue for the stream to count as behind."""
SILENT_S = 0.5
"""Seconds for which a source that others wait for must give nothing to count as silent."""

UNEVEN = 1.2
"""A worker's load, relative to the mean of all, above which it counts as having more to do."""
MOST_OF_LOAD = 0.9
"""Share of a worker's load from one bucket of keys above which no other mapping would help."""

_OVER = {"finished": "The run has finished.", "stopped": "The run was stopped.", "failed": "The run has failed."}
KINDS = ("none", "source", "order", "worker", "workers", "cores", "results", "over")


@dataclass(frozen=True)
class Bottleneck:
    """The bottleneck of a run.

    Parameters
    ----------
    kind : {"none", "source", "order", "worker", "workers", "cores", "results", "over"}
        In this order: nothing holds it up; a source gives too little; tuples wait for a source whose event time is behind;
        one worker has too much to do; all workers of an operator have; all cores are in use; results are not taken; the
        run is over.
    where : str
        Name of the source or operator; empty if there is none.
    sentence : str
        What the bottleneck is, by which number, and what would help.
    worker : int or None
        The worker, for kind "worker".
    is_pressed : bool
        Whether sources wait for room: back-pressure.
    """

    kind: str
    where: str
    sentence: str
    worker: int | None = None
    is_pressed: bool = False


def bottleneck(now: Metrics, then: Metrics | None = None, cores: int | None = None) -> Bottleneck:
    """Find what held a run up between two snapshots.

    Parameters
    ----------
    now, then : Metrics
        Without `then`, since the start of the run.
    cores : int, optional
        Cores that the run may use; by default those that this process may use.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> table = pa.table({"ts": range(1000), "k": ["a", "b"] * 500})
    >>> with hr.stream(table, event_time="ts").key_by("k").window(10).aggregate("n", n=hr.count()).start() as run:
    ...     done = run.wait()
    ...     found = bottleneck(run.metrics())
    >>> found.kind, found.sentence
    ('over', 'The run has finished.')
    """
    if now.state != "running":
        return Bottleneck("over", "", _OVER[now.state])
    sources = list(zip(now.sources, then.sources if then else [None] * len(now.sources), strict=False))
    shares = [_Shares(operator, _before(then, operator), _seconds(now, then)) for operator in now.operators.values()]
    pressed = {source.name for source, before in sources if is_pressed(source, before)}
    if not pressed:
        return _unpressed(sources, shares, _seconds(now, then))
    cores = cores or usable_cores()
    used = _used(now, then)
    for each in reversed(shares):
        found = _saturated(each, used, cores)
        if found is not None:
            return found
    waits = max(source.share(BLOCKED, before) for source, before in sources)
    return _waiting(shares, used, cores, waits, pressed)


def is_pressed(source: SourceMetrics, before: SourceMetrics | None = None) -> bool:
    """Whether a source is late because it waits for room; a source that waits at times but is on time is not pressed."""
    return source.share(BLOCKED, before) >= PRESSED and not source.lag_s <= LATE_S


class _Shares:
    """How the active workers of an operator spent their time."""

    def __init__(self, now: OperatorMetrics, then: OperatorMetrics | None, seconds: float):
        self.operator, self.before, self.name = now, then, now.name
        self.members = list(now.members)
        named = [measure.name for measure in now.measures if measure.part_of == "time"]
        each = shares_between(now, then) if named else []
        if len(named) == 1:  # the engine gives nothing else: as a share of the time that has passed
            each = np.minimum(1.0, difference(now, then, named[0]) / (seconds * 1e9))[np.newaxis]
        self._by = {name: [float(part[m]) for m in self.members] for name, part in zip(named, each, strict=True)}

    def mean(self, name: str) -> float:
        part = self._by.get(name, [])
        return sum(part) / len(part) if part else 0.0

    @property
    def busy(self) -> list[float]:
        return self._by.get("busy_ns", [0.0] * len(self.members))

    def relief(self, worker: int) -> str:
        """Say what would help the only worker that is busy all the time."""
        if BUCKET_LOAD.name not in self.operator.values:
            return "more threads will not help while they have so little to do"
        loads = difference(self.operator, self.before, "load")
        if loads[worker] <= UNEVEN * loads[self.members].mean():
            return "yet its load is not larger than theirs: its keys cost more, or its core has other work, too"
        if difference(self.operator, self.before, BUCKET_LOAD.name).max() >= MOST_OF_LOAD * loads[worker]:
            return "nearly all of it is for one bucket of keys, which they cannot share"
        return "give some of its keys to them (Balance)"


def _before(then: Metrics | None, operator: OperatorMetrics) -> OperatorMetrics | None:
    return None if then is None else then.operators.get(operator.name)


def _seconds(now: Metrics, then: Metrics | None) -> float:
    return max(1e-9, (now.at_ns - then.at_ns) / 1e9 if then else now.seconds)


def _used(now: Metrics, then: Metrics | None) -> dict[str, float]:
    """Return the number of cores that each thread used, as a fraction."""
    seconds = _seconds(now, then)
    before = then.cpu_ns if then else {}
    return {name: max(0, ns - before.get(name, 0)) / 1e9 / seconds for name, ns in now.cpu_ns.items()}


def _unpressed(
    sources: Sequence[tuple[SourceMetrics, SourceMetrics | None]], shares: Sequence[_Shares], seconds: float
) -> Bottleneck:
    """The case that nothing waits for room."""
    busy = max((max(each.busy, default=0.0) for each in shares), default=0.0)
    late = [(s, before) for s, before in sources if not math.isnan(s.lag_s) and s.lag_s > LATE_S]
    for source, before in late:
        if source.share(STARVED, before) > PRESSED:
            return Bottleneck(
                "source", source.name,
                f"The source is too slow: {source.name} is {source.lag_s:.1f} s behind its rate, and the threads"
                f" are busy {busy:.0%} of the time; more threads will not help.",
            )  # fmt: skip
    if late:
        source = late[0][0]
        due = f"{source.behind:,} tuples are due" if source.counts_due else "tuples are due"
        return Bottleneck("none", "", f"The stream is catching up: {due}, {source.lag_s:.1f} s late.")
    for each in shares if seconds >= SILENT_S else ():
        if (silent := _silent(each, sources)) is not None:
            return Bottleneck(
                "order", silent,
                f"Tuples of {each.name} wait for {silent}, which gives nothing: its event time is behind that of the other"
                f" sources. They would not wait if it gave watermarks, or with idle_after= in hr.stream().",
            )  # fmt: skip
    return Bottleneck("none", "", f"Nothing holds the stream up: the threads are busy {busy:.0%} of the time.")


def _silent(each: _Shares, sources: Sequence[tuple[SourceMetrics, SourceMetrics | None]]) -> str | None:
    """Return the source for which all tuples of an operator wait, as it gives none and others do; None if there is none."""
    behind, before = each.operator.values.get("holds_back"), each.before
    passed = each.operator.processed - (0 if before is None else before.processed)
    if behind is None or passed or not each.operator.in_flight:
        return None
    given = {now.name: now.rows - (0 if then is None else then.rows) for now, then in sources if now.operator == each.name}
    return behind if given.pop(behind, None) == 0 and any(given.values()) else None


def _saturated(each: _Shares, used: dict[str, float], cores: int) -> Bottleneck | None:
    """The case that the workers of an operator, or one of them, are busy all the time; None if it does not hold."""
    busiest = max(each.busy, default=0.0)
    if busiest < SATURATED:
        return None
    count, mean = len(each.members), sum(each.busy) / len(each.busy)
    if mean < SATURATED and mean < 0.8 * busiest:
        worker = each.members[each.busy.index(busiest)]
        others = (sum(each.busy) - busiest) / (count - 1)
        return Bottleneck(
            "worker", each.name,
            f"Thread {worker} of {each.name} has too much to do: it is busy {busiest:.0%} of the time, the others"
            f" {others:.0%}; {each.relief(worker)}.",
            worker=worker, is_pressed=True,
        )  # fmt: skip
    if count >= cores and sum(used.values()) > SATURATED * cores:
        return Bottleneck(
            "cores", each.name,
            f"{_in_use(cores)} by {f'the {count} threads' if count > 1 else 'the thread'} of {each.name} and by what feeds"
            f" {'them' if count > 1 else 'it'}; more threads will not help.",
            is_pressed=True,
        )  # fmt: skip
    are = "its thread is" if count == 1 else f"its {count} threads are"
    if count < min(cores, each.operator.max_threads):
        help_ = "one more thread will help"
    elif count < each.operator.max_threads:
        help_ = "more threads than cores will not help"
    else:
        help_ = f"{count} {'is' if count == 1 else 'are'} all that it may have (max_threads)"
    return Bottleneck(
        "workers", each.name, f"{each.name} has too much to do: {are} busy {mean:.0%} of the time; {help_}.", is_pressed=True
    )


def _in_use(cores: int) -> str:
    return f"All {cores} cores are in use" if cores > 1 else "The only core is in use"


def _waiting(shares: Sequence[_Shares], used: dict[str, float], cores: int, waits: float, pressed: Set[str]) -> Bottleneck:
    """The case that sources, those in `pressed`, wait for room although no workers are busy."""
    for each in shares:
        behind = each.operator.values.get("holds_back")
        # A source that waits for room itself is behind only by what it may not give yet.
        if behind is not None and behind not in pressed and each.mean("idle_ns") > PRESSED:
            return Bottleneck(
                "order", behind,
                f"Tuples wait for {behind}: its event time is behind that of the other sources, whose tuples come"
                f" after its own.",
                is_pressed=True,
            )  # fmt: skip
    for each in reversed(shares):
        if each.mean("blocked_ns") > PRESSED:
            share = used.get(f"{each.name}-collector", 0.0)
            ordering = f"the thread that puts them in order uses {share:.0%} of a core"
            who = ordering if share > PRESSED else "their consumer is slow"
            return Bottleneck(
                "results", each.name,
                f"Results of {each.name} are not taken: its threads wait for room {each.mean('blocked_ns'):.0%} of the"
                f" time; {who}.",
                is_pressed=True,
            )  # fmt: skip
    if sum(used.values()) > SATURATED * cores:
        return Bottleneck("cores", "", f"{_in_use(cores)}; more threads will not help.", is_pressed=True)
    busy, name = max(((max(each.busy, default=0.0), each.name) for each in shares), default=(0.0, ""))
    if busy >= 0.5 and waits >= SATURATED:  # the rest of their time goes into waking up and waiting for a core
        return Bottleneck(
            "workers", name,
            f"{name} has too much to do: tuples wait for room {waits:.0%} of the time, though its threads are busy only"
            f" {busy:.0%} of it.",
            is_pressed=True,
        )  # fmt: skip
    return Bottleneck(
        "none", "", f"Tuples wait for room {waits:.0%} of the time, and the threads are busy {busy:.0%} of it.", is_pressed=True
    )


__all__ = ["Bottleneck", "bottleneck", "is_pressed"]
