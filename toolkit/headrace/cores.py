"""How many cores there are for this process: fewer than the machine has in a container, or where somebody has said so."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Count the cores this thread may run on, where the system says; else those there are.

    Examples
    --------
    >>> 1 <= usable_cores() <= (os.cpu_count() or 1)
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


__all__ = ["usable_cores"]
