"""Numbers with units: as text, and on axes."""

from __future__ import annotations

import math

from bokeh.models import CustomJSTickFormatter, NumeralTickFormatter, TickFormatter

OF_A_CORE = "fraction of a core"
AXIS_FORMATS = {"fraction": "0.[0]%", OF_A_CORE: "0.[0]%"}
"""Unit -> Bokeh's format of the labels of an axis; `_SHORT` for the others."""
# As in texts: Bokeh's own formats have "1m" for a million and "KB" for 1,000 bytes.
_SHORT = """
const [by, letter] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([by]) => Math.abs(tick) >= by) ?? [1, ""];
return `${Math.round((100 * tick) / by) / 100}${letter}`;
"""


def amount(value: float, unit: str = "") -> str:
    """Format a number for reading: 1,234 or 12.3 k or 4.56 M."""
    if not math.isfinite(value):
        return "unknown"
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scale = {"G": 1e9, "M": 1e6, "k": 1e3}[letter]
            # A symbol takes the letter as its prefix, a word does not: 12 kB, 12 k events.
            return f"{value / scale:,.1f} {letter}{unit if len(unit) < 2 else f' {unit}'}".strip()
    return f"{value:,.0f} {unit}".strip()


def milliseconds(value: float) -> str:
    """Format a duration for reading."""
    if not math.isfinite(value):
        return "unknown"
    if value >= 1_000:
        return f"{value / 1_000:,.2f} s"
    if 0 < value < 0.1:
        return f"{value * 1_000:.3g} µs"
    return f"{value:,.3g} ms"


def in_words(value: float, unit: str) -> str:
    """Format a value of a measure for reading.

    Examples
    --------
    >>> in_words(2_955, "ns"), in_words(28_300, "ns"), in_words(0.5, "fraction")
    ('2,955 ns', '28.3 µs', '50.0%')
    """
    if not math.isfinite(value):
        return "unknown"
    if unit == "ms" or (unit == "ns" and value >= 1e4):
        return milliseconds(value / (1e6 if unit == "ns" else 1))
    if unit == "fraction":
        return f"{value:.1%}"
    if unit == OF_A_CORE:
        return f"{value:.0%} of a core"
    if unit == "bytes":
        return amount(value, "B")
    if abs(value) < 100 and value != round(value):
        return f"{value:.3g} {unit}".strip()
    return amount(value, unit)


def axis_label(unit: str) -> str:
    """Return the label of an axis."""
    return {"fraction": "%", OF_A_CORE: "% of a core"}.get(unit, unit)


def unit_beside(unit: str) -> str:
    """Return what follows a number that an axis's format has written: nothing where the format writes the unit."""
    return "" if unit in AXIS_FORMATS else unit


def axis_formatter(unit: str = "") -> TickFormatter:
    """Return what formats the tick labels of an axis."""
    if unit in AXIS_FORMATS:
        return NumeralTickFormatter(format=AXIS_FORMATS[unit])
    return CustomJSTickFormatter(code=_SHORT)
