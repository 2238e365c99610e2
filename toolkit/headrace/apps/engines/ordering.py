"""Ordered pipelines on the command line: scheduling of stages, and batch sizes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from headrace.apps.engines.engine import Engine
from headrace.apps.flag import Flag, one_of
from headrace.apps.json_numbers import quantiles
from headrace.ordering.arrays import QUEUE_KINDS, REORDERS
from headrace.ordering.configuration import SCHEDULES
from headrace.ordering.options import DEFAULT_BATCH, DEFAULT_SCHEDULE, OrderedOptions
from headrace.ordering.words import MOST_BATCH

_TAKES = {
    "qst": "the first whose output is wanted", "lp": "the last with something to do", "et": "the one with most work waiting",
    "ct": "the one that did least for the stream lately",
}  # fmt: skip
"""What a schedule takes next, in a few words."""
_SCHEDULES = ", ".join(f"{name} ({_TAKES[name]})" if name in _TAKES else name for name in SCHEDULES)


class Pipelines(Engine):
    """The engine of ordered pipelines. Its ``--batch`` is what a worker claims, not what a source gives at a time."""

    name = "ordering"
    runs, title = "pipelines", "ordered pipelines"
    flags = (
        Flag(
            "schedule", f"which stage a worker takes next: {_SCHEDULES} (default {DEFAULT_SCHEDULE})",
            one_of("schedule", SCHEDULES), metavar="NAME",
        ),
        Flag(
            "queues",
            "how workers share a partitioned stage (default auto: hybrid, or one worker at a time where that is faster)",
            choices=tuple(QUEUE_KINDS),
        ),
        Flag("reorder", "how outputs are put in order (default nonblocking)", choices=tuple(REORDERS)),
    )  # fmt: skip
    refusal = "is not an ordered pipeline, so it has no stages"
    lacking, lacks = "is an ordered pipeline: ", OrderedOptions.lacks
    batch = f"tuples that a worker claims at a time, up to {MOST_BATCH} (default {DEFAULT_BATCH})"

    @property
    def rows_at_a_time(self) -> int | None:
        return None

    @property
    def _claimed(self) -> int:
        """Return the number of tuples that a worker claims at a time: what was asked for, within bounds."""
        return DEFAULT_BATCH if self.asked.batch is None else min(self.asked.batch, MOST_BATCH)

    def start_options(self) -> dict[str, Any]:
        return {**super().start_options(), "batch": self._claimed}

    @contextmanager
    def around(self) -> Iterator[Callable[[Any], None]]:
        yield lambda run: self._say_what_was_claimed()

    def _say_what_was_claimed(self) -> None:
        """Say so if it was less than was asked for: no error, since other applications take any number, and the result is
        the same; and at the end, since a command that fails says one line."""
        if self.asked.batch is not None and self.asked.batch > self._claimed:
            said = f"a worker claims at most {MOST_BATCH} tuples of a pipeline at a time, and did so here"
            print(f"headrace: --batch {self.asked.batch}: {said}", file=sys.stderr, flush=True)

    def figures(self, run: Any, operator: Any, seconds: float) -> dict[str, Any]:
        return {
            "processing_ms": quantiles(operator.processing_ms),
            "schedule": self.given("schedule") or DEFAULT_SCHEDULE,
            "batch": self._claimed,
        }
