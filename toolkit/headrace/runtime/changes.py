"""The record of one requested reconfiguration, and its caller's handle on it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

OUTCOMES = ("pending", "in flight", "done", "no change", "superseded", "unneeded", "failed")


@dataclass(eq=False)
class Change:
    """A reconfiguration from its request to its outcome.

    Parameters
    ----------
    operator : str
        Name of the operator it concerns.
    from_threads, to_threads : int
        Active instances before and after.
    buckets_moved : int
        Key buckets whose owner changes.
    outcome : str
        "pending" (behind another one), "in flight", then one of "done",
        "no change" (it asked for what is), "superseded" (a newer request took
        its place), "unneeded" (the input ended first), "failed" (the run ended).
    requested_ns, started_ns, completed_ns : int
        Monotonic clock; 0 while it has not happened. Started: the boundary was
        placed in the stream. Completed: the last thread concerned runs in (or
        has left at) the new epoch.
    planned_at : int or None
        Tuple count it was planned for; None for a request.
    members : tuple of int
        The instances that are active after it.
    mapping : Mapping
        Who owns which bucket after it.
    transferred_bytes, transferred_ns : int
        State moved between instances: 0 under VSN; what it cost under SN.
    """

    operator: str
    from_threads: int
    to_threads: int
    buckets_moved: int = 0
    outcome: str = "pending"
    requested_ns: int = field(default_factory=time.monotonic_ns)
    started_ns: int = 0
    completed_ns: int = 0
    epoch: int = 0
    planned_at: int | None = None
    reason: str = ""
    members: tuple[int, ...] = ()
    mapping: Any = None
    transferred_bytes: int = 0
    transferred_ns: int = 0
    _settled: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def ms(self) -> float:
        """Milliseconds from the call (of a planned one: from the first thread at the boundary) to completion."""
        if not self.completed_ns:
            return float("nan")
        return (self.completed_ns - self.requested_ns) / 1e6

    def settle(self, outcome: str, completed_ns: int = 0) -> None:
        """Give it its outcome; wakes who waits. The engine calls this."""
        self.outcome = outcome
        self.completed_ns = completed_ns
        self._settled.set()

    @property
    def is_settled(self) -> bool:
        return self._settled.is_set()

    def wait(self, timeout: float | None = None) -> Change:
        """Wait for the outcome.

        Parameters
        ----------
        timeout : float, optional
            Seconds. When they pass first the outcome is still "pending" or "in flight".
        """
        self._settled.wait(timeout)
        return self
