"""From the workers' counters to a snapshot; `runtime.gate_books` says in which order what is compared is read."""

from __future__ import annotations

from typing import Any, Protocol

from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cell, read_cells
from headrace.metrics.by_worker import coefficient_of_variation
from headrace.metrics.snapshot import OperatorMetrics
from headrace.ordering import words
from headrace.ordering.measures import MEASURES
from headrace.runtime.gate_books import Booked, take_balance, watermark_gaps
from headrace.runtime.sections import Moment
from headrace.workers import worker_kernel
from headrace.workers.spans import times


class Measured(Booked, Protocol):
    """What is asked of a pipeline; see `headrace.ordering.section.OrderedSection`."""

    name: str
    max_threads: int
    program: Any
    control: Any
    reconfiguration: Any
    collector: Any
    finisher: Any

    @property
    def results(self) -> int: ...
    def lost_wakeups(self) -> int: ...


def stage_cell(section: Measured, stage: int, what: int) -> int:
    """Read a word of a stage."""
    return int(read_cell(section.control.stage, stage * words.STAGE_CELLS * CELL + what))


def records_at(section: Measured, stage: int) -> tuple[int, int, int]:
    """Records that a stage has passed on, that were claimed, that were appended: the end of the stream left out."""
    drained = stage_cell(section, stage, words.NEXT)
    claimed = max(drained, stage_cell(section, stage, words.HEAD))
    tail = max(claimed, stage_cell(section, stage, words.TAIL))
    end = stage_cell(section, stage, words.END_AT)
    return min(drained, end), min(claimed, end), min(tail, end)


def measure(section: Measured, moment: Moment) -> OperatorMetrics:
    """Take a snapshot of a pipeline."""
    control, collector = section.control, section.collector
    configuration = section.reconfiguration.current
    members = list(range(configuration.threads))
    is_stopped = bool(moment.until_ns) and not moment.is_finished
    added, processed, balance = take_balance(section, members, moment.is_finished, is_stopped)
    meter = times(control.meter, moment.until_ns)
    busy = meter[:, worker_kernel.BUSY_NS]
    gaps, holds_back = watermark_gaps(section.inlets)
    latency, largest_ns = (collector.latency.counts(), collector.latency.largest_ns) if collector else (None, 0)
    processing = section.finisher.processing
    names = [one.stage.name for one in section.program.bound.stages]
    at = [records_at(section, stage) for stage in range(len(names))]
    work = read_cells(control.work.reshape(-1), 1).reshape(control.work.shape).sum(axis=0)
    known = read_cells(control.known[: len(names)], 1)

    def by_stage(values: Any) -> dict[str, Any]:
        return dict(zip(names, values, strict=True))

    values = {
        "processed": processed,
        "latency": latency,
        "processing": processing.counts(),
        "added": added,
        "results": section.results,
        "decisions": int(meter[:, words.DECISIONS].sum()),
        "fallbacks": int(meter[:, words.FALLBACKS].sum()),
        "imbalance_cv": coefficient_of_variation(busy[members]),
        "state_bytes": section.program.state_bytes(),
        "lost_wakeups": section.lost_wakeups(),
        "holds_back": holds_back,
        "watermark_gap": gaps,
        "load": (busy // 1_000).tolist(),
        "busy_ns": busy.tolist(),
        "idle_ns": meter[:, worker_kernel.IDLE_NS].tolist(),
        "blocked_ns": (meter[:, worker_kernel.ROOM_NS] + meter[:, worker_kernel.BARRIER_NS]).tolist(),
        "taken": by_stage(work[:, words.TUPLES].tolist()),
        "backlog": by_stage(tail - claimed for _, claimed, tail in at),
        "waiting": by_stage(claimed - drained for drained, claimed, _ in at),
        "at_work": by_stage(stage_cell(section, stage, words.WORKERS) for stage in range(len(names))),
        "stage_time": by_stage((work[:, words.SPENT_NS] // 1_000).tolist()),
        "cost": by_stage((known[:, words.COST] / words.COST_UNIT).tolist()),
        "selectivity": by_stage(
            (work[:, words.OUTPUTS] / work[:, words.TUPLES].clip(1)).tolist()
        ),
        "delegated": by_stage(work[:, words.DELEGATED].tolist()),
    }
    largest = {"latency": largest_ns, "processing": processing.largest_ns}
    return OperatorMetrics(
        section.name, len(members), section.max_threads, members, moment.seconds, balance, MEASURES, values, largest
    )


__all__ = ["measure", "records_at", "stage_cell"]
