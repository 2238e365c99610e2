"""What of a dashboard is cut off, outside or covered: from the places of everything on the page that can be read or used.

The browser tells where its own elements are and whether their text has room. What is drawn on a canvas it does not know:
for axis labels of plots the text is measured, and where it lies follows from Bokeh's own layout.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

FIND = Path(__file__).with_suffix(".js").read_text(encoding="utf-8").partition("\n")[2]


def problems(visit: Any, least: int = 30) -> list[str]:
    """What is cut off, outside or covered, once the page stands still; there must be as many things to look at."""
    return visit.stable(lambda: tuple(_look(visit, least)))


def _look(visit: Any, least: int) -> list[str]:
    count, found = visit.dashboard.evaluate(FIND)
    assert count >= least, f"only {count} things to read or use were found"
    return found
