"""The configuration of a program, and the table in which its workers read it.

Row 0 is in force at the start; the planned ones follow, then spare rows for requests. Workers 0 to threads - 1 run
leaves; the others are parked. The plan itself is not in the table: `layout.write_plan` writes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.synchronization import words
from headrace.synchronization.arrays import PlanArrays
from headrace.workers.worker_kernel import THREADS


@dataclass(frozen=True)
class Configuration:
    """One configuration of a program.

    Parameters
    ----------
    threads : int
        Workers 0 to threads - 1 run leaves.
    plan : Plan
    """

    threads: int
    plan: Any


class Planned(NamedTuple):
    """A configuration that comes into force before a row of the merged input, and which parts of it were requested."""

    at: int
    configuration: Configuration
    replans: bool
    says_threads: bool


def write_configuration(c: PlanArrays, row: int, configuration: Configuration) -> None:
    """Fill one row of the table the workers read."""
    c.rows[row, THREADS] = configuration.threads


def plan_configuration(c: PlanArrays, index: int, at: int, configuration: Configuration, replans: bool) -> None:
    """Have configuration row ``index + 1`` come into force before row `at` of the merged input; `at` must not fall."""
    write_configuration(c, index + 1, configuration)
    c.rows[index + 1, words.REPLANS] = replans
    c.plan_at[index] = at


__all__ = ["Configuration", "Planned", "plan_configuration", "write_configuration"]
