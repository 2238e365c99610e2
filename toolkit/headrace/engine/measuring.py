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
Checked     tests/headrace/engine/test_metrics.py
"""

from __future__ import annotations

import time
from array import array
from typing import TYPE_CHECKING

import numpy as np

from headrace.counters import Balance, OperatorMetrics
from headrace.memory.cells import read_cell, read_cells
from headrace.operators import membership
from headrace.progress import MIN_TIME

if TYPE_CHECKING:
    from headrace.engine.operator import Operator

EXACT_PLACES = 1 << 14
_BLOCKS, _BLOCK = 64, 256
"""More are not read: the instances that write them would have to fetch them back into their caches."""


def measure(operator: Operator, now_ns: int = 0, seconds: float = 0.0, is_finished: bool = False) -> OperatorMetrics:
    """Take a snapshot of one operator.

    Parameters
    ----------
    operator : Operator
    now_ns : int
        Monotonic time up to which the workers' time counts: of a run that is over, its end. 0: now.
    seconds : float
        Since the first tuple of the run.
    is_finished : bool
        The run ended by itself: nothing may be in flight any more.
    """
    control, collector, program = operator.control, operator.collector, operator.program
    members = list((operator.reconfigurer.current if operator.reconfigurer else operator.initial).members)
    added, passed, balance = _balance(operator, members, is_finished)
    buckets = read_cells(control.load, 1).sum(axis=0)  # before what was counted: they are never given more
    meter = times(control.meter, now_ns)
    busy, idle, blocked = (meter[:, at] for at in (membership.BUSY_NS, membership.IDLE_NS, membership.BLOCKED_NS))
    total = np.maximum(busy + idle + blocked, 1)
    load = meter[:, program.load_meter]
    variation, max_over_mean = operator.reconfigurer.imbalance(load) if operator.reconfigurer else (0.0, 1.0)
    gaps, holds_back = watermark_gaps(operator)
    latency = collector.latency.summary() if collector else {}
    depth = added - passed
    return OperatorMetrics(
        name=operator.name,
        threads=len(members),
        max_threads=operator.max_threads,
        added=added,
        processed=passed,
        results=collector.rows if collector else 0,
        updates=int(meter[:, membership.UPDATES].sum()),
        comparisons=int(meter[:, membership.COMPARISONS].sum()),
        watermark=collector.watermark if collector else MIN_TIME,
        depth_tuples=depth,
        live_keys=operator.dictionary.size if operator.dictionary is not None else 1,
        state_bytes=operator.state_bytes(),
        busy_share=(busy / total).tolist(),
        load=load.tolist(),
        imbalance_cv=variation,
        imbalance_max_mean=max_over_mean,
        latency_ms=latency,
        filtered=sum(port.filtered for port in operator.ports),
        null_keys=sum(port.encoder.counters.null_keys for port in operator.ports),
        seconds=seconds,
        members=members,
        busy_ns=busy.tolist(),
        idle_ns=idle.tolist(),
        blocked_ns=blocked.tolist(),
        idle_share=(idle / total).tolist(),
        blocked_share=(blocked / total).tolist(),
        bucket_load=array("q", buckets.tobytes()),
        depth_ms=operator.work_ns(members, depth) / 1e6,
        watermark_gap=gaps,
        holds_back=holds_back,
        live_windows=operator.live_windows(members),
        latest_latency_ms=dict(latency) if program.latest_is_ready else {},
        lost_wakeups=operator.lost_wakeups(),
        balance=balance,
    )


def times(meter: np.ndarray, until_ns: int) -> np.ndarray:
    """Copy the workers' counters, and book what each is doing just now, up to a time; 0: now."""
    meter = read_cells(meter, 1)
    until_ns = until_ns or time.monotonic_ns()  # after the copy: what was booked was before
    rows = np.arange(len(meter))
    meter[rows, meter[:, membership.STATE]] += np.maximum(0, until_ns - meter[:, membership.SINCE])
    return meter


def _balance(operator: Operator, members: list[int], is_finished: bool) -> tuple[int, int, Balance | None]:
    """Give (added, passed, the books); there are none where nobody counts what arrives."""
    ports = operator.ports
    counted = sum(port.added for port in ports)  # B1
    held = operator.records_held(members)  # B2, B3
    passed, read, furthest = operator.passed_tuples(members)  # B4
    most = sum(port.adding + port.added for port in ports)  # B5
    added = max(sum(port.added for port in ports), min(passed, most))
    filtered = sum(port.filtered for port in ports)  # B6
    dropped, set_aside = (sum(port.late_rows(policy) for port in ports) for policy in ("drop", "side"))
    gained = sum(port.gained for port in ports)
    arrivals = [port.arrived for port in ports]  # B7
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
    books = Balance(arrived, gained, passed, waiting, added - passed, dropped, set_aside, filtered, tuple(faults))
    return added, passed, books


def watermark_gaps(operator: Operator) -> tuple[dict[str, int], str | None]:
    """Say how far each source is behind the furthest one, and which one the others wait for."""
    ports = operator.ports
    reached = [port.reached for port in ports]
    furthest = max(reached)
    begins = [port.first_ts for port in ports if port.first_ts is not None]
    begin = min(begins, default=furthest)
    gaps = [
        0 if port.is_closed else furthest - (time if time > MIN_TIME else min(begin, furthest))
        for port, time in zip(ports, reached, strict=True)
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
    """The same of a skip list."""
    cursor = int(read_cells(gate.cursor)[members].min())  # B2
    linked = int(read_cells(gate.source, 1)[:, kernels.NEXT_SEQ].sum())  # B3
    return linked + read_cell(gate.words, kernels.PROPOSED) - cursor


RECORDS_HELD = {"log": log_records_held, "scalegate": scalegate_records_held}
