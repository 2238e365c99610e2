"""The threads that read and feed sources: two for each of a few sources; with many, a thread serves several in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from headrace.runtime.feeding import Stopped
from headrace.runtime.sections import Task
from headrace.runtime.sources import Source

OWN_THREADS = 8
"""Up to this many sources have threads of their own; more sources share this many."""


def tasks_of(sources: Sequence[Source]) -> list[Task]:
    """Return the threads for these sources: two for each of a few, else shared ones; a stream has its own reader thread."""
    if len(sources) <= OWN_THREADS:
        readers, feeders = [[source] for source in sources], [[source] for source in sources]
    else:
        waiting = [source for source in sources if source.may_wait]
        others = [source for source in sources if not source.may_wait]
        readers = [*([source] for source in waiting), *_dealt(others)]
        feeders = _dealt(sources)
    tasks = [Task(f"{_named(group)}-reader", _in_turn(group, "reading")) for group in readers]
    return tasks + [Task(f"{_named(group)}-feeder", _in_turn(group, "feeding")) for group in feeders]


def _dealt(sources: Sequence[Source]) -> list[list[Source]]:
    return [group for i in range(OWN_THREADS) if (group := list(sources[i::OWN_THREADS]))]


def _named(group: Sequence[Source]) -> str:
    return group[0].name if len(group) == 1 else f"{group[0].name}+{len(group) - 1}"


def _in_turn(group: Sequence[Source], what: str) -> Callable[[], None]:
    def body() -> None:
        patient = len(group) == 1
        take_turns([getattr(source, what)(patient) for source in group])

    return body


def take_turns(steps: Iterable[Iterator[float]]) -> None:
    """Resume each generator in turn, once it has waited as long as it asked for, until all have ended."""
    now = time.monotonic()
    due = [(step, now) for step in steps]
    while due:
        now, following = time.monotonic(), []
        for step, at in due:
            if at > now:
                following.append((step, at))
                continue
            try:
                wait_s = next(step)
            except StopIteration:
                continue
            except Stopped:
                return
            following.append((step, now + wait_s if wait_s else 0.0))
        due = following
        if due and (pause := min(at for _, at in due) - time.monotonic()) > 0:
            time.sleep(pause)
