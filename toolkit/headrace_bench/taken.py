"""The cost of a piece of work: seconds of wall-clock time, and processor time of all threads."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Taken:
    """The time taken since a `Watch` was started.

    Parameters
    ----------
    seconds : float
    cpu_s : float
        Processor time of all threads of this process, and of the other processes watched; NaN if one of them cannot be read.
    """

    seconds: float
    cpu_s: float


class Watch:
    """Measures the time taken since it was created.

    Parameters
    ----------
    *others : int
        Ids of processes that work for this one, such as Spark's Java virtual machine.

    Examples
    --------
    >>> watch = Watch()
    >>> _ = sum(range(100_000))
    >>> taken = watch.taken()
    >>> taken.seconds > 0 and taken.cpu_s > 0
    True
    """

    def __init__(self, *others: int):
        self._others = others
        self._cpu_s = self._processor_s()
        self._begin = time.perf_counter()

    def taken(self) -> Taken:
        """The time taken until now."""
        seconds = time.perf_counter() - self._begin
        return Taken(seconds, self._processor_s() - self._cpu_s)

    def _processor_s(self) -> float:
        return time.process_time() + sum(map(processor_s, self._others))


def processor_s(process: int) -> float:
    """Processor time of another process so far, its finished threads included: Linux only, else NaN.

    The system counts it in ticks, mostly of 10 ms.
    """
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return math.nan


def java_of(spark: Any) -> int:
    """The process id of a session's Java virtual machine; 0 if this process did not start it."""
    gateway = getattr(spark.sparkContext, "_gateway", None)
    return getattr(getattr(gateway, "proc", None), "pid", 0)
