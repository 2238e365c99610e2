"""Policies that remember what they have observed of one operator in one run."""

from __future__ import annotations

import copy
import itertools
from dataclasses import MISSING, fields
from typing import Any, ClassVar, Self

from headrace.arguments import is_number
from headrace.errors import ParameterError

LEAST_S = 1e-3
"""Least value of a time that users give and by which values are divided, so that quotients stay bounded."""


class Policy:
    """A controller of this package, or a part of one: a dataclass, whose fields beside the parameters hold what it observed."""

    needs: ClassVar[str] = ""
    """The control without which it has nothing to change, as `capabilities` of an operator name it; "" if it changes threads."""

    def as_new(self) -> Self:
        """Return a copy with the same parameters that has observed nothing yet.

        Examples
        --------
        >>> from headrace.control.controllers.schedule import Schedule
        >>> schedule = Schedule([(0, 1), (10, 4)])
        >>> schedule.as_new() == schedule, schedule.as_new() is schedule
        (True, False)
        """
        new: Any = copy.copy(self)
        for part in fields(new):
            seen = getattr(new, part.name)
            if isinstance(seen, Policy):
                setattr(new, part.name, seen.as_new())
            elif not part.init:
                setattr(new, part.name, part.default if part.default_factory is MISSING else part.default_factory())
        return new


def as_new(controller: Any) -> Any:
    """Return a copy that has observed nothing of a controller of this package, so that one object serves several runs.

    Any other controller is returned as it is: its author decides what it remembers.
    """
    is_ours = isinstance(controller, Policy) and type(controller).__module__.startswith("headrace.")
    return controller.as_new() if is_ours else controller


def check_rising(**bounds: Any) -> None:
    """Raise `ParameterError` unless these are fractions, each above the one before it.

    Examples
    --------
    >>> check_rising(lower=0.7, upper=0.8)
    """
    values = [0.0, *bounds.values()]
    if all(map(is_number, values)) and all(a < b for a, b in itertools.pairwise(values)) and values[-1] <= 1:
        return
    given = ", ".join(f"{name}={value!r}" for name, value in reversed(bounds.items()))
    raise ParameterError(f"{given}: give fractions with 0 < {' < '.join(bounds)} <= 1")


__all__ = ["LEAST_S", "Policy", "as_new", "check_rising"]
