"""Steering a run's operators: their changes, the controllers attached to them, and the log these share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from headrace.changes import Capabilities, Change
from headrace.control.control_loop import ControlLoop
from headrace.control.decisions import DecisionLog
from headrace.control.observation import Reading
from headrace.control.policy import Policy
from headrace.errors import NotSupportedError, ReconfigurationError, RunStoppedError
from headrace.names import closest
from headrace.plan.nodes import SourceNode
from headrace.runtime.changes import Changes
from headrace.runtime.inlets import Inlet
from headrace.runtime.sections import Moment, Section

THREAD_SUFFIX = "-controller"


class OperatorSteering:
    """One operator of a run: its configuration, and how it is changed.

    Parameters
    ----------
    name : str
    section : Section
        The section that it belongs to.
    changes : Changes
    """

    def __init__(self, name: str, section: Section, changes: Changes):
        self.name, self.section, self.changes = name, section, changes

    @property
    def capabilities(self) -> Capabilities:
        """What can be changed, and the reason for what cannot."""
        return self.changes.steerable.capabilities

    @property
    def configuration(self) -> dict[str, Any]:
        """Control -> value in force."""
        steerable = self.changes.steerable
        return steerable.describe(steerable.current)

    def request(self, reason: str = "", **controls: Any) -> Change:
        """Ask for a change of the controls that are not None."""
        requested = {name: value for name, value in controls.items() if value is not None}
        can = self.capabilities
        for name in requested:
            if name not in can:
                near, there = closest(name, can), ", ".join(can) or "nothing"
                meant = f"; did you mean {near}=?" if near else ""
                why = can.absent.get(name, f"there is no such control{meant}")
                raise NotSupportedError(f"reconfigure({name}=...): {why}; what can be changed at {self.name!r}: {there}")
        if not requested:
            each = ", ".join(f"{name}=" for name in can)
            raise ReconfigurationError(f"reconfigure(): give {each}" + (", or both" if len(can) == 2 else ""))
        if isinstance(given := requested.get("threads"), dict):
            operator, threads = next(iter(given.items()), (self.name, 2))
            raise ReconfigurationError(
                f"reconfigure(threads={given!r}): one operator changes at a time; give"
                f" run[{operator!r}].reconfigure(threads={threads!r})"
            )
        return self.changes.request(reason, **requested)

    @property
    def inlets(self) -> Sequence[Inlet]:
        """The section's inlets for its first operator; none for the others."""
        return self.section.inlets if self.section.operators[0] == self.name else ()


def check_controller(operator: OperatorSteering, controller: Any) -> None:
    """Raise `NotSupportedError` if a controller of this package, alone or in a list, changes what the operator lacks."""
    can = operator.capabilities
    for one in controller if isinstance(controller, list | tuple) else [controller]:
        if isinstance(one, Policy) and one.needs and one.needs not in can:
            why = f": {can.absent[one.needs]}" if one.needs in can.absent else ""
            raise NotSupportedError(
                f"{type(one).__name__} changes the {one.needs} of an operator, and {operator.name!r} has none{why}; what can be"
                f" changed there: {', '.join(can) or 'nothing'}"
            )


class Controls:
    """Attaches controllers to the operators of one run.

    Parameters
    ----------
    start_thread : callable
        ``start_thread(name, body)`` of the run's pool.
    is_over : callable
        Whether the run has ended; every controller's thread then ends by itself.
    runnable_ns : callable
        Runnable time of threads by name; see `WorkerPool.runnable_ns`.
    """

    def __init__(
        self, start_thread: Callable[[str, Callable[[], None]], None], is_over: Callable[[], bool],
        runnable_ns: Callable[[Sequence[str]], tuple[int, ...] | None],
    ):  # fmt: skip
        self.decisions = DecisionLog()
        self._start_thread, self._is_over, self._runnable_ns = start_thread, is_over, runnable_ns
        self._lock = threading.Lock()
        self._loops: dict[str, ControlLoop] = {}
        self._attached = 0

    def attach(self, operator: OperatorSteering, controller: Any, **options: Any) -> ControlLoop:
        """Attach a controller; one attached before is released."""
        if self._is_over():
            raise RunStoppedError("control(): the run is over; attach a controller while it runs")
        check_controller(operator, controller)

        def ask(threads: Any = None, mapping: Any = None, reason: str = "", **controls: Any) -> Change:
            return operator.request(reason, threads=threads, mapping=mapping, **controls)

        workers = [task.name for task in operator.section.tasks() if task.is_worker]

        def read() -> Reading:
            return replace(reading(operator), runnable_ns=self._runnable_ns(workers))

        loop = ControlLoop(operator.name, controller, read, ask, self.decisions, **options)
        with self._lock:
            before = self._loops.get(operator.name)
            if before is not None:
                before.release(f"replaced by {loop.name}")
            self._loops[operator.name] = loop
            self._attached += 1
            number = self._attached
        # Numbered, since a pool identifies its threads by name.
        self._start_thread(f"{operator.name}{number}{THREAD_SUFFIX}", lambda: loop.run(self._is_over))
        return loop

    def loop_of(self, operator: str) -> ControlLoop | None:
        """Return the control loop attached to an operator, or attached when the run ended."""
        with self._lock:
            return self._loops.get(operator)

    def release(self, operator: str | None) -> None:
        """Detach the controller of an operator, or all of them."""
        with self._lock:
            names = list(self._loops) if operator is None else [operator]
            loops = [self._loops.pop(name) for name in names if name in self._loops]
        for loop in loops:
            loop.release()

    def manually(self, operator: OperatorSteering, reason: str, controls: dict[str, Any]) -> Change:
        """Make a manual request, which holds a controller off."""
        with self._lock:
            loop = self._loops.get(operator.name)

        def request() -> Change:
            return operator.request(reason, **controls)

        return request() if loop is None or not loop.is_attached else loop.override(request)


def reading(operator: OperatorSteering) -> Reading:
    """Read an operator's counters."""
    steerable = operator.changes.steerable
    while True:
        configuration = steerable.current
        metrics = operator.section.metrics(operator.name, Moment(0, 0.0, False))
        if steerable.current is configuration:
            break  # members and mapping are of one configuration
    in_force = steerable.describe(configuration)
    inlets = operator.inlets
    paced = [inlet for inlet in inlets if isinstance(inlet.branch.origin, SourceNode)]
    rates = [inlet.books.rate() for inlet in paced]
    # If some inputs come from other operators, the rate to come is unknown.
    known = len(rates) == len(inlets) > 0 and all(rate is not None for rate in rates)
    open_inlets = [inlet.books.closed_at is None for inlet in inlets]
    return Reading(
        at_ns=time.monotonic_ns(),
        metrics=metrics,
        mapping=in_force.get("mapping"),
        configuration=in_force,
        behind=sum(inlet.books.behind(None) for inlet in inlets),
        offered=sum(rate for rate, is_open in zip(rates, open_inlets, strict=True) if is_open) if known else None,
        window_size=operator.section.window_size(operator.name),
    )
