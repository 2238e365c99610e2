"""A snapshot of a run's counters: its state, its sources, and each operator as its section measures it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from headrace.metrics.snapshot import Metrics
from headrace.runtime.sections import Moment
from headrace.runtime.sources import Source, by_stream
from headrace.runtime.steering import OperatorSteering
from headrace.workers.pool import WorkerPool


class MeasuredRun(Protocol):
    """What a snapshot reads of a run."""

    operators: Mapping[str, OperatorSteering]
    sources: Sequence[Source]
    pool: WorkerPool
    started_ns: int

    @property
    def rows_out(self) -> int:
        """Results of the query so far."""
        ...


def measure(run: MeasuredRun, state: str, ended_ns: int) -> Metrics:
    """Take a snapshot of a run in this state; `ended_ns` is when it ended, 0 if it goes on."""
    end = ended_ns or time.monotonic_ns()
    seconds = (end - first_tuple_ns(run)) / 1e9
    moment = Moment(ended_ns, seconds, state == "finished")
    operators = {name: op.section.metrics(name, moment) for name, op in run.operators.items()}
    measured = {source: source.metrics(ended_ns / 1e9 if ended_ns else None) for source in run.sources}
    streams = by_stream(run.sources)

    def once(count: Callable[[Source], int]) -> int:
        """If several operators read a stream, the one that is furthest counts."""
        return sum(max(map(count, group)) for group in streams)

    return Metrics(
        state=state,
        seconds=seconds,
        tuples_in=once(lambda source: measured[source].rows),
        waiting=once(lambda source: measured[source].waiting),
        tuples_out=run.rows_out,
        dropped=once(lambda source: source.late_rows if source.node.late == "drop" else 0),
        set_aside=once(lambda source: source.late_rows if source.node.late == "side" else 0),
        operators=operators,
        rate=next((found.rate for found in measured.values()), None),
        at_ns=end,
        sources=list(measured.values()),
        cpu_ns=run.pool.cpu_ns(),
    )


def first_tuple_ns(run: MeasuredRun) -> int:
    """Monotonic time of the first tuple; until one comes, of the start."""
    return min((source.first_add_ns for source in run.sources if source.first_add_ns), default=run.started_ns)


def costliest(operators: Mapping[str, OperatorSteering]) -> OperatorSteering:
    """The only operator, or the one whose workers have been busy longest up to now."""
    return max(operators.values(), key=lambda operator: operator.section.work_ns(operator.name))
