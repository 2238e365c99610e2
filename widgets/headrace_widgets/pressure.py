"""A line that always shows whether the run keeps up: lag, backlog, back-pressure, and the bottleneck."""

from __future__ import annotations

import html
import math

import ipywidgets as w

from headrace.metrics.bottleneck import LATE_S, Bottleneck, bottleneck
from headrace.metrics.snapshot import Metrics
from headrace_widgets.units import amount, milliseconds

VERY_LATE_S = 1.0
"""Lag from which on it is an error rather than a warning."""
LEAST_S = 0.5
"""The bottleneck is found over intervals that are at least this long."""
_LOOKS = {"good": "✔", "warning": "▲", "error": "✖"}


class Pressure:
    """The line and its content.

    Attributes
    ----------
    found : Bottleneck or None
        The bottleneck of the run between the snapshots `before` and `now`; None before there were two.
    """

    def __init__(self):
        self.widget = w.HTML()
        self.widget.add_class("headrace-pressure")
        self.found: Bottleneck | None = None
        self.now: Metrics | None = None
        self.before: Metrics | None = None

    def look(self, metrics: Metrics) -> None:
        """Take the newest snapshot."""
        if self.now is None:
            self.now = metrics
        elif metrics.state != self.now.state or metrics.at_ns - self.now.at_ns >= LEAST_S * 1e9:
            self.before, self.now = self.now, metrics
            self.found = bottleneck(self.now, self.before)

    def show(self, metrics: Metrics) -> None:
        """Take the newest snapshot and show it."""
        self.look(metrics)
        text = self.text() if metrics.sources else ""
        if self.widget.value != text:
            self.widget.value = text

    def text(self) -> str:
        """Return the line as HTML."""
        assert self.now is not None
        parts = []
        if self.now.state == "running" and not math.isnan(self.now.lag_s):
            look = look_of(self.now.lag_s)
            late = f"{milliseconds(self.now.lag_s * 1e3)} behind" if look != "good" else "on time"
            parts.append(_chip(f"{_LOOKS[look]} {late}", look, "Lag: how long the next tuple has been due"))
            if self.now.counts_due:
                backlog = f"{amount(self.now.behind)} due, not admitted"
                parts.append(_chip(backlog, look, "Backlog: due tuples that wait at the source"))
        if self.found is not None and self.found.is_pressed:
            parts.append(_chip("▲ back-pressure", "warning", "Sources wait for room in an operator"))
        sentence = html.escape(self.found.sentence) if self.found else ""
        return f'{"".join(parts)}<span class="headrace-bottleneck" role="status">{sentence}</span>'


def look_of(lag_s: float) -> str:
    """Return the rating of a lag: "good", "warning" or "error"."""
    return "good" if not lag_s > LATE_S else "warning" if lag_s < VERY_LATE_S else "error"


def _chip(text: str, look: str, about: str) -> str:
    return f'<span class="headrace-chip headrace-{look}" title="{html.escape(about)}">{html.escape(text)}</span>'
