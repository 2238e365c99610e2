"""From an operator's counters to a snapshot that can be checked; `runtime.gate_books` says in which order to read them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from headrace.elastic import words
from headrace.elastic.arrays import InstanceArrays
from headrace.elastic.compiled import Compiled
from headrace.elastic.measures import MEASURES
from headrace.elastic.reconfiguration import Reconfiguration
from headrace.memory.cells import read_cell, read_cells
from headrace.metrics.snapshot import OperatorMetrics
from headrace.progress import MIN_TIME
from headrace.runtime.gate_books import log_records_held, take_balance, watermark_gaps
from headrace.runtime.gate_inlet import GateInlet
from headrace.workers import worker_kernel
from headrace.workers.spans import times

EXACT_PLACES = 1 << 14
_BLOCKS, _BLOCK = 64, 256
"""How many blocks, of how many places, are read at most: instances have to fetch what is read back into their caches."""


class Measured(Protocol):
    """What a snapshot reads of an operator; `headrace.elastic.section.ElasticSection` documents each member."""

    name: str
    max_threads: int
    arrays: InstanceArrays
    compiled: Compiled
    dictionary: Any
    reconfiguration: Reconfiguration
    collector: Any
    inlets: Sequence[GateInlet]

    @property
    def unreleased(self) -> int: ...
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
        Monotonic time up to which the workers' time counts: the end of a run that is over; 0: now.
    seconds : float
        Since the first tuple of the run.
    is_finished : bool
        The run ended by itself, so nothing may be in flight.
    """
    arrays, collector, compiled = operator.arrays, operator.collector, operator.compiled
    members = list(operator.reconfiguration.current.members)
    added, passed, balance = take_balance(operator, members, is_finished, is_stopped=bool(now_ns) and not is_finished)
    buckets = read_cells(arrays.load, 1).sum(axis=0)  # before the load counted: they are never given more
    meter = times(arrays.meter, now_ns)
    load = meter[:, compiled.load_meter]
    variation, max_over_mean = operator.reconfiguration.imbalance(load)
    gaps, holds_back = watermark_gaps(operator.inlets)
    latency, largest_ns = (collector.latency.counts(), collector.latency.largest_ns) if collector else (None, 0)
    values = {
        "added": added,
        "processed": passed,
        "results": collector.rows if collector else 0,
        "latency": latency,
        "latest_latency": latency if compiled.latest_is_ready else None,
        "updates": int(meter[:, words.UPDATES].sum()),
        "comparisons": int(meter[:, words.COMPARISONS].sum()),
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
        "null_keys": sum(inlet.null_keys for inlet in operator.inlets),
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


def count_places(present: np.ndarray, places: int) -> int:
    """Count the non-zero ones among the first `places`; if there are many, estimate from blocks spread over them."""
    places = min(places, len(present))
    if places <= EXACT_PLACES:
        return int(np.count_nonzero(present[:places]))
    spread = present[: places // _BLOCKS * _BLOCKS].reshape(_BLOCKS, -1)[:, :_BLOCK]
    return round(np.count_nonzero(spread) / spread.size * places)


def scalegate_records_held(gate, kernels, members: list[int]) -> int:
    """Records of a skip list that the slowest of these readers has not consumed yet."""
    cursor = int(read_cells(gate.cursor)[members].min())  # B2
    linked = int(read_cells(gate.source, 1)[:, kernels.NEXT_SEQ].sum())  # B3
    return linked + read_cell(gate.words, kernels.PROPOSED) - cursor


RECORDS_HELD = {"log": log_records_held, "scalegate": scalegate_records_held}
