"""The control loop of one operator: observe, let the controller decide, ask the engine, record the outcome.

One thread steps through this at a fixed interval. The steps do not depend on an engine: they
take readings and a function that makes a request, so tests can step them by hand.

Rules       a manual reconfiguration keeps the controller off for `hold_s`; one lock is
            held from this check until the request is made, so the manual one is last
            requests are clamped to 1 to max_threads and to active instances; an impossible request is logged
            once, until there is a different one
            there is no request while a reconfiguration is under way
            a controller that raises is detached, with a warning; the run goes on
"""

from __future__ import annotations

import math
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from headrace.arguments import check_seconds, is_whole_number
from headrace.callers import HOUSE
from headrace.changes import Change
from headrace.control.cost_model import CostModel, Prediction
from headrace.control.decisions import Decision, DecisionLog
from headrace.control.observation import Observation, Reading, observe, with_cost
from headrace.control.policy import as_new
from headrace.control.quality import Quality, quality
from headrace.control.requests import Request
from headrace.errors import ControllerWarning, HeadraceError, ParameterError, RunStoppedError
from headrace.names import closest

POLICIES = (
    "Threshold", "ProactiveJoin", "ProactiveOperations", "LoadBalancer", "Schedule", "AdaptiveScheme", "AdaptivePlan",
)  # fmt: skip
"""Classes of `headrace.controllers`."""
DEFAULT_INTERVAL_S = 0.2
LEAST_INTERVAL_S = 1e-3
DEFAULT_HOLD_S = 30.0
SETTLED_S = 1.0
"""How long the effect of a change is measured after it."""
_KEPT = 20_000
_KEPT_WHOLE = 500
"""Of an older observation, loads of single buckets and counts of nodes and tags are forgotten: 8 kB, and more of many tags."""
_SLICE_S = 0.05


class ControlLoop:
    """A controller attached to an operator; what `run.control` returns.

    Parameters
    ----------
    operator : str
    controller : Controller, function, sequence of them, or None
        Of several the first that asks for something is followed. None only watches: the cost
        model is fitted, but nothing is decided.
    read : callable
        Returns a `Reading`.
    ask : callable
        ``ask(threads, mapping, reason, **controls)`` returns a `Change`.
    log : DecisionLog
    interval_s : float
        Time between two observations.
    hold_s : float
        How long a manual reconfiguration keeps the controller off.
    clock_ns : callable
        The clock of the readings.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> per_window = hr.stream(pa.table({"ts": [1, 2]}), event_time="ts").window(10).aggregate("counts", n=hr.count())
    >>> with per_window.start(controller=hr.controllers.Threshold()) as run:
    ...     ended = run.wait()
    >>> loop = run["counts"].control_loop
    >>> loop.name, loop.operator
    ('Threshold', 'counts')
    """

    def __init__(
        self,
        operator: str,
        controller: Any,
        read: Callable[[], Reading],
        ask: Callable[..., Change],
        log: DecisionLog,
        interval_s: float = DEFAULT_INTERVAL_S,
        hold_s: float = DEFAULT_HOLD_S,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ):
        check_seconds("interval_s", interval_s, LEAST_INTERVAL_S)
        check_seconds("hold_s", hold_s)
        self._deciders = deciders_of("control", controller)
        self.operator, self.controller = operator, controller
        self.name = ", then ".join(name for name, _ in self._deciders) or "watching"
        self.interval_s, self.hold_s = interval_s, hold_s
        self.cost_model = CostModel()
        self._read, self._ask, self._log, self._clock_ns = read, ask, log, clock_ns
        self._lock = threading.RLock()
        self._released = threading.Event()
        self._held_until_ns = 0
        self._last: Reading | None = None
        self._origin_ns = 0
        self._change: Change | None = None
        self._refused: Request | None = None
        """The last request, if it was impossible."""
        self._unsettled: list[tuple[Decision, list[Observation]]] = []
        self._observations: deque[Observation] = deque(maxlen=_KEPT)

    def __repr__(self) -> str:
        state = "attached" if self.is_attached else "detached"
        if held_s := self.held_s:
            state += f", kept off for {held_s:.0f} s more by a manual change"
        return f"<{type(self).__name__} {self.name} at {self.operator!r}, {state}, looks every {self.interval_s:g} s>"

    # -- for the caller that attached it

    @property
    def is_attached(self) -> bool:
        """False once it was released, replaced or detached for an error, or the run is over."""
        return not self._released.is_set()

    @property
    def held_s(self) -> float:
        """Seconds for which a manual reconfiguration still keeps the controller off; 0 if none does."""
        return max(0.0, (self._held_until_ns - self._clock_ns()) / 1e9)

    @property
    def observations(self) -> list[Observation]:
        """The observations given to the controller, oldest first; the last 20,000 intervals.

        `bucket_load` and `counted` are only those of the last 500.
        """
        with self._lock:
            return list(self._observations)

    def predict(self, threads: int) -> Prediction:
        """Predict the effect of this many threads with the present work, and how certain that is.

        Raises
        ------
        RunStoppedError
            There is no observation yet.
        """
        with self._lock:
            if not self._observations:
                raise RunStoppedError(f"predict({threads}): nothing was observed yet; wait {self.interval_s:g} s")
            if not is_whole_number(threads) or threads < 1:
                raise ParameterError(f"predict(threads={threads!r}): give a whole number from 1")
            return self.cost_model.predict(self._observations[-1], threads)

    def quality(self, target: float = 0.70, band: tuple[float, float] = (0.45, 0.90)) -> Quality:
        """Judge the control so far: stability, accuracy, settling time, overshoot.

        Parameters
        ----------
        target : float
            The load that it should settle at, a fraction of the threads' capacity.
        band : (float, float)
            Loads that count as settled, from and to.
        """
        return quality(self.observations, target, band)

    def release(self, reason: str = "released by hand") -> None:
        """Detach the controller. Its thread ends within a moment.

        Parameters
        ----------
        reason : str
            For the decision log.
        """
        with self._lock:
            if not self._released.is_set():
                self._released.set()
                self._write("released", reason)

    # -- for the run

    def override(self, request: Callable[[], Change]) -> Change:
        """Make a manual request, which keeps the controller off for `hold_s` seconds."""
        with self._lock:
            change = request()
            now = self._clock_ns()
            self._held_until_ns = now + round(self.hold_s * 1e9)
            self._change = change
            if self._deciders and not self._released.is_set():
                self._write(
                    "held",
                    f"a manual reconfiguration ({change.describe()}) suspends it for {self.hold_s:g} s",
                    at_ns=now,
                    **_in_words(change),
                )
            return change

    def run(self, is_over: Callable[[], bool]) -> None:
        """Body of its thread: step until it is released or the run is over.

        Parameters
        ----------
        is_over : function ()
            Whether the run is over.
        """
        due = time.monotonic()
        self.step()
        while not self._released.is_set() and not is_over():
            due += self.interval_s
            left = due - time.monotonic()
            if left < -self.interval_s:
                due -= left  # it was delayed: missed intervals are not made up for
            while left > 0 and not is_over():
                if self._released.wait(min(left, _SLICE_S)):
                    return
                left = due - time.monotonic()
            if not is_over():
                self.step()
        self._released.set()

    def step(self) -> None:
        """Observe once, and act on it."""
        with self._lock:
            was_pending = self._change is not None and not self._change.is_settled
            reading = self._read()
            before, self._last = self._last, reading
            if before is None:
                self._origin_ns = reading.at_ns
                self._write("attached", f"looks every {self.interval_s:g} s", at_ns=reading.at_ns)
                return
            is_changing = self._change is not None and not self._change.is_settled
            observation = observe(before, reading, self._origin_ns, is_changing or before.mapping != reading.mapping)
            self.cost_model.add(observation)
            observation = with_cost(observation, self.cost_model)
            self._keep(observation)
            self._realise(observation)
        # A user's function may be slow: somebody who steers by hand must not wait for it.
        request, name = self._decide(observation)
        if request is None:
            return
        with self._lock:
            # Where a change was pending at the reading, the request may be for what was before it.
            if not self._released.is_set() and not was_pending and reading.at_ns > self._held_until_ns:
                self._make(request, name, observation)

    # -- pieces

    def _decide(self, observation: Observation) -> tuple[Request | None, str]:
        name = self.name
        try:
            for name, decide in self._deciders:
                request = decide(observation)
                if request is not None and not isinstance(request, Request):
                    raise ParameterError(f"{name} returned {request!r}: give a Request or None")
                if request is not None:
                    return request, name
        except Exception as error:  # of the user's function, whatever it is
            with self._lock:
                was_attached = self.is_attached
                self._released.set()
                said = f"the controller failed and was detached, the run goes on: {type(error).__name__}: {error}"
                self._write("error", said, controller=name, error=error)
            if was_attached:
                _warn(f"controller {name} at {self.operator!r}: {said}; see run.decisions", error)
        return None, name

    def _make(self, request: Request, name: str, observation: Observation) -> None:
        if self._change is not None and not self._change.is_settled:
            return
        reason, threads, mapping = request.reason, request.threads, request.mapping
        if threads is not None and not 1 <= threads <= observation.max_threads:
            threads = max(1, min(threads, observation.max_threads))
            reason += f" (asked for {request.threads}, brought within 1 to {observation.max_threads})"
        if mapping is not None and observation.mapping is None:
            self._refuse(request, name, "it asks for a key mapping, and the operator has none", observation)
            return
        members = observation.members if threads is None else tuple(range(threads))
        if mapping is not None and not set(mapping.instances) <= set(members):
            # It was made for threads that do not exist yet or any more.
            self._refuse(
                request, name, f"its mapping names instances that are not active: {list(mapping.instances)}", observation
            )
            return
        now = observation.configuration
        controls = {control: value for control, value in request.controls.items() if now.get(control) != value}
        if mapping in (None, observation.mapping) and threads in (None, observation.threads) and not controls:
            if threads == request.threads and not request.controls:
                self._refused = None
            else:
                self._refuse(request, name, f"nothing to change: {reason}", observation)
            return
        try:
            change = self._ask(threads, mapping, f"{name}: {reason}", **controls)
        except HeadraceError as error:
            self._refuse(request, name, str(error), observation)
            return
        self._refused, self._change = None, change
        decision = self._write(
            "request",
            reason,
            name,
            metric=request.metric,
            value=request.value,
            threshold=request.threshold,
            predicted=dict(request.predicted),
            figures=dict(request.figures),
            change=change,
            **_in_words(change),
        )
        for earlier, seen in self._unsettled:  # the effects of this change are not those of the earlier one
            _note_effect(earlier, seen)
        self._unsettled = [(decision, [])]

    def _refuse(self, request: Request, name: str, reason: str, observation: Observation) -> None:
        """Record that a request cannot be met; once for a request repeated at every observation."""
        before, self._refused = self._refused, request
        if before is None or _wish(before) != _wish(request):
            now = observation.threads
            self._write("held", reason, name, from_threads=now, to_threads=now, figures=dict(request.figures))

    def _keep(self, observation: Observation) -> None:
        kept = self._observations
        kept.append(observation)
        if len(kept) > _KEPT_WHOLE:
            kept[-1 - _KEPT_WHOLE] = replace(kept[-1 - _KEPT_WHOLE], bucket_load=None, counted={})

    def _realise(self, observation: Observation) -> None:
        """Collect intervals after a change, and record its effect once they are long enough together."""
        for decision, seen in list(self._unsettled):
            if observation.is_changing or not decision.change.is_settled:
                continue
            seen.append(observation)
            if sum(o.interval_s for o in seen) >= SETTLED_S:
                _note_effect(decision, seen)
                self._unsettled.remove((decision, seen))

    def _write(self, kind: str, reason: str, controller: str = "", at_ns: int = 0, **details: Any) -> Decision:
        at_ns = at_ns or self._clock_ns()
        at_s = (at_ns - self._origin_ns) / 1e9 if self._origin_ns else 0.0
        decision = Decision(kind, at_s, at_ns, self.operator, controller or self.name, reason, **details)
        self._log.add(decision)
        return decision


def _note_effect(decision: Decision, seen: list[Observation]) -> None:
    """Record the means of what was observed since the change; nothing if there are no observations."""
    names = {"load", "imbalance_cv", "latency_p99_ms", *decision.predicted}
    for name in sorted(n for n in names if seen and (hasattr(seen[0], n) or n in seen[0].measured)):
        values = [value for value in (o.value(name) for o in seen) if not math.isnan(value)]
        decision.realised[name] = float(sum(values) / len(values)) if values else math.nan


def _in_words(change: Change) -> dict[str, Any]:
    """The fields of a decision that describe a change; those of threads are None for an engine without threads."""
    return {
        "what": change.describe(),
        "from_threads": change.before.get("threads"),
        "to_threads": change.after.get("threads"),
        "buckets_moved": change.buckets_moved,
    }


def _wish(request: Request) -> tuple[Any, ...]:
    return request.threads, request.mapping, dict(request.controls)


def _warn(text: str, error: BaseException) -> None:
    """Warn at the user's line that failed; without a registry, so that the warnings of several runs are all shown."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if not frame.filename.startswith((HOUSE, "<string>"))]
    place = (users or frames)[-1]
    warnings.warn_explicit(text, ControllerWarning, place.filename, place.lineno or 0)


def _name(controller: Any) -> str:
    return getattr(controller, "__name__", type(controller).__name__)


def deciders_of(name: str, controller: Any) -> list[tuple[str, Callable[[Observation], Any]]]:
    """Return the functions that decide, each with its name, as new; raise `ParameterError` if something cannot decide."""
    several = controller if isinstance(controller, Sequence) and not isinstance(controller, str) else [controller]
    deciders = []
    for one in several:
        decide: Any = getattr(one, "decide", one)
        if isinstance(one, type):
            raise ParameterError(f"{name}={one.__name__} is a class: give an object of it, as in {one.__name__}()")
        if isinstance(one, str):
            raise ParameterError(
                f"{name}={one!r}: give an object with decide(observation), such as"
                f" hr.controllers.{closest(one, POLICIES) or POLICIES[0]}(); there are {', '.join(POLICIES)}"
            )
        if one is not None and not callable(decide):
            raise ParameterError(
                f"{name}={one!r}: give an object with decide(observation), or a function of an observation"
            )
        if one is not None:
            deciders.append((_name(one), getattr(as_new(one), "decide", one)))
    return deciders
