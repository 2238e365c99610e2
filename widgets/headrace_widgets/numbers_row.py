"""Numbers without a plot, in a row: late rows, size of the state; and what was discarded, once a run has ended."""

from __future__ import annotations

import html

import ipywidgets as w

from headrace.metrics.measures import Measure
from headrace.metrics.snapshot import Metrics
from headrace_widgets.columns import heading_of
from headrace_widgets.status import discarded
from headrace_widgets.units import amount, in_words


class NumbersRow:
    """Numbers of one operator, and of the run.

    Parameters
    ----------
    metrics : Metrics
        Any snapshot, for the measures that exist.
    operator : str
    shown : collection of str
        Measures that have a plot.
    """

    def __init__(self, metrics: Metrics, operator: str, shown: set[str]):
        self._operator = operator
        self._measures = [one for one in metrics.operators[operator].measures if has_no_plot(one) and one.name not in shown]
        self.widget = w.HTML().add_class("headrace-numbers")

    def show(self, metrics: Metrics) -> None:
        """Show the newest values."""
        values = metrics.operators[self._operator].values
        parts = [
            _number("Late, dropped", amount(metrics.dropped), "Rows that came too late, with late='drop'"),
            _number("Late, set aside", amount(metrics.set_aside), "Rows that came too late, with late='side': run.late"),
        ]
        if (lost := discarded(metrics)) is not None:
            parts.insert(0, _number("Discarded", amount(lost), "Rows that were read but not processed when the run ended"))
        for measure in self._measures:
            value = values[measure.name]
            if value is not None and (value or measure.kind == "gauge"):  # a counter at 0 is left out
                # A unit such as "keys" is in the heading.
                said = in_words(value, measure.unit if measure.unit in ("bytes", "ms", "fraction") else "")
                parts.append(_number(heading_of(measure), said, measure.title))
        text = "".join(parts)
        if self.widget.value != text:
            self.widget.value = text


def has_no_plot(measure: Measure) -> bool:
    """Whether this is a number that is read rather than watched."""
    is_number = measure.kind == "gauge" or (measure.kind == "counter" and not measure.rate)
    return is_number and measure.by is None and measure.goes_to("column") and not measure.goes_to("plot")


def _number(word: str, value: str, about: str) -> str:
    return f'<span class="headrace-number" title="{html.escape(about)}">{html.escape(word)} <b>{html.escape(value)}</b></span>'
