"""A program over events that come at a given rate, by their event time: the latency of its results.

A thread for each input puts events that are due into mailboxes (`paced_kernel`). An input with rare events sends a
fixed number of heartbeats between two events, which say how far its event time has come. Latency runs from an event's entry
into its mailbox to its result at the collector.
"""

from __future__ import annotations

import time
from typing import Any

from headrace.kernel import compile_now
from headrace_bench.paced_kernel import feed_due
from headrace_bench.planned import Planned


class Paced(Planned):
    """One run of a program.

    Parameters
    ----------
    program, inputs, **options
        As for `Planned`.
    per_second : float
        Units of event time in a second.
    beats : int
        Heartbeats of the last input between two of its events, if these are evenly spaced; 0: none.
    """

    def __init__(self, program: Any, inputs: Any, per_second: float, beats: int, **options: Any):
        super().__init__(program, inputs, **options)
        self._per_second, self._beats = per_second, beats
        self._begin = 0

    def run(self) -> Paced:
        """Process all events, and end all threads."""
        compile_now(feed_due, self._arguments(0))
        self._begin = time.monotonic_ns()
        super().run()
        return self

    @property
    def latency_ms(self) -> dict[str, float]:
        """Latency in milliseconds: p50, p99 and max."""
        return self.operator.collector.latency.summary()

    def _arguments(self, number: int) -> tuple[Any, ...]:
        c, (ts, queues) = self.operator.arrays, self._given[number]
        is_last = number == len(self._given) - 1
        gap = (ts[-1] - ts[0]) / max(1, len(ts) - 1) / self._beats if is_last and self._beats and len(ts) > 1 else 0.0
        return c, number, ts, queues, self._begin, float(self._per_second), float(gap), self._heartbeat, c.words

    def _feed(self, number: int) -> None:
        feed_due(*self._arguments(number))


__all__ = ["Paced"]
