"""Event time as integers: its ends and its smallest step.

Event times stay below 2**62 in magnitude, window size included, so that no
boundary computed from one overflows.
"""

from __future__ import annotations

MIN_TIME = -(2**62)
"""Watermark before anything is known: below every event time."""

END_OF_TIME = 2**62
"""Watermark after the last tuple: above every event time and window boundary."""

DELTA = 1
"""The smallest step of event time, the papers' delta: one unit of the column."""
