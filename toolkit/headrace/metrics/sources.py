"""The counters of a source: what is due, what was taken, and what its feeding thread waits for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.metrics.time_spent import TimeSpent

STARVED, PACED, BLOCKED, FEEDING = "starved", "paced", "blocked", "feeding"
STATES = (STARVED, PACED, BLOCKED, FEEDING)
"""What the thread that feeds an operator does: it waits for rows to be read, waits until the next one is due, waits for
room in the operator (back-pressure), or feeds."""


def feeding_time() -> TimeSpent:
    """Return a clock for the states of a feeding thread."""
    return TimeSpent(STATES)


@dataclass(frozen=True, slots=True)
class SourceMetrics:
    """A snapshot of one source.

    Parameters
    ----------
    name : str
        As in messages: a file, or "source 1 (generator)".
    operator : str
        The operator it feeds.
    rows : int
        Rows read.
    taken : int
        Rows read that the operator has taken, or that were filtered or late.
    behind : int
        Rows that are due by the rate schedule and were not taken: the backlog outside the gate. 0 without a schedule,
        and if recorded event times are played.
    lag_s : float
        How long the oldest row of `behind` has been due, in seconds; 0 if nothing is overdue, NaN at full speed, as then
        nothing is ever due.
    rate : float or None
        Present rows per second of the schedule; None at full speed, and if event times are played.
    spent_ns : mapping of str to int
        Nanoseconds that its feeding thread spent in each of `STATES`.

    Examples
    --------
    >>> now = SourceMetrics("posts", "count", 900, 800, 50, 0.5, 100.0, {"starved": 0, "paced": 0, "blocked": 30, "feeding": 10})
    >>> now.waiting, now.share("blocked")
    (100, 0.75)
    """

    name: str
    operator: str
    rows: int
    taken: int
    behind: int = 0
    lag_s: float = math.nan
    rate: float | None = None
    spent_ns: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(STATES, 0))

    @property
    def waiting(self) -> int:
        """Rows that were read ahead and have not been taken yet."""
        return max(0, self.rows - self.taken)

    @property
    def counts_due(self) -> bool:
        """Whether `behind` can be counted: not if recorded event times are played, as no row is known before it comes."""
        return self.rate is not None or math.isnan(self.lag_s)

    def share(self, state: str, then: SourceMetrics | None = None) -> float:
        """Return the share of time the feeding thread was in a state, since the beginning or since an earlier snapshot."""
        spent = {name: ns - (then.spent_ns[name] if then else 0) for name, ns in self.spent_ns.items()}
        whole = sum(spent.values())
        return max(0, spent[state]) / whole if whole > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return asdict(self) | {"waiting": self.waiting, "lag_s": None if math.isnan(self.lag_s) else self.lag_s}
