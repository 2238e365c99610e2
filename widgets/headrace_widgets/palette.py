"""Colours that people with any colour vision tell apart, fixed: a thread keeps its colour everywhere."""

from __future__ import annotations

# Okabe and Ito's palette without its black and yellow, which vanish on a dark and on a white page.
_THREADS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c8c", "#9467bd")
_DASHES = ("solid", "dashed", "dotted", "dotdash")

IN, OUT = "#e69f00", "#0072b2"
BUSY, IDLE, BLOCKED = "#0072b2", "#c8c8c8", "#e69f00"
LOW, HIGH = "#56b4e9", "#d55e00"
LIMIT = "#d55e00"
CHANGE = "#cc79a7"


def thread_colour(thread: int) -> str:
    """Colour of an instance."""
    return _THREADS[thread % len(_THREADS)]


def thread_dash(thread: int) -> str:
    """Second cue beside the colour, from the ninth thread on."""
    return _DASHES[(thread // len(_THREADS)) % len(_DASHES)]
