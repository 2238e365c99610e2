"""Threads by the present load: more above one bound, fewer below another."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.control.damping import Damping
from headrace.control.observation import Observation
from headrace.control.policy import Policy, check_rising
from headrace.control.requests import Request
from headrace.summary import counted


@dataclass
class Threshold(Policy):
    """Keep the load of the active threads between two bounds.

    Above `upper`, the smallest number of threads is added that brings the load to `target` or
    below; below `lower`, as many are removed as leave it there. The load is the share of their time in
    which the threads can take no other tuple, since they process one (computing or asleep) or wait for
    each other; it is above 1 if tuples come faster than they are processed.

    Parameters
    ----------
    upper, target, lower : float
        Fractions of the threads' capacity.
    damping : Damping
        Keeps it from flapping.

    Notes
    -----
    STRETCH (Gulisano et al.), section 8.4: 90, 70 and 45 %. In most rows its Table IV decommissions one thread
    more than leaves the load below the target; this controller follows the rule of the text.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> table = pa.table({"ts": range(1000), "k": ["a", "b"] * 500})
    >>> counts = hr.stream(table, event_time="ts").key_by("k").window(10).aggregate(n=hr.count())
    >>> with counts.start(threads=1, max_threads=2, rate=5_000, controller=Threshold()) as run:
    ...     done = run.wait()
    >>> run.decisions[0].kind, run.decisions[0].controller
    ('attached', 'Threshold')
    """

    upper: float = 0.90
    target: float = 0.70
    lower: float = 0.45
    damping: Damping = field(default_factory=Damping)

    def __post_init__(self):
        check_rising(lower=self.lower, target=self.target, upper=self.upper)

    def decide(self, observation: Observation) -> Request | None:
        """Ask for more threads above the upper bound, fewer below the lower one; None between them.

        Parameters
        ----------
        observation : Observation
            Of the interval that has just ended.
        """
        load, threads = observation.load, observation.threads
        wished, bound = threads, self.upper
        if load > self.upper:
            wished = max(threads, observation.fewest_threads(self.target))
        elif load < self.lower:
            wished, bound = min(threads, observation.fewest_threads(self.target)), self.lower
        number = self.damping.settled(observation, wished)
        if number is None:
            return None
        expected = observation.load_with(number)
        side = "above" if number > threads else "below"
        return Request(
            threads=number,
            metric="load",
            value=load,
            threshold=bound,
            reason=(
                f"the load of {counted(threads, 'thread')} was {load:.0%}, {side} {bound:.0%}:"
                f" {number} bring{'s' * (number == 1)} it to about {expected:.0%} (target {self.target:.0%})"
            ),
            predicted={"load": expected},
        )
