"""Given sizes at given times: a plan made by hand, or taken from another run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.control.mapping import Mapping
from headrace.control.observation import Observation
from headrace.control.requests import Request
from headrace.errors import ParameterError
from headrace.summary import counted


@dataclass
class Schedule:
    """Ask for given configurations at given times.

    Parameters
    ----------
    steps : sequence of (seconds, threads or Mapping)
        Seconds count from the moment the controller is attached and must rise. Of several whose time
        has passed only the last is asked for.

    Examples
    --------
    >>> Schedule([(0, 1), (10, 4), (20, 2)]).steps[1]
    (10, 4)
    """

    steps: Sequence[tuple[float, int | Mapping]]
    _done: int = field(default=0, init=False, repr=False)

    def __post_init__(self):
        last = 0.0
        for at_s, size in self.steps:
            if isinstance(at_s, bool) or not isinstance(at_s, (int, float)) or not last <= at_s:
                raise ParameterError(f"steps=[({at_s!r}, {size!r})]: give seconds from {last:g} on, rising")
            if not isinstance(size, Mapping) and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
                raise ParameterError(f"steps=[({at_s!r}, {size!r})]: give a number of threads from 1, or a Mapping")
            last = at_s

    def decide(self, observation: Observation) -> Request | None:
        """Ask for the last configuration whose time has come; None until then."""
        due = sum(at_s <= observation.at_s for at_s, _ in self.steps)
        if due == self._done or observation.is_changing:
            return None
        self._done = due
        at_s, size = self.steps[due - 1]
        if isinstance(size, Mapping):
            return Request(
                mapping=size, metric="time", value=observation.at_s, threshold=at_s,
                reason=f"the schedule gives this mapping from {at_s:g} s on",
            )  # fmt: skip
        if size == observation.threads:
            return None
        return Request(
            threads=size,
            metric="time",
            value=observation.at_s,
            threshold=at_s,
            reason=f"the schedule says {counted(size, 'thread')} from {at_s:g} s on",
            predicted={"load": observation.load_with(min(size, observation.max_threads))},
        )
