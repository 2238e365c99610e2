"""Threads by the cost of operations: as many as it takes for the tuples that come and those that wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.arguments import check_seconds
from headrace.control.damping import Damping
from headrace.control.observation import Observation
from headrace.control.policy import LEAST_S, Policy, check_rising
from headrace.control.requests import Request
from headrace.summary import counted

_OPERATIONS = "operations_per_s"
_BUSY = 0.7
"""Share of their time from which threads are taken to be what holds up the tuples that wait."""
_MUCH_S = 0.2
_AS_GOOD = 1.05
"""Where no number of threads is enough: how much more than the least load a smaller number may have."""


@dataclass
class _Learned:
    """What tuples took with this number of threads; sums in which older intervals count less and less."""

    at_s: float = 0.0
    tuples: float = 0.0
    operations: float = 0.0
    work_ns: float = 0.0
    waits_ns: float = 0.0

    def add(self, seen: Observation, work: float, waits: float, memory_s: float) -> None:
        kept = 0.5 ** (seen.interval_s / memory_s)
        scale = seen.interval_s * seen.at_once(seen.threads) * 1e9  # threads on one core are busy waiting for it
        self.at_s = seen.at_s
        self.tuples = kept * self.tuples + seen.processed * seen.interval_s
        self.operations = kept * self.operations + seen.measured.get(_OPERATIONS, 0.0) * seen.interval_s
        self.work_ns = kept * self.work_ns + work * scale
        self.waits_ns = kept * self.waits_ns + waits * scale

    @property
    def each(self) -> float:
        """Operations of a tuple; 0 where none are counted."""
        return self.operations / self.tuples


@dataclass
class ProactiveOperations(Policy):
    """Keep the predicted time of operations within a narrow band of the threads' capacity.

    It learns the cost of an operation during the run: the time that threads are busy, and the
    time they wait for each other, by number of threads. From this, the operations of a tuple, and the
    tuples that come (by the rate schedule, if there is one) or wait, it derives the load of any number
    of threads. So it answers a rising rate before threads are busy at that
    rate, and does not ask for threads that would mostly wait for each other.

    It works on any operator, but is made for transactions. If an engine counts no operations, or none
    while one thread runs alone, the cost is that of a tuple.

    Parameters
    ----------
    upper, lower : float
        Fractions of the threads' capacity: more threads above `upper`, fewer below `lower`. A change aims at
        the middle, so fewer threads are asked for only if they would still stay below `upper`.
    drain_s : float
        Time given to the tuples that wait.
    memory_s : float
        Half-life of what it has learned; what it learned about a number of threads is forgotten when that number
        has not occurred for ten times as long.
    damping : Damping
        Keeps it from flapping.

    Notes
    -----
    The band is that of STRETCH (Gulisano et al.), section 8.5; TStream has no controller. The parts follow
    TStream's Figure 9. Waiting grows with the number of other threads: w(n) = w(m) (n - 1) / (m - 1) from the
    nearest number m that was observed, the contention of Gunther's Universal Scalability Law. One thread alone
    shows nothing about waiting, which is taken to be zero until there have been two.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> counts = hr.table("counts", columns={"n": "int64"}, rows=10)
    >>> def add(e, t):
    ...     counts[e.k].n += 1
    >>> clicks = hr.stream(pa.table({"ts": range(1000), "k": [1, 2] * 500}), event_time="ts")
    >>> with clicks.transact(add).start(threads=1, max_threads=2, controller=ProactiveOperations()) as run:
    ...     done = run.wait()
    >>> run.decisions[0].kind, run.decisions[0].controller
    ('attached', 'ProactiveOperations')
    """

    upper: float = 0.80
    lower: float = 0.70
    drain_s: float = 1.0
    memory_s: float = 2.0
    damping: Damping = field(default_factory=lambda: Damping(up_after_s=0.2, down_after_s=1.0, cooldown_s=0.6))
    _learned: dict[int, _Learned] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self):
        check_rising(lower=self.lower, upper=self.upper)
        check_seconds("drain_s", self.drain_s, LEAST_S)
        check_seconds("memory_s", self.memory_s, LEAST_S)

    def decide(self, observation: Observation) -> Request | None:
        """Ask for the threads that the coming and waiting tuples need; None if the present ones will do.

        Parameters
        ----------
        observation : Observation
            Of the interval that has just ended.
        """
        threads = observation.threads
        self._learn(observation)
        if not self._learned:
            self.damping.settled(observation, threads)
            return None
        coming, waiting = self._to_do(observation)
        cost_ns = self._costs(observation)

        def load(n: int, per_s: float = coming + waiting) -> float:
            return per_s * sum(cost_ns(n)) / 1e9 / observation.at_once(n)

        now, middle = load(threads), (self.lower + self.upper) / 2
        wished, bound = threads, self.upper
        if now > self.upper:
            wished = _fewest(load, middle, observation.max_threads)  # fewer, if the threads mostly wait for each other
        elif now < self.lower:
            wished, bound = min(threads, _fewest(load, middle, observation.max_threads)), self.lower
        number = self.damping.settled(observation, wished)
        if number is None:
            return None
        work, waits = cost_ns(threads)
        each = self._learned[threads].each if threads in self._learned else 0.0
        operations = f"{each:.3g} operations each, {work / each:,.0f} ns an operation" if each else f"{work:,.0f} ns each"
        waited = f" and {waits:,.0f} ns a tuple of waiting for each other" if waits >= 1 else ""
        return Request(
            threads=number,
            metric="predicted load",
            value=now,
            threshold=bound,
            reason=(
                f"{coming:,.0f} tuples/s coming, {observation.pending:,} waiting, {operations}{waited} make {now:.0%} of what"
                f" {counted(threads, 'thread')} can do, {'above' if now > self.upper else 'below'} {bound:.0%}: {number} would"
                f" have {load(number):.0%}"
            ),
            predicted={"load": load(number, coming)},  # once the backlog is done
        )

    def _learn(self, seen: Observation) -> None:
        """Note what tuples took; an interval with a change in it cannot be attributed, and is left out."""
        if seen.is_changing or seen.processed <= 0:
            return
        learned = self._learned.setdefault(seen.threads, _Learned())
        learned.add(seen, seen.utilisation, seen.waits, self.memory_s)
        oldest = seen.at_s - 10 * self.memory_s
        self._learned = {n: each for n, each in self._learned.items() if each.at_s >= oldest}

    def _to_do(self, seen: Observation) -> tuple[float, float]:
        """Tuples a second that come, and that wait."""
        if max(seen.busiest, seen.occupied) < _BUSY and seen.pending > _MUCH_S * seen.processed > 0:
            return min(seen.coming, seen.processed), 0.0  # their input is too slow
        return seen.coming, seen.pending / self.drain_s

    def _costs(self, seen: Observation) -> Callable[[int], tuple[float, float]]:
        """By number of threads: nanoseconds of work and of waiting for a tuple, of all threads together."""
        operations = seen.measured.get(_OPERATIONS, 0.0) / seen.processed if seen.processed > 0 else 0.0

        def cost_ns(n: int) -> tuple[float, float]:
            m = min(self._learned, key=lambda m: (abs(m - n), -self._learned[m].at_s))
            known = self._learned[m]
            # The cost of a tuple is scaled by its operations, of which there may be more than when it was learned.
            scale = operations / known.each if operations and known.each else 1.0
            contention = 1.0 if m == n else ((n - 1) / (m - 1) if m > 1 else 0.0)
            return scale * known.work_ns / known.tuples, scale * contention * known.waits_ns / known.tuples

        return cost_ns


def _fewest(load: Callable[[int], float], target: float, most: int) -> int:
    """The smallest number of threads whose load is at most `target`; else the smallest that does about as well as any."""
    loads = {n: load(n) for n in range(1, most + 1)}
    enough = [n for n, value in loads.items() if value <= target * (1 + 1e-9)]
    return enough[0] if enough else next(n for n, value in loads.items() if value <= _AS_GOOD * min(loads.values()))
