"""The picture of a run's operators, on the page: a click chooses an operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import traitlets as t

from headrace_widgets import graph, palette
from headrace_widgets.page_model import ModuleView, PageModel, module
from headrace_widgets.pressure import Pressure

_HERE = Path(__file__).parent


class GraphView(ModuleView):
    """Draws it on the page."""

    _esm = module("graph.js")
    _css = _HERE / "graph.css"


class GraphWidget(PageModel):
    """Draws what `headrace_widgets.graph.picture` returns.

    Parameters
    ----------
    choose : callable
        Takes the name of the operator that was clicked.
    classes : tuple of str
        Of the picture's element.
    """

    _view = GraphView

    drawing = t.Dict().tag(sync=True)
    chosen = t.Unicode().tag(sync=True)
    """The operator that is shown below."""
    colours = t.Dict().tag(sync=True)

    def __init__(self, choose: Callable[[str], Any], classes: tuple[str, ...] = ()):
        names = ("busy", "blocked", "idle")
        colours = dict(zip(names, palette.share_colours(names), strict=True)) | {"limit": palette.LIMIT}
        super().__init__(classes, colours=colours)
        self._choose = choose
        self.on_msg(self._receive)

    def _receive(self, _widget: Any, message: dict, _buffers: Sequence[bytes]) -> None:
        if message.get("kind") == "choose":
            self._choose(message["operator"])


class Graph:
    """Follows a run.

    Parameters
    ----------
    run : Run
    choose : callable
        Takes the name of the operator that was clicked.
    """

    def __init__(self, run: Any, choose: Callable[[str], Any]):
        self._edges = getattr(run, "edges", None) or chain(run.operators)
        self.widget = GraphWidget(choose)

    def show(self, pressure: Pressure) -> None:
        """Draw the latest state."""
        if pressure.now is not None:
            self.widget.drawing = graph.picture(pressure.now, pressure.before, pressure.found, self._edges)


def chain(operators: Sequence[str]) -> list[tuple[str, str | None]]:
    """Return edges in which each operator gives its results to the next."""
    return list(zip(operators, [*operators[1:], None], strict=True))
