"""Numbers with units: in words, and on axes."""

from __future__ import annotations

import math

AXIS_FORMATS = {"fraction": "0.[0]%", "bytes": "0.[0]b"}
"""Unit -> Bokeh's format of the labels of an axis; `AXIS_FORMAT` for the others."""
AXIS_FORMAT = "0.[0]a"


def amount(value: float, unit: str = "") -> str:
    """A number for reading: 1,234 or 12.3 k or 4.56 M."""
    if not math.isfinite(value):
        return "unknown"
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scale = {"G": 1e9, "M": 1e6, "k": 1e3}[letter]
            # Of a short word it is one unit, kB or ktuples; a long one is read by itself.
            return f"{value / scale:,.1f} {letter}{unit if len(unit) < 12 else f' {unit}'}".strip()
    return f"{value:,.0f} {unit}".strip()


def milliseconds(value: float) -> str:
    """A duration for reading."""
    if not math.isfinite(value):
        return "unknown"
    if value >= 1_000:
        return f"{value / 1_000:,.2f} s"
    return f"{value:,.3g} ms"


def in_words(value: float, unit: str) -> str:
    """A value of a measure for reading."""
    if not math.isfinite(value):
        return "unknown"
    if unit == "ms":
        return milliseconds(value)
    if unit == "fraction":
        return f"{value:.1%}"
    if unit == "bytes":
        return amount(value, "B")
    if abs(value) < 100 and value != round(value):
        return f"{value:.3g} {unit}".strip()
    return amount(value, unit)


def axis_label(unit: str) -> str:
    """What stands beside an axis."""
    return "%" if unit == "fraction" else unit


def axis_format(unit: str) -> str:
    """Bokeh's format of the labels of an axis."""
    return AXIS_FORMATS.get(unit, AXIS_FORMAT)
