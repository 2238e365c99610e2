"""Turns the workers' counters into a snapshot; `runtime.worker_measures` has what all engines count alike."""

from __future__ import annotations

import time
from typing import Any, Protocol

from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cell, read_cells
from headrace.metrics.snapshot import OperatorMetrics
from headrace.ordering import words
from headrace.ordering.measures import MEASURES, busiest_of
from headrace.runtime import worker_measures
from headrace.runtime.sections import Moment

_SETTLE_S = 1.0
"""A worker needs a microsecond, or a time slice if it is kept from its core."""
_LOOK_S = 50e-6


class Measured(worker_measures.Measured, Protocol):
    """What `measure` needs of a pipeline; see `headrace.ordering.section.OrderedSection`."""

    compiled: Any
    finisher: Any


def stage_cell(section: Measured, stage: int, what: int) -> int:
    """Read a word of a stage."""
    return int(read_cell(section.arrays.stage, stage * words.STAGE_CELLS * CELL + what))


def records_at(section: Measured, stage: int) -> tuple[int, int, int]:
    """How many records a stage has passed on, claimed and received, not counting the end of the stream."""
    drained = stage_cell(section, stage, words.NEXT)
    claimed = max(drained, stage_cell(section, stage, words.HEAD))
    tail = max(claimed, stage_cell(section, stage, words.TAIL))
    end = stage_cell(section, stage, words.END_AT)
    return min(drained, end), min(claimed, end), min(tail, end)


def _settle(section: Measured) -> None:
    """Wait until workers have said what they passed on: the end may leave the last stage before (D4, D5 of `buffer_kernel`)."""
    end = time.monotonic() + _SETTLE_S
    for stage in range(len(section.compiled.bound.stages)):
        while stage_cell(section, stage, words.NEXT) < stage_cell(section, stage, words.END_AT) and time.monotonic() < end:
            time.sleep(_LOOK_S)


def measure(section: Measured, moment: Moment) -> OperatorMetrics:
    """Take a snapshot of a pipeline."""
    if moment.is_finished:
        _settle(section)
    taken = worker_measures.take(section, moment)
    arrays, meter = section.arrays, taken.counters
    processing = section.finisher.processing
    names = [one.stage.name for one in section.compiled.bound.stages]
    at = [records_at(section, stage) for stage in range(len(names))]
    work = read_cells(arrays.work, 1).sum(axis=0)
    known = read_cells(arrays.known, 1)[: len(names)]

    def by_stage(values: Any) -> dict[str, Any]:
        return dict(zip(names, values, strict=True))

    stage_time = by_stage((work[:, words.SPENT_NS] // 1_000).tolist())
    busiest_stage, busiest_share = busiest_of(stage_time)
    values = {
        "processing": processing.counts(),
        "decisions": int(meter[:, words.DECISIONS].sum()),
        "fallbacks": int(meter[:, words.FALLBACKS].sum()),
        "state_bytes": section.compiled.state_bytes(),
        "taken": by_stage(work[:, words.TUPLES].tolist()),
        "backlog": by_stage(tail - claimed for _, claimed, tail in at),
        "waiting": by_stage(claimed - drained for drained, claimed, _ in at),
        "at_work": by_stage(stage_cell(section, stage, words.WORKERS) & words.A_COUNT for stage in range(len(names))),
        "stage_time": stage_time,
        "busiest_stage": busiest_stage,
        "busiest_share": busiest_share,
        "cost": by_stage((known[:, words.COST] / words.COST_UNIT).tolist()),
        "selectivity": by_stage(
            (work[:, words.OUTPUTS] / work[:, words.TUPLES].clip(1)).tolist()
        ),
        "delegated": by_stage(work[:, words.DELEGATED].tolist()),
    }
    largest = {"processing": processing.largest_ns}
    return worker_measures.snapshot(section, moment, taken, MEASURES, values, largest)


__all__ = ["measure", "records_at", "stage_cell"]
