"""scalejoin: the band join of two streams (STRETCH, Operator 10; section 8.3, query Q3).

WA = delta, WS = size. A left tuple meets a right one when they are less than WS apart and both
|x - a| and |y - b| are at most the band. No key says which pairs could match, so Operator 10 compares every pair; here an index
of both bands finds them. ``headrace bench q3`` measures both.
"""

from __future__ import annotations

import headrace as hr
from headrace.apps.app import TIME, App, Option
from headrace.reference import apps as reference


def build(left: hr.Stream, right: hr.Stream, size: str, band: float) -> hr.Stream:
    return left.join(right, within=size, where=hr.band("x", "a", band) & hr.band("y", "b", band))


def expected(left, right, size: str, band: float, unit: str):
    return reference.scalejoin(left, right, band, size, unit)


def read_band(text: str) -> float:
    try:
        band = int(text) if text.strip().isdecimal() else float(text)
    except ValueError:
        band = -1.0
    if not 0 <= band < float("inf"):
        raise ValueError("give a number from 0")
    return band


APP = App(
    name="scalejoin",
    help="join two streams where x is near a and y is near b",
    left=(TIME, ("x", "integer"), ("y", "float")),
    right=(TIME, ("a", "integer"), ("b", "float"), ("c", "float"), ("d", "bool")),
    has_right=True,
    build=build,
    reference=expected,
    size="5min",
    options=(Option("band", 10, read_band, "largest difference that still matches (default 10)"),),
)
