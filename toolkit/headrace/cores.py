"""How many cores this process may use: fewer than the machine has in a container, or with a CPU affinity."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Count the cores on which this thread may run, if the system tells; else the machine's.

    Examples
    --------
    >>> 1 <= usable_cores() <= (os.cpu_count() or 1)
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


__all__ = ["usable_cores"]
