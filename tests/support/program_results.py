"""The results of a program's run in a form that can be compared with what it must give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def as_promised(options: Mapping[str, Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in the order that a run with these options promises: as a multiset, sorted, where it promises none."""
    return sorted(rows, key=lambda row: [*row.values()]) if options.get("order") == "none" else rows
