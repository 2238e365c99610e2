"""Requests of controllers, and what a controller is."""

from __future__ import annotations

import math
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.arguments import is_whole_number
from headrace.control.mapping import Mapping
from headrace.control.observation import Observation
from headrace.errors import ParameterError


@dataclass(frozen=True)
class Request:
    """A change that a controller asks for, and why.

    Parameters
    ----------
    threads : int, optional
        Active instances. A number outside 1 to `max_threads` is clamped, and the log says so.
    mapping : Mapping, optional
        Which instance owns which bucket.
    controls : dict of str to object
        Other controls of the operator's engine: see ``run[operator].controls``.
    reason : str
        One sentence, for the decision log and the record of the change.
    metric, value, threshold : str, float, float
        The metric that decided, its value, and the threshold.
    predicted : dict of str to float
        The expected effect, by attributes of a later observation or names of the engine's measures:
        ``{"load": 0.6}``, ``{"imbalance_cv": 0.02}``. The log adds the measured values.
    figures : dict of str to float
        Other computed numbers, for the decision log: name -> number.

    Examples
    --------
    >>> Request(threads=3, reason="it is noon").threads
    3
    """

    threads: int | None = None
    mapping: Mapping | None = None
    reason: str = ""
    metric: str = ""
    value: float = math.nan
    threshold: float = math.nan
    predicted: Dictionary[str, float] = field(default_factory=dict)
    controls: Dictionary[str, Any] = field(default_factory=dict)
    figures: Dictionary[str, float] = field(default_factory=dict)

    def __post_init__(self):
        if self.threads is None and self.mapping is None and not self.controls:
            raise ParameterError(
                "Request(): give threads=, mapping=, or both, or controls=; to ask for nothing return None"
            )
        if self.threads is not None and not is_whole_number(self.threads):
            raise ParameterError(f"Request(threads={self.threads!r}): give a whole number")
        if self.mapping is not None and not isinstance(self.mapping, Mapping):
            raise ParameterError(f"Request(mapping={self.mapping!r}): give a headrace.Mapping")


class Controller(Protocol):
    """Anything with `decide`; a plain function of an observation will do as well.

    Examples
    --------
    >>> def at_night(observation):
    ...     if observation.coming < 100 and observation.threads > 1:
    ...         return Request(threads=1, reason="hardly anything comes")
    >>> at_night(Observation(at_s=9, interval_s=1, threads=4, max_threads=4, utilisation=0.01)).threads
    1
    """

    def decide(self, observation: Observation) -> Request | None:
        """Ask for a change, or return None. Called once an interval, always from the same thread.

        Parameters
        ----------
        observation : Observation
            Of the interval that has just ended.
        """
