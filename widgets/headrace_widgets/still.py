"""Showing Bokeh figures in a notebook so that they are drawn again when the page is reloaded, in the colours of its theme.

`bokeh.io.show` makes two outputs, an element and a script that looks for the element once, when it runs. JupyterLab runs the
scripts of a notebook that it opens before it puts the cells on the page, whatever its windowing mode, so the elements are
not found and no plot is drawn. Here the script is part of the element's own output and waits for it.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from bokeh.embed import json_item
from bokeh.models import Legend, UIElement

_SCRIPT = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


def show(figure: UIElement) -> None:
    """Show a Bokeh figure, or a layout of some, below the cell.

    In a dark theme of JupyterLab, what the figure has in black to white is drawn in the theme's ink to its paper. Other
    colours stay.

    Parameters
    ----------
    figure : UIElement
        Shown in a notebook in which ``output_notebook()`` has loaded BokehJS.

    Examples
    --------
    >>> from bokeh.plotting import figure
    >>> plot = figure(width=400, height=200)
    >>> show(plot)  # doctest: +SKIP
    """
    from IPython.display import display

    display(output_of(figure), raw=True)


def output_of(figure: UIElement) -> dict[str, Any]:
    """Return the output, by MIME type."""
    for legend in figure.references():
        if isinstance(legend, Legend) and legend.orientation == "horizontal":  # above a plot, which loses its height
            legend.padding, legend.margin, legend.border_line_color = 0, 2, None
            if legend.ncols == "auto":  # one row: with several, the spacing would apply between rows, too
                legend.spacing = 12
    place = f"headrace-{uuid.uuid4().hex}"
    item = json.dumps(json_item(figure, place)).replace("<", "\\u003c")  # no text of the figure can end the script
    html = f'<div id="{place}"></div>\n<script>\n{_SCRIPT.replace("ITEM", item)}</script>\n'
    return {"text/html": html, "text/plain": repr(figure)}
