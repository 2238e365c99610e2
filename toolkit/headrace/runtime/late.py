"""The warning about rows that were dropped as late."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.ingress.input_errors import display_name
from headrace.names import listed
from headrace.runtime.sources import Source
from headrace.summary import duration_text

_MOST = 4
"""Most sources that are named; of the rest only the number is given."""


def late_rows_text(sources: Sequence[Source]) -> str:
    """Say how many rows were dropped as late, from which sources, and what to change; "" if none were."""
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
        f" headrace.errors.LateRowsWarning is the category to filter if that is intended"
    )


def _described(source: Source) -> str:
    name, node = display_name(source.feed.inlet.branch.source), source.node
    return name if node.lateness is None else f"{name} with lateness={duration_text(node.lateness, node.unit)}"
