"""Fixed colours, distinguishable with any colour vision: a thread keeps its colour everywhere.

Each colour has one meaning. Threads, sources and stages have colours, and two runs side by side have others; measured values
are slate, as a thin line or an area, or have the ink of the page; red is a limit or an error, pink a change. The key mapping's
heat map uses Cividis.
"""

from __future__ import annotations

from collections.abc import Sequence

# Okabe and Ito's, without those that vanish on a dark or a white page and those used below; then two of Tol's.
ELEMENTS = ("#0072b2", "#e69f00", "#009e73", "#9467bd", "#56b4e9", "#8c564b", "#999933")
RUNS = ("#4f46e5", "#65a30d")
"""Colours of two runs side by side: not those of threads."""
_DASHES = ("solid", "dashed", "dotted", "dotdash")

IN, OUT = "#a3b5c6", "#5f7488"
"""Colours of input and of processed tuples; a single line has the second."""
LIMIT = "#d55e00"
CHANGE = "#cc79a7"
IDLE, BLOCKED = "rgba(127, 140, 153, 0.3)", "#a02c5a"
_SHARES = {"busy": OUT, "idle": IDLE, "blocked": BLOCKED}
_PARTS = (OUT, "#b9a36b", BLOCKED, IN)
"""Colours for the parts of other wholes."""


def element_colour(element: int) -> str:
    """Return the colour of a thread, a source or a stage, by its number."""
    return ELEMENTS[element % len(ELEMENTS)]


def source_colour(source: int) -> str:
    """Return the colour of a source, from the other end of the palette, so that it is seldom that of a thread."""
    return ELEMENTS[-1 - source % len(ELEMENTS)]


def element_dash(element: int) -> str:
    """Return a dash pattern, the second cue beside the colour once colours repeat."""
    return _DASHES[(element // len(ELEMENTS)) % len(_DASHES)]


def share_colours(words: Sequence[str]) -> list[str]:
    """Return the colours of the shares of a whole, by their names."""
    free = [colour for colour in _PARTS if colour not in map(_SHARES.get, words)]
    rest = (free[i % len(free)] for i in range(len(words)))
    return [_SHARES[word] if word in _SHARES else next(rest) for word in words]
