"""The configuration of a pipeline, and the tables in which its workers read it.

A configuration is a row of tables: how many workers, which schedule, how many tuples a
worker claims at a time. Row 0 is in force at the start; the planned ones follow,
then spare rows for requests. Workers 0 to threads - 1 are active; the others are parked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.ordering.arrays import PipelineArrays
from headrace.ordering.words import BATCH, CT, ET, FIXED, LP, OWN, QST, SCHEDULE
from headrace.workers.worker_kernel import THREADS

SCHEDULES = {"qst": QST, "lp": LP, "et": ET, "ct": CT}
OWN_POLICY = "own"
"""The name of a schedule that is the user's own function."""


@dataclass(frozen=True)
class Configuration:
    """One configuration of a pipeline.

    Parameters
    ----------
    threads : int
        Workers 0 to threads - 1 are active.
    schedule : str or dict
        One of `SCHEDULES`, `OWN_POLICY`, or stage -> how many workers it has to itself.
    batch : int
        Most tuples that a worker claims at a time.
    """

    threads: int
    schedule: Any
    batch: int


def write_configuration(c: PipelineArrays, row: int, configuration: Configuration, names: Sequence[str]) -> None:
    """Fill one row of the tables that the workers read; `names` are the stages' names."""
    schedule = configuration.schedule
    is_fixed = isinstance(schedule, Mapping)
    c.rows[row, THREADS] = configuration.threads
    c.rows[row, SCHEDULE] = FIXED if is_fixed else OWN if schedule == OWN_POLICY else SCHEDULES[schedule]
    c.rows[row, BATCH] = configuration.batch
    c.fixed[row] = -1
    if is_fixed:
        allotted = [names.index(name) for name, workers in schedule.items() for _ in range(workers)]
        c.fixed[row, : len(allotted)] = allotted


def plan_configuration(c: PipelineArrays, index: int, at: int, configuration: Configuration, names: Sequence[str]) -> None:
    """Have configuration row ``index + 1`` come into force before row `at` of the input; `at` must not fall."""
    write_configuration(c, index + 1, configuration, names)
    c.plan_at[index] = at


__all__ = ["OWN_POLICY", "SCHEDULES", "Configuration", "plan_configuration", "write_configuration"]
