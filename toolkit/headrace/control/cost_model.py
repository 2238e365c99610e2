"""The cost of an operator's work, fitted while it runs: the answer to "what would N threads give?".

    busy time of a thread = scan   x tuples it read        (every thread reads every tuple)
                          + update x (key, window) updates of the keys it owns
                          + comparison x pairs it compared

The three costs are the non-negative least-squares fit of the measurements: each
thread of each interval is one sample, and older samples count less and less. While the samples cannot distinguish two costs
(with one thread every tuple makes the same updates) the fit stays near the ratio of
the built-in guesses, and the error of a prediction for another
number of threads is as large as this uncertainty.

Source      recursive least squares with exponential forgetting; the parts of the
            cost are those of STRETCH (Gulisano et al.), sections 4 and 8, and of
            the model of stream joins it uses as reference 22 (comparisons
            dominate; sections 8.4, 8.5).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headrace.summary import counted

if TYPE_CHECKING:
    from headrace.control.observation import Observation

TERMS = ("scan_ns", "update_ns", "comparison_ns")
_GUESS_NS = np.array([5.0, 10.0, 0.2])
"""Only the ratio of these costs counts: their size is fitted first."""
_GUESS_SPREAD = 3.0
"""Standard deviation of a cost around the guess, as a multiple of it."""
_LEAST_SCATTER = 1e-4
_FORGET = 0.995
_RESIDUAL_GAIN = 0.025
_LEAST_BUSY = 0.005
"""Samples of threads that were busy for a smaller part of an interval are mostly noise of the clock."""
_TRUSTED_SAMPLES = 10
_TRUSTED_ERROR = 0.25
_TRUSTED_GROWTH = 0.05


@dataclass(frozen=True)
class Prediction:
    """The predicted effect of a number of threads with the present work.

    Parameters
    ----------
    threads : int
    capacity : float
        Tuples per second at which the threads would be busy all the time.
    load : float
        The present arrivals, as a share of that capacity.
    error : float
        One standard deviation of the prediction, as a fraction of it.

    Examples
    --------
    >>> print(Prediction(threads=2, capacity=50_000.0, load=0.6, error=0.1))
    2 threads: at most 50,000 tuples/s, a load of 60%, give or take 10% of both
    """

    threads: int
    capacity: float
    load: float
    error: float

    def __str__(self) -> str:
        figures = f"at most {self.capacity:,.0f} tuples/s, a load of {self.load:.0%}"
        return f"{counted(self.threads, 'thread')}: {figures}, give or take {self.error:.0%} of both"


class CostModel:
    """Costs of one operator's work, in nanoseconds.

    Examples
    --------
    >>> model = CostModel()
    >>> model.is_trusted, model.costs["update_ns"]
    (False, 10.0)
    """

    def __init__(self):
        size = len(TERMS)
        self._moments = np.zeros((size, size))  # sum of x x' / y^2: residuals count relative to the measured value
        self._products = np.zeros(size)  # sum of x / y
        self._costs = _GUESS_NS.copy()
        self._residual = 0.0
        self.samples = 0

    # -- fitting

    def add(self, observation: Observation) -> None:
        """Learn from an interval, unless something was reconfigured in it.

        Parameters
        ----------
        observation : Observation
        """
        if observation.is_changing or observation.threads > observation.at_once(observation.threads):
            return  # threads on one core are busy waiting for it
        self._moments *= _FORGET
        self._products *= _FORGET
        for features, busy_ns in _samples(observation):
            predicted = float(features @ self._costs)
            if self.samples:
                error = ((predicted - busy_ns) / busy_ns) ** 2
                self._residual += max(_RESIDUAL_GAIN, 1 / self.samples) * (min(error, 4.0) - self._residual)
            self._moments += np.outer(features, features) / busy_ns**2
            self._products += features / busy_ns
            self.samples += 1
        self._costs = self._fit()

    def _guess(self) -> tuple[np.ndarray, float]:
        """The guesses at the size that fits best, and what being wrong by all of one weighs, in samples."""
        power = float(_GUESS_NS @ self._moments @ _GUESS_NS)
        size = float(_GUESS_NS @ self._products) / power if power > 0 else 1.0
        return _GUESS_NS * size, self._scatter / _GUESS_SPREAD**2

    def _fit(self) -> np.ndarray:
        """Least squares without negative costs: where one would be, every choice of coefficients to set to zero is tried."""
        guess, weight = self._guess()
        system = guess[:, None] * self._moments * guess + weight * np.eye(len(TERMS))
        wanted = guess * self._products + weight
        free = np.linalg.solve(system, wanted)
        if (free >= 0).all():
            return free * guess
        best, best_value = guess, math.inf
        for used in itertools.product([False, True], repeat=len(TERMS)):
            chosen = np.flatnonzero(used)
            scaled = np.linalg.solve(system[np.ix_(chosen, chosen)], wanted[chosen])
            value = -float(wanted[chosen] @ scaled)  # the objective, up to a term that all share
            if (scaled >= 0).all() and value < best_value:
                best, best_value = np.zeros(len(TERMS)), value
                best[chosen] = scaled * guess[chosen]
        return best

    # -- answers

    @property
    def costs(self) -> dict[str, float]:
        """Nanoseconds for each tuple read, (key, window) updated and pair compared."""
        return {term: float(cost) for term, cost in zip(TERMS, self._costs, strict=True)}

    @property
    def error(self) -> float:
        """Root mean square error of predictions of an interval's busy time, made before learning from the interval."""
        return math.sqrt(self._residual) if self.samples else math.nan

    @property
    def is_trusted(self) -> bool:
        """Whether controllers use it: enough samples, and predictions within a quarter."""
        return self.samples >= _TRUSTED_SAMPLES and self.error <= _TRUSTED_ERROR

    def per_tuple_ns(self, observation: Observation, threads: int) -> float:
        """Work per tuple of all threads together, with this many threads, in nanoseconds.

        Parameters
        ----------
        observation : Observation
            Its updates and comparisons per tuple are assumed.
        threads : int
        """
        return float(_work(observation, threads) @ self._costs)

    def growth(self, observation: Observation, threads: int) -> float | None:
        """Work per tuple with this many threads, relative to that with the present ones; None if it is unknown.

        It is unknown while the samples do not show which part of the cost every thread bears in full.

        Parameters
        ----------
        observation : Observation
            Its updates and comparisons per tuple are assumed.
        threads : int
        """
        per_tuple = self.per_tuple_ns(observation, observation.threads)
        work, now = _work(observation, threads), _work(observation, observation.threads)
        if not self.is_trusted or per_tuple <= 0 or self._vagueness_ns(work - now) > _TRUSTED_GROWTH * per_tuple:
            return None
        return float(work @ self._costs) / per_tuple

    def _vagueness_ns(self, work: np.ndarray) -> float:
        """How well the samples pin the cost of a mixture of work down: its standard deviation."""
        guess, weight = self._guess()
        system = self._moments + weight * np.diag(1 / guess**2)
        return math.sqrt(self._scatter * float(work @ np.linalg.solve(system, work)))

    @property
    def _scatter(self) -> float:
        return max(_LEAST_SCATTER, self._residual) if self.samples else 1.0

    def predict(self, observation: Observation, threads: int) -> Prediction:
        """Predict the effect of `threads` threads with the work of this interval.

        If there are more threads than cores for them, they share the cores.

        Parameters
        ----------
        observation : Observation
            Its rates, and updates and comparisons per tuple, are assumed to go on.
        threads : int
        """
        work = _work(observation, threads)
        per_tuple = float(work @ self._costs)
        capacity = observation.at_once(threads) * 1e9 / per_tuple if per_tuple > 0 else math.inf
        error = math.hypot(math.sqrt(self._scatter), self._vagueness_ns(work) / max(per_tuple, 1e-12))
        return Prediction(threads, capacity, observation.coming / capacity, error)


def _work(observation: Observation, threads: int) -> np.ndarray:
    """Tuples read, updates and comparisons for each tuple of the input, of all threads together."""
    processed = max(observation.processed, 1e-9)
    return np.array([threads, observation.updates / processed, observation.comparisons / processed])


def _samples(observation: Observation):
    seconds, total = observation.interval_s, sum(observation.thread_loads)
    for load, busy in zip(observation.thread_loads, observation.thread_busy, strict=True):
        if busy < _LEAST_BUSY:
            continue
        share = load / total if total > 0 else 1 / observation.threads
        updates, compared = observation.updates * seconds * share, observation.comparisons * seconds * share
        yield np.array([observation.processed * seconds, updates, compared]), busy * seconds * 1e9
