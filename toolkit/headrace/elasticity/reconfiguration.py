"""Requests to reconfigure one operator: checked, resolved, placed in the stream, followed up.

One request is in flight and one may be pending. Each is resolved to a full
configuration (members and mapping) against the newest one known when it is
made; a newer request replaces the pending one. The request in flight is a
control record in the operator's input gate; the workers do the rest.

State machine of a `Change`:

    request --> no change
            --> in flight --> done | unneeded (input ended) | failed
            --> pending   --> in flight | superseded | unneeded | failed

Source      STRETCH, section 7 and Algorithms 5 and 6 (corrected: requests are
            numbered where they are made, so no old request can win).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from headrace.counters import coefficient_of_variation, max_over_mean
from headrace.elasticity.mapping import Mapping, is_whole
from headrace.errors import ReconfigurationError
from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cell
from headrace.operators import membership
from headrace.operators.membership import ControlArrays
from headrace.runtime.changes import Change

SPARE_CONFIGURATIONS = 8
_RETRY_S = 20e-6
_WATCH_NS = 50_000_000
_LAST_ACKNOWLEDGEMENT_S = 1.0


@dataclass(frozen=True)
class Configuration:
    """Who is a member, and who owns each bucket. Members may own nothing."""

    members: tuple[int, ...]
    mapping: Mapping

    @classmethod
    def even(cls, threads: int) -> Configuration:
        return cls(tuple(range(threads)), Mapping.even(threads))


def check_threads(threads: object, max_threads: int) -> tuple[int, ...]:
    """Turn `threads` (a count, or the instances themselves) into members, or say what is wrong."""
    if isinstance(threads, bool) or not isinstance(threads, (int, np.integer, Iterable)):
        raise ReconfigurationError(f"threads={threads!r}: give a whole number from 1 to {max_threads}")
    if isinstance(threads, (int, np.integer)):
        if not 1 <= threads <= max_threads:
            raise ReconfigurationError(
                f"threads={threads}: must be from 1 to max_threads={max_threads};"
                f" start the run with a larger max_threads= to go beyond"
            )
        return tuple(range(int(threads)))
    members = tuple(sorted(set(threads)))
    if not members or not all(is_whole(m) and 0 <= m < max_threads for m in members):
        raise ReconfigurationError(
            f"threads={threads!r}: instances are numbered 0 to {max_threads - 1}, and at least one is needed"
        )
    return tuple(int(m) for m in members)


def resolve(
    threads: object, mapping: Mapping | None, current: Configuration, max_threads: int
) -> Configuration:
    """Complete a request against the newest configuration known."""
    if threads is None and mapping is None:
        raise ReconfigurationError("reconfigure(): give threads=, mapping=, or both")
    members = current.members if threads is None else check_threads(threads, max_threads)
    if mapping is None:
        return current if members == current.members else Configuration(members, Mapping.even(members))
    if not isinstance(mapping, Mapping):
        mapping = Mapping(mapping)
    absent = sorted(set(mapping.instances) - set(members))
    if absent:
        raise ReconfigurationError(
            f"mapping: instance {absent[0]} owns buckets but is not active (active: {list(members)});"
            f" pass threads= as well, or map its buckets elsewhere"
        )
    return Configuration(members, mapping)


def write_configuration(control: ControlArrays, row: int, configuration: Configuration) -> None:
    """Fill one row of the tables the workers read."""
    ranges = configuration.mapping.ranges()
    control.member[row] = 0
    control.low[row] = 0
    control.width[row] = 0
    control.contiguous[row] = ranges is not None
    control.owner[row] = configuration.mapping.owners
    for member in configuration.members:
        control.member[row, member] = 1
        if ranges is not None:
            control.low[row, member], control.width[row, member] = ranges.get(member, (0, 0))


class Spread:
    """How unevenly load was shared: each configuration by itself, weighted by the load that came in its time.

    Loads only add up, so after a change they would compare who was there long with who was not.

    Examples
    --------
    >>> spread = Spread()
    >>> spread.close(np.array([10, 0]), [0])  # one instance alone, then two that share evenly
    >>> spread.with_present(np.array([15, 5]), [0, 1])
    (0.0, 1.0)
    """

    def __init__(self):
        self._until: np.ndarray | int = 0
        self._sums = np.zeros(3)  # load; load times coefficient of variation, times max/mean

    def _added(self, load: np.ndarray, members: Sequence[int] | np.ndarray) -> np.ndarray:
        share = np.maximum(load - self._until, 0)[np.asarray(members, np.int64)]
        total = float(share.sum())
        return total * np.array([1.0, coefficient_of_variation(share), max_over_mean(share)])

    def close(self, load: np.ndarray, members: Sequence[int] | np.ndarray) -> None:
        """End the time of these members, at which the workers' loads had come to `load`."""
        self._sums += self._added(load, members)
        self._until = load

    def with_present(self, load: np.ndarray, members: Sequence[int] | np.ndarray) -> tuple[float, float]:
        """Coefficient of variation and max/mean until now."""
        total, variation, ratio = self._sums + self._added(load, members)
        return (float(variation / total), float(ratio / total)) if total else (0.0, 1.0)


class Reconfigurer:
    """Carries requests for one operator.

    Parameters
    ----------
    name : str
        Of the operator.
    control : ControlArrays
        Configuration rows 0 to `planned` are in use already.
    gate : tuple of ndarray
        Input gate.
    gate_kernels : module
        `merged_log_kernel` or `scalegate_kernel`.
    initial : Configuration
        Row 0.
    planned : sequence of (tuple count, Configuration)
        Rows 1, 2, ...
    start_thread : callable
        ``start_thread(name, body)``, from the run's pool.
    transfer_of : callable, optional
        Gives (bytes, ns) of state moved at an epoch.
    on_change : callable, optional
        Called when an epoch is complete: other instances may be active.
    """

    def __init__(
        self,
        name: str,
        control: ControlArrays,
        gate,
        gate_kernels: ModuleType,
        max_threads: int,
        initial: Configuration,
        planned: list[tuple[int, Configuration]],
        start_thread: Callable[[str, Callable[[], None]], None],
        transfer_of: Callable[[int], tuple[int, int]] | None = None,
        on_change: Callable[[], None] | None = None,
    ):
        self.name = name
        self.max_threads = max_threads
        self.changes: list[Change] = []
        self._control, self._gate, self._kernels = control, gate, gate_kernels
        self._rows: dict[int, Configuration] = {0: initial}
        self._planned = planned
        for row, (_, configuration) in enumerate(planned, start=1):
            self._rows[row] = configuration
        self._first_spare = len(planned) + 1
        self._spare = 0
        self._lock = threading.RLock()
        self._in_flight: tuple[Change, Configuration, int] | None = None
        self._pending: tuple[Change, Configuration] | None = None
        self._epochs_seen = 0
        self._ended: str | None = None
        self._start_thread = start_thread
        self._follower_started = False
        self._work = threading.Event()
        self._transfer_of = transfer_of
        self._on_change = on_change
        self._planned_left = len(planned)
        self._spread = Spread()
        self._spread_lock = threading.RLock()
        self._loads_seen = 0

    @property
    def current(self) -> Configuration:
        """The configuration in force."""
        return self._rows[read_cell(self._control.words, membership.CONFIG)]

    def request(self, threads: object = None, mapping: Mapping | None = None, reason: str = "") -> Change:
        """Ask for a change; see `Run.reconfigure`."""
        with self._lock:
            newest = self.current
            if self._in_flight is not None:
                newest = self._in_flight[1]
            if self._pending is not None:
                newest = self._pending[1]
            target = resolve(threads, mapping, newest, self.max_threads)
            change = Change(
                self.name,
                len(newest.members),
                len(target.members),
                newest.mapping.differing(target.mapping),
                reason=reason,
                members=target.members,
                mapping=target.mapping,
            )
            self.changes.append(change)
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

    def _launch(self, change: Change, target: Configuration) -> None:
        self._note_loads()  # before the row of an older configuration is written anew
        row = self._first_spare + self._spare % SPARE_CONFIGURATIONS
        self._spare += 1
        write_configuration(self._control, row, target)
        self._rows[row] = target
        change.from_threads = len(self.current.members)
        change.outcome = "in flight"
        self._in_flight = (change, target, row)
        while True:
            # Taken before the gate has the record: the instances may be through before this thread goes on.
            change.started_ns = time.monotonic_ns()
            if self._kernels.control(self._gate, row) != 0 or read_cell(self._control.words, membership.STOP):
                break
            time.sleep(_RETRY_S)
        self._start_follower()
        self._work.set()

    def start(self) -> None:
        """Take note of planned changes as they come; requests are followed up in any case."""
        if self._planned_left:
            self._start_follower()

    def _start_follower(self) -> None:
        with self._lock:
            if self._follower_started:
                return
            self._follower_started = True
        self._start_thread(f"{self.name}-reconfiguration", self._follow)

    def _follow(self) -> None:
        """Wait for completions; launch what is pending."""
        while self._ended is None and not read_cell(self._control.words, membership.STOP):
            if self._in_flight is None and not self._planned_left:
                self._work.wait(0.2)
                self._work.clear()
                continue
            membership.watch(self._control, self._epochs_seen + 1, _WATCH_NS)
            self.collect()

    def collect(self) -> None:
        """Take note of completed epochs."""
        with self._lock:
            control = self._control
            while True:
                epoch = self._epochs_seen + 1
                ring = epoch % control.met_at.size
                if read_cell(control.words, membership.EPOCH) < epoch:
                    return
                done = read_cell(control.done_at, ring * CELL)
                if done == 0:
                    return
                self._epochs_seen = epoch
                before, after = (int(row) for row in control.installed[ring])
                moved = self._transfer_of(epoch) if self._transfer_of else (0, 0)
                if self._in_flight is not None and self._in_flight[2] == after:
                    change = self._in_flight[0]
                    self._in_flight = None
                else:
                    change = self._planned_change(before, after, int(control.met_at[ring]))
                change.epoch = epoch
                change.transferred_bytes, change.transferred_ns = moved
                change.settle("done", done)
                if self._on_change is not None:
                    self._on_change()
                if self._in_flight is None and self._pending is not None and self._ended is None:
                    pending, target = self._pending
                    self._pending = None
                    if target == self.current:
                        pending.settle("no change", time.monotonic_ns())
                    else:
                        self._launch(pending, target)

    def imbalance(self, load: np.ndarray) -> tuple[float, float]:
        """Coefficient of variation and max/mean of the load so far, int64[workers]; see `Spread`."""
        with self._spread_lock:
            self._note_loads()
            return self._spread.with_present(load, self.current.members)

    def _note_loads(self) -> None:
        """Take note of the load at each epoch so far."""
        control = self._control
        with self._spread_lock:
            while read_cell(control.words, membership.EPOCH) > self._loads_seen:
                self._loads_seen += 1
                ring = self._loads_seen % control.met_at.size
                members = np.flatnonzero(control.member[int(control.installed[ring, 0])])
                self._spread.close(control.load_at[ring].copy(), members)

    @property
    def _is_completing(self) -> bool:
        """Whether an epoch is in force that somebody has yet to acknowledge."""
        return read_cell(self._control.words, membership.EPOCH) > self._epochs_seen

    def _planned_change(self, before: int, after: int, met_ns: int) -> Change:
        self._planned_left -= 1
        old, new = self._rows[before], self._rows[after]
        change = Change(
            self.name,
            len(old.members),
            len(new.members),
            old.mapping.differing(new.mapping),
            requested_ns=met_ns,
            started_ns=met_ns,
            planned_at=self._planned[after - 1][0],
            reason="planned",
            members=new.members,
            mapping=new.mapping,
        )
        self.changes.append(change)
        return change

    def end(self, outcome: str) -> None:
        """The input ended ("unneeded") or the run did ("failed"): settle what is open."""
        self.collect()
        late = time.monotonic() + _LAST_ACKNOWLEDGEMENT_S
        while outcome == "unneeded" and self._is_completing and time.monotonic() < late:
            time.sleep(_RETRY_S)  # the boundary was passed; a leaver has not said yet that it left
            self.collect()
        with self._lock:
            self._ended = outcome
            for entry in (self._in_flight, self._pending):
                if entry is not None and not entry[0].is_settled:
                    entry[0].settle(outcome)
            self._in_flight = self._pending = None
        self._work.set()
