"""Text measures, in a list below the plots."""

from __future__ import annotations

import html

import ipywidgets as w

from headrace.metrics.snapshot import OperatorMetrics
from headrace_widgets.columns import heading_of


class TextMeasures:
    """Each text measure that an engine declares for display, with its newest value."""

    def __init__(self, metrics: OperatorMetrics):
        self._measures = [one for one in metrics.measures if one.kind == "text" and one.goes_to("plot")]
        self.is_there = bool(self._measures)
        self.widget = w.HTML().add_class("headrace-texts")

    def show(self, metrics: OperatorMetrics) -> None:
        """Show the newest values."""
        lines = "".join(
            f'<div title="{html.escape(measure.title)}"><b>{html.escape(heading_of(measure))}</b>:'
            f" {html.escape(str(metrics.values[measure.name] or '–'))}</div>"
            for measure in self._measures
        )
        text = f'<div class="headrace-words" role="status">{lines}</div>'
        if self.widget.value != text:
            self.widget.value = text
