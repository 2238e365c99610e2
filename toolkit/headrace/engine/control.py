"""The controllers of a run: who is attached to which operator, and the log they share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from headrace.elasticity.control_loop import ControlLoop
from headrace.elasticity.decisions import DecisionLog
from headrace.elasticity.observation import Reading
from headrace.engine.operator import Operator
from headrace.errors import RunStoppedError
from headrace.query import SourceNode
from headrace.runtime.changes import Change

THREAD_SUFFIX = "-controller"


class Controls:
    """Attaches controllers to the operators of one run.

    Parameters
    ----------
    start_thread : callable
        ``start_thread(name, body)``, from the run's pool.
    is_over : callable
        Whether the run has ended: then every controller's thread ends by itself.
    """

    def __init__(self, start_thread: Callable[[str, Callable[[], None]], None], is_over: Callable[[], bool]):
        self.decisions = DecisionLog()
        self._start_thread, self._is_over = start_thread, is_over
        self._lock = threading.Lock()
        self._loops: dict[str, ControlLoop] = {}
        self._attached = 0

    def attach(self, operator: Operator, controller: Any, **options: Any) -> ControlLoop:
        """Attach a controller; the one that was there before is released."""
        if self._is_over():
            raise RunStoppedError("control(): the run is over; attach a controller while it runs")
        loop = ControlLoop(
            operator.name,
            controller,
            lambda: reading(operator),
            operator.reconfigurer.request,
            self.decisions,
            **options,
        )
        with self._lock:
            before = self._loops.get(operator.name)
            if before is not None:
                before.release(f"replaced by {loop.name}")
            self._loops[operator.name] = loop
            self._attached += 1
            number = self._attached
        # A number, since a pool knows its threads by name.
        self._start_thread(f"{operator.name}{number}{THREAD_SUFFIX}", lambda: loop.run(self._is_over))
        return loop

    def loop_of(self, operator: str) -> ControlLoop | None:
        """Return the loop that is attached to an operator, or was when the run ended."""
        with self._lock:
            return self._loops.get(operator)

    def release(self, operator: str | None) -> None:
        """Detach the controller of an operator, or all of them."""
        with self._lock:
            names = list(self._loops) if operator is None else [operator]
            loops = [self._loops.pop(name) for name in names if name in self._loops]
        for loop in loops:
            loop.release()

    def manually(self, operator: Operator, threads: Any, mapping: Any, reason: str) -> Change:
        """Make a request of the user's own: it holds a controller off."""
        with self._lock:
            loop = self._loops.get(operator.name)

        def request() -> Change:
            return operator.reconfigurer.request(threads, mapping, reason)

        return request() if loop is None or not loop.is_attached else loop.override(request)


def reading(operator: Operator) -> Reading:
    """Read an operator's counters."""
    while True:
        configuration = operator.reconfigurer.current
        metrics = operator.metrics()
        if operator.reconfigurer.current is configuration:
            break  # members and mapping belong together
    paced = [port.player for port in operator.ports if isinstance(port.branch.origin, SourceNode)]
    rates = [player.rate for player in paced]
    # Of several ways in, some from other operators: then nobody knows what is to come.
    known = len(rates) == len(operator.ports) and all(rate is not None for rate in rates)
    open_ports = [not port.is_closed for port in operator.ports]
    return Reading(
        at_ns=time.monotonic_ns(),
        metrics=metrics,
        mapping=configuration.mapping,
        behind=sum(port.behind for port in operator.ports),
        offered=sum(rate for rate, is_open in zip(rates, open_ports, strict=True) if is_open) if known else None,
        latencies=operator.collector.latency.counts() if operator.collector else None,
        window_size=operator.program.window_size,
    )
