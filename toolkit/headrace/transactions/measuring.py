"""Turns the executors' counters into a snapshot; `runtime.worker_measures` has what all engines count alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from headrace.metrics.snapshot import OperatorMetrics
from headrace.runtime import worker_measures
from headrace.runtime.sections import Moment
from headrace.transactions import words
from headrace.transactions.audit import Audit
from headrace.transactions.measures import MEASURES
from headrace.workers import worker_kernel


class Measured(worker_measures.Measured, Protocol):
    """What `measure` needs of an operator; see `headrace.transactions.section.TransactionSection`."""

    compiled: Any
    audit: Audit | None
    chains_seen: np.ndarray

    @property
    def rejected(self) -> int: ...


LENGTHS = 16
"""Classes of chain lengths that are told apart; the last one has all longer chains, too."""


def chains_by_length(section: Measured) -> dict[int, int]:
    """Count chains by the least length of their class, powers of two.

    A chain that grows moves from one class to the next, so a count may fall by a few while a batch is linked. A counter
    must not fall, so it stays at the most that was seen.
    """
    lengths = section.arrays.lengths.sum(axis=0)
    counts = lengths[1 : LENGTHS + 1]
    counts[-1] += lengths[LENGTHS + 1 :].sum()
    np.maximum(section.chains_seen, counts, out=section.chains_seen)
    return {1 << k: count for k, count in enumerate(section.chains_seen.tolist())}


def measure(section: Measured, moment: Moment) -> OperatorMetrics:
    """Take a snapshot of one operator."""
    compiled, taken = section.compiled, worker_measures.take(section, moment)
    if taken.balance is not None and section.audit is not None:
        taken = taken._replace(balance=replace(taken.balance, conserved=section.audit.conserved()))
    meter = taken.counters
    busy, barrier = meter[:, worker_kernel.BUSY_NS], meter[:, worker_kernel.BARRIER_NS]
    lock, other = meter[:, words.LOCK_NS], meter[:, words.PREPARE_NS] + meter[:, words.POST_NS]
    filling = section.arrays.filling.sum(axis=0)
    batches, versions = int(meter[:, words.BATCHES].max()), int(meter[:, words.VERSIONS].sum())
    values = {
        "transactions": taken.processed * len(compiled.spec.functions),
        "rejected": section.rejected,
        "operations": int(meter[:, words.NOTED].sum()),
        "combined": int(filling[words.COMBINED]),
        "executions": int(filling[words.EXECUTIONS]),
        "validations": int(filling[words.VALIDATIONS]),
        "aborts": int(filling[words.ABORTS]),
        "alone": int(filling[words.ALONE]),
        "batches": batches,
        "punctuation": section.reconfiguration.current.punctuation,
        "state_bytes": compiled.memory.nbytes,
        "versions": versions,
        "versions_held": versions / batches if batches else 0.0,
        "useful_ns": np.maximum(0, busy - lock - other).tolist(),
        "synchronization_ns": barrier.tolist(),
        "lock_ns": lock.tolist(),
        "other_ns": other.tolist(),
        "chains": chains_by_length(section),
    }
    return worker_measures.snapshot(section, moment, taken, MEASURES, values)
