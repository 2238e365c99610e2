"""Given configurations at given times: a plan made by hand, or taken from another run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.arguments import is_number, is_whole_number
from headrace.control.mapping import Mapping
from headrace.control.observation import Observation
from headrace.control.policy import Policy
from headrace.control.requests import Request
from headrace.errors import ParameterError
from headrace.summary import counted


@dataclass
class Schedule(Policy):
    """Ask for given configurations at given times.

    Parameters
    ----------
    steps : sequence of (seconds, threads or Mapping)
        Seconds count from the moment the controller is attached and must rise. Of several steps whose time
        has passed only the last is asked for; if a manual reconfiguration keeps the controller off, afterwards.

    Examples
    --------
    >>> Schedule([(0, 1), (10, 4), (20, 2)]).steps[1]
    (10, 4)
    """

    steps: Sequence[tuple[float, int | Mapping]]
    _asked: int = field(default=0, init=False, repr=False)
    _done: int = field(default=0, init=False, repr=False)
    """Steps that were asked for, and that have come about: what is asked for meanwhile may have no effect."""

    def __post_init__(self):
        last = 0.0
        for at_s, size in self.steps:
            if not is_number(at_s) or not last <= at_s:
                raise ParameterError(f"steps=[({at_s!r}, {size!r})]: give seconds from {last:g} on, rising")
            if not isinstance(size, Mapping) and (not is_whole_number(size) or size < 1):
                raise ParameterError(f"steps=[({at_s!r}, {size!r})]: give a number of threads from 1, or a Mapping")
            last = at_s

    def decide(self, observation: Observation) -> Request | None:
        """Ask for the last configuration whose time has come, until it is in force.

        Parameters
        ----------
        observation : Observation
            Of the interval that has just ended.
        """
        due = sum(at_s <= observation.at_s for at_s, _ in self.steps)
        if due == self._done or observation.is_changing:
            return None
        at_s, size = self.steps[due - 1]
        if isinstance(size, Mapping):
            is_so = size == observation.mapping
        else:
            # More than there are is asked for once all the same: the log says what happened.
            most = observation.max_threads if due == self._asked else size
            is_so = min(size, most) == observation.threads
        if is_so:
            self._done = due
            return None
        self._asked = due
        if isinstance(size, Mapping):
            return Request(
                mapping=size, metric="time", value=observation.at_s, threshold=at_s,
                reason=f"the schedule gives this mapping from {at_s:g} s on",
            )  # fmt: skip
        return Request(
            threads=size,
            metric="time",
            value=observation.at_s,
            threshold=at_s,
            reason=f"the schedule says {counted(size, 'thread')} from {at_s:g} s on",
            predicted={"load": observation.load_with(min(size, observation.max_threads))},
        )
