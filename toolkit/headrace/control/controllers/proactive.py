"""Threads by the predicted work: the tuples that wait, and those that windows will hold."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from headrace.arguments import check_seconds
from headrace.control.damping import Damping
from headrace.control.observation import Observation
from headrace.control.policy import LEAST_S, Policy, check_rising
from headrace.control.requests import Request
from headrace.progress import MIN_TIME
from headrace.summary import counted

_KEPT = 2_000
_LATELY = 6
"""Intervals over which the pace of event time is measured: of one alone it is mostly noise."""


@dataclass
class ProactiveJoin(Policy):
    """Keep predicted work within a narrow band of the threads' capacity.

    The predicted work is the larger of the work now and the work `horizon_s` from now, at the rate at which
    tuples come (by the rate schedule, if there is one), plus what it takes to process the waiting tuples
    within `drain_s`. A join compares each tuple with a window of others: after a change of rate
    in a live stream the comparisons follow over the next WS, and the prediction includes them.

    Parameters
    ----------
    upper, lower : float
        Fractions of the threads' capacity: more threads above `upper`, fewer below `lower`. A change aims at
        the middle, so fewer threads are asked for only if they would still stay below `upper`.
    horizon_s : float
        How far ahead.
    drain_s : float
        Time given to the work that waits.
    damping : Damping
        Keeps it from flapping.

    Notes
    -----
    STRETCH (Gulisano et al.), section 8.5: band of 70 to 80 %, load from pending and predicted
    work by the model of its reference 22 (Gulisano, Papadopoulos, Nikolakopoulos,
    Papatriantafilou, Tsigas: Performance modeling of stream joins, DEBS 2017).

    Examples
    --------
    >>> from headrace.control.observation import Observation
    >>> busy = {"threads": 1, "max_threads": 4, "utilisation": 0.95, "busiest": 0.95, "interval_s": 0.1, "cores": 4}
    >>> controller = ProactiveJoin()
    >>> asked = [controller.decide(Observation(at_s=at, arrived=900, processed=900, **busy)) for at in (1.0, 1.1, 1.2)]
    >>> asked[0], asked[2].threads
    (None, 2)
    """

    upper: float = 0.80
    lower: float = 0.70
    horizon_s: float = 2.0
    drain_s: float = 1.0
    damping: Damping = field(default_factory=lambda: Damping(up_after_s=0.2, down_after_s=1.0, cooldown_s=0.6))
    _history: deque[tuple[int, float, float]] = field(
        default_factory=lambda: deque(maxlen=_KEPT), init=False, repr=False
    )
    _processed: float = field(default=0.0, init=False, repr=False)

    def __post_init__(self):
        check_rising(lower=self.lower, upper=self.upper)
        check_seconds("horizon_s", self.horizon_s)
        check_seconds("drain_s", self.drain_s, LEAST_S)

    def decide(self, observation: Observation) -> Request | None:
        """Ask for the threads that the predicted work needs; None if the present ones will do.

        Parameters
        ----------
        observation : Observation
            Of the interval that has just ended.
        """
        self._note(observation)
        if observation.processed <= 0:
            self.damping.settled(observation, observation.threads)
            return None
        steady, waiting, growth = self._work_to_come(observation)
        factor = steady + waiting
        load, threads = observation.load_with(observation.threads, factor), observation.threads
        middle = (self.lower + self.upper) / 2
        wished, bound = threads, self.upper
        if load > self.upper:
            wished = max(threads, observation.fewest_threads(middle, factor))
        elif load < self.lower:
            wished, bound = min(threads, observation.fewest_threads(middle, factor)), self.lower
        number = self.damping.settled(observation, wished)
        if number is None:
            return None
        expected, settled = observation.load_with(number, factor), observation.load_with(number, steady)
        side = "above" if number > threads else "below"
        return Request(
            threads=number,
            metric="predicted load",
            value=load,
            threshold=bound,
            reason=(
                f"{observation.coming:,.0f} tuples/s coming, {observation.pending:,} waiting and {growth:.0%} of the present"
                f" comparisons per tuple make {load:.0%} of what {counted(threads, 'thread')} can do, {side}"
                f" {bound:.0%}: {number} would have {expected:.0%}"
            ),
            predicted={"load": settled},  # once the backlog is worked off
        )

    def _note(self, observation: Observation) -> None:
        """Remember how many tuples there were by which event time, over the last window and one interval."""
        self._processed += observation.processed * observation.interval_s
        if observation.watermark <= MIN_TIME:
            return
        self._history.append((observation.watermark, self._processed, observation.at_s))
        while len(self._history) > _LATELY and self._history[1][0] <= observation.watermark - observation.window_size:
            self._history.popleft()

    def _work_to_come(self, observation: Observation) -> tuple[float, float, float]:
        """What comes and what waits, over the work now; and comparisons per tuple then over now."""
        coming, waiting = observation.coming, observation.pending / self.drain_s
        if observation.is_source_limited:
            coming, waiting = min(coming, observation.processed), 0.0
        growth = self._window_growth(observation, coming)
        compared = self._compared_share(observation)
        # The load counts tuples that arrive and are not processed; here they are in `coming` and in `waiting`.
        done = observation.processed * observation.overload
        return coming * max(1.0, 1 + compared * (growth - 1)) / done, waiting / done, growth

    def _compared_share(self, observation: Observation) -> float:
        """Part of the cost of a tuple that comparisons make."""
        if observation.comparisons <= 0:
            return 0.0
        if observation.cost is None or not observation.cost.is_trusted:
            return 1.0
        per_tuple = observation.cost.per_tuple_ns(observation, observation.threads)
        compared = observation.cost.costs["comparison_ns"] * observation.comparisons / observation.processed
        return compared / per_tuple

    def _window_growth(self, observation: Observation, coming: float) -> float:
        """Tuples a window holds `horizon_s` from now, over those it holds now.

        A live stream's event time goes with the clock: at a higher rate more tuples fall into a
        window. Of a recorded one that is played at a given rate it goes with the tuples.
        """
        if observation.comparisons <= 0 or len(self._history) < 2 or not observation.window_size:
            return 1.0
        times, counts, clock = np.array(self._history).T
        since = max(0, len(times) - _LATELY)
        passed, came = times[-1] - times[since], counts[-1] - counts[since]
        if passed <= 0 or came <= 0:
            return 1.0
        pace = passed / (clock[-1] - clock[since]) if observation.offered is None else coming * passed / came
        if pace <= 0:
            return 1.0
        now, ahead = times[-1], pace * self.horizon_s

        def upto(time: float) -> float:
            if time < times[0]:  # before it was attached: the costs of the time since then
                return counts[0] - (times[0] - time) * (counts[-1] - counts[0]) / max(1, now - times[0])
            if time <= now:
                return float(np.interp(time, times, counts))
            return counts[-1] + (time - now) / pace * coming

        held = counts[-1] - upto(now - observation.window_size)
        then = upto(now + ahead) - upto(now + ahead - observation.window_size)
        return then / held if held > 0 else 1.0
