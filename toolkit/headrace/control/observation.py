"""What a controller sees: the difference between two readings of one operator's counters.

Every engine's operators can be observed: what one does not measure is as if it were
nothing, and what it measures beside is in `Observation.measured`.

A thread that is at a tuple is busy, whether it computes or sleeps in a function of the
user's: it takes no other tuple. What it needs of the machine is another thing
(`Observation.core_share`): threads that sleep leave their core to others, so more of
them than there are cores can be at work. A thread that waits for the others of its
operator, as between the phases of a batch of transactions, takes no tuple either; it is
occupied, and fewer threads would wait less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping as Dictionary
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from headrace.control.mapping import Mapping
from headrace.cores import usable_cores
from headrace.metrics.by_worker import coefficient_of_variation, max_over_mean
from headrace.metrics.intervals import Columns, difference
from headrace.metrics.measures import BUCKET_LOAD, SYNCHRONIZATION, WATERMARK
from headrace.metrics.snapshot import OperatorMetrics
from headrace.progress import MIN_TIME

SATURATED = 0.7
"""Busy share of the busiest thread from which tuples that pile up are taken to wait for the threads."""
_MUCH_S = 0.2
_WAITS = SYNCHRONIZATION.name
"""The measure of workers that wait for each other."""


class Growth(Protocol):
    """What a prediction asks of a cost model."""

    def growth(self, observation: Observation, threads: int) -> float | None:
        """Work of a tuple with so many threads over that with the present ones; None: cannot tell."""
        ...


@dataclass(frozen=True)
class Reading:
    """Counters of one operator at one moment, everything since the start of the run.

    Parameters
    ----------
    at_ns : int
        Monotonic clock.
    metrics : OperatorMetrics
    mapping : Mapping or None
        In force; None where the operator has no key mapping.
    configuration : dict
        All that is in force: control -> value.
    behind : int
        Tuples that the rate schedule says are due and that were not added yet.
    offered : float or None
        Tuples per second that the rate schedules give now, all sources together.
    window_size : int
        WS in the stream's time unit; 0 without windows.
    cores : int
        That this process may use.
    runnable_ns : tuple of int or None
        Of each worker, since it began: nanoseconds in which it had a core or waited for one. None: not known.
    """

    at_ns: int
    metrics: OperatorMetrics
    mapping: Mapping | None = None
    configuration: Dictionary[str, Any] = field(default_factory=dict)
    behind: int = 0
    offered: float | None = None
    window_size: int = 0
    cores: int = field(default_factory=usable_cores)
    runnable_ns: Sequence[int] | None = None


@dataclass(frozen=True)
class Observation:
    """One operator over one interval; what `decide` is given.

    Parameters
    ----------
    at_s : float
        Seconds since the controller was attached, at the end of the interval.
    interval_s : float
        Its length.
    threads, max_threads : int
        Active instances, and how many there may be.
    members : tuple of int
        Which are active.
    mapping : Mapping or None
        In force; None where the operator has no key mapping.
    utilisation : float
        Share of the interval the active threads spent on tuples, at work or asleep in a user's function, their mean,
        0 to 1.
    busiest : float
        The same, of the busiest of them; `thread_busy` has all.
    idle : float
        Share of the interval the active threads waited for input, their mean.
    spent : dict of str to float
        By measure of the workers' time: share of the interval that the active threads spent so, their mean.
    arrived, processed, results : float
        Tuples per second: that came or were due, that every instance has read, that were put out.
    updates, comparisons : float
        (key, window) updates and pairs compared per second.
    pending : int
        Tuples in the gate, and those that are due and wait outside it.
    offered : float or None
        Tuples per second that the rate schedule gives now; None without one.
    thread_loads, thread_busy : tuple of float
        Of each member in the interval: its load as the engine counts it, else the nanoseconds it was busy; and its
        busy share.
    imbalance_cv, imbalance_max_mean : float
        Of these loads; 0 and 1 are even.
    bucket_load : float64[1024] or None
        Load of each bucket in the interval; None where there are no buckets.
    latency_p50_ms, latency_p99_ms : float
        Of what was put out in the interval; NaN if nothing was.
    configuration : dict
        All that is in force at the operator: control -> value.
    measured : dict of str to float or str
        What the engine measures in all, by column of `History.to_pandas`: rates of the interval, quantiles, gauges.
    counted : dict of str to object
        By measure that there is one of for each node or tag: its value at the end of the interval, as in a snapshot.
    watermark : int
        Event time reached (`headrace.progress.MIN_TIME`: not known), and `window_size` (WS; 0: no windows), both in
        the stream's time unit.
    is_changing : bool
        Whether a reconfiguration is under way.
    cores : int
        That this process may use.
    core_share : float
        Part of the time spent on tuples in which the threads had a core or waited for one; the rest they slept. 1 where
        nobody can tell.
    cost : CostModel or None
        Fitted up to this interval.
    """

    at_s: float
    interval_s: float
    threads: int
    max_threads: int
    utilisation: float
    members: tuple[int, ...] = ()
    mapping: Mapping | None = field(default_factory=lambda: Mapping.even(1))
    busiest: float = 0.0
    idle: float = 0.0
    spent: Dictionary[str, float] = field(default_factory=dict)
    arrived: float = 0.0
    processed: float = 0.0
    results: float = 0.0
    updates: float = 0.0
    comparisons: float = 0.0
    pending: int = 0
    offered: float | None = None
    thread_loads: tuple[float, ...] = ()
    thread_busy: tuple[float, ...] = ()
    imbalance_cv: float = 0.0
    imbalance_max_mean: float = 1.0
    bucket_load: np.ndarray | None = None
    latency_p50_ms: float = math.nan
    latency_p99_ms: float = math.nan
    configuration: Dictionary[str, Any] = field(default_factory=dict)
    measured: Dictionary[str, Any] = field(default_factory=dict)
    counted: Dictionary[str, Any] = field(default_factory=dict)
    watermark: int = 0
    window_size: int = 0
    is_changing: bool = False
    cores: int = field(default_factory=usable_cores)
    core_share: float = 1.0
    cost: Growth | None = None

    def value(self, name: str) -> float:
        """Give a number by name: an attribute such as "load", else what the engine measures; NaN if it is neither."""
        found = getattr(self, name, self.measured.get(name))
        return float(found) if isinstance(found, (int, float)) else math.nan

    @property
    def coming(self) -> float:
        """Tuples per second to reckon with: of the rate schedule, or those that arrived."""
        return self.arrived if self.offered is None else self.offered

    @property
    def waits(self) -> float:
        """Share of the interval the active threads waited for each other, their mean."""
        return self.spent.get(_WAITS, 0.0)

    @property
    def occupied(self) -> float:
        """Share of the interval in which the active threads could take no other tuple: busy, or waiting for each other."""
        return min(1.0, self.utilisation + self.waits)

    def at_once(self, threads: int) -> float:
        """How many of so many threads can be at tuples at a time: all that the cores suffice for."""
        return min(threads, self.cores / max(self.core_share, 1e-9))

    @property
    def is_source_limited(self) -> bool:
        """Whether tuples that are due wait although the threads have time: what feeds them is too slow."""
        return max(self.busiest, self.occupied) < SATURATED and self.pending > _MUCH_S * self.processed

    @property
    def overload(self) -> float:
        """Arrived over processed tuples where the threads are what holds the others up; else 1."""
        if max(self.busiest, self.occupied) < SATURATED or self.processed <= 0:
            return 1.0
        return max(1.0, self.arrived / self.processed)

    @property
    def load(self) -> float:
        """What the active threads would have to do over what they can: above 1 they fall behind."""
        return self.occupied * self.overload

    def load_with(self, threads: int, factor: float = 1.0) -> float:
        """Predict the load with so many threads.

        Parameters
        ----------
        threads : int
        factor : float
            How much more work than now.

        Notes
        -----
        Measured load, spread over the other number: all of it while the cost model cannot tell;
        else every thread has the cost of reading each tuple for itself. More threads than the cores
        suffice for (`at_once`) share them. What threads wait for each other grows with the others
        there are to wait for, the contention of Gunther's Universal Scalability Law.
        """
        growth = None if self.cost is None else self.cost.growth(self, threads)
        waits = self.occupied - min(self.utilisation, self.occupied)
        contention = (threads - 1) / (self.threads - 1) if self.threads > 1 else 0.0
        each = (self.occupied - waits) * (1.0 if growth is None else growth) + waits * contention
        return each * self.overload * self.at_once(self.threads) * factor / self.at_once(threads)

    def fewest_threads(self, target: float, factor: float = 1.0) -> int:
        """The smallest number of threads whose predicted load is at most `target`; else the smallest that does best."""
        loads = [self.load_with(n, factor) for n in range(1, self.max_threads + 1)]
        for n, load in enumerate(loads, start=1):
            if load <= target * (1 + 1e-9):
                return n
        least = min(loads) * 1.02
        return next(n for n, load in enumerate(loads, start=1) if load <= least)


def observe(before: Reading, now: Reading, origin_ns: int, is_changing: bool = False) -> Observation:
    """Make an observation of the interval between two readings."""
    seconds = max(1e-9, (now.at_ns - before.at_ns) / 1e9)
    old, new = before.metrics, now.metrics
    members = list(new.members)
    busy_ns = difference(new, old, "busy_ns")[members]
    busy = np.clip(busy_ns / (seconds * 1e9), 0.0, 1.0)
    loads = difference(new, old, "load")[members] if "load" in new.values else busy_ns
    measured = Columns(new.measures).measured(new, old, seconds)
    spent = _spent(old, new, members, seconds)
    return Observation(
        at_s=(now.at_ns - origin_ns) / 1e9,
        interval_s=seconds,
        threads=len(members),
        max_threads=new.max_threads,
        members=tuple(members),
        mapping=now.mapping,
        utilisation=float(busy.mean()) if members else 0.0,
        busiest=float(busy.max()) if members else 0.0,
        idle=spent.get("idle_ns", 0.0),
        spent=spent,
        arrived=max(0.0, (new.added + now.behind - old.added - before.behind) / seconds),
        processed=max(0.0, (new.processed - old.processed) / seconds),
        results=(new.results - old.results) / seconds,
        updates=measured.get("updates_per_s", 0.0),
        comparisons=measured.get("comparisons_per_s", 0.0),
        pending=new.in_flight + now.behind,
        offered=now.offered,
        thread_loads=tuple(float(load) for load in loads),
        thread_busy=tuple(float(share) for share in busy),
        imbalance_cv=coefficient_of_variation(loads),
        imbalance_max_mean=max_over_mean(loads),
        bucket_load=_bucket_load(old, new),
        latency_p50_ms=measured.get("latency_p50_ms", math.nan),
        latency_p99_ms=measured.get("latency_p99_ms", math.nan),
        configuration=now.configuration,
        measured=measured,
        counted={measure.name: new.values[measure.name] for measure in new.measures if measure.by in ("node", "tag")},
        watermark=new.values.get(WATERMARK.name, MIN_TIME),
        window_size=now.window_size,
        is_changing=is_changing,
        cores=now.cores,
        core_share=_core_share(before, now, members, busy_ns),
    )


def _spent(old: OperatorMetrics, new: OperatorMetrics, members: list[int], seconds: float) -> dict[str, float]:
    times = [m.name for m in new.measures if m.by == "worker" and m.unit == "ns" and m.kind == "counter"]
    shares = {name: np.clip(difference(new, old, name)[members] / (seconds * 1e9), 0.0, 1.0) for name in times if members}
    return {name: float(share.mean()) for name, share in shares.items()}


def _core_share(before: Reading, now: Reading, members: list[int], busy_ns: np.ndarray) -> float:
    """Of the time that threads were busy. They may have used a core when they were not: nobody is told when."""
    if before.runnable_ns is None or now.runnable_ns is None or not busy_ns.sum() > 0:
        return 1.0
    if max(members) >= len(now.runnable_ns):  # they are the threads of a pool that several operators share
        return 1.0
    runnable = np.array([now.runnable_ns[member] - before.runnable_ns[member] for member in members])
    return float(np.clip(runnable, 0, busy_ns).sum() / busy_ns.sum())


def _bucket_load(old: OperatorMetrics, new: OperatorMetrics) -> np.ndarray | None:
    if not len(new.values.get(BUCKET_LOAD.name, ())):
        return None
    return np.maximum(0, difference(new, old, BUCKET_LOAD.name)).astype(np.float64)


def with_cost(observation: Observation, cost: Growth) -> Observation:
    """Return the observation with a cost model for its predictions."""
    return replace(observation, cost=cost)
