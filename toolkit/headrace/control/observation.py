"""What a controller sees: the difference between two readings of one operator's counters.

Operators of every engine can be observed. What an engine does not measure counts as
zero, and what it measures in addition is in `Observation.measured`.

A thread that processes a tuple is busy, whether it computes or sleeps in a user's
function: it takes no other tuple. How much of a core it needs is a different question
(`Observation.core_share`): threads that sleep leave their core to others, so more threads
than cores can be busy. A thread that waits for the others of its
operator, as between the phases of a batch of transactions, takes no tuple either; it is
occupied, and with fewer threads it would wait less.
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
"""Busy share of the busiest thread from which waiting tuples are taken to wait for the threads."""
_MUCH_S = 0.2
_WAITS = SYNCHRONIZATION.name
"""The measure of the time that workers wait for each other."""


class Growth(Protocol):
    """What a prediction needs of a cost model."""

    def growth(self, observation: Observation, threads: int) -> float | None:
        """Work per tuple with this many threads, relative to that with the present ones; None if unknown."""
        ...


@dataclass(frozen=True)
class Reading:
    """Counters of one operator at one moment, counted since the start of the run.

    Parameters
    ----------
    at_ns : int
        Monotonic clock.
    metrics : OperatorMetrics
    mapping : Mapping or None
        The mapping in force; None if the operator has no key mapping.
    configuration : dict
        The whole configuration in force: control -> value.
    behind : int
        Tuples that are due by the rate schedule and were not added yet.
    offered : float or None
        Present rate of the rate schedules, in tuples per second, all sources together.
    window_size : int
        WS in the stream's time unit; 0 without windows.
    cores : int
        Cores that this process may use.
    runnable_ns : tuple of int or None
        For each worker since it began, nanoseconds in which it had a core or waited for one. None: not known.
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
    """One operator over one interval; the argument of `decide`.

    Parameters
    ----------
    at_s : float
        Seconds since the controller was attached, at the end of the interval.
    interval_s : float
        Its length.
    threads, max_threads : int
        Active instances, and the most there may be.
    members : tuple of int
        Active instances.
    mapping : Mapping or None
        The mapping in force; None if the operator has no key mapping.
    utilisation : float
        Mean share of the interval that active threads spent on tuples, computing or asleep in a user's function,
        0 to 1.
    busiest : float
        The same share for the busiest of them; `thread_busy` has all.
    idle : float
        Mean share of the interval that active threads waited for input.
    spent : dict of str to float
        Each measure of the workers' time -> mean share of the interval that active threads spent on it.
    arrived, processed, results : float
        Tuples per second that came or were due, that every instance has read, and that were emitted.
    updates, comparisons : float
        (key, window) updates, and pairs compared, per second.
    pending : int
        Tuples in the gate, and tuples that are due and wait outside it.
    offered : float or None
        Present rate of the rate schedule, in tuples per second; None without one.
    thread_loads, thread_busy : tuple of float
        For each member in the interval, its load as the engine counts it, else the nanoseconds it was busy; and its
        busy share.
    imbalance_cv, imbalance_max_mean : float
        Imbalance of these loads; 0 and 1 if even.
    bucket_load : float64[1024] or None
        Load of each bucket in the interval; None if there are no buckets.
    latency_p50_ms, latency_p99_ms : float
        Latency of the results emitted in the interval; NaN if there were none.
    configuration : dict
        The operator's whole configuration in force: control -> value.
    measured : dict of str to float or str
        All that the engine measures, by column of `History.to_pandas`: rates of the interval, quantiles, gauges.
    counted : dict of str to object
        Each measure that has a value for each node or tag -> these values at the end of the interval, as in a snapshot.
    watermark : int
        Event time reached (`headrace.progress.MIN_TIME`: not known), and `window_size` (WS; 0: no windows), both in
        the stream's time unit.
    is_changing : bool
        Whether a reconfiguration is under way.
    cores : int
        Cores that this process may use.
    core_share : float
        Part of the time spent on tuples in which the threads had a core or waited for one; the rest of it they slept.
        1 if unknown.
    cost : CostModel or None
        Fitted up to this interval.

    Examples
    --------
    >>> seen = Observation(at_s=5, interval_s=1, threads=1, max_threads=4, utilisation=0.9, arrived=2000, processed=1000, cores=4)
    >>> seen.load, seen.load_with(threads=3), seen.fewest_threads(target=0.7)
    (1.8, 0.6, 3)
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
        """Return a number by name: an attribute such as "load", else a measure of the engine; NaN if it is neither."""
        found = getattr(self, name, self.measured.get(name))
        return float(found) if isinstance(found, (int, float)) else math.nan

    @property
    def coming(self) -> float:
        """Expected tuples per second: by the rate schedule, else those that arrived."""
        return self.arrived if self.offered is None else self.offered

    @property
    def waits(self) -> float:
        """Mean share of the interval that active threads waited for each other."""
        return self.spent.get(_WAITS, 0.0)

    @property
    def occupied(self) -> float:
        """Share of the interval in which the active threads could take no other tuple: busy, or waiting for each other."""
        return min(1.0, self.utilisation + self.waits)

    def at_once(self, threads: int) -> float:
        """How many of this many threads can process tuples at the same time: as many as there are cores for."""
        return min(threads, self.cores / max(self.core_share, 1e-9))

    @property
    def is_source_limited(self) -> bool:
        """Whether due tuples wait although the threads have time: whatever feeds the threads is too slow."""
        return max(self.busiest, self.occupied) < SATURATED and self.pending > _MUCH_S * self.processed

    @property
    def overload(self) -> float:
        """Arrived over processed tuples if the threads hold up the others; else 1."""
        if max(self.busiest, self.occupied) < SATURATED or self.processed <= 0:
            return 1.0
        return max(1.0, self.arrived / self.processed)

    @property
    def load(self) -> float:
        """Work of the active threads relative to their capacity: above 1 they fall behind."""
        return self.occupied * self.overload

    def load_with(self, threads: int, factor: float = 1.0) -> float:
        """Predict the load with this many threads.

        Parameters
        ----------
        threads : int
        factor : float
            Work relative to now.

        Notes
        -----
        The measured load is spread over the other number of threads: all of it while the cost model
        cannot tell; else all but the cost of reading each tuple, which every thread bears in full. More threads
        than there are cores for (`at_once`) share them. The time that threads wait for each other grows with the
        number of other threads, the contention of Gunther's Universal Scalability Law.
        """
        growth = None if self.cost is None else self.cost.growth(self, threads)
        waits = self.occupied - min(self.utilisation, self.occupied)
        contention = (threads - 1) / (self.threads - 1) if self.threads > 1 else 0.0
        each = (self.occupied - waits) * (1.0 if growth is None else growth) + waits * contention
        return each * self.overload * self.at_once(self.threads) * factor / self.at_once(threads)

    def fewest_threads(self, target: float, factor: float = 1.0) -> int:
        """The smallest number of threads whose predicted load is at most `target`; else the smallest of the best ones.

        Parameters
        ----------
        target : float
            A load, as a fraction of the threads' capacity.
        factor : float
            Work relative to now.
        """
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
    """The core share of busy time. Threads may also have used a core while not busy; when they did is not known."""
    if before.runnable_ns is None or now.runnable_ns is None or not busy_ns.sum() > 0:
        return 1.0
    if max(members) >= len(now.runnable_ns):  # a pool shared by several operators
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
