"""The key mapping by the load of the buckets; the number of threads stays."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from headrace.arguments import check_seconds, is_number
from headrace.control.damping import Damping
from headrace.control.mapping import Mapping
from headrace.control.observation import Observation
from headrace.control.policy import LEAST_S, Policy
from headrace.control.requests import Request
from headrace.errors import NotSupportedError, ParameterError
from headrace.references import BUCKETS
from headrace.summary import counted


@dataclass
class LoadBalancer(Policy):
    """Move buckets between the active threads when their loads have become uneven.

    Parameters
    ----------
    limit_cv : float
        Coefficient of variation of the threads' loads, a fraction, above which it acts.
    gain : float
        Least part of the imbalance that the new mapping must be predicted to remove. If one
        key exceeds a thread's share, nothing helps, and nothing is moved.
    window_s : float
        Half-life of the measured loads. Loads are sampled, and a move that follows the noise of a sample is
        wasted: the lower the load, the longer this should be. There is no request before it has passed.
    cooldown_s : float
        Rest after a change.

    Raises
    ------
    NotSupportedError
        By `start`, `run.control` and `decide`: the operator has no key mapping.

    Notes
    -----
    STRETCH (Gulisano et al.), section 5: f_mu, which a reconfiguration may change without moving state.

    Examples
    --------
    >>> loads = np.where(np.arange(1024) < 256, 3.0, 1.0)  # of the buckets, which threads 0 and 1 own by halves
    >>> seen = Observation(
    ...     at_s=3, interval_s=3, threads=2, max_threads=2, utilisation=0.5, members=(0, 1), mapping=Mapping.even(2),
    ...     bucket_load=loads)
    >>> asked = LoadBalancer().decide(seen)
    >>> round(asked.value, 2), round(asked.predicted["imbalance_cv"], 2)
    (0.33, 0.05)
    """

    needs: ClassVar[str] = "mapping"

    limit_cv: float = 0.15
    gain: float = 0.30
    window_s: float = 2.0
    cooldown_s: float = 2.0
    _loads: np.ndarray = field(default_factory=lambda: np.zeros(BUCKETS), init=False, repr=False, compare=False)
    _seen_s: float = field(default=0.0, init=False, repr=False)
    _damping: Damping = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        if not is_number(self.limit_cv) or not 0 < self.limit_cv < math.inf:
            raise ParameterError(f"limit_cv={self.limit_cv!r}: give a number above 0, such as 0.15")
        if not is_number(self.gain) or not 0 < self.gain < 1:
            raise ParameterError(f"gain={self.gain!r}: give a fraction, above 0 and below 1")
        check_seconds("window_s", self.window_s, LEAST_S)
        self._damping = Damping(cooldown_s=self.cooldown_s)

    def decide(self, observation: Observation) -> Request | None:
        """Ask for another key mapping if the loads are uneven; None if nothing is to be done.

        Parameters
        ----------
        observation : Observation
            Of the interval that has just ended.

        Raises
        ------
        NotSupportedError
            The operator has no key mapping.
        """
        if observation.mapping is None:
            raise NotSupportedError(
                "LoadBalancer moves key buckets, and this operator has no key mapping; attach it to an operator that has one"
            )
        resting = self._damping.is_resting(observation)
        if observation.bucket_load is not None:
            # What a bucket costs does not depend on its owner: it is remembered across changes.
            self._loads *= 0.5 ** (observation.interval_s / self.window_s)
            self._loads += observation.bucket_load
            self._seen_s += observation.interval_s
        if resting or observation.threads < 2 or self._seen_s < self.window_s - 1e-9:
            return None
        loads = self._loads
        now, most = observation.mapping.predicted_imbalance(loads, observation.members)
        if now <= self.limit_cv:
            return None
        mapping = Mapping.balanced(loads, observation.members, start=observation.mapping)
        then, _ = mapping.predicted_imbalance(loads, observation.members)
        if then > (1 - self.gain) * now:
            return None
        moved = observation.mapping.differing(mapping)
        return Request(
            mapping=mapping,
            metric="imbalance_cv",
            value=now,
            threshold=self.limit_cv,
            reason=(
                f"the threads' loads lately varied by {now:.0%}, above {self.limit_cv:.0%}; the"
                f" busiest thread had {most:.2f} times the mean: moving {counted(moved, 'bucket')} brings it to {then:.0%}"
            ),
            predicted={"imbalance_cv": then},
        )
