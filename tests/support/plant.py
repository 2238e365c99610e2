"""An operator that exists only as arithmetic: controllers are stepped against it, without threads or clocks.

Tuples come at a rate, cost time, and wait when the threads cannot keep up. A request
goes through the engine's own `resolve`, so what the engine would refuse raises here.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from headrace.changes import Change
from headrace.control.control_loop import ControlLoop
from headrace.control.decisions import DecisionLog
from headrace.control.observation import Reading
from headrace.elastic.configuration import Configuration, resolve
from headrace.elastic.measures import MEASURES
from headrace.metrics.snapshot import OperatorMetrics
from headrace.references import BUCKETS

CORES = 64


class Plant:
    """A simulated operator.

    Parameters
    ----------
    rate : callable
        Tuples per second at a time in seconds.
    tuple_us : float or callable
        Work of a tuple, of all threads together; may depend on the time.
    threads, max_threads : int
    noise : float
        Standard deviation of the work of an interval, a fraction.
    window_s : float
        For a join on a live stream, whose event time is the clock in ms and whose rate is not known
        beforehand: tuples within this time are compared; 0 for no join.
    comparison_us : float
        Of each pair.
    skew : array of 1,024 floats, optional
        Share of the work of each bucket.
    change_s : float
        How long a reconfiguration takes.
    """

    def __init__(
        self,
        rate: Callable[[float], float],
        tuple_us: float | Callable[[float], float] = 100.0,
        threads: int = 1,
        max_threads: int = 8,
        noise: float = 0.0,
        seed: int = 0,
        window_s: float = 0.0,
        comparison_us: float = 0.0,
        skew: np.ndarray | None = None,
        change_s: float = 0.0,
    ):
        self.rate, self.tuple_us, self.max_threads, self.noise = rate, tuple_us, max_threads, noise
        self.window_s, self.comparison_us, self.change_s = window_s, comparison_us, change_s
        self.now, self.backlog, self.draw = 0.0, 0.0, random.Random(seed)
        self.skew = np.full(BUCKETS, 1 / BUCKETS) if skew is None else np.asarray(skew) / np.sum(skew)
        self.configuration = Configuration.even(threads)
        self.added = self.processed = self.compared = 0.0
        self.busy = np.zeros(max_threads)
        self.load = np.zeros(max_threads)
        self.buckets = np.zeros(BUCKETS)
        self.arrivals: list[tuple[float, float]] = []
        self.requests: list[tuple[float, int]] = []
        self.changes: list[tuple[Change, float]] = []

    @property
    def threads(self) -> int:
        return len(self.configuration.members)

    def advance(self, seconds: float) -> None:
        """Let time pass; changes whose time has come are complete."""
        self.now += seconds
        came = self.rate(self.now - seconds / 2) * seconds
        self.arrivals.append((self.now, came))
        tuple_us = self.tuple_us(self.now) if callable(self.tuple_us) else self.tuple_us
        per_tuple_s = (tuple_us + self.comparison_us * self.held()) * 1e-6
        per_tuple_s *= max(0.1, self.draw.gauss(1.0, self.noise))
        shares = np.bincount(self.configuration.mapping.owners, self.skew, minlength=self.max_threads)
        # The slowest thread holds up all others.
        could = seconds / (per_tuple_s * shares.max())
        done = min(self.backlog + came, could)
        self.backlog += came - done
        self.added += came - max(0.0, self.backlog - 100)
        self.added = max(self.added, self.processed + done)
        self.processed += done
        self.compared += done * self.held() if self.comparison_us else 0.0
        self.busy += np.minimum(seconds, done * per_tuple_s * shares)
        self.load += done * shares
        self.buckets += done * self.skew
        for change, at in list(self.changes):
            if self.now >= at - 1e-9:
                self.changes.remove((change, at))
                change.started_ns, now_ns = change.requested_ns, change.requested_ns + 1_000_000
                change.settle("done", now_ns)

    def held(self) -> float:
        """Tuples in the window."""
        if not self.window_s:
            return 0.0
        self.arrivals = [(at, n) for at, n in self.arrivals if at > self.now - self.window_s - 1]
        return sum(n for at, n in self.arrivals if at > self.now - self.window_s)

    def clock_ns(self) -> int:
        return 1 + round(self.now * 1e9)

    def read(self) -> Reading:
        """Counters, in the form that the engine gives."""
        waiting = int(self.backlog)
        values = {measure.name: [0] * self.max_threads if measure.by == "worker" else 0 for measure in MEASURES} | {
            "added": int(self.processed) + min(100, waiting), "processed": int(self.processed),
            "results": int(self.processed), "updates": int(self.processed), "comparisons": int(self.compared),
            "watermark": int(self.now * 1000), "load": list(self.load * 1000), "busy_ns": list(self.busy * 1e9),
            "latency": None, "latest_latency": None, "watermark_gap": {},
            "bucket_load": (self.buckets * 1000).astype(int),  # an array in place of a list: it is only read
        }  # fmt: skip
        metrics = OperatorMetrics(
            "plant", self.threads, self.max_threads, list(self.configuration.members), self.now, None, MEASURES, values
        )
        return Reading(
            at_ns=self.clock_ns(),
            metrics=metrics,
            mapping=self.configuration.mapping,
            behind=max(0, waiting - 100),
            offered=None if self.window_s else self.rate(self.now),
            window_size=int(self.window_s * 1000),
            cores=CORES,
        )

    def ask(self, threads=None, mapping=None, reason="") -> Change:
        """Do what `Changes.request` does, as far as a controller can see. Raises what that would raise."""
        target = resolve(threads, mapping, self.configuration, self.max_threads)
        change = Change(
            "plant", {"threads": self.threads}, {"threads": len(target.members)}, outcome="in flight", reason=reason,
            effects={"buckets_moved": self.configuration.mapping.differing(target.mapping)},
        )  # fmt: skip
        assert target != self.configuration, f"asked for what is: {reason}"
        assert not self.changes, "asked while a change was under way"
        self.configuration = target
        self.requests.append((self.now, len(target.members)))
        if self.change_s:
            self.changes.append((change, self.now + self.change_s))
        else:
            change.settle("done", change.requested_ns)
        return change


def looped(plant: Plant, controller, interval_s: float = 0.2, **options) -> ControlLoop:
    """A control loop on a plant and its clock, to be stepped by `play`."""
    return ControlLoop(
        "plant", controller, plant.read, plant.ask, DecisionLog(), interval_s, clock_ns=plant.clock_ns, **options
    )


def play(plant: Plant, loop: ControlLoop, seconds: float) -> None:
    """Step both for so long."""
    until = plant.now + seconds
    while plant.now < until - 1e-9:
        loop.step()
        plant.advance(loop.interval_s)
    loop.step()
