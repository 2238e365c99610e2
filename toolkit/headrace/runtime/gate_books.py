"""Row accounting (the books) of an operator whose input is a gate, and which of its sources holds back event time.

Other threads write the counters while they are read here, so counters that are
compared must be read in an order that makes the comparison hold at any moment;
`read_cell` and `read_cells` preserve that order (acquire).
A row passes these points in turn, and each counter only grows:

    arrived -> late | filtered -> added -> in the gate -> passed

Order       B1 added, B2 the readers' cursors, B3 the gate's records, B4 passed,
            B5 adding and added again, B6 filtered and late, B7 arrived
                    B1 to B4: a row added by B1 and not passed by B4 was in the
                    gate at B3; if the gate holds fewer records, some are lost
                    (a worker publishes its count of passed rows before its cursor)
                    B4 to B7: a row counted at a later point was counted before
                    at every earlier one, so no difference is negative
                    adding is set before the gate is given tuples and cleared
                    after they are counted as added: passed <= adding + added
Checked     tests/headrace/metrics
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from headrace.memory.cells import read_cell, read_cells
from headrace.metrics.balance import Balance
from headrace.plan.nodes import SourceNode
from headrace.progress import MIN_TIME
from headrace.runtime.gate_inlet import GateInlet
from headrace.runtime.inlets import reached


class Booked(Protocol):
    """What the books ask of an operator."""

    @property
    def inlets(self) -> Sequence[GateInlet]:
        """Its sources."""
        ...

    def records_held(self, members: list[int]) -> int:
        """A lower bound of the records in the gate that its slowest reader has yet to consume."""
        ...

    def passed_tuples(self, members: list[int]) -> tuple[int, int, int]:
        """Tuples passed by every worker, by every reader of the gate, and by at least one worker."""
        ...

    def faults_at_end(self, members: list[int], added: int) -> list[str]:
        """Signs, at the end of the input, that something is missing."""
        ...

    @property
    def unreleased(self) -> int:
        """Number of results that wait for their release."""
        ...


def take_balance(
    operator: Booked, members: list[int], is_finished: bool, is_stopped: bool
) -> tuple[int, int, Balance | None]:
    """Return (added, passed, balance); the balance is None where the rows that arrive are not counted."""
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
    balance = Balance(
        arrived, gained, passed, waiting, added - passed, dropped, set_aside, filtered, tuple(faults),
        operator.unreleased, is_stopped,
    )
    return added, passed, balance


def watermark_gaps(inlets: Sequence[GateInlet]) -> tuple[dict[str, int], str | None]:
    """Return how far each source is behind the furthest one in event time, and which source the others wait for."""
    books, times = [inlet.books for inlet in inlets], [reached(inlet) for inlet in inlets]
    furthest = max(times)
    begins = [book.first_ts for book in books if book.first_ts is not None]
    begin = min(begins, default=furthest)
    gaps = [
        0 if book.closed_at is not None else furthest - (time if time > MIN_TIME else min(begin, furthest))
        for book, time in zip(books, times, strict=True)
    ]
    behind = max(range(len(gaps)), key=gaps.__getitem__)
    names = source_names(inlets)
    return dict(zip(names, gaps, strict=True)), names[behind] if gaps[behind] > 0 and len(gaps) > 1 else None


def source_names(inlets: Sequence[GateInlet]) -> list[str]:
    """Return a name for each source of a gate, no two alike."""
    names = []
    for inlet in inlets:
        origin = inlet.branch.origin
        names.append(inlet.branch.source if isinstance(origin, SourceNode) else origin.name)
    return [name if names.count(name) == 1 else f"{name} {i}" for i, name in enumerate(names, 1)]


def log_records_held(gate: Any, kernels: Any, members: list[int]) -> int:
    """Records of a merged log, and of the rings before it, that the slowest of these readers has yet to consume."""
    cursor = int(read_cells(gate.cursor)[members].min())  # B2
    merged = int(read_cells(gate.merged).sum())  # B3
    waiting = int(read_cells(gate.head).sum()) - merged
    return waiting + read_cell(gate.words, kernels.END) - cursor
