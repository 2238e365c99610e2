"""How a controller keeps from flapping: a wish must last before it becomes a request.

    stabilisation   a wish in one direction must hold without a gap for
                    `up_after_s` or `down_after_s`; the most cautious number
                    wished for during that time is taken
    cool-down       no request for `cooldown_s` after any change, whatever made it
    step            no more than `max_step` threads at a time

Hysteresis, the fourth part, is in the controllers: the threshold of a change
and its target are different numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from headrace.arguments import check_seconds, is_whole_number
from headrace.control.mapping import Mapping
from headrace.control.observation import Observation
from headrace.control.policy import Policy
from headrace.errors import ParameterError


@dataclass
class Damping(Policy):
    """Turns the number of threads wished for at each observation into occasional requests.

    Parameters
    ----------
    up_after_s, down_after_s : float
        How long a wish for more, or for fewer, threads must last. Too few threads lose time, while too many
        cost little, so going down takes longer.
    cooldown_s : float
        Rest after a change.
    max_step : int, optional
        Most threads added or removed at once; by default any number.

    Examples
    --------
    >>> damping = Damping(up_after_s=1.0)
    >>> for at in (0.0, 0.5, 1.0):  # four threads are wished for, and then five
    ...     seen = Observation(at_s=at, interval_s=0.5, threads=2, max_threads=8, utilisation=0.9)
    ...     print(damping.settled(seen, 5 if at == 1.0 else 4))
    None
    None
    4
    """

    up_after_s: float = 0.5
    down_after_s: float = 2.0
    cooldown_s: float = 1.0
    max_step: int | None = None
    _wishes: list[tuple[float, int]] = field(default_factory=list, init=False, repr=False)
    _seen: tuple[tuple[int, ...], Mapping | None] | None = field(default=None, init=False, repr=False)
    _rest_until_s: float = field(default=-math.inf, init=False, repr=False)

    def __post_init__(self):
        for name in ("up_after_s", "down_after_s", "cooldown_s"):
            check_seconds(name, getattr(self, name))
        if self.max_step is not None and not (is_whole_number(self.max_step) and self.max_step >= 1):
            raise ParameterError(f"max_step={self.max_step!r}: give a whole number from 1, or None")

    def is_resting(self, observation: Observation) -> bool:
        """Whether a change is under way or was made within the cool-down. Ask at every observation."""
        seen = (observation.members or tuple(range(observation.threads)), observation.mapping)
        if observation.is_changing or (self._seen is not None and seen != self._seen):
            self._rest_until_s = observation.at_s + self.cooldown_s
            self._wishes.clear()
        self._seen = seen
        return observation.at_s < self._rest_until_s

    def settled(self, observation: Observation, wished: int) -> int | None:
        """Return the number of threads to ask for now, or None.

        Parameters
        ----------
        observation : Observation
        wished : int
            Number of threads that this observation by itself calls for.
        """
        threads, now = observation.threads, observation.at_s
        wished = max(1, min(wished, observation.max_threads))
        if self.is_resting(observation) or wished == threads:
            self._wishes.clear()
            return None
        up = wished > threads
        if self._wishes and (self._wishes[-1][1] > threads) != up:
            self._wishes.clear()
        self._wishes.append((now, wished))
        if now - self._wishes[0][0] < (self.up_after_s if up else self.down_after_s) - 1e-9:
            return None
        numbers = [number for _, number in self._wishes]
        number = min(numbers) if up else max(numbers)
        if self.max_step is not None:
            number = min(number, threads + self.max_step) if up else max(number, threads - self.max_step)
        self._wishes.clear()
        # The outcome is known a moment later: until then nothing more is asked for.
        self._rest_until_s = now + self.cooldown_s
        return number
