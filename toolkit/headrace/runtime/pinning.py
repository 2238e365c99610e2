"""Workers that stay on one core each, where the system can do that."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator

from headrace.runtime.sections import Task


def pinned(tasks: Iterable[Task]) -> Iterator[Task]:
    """Yield the same threads, of which workers stay on the cores the process may use, one after the other.

    With more workers than cores, several share one, those of different operators as those of one.
    """
    cores = itertools.cycle(sorted(os.sched_getaffinity(0)))
    for task in tasks:
        yield task._replace(body=_on(next(cores), task.body)) if task.is_worker else task


def _on(core: int, body: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        os.sched_setaffinity(0, {core})  # 0: this thread, not the process
        body()

    return run


__all__ = ["pinned"]
