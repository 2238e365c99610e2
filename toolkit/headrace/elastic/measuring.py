"""Turns the instances' counters into a snapshot; `runtime.worker_measures` has what all engines count alike."""

from __future__ import annotations

from array import array
from typing import Any, Protocol

import numpy as np

from headrace.elastic import words
from headrace.elastic.compiled import Compiled
from headrace.elastic.measures import MEASURES
from headrace.elastic.reconfiguration import Reconfiguration
from headrace.memory.cells import read_cell, read_cells
from headrace.metrics.snapshot import OperatorMetrics
from headrace.progress import MIN_TIME
from headrace.runtime import worker_measures
from headrace.runtime.gate_books import log_records_held
from headrace.runtime.sections import Moment
from headrace.workers import worker_kernel

EXACT_PLACES = 1 << 14
_BLOCKS, _BLOCK = 64, 256
"""How many blocks, of how many places, are read at most: instances have to fetch what is read back into their caches."""


class Measured(worker_measures.Measured, Protocol):
    """What a snapshot reads of an operator; `headrace.elastic.section.ElasticSection` documents each member."""

    compiled: Compiled
    dictionary: Any
    reconfiguration: Reconfiguration

    def backlog_ns(self, members: list[int], depth: int) -> int: ...
    def state_bytes(self) -> int: ...
    def live_windows(self, members: list[int]) -> int: ...


def measure(operator: Measured, moment: Moment) -> OperatorMetrics:
    """Take a snapshot of one operator."""
    collector, compiled = operator.collector, operator.compiled
    buckets = read_cells(operator.arrays.load, 1).sum(axis=0)  # before the load counted: they are never given more
    taken = worker_measures.take(operator, moment, list(operator.reconfiguration.current.members))
    meter, members, common = taken.counters, taken.members, taken.values
    load = meter[:, compiled.load_meter]
    variation, max_over_mean = operator.reconfiguration.imbalance(load)
    values = {
        "latest_latency": common["latency"] if compiled.latest_is_ready else None,
        "updates": int(meter[:, words.UPDATES].sum()),
        "comparisons": int(meter[:, words.COMPARISONS].sum()),
        "load": load.tolist(),
        "bucket_load": array("q", buckets.tobytes()),
        "barrier_ns": meter[:, worker_kernel.BARRIER_NS].tolist(),
        "imbalance_cv": variation,
        "imbalance_max_mean": max_over_mean,
        "depth_ms": operator.backlog_ns(members, common["added"] - common["processed"]) / 1e6,
        "live_keys": operator.dictionary.size if operator.dictionary is not None else 1,
        "live_windows": operator.live_windows(members),
        "state_bytes": operator.state_bytes(),
        "filtered": sum(inlet.books.filtered for inlet in operator.inlets),
        "null_keys": sum(inlet.null_keys for inlet in operator.inlets),
        "watermark": collector.watermark if collector else MIN_TIME,
        "duplication": 1.0,
        "transferred_bytes": 0,
        "transferred_ns": 0,
    }
    return worker_measures.snapshot(operator, moment, taken, MEASURES, values, {"latest_latency": taken.largest["latency"]})


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
