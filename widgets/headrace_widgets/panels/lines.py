"""The panel of a measure without a panel of its own: one line, or one for each element that it is by."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.metrics.measures import Measure
from headrace_widgets import palette
from headrace_widgets.columns import element_word, heading_of, key_of, unit_of
from headrace_widgets.panels.panel import Scene, compact_legend, largest, time_figure
from headrace_widgets.units import OF_A_CORE, axis_formatter, axis_label, in_words, unit_beside

_COUNTED = ("events", "keys", "rows", "tuples", "versions", "workers")
_LEAST = {"fraction": 0.01, "ms": 0.1, "bytes": 1_000.0, OF_A_CORE: 0.1}


class Lines:
    """A gauge, or the growth of a counter per second."""

    floor = 0.0

    def __init__(self, scene: Scene, measure: Measure):
        self._unit, self._element = unit_of(measure), element_word(measure.by)
        self.unit = unit_beside(self._unit)
        self.key, self.title, self.about = key_of(measure), heading_of(measure), measure.title
        self.title += f", by {self._element}" if self._element else ""
        self.shows = (measure.name,)
        self._is_count = measure.kind == "gauge" and self._unit in _COUNTED
        self.least = _LEAST.get(self._unit, 1.0)
        self._columns = scene.operator.of[measure.name]
        self._elements = scene.operator.elements.get(measure.name, ())

    def has_meaning(self, now: Mapping[str, float]) -> bool:
        """Whether anything was counted: some things, such as versions, do not occur in every configuration of a run."""
        return not self._is_count or any(now[column] > 0 for column in self._columns)

    def figure(self, scene: Scene):
        scene.draws(*self._columns)
        made = time_figure(scene, self.key, axis_label(self._unit))
        made.yaxis.formatter = axis_formatter(self._unit)
        if self._is_count:
            made.yaxis.ticker.min_interval = 1  # there is no half a thread
        if not self._elements:
            made.line("t", self._columns[0], source=scene.series, color=palette.OUT, width=2)
            return made
        for i, (element, column) in enumerate(zip(self._elements, self._columns, strict=True)):
            made.line(
                "t", column, source=scene.series, color=palette.element_colour(i), line_dash=palette.element_dash(i),
                width=2, legend_label=f"{self._element} {element}" if element.isdigit() else element,
            )  # fmt: skip
        compact_legend(made)
        return made

    def top(self, highest: Mapping[str, float]) -> float:
        most = largest(highest, *self._columns)
        # A share has no more than the whole: 0.95 is rounded up to 1.
        return min(1.15 * most, 0.95) if self._unit == "fraction" and most <= 1 else 1.15 * most

    def text(self, now: Mapping[str, float]) -> str:
        values = [now[column] for column in self._columns]
        if not self._elements:
            return f"{self.title}: {in_words(values[0], self._unit)}."
        parts = [
            f"{element}: {in_words(value, self._unit)}"
            for element, value in zip(self._elements, values, strict=True)
            if value == value
        ]
        return f"{self._element.capitalize()} {'; '.join(parts)}." if parts else "Not known yet."
