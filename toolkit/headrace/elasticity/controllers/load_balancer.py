"""The key mapping by what the buckets cost: threads stay as many as they are."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from headrace.elasticity.damping import Damping
from headrace.elasticity.mapping import Mapping
from headrace.elasticity.observation import Observation
from headrace.elasticity.requests import Request
from headrace.errors import ParameterError


@dataclass
class LoadBalancer:
    """Move buckets between the active threads when their loads have become uneven.

    Parameters
    ----------
    limit_cv : float
        Coefficient of variation of the threads' loads, a fraction, above which it acts.
    gain : float
        Least part of the imbalance that the new mapping must be predicted to take away. Where one
        key is too heavy for its share nothing helps, and nothing is moved.
    window_s : float
        Loads are added up over so long; the imbalance must be above the limit over all of it.
    cooldown_s : float
        Rest after a change.
    """

    limit_cv: float = 0.15
    gain: float = 0.30
    window_s: float = 2.0
    cooldown_s: float = 2.0
    _recent: deque[tuple[float, np.ndarray]] = field(default_factory=deque, init=False, repr=False)

    def __post_init__(self):
        if not 0 < self.limit_cv < math.inf or not 0 < self.gain < 1:
            raise ParameterError(
                f"limit_cv={self.limit_cv!r}, gain={self.gain!r}: give fractions above 0, gain below 1"
            )
        self._damping = Damping(self.window_s, self.window_s, self.cooldown_s)

    def decide(self, observation: Observation) -> Request | None:
        if self._damping.is_resting(observation):
            self._recent.clear()
            return None
        if observation.bucket_load is None or observation.threads < 2:
            return None
        self._recent.append((observation.at_s - observation.interval_s, observation.bucket_load))
        while len(self._recent) > 1 and self._recent[1][0] <= observation.at_s - self.window_s + 1e-9:
            self._recent.popleft()
        if observation.at_s - self._recent[0][0] < self.window_s - 1e-9:
            return None
        loads = np.sum([load for _, load in self._recent], axis=0)
        now, most = observation.mapping.predicted_imbalance(loads, observation.members)
        if now <= self.limit_cv:
            return None
        mapping = Mapping.balanced(loads, observation.members, start=observation.mapping)
        then, _ = mapping.predicted_imbalance(loads, observation.members)
        if then > (1 - self.gain) * now:
            return None
        self._recent.clear()
        moved = observation.mapping.differing(mapping)
        return Request(
            mapping=mapping,
            metric="imbalance_cv",
            value=now,
            threshold=self.limit_cv,
            reason=(
                f"the threads' loads varied by {now:.0%} over {self.window_s:g} s, above {self.limit_cv:.0%}, the"
                f" heaviest had {most:.2f} times the mean: moving {moved} bucket{'s' * (moved > 1)} makes it {then:.0%}"
            ),
            predicted={"imbalance_cv": then},
        )
