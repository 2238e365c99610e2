"""Pinning workers to one core each, where the system supports it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator

from headrace.runtime.sections import Task


def pinned(tasks: Iterable[Task]) -> Iterator[Task]:
    """Yield the same threads, with each worker pinned to one of the cores that the process may use, in turn.

    With more workers than cores, several share a core, whether or not they belong to the same operator.
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
