"""The text of a plot under the mouse: the values of all its lines at that time."""

from __future__ import annotations

from bokeh.models import HoverTool, Line, NumeralTickFormatter
from bokeh.plotting import figure

from headrace_widgets.panels.panel import Scene


def add_values_on_hover(made: figure, scene: Scene, title: str, unit: str) -> None:
    """Add the values of its lines, with their unit and under their names in the legend, to a finished figure over time."""
    labels = {item.renderers[0]: item.label.value for legend in made.legend for item in legend.items}
    lines = [
        one for one in made.renderers
        if one.data_source is scene.series and isinstance(one.glyph, Line) and isinstance(one.glyph.y, str)
    ]  # fmt: skip
    if not lines:
        return
    formatter = made.yaxis[0].formatter
    how = formatter.format if isinstance(formatter, NumeralTickFormatter) else "0,0.[0]"
    values = [(labels.get(one, title), f"@{{{one.glyph.y}}}{{{how}}} {unit}".rstrip()) for one in lines]
    # The tool is bound to one line and shows all: they share their times.
    made.add_tools(HoverTool(
        renderers=lines[:1], mode="vline", line_policy="nearest", tooltips=[("time", "@t{0,0.0} s"), *values],
    ))  # fmt: skip
