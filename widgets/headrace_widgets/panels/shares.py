"""Panels of shares: how each thread spends its time, or another whole that is made of parts."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, NumeralTickFormatter, Range1d

from headrace_widgets import palette
from headrace_widgets.columns import element_word
from headrace_widgets.panels.panel import Panel, Scene, compact_legend, plain

REST = "idle"
"""The part that the text does not list."""
_SAID = 0.005


class Shares:
    """One stacked bar of the parts for each element; the square before it has the element's colour."""

    least, floor, unit = 1.0, 0.0, ""
    needs = also = ()
    """It needs no measures by name: it shows those that are part of a whole."""

    @classmethod
    def made_for(cls, scene: Scene) -> list[Panel]:
        """Return one panel for each whole."""
        return [cls(scene, whole) for whole in scene.operator.wholes]

    def __init__(self, scene: Scene, whole: str):
        parts = scene.operator.wholes[whole]
        names = [measure.name for measure in parts]
        self._words = [measure.word for measure in parts]
        self._elements = scene.operator.elements[names[0]]
        self._element = element_word(parts[0].by)
        self.key, self.shows = f"shares_of_{whole}", tuple(names)
        self.title = ", ".join(self._words).capitalize()
        self.about = " ".join(measure.title for measure in parts)
        self.columns = [column for name in names for column in scene.operator.of[name]]
        """Columns of the feed that `block` is made from."""
        self._ends, self._shares = ([f"{word}_{what}" for word in self._words] for what in ("end", "share"))
        self.source = ColumnDataSource(
            {"element": list(range(len(self._elements)))}
            | {column: [math.nan] * len(self._elements) for column in self.pushed},
            name=self.key,
        )

    def has_meaning(self, now: Mapping[str, float]) -> bool:
        return True

    def figure(self, scene: Scene):
        many = len(self._elements)
        made = plain(
            self.key, self._element, x_range=Range1d(-0.04, 1.0), x_axis_label="share of the last half second (%)",
            y_range=Range1d(many - 0.5, -0.9 - many / 10),
        )  # fmt: skip
        made.xaxis.formatter = NumeralTickFormatter(format="0%")
        made.xaxis.ticker = FixedTicker(ticks=[0, 0.25, 0.5, 0.75, 1])
        made.yaxis.ticker = FixedTicker(ticks=list(range(many)))
        made.yaxis.major_label_overrides = dict(enumerate(self._elements))
        made.ygrid.grid_line_color = None
        bars = [
            made.hbar(
                y="element", left=left, right=right, height=0.7, source=self.source, color=colour, legend_label=word,
                line_color=None,
            )
            for word, left, right, colour in zip(
                self._words, (0, *self._ends), self._ends, palette.share_colours(self._words), strict=False
            )
        ]  # fmt: skip
        made.scatter(
            [-0.02] * many, list(range(many)), marker="square", size=9,
            color=[palette.element_colour(i) for i in range(many)],
        )  # fmt: skip
        shares = [(word, f"@{{{column}}}{{0%}}") for word, column in zip(self._words, self._shares, strict=True)]
        made.add_tools(HoverTool(renderers=bars, tooltips=[(self._element, "@element"), *shares]))
        compact_legend(made, "top_right")
        made.legend.click_policy = "none"
        return made

    @property
    def pushed(self) -> list[str]:
        """The columns of `source` that change."""
        return [*self._ends, *self._shares]

    def block(self, values: np.ndarray) -> np.ndarray:
        """Return float64[2 * parts, elements]: the columns `pushed`, from the values of the columns `columns`."""
        shares = values.reshape(len(self._words), len(self._elements))
        return np.concatenate([shares.cumsum(axis=0), shares])

    def top(self, highest: Mapping[str, float]) -> float:
        return float("nan")

    def text(self, now: Mapping[str, float]) -> str:
        told = [i for i, word in enumerate(self._words) if word != REST]
        many, parts = len(self._elements), []
        for i, element in enumerate(self._elements):
            shares = [now[self.columns[part * many + i]] for part in told]
            if sum(shares) > _SAID:
                words = [f"{share:.0%} {self._words[part]}" for part, share in zip(told, shares, strict=True)]
                parts.append(f"{element}: {', '.join(words)}")
        if not parts:
            return f"All {self._element}s are {REST}." if REST in self._words else "Nothing was counted lately."
        rest = f"; the others {REST}" if len(parts) < many and REST in self._words else ""
        return f"{self._element.capitalize()} {'; '.join(parts)}{rest}."
