"""From an operator's counters to a snapshot that can be checked.

The counters are written by other threads while they are read here, so what is
compared must be read in an order that makes the comparison hold at any moment;
`read_cell` and `read_cells` keep it (acquire).
A row passes these points, and each counter only grows:

    arrived -> late | filtered -> added -> in the gate -> passed

Order       B1 added, B2 the readers' cursors, B3 the gate's records, B4 passed,
            B5 adding and added again, B6 filtered and late, B7 arrived
                    B1 to B4: what was added by B1 and not passed by B4 was in
                    the gate at B3: if the gate holds fewer records, some are lost
                    (an instance notes what it has passed before its cursor)
                    B4 to B7: what was counted at a later point was counted at
                    every earlier one before: no difference is negative
                    adding is set before the gate is given tuples and cleared
                    after they are counted as added: passed <= adding + added
Checked     tests/headrace/metrics
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from headrace.egress.collector import Collector
from headrace.elastic import epochs
from headrace.elastic.measures import MEASURES
from headrace.elastic.program import Program
from headrace.elastic.reconfiguration import Reconfiguration
from headrace.memory.cells import read_cell, read_cells
from headrace.metrics.balance import Balance
from headrace.metrics.snapshot import OperatorMetrics
from headrace.progress import MIN_TIME
from headrace.runtime.gate_inlet import GateInlet
from headrace.workers import worker_kernel
from headrace.workers.spans import counters

EXACT_PLACES = 1 << 14
_BLOCKS, _BLOCK = 64, 256
"""More are not read: the instances that write them would have to fetch them back into their caches."""


class Measured(Protocol):
    """What is asked of an operator; see `headrace.elastic.section.ElasticSection`, which says what each is."""

    name: str
    max_threads: int
    control: epochs.ControlArrays
    program: Program
    dictionary: Any
    reconfiguration: Reconfiguration
    collector: Collector | None
    inlets: Sequence[GateInlet]

    @property
    def source_names(self) -> Sequence[str]: ...
    def records_held(self, members: list[int]) -> int: ...
    def passed_tuples(self, members: list[int]) -> tuple[int, int, int]: ...
    def backlog_ns(self, members: list[int], depth: int) -> int: ...
    def faults_at_end(self, members: list[int], added: int) -> list[str]: ...
    def lost_wakeups(self) -> int: ...
    def state_bytes(self) -> int: ...
    def live_windows(self, members: list[int]) -> int: ...


def measure(operator: Measured, now_ns: int = 0, seconds: float = 0.0, is_finished: bool = False) -> OperatorMetrics:
    """Take a snapshot of one operator.

    Parameters
    ----------
    operator : ElasticSection
    now_ns : int
        Monotonic time up to which the workers' time counts: of a run that is over, its end. 0: now.
    seconds : float
        Since the first tuple of the run.
    is_finished : bool
        The run ended by itself: nothing may be in flight any more.
    """
    control, collector, program = operator.control, operator.collector, operator.program
    members = list(operator.reconfiguration.current.members)
    added, passed, balance = _balance(operator, members, is_finished, is_stopped=bool(now_ns) and not is_finished)
    buckets = read_cells(control.load, 1).sum(axis=0)  # before what was counted: they are never given more
    meter = times(control.meter, now_ns)
    load = meter[:, program.load_meter]
    variation, max_over_mean = operator.reconfiguration.imbalance(load)
    gaps, holds_back = watermark_gaps(operator)
    latency, largest_ns = (collector.latency.counts(), collector.latency.largest_ns) if collector else (None, 0)
    values = {
        "added": added,
        "processed": passed,
        "results": collector.rows if collector else 0,
        "latency": latency,
        "latest_latency": latency if program.latest_is_ready else None,
        "updates": int(meter[:, epochs.UPDATES].sum()),
        "comparisons": int(meter[:, epochs.COMPARISONS].sum()),
        "load": load.tolist(),
        "bucket_load": array("q", buckets.tobytes()),
        "busy_ns": meter[:, worker_kernel.BUSY_NS].tolist(),
        "idle_ns": meter[:, worker_kernel.IDLE_NS].tolist(),
        "blocked_ns": meter[:, [worker_kernel.ROOM_NS, worker_kernel.BARRIER_NS]].sum(axis=1).tolist(),
        "barrier_ns": meter[:, worker_kernel.BARRIER_NS].tolist(),
        "imbalance_cv": variation,
        "imbalance_max_mean": max_over_mean,
        "depth_ms": operator.backlog_ns(members, added - passed) / 1e6,
        "live_keys": operator.dictionary.size if operator.dictionary is not None else 1,
        "live_windows": operator.live_windows(members),
        "state_bytes": operator.state_bytes(),
        "filtered": sum(inlet.books.filtered for inlet in operator.inlets),
        "null_keys": sum(inlet.encoder.counters.null_keys for inlet in operator.inlets),
        "lost_wakeups": operator.lost_wakeups(),
        "watermark": collector.watermark if collector else MIN_TIME,
        "watermark_gap": gaps,
        "holds_back": holds_back,
        "duplication": 1.0,
        "transferred_bytes": 0,
        "transferred_ns": 0,
    }
    return OperatorMetrics(
        operator.name,
        len(members),
        operator.max_threads,
        members,
        seconds,
        balance,
        MEASURES,
        values,
        {"latency": largest_ns, "latest_latency": largest_ns},
    )


def times(meter: np.ndarray, until_ns: int) -> np.ndarray:
    """Copy the workers' counters, and book what each is doing just now, up to a time; 0: now."""
    meter = counters(meter)
    until_ns = until_ns or time.monotonic_ns()  # after the copy: what was booked was before
    rows = np.arange(len(meter))
    meter[rows, meter[:, worker_kernel.STATE]] += np.maximum(0, until_ns - meter[:, worker_kernel.SINCE])
    return meter


def _balance(
    operator: Measured, members: list[int], is_finished: bool, is_stopped: bool
) -> tuple[int, int, Balance | None]:
    """Give (added, passed, the books); there are none where nobody counts what arrives."""
    books = [inlet.books for inlet in operator.inlets]
    counted = sum(book.added for book in books)  # B1
    held = operator.records_held(members)  # B2, B3
    passed, read, furthest = operator.passed_tuples(members)  # B4
    most = sum(book.adding + book.added for book in books)  # B5
    added = max(sum(book.added for book in books), min(passed, most))
    filtered = sum(book.filtered for book in books)  # B6
    dropped, set_aside = (sum(book.late(policy) for book in books) for policy in ("drop", "side"))
    gained = sum(book.gained for book in books)
    arrivals = [book.arrived() if book.arrived is not None else None for book in books]  # B7
    if None in arrivals:
        return added, passed, None
    arrived = sum(arrivals)
    waiting = arrived + gained - added - filtered - dropped - set_aside
    faults = []
    if waiting < 0:
        faults.append(f"{-waiting:,} rows were counted that never arrived")
    if max(passed, furthest) > most:
        faults.append(f"{max(passed, furthest) - most:,} tuples were processed that were never added")
    if counted - read > held:
        faults.append(f"{counted - read - held:,} tuples added are neither processed nor in the gate")
    if is_finished:
        if waiting or added != passed:
            faults.append(f"the run is finished, and {waiting + added - passed:,} rows are still in flight")
        faults += operator.faults_at_end(members, added)
    unreleased = operator.collector.unreleased if operator.collector else 0
    balance = Balance(
        arrived, gained, passed, waiting, added - passed, dropped, set_aside, filtered, tuple(faults), unreleased, is_stopped
    )
    return added, passed, balance


def watermark_gaps(operator: Measured) -> tuple[dict[str, int], str | None]:
    """Say how far each source is behind the furthest one, and which one the others wait for."""
    books = [inlet.books for inlet in operator.inlets]
    reached = [
        inlet.mark if inlet.books.closed_at is None else inlet.books.closed_at for inlet in operator.inlets
    ]
    furthest = max(reached)
    begins = [book.first_ts for book in books if book.first_ts is not None]
    begin = min(begins, default=furthest)
    gaps = [
        0 if book.closed_at is not None else furthest - (time if time > MIN_TIME else min(begin, furthest))
        for book, time in zip(books, reached, strict=True)
    ]
    behind = max(range(len(gaps)), key=gaps.__getitem__)
    names = operator.source_names
    return dict(zip(names, gaps, strict=True)), names[behind] if gaps[behind] > 0 and len(gaps) > 1 else None


def count_places(present: np.ndarray, places: int) -> int:
    """Count the non-zero ones of the first `places`; of many, in blocks spread over them."""
    places = min(places, len(present))
    if places <= EXACT_PLACES:
        return int(np.count_nonzero(present[:places]))
    spread = present[: places // _BLOCKS * _BLOCKS].reshape(_BLOCKS, -1)[:, :_BLOCK]
    return round(np.count_nonzero(spread) / spread.size * places)


def log_records_held(gate, kernels, members: list[int]) -> int:
    """Records of a merged log, and of the rings before it, that the slowest of these readers has yet to consume."""
    cursor = int(read_cells(gate.cursor)[members].min())  # B2
    merged = int(read_cells(gate.merged).sum())  # B3
    waiting = int(read_cells(gate.head).sum()) - merged
    return waiting + read_cell(gate.words, kernels.END) - cursor


def scalegate_records_held(gate, kernels, members: list[int]) -> int:
    """Records of a skip list that the slowest of these readers has yet to consume."""
    cursor = int(read_cells(gate.cursor)[members].min())  # B2
    linked = int(read_cells(gate.source, 1)[:, kernels.NEXT_SEQ].sum())  # B3
    return linked + read_cell(gate.words, kernels.PROPOSED) - cursor


RECORDS_HELD = {"log": log_records_held, "scalegate": scalegate_records_held}
