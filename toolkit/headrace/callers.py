"""Find the line outside the package to which a warning should point."""

from __future__ import annotations

import sys
from pathlib import Path

HOUSE = str(Path(__file__).resolve().parent)
"""The folder of the package: what lies in it is not the user's."""


def depth_of_caller() -> int:
    """Return the `stacklevel` with which the caller's warning points to the line outside the package that led to it."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(HOUSE):
        depth, frame = depth + 1, frame.f_back
    return depth
