"""The warning about late rows that are missing from results: dropped, or set aside where their table is out of reach."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.ingress.input_errors import display_name
from headrace.names import listed
from headrace.runtime.sources import Source
from headrace.summary import duration_text

_MOST = 4
"""Most sources that are named; of the rest only the number is given."""


def late_rows_text(sources: Sequence[Source], policy: str = "drop") -> str:
    """Say how many rows were late under a policy, from which sources, and what to change; "" if none were."""
    late = [source for source in sources if source.node.late == policy and source.late_rows]
    if not late:
        return ""
    found, read = sum(source.late_rows for source in late), sum(source.rows for source in late)
    each = [f"{source.late_rows:,} from {_described(source)}" for source in late]
    larger = [
        option
        for option, field in (("lateness=", "lateness"), ("idle_after=", "idle_after"))
        if any(getattr(source.node, field) is not None for source in late)
    ]
    fix = f"give hr.stream() a larger {' or '.join(larger)}" if larger else "have the sources give their watermarks later"
    whose = listed(each, _MOST)
    if policy == "side":
        told = f"set aside ({whose}), and this call cannot return them: use start(), wait() and then run.late, or {fix}"
    else:
        told = f'dropped ({whose}): {fix}, or late="side" to find them in run.late'
    return (
        f"{found:,} of {read:,} rows were late and {told};"
        f" headrace.errors.LateRowsWarning is the category to filter if that is intended"
    )


def _described(source: Source) -> str:
    name, node = display_name(source.feed.inlet.branch.source), source.node
    return name if node.lateness is None else f"{name} with lateness={duration_text(node.lateness, node.unit)}"
