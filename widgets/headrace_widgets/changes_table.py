"""The table of reconfigurations: when, by whom, why, what, how long, and their effect on the stream."""

from __future__ import annotations

import base64
import csv
import html
import io
import json
import math
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import ipywidgets as w

from headrace_widgets.feed import SPAN_S, Feed
from headrace_widgets.target import REASON
from headrace_widgets.units import milliseconds

AROUND_S = 2.0
"""Imbalance and latency before and after are means over this long."""
MOST_ROWS = 20
MOST_LINKED = 200
"""Changes in the files behind the links, which are written anew at every change: 0.2 ms each."""
COLUMNS = {
    "time (s)": ("at_s",),
    "operator": ("operator",),
    "asked by": ("by",),
    "why": ("reason",),
    "change": ("what",),
    "threads": ("from_threads", "to_threads"),
    "took": ("ms",),
    "buckets moved": ("buckets_moved",),
    "imbalance": ("imbalance_before", "imbalance_after"),
    "p99 latency": ("p99_before_ms", "p99_after_ms"),
    "outcome": ("outcome",),
}
"""Title -> the fields of a record in that column; of two, the first is from before the change and the second from after it."""
_OF_CONTROL = {"from_threads": "threads", "to_threads": "threads", "buckets_moved": "mapping"}
"""Fields that exist only for runs with this control."""
_OF_MEASURE = {"imbalance": "imbalance_cv", "p99": "latency_p99_ms"}
"""Prefix of the fields before and after a change -> the column of the feed whose means they are."""


class ChangesTable:
    """Shows the last reconfigurations; exports all that the run knows as CSV and JSON."""

    def __init__(self, run: Any, feed: Feed):
        self._run, self._feed = run, feed
        self.columns = {title: fields for title, fields in COLUMNS.items() if all(map(self._applies, fields))}
        self._places = WeakKeyDictionary[Any, int]()
        """Of changes that the run still knows."""
        self.widget = w.HTML().add_class("headrace-changes")
        self._drawn: tuple | None = None

    def _applies(self, field: str) -> bool:
        if field in _OF_CONTROL:
            return _OF_CONTROL[field] in self._run.capabilities
        measured = _OF_MEASURE.get(field.partition("_")[0])
        return measured is None or any(measured in table.columns for table in self._feed.tables.values())

    def note(self, changes: list[Any]) -> None:
        """Record where in the stream new changes took place, which is known only now."""
        metrics = self._feed.metrics
        for change in reversed(changes):
            if metrics is None or change in self._places:
                break
            if change.operator in metrics.operators:
                self._places[change] = metrics.operators[change.operator].values["added"]

    def records(self, changes: Sequence[Any] | None = None) -> list[dict[str, Any]]:
        """Return changes as plain values, the form that is exported and that `replay` reads: by default all that the run knows.

        Parameters
        ----------
        changes : sequence of Change, optional
        """
        controllers = {
            id(one.change): one.controller for one in getattr(self._run, "decisions", ()) if one.change
        }
        wanted = getattr(self._run, "changes", ()) if changes is None else changes
        return [self._record(change, controllers.get(id(change))) for change in wanted]

    def _record(self, change: Any, controller: str | None) -> dict[str, Any]:
        feed = self._feed
        start, end = change.started_ns or change.requested_ns, change.completed_ns or change.requested_ns
        at, done = feed.seconds_of(start), feed.seconds_of(end)
        table = feed.tables.get(change.operator)
        if change.planned_at is not None:
            by, reason = "plan", f"planned before tuple {change.planned_at:,}"
        elif change.reason == REASON:
            by, reason = "dashboard", "by hand"
        else:
            by, reason = controller or "call", change.reason or "run.reconfigure"

        def mean(column: str, from_s: float) -> float | None:
            if table is None or column not in table.columns or change.outcome != "done":
                return None
            value = table.mean(column, from_s, from_s + AROUND_S)
            return None if math.isnan(value) else value

        return {
            "at_s": round(feed.seconds_of(change.requested_ns if change.planned_at is None else start), 3),
            "operator": change.operator,
            "by": by,
            "reason": reason,
            "what": change.describe(),
            "from_threads": change.from_threads,
            "to_threads": change.to_threads,
            "ms": None if math.isnan(change.ms) else change.ms,
            "buckets_moved": change.buckets_moved,
            "imbalance_before": mean(_OF_MEASURE["imbalance"], at - AROUND_S),
            "imbalance_after": mean(_OF_MEASURE["imbalance"], done + SPAN_S),
            "p99_before_ms": mean(_OF_MEASURE["p99"], at - AROUND_S),
            "p99_after_ms": mean(_OF_MEASURE["p99"], done + SPAN_S),
            "outcome": change.outcome,
            "tuples": self._places.get(change) if change.planned_at is None else change.planned_at,
            "members": list(change.members),
            "owners": runs_of(change.mapping.to_list()) if change.mapping is not None else None,
            "settings": settings_of(change),
        }

    def show(self, changes: list[Any]) -> None:
        """Show the last changes; costs nothing if nothing has changed."""
        # The effect of a change on the stream is known only some seconds later.
        known = max(self._feed.newest_s - AROUND_S - SPAN_S, 0.0)
        after = sum(self._feed.seconds_of(change.completed_ns) < known for change in changes[-MOST_ROWS:])
        drawn = (len(changes), tuple((change, change.outcome) for change in changes[-MOST_ROWS:]), after)
        if drawn == self._drawn:
            return
        self._drawn = drawn
        records = self.records(changes[-MOST_LINKED:])
        self.widget.value = self.html(records[-MOST_ROWS:]) + self._links(records, len(changes) > MOST_LINKED)

    def html(self, records: list[dict[str, Any]]) -> str:
        """Return the table, newest change first."""
        head = "".join(f'<th scope="col">{title}</th>' for title in self.columns)
        rows = "".join(
            "<tr>"
            + "".join(
                f'<td data-title="{title}">{html.escape(_cell(record, fields))}</td>' for title, fields in self.columns.items()
            )
            + "</tr>"
            for record in reversed(records)
        )
        empty = f'<tr><td colspan="{len(self.columns)}">No reconfigurations yet.</td></tr>'
        return (
            '<div class="headrace-scroll" tabindex="0" role="region" aria-label="Reconfigurations"><table class="headrace-table">'
            f"<thead><tr>{head}</tr></thead><tbody>{rows or empty}</tbody></table></div>"
        )

    def to_csv(self, records: list[dict[str, Any]] | None = None) -> str:
        """Return all changes as CSV; a text that a spreadsheet would take for a formula is quoted."""
        text = io.StringIO()
        writer = csv.writer(text)
        fields = [field for of_column in self.columns.values() for field in of_column]
        writer.writerow(fields)
        for record in self.records() if records is None else records:
            writer.writerow([_safe(record[field]) for field in fields])
        return text.getvalue()

    def to_json(self, records: list[dict[str, Any]] | None = None) -> str:
        """Return all changes as JSON, which `replay` reads."""
        return json.dumps(self.records() if records is None else records)

    def _links(self, records: list[dict[str, Any]], are_newest: bool) -> str:
        if not records:
            return ""
        files = (
            ("changes.csv", "text/csv", self.to_csv(records)),
            ("changes.json", "application/json", self.to_json(records)),
        )
        # Only the browser sees a click on a link, so lines of Python that do the same stand beside the links.
        lines = ", ".join(f'<code>dashboard.export("{name}")</code>' for name, _, _ in files)
        newest = f" (the newest {MOST_LINKED})" if are_newest else ""
        links = " ".join(
            f'<a download="{name}" href="data:{kind};base64,{base64.b64encode(text.encode()).decode()}">{name}</a>'
            for name, kind, text in files
        )
        return (
            f'<div class="headrace-text">Export: {links}{newest}; in Python: {lines}. On another run:'
            ' <code>headrace_widgets.replay("changes.json", run)</code></div>'
        )


def _cell(record: dict[str, Any], fields: tuple[str, ...]) -> str:
    """Say what a change was, or what was before it and after it; once where both are the same."""
    # Lines may end before an arrow, but not between a number and its unit, nor behind the arrow.
    return " →\u00a0".join(dict.fromkeys(_text(field, record[field]) for field in fields))


def _text(field: str, value: Any) -> str:
    if value is None:
        return "–"
    if field == "at_s":
        return f"{value:,.1f}"
    if field.startswith("imbalance"):
        return f"{value:.1%}"
    if field == "ms" or field.startswith("p99"):
        return milliseconds(value).replace(" ", "\u00a0")
    return f"{value:,}" if isinstance(value, int) else str(value)


def _safe(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@" and value else value


def settings_of(change: Any) -> dict[str, Any]:
    """Return what a change set beside threads and mapping: controls with plain values, and a plan as JSON."""
    return {
        name: value.to_json() if hasattr(value, "to_json") else value
        for name, value in change.after.items()
        if (name != "threads" or not change.members)
        and (isinstance(value, (int, float, str)) or hasattr(value, "to_json"))
        and change.before.get(name) != value
    }


def runs_of(owners: list[int]) -> list[list[int]]:
    """Return a mapping as run lengths: [owner, number of consecutive buckets], from bucket 0 on."""
    runs: list[list[int]] = []
    for owner in owners:
        if runs and runs[-1][0] == owner:
            runs[-1][1] += 1
        else:
            runs.append([owner, 1])
    return runs
