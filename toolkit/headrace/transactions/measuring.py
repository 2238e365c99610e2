"""From the executors' counters to a snapshot; `runtime.gate_books` says in which order what is compared is read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from headrace.metrics.by_worker import coefficient_of_variation
from headrace.metrics.snapshot import OperatorMetrics
from headrace.runtime.gate_books import Booked, take_balance, watermark_gaps
from headrace.runtime.sections import Moment
from headrace.transactions import words
from headrace.transactions.audit import Audit
from headrace.transactions.measures import MEASURES
from headrace.workers import worker_kernel
from headrace.workers.spans import times


class Measured(Booked, Protocol):
    """What is asked of an operator; see `headrace.transactions.section.TransactionSection`."""

    name: str
    max_threads: int
    program: Any
    control: Any
    audit: Audit | None
    chains_seen: np.ndarray
    reconfiguration: Any
    collector: Any

    @property
    def results(self) -> int: ...
    @property
    def rejected(self) -> int: ...
    def lost_wakeups(self) -> int: ...


LENGTHS = 16
"""Classes of chain lengths that are told apart; the last one has what is longer, too."""


def chains_by_length(section: Measured) -> dict[int, int]:
    """Count chains by the least length of their class, powers of two.

    A chain that grows leaves one class for the next, so a count may fall by a few while a batch is linked; a counter may
    not, and stays at the most that was seen.
    """
    lengths = section.control.lengths.sum(axis=0)
    counts = lengths[1 : LENGTHS + 1]
    counts[-1] += lengths[LENGTHS + 1 :].sum()
    np.maximum(section.chains_seen, counts, out=section.chains_seen)
    return {1 << k: count for k, count in enumerate(section.chains_seen.tolist())}


def measure(section: Measured, moment: Moment) -> OperatorMetrics:
    """Take a snapshot of one operator."""
    program, collector = section.program, section.collector
    configuration = section.reconfiguration.current
    members = list(range(configuration.threads))
    is_stopped = bool(moment.until_ns) and not moment.is_finished
    added, executed, balance = take_balance(section, members, moment.is_finished, is_stopped)
    if balance is not None and section.audit is not None:
        balance = replace(balance, conserved=section.audit.conserved())
    meter = times(section.control.meter, moment.until_ns)
    busy, barrier = meter[:, worker_kernel.BUSY_NS], meter[:, worker_kernel.BARRIER_NS]
    lock, other = meter[:, words.LOCK_NS], meter[:, words.PREPARE_NS] + meter[:, words.POST_NS]
    filling = section.control.filling.sum(axis=0)
    gaps, holds_back = watermark_gaps(section.inlets)
    latency, largest_ns = (collector.latency.counts(), collector.latency.largest_ns) if collector else (None, 0)
    batches, versions = int(meter[:, words.BATCHES].max()), int(meter[:, words.VERSIONS].sum())
    values = {
        "processed": executed,
        "latency": latency,
        "added": added,
        "results": section.results,
        "transactions": executed * len(program.spec.functions),
        "rejected": section.rejected,
        "operations": int(meter[:, words.NOTED].sum()),
        "combined": int(filling[words.COMBINED]),
        "executions": int(filling[words.EXECUTIONS]),
        "validations": int(filling[words.VALIDATIONS]),
        "aborts": int(filling[words.ABORTS]),
        "alone": int(filling[words.ALONE]),
        "batches": batches,
        "punctuation": configuration.punctuation,
        "imbalance_cv": coefficient_of_variation(busy[members]),
        "state_bytes": program.memory.nbytes,
        "versions": versions,
        "versions_held": versions / batches if batches else 0.0,
        "lost_wakeups": section.lost_wakeups(),
        "holds_back": holds_back,
        "watermark_gap": gaps,
        "load": (busy // 1_000).tolist(),
        "busy_ns": busy.tolist(),
        "idle_ns": meter[:, worker_kernel.IDLE_NS].tolist(),
        "blocked_ns": (meter[:, worker_kernel.ROOM_NS] + barrier).tolist(),
        "useful_ns": np.maximum(0, busy - lock - other).tolist(),
        "synchronization_ns": barrier.tolist(),
        "lock_ns": lock.tolist(),
        "other_ns": other.tolist(),
        "chains": chains_by_length(section),
    }
    return OperatorMetrics(
        section.name, len(members), section.max_threads, members, moment.seconds, balance, MEASURES, values,
        {"latency": largest_ns},
    )  # fmt: skip
