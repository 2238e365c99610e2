"""What of a dashboard is cut off, outside or covered: from the places of everything on the page that can be read or used.

The browser tells where its own elements are and whether their text has room. What is drawn on a canvas it does not know:
for axis labels of plots the text is measured, and where it lies follows from Bokeh's own layout.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

FIND = Path(__file__).with_suffix(".js").read_text(encoding="utf-8").partition("\n")[2]

SMALLEST = """(picture) => Math.min(...[...picture.querySelectorAll('text')].map(
    (text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a))"""
"""Type of a drawn picture, in pixels of the screen."""
SETTLED_S = 30
"""Seconds: on a slow machine a page that is laid out anew may stand still for a moment, half done."""


def problems(visit: Any, least: int = 30, settled_s: float = SETTLED_S, view: Any = None) -> tuple[str, ...]:
    """What is cut off, outside or covered, and stays so for some seconds; there must be as many things to look at.

    Of a view of the page, the dashboard by default.
    """
    end = time.monotonic() + settled_s
    while True:
        found = visit.stable(lambda: _look(visit.dashboard if view is None else view, least))
        if not found or time.monotonic() > end:
            return found


def _look(view: Any, least: int) -> tuple[str, ...] | None:
    count, found = view.evaluate(FIND)
    return tuple(found) if count >= least else None
