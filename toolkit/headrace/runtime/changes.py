"""Changes of one running operator, on any engine: requested, resolved, placed in the stream, followed up.

One change is in flight and one may be pending. Each request is resolved to a full
configuration against the newest one known when it is made; a newer request replaces
the pending one, whose caller is told. The engine (`steerable.Steerable`) knows what a
configuration is, how it is placed in the stream and when it has come into force.

State machine of a `Change`:

    request --> no change
            --> in flight --> done | unneeded (input ended) | failed
            --> pending   --> in flight | superseded | unneeded | failed

    planned --> done                      (recorded when it has taken place)

Source      STRETCH, section 7 and Algorithms 5 and 6 (corrected: requests are
            numbered where they are made, so an old request can never win).
Checked     tests/headrace/elastic/test_schedules.py, test_classic_mistakes.py
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from headrace.changes import Change
from headrace.memory.cells import read_cell
from headrace.newest import Record
from headrace.runtime.sections import RunContext
from headrace.runtime.steerable import Completion, Steerable

_RETRY_S = 20e-6
_WATCH_NS = 50_000_000
_LAST_LOOKS = 20_000
"""For the last acknowledgement, a second and more. Looks count, not the clock: a suspended process acknowledges nothing."""


class Changes:
    """Carries out the changes of one operator.

    Parameters
    ----------
    operator : str
    steerable : Steerable
    run : RunContext
    on_done : callable, optional
        Called when a change is done, since other workers may be active then.
    """

    def __init__(
        self, operator: str, steerable: Steerable[Any], run: RunContext, on_done: Callable[[], None] | None = None
    ):
        self.operator, self.steerable = operator, steerable
        self.record = Record[Change]()
        self.done = 0
        """How many changes came into force, those that the record has forgotten included."""
        self._run, self._on_done = run, on_done
        self._lock = threading.RLock()
        self._in_flight: tuple[Change, Any, object] | None = None
        """The change, its target configuration, its token."""
        self._pending: tuple[Change, Any] | None = None
        self._ended: str | None = None
        self._is_followed = False
        self._work = threading.Event()

    def start(self) -> None:
        """Start following planned changes, if there are any; requests are followed in any case."""
        if self.steerable.planned_left:
            self._start_follower()

    def request(self, reason: str = "", **requested: Any) -> Change:
        """Ask for a change; see `QueryRun.reconfigure`."""
        with self._lock:
            newest = self.steerable.current
            if self._in_flight is not None:
                newest = self._in_flight[1]
            if self._pending is not None:
                newest = self._pending[1]
            target = self.steerable.resolve(requested, newest)
            change = self._change(newest, target, reason=reason)
            if self._ended is not None:
                change.settle(self._ended)
            elif target == newest:
                change.settle("no change", change.requested_ns)
            elif self._in_flight is not None:
                if self._pending is not None:
                    self._pending[0].settle("superseded")
                self._pending = (change, target)
            else:
                self._launch(change, target)
            return change

    def _change(self, before: Any, after: Any, **details: Any) -> Change:
        """Record a change."""
        engine = self.steerable
        effects = engine.effects(before, after)
        change = Change(self.operator, engine.describe(before), engine.describe(after), effects=effects, **details)
        self.record.add(change)
        return change

    def _launch(self, change: Change, target: Any) -> None:
        change.before = self.steerable.describe(self.steerable.current)
        change.outcome = "in flight"
        while True:
            # Read the clock before the change is placed: the workers may complete it before this thread continues.
            change.started_ns = time.monotonic_ns()
            token = self.steerable.place(target)
            if token is not None or self._is_over:
                break
            time.sleep(_RETRY_S)
        self._in_flight = (change, target, token)
        self._start_follower()
        self._work.set()

    @property
    def _is_over(self) -> bool:
        return read_cell(self._run.stop_word, 0) != 0

    def _start_follower(self) -> None:
        with self._lock:
            if self._is_followed:
                return
            self._is_followed = True
        self._run.start_thread(f"{self.operator}-reconfiguration", self._follow)

    def _follow(self) -> None:
        """Body of the follower thread: wait for completions, and launch the pending change."""
        while self._ended is None and not self._is_over:
            if self._in_flight is None and not self.steerable.planned_left:
                self._work.wait(0.2)
                self._work.clear()
                continue
            self.steerable.await_completion(_WATCH_NS)
            self.collect()

    def collect(self) -> None:
        """Record the changes that have come into force."""
        with self._lock:
            while (found := self.steerable.completed()) is not None:
                self._settle(found)

    def _settle(self, found: Completion) -> None:
        if self._in_flight is not None and found.token is not None and self._in_flight[2] == found.token:
            change = self._in_flight[0]
            self._in_flight = None
        else:
            change = self._change(
                found.before, found.after, requested_ns=found.begun_ns, started_ns=found.begun_ns,
                planned_at=found.planned_at, reason="planned",
            )  # fmt: skip
        change.epoch, change.position = found.epoch, found.position
        change.effects |= found.effects
        change.settle("done", found.done_ns)
        self.done += 1
        if self._on_done is not None:
            self._on_done()
        if self._in_flight is None and self._pending is not None and self._ended is None:
            pending, target = self._pending
            self._pending = None
            if target == self.steerable.current:
                pending.settle("no change", time.monotonic_ns())
            else:
                self._launch(pending, target)

    def end(self, outcome: str) -> None:
        """Settle the open changes because the input ended ("unneeded") or the run did ("failed")."""
        self.collect()
        for _ in range(_LAST_LOOKS):
            if outcome != "unneeded" or not self.steerable.is_completing:
                break
            time.sleep(_RETRY_S)  # the boundary was passed, but a leaving worker has not acknowledged it yet
            self.collect()
        with self._lock:
            self._ended = outcome
            for entry in (self._in_flight, self._pending):
                if entry is not None and not entry[0].is_settled:
                    entry[0].settle(outcome)
            self._in_flight = self._pending = None
        self._work.set()
