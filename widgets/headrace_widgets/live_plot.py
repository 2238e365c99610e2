"""Bokeh figures in a widget of their own: the page builds them once, the kernel swaps their columns.

One `push` is one message, however many figures there are: a data source is one
block of float32, and the figures share sources. Names of columns are sent once.
The state of the widget is the last frame, so a reloaded page immediately shows
what the old one showed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bokeh
import numpy as np
import traitlets as t
from bokeh.document import Document
from bokeh.models import Legend
from bokeh.plotting import figure as Figure
from bokeh.resources import Resources

from headrace_widgets.page_model import ModuleView, PageModel, module

HERE = Path(__file__).parent
IF_DRAWN = "in the legend if drawn"
"""Tag of a line that is in the legend only while some of it is drawn."""


@dataclass(frozen=True)
class LiveFigure:
    """A figure and its heading; `about` is shown when the mouse rests on the heading."""

    key: str
    title: str
    figure: Figure
    about: str = ""


class LivePlotView(ModuleView):
    """Draws them on the page."""

    _esm = module("event_labels.js", "live_plot.js")
    _css = HERE / "live_plot.css"


class LivePlot(PageModel):
    """Figures in a grid, each with a title and its values in words.

    Parameters
    ----------
    figures : sequence of LiveFigure
        In the order shown. Data sources and ranges that are pushed to carry a `name`; a source named
        "selectable" reports what the user selects in `selected`. Legends are taken out of their figures and shown
        as text, since Bokeh would rebuild them with every change of a column.
    columns : mapping of source name to list of str
        The columns that are pushed, in the order of their blocks. The other columns of a source stay as they are.
    """

    _view = LivePlotView

    bokeh_version = t.Unicode(bokeh.__version__.split("+")[0]).tag(sync=True)
    document = t.Dict().tag(sync=True)
    panels = t.List().tag(sync=True)
    columns = t.Dict().tag(sync=True)
    labels = t.Dict().tag(sync=True)
    """Source name -> columns that hold texts: sent when they change, not with every frame."""
    selected = t.List().tag(sync=True)
    shown = t.List().tag(sync=True)
    """Keys of the figures that are shown, in order; empty: all of them."""
    places = t.Int().tag(sync=True)
    """How many figures may be shown later on: columns are laid out for these, so that a new one moves no other."""
    look = t.Dict().tag(sync=True)
    """Sizes: `height` of a figure in pixels (0: two rows of them fill the window; absent: its own), `most` its height at most
    where the dashboard has a page to itself and the window has room, `font` size of its text in pixels, `line` factor by which
    lines are wider, `ticks` the approximate number of them on a vertical axis."""

    def __init__(
        self,
        figures: Sequence[LiveFigure],
        columns: Mapping[str, Sequence[str]],
        **options: Any,
    ):
        scene = Document()
        legends = []
        for one in figures:
            legends.append(take_legend(one.figure))
            scene.add_root(one.figure)
        document = scene.to_json(deferred=False)
        roots = [root["id"] for root in document["roots"]]
        panels = [
            {"key": one.key, "title": one.title, "about": one.about, "root": root, "legend": legend}
            for one, root, legend in zip(figures, roots, legends, strict=True)
        ]
        self.frame: dict[str, Any] = {}
        """The last frame pushed. blocks: source name -> float32[columns, rows] as bytes; ranges: name -> (start, end)."""
        self.slow: dict[str, Any] = {}
        """The last blocks pushed for sources that change rarely."""
        self.texts: dict[str, str] = {}
        """Figure's key -> its values in words, as last pushed."""
        named = {source: list(names) for source, names in columns.items()}
        super().__init__(document=document, panels=panels, columns=named, **options)
        self.on_msg(self._receive)

    def _receive(self, _widget: Any, message: dict, _buffers: Sequence[bytes]) -> None:
        if message.get("kind") == "bokeh":
            script = Resources(mode="inline", components=["bokeh"]).js_raw[0]
            self.send({"kind": "bokeh"}, buffers=[script.encode()])

    def push(
        self,
        blocks: Mapping[str, np.ndarray],
        ranges: Mapping[str, tuple[float, float]] | None = None,
        texts: Mapping[str, str] | None = None,
        slow: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """Show these blocks of columns and these texts, and set these ranges, by name. One message.

        Texts that are not given stay as they are, and so do `slow` blocks, those of sources that change rarely.
        """
        packed = {name: block.astype(np.float32).tobytes() for name, block in blocks.items()}
        frame = {"blocks": packed, "ranges": dict(ranges or {})}
        if frame == self.frame and texts in (None, self.texts) and not slow:
            return
        self.frame = frame
        state: dict[str, Any] = {"frame": {"blocks": {}, "ranges": frame["ranges"]}}
        if texts is not None:
            state["texts"] = self.texts = dict(texts)
        # This is the message that setting a synced trait would send. Setting the trait would also compare and
        # validate the value and search it for buffers, which costs a third of what the message itself costs.
        paths, buffers = [["frame", "blocks", name] for name in packed], list(packed.values())
        if slow:
            self.slow = {"blocks": {name: block.astype(np.float32).tobytes() for name, block in slow.items()}}
            state["slow"] = {"blocks": {}}
            paths += [["slow", "blocks", name] for name in slow]
            buffers += self.slow["blocks"].values()
        self._send({"method": "update", "state": state, "buffer_paths": paths}, buffers=buffers)

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> dict[str, Any]:
        """Return the state of the widget with the last push, which a page that is opened late asks for."""
        state = super().get_state(key, drop_defaults)
        return {**state, "frame": self.frame, "slow": self.slow, "texts": self.texts} if key is None else state


def take_legend(figure: Figure) -> list[dict[str, Any]]:
    """Remove a figure's legend and return its entries: label, colour, dash, and whether it is an area.

    An entry that is shown only while its line is drawn has the name of its data source and the column that tells this.
    """
    entries = []
    for legend in [part for part in figure.center if isinstance(part, Legend)]:
        for item in legend.items:
            glyph = item.renderers[0].glyph
            area = hasattr(glyph, "fill_color")
            source = item.renderers[0].data_source
            entries.append(
                {
                    "source": source.name if IF_DRAWN in glyph.tags else "",
                    "column": glyph.y if IF_DRAWN in glyph.tags else "",
                    "label": item.label.value,
                    "colour": glyph.fill_color if area else colour_of(glyph),
                    "dash": "solid" if area else dash_of(glyph.line_dash),
                    "area": area,
                }
            )
        figure.center.remove(legend)
    return entries


def colour_of(glyph: Any) -> str:
    """Return the style sheet's word for the colour of a line; the page paints some in the ink of its theme."""
    return "var(--headrace-ink, #222222)" if "ink-line" in glyph.tags else glyph.line_color


def dash_of(pattern: list[int]) -> str:
    """Return the style sheet's word for a Bokeh dash pattern."""
    if not pattern:
        return "solid"
    return "dotted" if len(pattern) == 2 and pattern[0] <= 2 else "dashed"
