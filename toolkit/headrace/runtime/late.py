"""The warning about rows that were dropped as late: its text, and the user's line that it points to."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from headrace.ingress.readers import display_name
from headrace.names import listed
from headrace.runtime.sources import Source
from headrace.summary import duration_text

_HOUSE = str(Path(__file__).resolve().parents[1])
_MOST = 4
"""Sources that are named; of more it is said how many there are."""


def late_rows_text(sources: Sequence[Source]) -> str:
    """Say how many rows were dropped as late, from which sources, and what to change; nothing if none were."""
    late = [source for source in sources if source.node.late == "drop" and source.late_rows]
    if not late:
        return ""
    dropped, read = sum(source.late_rows for source in late), sum(source.rows for source in late)
    each = [f"{source.late_rows:,} from {_described(source)}" for source in late]
    larger = [
        option
        for option, field in (("lateness=", "lateness"), ("idle_after=", "idle_after"))
        if any(getattr(source.node, field) is not None for source in late)
    ]
    fix = f"give hr.stream() a larger {' or '.join(larger)}" if larger else "have the sources give their watermarks later"
    return (
        f"{dropped:,} of {read:,} rows were late and dropped ({listed(each, _MOST)}): {fix},"
        f' or late="side" to find them in run.late;'
        f" headrace.errors.LateRowsWarning is the category to filter if that is as it should be"
    )


def _described(source: Source) -> str:
    name, node = display_name(source.feed.inlet.branch.source), source.node
    return name if node.lateness is None else f"{name} with lateness={duration_text(node.lateness, node.unit)}"


def depth_of_caller() -> int:
    """Return the `stacklevel` with which the caller's warning points to the line outside the package that led to it."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HOUSE):
        depth, frame = depth + 1, frame.f_back
    return depth
