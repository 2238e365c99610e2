"""What if another controller had steered? The same stream is run again under each plan, for comparison."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.arguments import is_whole_number
from headrace.changes import Change
from headrace.control.quality import quality
from headrace.controllers import DecisionLog, Observation, Quality, Schedule
from headrace.egress.sinks import discard
from headrace.errors import ParameterError, RunFailedError

if TYPE_CHECKING:
    import pandas as pd

    from headrace.stream import Stream

DEFAULT_TARGET_MS = 50.0

COLUMNS = (
    "seconds", "thread_seconds", "mean_threads", "changes", "turns", "latency_p50_ms", "latency_p99_ms",
    "delay_p99_ms", "in_target", "cost", "regret", "results",
)  # fmt: skip
"""Of the table, by plan."""


@dataclass(frozen=True)
class Replay:
    """The stream under one plan.

    Parameters
    ----------
    seconds : float
        From the first tuple to the end.
    thread_seconds : float
        Number of active threads, summed over that time.
    changes : list of Change
        Reconfigurations of the steered operator.
    decisions : DecisionLog
    observations : list of Observation
        One for each interval.
    delay_ms : float64[intervals]
        For each interval, the 99th percentile of latency plus the time that due tuples
        waited before they were added, which latency does not count.
    latency_ms : dict
        p50, p99 and max over all results.
    results : int
    """

    seconds: float
    thread_seconds: float
    changes: list[Change]
    decisions: DecisionLog
    observations: list[Observation]
    delay_ms: np.ndarray
    latency_ms: dict[str, float]
    results: int

    @property
    def quality(self) -> Quality:
        """Stability, accuracy, settling time, overshoot."""
        return quality(self.observations)

    def in_target(self, target_ms: float) -> float:
        """Share of the time in which the delay was at most this long."""
        lengths = np.array([o.interval_s for o in self.observations])
        return float(lengths[self.delay_ms <= target_ms].sum() / lengths.sum()) if len(lengths) else math.nan

    @property
    def delay_p99_ms(self) -> float:
        """The delay that 99 % of the tuples did not exceed."""
        weights = np.array([o.processed * o.interval_s for o in self.observations])
        if not weights.sum() > 0:
            return math.nan
        order = np.argsort(self.delay_ms)
        reached = np.cumsum(weights[order]) >= 0.99 * weights.sum()
        return float(self.delay_ms[order][int(np.argmax(reached))])


@dataclass(frozen=True)
class Comparison:
    """The same stream under several plans: `table` compares them, `replays` has the details.

    Parameters
    ----------
    replays : dict of str to Replay
    target_ms : float
        Delay that is good enough.
    penalty : float
        Cost of a second outside the target, in thread-seconds.
    """

    replays: dict[str, Replay]
    target_ms: float
    penalty: float

    @property
    def table(self) -> pd.DataFrame:
        """One row for each plan, by its name.

        Returns
        -------
        DataFrame
            seconds; thread_seconds and mean_threads; changes, and turns from more threads to fewer or
            back; latency_p50_ms and latency_p99_ms of the results; delay_p99_ms, which includes the time
            that tuples waited outside;
            in_target, the share of the time with a delay of at most `target_ms`; cost =
            thread_seconds + penalty x seconds outside the target; regret, how much more the plan cost
            than the best plan; results, rows.
        """
        import pandas as pd

        rows = {name: self._row(replay) for name, replay in self.replays.items()}
        least = min(row["cost"] for row in rows.values())
        for row in rows.values():
            row["regret"] = row["cost"] - least
        return pd.DataFrame.from_dict(rows, orient="index", columns=list(COLUMNS)).rename_axis("plan")

    def _row(self, replay: Replay) -> dict[str, float]:
        within = replay.in_target(self.target_ms)
        outside_s = (1 - within) * replay.seconds if replay.observations else 0.0
        sizes = [c.to_threads - c.from_threads for c in replay.changes if c.to_threads != c.from_threads]
        return {
            "seconds": replay.seconds,
            "thread_seconds": replay.thread_seconds,
            "mean_threads": replay.thread_seconds / replay.seconds if replay.seconds > 0 else math.nan,
            "changes": len(replay.changes),
            "turns": sum((a > 0) != (b > 0) for a, b in itertools.pairwise(sizes)),
            "latency_p50_ms": replay.latency_ms.get("p50", math.nan),
            "latency_p99_ms": replay.latency_ms.get("p99", math.nan),
            "delay_p99_ms": replay.delay_p99_ms,
            "in_target": within,
            "cost": replay.thread_seconds + self.penalty * outside_s,
            "results": replay.results,
        }

    def __str__(self) -> str:
        return self.table.to_string(float_format=lambda number: f"{number:.2f}")


def compare_controllers(
    query: Stream,
    plans: Dictionary[str, Any],
    *,
    rate: Any,
    threads: int = 1,
    max_threads: int | None = None,
    operator: str | None = None,
    target_ms: float = DEFAULT_TARGET_MS,
    penalty: float | None = None,
    interval_s: float = 0.1,
    **options: Any,
) -> Comparison:
    """Run the same recorded stream under several controllers or hand-made schedules, one after another.

    Parameters
    ----------
    query : Stream
        Its inputs must be repeatable: tables, frames, files.
    plans : dict of str to plan
        Name -> None (the threads stay as they are), a number of threads, a schedule
        ``[(seconds, threads), ...]``, or what `run.control` takes. Each controller is copied first,
        so what it learned in one replay is not known in another.
    rate : float or schedule of `headrace.rates`
        How the stream is played; the same for all.
    threads, max_threads : int
        Threads at the start, and the most.
    operator : str, optional
        The operator to steer; by default the only one, or the first.
    target_ms : float
        Delay that is good enough.
    penalty : float, optional
        Cost of a second outside the target, in thread-seconds; by default `max_threads`, as much as
        all threads for that second.
    interval_s : float
        Time between two observations by the controllers.
    **options
        For `start`.

    Returns
    -------
    Comparison

    Raises
    ------
    ParameterError
        There is no plan, or no rate: at full speed every plan has as much to do as it can.
    RunFailedError
        Two plans gave different numbers of results, which must not happen.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> table = pa.table({"ts": range(2000), "k": ["a", "b"] * 1000})
    >>> counts = hr.stream(table, event_time="ts").key_by("k").window(10).aggregate(n=hr.count())
    >>> found = hr.compare_controllers(
    ...     counts, {"one": 1, "two": 2, "by hand": [(0.1, 2)]}, rate=5_000, max_threads=2, interval_s=0.05)
    >>> found.table["mean_threads"].round(1)[["one", "two"]].tolist(), found.table["results"].nunique()
    ([1.0, 2.0], 1)
    """
    if not plans:
        raise ParameterError("plans={}: give at least one, such as {'fixed': None}")
    if rate is None:
        raise ParameterError("rate=None: give tuples per second or a schedule; at full speed plans cannot be compared")
    options = {"sink": discard(), **options}
    replays, most = {}, threads if max_threads is None else max_threads
    chosen = query.operators[0] if operator is None else operator
    for name, plan in plans.items():
        size = plan if is_whole_number(plan) else threads
        steering = {"controller": {chosen: _controller(plan)}, "control_every": interval_s}
        with query.start(threads=size, max_threads=max_threads, rate=rate, **steering, **options) as run:
            run.wait()
            replays[name] = _replay(run, chosen, size)
            most = run.metrics().operators[chosen].max_threads
    counts = {name: replay.results for name, replay in replays.items()}
    if len(set(counts.values())) > 1:
        raise RunFailedError(f"the plans gave different numbers of results: {counts}; can the input be read again?")
    return Comparison(replays, target_ms, float(most if penalty is None else penalty))


def _controller(plan: Any) -> Any:
    if plan is None or isinstance(plan, int):
        return None
    if isinstance(plan, list) and plan and all(isinstance(step, tuple) for step in plan):
        return Schedule(plan)
    return copy.deepcopy(plan)


def _replay(run: Any, operator: str, threads: int) -> Replay:
    metrics = run.metrics()
    end_ns = metrics.at_ns
    start_ns = end_ns - round(metrics.seconds * 1e9)
    changes = [c for c in run[operator].changes if c.outcome == "done"]
    used, at_ns = 0.0, start_ns
    for change in changes:
        moment = min(max(change.completed_ns, at_ns), end_ns)
        used += threads * (moment - at_ns) / 1e9
        threads, at_ns = change.to_threads, moment
    used += threads * (end_ns - at_ns) / 1e9
    observations = [o for o in run[operator].control_loop.observations if o.processed > 0 or o.pending > 0]
    return Replay(
        (end_ns - start_ns) / 1e9,
        used,
        changes,
        run.decisions,
        observations,
        np.array(_delays_ms(observations)),
        getattr(metrics.operators[operator], "latency_ms", {}),
        metrics.tuples_out,
    )


def _delays_ms(observations: list[Observation]) -> list[float]:
    delays: list[float] = []
    for o in observations:
        if o.processed > 0:
            latency = 0.0 if math.isnan(o.latency_p99_ms) else o.latency_p99_ms
            # All are processed in the end: after a pause of the whole process, the rate in it says nothing of the wait.
            longest_s = observations[-1].at_s - o.at_s + o.interval_s
            delays.append(latency + 1e3 * min(o.pending / o.processed, longest_s))
        else:  # nothing was processed: waiting tuples have waited that much longer
            delays.append((delays[-1] if delays else 0.0) + 1e3 * o.interval_s)
    return delays
