"""A program over events that come at a given rate, by their event time: the latency of its results.

A thread for each input puts events that are due into mailboxes, every few dozen microseconds. An input with rare events sends a
fixed number of heartbeats between two events, which say how far its event time has come. Latency runs from an event's entry
into its mailbox to its result at the collector.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from headrace.progress import END_OF_TIME
from headrace.synchronization import mailbox_kernel
from headrace_bench.planned import Planned

NAP_S = 40e-6


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
        self._scale, self._beats = per_second, beats
        self._begin = 0.0

    def run(self) -> Paced:
        """Process all events, and end all threads."""
        self._begin = time.perf_counter()
        super().run()
        return self

    @property
    def latency_ms(self) -> dict[str, float]:
        """Latency in milliseconds: p50, p99 and max."""
        return self.operator.collector.latency.summary()

    def _feed(self, number: int) -> None:
        c, (ts, queues), done = self.operator.arrays, self._given[number], 0
        is_last = number == len(self._given) - 1
        gap = (ts[-1] - ts[0]) / max(1, len(ts) - 1) / self._beats if is_last and self._beats and len(ts) > 1 else 0.0
        said = -1
        while done < len(ts) and not self._errors:
            now = (time.perf_counter() - self._begin) * self._scale
            due = int(np.searchsorted(ts, now, side="right"))
            if due > done:
                done += mailbox_kernel.add(c, number, ts, queues, done, due - done, done, self._heartbeat)
            if gap and int(now / gap) > said:
                said = int(now / gap)
                # The promise may reach the input's next event, and no further.
                mailbox_kernel.promise(c, number, min(int(said * gap), int(ts[done])) if done < len(ts) else END_OF_TIME)
            time.sleep(NAP_S)
        mailbox_kernel.promise(c, number, END_OF_TIME)


__all__ = ["Paced"]
